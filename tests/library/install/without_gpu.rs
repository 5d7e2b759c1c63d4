//! Programs as a new user writes them, compiled against the installation and run by its tool: with
//! memory from the CUDA runtime and products by cuBLAS, and with pointers of the host only.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::installed::{installed, quiet, run, scratch};
use crate::interface::Interface;

const DIGITS: &str = "demo/digits.dat";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program of `demo/` or `examples/sequences/`, compiled as its users would.
fn program(source: &str, libraries: &[&str]) -> PathBuf {
    let prefix = installed(Interface::Nine);
    let source = root().join(source);
    let name = source.file_stem().and_then(|name| name.to_str()).expect("a name");
    let program = scratch(name).join(name);
    let folder = |below: &str| prefix.join(below).display().to_string();
    let mut compiler = Command::new("gcc");
    compiler.args(["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror"]);
    compiler.arg(&source).arg("-o").arg(&program);
    compiler.args(["-I", &folder("include"), "-I", &folder("include/host-cuda")]);
    compiler.args(["-L", &folder("lib"), "-L", &folder("lib/host-cuda")]);
    run(compiler.args(libraries));
    program
}

/// What it prints when the tool runs it, but for the milliseconds; nothing may stand against it.
fn printed(program: &Path, how: &[&str], arguments: &[&str], data: &str) -> String {
    let mut tool = Command::new(installed(Interface::Nine).join("bin/cudnn-shim"));
    tool.arg("run").args(how).arg(program).args(arguments).current_dir(root());
    tool.arg(data).env_remove("LD_LIBRARY_PATH").env_remove("CUDNN_SHIM_BACKEND");
    let text = quiet(&mut tool);
    text.lines().map(|line| line.split(" %  ").next().unwrap_or_default().to_owned() + "\n").collect()
}

#[test]
fn a_lenet_with_device_memory_and_cublas_is_the_same_for_any_number_of_threads() {
    let program = program("demo/lenet.c", &["-lcudnn", "-lcublas", "-lcudart", "-lm"]);
    let doctor =
        Command::new(installed(Interface::Nine).join("bin/cudnn-shim")).arg("doctor").arg(&program).output();
    let doctor = doctor.expect("the tool starts");
    assert_eq!(doctor.status.code(), Some(0), "{}", String::from_utf8_lossy(&doctor.stdout));
    let printed = |threads: &str| printed(&program, &["--threads", threads], &["--epochs", "2"], DIGITS);
    let want = printed("1");
    let last = want.lines().last().unwrap_or_default();
    let right: u32 = last.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    assert!(last.starts_with("lenet: ") && right > 270, "it has learned: {want}");
    for threads in ["2", "3"] {
        assert_eq!(printed(threads), want, "{threads} threads");
    }
}

#[test]
fn a_program_with_host_pointers_runs_as_well() {
    let program = program("demo/digits.c", &["-lcudnn", "-lm"]);
    assert!(printed(&program, &["--threads", "2"], &["--steps", "3"], DIGITS).contains("digits: "));
}

/// The numbers of a line that begins with this word.
fn numbers(text: &str, word: &str) -> Vec<f64> {
    let line =
        text.lines().last().and_then(|line| line.strip_prefix(word)).unwrap_or_else(|| panic!("{text}"));
    line.split(' ').filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn an_lstm_with_device_memory_and_cublas_is_the_same_for_any_number_of_threads() {
    let program = program("examples/sequences/letters.c", &["-lcudnn", "-lcublas", "-lcudart", "-lm"]);
    let printed = |how: &[&str]| printed(&program, how, &["--steps", "8"], "examples/sequences/alice.txt");
    let want = printed(&["--threads", "1"]);
    let bits = numbers(&want, "letters: ");
    assert!(bits.len() == 2 && bits[0] > 5.5 && bits[1] < bits[0] - 0.1, "it has learned: {want}");
    // With guard pages, and NaNs in all memory that nothing has written.
    for how in [&["--threads", "3"][..], &["--check"]] {
        assert_eq!(printed(how), want, "{how:?}");
    }
}

#[test]
fn rows_of_digits_are_read_alike_by_any_number_of_threads() {
    let program = program("examples/sequences/numbers.c", &["-lcudnn", "-lm"]);
    let printed = |threads: &str| printed(&program, &["--threads", threads], &["--steps", "3"], DIGITS);
    let want = printed("1");
    assert_eq!(numbers(&want, "numbers: ")[1..], [200.0], "{want}");
    assert_eq!(printed("3"), want);
}
