//! Launches of every kernel of CTC losses.

use cudnn::backend::cuda::launch::Launch;
use cudnn::desc::{CtcLossDescriptor, Format};
use cudnn::dtype::DataType;
use cudnn::mode::Mode;
use cudnn::ops::ctc::{CtcPlan, Lengths, Tensors};

use crate::{collected, packed, place};

/// Each with the kernel that it must end in.
pub fn launches() -> Vec<(String, Launch)> {
    let at = [0x1000, 0x2000, 0x3000, 0x4000].map(place);
    let mut list = Vec::new();
    for (data_type, suffix) in [(DataType::Float, "f32"), (DataType::Double, "f64")] {
        let loss =
            CtcLossDescriptor { compute_type: data_type, normalization: 1, gradient: 0, max_label_length: 0 };
        let probs = packed(data_type, Format::Nchw, &[5, 1, 4]);
        let tensors = Tensors {
            loss: &loss,
            probs: &probs,
            gradients: Some(&probs),
            has_gradients: true,
            algorithm: 0,
        };
        let lengths = Lengths { labels: &[2], inputs: &[5] };
        let plan = CtcPlan::with_host_labels(tensors, &[1, 2], lengths, usize::MAX, Mode::Extended).unwrap();
        let launches = collected(&plan, &at);
        let kernels = ["words_write", "ctc_prepare"].map(str::to_owned).into_iter();
        let others = ["statistics", "walk", "gradients"].map(|name| format!("ctc_{name}_{suffix}"));
        let kernels: Vec<String> = kernels.chain(others).collect();
        assert_eq!(launches.iter().map(|launch| launch.kernel).collect::<Vec<_>>(), kernels);
        list.extend(kernels.into_iter().zip(launches));
    }
    list
}
