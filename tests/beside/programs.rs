//! Programs of `c_tests/` that check what they compute, with every call served by the double.

use std::collections::BTreeSet;

use cudnn::original::{FAMILIES, Family};
use testkit::extent;

use crate::common;
use crate::double::{Core, Setting, setting};

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
    // Among them gradients in vectors of another size, which those do not take.
    ("recurrent_doors.c", "cudnnRNNBackwardWeights_v8"),
    ("attention.c", "cudnnMultiHeadAttnForward"),
    ("attention_training.c", "cudnnMultiHeadAttnBackwardData"),
    ("graph.c", "cudnnBackendExecute"),
    ("sequences_and_graphs.c", ""),
    ("ctc.c", "cudnnCTCLoss"),
    ("fused_operations.c", "cudnnFusedOpsExecute"),
    ("spatial_transformer.c", "cudnnSpatialTfSamplerForward"),
    // Legacy calls, sizes with the calls that take them, and the calls that all others leave out.
    ("beside/legacy.c", "cudnnPoolingBackward"),
    ("beside/pairs.c", "cudnnBatchNormalizationBackwardEx"),
    ("beside/layers.c", "cudnnDivisiveNormalizationBackward"),
    ("descriptors.c", ""),
    ("misuse.c", ""),
    ("in_place.c", ""),
    ("threads.c", ""),
    ("perceptron.c", ""),
];

/// Programs that check what belongs to one library, each with what that is.
const OF_ONE_LIBRARY: &[(&str, &str)] = &[
    ("constant_filters.c", "weights that it keeps"),
    ("context.c", "lines of its log"),
    ("convolution_no_memory.c", "its memory"),
    ("convolution_winograd.c", "what it computes without a workspace"),
    ("disjoint.c", "its memory"),
    ("no_memory_first.c", "its memory"),
    ("no_memory_graph.c", "its memory"),
    ("no_memory_layers.c", "its memory"),
    ("no_memory_training.c", "its memory"),
    ("panics.c", "its own panics"),
    ("recurrent_reserve.c", "lines of its log"),
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

/// The routes that each of so many programs runs by: every call by the original, and in full runs
/// what the table says, too.
fn routes(programs: usize) -> &'static [&'static str] {
    let routes: &[&str] = if extent::is_full() { &["all=original", ""] } else { &["all=original"] };
    extent::say(routes.len() * programs, 2 * programs);
    routes
}

#[test]
fn programs_give_the_same_results_by_the_original() {
    let Some(setting) = setting() else { return };
    let others = others();
    let programs = if extent::is_full() { [PROGRAMS, &others].concat() } else { PROGRAMS.to_vec() };
    extent::say(programs.len(), PROGRAMS.len() + others.len());
    let served = served_in(setting, Core::Host, &programs);
    let calls = FAMILIES.iter().flat_map(Family::calls);
    let left: Vec<&str> = calls.filter(|call| !served.contains(*call)).collect();
    assert!(left.is_empty(), "calls of the route that no program makes: {left:?}");
}

/// Calls whose results only `c_tests/beside/layers.c` shows are the same by either library.
#[test]
fn calls_that_are_rarely_made_give_the_same_results_by_the_original() {
    let Some(setting) = setting() else { return };
    let program = setting.program("beside/layers.c");
    for core in setting.cores() {
        let results = |route: &str| {
            let mut command = setting.command_on(core, &program, setting.whole());
            let (counts, output) = setting.counted(command.env("CUDNN_SHIM_ROUTE", route), route);
            (String::from_utf8_lossy(&output.stdout).into_owned(), counts)
        };
        let ((ours, asked), (theirs, served)) = (results("all=ours"), results("all=original"));
        assert_eq!(ours, theirs);
        assert_eq!(ours.lines().filter(|line| line.starts_with("result ")).count(), 13);
        assert!(
            served.contains_key("cudnnLRNCrossChannelBackward")
                && !asked.contains_key("cudnnLRNCrossChannelBackward")
        );
    }
}

/// All other programs of `c_tests/` that an original can serve.
fn others() -> Vec<(&'static str, &'static str)> {
    let folder = common::project_root().join("c_tests");
    let files =
        std::fs::read_dir(folder).expect("the programs").map(|entry| entry.expect("a file").file_name());
    let mut names: Vec<String> = files.filter_map(|name| name.into_string().ok()).collect();
    names.retain(|name| name.ends_with(".c") && !PROGRAMS.iter().any(|(listed, _)| listed == name));
    for (listed, what) in OF_ONE_LIBRARY {
        assert!(names.iter().any(|name| name == listed), "{listed}, which checks {what}, is none");
    }
    names.retain(|name| !OF_ONE_LIBRARY.iter().any(|(listed, _)| listed == name));
    names.sort();
    names.into_iter().map(|name| (&*name.leak(), "")).collect()
}

/// Runs programs by the original, and in full runs by the table, too. Each has to have the original
/// serve its call. All calls that were served.
pub fn served_in(setting: &Setting, core: Core, programs: &[(&str, &str)]) -> BTreeSet<String> {
    let routes = routes(programs.len());
    let mut served = BTreeSet::new();
    for (source, call) in programs {
        let program = setting.program(source);
        for &route in routes {
            let mut command = setting.command_on(core, &program, setting.whole());
            let (counts, _) = setting.counted(command.env("CUDNN_SHIM_ROUTE", route), source);
            if route == "all=original" {
                assert!(call.is_empty() || counts.contains_key(*call), "{source}: {counts:?}");
                served.extend(counts.into_keys());
            }
        }
    }
    served
}

/// Those of them whose checks hold for a graph, too: bits differ with the order of sums, and its
/// workspace does not depend on the number of an algorithm.
const AS_GRAPHS: &[&str] = &[
    "blocked.c",
    "ctc.c",
    "descriptors.c",
    "graph.c",
    "in_place.c",
    "layers.c",
    "misuse.c",
    "perceptron.c",
    "pooling_extremes.c",
    "recurrent.c",
    "strict_answers.c",
    "threads.c",
    "transform.c",
];

#[test]
fn programs_give_the_same_results_as_graphs() {
    let Some(setting) = setting() else { return };
    let mut executed = 0;
    for source in AS_GRAPHS {
        let mut command = setting.command(&setting.program(source), setting.whole());
        command.env("CUDNN_SHIM_ROUTE", "all=original,via=graph");
        let (counts, _) = setting.counted(&mut command, source);
        executed += u64::from(counts.contains_key("cudnnBackendExecute"));
    }
    assert!(executed >= 5, "{executed} programs have run graphs");
}

#[test]
fn programs_run_where_the_original_refuses_everything() {
    let Some(setting) = setting() else { return };
    let all: String = FAMILIES
        .iter()
        .flat_map(Family::calls)
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
