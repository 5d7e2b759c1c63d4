//! Tests that need a process of their own: which driver a process finds is settled when it starts.
//!
//! Each test is both sides. Started by the harness it starts itself again, with the libraries it
//! wants in the loader's path; in that child, [`run`] runs the body.

use std::path::Path;
use std::process::{Command, Output};
use std::{env, thread};

/// Set in children.
const MARK: &str = "CUDNN_SHIM_TEST_CHILD";

/// Whether this process is a child.
pub fn is_one() -> bool {
    env::var_os(MARK).is_some()
}

/// Runs `body` in a child process that finds its shared libraries in `libraries` first, with these
/// environment variables. The child has to end well.
pub fn run(libraries: &Path, variables: &[(&str, &str)], body: impl FnOnce()) {
    if let Some(output) = start(libraries, variables, body) {
        assert!(output.status.success(), "{}\n{}", output.status, text(&output));
        // Whatever a child skips has to be counted.
        skips(&text(&output)).for_each(|line| println!("{line}"));
    }
}

/// As [`run`], and hands the child's output to the parent, whatever the child's end. `None` in the
/// child.
pub fn start(libraries: &Path, variables: &[(&str, &str)], body: impl FnOnce()) -> Option<Output> {
    if is_one() {
        body();
        return None;
    }
    // The harness names the thread after the test.
    let test = thread::current().name().expect("a named test thread").to_owned();
    let mut command = Command::new(env::current_exe().expect("path of the test program"));
    command.args(["--exact", &test, "--nocapture", "--test-threads=1"]);
    command.env(MARK, "1");
    // Without any the child finds what this process finds.
    if libraries != Path::new("") {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    for name in ["CUDNN_SHIM_BACKEND", "CUDNN_SHIM_CHECK", "CUDNN_SHIM_STRICT"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    Some(command.output().expect("the test program can be started"))
}

/// What a child says of what it skips; the first of it may stand behind the name of the test.
pub fn skips(text: &str) -> impl Iterator<Item = &str> {
    const MARK: &str = "skipped: ";
    text.lines().filter_map(|line| {
        let at = line.find(MARK)?;
        (at == 0 || line.starts_with("test ") && line[..at].ends_with(" ... ")).then(|| &line[at..])
    })
}

/// Both streams of a child.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
