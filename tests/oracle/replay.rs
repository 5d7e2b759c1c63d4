//! Runs cases in child processes, so that a crash costs one case and the environment is fixed
//! before the library reads it.

use std::fs::{self, File};
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::Stdio;
use std::{env, io};

use crate::common;

use super::call::{Library, Machine};
use super::case::Case;
use super::signature::Signatures;

/// Set in a child process: the library to replay on.
const CHILD: &str = "CUDNN_ORACLE_CHILD";
/// Cases per child process.
const BATCH: usize = 400;
/// A case that takes longer counts as a crash.
const SECONDS_PER_CASE: u32 = 60;

/// What the library answered to one case.
pub struct Observation {
    /// One list of tokens per step that came back.
    pub steps: Vec<Vec<String>>,
    /// The process died (or hung) in this case.
    pub died: bool,
}

/// The part of the program that runs in a child process; returns whether this is one.
pub fn run_as_child(signatures: impl FnOnce() -> Signatures) -> bool {
    let Ok(library) = env::var(CHILD) else { return false };
    let library = Library::open(Path::new(&library), signatures());
    for line in io::stdin().lines() {
        let line = line.expect("a line of calls");
        // SAFETY: plain system call; the default action of the signal ends a process that hangs.
        unsafe { libc::alarm(SECONDS_PER_CASE) };
        let mut machine = Machine::default();
        for call in line.split('\t') {
            // A line per step, at once: after a crash the last line tells which step it was.
            println!("{}", machine.call(&library, call).join(" "));
        }
        println!();
    }
    true
}

/// Replays `cases` with `environment` set; one observation per case.
pub fn replay(
    library: &Path, scratch: &Path, cases: &[Case], environment: &[(&str, &str)],
) -> Vec<Observation> {
    let mut observations = Vec::with_capacity(cases.len());
    while observations.len() < cases.len() {
        let rest = &cases[observations.len()..];
        let batch = &rest[..rest.len().min(BATCH)];
        observations.extend(run_batch(library, scratch, batch, environment));
    }
    observations
}

/// Runs a batch up to its end, or up to and including the first case that kills the process.
fn run_batch(
    library: &Path, scratch: &Path, batch: &[Case], environment: &[(&str, &str)],
) -> Vec<Observation> {
    let calls = scratch.join("calls.tsv");
    let mut file = File::create(&calls).expect("file of calls");
    for case in batch {
        writeln!(file, "{}", case.calls()).expect("file of calls");
    }
    drop(file);
    let mut command = common::itself();
    for name in ["CUDNN_SHIM_STRICT", "CUDNN_SHIM_CHECK", "CUDNN_LOGLEVEL_DBG", "CUDNN_LOGDEST_DBG"] {
        command.env_remove(name);
    }
    let output = command
        .env("CUDNN_SHIM_BACKEND", "cpu")
        .envs(environment.iter().copied())
        .env(CHILD, library)
        .stdin(Stdio::from(File::open(&calls).expect("file of calls")))
        .stderr(Stdio::inherit())
        .output()
        .expect("the test program starts itself");
    fs::remove_file(&calls).expect("file of calls");
    let mut observations = Vec::new();
    let mut steps: Vec<Vec<String>> = Vec::new();
    for line in output.stdout.lines() {
        let line = line.expect("text");
        if line.is_empty() {
            observations.push(Observation { steps: std::mem::take(&mut steps), died: false });
        } else {
            steps.push(line.split(' ').map(str::to_owned).collect());
        }
    }
    if observations.len() < batch.len() {
        observations.push(Observation { steps, died: true });
    }
    observations
}
