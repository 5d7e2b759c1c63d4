//! `cargo xtask test --quick`: what takes little time and finds most mistakes; with `--kind`, what
//! a change of the kernels of one kind of step asks for.

use anyhow::{Context, Result};

use super::{Outcome, counted, counted_cargo, sum_up, timed};
use crate::{locate, shell};

/// The unit tests, the rules of the tree, layouts, the sums that a GPU produced, and the replay of
/// the recordings.
const QUICK: &[&[&str]] = &[
    &["--lib", "--test=architecture", "--test=oracle"],
    &["--test=basics", "--test=plans", "--", "layout::", "types::", "golden::"],
];

/// Steps that have kernels in common.
struct Kind {
    /// As the step is called.
    name: &'static str,
    /// Another step that the same kernels run.
    other: Option<&'static str>,
    /// The tests of `tests/cpu` that hold its kernels to the reference loops.
    tests: &'static [&'static str],
}

const fn kind(name: &'static str, tests: &'static [&'static str]) -> Kind {
    Kind { name, other: None, tests }
}

const KINDS: &[Kind] = &[
    kind("Aggregate", &["graphs::"]),
    Kind { name: "Attend", other: Some("AttendBackward"), tests: &["attend::"] },
    kind("Causal", &["causal::"]),
    Kind { name: "Contract", other: Some("Phases"), tests: &["contract::"] },
    kind("Ctc", &["ctc::"]),
    Kind { name: "Map", other: Some("WideMap"), tests: &["arithmetic::"] },
    Kind { name: "Normalise", other: Some("NormaliseBackward"), tests: &["normalise::"] },
    kind("Padded", &["padded::"]),
    kind("Ragged", &["ragged::"]),
    kind("Random", &["dropout::"]),
    kind("Reduce", &["arithmetic::"]),
    kind("Rows", &["rows::"]),
    kind("Sample", &["sample::"]),
    kind("Scale", &["candidates::"]),
    kind("Set", &["arithmetic::", "candidates::"]),
    kind("Transform", &["candidates::", "padded::"]),
    kind("Window", &["windows::"]),
];

/// Runs the quick tests, or those of the kind of this name.
pub fn run(kind: Option<&str>) -> Result<()> {
    shell::run(shell::cargo().args(["fmt", "--all", "--check"]))?;
    let Some(name) = kind else {
        return sum_up(&QUICK.iter().map(|tests| cargo(tests)).collect::<Vec<_>>());
    };
    let kind = KINDS.iter().find(|kind| kind.name.eq_ignore_ascii_case(name)).with_context(|| {
        let names = KINDS.iter().map(|kind| kind.name.to_lowercase()).collect::<Vec<_>>().join(", ");
        format!("`{name}` is no kind of step with kernels of its own; there are {names}")
    })?;
    let mut kernels = vec!["--test=cpu", "--test=listed", "--", "every_listed_step"];
    kernels.extend(kind.tests);
    let mut outcomes = vec![cargo(&kernels)];
    let mut recordings = locate::recordings(kind.name)?;
    if let Some(other) = kind.other {
        recordings.extend(locate::recordings(other)?);
    }
    if !recordings.is_empty() {
        let mut replay = vec!["--test=oracle", "--"];
        replay.extend(recordings.iter().map(String::as_str));
        outcomes.push(cargo(&replay));
    }
    sum_up(&outcomes)
}

/// `cargo test` of the library with these arguments.
fn cargo(arguments: &[&str]) -> Outcome {
    let mut command = shell::cargo();
    command.args(["test", "--package", "cudnn-shim"]).args(arguments);
    timed(&format!("cargo test, {}", arguments[0].trim_start_matches("--")), || {
        counted(counted_cargo(&mut command))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::KINDS;
    use crate::shell;

    #[test]
    fn every_test_of_kernels_is_of_a_kind() {
        let main = fs::read_to_string(shell::root().join("tests/cpu/main.rs")).unwrap();
        for module in main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')) {
            let is_of = |tests: &[&str]| tests.iter().any(|test| test.strip_suffix("::") == Some(module));
            assert!(KINDS.iter().any(|kind| is_of(kind.tests)), "tests/cpu/{module} is of no kind");
        }
        let steps = fs::read_to_string(shell::root().join("src/ops/plan.rs")).unwrap();
        for name in KINDS.iter().flat_map(|kind| [Some(kind.name), kind.other]).flatten() {
            assert!(steps.contains(&format!("\n    {name}(")), "no step is a {name}");
        }
    }
}
