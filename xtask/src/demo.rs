//! `cargo xtask demo`: builds the library, compiles the programs of `demo/` against it as any C
//! program would be, runs them: `photo.c` sends a photograph through layouts, `digits.c` trains a
//! network on handwritten digits, and so does `lenet.c`, which is written for a GPU and run by
//! `cudnn-shim run`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::dist::{self, Dist};
use crate::machine::Machine;
use crate::{shell, tool, tools};

pub fn run(_arguments: &[String]) -> Result<()> {
    let dist = dist::build(true, None)?;
    show(&dist)?;
    without_gpu(&dist, &tool::build(true)?)
}

/// Compiles the program that is written for a GPU, as on a machine without a toolkit, and has the
/// tool run it.
fn without_gpu(dist: &Dist, tool: &Path) -> Result<()> {
    let folder = shell::target().join("demo");
    let host_cuda = dist.lib.join("host-cuda");
    let program = folder.join("lenet");
    let mut compiler = cc(dist, "lenet", &program)?;
    compiler.arg("-I").arg(dist.include.join("host-cuda")).arg("-L").arg(&host_cuda);
    shell::run(compiler.args(["-lcudnn", "-lcublas", "-lcudart", "-lm"]))?;
    println!(
        "\n  program   demo/lenet.c: cudaMalloc, streams, events, cublasSgemm, cc -lcudnn -lcublas -lcudart"
    );
    println!("  command   cudnn-shim run {} demo/digits.dat\n", shown(&program).display());
    let mut command = Command::new(tool);
    command.arg("run").arg("--lib").arg(&dist.lib).arg(&program).arg("demo/digits.dat");
    shell::run(command.current_dir(shell::root()))
}

/// Compiles the program against `dist` and runs it on the photograph; fails when one of its checks
/// does.
pub fn show(dist: &Dist) -> Result<()> {
    let folder = shell::target().join("demo");
    fs::create_dir_all(&folder)?;
    let program = compile(dist, &folder, "photo")?;
    let (version, core) = identity(dist, &program, &folder)?;
    let library = dist.library();
    println!("\n  library   {} (the API of version {version})", shown(&library).display());
    println!("  core      {core}");
    println!("  program   demo/photo.c: plain C99, #include <cudnn.h>, cc -lcudnn");
    println!("  photo     demo/chelsea.ppm: Chelsea the cat, Stefan van der Walt, CC0\n");
    shell::run(on(dist, &program).arg("demo/chelsea.ppm").arg(shown(&folder.join("chelsea-mirrored.ppm"))))?;
    let program = compile(dist, &folder, "digits")?;
    println!("\n  program   demo/digits.c: plain C99, #include <cudnn.h>, cc -lcudnn");
    println!(
        "  digits    demo/digits.dat: E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, CC BY 4.0\n"
    );
    shell::run(on(dist, &program).arg("demo/digits.dat").arg(shown(&folder.join("digits.png"))))
}

/// A path as somebody in the root would write it.
fn shown(path: &Path) -> &Path {
    path.strip_prefix(shell::root()).unwrap_or(path)
}

/// The compiler, told to make `program` of the source of this name.
fn cc(dist: &Dist, name: &str, program: &Path) -> Result<Command> {
    let mut compiler = tools::c_compiler(Machine::target()?)?;
    compiler.args(["-std=c99", "-O2", "-Wall", "-Wextra", "-I"]).arg(&dist.include);
    compiler.arg(shell::root().join("demo").join(name).with_extension("c"));
    compiler.arg("-o").arg(program).arg("-L").arg(&dist.lib);
    Ok(compiler)
}

fn compile(dist: &Dist, folder: &Path, name: &str) -> Result<PathBuf> {
    let program = folder.join(name);
    shell::run(cc(dist, name, &program)?.args(["-lcudnn", "-lm"]))?;
    Ok(program)
}

/// The program, set to find the library in `dist` and nowhere else. Its tensors lie in host memory.
fn on(dist: &Dist, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("CUDNN_SHIM_BACKEND", "cpu");
    command.env("LD_LIBRARY_PATH", &dist.lib).current_dir(shell::root());
    command
}

/// The library's version, which the program can ask for, and its core, which only the library's log
/// tells: the program stands for one that knows nothing of us. A run of its own, so that the log
/// slows down no measurement.
fn identity(dist: &Dist, program: &Path, folder: &Path) -> Result<(String, String)> {
    let log = folder.join("library.log");
    fs::write(&log, "")?;
    let version = shell::output(
        on(dist, program)
            .env("CUDNN_LOGLEVEL_DBG", "3")
            .env("CUDNN_LOGINFO_DBG", "1")
            .env("CUDNN_LOGDEST_DBG", &log),
    )?;
    let log = fs::read_to_string(&log).context("cannot read the library's log")?;
    Ok((version, core_named_in(&log).unwrap_or("not named in the library's log").to_owned()))
}

/// What follows the first `core: ` in the log that the library writes when a handle is created.
fn core_named_in(log: &str) -> Option<&str> {
    log.lines().find_map(|line| line.split_once("core: ")).map(|(_, core)| core.trim())
}

#[cfg(test)]
mod tests {
    use super::core_named_in;

    #[test]
    fn the_core_is_read_from_the_log() {
        let log = "I! cudnnCreate\nI! cudnnCreate: core: cpu, 2 threads\nI! core: other\n";
        assert_eq!(core_named_in(log), Some("cpu, 2 threads"));
        assert_eq!(core_named_in("I! cudnnCreate\n"), None);
    }
}
