//! Programs as a new user writes them, compiled against the installation and run by its tool: with memory from the CUDA
//! runtime and products by cuBLAS, and with pointers of the host only.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::installed::{installed, quiet, run, scratch};
use crate::interface::Interface;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program of `demo/`, compiled as its users would.
fn program(name: &str, libraries: &[&str]) -> PathBuf {
    let prefix = installed(Interface::Nine);
    let program = scratch(name).join(name);
    let folder = |below: &str| prefix.join(below).display().to_string();
    let mut compiler = Command::new("gcc");
    compiler.args(["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror"]);
    compiler.arg(root().join("demo").join(name).with_extension("c")).arg("-o").arg(&program);
    compiler.args(["-I", &folder("include"), "-I", &folder("include/host-cuda")]);
    compiler.args(["-L", &folder("lib"), "-L", &folder("lib/host-cuda")]);
    run(compiler.args(libraries));
    program
}

/// What it prints when the tool runs it, but for the milliseconds; nothing may stand against it.
fn printed(program: &Path, threads: &str, arguments: &[&str]) -> String {
    let mut tool = Command::new(installed(Interface::Nine).join("bin/cudnn-shim"));
    tool.args(["run", "--threads", threads]).arg(program).args(arguments);
    tool.arg(root().join("demo/digits.dat")).env_remove("LD_LIBRARY_PATH").env_remove("CUDNN_SHIM_BACKEND");
    let text = quiet(&mut tool);
    text.lines().map(|line| line.split(" %  ").next().unwrap_or_default().to_owned() + "\n").collect()
}

#[test]
fn a_lenet_with_device_memory_and_cublas_is_the_same_for_any_number_of_threads() {
    let program = program("lenet", &["-lcudnn", "-lcublas", "-lcudart", "-lm"]);
    let doctor =
        Command::new(installed(Interface::Nine).join("bin/cudnn-shim")).arg("doctor").arg(&program).output();
    let doctor = doctor.expect("the tool starts");
    assert_eq!(doctor.status.code(), Some(0), "{}", String::from_utf8_lossy(&doctor.stdout));
    let want = printed(&program, "1", &["--epochs", "2"]);
    let last = want.lines().last().unwrap_or_default();
    let right: u32 = last.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    assert!(last.starts_with("lenet: ") && right > 270, "it has learned: {want}");
    for threads in ["2", "3"] {
        assert_eq!(printed(&program, threads, &["--epochs", "2"]), want, "{threads} threads");
    }
}

#[test]
fn a_program_with_host_pointers_runs_as_well() {
    let program = program("digits", &["-lcudnn", "-lm"]);
    assert!(printed(&program, "2", &["--steps", "3"]).contains("digits: "));
}
