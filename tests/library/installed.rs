//! An installation of each version, made once by `cargo xtask install` for each test program.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::common::tools;
use crate::interface::Interface;

/// The prefix below which this version is installed.
pub fn installed(interface: Interface) -> &'static Path {
    static PREFIXES: [OnceLock<PathBuf>; 2] = [const { OnceLock::new() }; 2];
    PREFIXES[usize::from(interface == Interface::Eight)].get_or_init(|| {
        let prefix = scratch(&format!("installed-{}", interface.version()[0]));
        let mut xtask = xtask(&["install", "--api", interface.version()[0], "--prefix"]);
        run(xtask.arg(&prefix).args(profile()));
        prefix
    })
}

/// `cargo xtask` with these arguments.
pub fn xtask(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--package", "xtask", "--"]).args(arguments);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("DESTDIR");
    command
}

/// What makes an installation of the profile that the tests have.
pub fn profile() -> Option<&'static str> {
    cfg!(debug_assertions).then_some("--debug")
}

/// A fresh folder for this test program.
pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the target's scratch folder is writable");
    folder
}

/// Runs a command that has to succeed.
pub fn run(command: &mut Command) -> Output {
    let output =
        command.env("LC_ALL", "C").output().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs a program that has to succeed without a word on its error stream; what it printed.
pub fn quiet(command: &mut Command) -> String {
    let output = run(command);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Whether a tool works; one that does not is a skip, and printed.
pub fn is_there(tool: &str) -> bool {
    let there = tools::works(tool);
    if !there {
        println!("{}", tools::Tool::named(tool).skip());
    }
    there
}
