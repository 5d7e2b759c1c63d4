//! Replays what the original answered to the graph interface on the built shared library, in strict
//! mode, through its C functions only.
//!
//! Statuses and what is read back must be as recorded. What belongs to the original's engines - how
//! many, their numbers, notes and workspaces - is recorded as `?`. Differences that are meant are
//! listed in `DIFFERENT`, with the reason.

#[path = "../oracle/case.rs"]
#[allow(dead_code, reason = "two programs share it")]
mod case;
#[path = "../common/mod.rs"]
mod common;
mod device;
mod machine;

use std::env;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{ExitCode, Stdio};

use case::{Case, Step};
use machine::{Library, Machine};

/// Set in a child process: the library to replay on.
const CHILD: &str = "CUDNN_GRAPH_CHILD";
/// So many differing cases are printed per file; all are counted.
const SHOWN: usize = 12;

/// The files, and how many cases each has at least.
const AREAS: [(&str, usize); 16] = [
    ("lifecycle", 140),
    ("attributes", 770),
    ("tensor", 320),
    ("deviceprop", 40),
    ("pointwise", 230),
    ("matmul", 140),
    ("convolution", 210),
    ("norm", 190),
    ("reduction", 100),
    ("resample", 130),
    ("sdpa", 120),
    ("other", 410),
    ("opgraph", 160),
    ("variant", 80),
    ("plan", 140),
    ("support", 290),
];

/// Cases that are answered otherwise, and why.
const DIFFERENT: &[(&str, &str)] = &[];

fn main() -> ExitCode {
    if let Ok(library) = env::var(CHILD) {
        run_as_child(&library);
        return ExitCode::SUCCESS;
    }
    let only = env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let (mut passed, mut failed, mut different) = (0, 0, 0);
    println!("{:<14}{:>8}{:>9}{:>8}{:>11}", "file", "cases", "matched", "failed", "different");
    for (area, least) in
        AREAS.iter().filter(|(area, _)| only.as_deref().is_none_or(|only| area.contains(only)))
    {
        let cases = read(area);
        assert!(cases.len() >= *least, "cases of {area} are missing");
        let mut row = [0; 3];
        let mut shown = String::new();
        for (case, observed) in cases.iter().zip(replay(&cases)) {
            let difference = difference(case, &observed);
            let known = DIFFERENT.iter().any(|(id, _)| *id == case.id);
            row[match (&difference, known) {
                (None, false) => 0,
                (Some(_), true) => 2,
                _ => 1,
            }] += 1;
            match difference {
                Some(text) if !known && row[1] <= SHOWN => _ = writeln!(shown, "  {}: {text}", case.id),
                None if known => _ = writeln!(shown, "  {}: is listed as different, and is not", case.id),
                _ => {}
            }
        }
        println!("{area:<14}{:>8}{:>9}{:>8}{:>11}", cases.len(), row[0], row[1], row[2]);
        print!("{shown}");
        passed += row[0];
        failed += row[1];
        different += row[2];
    }
    println!("{passed} cases as recorded, {failed} are not, {different} are meant to differ");
    common::conclude(passed + different, failed, 0)
}

fn read(area: &str) -> Vec<Case> {
    let path = common::project_root().join(format!("tests/data/oracle/graph/{area}.tsv"));
    let text = std::fs::read_to_string(&path).expect("recorded cases");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| Case::parse(line).unwrap_or_else(|error| panic!("{area}: {error}"))).collect()
}

/// The steps' answers, in a process of their own, so that the mode is fixed before the library
/// reads it.
fn replay(cases: &[Case]) -> Vec<Vec<String>> {
    let mut command = common::itself();
    for name in ["CUDNN_SHIM_CHECK", "CUDNN_LOGLEVEL_DBG", "CUDNN_LOGDEST_DBG"] {
        command.env_remove(name);
    }
    command.env("CUDNN_SHIM_BACKEND", "cpu").env("CUDNN_SHIM_STRICT", "1").env(CHILD, common::library());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the test program starts itself");
    let calls: String = cases.iter().map(|case| case.calls() + "\n").collect();
    let mut input = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || input.write_all(calls.as_bytes()));
    let output = child.wait_with_output().expect("the child's answers");
    writer.join().expect("the writing thread").expect("the child reads all calls");
    let text = String::from_utf8(output.stdout).expect("text");
    let observed: Vec<Vec<String>> =
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect();
    assert_eq!(
        observed.len(),
        cases.len(),
        "the process died in {:?}",
        cases.get(observed.len()).map(|case| &case.id)
    );
    observed
}

/// One line per case: the answers of its steps.
fn run_as_child(library: &str) {
    let library = Library::open(library);
    for line in std::io::stdin().lines() {
        let line = line.expect("a line of calls");
        let mut machine = Machine::default();
        let answers: Vec<String> = line.split('\t').map(|call| machine.call(&library, call)).collect();
        println!("{}", answers.join("\t"));
    }
}

/// The first step that is not answered as recorded.
fn difference(case: &Case, observed: &[String]) -> Option<String> {
    case.steps.iter().zip(observed).find_map(|(step, observed)| {
        let fits = fits(step, observed);
        (!fits).then(|| format!("{} = {} but: {observed}", step.call(), step.observed.join(" ")))
    })
}

/// Whether the answer's tokens are those recorded; `?` stands for any.
fn fits(step: &Step, observed: &str) -> bool {
    let observed: Vec<&str> = observed.split(' ').collect();
    let recorded = &step.observed;
    // Of an answer that may be any, nothing is known of its outputs.
    if recorded.len() == 1 && recorded[0] == "?" {
        return true;
    }
    recorded.len() == observed.len()
        && recorded
            .iter()
            .zip(&observed)
            .all(|(recorded, observed)| recorded == "?" || token_fits(recorded, observed))
}

fn token_fits(recorded: &str, observed: &str) -> bool {
    let elements = |token: &str| -> Option<Vec<String>> {
        let inner = token.strip_prefix('[')?.strip_suffix(']')?;
        Some(inner.split(',').map(str::to_owned).collect())
    };
    match (elements(recorded), elements(observed)) {
        (Some(recorded), Some(observed)) => {
            recorded.len() == observed.len()
                && recorded.iter().zip(&observed).all(|(recorded, observed)| same(recorded, observed))
        }
        _ => same(recorded, observed),
    }
}

fn same(recorded: &str, observed: &str) -> bool {
    recorded == "?"
        || recorded == observed
        || matches!((recorded.parse::<f64>(), observed.parse::<f64>()), (Ok(one), Ok(other)) if one == other)
}
