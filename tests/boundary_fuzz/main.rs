//! Problems and calls that nobody wrote, through the C functions of the built library.
//!
//! - Valid problems of every operation, a line each (see `problem.rs`): operands that begin or end
//!   at a page that must not be touched, workspaces of just the told size, at every level of vector
//!   instructions and for several numbers of threads, against the loops that define them.
//! - The same while memory runs out: each allocation of a line fails (see `exhausted.rs`).
//! - The same while signals arrive, children are forked and threads cannot be made (see
//!   `disturbed.rs`), and, on the CUDA core, while a driver fails (see `driver.rs`).
//! - What some problems are planned as, which changes on purpose only (see `plans.rs`), and what
//!   they answer if one of their numbers is another one (see `altered.rs`).
//! - Sizes of workspaces and reserve spaces, which grow with every extent (see `sizes.rs`).
//! - Sequences of any calls at all with handles and numbers that make no sense (see `calls.rs`).
//!
//! The parts run in child processes, as they may end by a signal and as the library reads its
//! environment once. Every run draws its own: `CUDNN_SHIM_FUZZ_FROM` names the first seed,
//! `CUDNN_SHIM_FUZZ_SECONDS` says how long each part may take, `CUDNN_SHIM_FUZZ_PART`, or an
//! argument, asks for `plans`, `altered`, `sizes`, `problems`, `memory`, `disturbances`, `driver`
//! or `calls` alone, `CUDNN_SHIM_FUZZ_KINDS=recurrent,ctc` for problems of these kinds,
//! `CUDNN_SHIM_FUZZ_AGAIN` runs one line again.

mod altered;
mod buffer;
#[path = "../oracle/call.rs"]
mod call;
mod calls;
#[allow(dead_code, reason = "of the recordings only the tokens are needed")]
#[path = "../oracle/case.rs"]
mod case;
#[path = "../common/mod.rs"]
mod common;
mod disturbed;
mod draw;
mod driver;
mod exhausted;
mod lists;
mod plans;
mod problem;
mod problems;
#[allow(dead_code, reason = "the recordings' test checks the parser")]
#[path = "../oracle/signature.rs"]
mod signature;
mod sizes;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

use call::Library;
use problems::Question;
use signature::Signatures;

/// Seconds of a part that is not told how long to go on.
const SECONDS: u64 = 4;

fn library() -> Library {
    // With what version 9 took away, which is there as well.
    let tables = ["functions.tsv", "functions_v8_only.tsv"].map(|name| {
        let path = common::project_root().join("tests/data/abi").join(name);
        fs::read_to_string(path).expect("table of C functions")
    });
    Library::open(&common::library(), Signatures::parse(&tables))
}

/// The number in an environment variable, if it is set.
fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|error| panic!("{variable}={value}: {error}")))
}

fn main() -> ExitCode {
    if let Ok(line) = env::var("CUDNN_SHIM_FUZZ_AGAIN") {
        return match line.strip_prefix("calls ") {
            Some(seed) => calls::again(seed),
            None => problems::again(&line),
        };
    }
    if problems::run_as_child() || calls::run_as_child() || plans::run_as_child() || altered::run_as_child() {
        return ExitCode::SUCCESS;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
    let from = number("CUDNN_SHIM_FUZZ_FROM").unwrap_or(now);
    let seconds = number("CUDNN_SHIM_FUZZ_SECONDS").unwrap_or(SECONDS);
    let only = env::args()
        .skip(1)
        .find(|word| !word.starts_with('-'))
        .or_else(|| env::var("CUDNN_SHIM_FUZZ_PART").ok());
    let asked = |part: &str| only.as_deref().is_none_or(|only| only == part);
    let mut faults = Vec::new();
    let has_driver = (asked("plans") || asked("driver")) && driver::prepare();
    let skipped = ["plans", "driver"].into_iter().filter(|part| asked(part) && !has_driver).count();
    if asked("plans") {
        faults.push(plans::run(has_driver));
    }
    if asked("altered") {
        faults.push(altered::run());
    }
    if asked("sizes") {
        faults.push(sizes::run(from));
    }
    if asked("problems") {
        faults.push(problems::run(Question::Results, from, seconds));
    }
    if asked("memory") {
        faults.push(problems::run(Question::Memory, from, seconds));
    }
    if asked("disturbances") {
        faults.push(problems::run(Question::Disturbances, from, seconds));
    }
    if asked("driver") && has_driver {
        faults.push(problems::run(Question::Driver, from, seconds));
    }
    if asked("calls") {
        faults.push(calls::run(from, seconds));
    }
    let failed = faults.iter().filter(|&&faults| faults > 0).count();
    common::conclude(faults.len() - failed, failed, skipped)
}
