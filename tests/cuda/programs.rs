//! The programs of `c_tests/` on the CUDA core: the same checks, with the tensors of transforms and reductions moved to
//! the device around each call.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::{child, common, double};

/// Compiles and runs one program in C; it has to pass and to be silent.
fn passes(name: &str) {
    compiled_passes(name, "c", "gcc", "-std=c11");
}

fn compiled_passes(name: &str, extension: &str, compiler: &str, standard: &str) {
    let scratch = common::scratch_dir(&format!("cuda_programs/{name}"));
    let lib = common::install_layout(&scratch);
    let binary = scratch.join(name);
    let c_tests = common::project_root().join("c_tests");
    let double = double::libraries();
    let output = Command::new(compiler)
        .args([
            standard,
            "-D_POSIX_C_SOURCE=200809L",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-O1",
            "-g",
        ])
        .arg("-I")
        .arg(common::project_root().join("include"))
        .arg("-I")
        .arg(c_tests.join("driver_double"))
        .arg("-include")
        .arg(c_tests.join("on_device.h"))
        .arg(c_tests.join(format!("{name}.{extension}")))
        .arg("-o")
        .arg(&binary)
        .arg("-L")
        .arg(&lib)
        .arg("-L")
        .arg(&double)
        .args(["-lcudnn", "-lcudart", "-lm", "-lpthread", "-Wl,--allow-shlib-undefined"])
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}; install it: apt-get install {compiler}"));
    assert!(output.status.success(), "{}", child::text(&output));
    let output = Command::new(&binary)
        .env("LD_LIBRARY_PATH", joined(&[&lib, &double]))
        .env("CUDNN_SHIM_BACKEND", "cuda")
        .env("CUDNN_SHIM_CHECK", "1")
        .env_remove("CUDNN_SHIM_STRICT")
        .output()
        .expect("the program starts");
    let text = child::text(&output);
    assert!(output.status.success() && text.is_empty(), "{}\n{text}", output.status);
}

fn joined(paths: &[&Path]) -> OsString {
    std::env::join_paths(paths).expect("paths without colons")
}

#[test]
fn transform() {
    passes("transform");
}

#[test]
fn blocked() {
    passes("blocked");
}

#[test]
fn threads() {
    passes("threads");
}

#[test]
fn context() {
    passes("context");
}

#[test]
fn descriptors() {
    passes("descriptors");
}

#[test]
fn misuse() {
    passes("misuse");
}

#[test]
fn misuse_pointwise() {
    passes("misuse_pointwise");
}

#[test]
fn misuse_reduce() {
    passes("misuse_reduce");
}

#[test]
fn misuse_filter() {
    passes("misuse_filter");
}

#[test]
fn small_descriptors() {
    passes("small_descriptors");
}

#[test]
fn set_up() {
    passes("set_up");
}

#[test]
fn not_built() {
    passes("not_built");
}

#[test]
fn cpp() {
    compiled_passes("cpp", "cpp", "g++", "-std=c++11");
}

/// What these test lies in the memory and the threads of the host.
const OF_THE_HOST: [&str; 7] =
    ["factors", "float_mode", "forked", "layouts", "no_memory", "page_faults", "small_stack"];

/// What this tests the CUDA core has no kernels for yet.
const WITHOUT_KERNELS: [&str; 1] = ["convolution"];

#[test]
fn every_program_runs_here() {
    let dir = common::project_root().join("c_tests");
    let files = std::fs::read_dir(dir).expect("c_tests").map(|entry| entry.expect("entry").path());
    let programs = files.filter(|file| file.extension().is_some_and(|e| e == "c" || e == "cpp"));
    let tests = include_str!("programs.rs");
    for program in programs {
        let name = program.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let elsewhere = OF_THE_HOST.contains(&name) || WITHOUT_KERNELS.contains(&name);
        let known = elsewhere || tests.contains(&format!("passes(\"{name}\""));
        assert!(known, "{name} does not run on the CUDA core");
    }
}
