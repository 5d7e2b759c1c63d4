//! Launches of every kernel of dropout and normalisation.

use cudnn::backend::cuda::plan::Launch;
use cudnn::desc::normalization::{BatchNormMode, parameters};
use cudnn::desc::{DropoutDescriptor, tensor::Format};
use cudnn::dtype::DataType;
use cudnn::mode::Mode;
use cudnn::ops::Scaling;
use cudnn::ops::batch_norm::{Backward, BackwardPlan, Forward, ForwardPlan, Parameters, Source};
use cudnn::ops::dropout::{DropoutPlan, Pass};

use crate::{collected, packed, place};

/// Each with the kernel that it must end in.
pub fn launches() -> Vec<(String, Launch)> {
    let mut list = Vec::new();
    let mut push = |kernels: &[&str], launches: Vec<Launch>| {
        assert_eq!(launches.iter().map(|launch| launch.kernel).collect::<Vec<_>>(), kernels);
        list.extend(launches.into_iter().map(|launch| (launch.kernel.to_owned(), launch)));
    };
    let dims = [3, 4, 5, 6];
    let [x, last] = [Format::Nchw, Format::Nhwc].map(|format| packed(DataType::Half, format, &dims));
    let dropout = DropoutDescriptor::default();
    let at = [0x1000, 0x2000, 0x3000, 0x4000].map(place);
    for (src, kernels) in [
        (&x, &["random_run", "random_advance"][..]),
        (&last, &["random_draw", "random_apply", "random_advance"]),
    ] {
        let pass = Pass { src: ("xdesc", src), dst: ("ydesc", &x), reserve_size: 48, in_place: false };
        let plan = DropoutPlan::forward(&dropout, pass, Mode::Extended).unwrap();
        push(kernels, collected(&plan, &at));
        let plan = DropoutPlan::backward(&dropout, pass, Mode::Extended).unwrap();
        push(&["random_apply"], collected(&plan, &at[..3]));
    }
    let at: [_; 11] = std::array::from_fn(|k| place(0x1000 * (k + 1)));
    for (data_type, [given, batch, backward]) in [
        (DataType::Float, ["normalise_given_f32", "normalise_batch_f32", "normalise_backward_f32"]),
        (DataType::Double, ["normalise_given_f64", "normalise_batch_f64", "normalise_backward_f64"]),
    ] {
        let x = packed(data_type, Format::Nchw, &dims);
        let group = parameters(&x, false, Mode::Extended).unwrap();
        let parameters = Parameters { name: "s", tensor: &group };
        let training = Source::Batch { factor: 0.1, running: [true; 2], saved: [true; 2] };
        for (source, kernel) in [(Source::Given, given), (training, batch)] {
            let call = Forward {
                mode: BatchNormMode::Spatial,
                x: &x,
                y: &x,
                z: None,
                parameters,
                source,
                epsilon: 1e-5,
                scaling: Scaling::MOVE,
                fused: None,
                reserve_size: 0,
                names: [""; 6],
            };
            push(&[kernel], collected(&ForwardPlan::new(call, Mode::Extended).unwrap(), &at[..10]));
        }
        let call = Backward {
            mode: BatchNormMode::Spatial,
            x: &x,
            dy: &x,
            dx: &x,
            dz: None,
            parameters,
            saved: [true; 2],
            bias: false,
            epsilon: 1e-5,
            scaling: Scaling::MOVE,
            parameter_scaling: Scaling::MOVE,
            fused: None,
            reserve_size: 0,
            names: [""; 6],
        };
        push(&[backward], collected(&BackwardPlan::new(call, Mode::Extended).unwrap(), &at));
    }
    list
}
