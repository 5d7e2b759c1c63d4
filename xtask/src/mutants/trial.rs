//! The quick tests of the changed copy, built once and run for each mutant.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::rewrite::VARIABLE;
use super::tree::Tree;
use crate::shell;

/// The programs, and which tests of each: whose names contain one of these words; all, where there is none. Of the recordings all but
/// those whose sums take long without optimisation come first.
const TESTS: &[(&str, &[&str])] = &[
    ("cudnn", &["layout::", "ops::", "desc::", "contract::"]),
    ("layout", &[]),
    ("golden", &[]),
    ("types", &[]),
    (
        "oracle",
        &[
            "--fail-fast",
            "--skip",
            "causal",
            "--skip",
            "op_rnn",
            "--skip",
            "op_seq",
            "--skip",
            "op_attn",
            "--skip",
            "op_divnorm",
            "--skip",
            "op_batchnorm",
        ],
    ),
    ("oracle", &["--fail-fast", "causal", "op_rnn", "op_seq", "op_attn", "op_divnorm", "op_batchnorm"]),
];

/// The memory that a process may have, in KiB: a list that never ends must not take all there is.
const MEMORY: u64 = 8 << 20;

/// A mutant that takes so many times as long as the tests take without one hangs.
const PATIENCE: u32 = 10;
/// And so much longer, as other programs run as well.
const GRACE: Duration = Duration::from_secs(20);

/// One test program.
pub struct Suite {
    pub name: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
    /// How long it takes without a mutant.
    pub takes: Duration,
}

/// The test programs of the copy, the fastest first.
pub struct Trial {
    pub suites: Vec<Suite>,
    root: PathBuf,
}

impl Trial {
    /// Builds them, and runs them without a mutant: all must pass.
    pub fn built(tree: &Tree) -> Result<Trial> {
        let mut command = tree.cargo();
        command.args([
            "test",
            "--no-run",
            "--quiet",
            "--package",
            "cudnn-shim",
            "--lib",
            "--message-format=json",
        ]);
        let programs: BTreeSet<&str> = TESTS.iter().skip(1).map(|(name, _)| *name).collect();
        programs.iter().for_each(|name| _ = command.args(["--test", name]));
        let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
        if !output.status.success() {
            bail!("the tests of the copy do not compile");
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let messages: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let mut trial = Trial { suites: Vec::new(), root: tree.root().to_owned() };
        for &(name, arguments) in TESTS {
            let of =
                |message: &&Value| message["target"]["name"] == name && message["executable"].is_string();
            let program = messages.iter().find(of).and_then(|message| message["executable"].as_str());
            let program = program.with_context(|| format!("cargo has not built the test {name}"))?.into();
            trial.suites.push(Suite { name, program, arguments, takes: Duration::from_secs(600) });
        }
        for at in 0..trial.suites.len() {
            let start = Instant::now();
            if !trial.passes(&trial.suites[at], 0, 0)? {
                bail!("the test {} fails without a mutant", trial.suites[at].name);
            }
            trial.suites[at].takes = start.elapsed();
        }
        trial.suites.sort_by_key(|suite| suite.takes);
        Ok(trial)
    }

    /// The first suite that fails, hangs or ends the process with this mutant. Runs of another `lane` may go on at the same time.
    pub fn noticed(&self, mutant: usize, lane: usize) -> Result<Option<&'static str>> {
        for suite in &self.suites {
            if !self.passes(suite, mutant, lane)? {
                return Ok(Some(suite.name));
            }
        }
        Ok(None)
    }

    fn passes(&self, suite: &Suite, mutant: usize, lane: usize) -> Result<bool> {
        let seconds = (suite.takes * PATIENCE + GRACE).as_secs();
        let mut command = Command::new("sh");
        // It ends the processes that the program has started, too.
        command.args(["-c", "ulimit -v \"$1\"; shift; exec timeout -s KILL \"$@\"", "sh"]);
        command.args([MEMORY.to_string(), seconds.to_string()]).arg(&suite.program).args(suite.arguments);
        command.current_dir(&self.root).env(VARIABLE, mutant.to_string()).env("RUST_BACKTRACE", "0");
        // Some mutants run at a time, and each of them needs a processor.
        command.env("CUDNN_SHIM_NUM_THREADS", "1");
        command.env("CUDNN_SHIM_TEST_SCRATCH", shell::target().join(format!("mutants/scratch-{lane}")));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.status().context("cannot start a test")?.success())
    }
}
