//! Words of the sources: identifiers that were given up for the field's terms stay given up, and
//! no two kernels have one name.

use crate::source::{Source, hold, sources};
use std::collections::BTreeMap;

/// Where a word is not an identifier any more, the word, and what the field says instead. The
/// glossary in docs/architecture.md explains those.
const RETIRED: &[(&str, &str, &str)] = &[
    ("src", "Turn", "Loop, LoopRange, Transpose or TimeStep"),
    ("src", "OperandTurn", "OperandLoop"),
    ("src", "Walk", "Loops"),
    ("src", "mates", "group_offsets"),
    ("src/backend/cpu/contract", "sums", "acc"),
    ("src/backend/cpu/contract", "Part", "PackScalar, or Scalar of Simd"),
    ("src/backend/cpu/contract", "Cell", "KGroup"),
    ("src/backend/cpu/contract", "PER", "K_PACK"),
    ("src/backend/cpu/contract", "Plain", "Portable"),
    ("src", "TAILS", "COMPENSATION"),
    ("src/backend/cpu", "ADDS", "COMPENSATES"),
    ("src", "Tails", "Compensation"),
    ("src/backend/cpu", "dots", "VNNI, or dot_products"),
    ("src", "takes_dots", "takes_vnni"),
    ("src/backend/cpu/contract", "finish", "epilogue"),
    ("src/backend/cpu/contract", "Simple", "F32Epilogue"),
    ("src/backend/cpu/contract", "simple", "f32_epilogue"),
    ("src", "Ending", "InRegisters"),
    ("src/backend/cpu/contract/gemm", "strip", "micro_panel"),
    ("src", "RowSource", "PackA"),
    ("src", "Keeper", "CachedEngine"),
    ("src", "keeps_b", "caches_b"),
    ("src/backend", "ALONE", "a parallel threshold"),
    ("src/backend/cpu", "WORTH", "a threshold or grain size"),
    ("src/backend/cpu", "FEW", "a threshold"),
    ("src/backend/cpu", "PIECE", "a tile or grain size"),
    ("src/backend/cpu", "AHEAD", "PREFETCH_DISTANCE"),
    ("src", "fetch_far", "prefetch_l2"),
    ("src", "OF_PHASES", "STRIDE_PHASES"),
    ("src/backend/cpu", "Room", "Scratch or CacheSlot"),
    ("src/backend/cpu", "Home", "TaskQueue"),
    ("src", "Told", "CallReport"),
    ("src/ops/graph", "Home", "Storage"),
    ("src/ops/graph", "Room", "WorkspaceAllocator"),
    ("src/ops/graph", "compose", "expand"),
    ("src/ops/graph", "composed", "expanded"),
];

#[test]
fn words_that_were_given_up_stay_given_up() {
    let check = |source: &Source| {
        if !source.is_rust() {
            return Vec::new();
        }
        let retired = RETIRED.iter().filter(|(folder, ..)| {
            source.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with(['/', '.']))
        });
        let retired: Vec<_> = retired.collect();
        let mut violations = Vec::new();
        for (at, line) in source.code() {
            // Of a line every second part is a string; a line inside a longer one begins in words.
            let code =
                line.split('"').step_by(2).filter(|code| code.contains(['(', ':', '=', ';', '{', ',']));
            let words = code.flat_map(|code| code.split(|c: char| !c.is_alphanumeric() && c != '_'));
            for word in words {
                for (_, old, new) in retired.iter().filter(|(_, old, _)| *old == word) {
                    violations.push(format!("{}:{at}: `{old}` is called {new} now", source.path));
                }
            }
        }
        violations
    };
    hold(
        check,
        &[
            ("src/backend/cpu/normalise/turn.rs", "pub struct Turn;"),
            ("src/backend/cpu/contract.rs", "use kernel::{Panel, sums};"),
            ("src/ops/graph/program.rs", "compose::composed(graph)"),
        ],
        &[
            ("src/backend/cpu/contract.rs", "let acc = 1; // sums"),
            ("src/backend/cpu/contract.rs", "check_sums();"),
            ("src/backend/cpu/contracted.rs", "let sums = 0;"),
            ("tests/cpu/main.rs", "struct Turn;"),
        ],
    );
    let is_there = |folder: &str| sources().iter().any(|source| source.path.starts_with(folder));
    let gone: Vec<_> = RETIRED.iter().filter(|(folder, ..)| !is_there(folder)).collect();
    assert!(gone.is_empty(), "no such folders: {gone:?}");
}

#[test]
fn no_two_kernels_have_one_name() {
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources().iter().filter(|source| source.path.starts_with("src/backend/")) {
        for table in source.text.split(": &[Kernel<").skip(1) {
            let table =
                table.split_once("\n];").or(table.split_once("\n}];")).map_or(table, |(rows, _)| rows);
            let names = table.split("name: \"").skip(1).filter_map(|rest| rest.split('"').next());
            names.for_each(|name| named.entry(name.to_owned()).or_default().push(source.path.clone()));
        }
    }
    assert!(named.len() > 45, "only {} kernels are found", named.len());
    let spaced = |name: &str| !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let spaced: Vec<_> = named.keys().filter(|name| spaced(name)).collect();
    assert!(spaced.is_empty(), "names that are no identifiers: {spaced:?}");
    named.retain(|_, tables| tables.len() > 1);
    assert!(named.is_empty(), "names of several kernels: {named:?}");
}
