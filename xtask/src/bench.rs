//! `cargo xtask bench`: the benchmark programs, each one that can run here.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::api::Api;
use crate::shell;

/// What the programs with peers need, and where from.
const INSTALL: &str = "python3 -m venv target/bench-venv && \
                       target/bench-venv/bin/pip install numpy torch onnx onnxruntime onednn-devel-cpu-gomp";

/// Programs in Python whose rows are their own: beside PyTorch alone, and beside nothing but
/// limits.
const PEERS: [&str; 4] = [
    "benches/arithmetic_peers.py",
    "benches/contractions_peers.py",
    "benches/recurrent_peers.py",
    "benches/acceptance.py",
];

/// Arguments are names of rows in `problems/problems.txt` and `problems/steps.txt`; without any,
/// all programs run.
pub fn run(names: &[String]) -> Result<()> {
    shell::run(shell::cargo().args(["bench", "--bench", "small_calls"]))?;
    shell::run(shell::cargo().args(["bench", "--bench", "graphs"]))?;
    shell::run(shell::cargo().args(["bench", "--bench", "transforms", "--"]).args(names))?;
    shell::run(shell::cargo().args(["bench", "--bench", "layer_steps", "--"]).args(names))?;
    // The rest have rows of their own, which names of the lists do not choose among.
    let all = names.is_empty();
    if all {
        for bench in ["arithmetic", "jobs", "layers"] {
            shell::run(shell::cargo().args(["bench", "--bench", bench]))?;
        }
    }
    let venv = shell::target().join("bench-venv");
    let python = venv.join("bin/python");
    let has_torch = python.exists()
        && Command::new(&python).args(["-c", "import torch"]).status().is_ok_and(|status| status.success());
    if !has_torch {
        println!(
            "\nPyTorch is not installed, nothing to compare with; to install it (some gigabytes):\n  {INSTALL}"
        );
        return Ok(());
    }
    let library = Api::Nine.build(true, None)?.shared;
    let program = |name: &str| {
        let mut command = Command::new(&python);
        command.env("CUDNN_SHIM_BACKEND", "cpu");
        command.current_dir(shell::root()).arg(name).arg(&library);
        command
    };
    let dnnl = libdnnl(&venv).map_or_else(Vec::new, |path| vec!["--libdnnl".into(), path]);
    if dnnl.is_empty() {
        println!("\noneDNN is not installed; to install it:\n  {INSTALL}");
    }
    shell::run(program("benches/peers.py").args(&dnnl).args(names))?;
    if all {
        shell::run(program("benches/layers_peers.py").args(&dnnl))?;
        PEERS.into_iter().try_for_each(|name| shell::run(&mut program(name)))?;
    }
    Ok(())
}

/// The library of the PyPI package `onednn-cpu-gomp`.
fn libdnnl(venv: &Path) -> Option<PathBuf> {
    let library = venv.join("lib/libdnnl.so.3");
    library.exists().then_some(library)
}
