//! Launches of every kernel of causal convolutions.

use cudnn::backend::cuda::launch::Launch;
use cudnn::dtype::DataType;
use cudnn::ops::causal_conv::Form;

use crate::{collected, place};
use testkit::causal::{call, plans};

/// Each with the kernel that it must end in.
pub fn launches() -> Vec<(String, Launch)> {
    let mut list = Vec::new();
    let at = [0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x6000, 0x7000, 0x8000, 0x9000, 0xa000].map(place);
    for (data_type, suffix) in [(DataType::Half, "f32"), (DataType::Double, "f64")] {
        let direct = Form::Direct { channels_inside: true, silu: true };
        for (form, kernels) in [
            (direct, [vec!["forward"], vec!["data", "weights"]]),
            (Form::Gated, [vec!["gated"], vec!["gated_data", "gated_weights"]]),
        ] {
            let plans = plans(&call(form, [2, 20, 300, 4, 8], data_type));
            for ((plan, kernels), operands) in plans.iter().zip(kernels).zip([0, 1]) {
                let operands = if form == Form::Gated { [6, 10] } else { [4, 7] }[operands];
                let launches = collected(plan, &at[..operands]);
                let names: Vec<_> = kernels.iter().map(|name| format!("causal_{name}_{suffix}")).collect();
                assert_eq!(launches.iter().map(|launch| launch.kernel).collect::<Vec<_>>(), names);
                list.extend(names.into_iter().zip(launches));
            }
        }
    }
    list
}
