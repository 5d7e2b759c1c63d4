//! The examples as parts of `cargo xtask test`: Python through DLPack, a batch over MPI ranks; and the site of `docs/`.

use std::process::Command;

use anyhow::Result;

use crate::dist::Dist;
use crate::test::Tally;
use crate::{docs, shell, tools};

/// The numbers of ranks that share a batch.
const RANKS: [&str; 3] = ["1", "2", "4"];

/// `examples/python` on the library: the plots are drawn. The package itself has tests of its own, which run on the wheel.
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

/// The site is made without a complaint.
pub fn site() -> Result<Tally> {
    docs::build(&docs::mdbook()?).map(|_| Tally::PASS)
}
