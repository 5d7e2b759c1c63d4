//! The C programs on the CUDA core: the same checks, with the tensors moved to the device around each call.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::{child, common, double};

/// Compiles and runs one program of `c_tests/`; it has to pass and to be silent.
fn passes(name: &str) {
    let scratch = common::scratch_dir(&format!("cuda_programs/{name}"));
    let lib = common::install_layout(&scratch);
    let binary = scratch.join(name);
    let c_tests = common::project_root().join("c_tests");
    let double = double::libraries();
    let output = Command::new("gcc")
        .args([
            "-std=c11",
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
        .arg(c_tests.join(format!("{name}.c")))
        .arg("-o")
        .arg(&binary)
        .arg("-L")
        .arg(&lib)
        .arg("-L")
        .arg(&double)
        .args(["-lcudnn", "-lcudart", "-lm", "-lpthread", "-Wl,--allow-shlib-undefined"])
        .output()
        .expect("gcc is needed: apt-get install gcc");
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
