//! What graphs are planned as by each strategy, see `testkit::snapshot`: their parts with all
//! steps, and the workspace.

use std::fmt::Write;

use cudnn::ops::graph::{Strategy, Tiles};
use testkit::snapshot;

use super::*;

/// Those of the two cores; whatever the size, chains, attention in one step, and in tiles.
pub(super) const STRATEGIES: [(&str, Strategy); 7] = [
    ("on the CPU core", Strategy::CPU),
    ("on the CUDA core", Strategy::CUDA),
    ("together", fused::TOGETHER),
    ("in one step", attends::ALWAYS[1]),
    ("in tiles", in_tiles(0)),
    ("in tiles of several heads", in_tiles(20)),
    ("in tiles of several batches", in_tiles(60)),
];

/// Tiles of two rows and three columns, of as many heads as have so many scores together.
pub(super) const fn in_tiles(together: i64) -> Strategy {
    streams::strategy(Tiles { rows: 2, columns: 3, least: 0, together })
}

/// Random graphs beside the problems that tests compute.
const RANDOM: u64 = 60;

/// What a graph is planned as, and what its parts tell of memory when it runs in `world`.
fn plans(name: &str, graph: &Graph, world: &mut World, text: &mut String) {
    for (way, strategy) in STRATEGIES {
        let execution = Execution::planned(graph, strategy).expect("it is planned");
        let workspace = world.execute(&execution);
        let [ran, named] = world.ran;
        writeln!(text, "{name}, {way}: {workspace} bytes of workspace").expect("there is memory");
        writeln!(text, "  {ran} parts run, {named} name their kernels").expect("there is memory");
        // How much scratch the kernels of this machine take is not asked.
        let is_same = |word: &&str| !word.contains("bytes of scratch");
        let told = world.told.iter().filter_map(|line| {
            let (part, words) = line.split_once(": with ")?;
            let words: Vec<&str> = words.split(", ").filter(is_same).collect();
            (!words.is_empty()).then(|| format!("{part}: with {}", words.join(", ")))
        });
        for line in execution.parts().chain(told) {
            writeln!(text, "  {}", snapshot::short(&line)).expect("there is memory");
        }
    }
}

#[test]
fn graphs_are_planned_as_before() {
    let mut text = String::new();
    for problem in operations::problems() {
        let mut world = World::default();
        problem.given.iter().for_each(|(tensor, numbers)| world.put(tensor, numbers));
        problem.wanted.iter().for_each(|(tensor, _)| world.room(tensor));
        plans(&problem.name, &Graph { operations: problem.operations }, &mut world, &mut text);
    }
    for case in 0..RANDOM {
        let mut rng = Rng(case + 1);
        let (graph, given, wanted) = fused::random_graph(&mut rng);
        let mut world = World::default();
        given.iter().for_each(|tensor| drop(world.random(&mut rng, tensor)));
        wanted.iter().for_each(|tensor| world.room(tensor));
        plans(&format!("random graph {case}"), &graph, &mut world, &mut text);
    }
    let how = "cargo test --test plans -- graphs_are_planned_as_before";
    assert_eq!(snapshot::compare("plans_of_graphs.txt", how, &text, |_| true), 0);
}
