//! What several test programs share: finding the built library and laying it out the way a C
//! program expects it.
#![allow(dead_code, reason = "every test program uses its own part of this module")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

pub mod catalogue;
pub mod tools;

/// Ends a test program that has its own `main` as the test runner would, so that its counts join
/// the others.
pub fn conclude(passed: usize, failed: usize, skipped: usize) -> ExitCode {
    let (word, code) = if failed == 0 { ("ok", ExitCode::SUCCESS) } else { ("FAILED", ExitCode::FAILURE) };
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; {skipped} ignored; 0 measured; 0 filtered out"
    );
    code
}

/// The project's root directory.
pub fn project_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// This test program once more, to be started: by what `CUDNN_SHIM_TEST_RUNNER` names, an emulator
/// and its arguments, where the program is for another processor.
pub fn itself() -> Command {
    let program = env::current_exe().expect("path of the test program");
    let runner = env::var("CUDNN_SHIM_TEST_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(program) };
    let mut command = Command::new(emulator);
    command.args(words).arg(program);
    command
}

/// The shared library that belongs to this test program, built first if it is not there.
///
/// `cargo test` links the library next to the test programs (`target/<profile>/deps/libcudnn.so`)
/// before it runs them, so that this one is never older than the sources under test; the copy one
/// folder up is only brought up to date by `cargo build`. `CUDNN_SHIM_TEST_LIBRARY` names another
/// library to run the tests on: on the original they check the tests themselves.
pub fn library() -> PathBuf {
    if let Some(other) = env::var_os("CUDNN_SHIM_TEST_LIBRARY") {
        return PathBuf::from(other);
    }
    let deps = env::current_exe().expect("path of the test program");
    let deps = deps.parent().expect("directory of the test program");
    let beside = deps.join("libcudnn.so");
    if beside.is_file() {
        return beside;
    }
    let profile_dir = deps.parent().expect("target/<profile>");
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let status = Command::new(env!("CARGO"))
        .args(["build", "--lib", "--profile", profile])
        .current_dir(project_root())
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "cargo build --lib failed");
    let built = profile_dir.join("libcudnn.so");
    assert!(built.is_file(), "{} was not built", built.display());
    built
}

/// A directory for one test program's files, empty at the start, below the target directory, or
/// below what `CUDNN_SHIM_TEST_SCRATCH` names where a test program runs twice at the same time.
pub fn scratch_dir(name: &str) -> PathBuf {
    let below = env::var_os("CUDNN_SHIM_TEST_SCRATCH").map(PathBuf::from);
    let dir = below.unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR"))).join(name);
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => panic!("{}: {error}", dir.display()),
        _ => {}
    }
    fs::create_dir_all(&dir).expect("scratch directory");
    dir
}

/// Lays the library out below `dir` as an installation does and returns the directory to give to
/// `-L` and the loader: `lib/libcudnn.so.9`, and `lib/libcudnn.so` pointing at it.
pub fn install_layout(dir: &Path) -> PathBuf {
    let lib = dir.join("lib");
    fs::create_dir_all(&lib).expect("lib directory");
    // Dozens of programs have a folder each, and the library 20 MB.
    fs::hard_link(library(), lib.join("libcudnn.so.9")).expect("another name of the library");
    std::os::unix::fs::symlink("libcudnn.so.9", lib.join("libcudnn.so")).expect("development symlink");
    lib
}

/// Compiles a program that links the library in `lib` as a user would. `None`, said as a skip,
/// without the compiler.
pub fn compiled(
    compiler: &str, options: &[&str], sources: &[PathBuf], lib: &Path, program: &Path,
) -> Option<()> {
    if !tools::works(compiler) {
        println!("{}", tools::Tool::named(compiler).skip());
        return None;
    }
    let mut command = Command::new(compiler);
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"]).arg(project_root().join("include"));
    command.args(sources).arg("-o").arg(program).arg("-L").arg(lib).arg("-lcudnn").args(options);
    let output = command.output().expect("the compiler starts");
    assert!(output.status.success(), "{}", printed(&output));
    Some(())
}

/// What a program wrote, errors last.
pub fn printed(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}
