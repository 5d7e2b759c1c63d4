//! Compiles the C and C++ programs of `c_tests/` against the header and the shared library as a
//! user would, and runs them plainly, with sanitizers and under valgrind.
//!
//! `CUDNN_SHIM_TEST_FULL=1` runs each with both compilers in every way, without it some of these
//! are left out.
//!
//! A program that calls a function which is not built yet is skipped, and so is a tool that is not
//! installed; both are counted and printed.

mod common;

use common::tools::works;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::extent;

/// A program that takes longer is ended by a signal, which counts as a failure.
const SECONDS_PER_RUN: u32 = 300;
/// The program about functions that are not built; it is the only one that may call them.
const ABOUT_STUBS: &str = "not_built";
/// The program whose calls the log is checked with.
const LOGGED: &str = "context";

/// Those for C and for C++.
const COMPILERS: [(&str, &str); 2] = [("gcc", "g++"), ("clang", "clang++")];

/// How a program is built and run.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Plain,
    Sanitized,
    Valgrind,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Plain, Self::Sanitized, Self::Valgrind];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Sanitized => "sanitized",
            Self::Valgrind => "valgrind",
        }
    }
}

const SANITIZE: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

struct Program {
    name: String,
    source: PathBuf,
    cpp: bool,
    /// A function that the program needs and that is not built.
    missing: Option<String>,
    /// Whether it does what valgrind cannot follow, as it says itself.
    evades_valgrind: bool,
}

/// What became of a program in one mode.
#[derive(Clone)]
enum Outcome {
    /// For a reason, in a word.
    Skipped(&'static str),
    /// It runs with the other compiler's program: what valgrind watches is the library.
    Once,
    /// The sample is without it.
    Left,
    /// The error is what it printed.
    Ran(Result<(), String>),
}

/// Directories and environment that all programs are built and run with.
struct Setting {
    scratch: PathBuf,
    lib: PathBuf,
}

fn main() -> ExitCode {
    let scratch = common::scratch_dir("c_programs");
    let setting = Setting { lib: common::install_layout(&scratch), scratch };
    let programs = programs(&common::catalogue::stubs());
    assert!(programs.len() >= 10, "the C programs are missing");
    // As of any other test program: those whose names have this in them.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let is_wanted = |name: &str| filter.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let rows: Vec<(&Program, &str)> = programs
        .iter()
        .filter(|program| is_wanted(&program.name))
        .flat_map(|program| COMPILERS.map(|(c, cpp)| (program, if program.cpp { cpp } else { c })))
        .collect();
    let (mut ran, mut skipped, mut left, mut failures) = (0, 0, 0, Vec::new());
    println!("{:<22}{:<10}{:>13}{:>13}{:>13}", "program", "compiler", "plain", "sanitized", "valgrind");
    for ((program, compiler), outcomes) in rows.iter().zip(setting.outcomes(&rows)) {
        print!("{:<22}{compiler:<10}", program.name);
        for (mode, outcome) in Mode::ALL.into_iter().zip(outcomes) {
            let word = match outcome {
                Outcome::Skipped(reason) => {
                    skipped += 1;
                    format!("skip:{reason}")
                }
                Outcome::Once => "once".to_owned(),
                Outcome::Left => {
                    left += 1;
                    "-".to_owned()
                }
                Outcome::Ran(result) => {
                    ran += 1;
                    let word = if result.is_ok() { "ok" } else { "FAILED" };
                    let failure =
                        |failure| format!("{} {compiler} {}:\n{failure}", program.name, mode.name());
                    failures.extend(result.err().map(failure));
                    word.to_owned()
                }
            };
            print!("{word:>13}");
        }
        println!();
    }
    for program in &programs {
        if let Some(function) = &program.missing {
            println!("    {} needs {function}, which is not built", program.name);
        }
    }
    match COMPILERS.into_iter().map(|(c, _)| c).find(|c| works(c)) {
        Some(compiler) => {
            ran += 1;
            if let Err(failure) = setting.check_log(&programs, compiler) {
                failures.push(format!("log: {failure}"));
            }
        }
        None => {
            skipped += 1;
            println!("log: skip:compiler");
        }
    }
    failures.iter().for_each(|failure| println!("{failure}"));
    extent::say(ran, ran + left);
    common::conclude(ran - failures.len(), failures.len(), skipped)
}

/// All programs, in order of their names.
fn programs(stubs: &BTreeSet<String>) -> Vec<Program> {
    let dir = common::project_root().join("c_tests");
    let mut programs: Vec<Program> = fs::read_dir(&dir)
        .expect("c_tests")
        .map(|entry| entry.expect("entry").path())
        .filter_map(|source| {
            let cpp = match source.extension()?.to_str()? {
                "c" => false,
                "cpp" => true,
                _ => return None,
            };
            let name = source.file_stem()?.to_str()?.to_owned();
            let text = fs::read_to_string(&source).expect("source");
            let missing = text
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .find(|word| stubs.contains(*word) && name != ABOUT_STUBS)
                .map(str::to_owned);
            let evades_valgrind = text.contains("Not under valgrind");
            Some(Program { name, source, cpp, missing, evades_valgrind })
        })
        .collect();
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    programs
}

/// The compiler for C that comes with one for C or C++.
fn c_of(compiler: &str) -> &'static str {
    COMPILERS.into_iter().find(|(c, cpp)| [*c, *cpp].contains(&compiler)).expect("one of the pairs").0
}

impl Setting {
    /// What becomes of every row, two at a time, as most programs keep one processor busy.
    fn outcomes(&self, rows: &[(&Program, &str)]) -> Vec<[Outcome; 3]> {
        let next = AtomicUsize::new(0);
        let take = || {
            let mut taken = Vec::new();
            while let Some((row, (program, compiler))) = {
                let row = next.fetch_add(1, Ordering::Relaxed);
                rows.get(row).map(|of| (row, of))
            } {
                taken.push((row, Mode::ALL.map(|mode| self.outcome(program, compiler, mode))));
            }
            taken
        };
        let mut outcomes = std::thread::scope(|scope| {
            let workers = [scope.spawn(take), scope.spawn(take)];
            workers.into_iter().flat_map(|worker| worker.join().expect("no row panics")).collect::<Vec<_>>()
        });
        outcomes.sort_by_key(|(row, _)| *row);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn outcome(&self, program: &Program, compiler: &str, mode: Mode) -> Outcome {
        match self.missing(program, compiler, mode) {
            Some(reason) => Outcome::Skipped(reason),
            None if mode == Mode::Valgrind && !self.watches(compiler) => Outcome::Once,
            None if !extent::is_full() && !self.is_sampled(program, compiler, mode) => Outcome::Left,
            None => Outcome::Ran(self.check(program, compiler, mode)),
        }
    }

    /// Whether a sample has this: every program of every compiler plainly, those of one compiler
    /// with its sanitizers, and a sixth of them under valgrind, all of which takes longer than the
    /// rest.
    fn is_sampled(&self, program: &Program, compiler: &str, mode: Mode) -> bool {
        let number = program.name.bytes().map(usize::from).sum::<usize>();
        match mode {
            Mode::Plain => true,
            Mode::Sanitized => self.watches(compiler),
            Mode::Valgrind => number % 6 == 0,
        }
    }

    /// Whether this is the compiler whose programs run under valgrind: the first that is installed.
    fn watches(&self, compiler: &str) -> bool {
        let mut pairs = COMPILERS.into_iter();
        pairs.find(|(c, cpp)| works(c) && works(cpp)).is_none_or(|(c, cpp)| [c, cpp].contains(&compiler))
    }

    /// Why this combination cannot run here, in a word.
    fn missing(&self, program: &Program, compiler: &str, mode: Mode) -> Option<&'static str> {
        if program.missing.is_some() {
            Some("stub")
        } else if !works(compiler) {
            Some("compiler")
        } else if mode == Mode::Sanitized && !works(&format!("sanitizers of {}", c_of(compiler))) {
            Some("runtime")
        } else if mode == Mode::Valgrind && program.evades_valgrind {
            Some("unfit")
        } else if mode == Mode::Valgrind && !works("valgrind") {
            Some("valgrind")
        } else {
            None
        }
    }

    /// Compiles one program and runs it; the error is what it printed.
    fn check(&self, program: &Program, compiler: &str, mode: Mode) -> Result<(), String> {
        let binary = self.compile(program, compiler, mode)?;
        let output = self.run(&binary, mode, &[]);
        if !output.status.success() {
            return Err(format!("{}\n{}", output.status, common::printed(&output)));
        }
        // The library says nothing unless asked to, and the programs only speak of failures.
        if common::printed(&output).is_empty() {
            Ok(())
        } else {
            Err(format!("not silent: {}", common::printed(&output)))
        }
    }

    fn compile(&self, program: &Program, compiler: &str, mode: Mode) -> Result<PathBuf, String> {
        let sanitize = mode == Mode::Sanitized;
        let kind = if sanitize { "sanitized" } else { "plain" };
        let binary = self.scratch.join(format!("{}-{compiler}-{kind}", program.name));
        if binary.is_file() {
            return Ok(binary);
        }
        let mut command = Command::new(compiler);
        command
            .arg(if program.cpp { "-std=c++11" } else { "-std=c99" })
            .args(["-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"])
            // Common versions of valgrind do not read newer debug information.
            .arg("-gdwarf-4");
        if sanitize {
            command.args(SANITIZE);
        }
        command
            .arg("-I")
            .arg(common::project_root().join("include"))
            .arg(&program.source)
            .arg("-o")
            .arg(&binary)
            .arg("-L")
            .arg(&self.lib)
            .args(["-lcudnn", "-lm", "-lpthread"]);
        let output = command.output().map_err(|error| format!("{compiler}: {error}"))?;
        if output.status.success() { Ok(binary) } else { Err(common::printed(&output)) }
    }

    fn run(&self, binary: &Path, mode: Mode, environment: &[(&str, &str)]) -> Output {
        let mut command = if mode == Mode::Valgrind {
            let mut valgrind = Command::new("valgrind");
            valgrind
                .args([
                    "--quiet",
                    "--error-exitcode=99",
                    "--leak-check=full",
                    "--errors-for-leak-kinds=definite",
                ])
                .args(["--show-leak-kinds=definite"])
                .arg(binary);
            valgrind
        } else {
            Command::new(binary)
        };
        for name in ["CUDNN_SHIM_STRICT", "CUDNN_SHIM_CHECK", "CUDNN_LOGLEVEL_DBG", "CUDNN_LOGDEST_DBG"] {
            command.env_remove(name);
        }
        command.env("CUDNN_SHIM_BACKEND", "cpu").env("LD_LIBRARY_PATH", &self.lib);
        command.envs(environment.iter().copied());
        // Whether the library is one that panics on demand, as `panics.c` asks: that which is built
        // with this program.
        if cfg!(debug_assertions) && std::env::var_os("CUDNN_SHIM_TEST_LIBRARY").is_none() {
            command.env("DEBUG_ASSERTIONS", "1");
        }
        // SAFETY: `alarm` is async-signal-safe and survives the exec.
        unsafe {
            command.pre_exec(|| {
                libc::alarm(SECONDS_PER_RUN);
                Ok(())
            });
        }
        command.output().unwrap_or_else(|error| panic!("{}: {error}", binary.display()))
    }

    /// The log goes where the environment says, and nowhere else.
    fn check_log(&self, programs: &[Program], compiler: &str) -> Result<(), String> {
        let program = programs.iter().find(|program| program.name == LOGGED).ok_or("no program to log")?;
        if let Some(function) = &program.missing {
            return Err(format!("{LOGGED} needs {function}, which is not built"));
        }
        let binary = self.compile(program, compiler, Mode::Plain)?;
        let file = self.scratch.join("log.txt");
        let name = file.to_str().ok_or("path is not text")?;
        let level = ("CUDNN_LOGLEVEL_DBG", "3");
        let to_file = self.run(&binary, Mode::Plain, &[level, ("CUDNN_LOGDEST_DBG", name)]);
        let logged = fs::read_to_string(&file).map_err(|error| format!("{name}: {error}"))?;
        let expectations = [
            ("the program passes while it is logged", to_file.status.success()),
            ("a log in a file is nowhere else", common::printed(&to_file).is_empty()),
            (
                "the log names the calls",
                logged.contains("cudnnCreate") && logged.contains("cudnnGetProperty"),
            ),
        ];
        let wrong = [("CUDNN_SHIM_NUM_THREADS", "several"), ("CUDNN_SHIM_ISA", "avx3")];
        let warnings = [("CUDNN_LOGLEVEL_DBG", "2"), ("CUDNN_LOGDEST_DBG", "stderr"), wrong[0], wrong[1]];
        let warned = common::printed(&self.run(&binary, Mode::Plain, &warnings));
        let once = |what: &str| warned.matches(what).count() == 1;
        let to_stderr = self.run(&binary, Mode::Plain, &[level, ("CUDNN_LOGDEST_DBG", "stderr")]);
        let to_stdout = self.run(&binary, Mode::Plain, &[level, ("CUDNN_LOGDEST_DBG", "stdout")]);
        let nowhere = self.run(&binary, Mode::Plain, &[level]);
        let more = [
            (
                "limits that make no sense are warned of, once",
                wrong.iter().all(|(name, value)| once(&format!("{name}={value}: "))),
            ),
            (
                "lines of level 2 carry the status",
                warned.contains("-> CUDNN_STATUS_BAD_PARAM\n") && !warned.contains(") -> "),
            ),
            ("stderr gets the log", !to_stderr.stderr.is_empty() && to_stderr.stdout.is_empty()),
            ("stdout gets the log", !to_stdout.stdout.is_empty() && to_stdout.stderr.is_empty()),
            ("without a destination there is no log", common::printed(&nowhere).is_empty()),
        ];
        let failed: Vec<_> =
            expectations.iter().chain(&more).filter(|(_, holds)| !holds).map(|(what, _)| *what).collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }
}
