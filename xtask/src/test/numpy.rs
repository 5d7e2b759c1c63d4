//! The comparisons with NumPy: random problems, solved by each core of an installed library and by
//! NumPy, and controls that each comparison can fail. The CUDA core runs on the driver double.
//! `cargo xtask test` takes a sample, `cargo xtask fuzz` all cases; both draw the same ones each
//! time.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use super::{Tally, Times, counted};
use crate::dist::Dist;
use crate::{shell, tools};

/// How many of the cases run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Sample,
    Full,
}

impl Extent {
    /// A sample, or all with `CUDNN_SHIM_TEST_FULL=1`, which tests in Rust read as well.
    pub fn asked() -> Extent {
        let is_full = std::env::var_os("CUDNN_SHIM_TEST_FULL").is_some_and(|value| value == "1");
        if is_full { Extent::Full } else { Extent::Sample }
    }
}

/// A program of `tests/numpy`.
struct Program {
    file: &'static str,
    /// How many problems the CPU core solves: of a sample, and of all; none for a program that has
    /// no number of cases.
    cpu: Option<[u32; 2]>,
    /// The same of the CUDA core, whose driver double takes long: each block of a launch is a loop
    /// over its threads.
    cuda: Option<[u32; 2]>,
    /// One of so many of its listed problems is in a sample that the CUDA core solves.
    every: Option<u32>,
    /// How many problems the control has.
    control: Option<u32>,
}

const fn random(file: &'static str, cpu: [u32; 2], cuda: [u32; 2], control: u32) -> Program {
    Program { file, cpu: Some(cpu), cuda: Some(cuda), every: None, control: Some(control) }
}

const fn listed(file: &'static str) -> Program {
    Program { file, cpu: None, cuda: None, every: None, control: None }
}

/// What runs on both cores.
const BOTH: &[Program] = &[
    random("differential.py", [150, 4000], [50, 1500], 200),
    Program { every: Some(16), ..listed("arithmetic.py") },
    listed("layers.py"),
    random("windows.py", [75, 300], [30, 300], 60),
    random("normalisation.py", [75, 300], [30, 300], 60),
    random("ctc.py", [75, 300], [15, 60], 30),
    random("streams.py", [100, 400], [30, 150], 60),
    random("sampler.py", [50, 200], [30, 200], 60),
    random("attention.py", [75, 400], [15, 60], 40),
    // tests/cuda/contract.rs has more problems of the CUDA core, and larger ones.
    random("convolution.py", [125, 4000], [30, 600], 60),
    random("matmul.py", [100, 3000], [20, 300], 60),
    random("graphs.py", [75, 400], [20, 200], 60),
    random("recurrent.py", [30, 120], [5, 20], 20),
];

/// What runs on the CPU core alone: `tests/cuda` holds the other one to it, problem by problem, and
/// it has models in NumPy instead of PyTorch.
const CPU_ALONE: &[Program] = &[
    Program { cpu: Some([12, 3000]), control: Some(10), ..listed("combinations.py") },
    listed("promises.py"),
    listed("exactness.py"),
    listed("repeats.py"),
    Program { cpu: Some([20, 120]), control: Some(10), ..listed("torch_witness.py") },
];

/// Programs whose cases `CUDNN_SHIM_NUMPY_CASES` counts.
const COUNTED: &[&str] = &["differential.py", "convolution.py", "graphs.py"];

/// Compares `dist` with NumPy.
pub fn run(dist: &Dist, extent: Extent) -> Result<Tally> {
    let python = match tools::python() {
        Ok(python) => python,
        Err(lines) => {
            println!("skipped: Python with numpy and ml_dtypes is missing; install it: {lines}");
            return Ok(Tally::SKIP);
        }
    };
    let (double, mut tally) = match driver_double() {
        Ok(Some(double)) => (Some(double), Tally::default()),
        Ok(None) => (None, Tally::SKIP),
        Err(error) => (None, counted(Err(error))),
    };
    let cores = if double.is_some() { &["cpu", "cuda"][..] } else { &["cpu"] };
    let mut times = Times::default();
    let mut start = |file: &str, arguments: &[&str]| -> Result<Tally> {
        let mut reported = None;
        let start = Instant::now();
        let mut command = Command::new(&python);
        command.arg(shell::root().join("tests/numpy").join(file)).arg("--library").arg(dist.library());
        command.envs(double.iter().map(|double| ("LD_LIBRARY_PATH", double))).env("CUDNN_SHIM_CHECK", "1");
        let status =
            shell::stream(command.args(arguments), |line| reported = Tally::parse(line).or(reported))?;
        times.push(format!("{file} {}", arguments.join(" ")), start.elapsed().as_secs_f64());
        Ok(reported.unwrap_or_default().judged(status))
    };
    let asked = std::env::var("CUDNN_SHIM_NUMPY_CASES").ok();
    let number = |program: &Program, core: &str| {
        let cases = if core == "cpu" { program.cpu } else { program.cuda };
        let asked = asked.clone().filter(|_| core == "cpu" && COUNTED.contains(&program.file));
        asked.or_else(|| cases.map(|cases| cases[usize::from(extent == Extent::Full)].to_string()))
    };
    // A program and its control, with the core that they are told.
    let mut both = |program: &Program, core: &str, told: &[&str]| -> Result<Tally> {
        let cases = number(program, core);
        let mut arguments = told.to_vec();
        arguments.extend(cases.iter().flat_map(|cases| ["--cases", cases]));
        let is_sample = extent == Extent::Sample && core == "cuda";
        let every = program.every.filter(|_| is_sample).map(|every| every.to_string());
        arguments.extend(every.iter().flat_map(|every| ["--every", every]));
        let tally = start(program.file, &arguments)?;
        // Both cores are compared alike: one control is enough for a sample.
        if is_sample {
            return Ok(tally);
        }
        let cases = program.control.map(|cases| cases.to_string());
        let mut arguments = told.to_vec();
        arguments.extend(cases.iter().flat_map(|cases| ["--cases", cases]));
        arguments.push("--negative-control");
        Ok(tally + start(program.file, &arguments)?)
    };
    for core in cores {
        for program in BOTH {
            tally = tally + both(program, core, &["--core", core])?;
        }
    }
    for program in CPU_ALONE {
        tally = tally + both(program, "cpu", &[])?;
    }
    // What PyTorch makes of the perceptron of the C programs.
    let mut command = Command::new(&python);
    command.arg(shell::root().join("c_tests/perceptron.py")).arg("--check");
    let mut reported = None;
    let status = shell::stream(&mut command, |line| reported = Tally::parse(line).or(reported))?;
    tally = tally + reported.unwrap_or_default().judged(status);
    // On the CPU core alone: the driver double takes minutes for as many elements;
    // tests/cuda/large.rs samples them.
    tally = tally + start("arithmetic.py", &["--slow"])?;
    times.print();
    if extent == Extent::Sample && asked.is_none() {
        let programs = BOTH.iter().map(|program| (program.cpu, program.cuda));
        let programs = programs.chain(CPU_ALONE.iter().map(|program| (program.cpu, None)));
        let run = programs.flat_map(|(cpu, cuda)| [cpu, cuda.filter(|_| cores.contains(&"cuda"))]);
        let [part, all] = run.flatten().fold([0, 0], |sums, cases| [sums[0] + cases[0], sums[1] + cases[1]]);
        println!("\nsamples: {part} of {all} problems; `cargo xtask fuzz` solves all");
    }
    Ok(tally)
}

/// The folder of the driver double, built; none without its compiler.
fn driver_double() -> Result<Option<PathBuf>> {
    if std::env::var_os("CXX").is_none()
        && let Some(line) = tools::lacking("g++")
    {
        println!("skipped: no driver double for the CUDA core without g++; install it: {line}");
        return Ok(None);
    }
    tools::driver_double("source").map(Some)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{BOTH, COUNTED, CPU_ALONE};
    use crate::shell;

    /// Programs of the folder are those that can be told to fail.
    #[test]
    fn every_comparison_runs() {
        let listed: Vec<&str> = BOTH.iter().chain(CPU_ALONE).map(|program| program.file).collect();
        let folder = shell::root().join("tests/numpy");
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let is_program = || fs::read_to_string(entry.path()).unwrap().contains("\"--negative-control\"");
            if name.ends_with(".py") && is_program() {
                assert!(listed.contains(&name.as_str()), "tests/numpy/{name} does not run");
            }
        }
        assert!(COUNTED.iter().all(|name| listed.contains(name)));
        for cases in BOTH.iter().chain(CPU_ALONE).flat_map(|program| [program.cpu, program.cuda]).flatten() {
            assert!(0 < cases[0] && cases[0] < cases[1], "a sample is a part: {cases:?}");
        }
    }
}
