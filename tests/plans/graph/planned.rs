//! What graphs are planned as by each strategy, see `testkit::snapshot`: their parts with all
//! steps, and the workspace.

use std::fmt::Write;
use std::path::Path;

use cudnn::ops::graph::{Strategy, Tiles};
use testkit::snapshot;

use super::*;

/// Those of the two cores; whatever the size, chains, attention in one step, and in tiles.
const STRATEGIES: [(&str, Strategy); 5] = [
    ("on the CPU core", Strategy::CPU),
    ("on the CUDA core", Strategy::CUDA),
    ("together", fused::TOGETHER),
    ("in one step", attends::ALWAYS[1]),
    (
        "in tiles",
        Strategy {
            tiles: Tiles { rows: 2, columns: 3, least: 0, together: 0 },
            attends: None,
            ..Strategy::CPU
        },
    ),
];

/// Random graphs beside the problems that tests compute.
const RANDOM: u64 = 60;

fn plans(name: &str, graph: &Graph, text: &mut String) {
    for (way, strategy) in STRATEGIES {
        let execution = Execution::planned(graph, strategy).expect("it is planned");
        let parts: String = execution.parts().map(|part| format!("  {}\n", snapshot::short(&part))).collect();
        let workspace = execution.workspace();
        writeln!(text, "{name}, {way}\n{parts}  {workspace} bytes of workspace").expect("there is memory");
    }
}

#[test]
fn graphs_are_planned_as_before() {
    let mut text = String::new();
    for problem in operations::problems() {
        plans(&problem.name, &Graph { operations: problem.operations }, &mut text);
    }
    for case in 0..RANDOM {
        let (graph, ..) = fused::random_graph(&mut Rng(case + 1));
        plans(&format!("random graph {case}"), &graph, &mut text);
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/plans_of_graphs.txt");
    let how = "cargo test --test plans -- graphs_are_planned_as_before";
    assert_eq!(snapshot::compare(&file, how, &text, |_| true), 0);
}
