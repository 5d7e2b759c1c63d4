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
    for (data_type, grid_type, suffix) in [
        (DataType::Int8, DataType::Half, "f32"),
        (DataType::Double, DataType::Double, "f64"),
        (DataType::Float, DataType::Float, "of_f32"),
        (DataType::Half, DataType::Half, "of_f16"),
        (DataType::Bfloat16, DataType::Float, "of_bf16"),
    ] {
        let is_constant = suffix.starts_with("of_");
        let desc =
            SpatialTransformerDescriptor { data_type: grid_type, rank: 4, dims: Dims::new(&[2, 3, 4, 5]) };
        let x = packed(data_type, Format::Nchw, &[2, 3, 6, 7]);
        let y = packed(data_type, Format::Nhwc, &[2, 3, 4, 5]);
        let mut push = |kernels: &[&str], launches: Vec<Launch>| {
            let kernels: Vec<String> = kernels.iter().map(|name| format!("sample_{name}_{suffix}")).collect();
            assert_eq!(launches.iter().map(|launch| launch.kernel).collect::<Vec<_>>(), kernels);
            list.extend(kernels.into_iter().zip(launches));
        };
        if !is_constant {
            push(&["affine_grid"], collected(&GridPlan::forward(&desc).unwrap(), &at[..2]));
            push(&["affine_gradient"], collected(&GridPlan::backward(&desc).unwrap(), &at[..2]));
        }
        let plan = SamplerPlan::forward(&desc, &x, &y, Scaling::MOVE, Mode::Extended).unwrap();
        push(&["bilinear"], collected(&plan, &at[..3]));
        let plan = SamplerPlan::backward(&desc, [&x, &x, &y], [Scaling::MOVE; 2], Mode::Extended).unwrap();
        push(&["data_gradient", "grid_gradient"], collected(&plan, &at));
    }
    list
}

/// The kernels of one type have no loop over parts of the work: a block has one.
#[test]
fn every_part_of_the_work_has_a_block() {
    let images = 3 << 20;
    let dims = [images, 40, 1, 5];
    let desc = SpatialTransformerDescriptor { data_type: DataType::Float, rank: 4, dims: Dims::new(&dims) };
    let at = [0x1000, 0x2000, 0x3000, 0x4000, 0x5000].map(place);
    let x = packed(DataType::Float, Format::Nchw, &dims);
    let blocks = |launches: Vec<Launch>| launches.iter().map(|launch| launch.grid).collect::<Vec<_>>();
    let plan = SamplerPlan::forward(&desc, &x, &x, Scaling::MOVE, Mode::Extended).unwrap();
    // Five positions, and two threads for up to 32 channels each, since there are so many.
    let sampled = images as u32 * 10 / 256;
    assert_eq!(blocks(collected(&plan, &at[..3])), [[sampled, 1, 1]]);
    let plan = SamplerPlan::backward(&desc, [&x, &x, &x], [Scaling::MOVE; 2], Mode::Extended).unwrap();
    // Two blocks for 40 channels of a picture; five positions.
    let (data, grid) = (images as u32 * 2, images as u32 * 5 / 256);
    assert_eq!(blocks(collected(&plan, &at)), [[data, 1, 1], [grid, 1, 1]]);
}
