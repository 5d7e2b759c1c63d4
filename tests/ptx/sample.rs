//! Launches of every kernel of spatial transformers.

use cudnn::backend::cuda::launch::Launch;
use cudnn::desc::{SpatialTransformerDescriptor, tensor::Format};
use cudnn::dtype::DataType;
use cudnn::layout::Dims;
use cudnn::mode::Mode;
use cudnn::ops::Scaling;
use cudnn::ops::spatial_transformer::{GridPlan, SamplerPlan};

use crate::{collected, packed, place};

/// Each with the kernel that it must end in.
pub fn launches() -> Vec<(String, Launch)> {
    let mut list = Vec::new();
    let at = [0x1000, 0x2000, 0x3000, 0x4000, 0x5000].map(place);
    for (data_type, suffix) in [(DataType::Half, "f32"), (DataType::Double, "f64")] {
        let desc = SpatialTransformerDescriptor { data_type, rank: 4, dims: Dims::new(&[2, 3, 4, 5]) };
        let x = packed(data_type, Format::Nchw, &[2, 3, 6, 7]);
        let y = packed(data_type, Format::Nhwc, &[2, 3, 4, 5]);
        let mut push = |kernels: &[&str], launches: Vec<Launch>| {
            let kernels: Vec<String> = kernels.iter().map(|name| format!("sample_{name}_{suffix}")).collect();
            assert_eq!(launches.iter().map(|launch| launch.kernel).collect::<Vec<_>>(), kernels);
            list.extend(kernels.into_iter().zip(launches));
        };
        push(&["affine_grid"], collected(&GridPlan::forward(&desc).unwrap(), &at[..2]));
        push(&["affine_gradient"], collected(&GridPlan::backward(&desc).unwrap(), &at[..2]));
        let plan = SamplerPlan::forward(&desc, &x, &y, Scaling::MOVE, Mode::Extended).unwrap();
        push(&["bilinear"], collected(&plan, &at[..3]));
        let plan = SamplerPlan::backward(&desc, [&x, &x, &y], [Scaling::MOVE; 2], Mode::Extended).unwrap();
        push(&["data_gradient", "grid_gradient"], collected(&plan, &at));
    }
    list
}
