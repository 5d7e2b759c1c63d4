//! What problems are planned as: the steps of every call, their kernels, the memory that they take,
//! and what queries answer, of some problems of each kind. `tests/data/plans.txt` has it all.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::problem::Bench;
use crate::{common, draw, driver, library};
use testkit::random::Rng;
use testkit::snapshot;

/// Set in a child process: the core, how many problems of each kind it plans, and the file of its
/// log.
const CHILD: &str = "CUDNN_SHIM_FUZZ_PLANS";

/// Problems of each kind, by core: the driver double takes its time.
const OF_KIND: [(&str, u64); 2] = [("cpu", 40), ("cuda", 32)];

/// The part of the program that runs in a child process; returns whether this is one.
pub fn run_as_child() -> bool {
    let Ok(text) = std::env::var(CHILD) else { return false };
    let [core, count, log] = text.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{CHILD}={text}") };
    let bench = Bench::new(library(), core);
    let mut before = read(Path::new(log)).len();
    for kind in draw::kinds() {
        for number in 0..count.parse().expect("a number") {
            let line = draw::problem(&mut Rng(0x0007_e57e_d000 + number), &[kind.to_owned()]);
            let run = bench.run_tested(&line, &mut |call, _| call());
            println!("{core} {kind} {number}");
            let text = read(Path::new(log));
            text[before..]
                .lines()
                .filter_map(planned)
                .for_each(|line| println!("  {}", snapshot::short(line)));
            before = text.len();
            // A query is what asks for numbers.
            let asked = line.split("; ").zip(&run.answers).filter(|(call, _)| call.ends_with('@'));
            asked.for_each(|(call, answer)| {
                println!("  {} answers {answer}", call.split(' ').next().unwrap_or(call));
            });
        }
    }
    true
}

fn read(log: &Path) -> String {
    fs::read_to_string(log).unwrap_or_default()
}

/// What a line of the log says of a plan, if it does: neither a call with its arguments nor a
/// handle.
fn planned(line: &str) -> Option<&str> {
    let text = line.strip_prefix("[cudnn-shim I ")?.split_once("] ")?.1;
    let is_plan = !text.contains(") -> CUDNN_STATUS") && !text.starts_with("cudnnCreate:");
    is_plan.then_some(text)
}

/// The plans of so many problems of each kind on a core.
fn plans(core: &str, count: u64) -> String {
    let log = common::scratch_dir("boundary_fuzz").join(format!("plans-{core}.log"));
    let _ = fs::remove_file(&log);
    let mut child = common::itself();
    if core == "cuda" {
        driver::beside(&mut child);
    }
    child.env(CHILD, format!("{core} {count} {}", log.display()));
    told(child.env("CUDNN_LOGLEVEL_DBG", "3").env("CUDNN_LOGDEST_DBG", &log))
}

/// What a child process prints, the same on all machines.
pub fn told(child: &mut Command) -> String {
    child.env("CUDNN_SHIM_ISA", "portable").env("CUDNN_SHIM_NUM_THREADS", "2");
    let output = child.output().expect("the test program starts itself");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Plans all problems, and returns how many are planned otherwise than `tests/data/plans.txt` says;
/// `with_driver` says whether there is a driver double.
pub fn run(with_driver: bool) -> usize {
    let asked = |problem: &str| with_driver || !problem.starts_with("cuda ");
    let cores = OF_KIND.iter().filter(|(core, _)| asked(&format!("{core} ")));
    let text: String = cores.map(|&(core, count)| plans(core, count)).collect();
    snapshot::compare("plans.txt", "cargo test --test boundary_fuzz -- plans", &text, asked)
}
