//! The long checks: what each runs, how long that takes, and which of the lines it prints is its
//! figure.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};

use super::figure::{Figure, Found};
use crate::shell;

/// A check that takes too long for `cargo xtask test`.
pub struct Check {
    pub name: &'static str,
    /// What has been shown when it passes.
    pub about: &'static str,
    /// How long it takes on two processors.
    pub minutes: u64,
    run: Run,
    pub figure: Figure,
}

/// The command of a check.
struct Run {
    program: Program,
    arguments: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy)]
enum Program {
    Cargo,
    /// This program.
    Task,
    /// A file of the repository.
    File(&'static str),
}

const fn cargo(arguments: &'static [&'static str], variables: &'static [(&str, &str)]) -> Run {
    Run { program: Program::Cargo, arguments, variables }
}

const fn task(arguments: &'static [&'static str]) -> Run {
    Run { program: Program::Task, arguments, variables: &[] }
}

/// Random cases of one part of `tests/boundary_fuzz`.
const fn boundary(variables: &'static [(&str, &str)]) -> Run {
    cargo(&["test", "--test", "boundary_fuzz"], variables)
}

/// All of them; the names are those that the command takes.
pub const CHECKS: &[Check] = &[
    Check {
        name: "steps",
        about: "random variations of every kind of step have the bits of the reference loops",
        minutes: 35,
        run: cargo(
            &["test", "--release", "--test", "listed", "--", "fuzz::", "--nocapture"],
            &[("CUDNN_SHIM_FUZZ_SECONDS", "1800")],
        ),
        figure: Figure::Tests,
    },
    Check {
        name: "graphs",
        about: "random graphs of operations that are computed together have the bits of single operations",
        minutes: 35,
        run: cargo(
            &[
                "test",
                "--release",
                "--test",
                "plans",
                "--",
                "graph::fused::what_is_computed_together_has_the_bits_of_single_operations",
                "--exact",
                "--nocapture",
            ],
            &[("CUDNN_SHIM_FUZZ_SECONDS", "1800")],
        ),
        figure: Figure::Tests,
    },
    Check {
        name: "problems",
        about: "random problems of every family at guard pages, at every level of instructions and several numbers of threads",
        minutes: 65,
        run: boundary(&[("CUDNN_SHIM_FUZZ_PART", "problems"), ("CUDNN_SHIM_FUZZ_SECONDS", "3600")]),
        figure: Figure::Last(" problems in "),
    },
    Check {
        name: "sequences",
        about: "the same of recurrent networks, attention, CTC, causal convolutions, graphs and dropout alone",
        minutes: 35,
        run: boundary(&[
            ("CUDNN_SHIM_FUZZ_PART", "problems"),
            (
                "CUDNN_SHIM_FUZZ_KINDS",
                "recurrent,attention,graph,dot_product,training,fused,dropout,ctc,causal",
            ),
            ("CUDNN_SHIM_FUZZ_SECONDS", "1800"),
        ]),
        figure: Figure::Last(" problems in "),
    },
    Check {
        name: "memory",
        about: "memory that runs out at any allocation of a problem: a status, nothing written, and the same bits afterwards",
        minutes: 35,
        run: boundary(&[("CUDNN_SHIM_FUZZ_PART", "memory"), ("CUDNN_SHIM_FUZZ_SECONDS", "1800")]),
        figure: Figure::Last(" problems in "),
    },
    Check {
        name: "disturbances",
        about: "signals each millisecond, children forked during calls, threads that cannot be made: the same bits",
        minutes: 35,
        run: boundary(&[("CUDNN_SHIM_FUZZ_PART", "disturbances"), ("CUDNN_SHIM_FUZZ_SECONDS", "1800")]),
        figure: Figure::Last(" problems in "),
    },
    Check {
        name: "driver",
        about: "each call of the driver fails in each listed step: the driver's error, and the same bits afterwards",
        minutes: 30,
        run: cargo(
            &[
                "test",
                "--test",
                "cuda",
                "--",
                "listed::each_call_of_the_driver_fails_in_each_step",
                "--exact",
            ],
            &[("CUDNN_SHIM_TEST_FULL", "1")],
        ),
        figure: Figure::Tests,
    },
    Check {
        name: "driver-calls",
        about: "calls of the driver fail in random problems of every family on the CUDA core: its error, and the same bits",
        minutes: 35,
        run: boundary(&[("CUDNN_SHIM_FUZZ_PART", "driver"), ("CUDNN_SHIM_FUZZ_SECONDS", "1800")]),
        figure: Figure::Last(" problems in "),
    },
    Check {
        name: "calls",
        about: "random sequences of calls with any handle and any number get a status",
        minutes: 35,
        run: boundary(&[("CUDNN_SHIM_FUZZ_PART", "calls"), ("CUDNN_SHIM_FUZZ_SECONDS", "1800")]),
        figure: Figure::Last(" calls;"),
    },
    Check {
        name: "sizes",
        about: "what a query tells for the largest problem is enough for every smaller one",
        minutes: 5,
        run: boundary(&[("CUDNN_SHIM_FUZZ_PART", "sizes"), ("CUDNN_SHIM_FUZZ_SECONDS", "1")]),
        figure: Figure::Last(" pairs of sizes"),
    },
    Check {
        name: "recurrent",
        about: "recurrent networks of every cell, direction and layout against plain loops, all combinations",
        minutes: 15,
        run: cargo(
            &["test", "--release", "--test", "plans", "--", "recurrent_cpu::"],
            &[("CUDNN_SHIM_TEST_FULL", "1")],
        ),
        figure: Figure::Tests,
    },
    Check {
        name: "released",
        about: "the release library as an installation has it: its size, programs, NumPy, packages",
        minutes: 25,
        run: task(&["test", "--released"]),
        figure: Figure::Last(" passed, "),
    },
    Check {
        name: "numpy",
        about: "100,000 random cases against NumPy, and all others of the installed library",
        minutes: 60,
        run: Run {
            program: Program::Task,
            arguments: &["test", "--library"],
            variables: &[("CUDNN_SHIM_NUMPY_CASES", "100000"), ("CUDNN_SHIM_TEST_FULL", "1")],
        },
        figure: Figure::Last(" passed, "),
    },
    Check {
        name: "full",
        about: "C programs by both compilers in every way, kernels of the CPU core, programs beside the original: all of what is sampled else",
        minutes: 90,
        run: cargo(
            &["test", "--test", "c_programs", "--test", "cpu", "--test", "beside"],
            &[("CUDNN_SHIM_TEST_FULL", "1")],
        ),
        figure: Figure::Tests,
    },
    Check {
        name: "ptx",
        about: "the tests of the CUDA core on the PTX that the library carries, in place of the sources",
        minutes: 90,
        run: cargo(&["test", "--test", "cuda"], &[("CUDNN_SHIM_DOUBLE", "ptx")]),
        figure: Figure::Tests,
    },
    Check {
        name: "mutants-1",
        about: "of 400 small changes of the library, drawn with seed 1, quick tests notice all but 5 %",
        minutes: 120,
        run: task(&["mutants", "--seed", "1"]),
        figure: Figure::Noticed,
    },
    Check {
        name: "mutants-2",
        about: "the same with seed 2",
        minutes: 120,
        run: task(&["mutants", "--seed", "2"]),
        figure: Figure::Noticed,
    },
    Check {
        name: "mutants-3",
        about: "the same with seed 3",
        minutes: 120,
        run: task(&["mutants", "--seed", "3"]),
        figure: Figure::Noticed,
    },
    Check {
        name: "miri",
        about: "Miri interprets the C boundary, descriptors, layouts, operations and the listed steps of small operands",
        minutes: 240,
        run: task(&["sanitize", "miri"]),
        figure: Figure::Tests,
    },
    Check {
        name: "thread",
        about: "ThreadSanitizer watches handles, arenas and the thread pool",
        minutes: 20,
        run: task(&["sanitize", "thread"]),
        figure: Figure::Tests,
    },
    Check {
        name: "pool",
        about: "the thread pool in every order of events of two and three threads, within a bound of preemptions",
        minutes: 3,
        run: cargo(
            &["test", "--package", "cudnn-shim-models", "--", "--nocapture"],
            &[("CUDNN_SHIM_TEST_FULL", "1")],
        ),
        figure: Figure::Tests,
    },
    Check {
        name: "aarch64",
        about: "unit tests, layouts, steps and recordings on an emulated processor of another kind",
        minutes: 120,
        run: task(&["sanitize", "aarch64"]),
        figure: Figure::Tests,
    },
    Check {
        name: "aarch64-packages",
        about: "the packages for aarch64: names, symbols and versions, and C programs on them, emulated",
        minutes: 30,
        run: task(&["package", "--for", "aarch64", "--check"]),
        figure: Figure::Last(" passed, "),
    },
    Check {
        name: "fresh",
        about: "both commands of the README on a minimal Debian that has Rust and a C compiler and nothing else",
        minutes: 90,
        run: Run { program: Program::File(".ci/fresh"), arguments: &[], variables: &[] },
        figure: Figure::Last(" passed, "),
    },
    Check {
        name: "packages",
        about: "two clones in different folders make the same files of a release",
        minutes: 60,
        run: Run { program: Program::File(".ci/same-packages"), arguments: &[], variables: &[] },
        figure: Figure::Last(" files are the same"),
    },
];

impl Check {
    /// Runs it and returns its figure.
    ///
    /// # Errors
    /// Its command fails, or what it prints does not show that it has passed.
    pub fn prove(&self) -> Result<String> {
        let mut found = Found::new(self.figure);
        // Other cases than in the runs before.
        let from = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis().to_string();
        let run = &self.run;
        let mut command = match run.program {
            Program::Cargo => shell::cargo(),
            Program::Task => Command::new(std::env::current_exe()?),
            Program::File(file) => Command::new(shell::root().join(file)),
        };
        command.args(run.arguments).env("CUDNN_SHIM_FUZZ_FROM", &from);
        command.envs(run.variables.iter().copied()).current_dir(shell::root());
        let status = shell::stream(&mut command, |line| found.look(line))?;
        if !status.success() {
            bail!("`{run}` ended with {status}");
        }
        found.figure()
    }

    /// What one would type.
    pub fn command(&self) -> String {
        self.run.to_string()
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, value) in self.variables {
            write!(f, "{name}={value} ")?;
        }
        f.write_str(match self.program {
            Program::Cargo => "cargo",
            Program::Task => "cargo xtask",
            Program::File(file) => file,
        })?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
    }
}
