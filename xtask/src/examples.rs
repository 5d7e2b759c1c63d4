//! The examples as parts of `cargo xtask test`: Python through DLPack, a batch over MPI ranks,
//! networks that read and write; and the site of `docs/`.

use std::process::Command;

use anyhow::Result;

use crate::dist::Dist;
use crate::machine::Machine;
use crate::test::Tally;
use crate::{docs, shell, tool, tools};

/// The numbers of ranks that share a batch.
const RANKS: [&str; 3] = ["1", "2", "4"];

/// `examples/python` on the library: the plots are drawn. The package itself has tests of its own,
/// which run on the wheel.
pub fn python(dist: &Dist) -> Result<Tally> {
    let python = match tools::python() {
        Ok(python) => python,
        Err(lines) => {
            println!("skipped: Python with numpy is missing; install it: {lines}");
            return Ok(Tally::SKIP);
        }
    };
    let there = Command::new(&python).args(["-c", "import matplotlib"]).output()?.status.success();
    if !there {
        println!(
            "skipped: matplotlib is not installed; install it: {} -m pip install matplotlib",
            python.display()
        );
        return Ok(Tally::SKIP);
    }
    // One image, and several whose channels do not fill their blocks.
    let plots = [&[][..], &["2,40,3,5"]].map(|dims| {
        let mut plots = Command::new(&python);
        plots.env("CUDNN_SHIM_BACKEND", "cpu").env("CUDNN_SHIM_LIBRARY", dist.library());
        plots.env("PYTHONPATH", shell::root().join("python/src"));
        plots.arg(shell::root().join("examples/python/plot_layouts.py"));
        plots.arg(shell::target().join("layouts.png")).args(dims);
        shell::run(&mut plots).map_or(Tally::FAIL, |()| Tally::PASS)
    });
    Ok(plots.into_iter().sum())
}

/// `examples/mpi` on 1, 2 and 4 ranks: each is one test.
pub fn mpi(dist: &Dist) -> Result<Tally> {
    for tool in ["mpirun", "mpicxx"] {
        if let Some(line) = tools::lacking(tool) {
            println!("skipped: {tool} does not work here; install it: {line}");
            return Ok(Tally::SKIP);
        }
    }
    let program = shell::target().join("shards");
    let mut compile = Command::new("mpicxx");
    compile.args([
        "-std=c++11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-DCUDNN_SHIM_NO_CUDA_HEADERS",
        "-DOMPI_SKIP_MPICXX",
        "-I",
    ]);
    compile.arg(shell::root().join("examples/networks")).arg("-I").arg(&dist.include);
    compile
        .arg(shell::root().join("examples/mpi/shards.cpp"))
        .arg("-L")
        .arg(&dist.lib)
        .args(["-lcudnn", "-o"]);
    shell::run(compile.arg(&program))?;
    let mut tally = Tally::default();
    for ranks in RANKS {
        let mut run = Command::new("mpirun");
        // Machines of tests have fewer processors than ranks, and one user.
        run.args(["--oversubscribe", "-n", ranks]).env("LD_LIBRARY_PATH", &dist.lib);
        run.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        run.envs([("CUDNN_SHIM_BACKEND", "cpu"), ("CUDNN_SHIM_NUM_THREADS", "1")]);
        // Not a multiple of the ranks.
        tally = tally + shell::run(run.arg(&program).args(["13", "2"])).map_or(Tally::FAIL, |()| Tally::PASS);
    }
    Ok(tally)
}

/// A program of `examples/sequences`: how many steps it trains here, its data, what it links
/// besides, and whether the numbers of its last line are those of one that has learned.
struct Learner {
    name: &'static str,
    /// Two thirds of those that it takes by itself.
    steps: &'static str,
    data: &'static str,
    libraries: &'static [&'static str],
    has_learned: fn(&[f64]) -> bool,
}

const LEARNERS: [Learner; 2] = [
    Learner {
        name: "letters",
        steps: "400",
        data: "examples/sequences/alice.txt",
        libraries: &["-lcublas", "-lcudart"],
        has_learned: |bits| bits.len() == 2 && bits[1] < 0.2 * bits[0],
    },
    Learner {
        name: "numbers",
        steps: "700",
        data: "demo/digits.dat",
        libraries: &[],
        has_learned: |rows| rows.len() == 2 && rows[0] > 0.75 * rows[1],
    },
];

/// `examples/sequences`, trained until they have learned: an LSTM that spells, written for a GPU,
/// and one that reads rows of digits by CTC. The tool runs them.
pub fn sequences(dist: &Dist) -> Result<Tally> {
    // It only starts them: another link of the whole library, in release, would take longer than
    // both together.
    let tool = tool::build(false)?;
    let mut tally = Tally::default();
    for Learner { name, steps, data, libraries, has_learned } in LEARNERS {
        let program = shell::target().join(name);
        let mut compiler = tools::c_compiler(Machine::target()?)?;
        compiler.args(["-std=c99", "-O2", "-Wall", "-Wextra"]);
        compiler.arg(shell::root().join("examples/sequences").join(name).with_extension("c"));
        compiler.arg("-I").arg(&dist.include).arg("-I").arg(dist.include.join("host-cuda"));
        compiler.arg("-L").arg(&dist.lib).arg("-L").arg(dist.lib.join("host-cuda"));
        compiler.arg("-lcudnn").args(libraries).arg("-lm").arg("-o");
        shell::run(compiler.arg(&program))?;
        let mut command = Command::new(&tool);
        command
            .arg("run")
            .arg("--lib")
            .arg(&dist.lib)
            .arg(&program)
            .args(["--steps", steps, data])
            .current_dir(shell::root());
        let mut last = String::new();
        let status = shell::stream(&mut command, |line| line.clone_into(&mut last))?;
        let numbers: Vec<f64> = last.split(' ').filter_map(|word| word.parse().ok()).collect();
        let passes = status.success() && last.starts_with(name) && has_learned(&numbers);
        tally = tally + if passes { Tally::PASS } else { Tally::FAIL };
    }
    Ok(tally)
}

/// The site is made without a complaint.
pub fn site() -> Result<Tally> {
    docs::build(&docs::mdbook()?).map(|_| Tally::PASS)
}
