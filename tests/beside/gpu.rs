//! Handles on a GPU: each scenario of `c_tests/beside/gpu.c`, and programs of `c_tests/`, with the
//! driver double as the device of both libraries.

use std::collections::BTreeMap;

use cudnn::original::{FAMILIES, Family};

use crate::double::{Core, driver, setting};
use crate::programs;

/// Runs a scenario; what the original's double counted. `None`, said as a skip, without a device.
fn run(scenario: &str, variables: &[(&str, &str)]) -> Option<BTreeMap<String, u64>> {
    let (setting, driver) = (setting()?, driver()?);
    // Scenarios run at once.
    static PROGRAM: std::sync::OnceLock<std::path::PathBuf> = std::sync::OnceLock::new();
    let program = PROGRAM.get_or_init(|| setting.gpu_program("beside/gpu.c", driver));
    let mut command = setting.command_on(Core::Gpu, program, setting.whole());
    // Data lies on the device, and work waits in its queue.
    command.env_remove("DRIVER_DOUBLE_PAGEABLE").env_remove("CUDA_LAUNCH_BLOCKING");
    command.arg(scenario).env("THE_DOUBLE", setting.whole().join("libcudnn.so.9"));
    Some(setting.counted(command.envs(variables.iter().copied()), scenario).0)
}

#[test]
fn a_handle_on_a_gpu_owns_one_of_the_original() {
    let Some(counts) = run("owned", &[]) else { return };
    assert_eq!([counts["cudnnCreate"], counts["cudnnDestroy"]], [2, 2]);
}

#[test]
fn captures_record_the_calls_of_both_libraries() {
    let Some(counts) = run("captures", &[]) else { return };
    // Once per change, and for nothing else.
    assert_eq!(counts["cudnnSetStream"], 7);
    assert_eq!(counts["cudnnActivationForward"], 10);
    let Some(counts) = run("captures", &[("CUDNN_SHIM_ROUTE", "via=graph")]) else { return };
    assert_eq!((counts.get("cudnnActivationForward"), counts["cudnnBackendExecute"]), (None, 10));
}

#[test]
fn twins_are_made_while_a_stream_is_captured() {
    let Some(counts) = run("generations", &[]) else { return };
    assert_eq!(counts["cudnnCreateTensorDescriptor"], 6, "{counts:?}");
    assert_eq!(counts["cudnnDestroyTensorDescriptor"], 6, "{counts:?}");
    assert_eq!(counts["cudnnCreateActivationDescriptor"], 6, "{counts:?}");
}

#[test]
fn what_the_original_refuses_is_captured_by_us() {
    for (call, route) in [("cudnnActivationForward", "via=call"), ("cudnnBackendExecute", "via=graph")] {
        let refused = format!("{call},");
        let Some(counts) = run("refused", &[("DOUBLE_REFUSES", &refused), ("CUDNN_SHIM_ROUTE", route)])
        else {
            return;
        };
        assert_eq!(counts[call], 1, "{route}");
    }
}

#[test]
fn threads_share_handles_and_twins() {
    let Some(counts) = run("threads", &[]) else { return };
    assert_eq!(counts["cudnnActivationForward"], 160);
    assert_eq!(counts["cudnnCreateTensorDescriptor"], counts["cudnnDestroyTensorDescriptor"]);
}

/// Programs that check what they compute, in memory that the device reaches, with a call that the
/// original has to serve in each.
const PROGRAMS: &[(&str, &str)] = &[
    ("convolution_directions.c", "cudnnConvolutionBackwardData"),
    ("convolution_queries.c", "cudnnGetConvolutionForwardWorkspaceSize"),
    ("layers.c", "cudnnLRNCrossChannelForward"),
    ("recurrent.c", "cudnnRNNForward"),
    ("attention.c", "cudnnMultiHeadAttnForward"),
    ("graph.c", "cudnnBackendExecute"),
    ("ctc.c", "cudnnCTCLoss"),
    ("fused_operations.c", "cudnnFusedOpsExecute"),
    ("spatial_transformer.c", "cudnnSpatialTfSamplerForward"),
    ("transform.c", "cudnnTransformTensor"),
    ("factors.c", "cudnnScaleTensor"),
    ("beside/legacy.c", "cudnnPoolingBackward"),
    ("beside/layers.c", "cudnnDivisiveNormalizationBackward"),
    ("in_place.c", ""),
];

#[test]
fn programs_give_the_same_results_by_the_original_on_a_gpu() {
    let (Some(setting), Some(_)) = (setting(), driver()) else { return };
    let served = programs::served_in(setting, Core::Gpu, PROGRAMS);
    let has_none = |family: &&Family| !family.calls().any(|call| served.contains(call));
    let left: Vec<&str> = FAMILIES.iter().filter(has_none).map(|family| family.name).collect();
    assert!(left.is_empty(), "families without a program on a GPU: {left:?}");
}
