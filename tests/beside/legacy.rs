//! Legacy calls that the original serves as graphs: `c_tests/beside/legacy.c`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::double::{Core, Setting, setting};

/// What the program has printed: who served each call, and named rows of numbers.
struct Outcome {
    served: Vec<(String, String)>,
    results: Vec<(String, Vec<f64>)>,
    counts: BTreeMap<String, u64>,
}

fn run(setting: &Setting, folder: &Path, route: &str) -> Outcome {
    run_on(Core::Host, setting, folder, route)
}

fn run_on(core: Core, setting: &Setting, folder: &Path, route: &str) -> Outcome {
    let program = setting.program("beside/legacy.c");
    let mut command = setting.command_on(core, &program, folder);
    if route.contains("graph") || folder != setting.whole() {
        command.env("AS_GRAPHS", "1");
    }
    let (counts, output) = setting.counted(command.env("CUDNN_SHIM_ROUTE", route), "legacy");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (mut served, mut results) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["served", name, server] => served.push((name.to_owned(), server.to_owned())),
            ["result", name, ..] => {
                let numbers = words[2..].iter().map(|word| word.parse().expect("a number")).collect();
                results.push((name.to_owned(), numbers));
            }
            _ => {}
        }
    }
    Outcome { served, results, counts }
}

/// Results of a graph are those of the calls, but for the order of sums.
fn assert_close(graph: &Outcome, direct: &Outcome) {
    assert_eq!(graph.results.len(), direct.results.len());
    for ((name, graph), (_, direct)) in graph.results.iter().zip(&direct.results) {
        assert_eq!(graph.len(), direct.len(), "{name}");
        for (at, (graph, direct)) in graph.iter().zip(direct).enumerate() {
            let bound = 2e-5 * direct.abs().max(1.0);
            assert!((graph - direct).abs() <= bound, "{name}[{at}]: {graph} instead of {direct}");
        }
    }
}

const LEGACY: &[&str] = &[
    "cudnnConvolutionForward",
    "cudnnConvolutionBackwardData",
    "cudnnConvolutionBackwardFilter",
    "cudnnPoolingForward",
    "cudnnPoolingBackward",
    "cudnnActivationForward",
    "cudnnActivationBackward",
    "cudnnBatchNormalizationForwardInference",
    "cudnnBatchNormalizationForwardTraining",
    "cudnnBatchNormalizationBackward",
];

#[test]
fn graphs_give_the_results_of_the_calls() {
    let Some(setting) = setting() else { return };
    for core in setting.cores() {
        graphs_give_the_results_on(core, setting);
    }
}

fn graphs_give_the_results_on(core: Core, setting: &Setting) {
    let run = |route| run_on(core, setting, setting.whole(), route);
    let direct = run("all=original");
    let ours = run("all=ours");
    let graph = run("all=original,via=graph");
    assert_close(&ours, &direct);
    assert_close(&graph, &direct);
    for call in LEGACY {
        assert!(direct.counts.contains_key(*call), "{call}");
        assert!(!graph.counts.contains_key(*call), "{call} was called directly");
    }
    assert!(!direct.counts.contains_key("cudnnBackendExecute") && graph.counts["cudnnBackendExecute"] >= 30);
    let left: Vec<_> = graph.served.iter().filter(|(_, server)| server != "original").collect();
    // On a GPU, calls without a workspace whose graphs take one are this library's.
    let takes_none = |name: &str| name.starts_with("cudnnBatchNorm") || name == "cudnnActivationBackward";
    assert!(left.iter().all(|(name, _)| core == Core::Gpu && takes_none(name)), "{left:?}");
    assert!(ours.served.iter().all(|(_, server)| server == "ours"));
    // Objects go as they came, plans with their handle.
    assert_eq!(graph.counts["cudnnBackendCreateDescriptor"], graph.counts["cudnnBackendDestroyDescriptor"]);
}

/// A later version has no legacy calls, and no descriptors for them: the graphs serve, unasked.
#[test]
fn graphs_serve_what_the_original_no_longer_exports() {
    let Some(setting) = setting() else { return };
    let legacy: Vec<String> = crate::double::symbols()
        .into_iter()
        .filter(|name| {
            [
                "Convolution",
                "Pooling",
                "Activation",
                "BatchNormalization",
                "TensorDescriptor",
                "FilterDescriptor",
            ]
            .iter()
            .any(|part| name.contains(part))
        })
        .collect();
    let names: Vec<&str> = legacy.iter().map(String::as_str).collect();
    assert!(names.len() > 60);
    let folder = setting.double("without-legacy", &names);
    let graph = run(setting, &folder, "all=original");
    let ours = run(setting, setting.whole(), "all=ours");
    assert_close(&graph, &ours);
    let left: Vec<_> = graph.served.iter().filter(|(_, server)| server != "original").collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Where the original makes no plan, or its engines refuse, this library serves.
#[test]
fn graphs_that_the_original_refuses_are_served_by_us() {
    let Some(setting) = setting() else { return };
    let ours = run(setting, setting.whole(), "all=ours");
    for refused in ["cudnnBackendFinalize,", "cudnnBackendExecute,", "cudnnBackendCreateDescriptor,"] {
        let program = setting.program("beside/legacy.c");
        let mut command = setting.command(&program, setting.whole());
        command.env("CUDNN_SHIM_ROUTE", "all=original,via=graph").env("DOUBLE_REFUSES", refused);
        let (_, output) = setting.counted(&mut command, "legacy-refused");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!text.contains(" original\n"), "{refused}");
        let rows = |text: &str| text.lines().filter(|line| line.starts_with("result")).count();
        assert_eq!(rows(&text), ours.results.len());
    }
}
