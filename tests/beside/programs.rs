//! Programs of `c_tests/` that check what they compute, with every call served by the double.

use crate::double::setting;

/// Programs, and a call that the double has to serve in each.
const PROGRAMS: &[(&str, &str)] = &[
    ("transform.c", "cudnnTransformTensor"),
    ("convolution.c", "cudnnConvolutionForward"),
    ("convolution_directions.c", "cudnnConvolutionBackwardData"),
    ("convolution_queries.c", "cudnnGetConvolutionForwardWorkspaceSize"),
    ("layers.c", "cudnnLRNCrossChannelForward"),
    ("recurrent.c", "cudnnRNNForward"),
    // The calls of version 6 go by those of version 8.
    ("recurrent_clients.c", "cudnnRNNForward"),
    ("attention.c", "cudnnMultiHeadAttnForward"),
    ("attention_training.c", "cudnnMultiHeadAttnBackwardData"),
    ("graph.c", "cudnnBackendExecute"),
    ("sequences_and_graphs.c", ""),
    ("ctc.c", "cudnnCTCLoss"),
    ("spatial_transformer.c", "cudnnSpatialTfSamplerForward"),
    ("descriptors.c", ""),
    ("misuse.c", ""),
    ("in_place.c", ""),
    ("threads.c", ""),
    ("perceptron.c", ""),
];

/// Those of them that no library refuses anything, so that a status that is the original's own does
/// not differ from ours.
const WITHOUT_MISUSE: &[&str] = &[
    "transform.c",
    "convolution_directions.c",
    "recurrent.c",
    "attention.c",
    "attention_training.c",
    "graph.c",
    "sequences_and_graphs.c",
    "descriptors.c",
    "in_place.c",
    "threads.c",
    "perceptron.c",
];

#[test]
fn programs_give_the_same_results_by_the_original() {
    let Some(setting) = setting() else { return };
    for (source, call) in PROGRAMS {
        let program = setting.program(source);
        for route in ["", "all=original"] {
            let mut command = setting.command(&program, setting.whole());
            command.env("CUDNN_SHIM_ROUTE", route);
            let (counts, _) = setting.counted(&mut command, source);
            if !call.is_empty() && route == "all=original" {
                assert!(counts.get(*call).is_some_and(|&count| count > 0), "{source}: {counts:?}");
            }
        }
    }
}

#[test]
fn programs_run_where_the_original_refuses_everything() {
    let Some(setting) = setting() else { return };
    let all: String = cudnn::original::FAMILIES
        .iter()
        .flat_map(|family| family.calls())
        .chain(["cudnnBackendFinalize"])
        .map(|call| format!("{call},"))
        .collect();
    for source in WITHOUT_MISUSE {
        let program = setting.program(source);
        let mut command = setting.command(&program, setting.whole());
        command.env("CUDNN_SHIM_ROUTE", "all=original").env("DOUBLE_REFUSES", &all);
        setting.counted(&mut command, source);
    }
}
