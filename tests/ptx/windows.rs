//! Launches of every kernel of windows.

use cudnn::backend::cuda::launch::Launch;
use cudnn::desc::convolution::{ConvolutionGeometry, ConvolutionMode};
use cudnn::desc::tensor::Format;
use cudnn::desc::{
    ConvolutionDescriptor, FilterDescriptor, LrnDescriptor, NanPropagation, PoolingDescriptor, PoolingMode,
};
use cudnn::dtype::DataType;
use cudnn::layout::Dims;
use cudnn::mode::Mode;
use cudnn::ops::columns::ColumnsPlan;
use cudnn::ops::pooling::{self, Forward};
use cudnn::ops::{Plan, Scaling, response};

use crate::{SCALED, collected, packed, place};

/// Each with the kernel that it must end in.
pub fn launches() -> Vec<(String, Launch)> {
    let mut list = Vec::new();
    let mut push = |kernel: String, plan: &dyn Plan| {
        let launches = collected(plan, &[0x1000, 0x2000, 0x3000, 0x4000, 0x5000].map(place));
        assert_eq!(launches.iter().map(|launch| launch.kernel).collect::<Vec<_>>(), [kernel.as_str()]);
        list.extend(launches.into_iter().map(|launch| (kernel.clone(), launch)));
    };
    for (data_type, suffix) in [(DataType::Half, "f32"), (DataType::Double, "f64")] {
        let x = packed(data_type, Format::Nhwc, &[2, 3, 8, 8]);
        let y = packed(data_type, Format::Nchw, &[2, 3, 4, 4]);
        for (mode, name) in [(PoolingMode::Max, "max"), (PoolingMode::AverageWithPadding, "average")] {
            // Of few taps, and of more.
            for (side, few) in [(2, true), (4, false)] {
                let (sides, zeros, pairs) = (Dims::filled(2, side), Dims::filled(2, 0), Dims::filled(2, 2));
                let strides = if few { pairs } else { Dims::filled(2, 1) };
                let desc = PoolingDescriptor::new(mode, NanPropagation::Keep, sides, zeros, strides).unwrap();
                let plan = pooling::forward(&desc, &x, &y, SCALED, Mode::Extended).unwrap();
                let kernel = |name: &str, front: &str| match suffix {
                    "f32" if !front.is_empty() => format!("{front}_window_{name}"),
                    _ => format!("window_{name}_{suffix}"),
                };
                let few = if few { "few" } else { "" };
                push(kernel(name, few), &plan);
                let forward = Some(Forward { x: &x, y: &y });
                let plan = pooling::backward(&desc, forward, &y, &x, SCALED, Mode::Extended).unwrap();
                push(kernel(&format!("{name}_gradient"), if name == "max" { "pair" } else { few }), &plan);
            }
        }
        // Along three axes, and along one.
        let volume = packed(data_type, Format::Nchw, &[2, 3, 4, 4, 4]);
        let pairs = Dims::filled(3, 2);
        let zeros = Dims::filled(3, 0);
        let desc =
            PoolingDescriptor::new(PoolingMode::Max, NanPropagation::Keep, pairs, zeros, pairs).unwrap();
        let small = packed(data_type, Format::Nchw, &[2, 3, 2, 2, 2]);
        let forward = Some(Forward { x: &volume, y: &small });
        let plan = pooling::backward(&desc, forward, &small, &volume, SCALED, Mode::Extended).unwrap();
        push(format!("window_max_gradient_{suffix}"), &plan);
        let desc = LrnDescriptor::default();
        let plan = response::cross_channel(&desc, &x, &x, SCALED, Mode::Extended).unwrap();
        let pair = |name: &str| match suffix {
            "f32" => format!("pair_window_{name}"),
            _ => format!("window_{name}_{suffix}"),
        };
        push(pair("response"), &plan);
        let plan = response::cross_channel_gradient(&desc, &x, &x, &x, SCALED, Mode::Extended);
        push(pair("response_gradient"), &plan.unwrap());
        let plan = response::divisive(&desc, &volume, &volume, false, SCALED, Mode::Extended);
        push(format!("window_response_{suffix}"), &plan.unwrap());
        let (means, wanted) = (false, false);
        let plan =
            response::divisive_gradient(&desc, &volume, &volume, means, wanted, SCALED, Mode::Extended);
        push(format!("window_response_gradient_{suffix}"), &plan.unwrap());
    }
    // Of four axes.
    for (data_type, suffix) in [(DataType::Half, "f32"), (DataType::Double, "f64")] {
        let x = packed(data_type, Format::Nchw, &[2, 3, 4, 4, 4, 4]);
        let y = packed(data_type, Format::Nchw, &[2, 3, 2, 2, 2, 2]);
        for (mode, name) in [(PoolingMode::Max, "max"), (PoolingMode::AverageWithPadding, "average")] {
            let pairs = Dims::filled(4, 2);
            let desc =
                PoolingDescriptor::new(mode, NanPropagation::Keep, pairs, Dims::filled(4, 0), pairs).unwrap();
            let plan = pooling::forward(&desc, &x, &y, Scaling::MOVE, Mode::Extended).unwrap();
            push(format!("wide_window_{name}_{suffix}"), &plan);
            let forward = Some(Forward { x: &x, y: &y });
            let plan = pooling::backward(&desc, forward, &y, &x, Scaling::MOVE, Mode::Extended).unwrap();
            push(format!("wide_window_{name}_gradient_{suffix}"), &plan);
        }
    }
    let (zeros, ones) = (Dims::filled(2, 0), Dims::filled(2, 1));
    let geometry =
        ConvolutionGeometry::new(ConvolutionMode::CrossCorrelation, DataType::Float, zeros, ones, ones);
    let desc = ConvolutionDescriptor { geometry: geometry.unwrap(), ..ConvolutionDescriptor::default() };
    let filter = FilterDescriptor::new(DataType::Float, Format::Nchw, 4, &[2, 3, 3, 3], Mode::Extended);
    let x = packed(DataType::Float, Format::Nchw, &[2, 3, 8, 8]);
    let plan = ColumnsPlan::new(&x, &filter.unwrap(), &desc, Mode::Extended).unwrap();
    push("window_columns".to_owned(), &plan);
    list
}
