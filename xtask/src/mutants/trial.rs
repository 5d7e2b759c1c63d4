//! The quick tests of the changed copy, built once and run for each mutant.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::in_lanes;
use super::rewrite::{REACHED, VARIABLE};
use super::tree::Tree;
use crate::{shell, tools};

/// The programs; what each is asked for: tests whose names contain one of these words, all where
/// there is none; and what the names of files contain whose changes it is run for. Recordings whose
/// sums take long are only replayed for the sources near them.
const TESTS: &[(&str, &[&str], &[&str])] = &[
    (UNITS, &["layout::", "ops::", "desc::", "contract::"], EVERY),
    ("basics", &["attributes::", "blocks::", "disjoint::", "layout::", "names::", "types::"], EVERY),
    ("plans", &["answers::", "chosen::", "golden::", "limits::", "moved::", "refusals::"], EVERY),
    (GRAPH, &[], EVERY),
    (
        RECORDINGS,
        &["--fail-fast", "--skip=causal", "--skip=rnn", "--skip=seq", "--skip=attn", "--skip=divnorm"],
        EVERY,
    ),
    // What compares numbers: with definitions, with what the original has left, and kernels with
    // the loops that define a step.
    ("boundary_fuzz", &["plans"], EVERY),
    ("boundary_fuzz", &["altered"], EVERY),
    ("boundary_fuzz", &["problems"], EVERY),
    ("cpu", &["causal::sums_are", "causal::gradients_are", "causal::results_do"], EVERY),
    ("cpu", &["contract::choice", "graphs::", "plain_formulas"], EVERY),
    (
        "cpu",
        &["contract::steps::", "contract::cpu::convolutions", "contract::kernels::"],
        &["contract", "convolution", "matmul"],
    ),
    ("cuda", &["arranged::"], &["convolution/arrange", "convolution/plan"]),
    ("cuda", &["cores::mapped"], &["transform"]),
    ("cpu", &["ctc::"], &["ctc"]),
    ("cpu", &["dropout::"], &["dropout", "random"]),
    ("cpu", &["normalise::gradients_are", "normalise::forward", "without_saved"], &["norm"]),
    ("cpu", &["padded::"], &["layout", "padded", "transform"]),
    (
        "cpu",
        &[
            "sample::samples",
            "sample::gradients",
            "sample::grids",
            "the_identity",
            "sample::what_does_not_go",
        ],
        &["sample", "transformer"],
    ),
    ("plans", &["convolution::", "golden_windows::", "graph::", "recurrent::", "unfold::"], EVERY),
    (
        "listed",
        &["steps::"],
        &["agree", "chunks", "map", "part", "reduc", "response", "rows", "transform", "window"],
    ),
];

/// The comparisons with NumPy, what they are asked for, and what the names of files contain whose
/// changes they are run for.
const NUMPY: &[(&str, &[&str], &[&str])] = &[
    ("arithmetic.py", &["--part", "reductions"], &["layout", "map", "reduc"]),
    ("attention.py", &["--cases", "400"], &["attention", "sequence"]),
    ("convolution.py", &["--cases", "2000"], &["contract", "convolution"]),
    ("ctc.py", &["--cases", "300"], &["ctc"]),
    ("differential.py", &["--cases", "1000"], &["agree", "layout", "map", "transform"]),
    ("graphs.py", &["--cases", "400"], &["graph"]),
    ("layers.py", &[], &["activation", "dropout", "map", "norm", "response", "rows", "softmax"]),
    ("matmul.py", &["--cases", "500"], &["contract", "matmul"]),
    ("normalisation.py", &["--cases", "300"], &["norm"]),
    ("recurrent.py", &["--cases", "300"], &["recurrent", "rnn"]),
    ("sampler.py", &[], &["sample", "transformer"]),
    ("windows.py", &["--cases", "200"], &["pool", "response", "window"]),
];

/// The C programs that take milliseconds, all of them one suite.
const C_PROGRAMS: &[&str] = &[
    "attention",
    "attention_training",
    "blocked",
    "context",
    "convolution",
    "convolution_directions",
    "convolution_fused",
    "convolution_queries",
    "convolution_workspaces",
    "ctc",
    "descriptors",
    "disjoint",
    "factors",
    "fused_operations",
    "graph",
    "in_place",
    "layers",
    "layouts",
    "matmul",
    "misuse",
    "misuse_filter",
    "misuse_pointwise",
    "misuse_reduce",
    "perceptron",
    "recurrent",
    "recurrent_doors",
    "recurrent_reserve",
    "sequences_and_graphs",
    "spatial_transformer",
    "strict_answers",
    "transform",
];

/// The programs with a harness of their own, which runs no single test.
const WHOLE: &[&str] = &[GRAPH, RECORDINGS, "boundary_fuzz"];

/// All names.
const EVERY: &[&str] = &[""];

/// The unit tests of the library.
const UNITS: &str = "cudnn";

/// The replay of what was recorded of graphs, and of everything else.
const GRAPH: &str = "graph_objects";
const RECORDINGS: &str = "oracle";

/// What recordings call the parts of the sources whose names they do not begin like.
const RECORDED: &[(&str, &[&str])] = &[
    ("attention", &["attn"]),
    ("batch_norm", &["norm"]),
    ("contract", &["conv_fwd", "conv_bwd"]),
    ("layout", &["tensor", "xform"]),
    ("normalise", &["norm"]),
    ("recurrent", &["rnn"]),
    ("response", &["lrn", "divnorm"]),
    ("sequence", &["seq"]),
    ("transform", &["xform", "transform"]),
    ("window", &["pool", "lrn"]),
];

/// The memory that a process may have, in KiB: a list that never ends must not take all there is.
/// The driver double has addresses for much more.
const MEMORY: u64 = 8 << 20;

/// A mutant that takes so many times as long as the tests take without one hangs.
const PATIENCE: u32 = 10;
/// And so much longer, as recordings near a source may take longer than those that are always
/// replayed.
const GRACE: Duration = Duration::from_secs(20);
/// What does not even compute is waited for so much longer: other programs run as well.
const IDLE: Duration = Duration::from_secs(100);

/// What takes no longer is run before some of the recordings, which notice most.
const QUICK: Duration = Duration::from_secs(1);

/// Memory that the C library keeps instead of giving it back: the kernel takes several times as
/// long to clear the pages of the recordings' tensors as the recordings take.
const KEEP: &[(&str, &str)] = &[("MALLOC_MMAP_MAX_", "0"), ("MALLOC_TRIM_THRESHOLD_", "17179869184")];

/// A test, or a test program whose tests cannot be run one by one.
pub struct Suite {
    /// That of the program.
    pub name: &'static str,
    /// What starts it.
    program: Vec<OsString>,
    arguments: Vec<OsString>,
    /// What the names of files contain whose changes it is for.
    of: &'static [&'static str],
    /// How long it takes without a mutant.
    pub takes: Duration,
    /// By number, whether it comes by a change at all.
    reaches: Vec<bool>,
}

impl Suite {
    /// Whether it may notice a mutant of this file.
    fn is_for(&self, mutant: usize, file: &str) -> bool {
        self.reaches[mutant] && self.of.iter().any(|word| file.contains(word))
    }
}

/// The tests of the copy, the fastest first.
pub struct Trial {
    pub suites: Vec<Suite>,
    root: PathBuf,
}

impl Trial {
    /// Builds them, and runs them without a mutant: all must pass. Of mutants with numbers up to
    /// `most` it is then known which tests come by them.
    pub fn built(tree: &Tree, most: usize) -> Result<Trial> {
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
        TESTS
            .iter()
            .map(|(name, ..)| name)
            .filter(|name| **name != UNITS)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .for_each(|name| _ = command.args(["--test", name]));
        let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
        if !output.status.success() {
            bail!("the tests of the copy do not compile");
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let messages: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let mut trial = Trial { suites: Vec::new(), root: tree.root().to_owned() };
        for &(name, arguments, of) in TESTS {
            let built =
                |message: &&Value| message["target"]["name"] == name && message["executable"].is_string();
            let program = messages.iter().find(built).and_then(|message| message["executable"].as_str());
            let program = program.with_context(|| format!("cargo has not built the test {name}"))?;
            if WHOLE.contains(&name) {
                trial.add(name, vec![program.into()], arguments, of);
            } else {
                for test in tests(program, arguments)? {
                    trial.add(name, vec![program.into()], &[test.as_str(), "--exact"], of);
                }
            }
        }
        let library = messages.iter().flat_map(|message| message["filenames"].as_array()).flatten();
        let library = library.filter_map(Value::as_str).map(Path::new);
        let mut shared = library.filter(|path| path.file_name() == Some(OsStr::new("libcudnn.so")));
        let library = shared.next().context("cargo has not built the shared library")?;
        let python =
            tools::python().map_err(|lines| anyhow!("Python with NumPy is missing; install it: {lines}"))?;
        for &(name, arguments, of) in NUMPY {
            let script = trial.root.join("tests/numpy").join(name);
            let mut program: Vec<OsString> = [&python, &script].map(OsString::from).into();
            program.extend(["--core".into(), "cpu".into(), "--library".into(), library.into()]);
            trial.add(name, program, arguments, of);
        }
        trial.add("C programs", c_programs(&trial.root, library)?, &[], EVERY);
        let seen = in_lanes(trial.suites.len(), |at, lane| trial.alone(&trial.suites[at], lane, most))?;
        for (suite, seen) in trial.suites.iter_mut().zip(seen) {
            (suite.takes, suite.reaches) = seen;
        }
        trial.suites.sort_by_key(|suite| suite.takes);
        Ok(trial)
    }

    /// How long a suite takes without a mutant, and which of the changes up to `most` it comes by.
    fn alone(&self, suite: &Suite, lane: usize, most: usize) -> Result<(Duration, Vec<bool>)> {
        let reached = self.root.join(format!("../reached-{lane}"));
        fs::write(&reached, vec![0; most + 1])?;
        let start = Instant::now();
        if !self.passes(suite, &suite.arguments, 0, lane, Some(&reached))? {
            bail!("the test {} {:?} fails without a mutant", suite.name, suite.arguments);
        }
        let takes = start.elapsed();
        Ok((takes, fs::read(&reached)?.into_iter().map(|byte| byte != 0).collect()))
    }

    fn add(
        &mut self, name: &'static str, program: Vec<OsString>, arguments: &[&str],
        of: &'static [&'static str],
    ) {
        let arguments = arguments.iter().map(OsString::from).collect();
        let takes = Duration::from_secs(600);
        self.suites.push(Suite { name, program, arguments, of, takes, reaches: Vec::new() });
    }

    /// By program: how many tests there are, and how long they take without a mutant.
    pub fn programs(&self) -> BTreeMap<&'static str, (usize, Duration)> {
        let mut programs: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
        for suite in &self.suites {
            let (count, takes) = programs.entry(suite.name).or_default();
            (*count, *takes) = (*count + 1, *takes + suite.takes);
        }
        programs
    }

    /// The first suite that fails, hangs or ends the process with this mutant, which is one of
    /// `file`, among those that come by it. Runs of another `lane` may go on at the same time.
    pub fn noticed(&self, mutant: usize, file: &str, lane: usize) -> Result<Option<&'static str>> {
        let suites: Vec<&Suite> = self.suites.iter().filter(|suite| suite.is_for(mutant, file)).collect();
        let (quick, slow) = suites.split_at(suites.partition_point(|suite| suite.takes < QUICK));
        let first = |suites: &[&Suite]| -> Result<Option<&'static str>> {
            for suite in suites {
                if !self.passes(suite, &suite.arguments, mutant, lane, None)? {
                    return Ok(Some(suite.name));
                }
            }
            Ok(None)
        };
        if let Some(name) = first(quick)? {
            return Ok(Some(name));
        }
        // A part of a program before the whole of it.
        let near = near(file);
        if let Some(suite) = slow.iter().find(|suite| suite.name == near.program)
            && !near.arguments.is_empty()
            && !self.passes(suite, &near.arguments, mutant, lane, None)?
        {
            return Ok(Some(suite.name));
        }
        first(slow)
    }

    fn passes(
        &self, suite: &Suite, arguments: &[impl AsRef<OsStr>], mutant: usize, lane: usize,
        reached: Option<&Path>,
    ) -> Result<bool> {
        let seconds = (suite.takes * PATIENCE + GRACE).as_secs();
        let mut command = Command::new("sh");
        // The second limit is of the processor's time, whatever else it does; `timeout` ends the
        // processes that the program has started, too.
        let script = "ulimit -d \"$1\"; ulimit -t \"$2\"; shift 2; exec timeout -s KILL \"$@\"";
        command.args(["-c", script, "sh"]).arg(MEMORY.to_string()).arg(seconds.to_string());
        command.arg((seconds + IDLE.as_secs()).to_string()).args(&suite.program).args(arguments);
        command.envs(KEEP.iter().copied());
        command.current_dir(&self.root).env(VARIABLE, mutant.to_string()).env("RUST_BACKTRACE", "0");
        command.envs(reached.map(|file| (REACHED, file)));
        // The same random problems for every mutant.
        command.env("CUDNN_SHIM_FUZZ_FROM", "2026").env("CUDNN_SHIM_FUZZ_SECONDS", "10");
        // Some mutants run at a time, and each of them needs a processor.
        command.env("CUDNN_SHIM_NUM_THREADS", "1").env("OPENBLAS_NUM_THREADS", "1");
        command.env("CUDNN_SHIM_TEST_SCRATCH", shell::target().join(format!("mutants/scratch-{lane}")));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.status().context("cannot start a test")?.success())
    }
}

/// The tests of a program whose names contain one of these words.
fn tests(program: &str, words: &[&str]) -> Result<Vec<String>> {
    let mut list = Command::new(program);
    let list = shell::output(list.args(words).args(["--list", "--format=terse"]))?;
    Ok(list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Compiles the C programs against the header of `root` and a library; what runs them until one
/// fails.
fn c_programs(root: &Path, library: &Path) -> Result<Vec<OsString>> {
    let folder = shell::target().join("mutants/c");
    fs::create_dir_all(&folder)?;
    // They ask for it by the name of a release.
    let name = folder.join("libcudnn.so.9");
    fs::remove_file(&name).or_else(|error| match error.kind() {
        ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    symlink(library, &name)?;
    let script = "for program; do \"$program\" || exit 1; done";
    let mut line: Vec<OsString> = ["sh", "-c", script, "sh"].map(OsString::from).into();
    for program in C_PROGRAMS {
        let binary = folder.join(program);
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-I"]).arg(root.join("include"));
        compiler.arg(root.join("c_tests").join(program).with_extension("c")).arg("-o").arg(&binary);
        compiler.arg("-L").arg(&folder).arg("-l:libcudnn.so.9").arg("-lm").arg("-pthread");
        shell::run(compiler.arg(format!("-Wl,-rpath,{}", folder.display())))?;
        line.push(binary.into());
    }
    Ok(line)
}

/// What most likely notices a change of a file, and soon.
struct Near {
    program: &'static str,
    arguments: Vec<String>,
}

fn near(file: &str) -> Near {
    if file.contains("/graph/") {
        return Near { program: GRAPH, arguments: Vec::new() };
    }
    let mut arguments = vec!["--fail-fast".to_owned()];
    // Of `src/ops/pooling/plan.rs` the folder.
    for part in file.trim_end_matches(".rs").split('/').skip(1).take(2) {
        match RECORDED.iter().find(|(name, _)| *name == part) {
            Some((_, words)) => arguments.extend(words.iter().map(|&word| word.to_owned())),
            // Recordings are named by the first letters.
            None if !["ops", "desc", "backend", "cpu"].contains(&part) => {
                arguments.push(part.chars().take(4).collect())
            }
            None => {}
        }
    }
    if file.contains("/contract/") && arguments.len() == 1 {
        arguments.push("conv".to_owned());
    }
    Near { program: RECORDINGS, arguments }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_recordings_come_first() {
        let of = |file| (near(file).program, near(file).arguments[..].join(" "));
        assert_eq!(of("src/ops/pooling.rs"), (RECORDINGS, "--fail-fast pool".to_owned()));
        assert_eq!(of("src/ops/recurrent/frame.rs"), (RECORDINGS, "--fail-fast rnn".to_owned()));
        assert_eq!(of("src/layout/nest.rs").1, "--fail-fast tensor xform nest");
        assert_eq!(of("src/backend/cpu/contract/gemm/gemv.rs").1, "--fail-fast conv");
        assert_eq!(of("src/desc/graph/norm.rs"), (GRAPH, String::new()));
    }
}
