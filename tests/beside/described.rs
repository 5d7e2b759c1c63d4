//! Plans of the real original for our legacy calls on a device that is described, of which there is
//! none: what it makes of our graphs, and the workspace that it tells. Nothing runs.

use std::ffi::OsString;

use cudnn::desc::graph::{Kind, Type};
use cudnn::desc::*;
use cudnn::dtype::DataType;
use cudnn::layout::Dims;
use cudnn::mode::Mode;
use cudnn::original::{Device, Graph, Legacy, LegacyPlan, Pass, Twin};

use crate::double::setting;
use crate::real::{Found, alone, opened, taking_driver};

/// A device of compute capability 9.0.
const PROPERTIES: &str = r#"{"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 132, "smCountOrigin": 0, "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "oversizedSharedMemoryPerBlock": 0, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "deviceVer": 900, "driverVer": 12090, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000, "memoryBusWidth": 5120, "l2CacheSize": 52428800, "deviceName": "device 9.0", "totalGlobalMem": 85000000000, "cudaDeviceId": 0}"#;
/// `CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION`.
const JSON: i32 = 2702;

/// The folders of what the original loads besides: a driver, cuBLASLt, the run-time compiler, as
/// NVIDIA's packages lie beside each other. Most engines are compiled at run time, for which the
/// driver takes code.
fn libraries(original: &Found) -> Option<OsString> {
    if original.major == 8 {
        println!("skipped: 8.9.7 takes no description of a device");
        return None;
    }
    let packages = original.folder.join("../..").canonicalize().ok()?;
    let folders = ["cu13/lib", "cublas/lib", "cuda_nvrtc/lib"].map(|folder| packages.join(folder));
    let has_products = |folder: &std::path::PathBuf| {
        folder.join("libcublasLt.so.13").is_file() || folder.join("libcublasLt.so.12").is_file()
    };
    if !folders.iter().any(has_products) {
        println!("skipped: {} has no cuBLASLt beside it, which plans need", original.folder.display());
        return None;
    }
    std::env::join_paths(folders.into_iter().chain([taking_driver(setting()?)])).ok()
}

fn tensor(format: Format, dims: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_format(DataType::Half, format, 4, dims, Mode::Extended).expect("valid")
}

fn convolution(pass: Pass) -> Legacy {
    let dims = |values: &[i64]| Dims::new(values);
    let geometry = ConvolutionGeometry::new(
        ConvolutionMode::CrossCorrelation,
        DataType::Float,
        dims(&[1, 1]),
        dims(&[1, 1]),
        dims(&[1, 1]),
    );
    let desc = ConvolutionDescriptor {
        geometry: geometry.expect("valid"),
        groups: 1,
        math_type: MathType::TensorOp,
        reorder: Reorder::None,
    };
    let [x, w, y] =
        [[8, 64, 56, 56], [128, 64, 3, 3], [8, 128, 56, 56]].map(|dims| tensor(Format::Nhwc, &dims));
    Legacy::Convolution { pass, desc, tensors: [x, w, y], factors: [1.0, 0.0] }
}

#[test]
fn plans_of_legacy_calls_are_made_for_a_described_device() {
    let test = "described::plans_of_legacy_calls_are_made_for_a_described_device";
    let Some(original) = alone(test, libraries) else { return };
    let library = opened(&original);
    let graph = Graph::new(library);
    let properties: Twin = graph.create(Kind::DeviceProperties as i32).expect("a description");
    let text = format!("{PROPERTIES}\0");
    let count = text.len() as i64;
    // SAFETY: an object that is alive, and as many bytes.
    unsafe { graph.set(properties.pointer(), [JSON, Type::Char as i32], count, text.as_ptr().cast()) }
        .expect("the text of a device");
    graph.finalize(&properties).expect("a device");

    let activation =
        ActivationDescriptor { mode: ActivationMode::Relu, coefficient: 0.0, ..Default::default() };
    let image = tensor(Format::Nhwc, &[8, 64, 56, 56]);
    let pooling = |mode| {
        let dims = |extent| Dims::new(&[extent; 2]);
        PoolingDescriptor::new(mode, NanPropagation::Keep, dims(2), dims(0), dims(2)).expect("valid")
    };
    let (averages, maxima) =
        (pooling(PoolingMode::AverageWithPadding), pooling(PoolingMode::MaxDeterministic));
    let half = tensor(Format::Nhwc, &[8, 64, 28, 28]);
    // In NHWC the gradient of maxima takes the places that a forward graph tells, which legacy
    // calls do not have.
    let (planes, half_planes) =
        (tensor(Format::Nchw, &[8, 64, 56, 56]), tensor(Format::Nchw, &[8, 64, 28, 28]));
    let channels =
        TensorDescriptor::with_format(DataType::Float, Format::Nhwc, 4, &[1, 64, 1, 1], Mode::Extended);
    let of = channels.expect("valid");
    let calls = [
        ("convolution", convolution(Pass::Y)),
        ("data gradient of the convolution", convolution(Pass::Dx)),
        ("filter gradient of the convolution", convolution(Pass::Dw)),
        ("activation", Legacy::Activation { desc: activation, tensors: [image, image], factors: [1.0, 0.0] }),
        (
            "gradient of the activation",
            Legacy::ActivationGradient { desc: activation, tensors: [image; 3], factors: [1.0, 0.0] },
        ),
        ("pooling", Legacy::Pooling { desc: averages, tensors: [image, half], factors: [1.0, 0.0] }),
        (
            "gradient of the pooling of averages",
            Legacy::PoolingGradient {
                desc: averages,
                tensors: [image, half, half, image],
                factors: [1.0, 0.0],
            },
        ),
        (
            "gradient of the pooling of maxima",
            Legacy::PoolingGradient {
                desc: maxima,
                tensors: [planes, half_planes, half_planes, planes],
                factors: [1.0, 0.0],
            },
        ),
        (
            "normalisation in training",
            Legacy::Training {
                tensors: [image, image, of],
                epsilon: 1e-5,
                factor: Some(0.1),
                factors: [1.0, 0.0],
            },
        ),
        (
            "gradient of the normalisation",
            Legacy::TrainingGradient {
                tensors: [image, image, image, of],
                epsilon: 1e-5,
                factors: [[1.0, 0.0]; 2],
            },
        ),
        (
            "normalisation in inference",
            Legacy::Inference { tensors: [image, image, of], epsilon: 1e-5, factors: [1.0, 0.0] },
        ),
    ];
    let mut refused = Vec::new();
    for (name, call) in &calls {
        match LegacyPlan::new(library, Device::Described(&properties), call, usize::MAX) {
            Ok(plan) => {
                println!("{name}: {} bytes", plan.workspace());
                // With a byte less than its plan takes the call gets another one, or none.
                if let Some(less) = plan.workspace().checked_sub(1)
                    && let Ok(other) = LegacyPlan::new(library, Device::Described(&properties), call, less)
                {
                    assert!(other.workspace() <= less, "{name}");
                }
            }
            Err(failure) => refused.push(format!("{name}: {failure:?}")),
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
}
