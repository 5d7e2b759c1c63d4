//! The tables of kernels name every kernel, and nothing else.

use cudnn::backend::cuda::{module::kernels, plan::tables};

/// Kernels of kinds of steps that one source runs, and what steps of other kinds queue beside the
/// kernels of their tables.
const OTHERS: &[&str] = &[
    "aggregate_*",
    "causal_*",
    "ctc_*",
    "map_*",
    "ordered*",
    "ragged",
    "random_advance",
    "set_*",
    "words_*",
];

/// Whether a name is one of those that a pattern with a `*` stands for.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|head| name.strip_prefix(head)) else { return false };
    for part in parts {
        match rest.rfind(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    pattern.ends_with('*') || rest.is_empty()
}

#[test]
fn every_kernel_stands_in_a_table() {
    let patterns: Vec<&str> = tables().into_iter().chain(OTHERS.iter().copied()).collect();
    let known = |name: &str| patterns.iter().any(|pattern| fits(pattern, name));
    let missing: Vec<_> = kernels().iter().map(|kernel| kernel.name).filter(|name| !known(name)).collect();
    assert!(missing.is_empty(), "no table has {missing:?}");
}

#[test]
fn every_row_of_a_table_has_kernels() {
    let exists = |pattern: &str| kernels().iter().any(|kernel| fits(pattern, kernel.name));
    let empty: Vec<_> =
        tables().into_iter().chain(OTHERS.iter().copied()).filter(|row| !exists(row)).collect();
    assert!(empty.is_empty(), "there are no kernels like {empty:?}");
}

#[test]
fn patterns_fit_whole_names() {
    assert!(fits("a_*_of_*", "a_b_of_c") && fits("a", "a") && fits("*a", "ba"));
    assert!(!fits("a", "ab") && !fits("*a", "ab") && !fits("a_*_of_*", "a_b"));
}
