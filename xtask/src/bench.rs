//! `cargo xtask bench`: the benchmark programs, each one that can run here.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::api::Api;
use crate::shell;

/// What `benches/peers.py` needs, and where from.
const INSTALL: &str = "python3 -m venv target/bench-venv && \
                       target/bench-venv/bin/pip install numpy torch onednn-devel-cpu-gomp";

/// Arguments are handed on to the programs: names of rows in `benches/problems.txt` and `benches/steps.txt`.
pub fn run(names: &[String]) -> Result<()> {
    shell::run(shell::cargo().args(["bench", "--bench", "small_calls"]))?;
    shell::run(shell::cargo().args(["bench", "--bench", "transforms", "--"]).args(names))?;
    shell::run(shell::cargo().args(["bench", "--bench", "layer_steps", "--"]).args(names))?;
    // Arithmetic has rows of its own.
    let all = names.is_empty();
    if all {
        shell::run(shell::cargo().args(["bench", "--bench", "arithmetic"]))?;
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
    let library = Api::Nine.build(true)?.shared;
    let program = |name: &str| {
        let mut command = Command::new(&python);
        command.env("CUDNN_SHIM_BACKEND", "cpu");
        command.current_dir(shell::root()).arg(name).arg(&library);
        command
    };
    let mut peers = program("benches/peers.py");
    match libdnnl(&venv) {
        Some(libdnnl) => {
            peers.arg("--libdnnl").arg(libdnnl).arg("--include").arg(venv.join("include"));
        }
        None => println!("\noneDNN is not installed; to install it:\n  {INSTALL}"),
    }
    shell::run(peers.args(names))?;
    if all { shell::run(&mut program("benches/arithmetic_peers.py")) } else { Ok(()) }
}

/// The library of the PyPI package `onednn-cpu-gomp`.
fn libdnnl(venv: &Path) -> Option<PathBuf> {
    let library = venv.join("lib/libdnnl.so.3");
    library.exists().then_some(library)
}
