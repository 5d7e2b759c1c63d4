//! `cargo xtask gpu-kit`: everything that a machine with a GPU but no compiler needs, in one
//! folder: the library, test and benchmark programs, and a script that leaves a report.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::machine::Machine;
use crate::{dist, shell, tools};

/// Most that the folder may hold, in bytes.
const LIMIT: u64 = 60_000_000;
/// The programs in C that work on memory of the device. The others of `c_tests` test memory and
/// threads of the host, or keep their tensors in host memory, which not every device reaches, or
/// take minutes (`tests/cuda/programs.rs` says which).
const PROGRAMS: [&str; 17] = [
    "attention",
    "attention_training",
    "blocked",
    "context",
    "convolution",
    "descriptors",
    "misuse",
    "misuse_filter",
    "misuse_pointwise",
    "misuse_reduce",
    "not_built",
    "perceptron",
    "set_up",
    "small_descriptors",
    "spatial_transformer",
    "threads",
    "transform",
];

/// What the kit is made of besides sources.
struct Built {
    library: PathBuf,
    include: PathBuf,
    /// The program of `tests/cuda`.
    tests: PathBuf,
    /// The driver double.
    double: PathBuf,
    /// Whether a test made these for itself: linked rather than copied, with nothing to read a
    /// report against.
    is_test: bool,
}

pub fn run(arguments: &[String]) -> Result<()> {
    let root = shell::root();
    let is_folder = |text: &str| !text.starts_with('-');
    let (target, given) = match arguments {
        [] => (shell::target().join("gpu-kit"), None),
        [folder] if is_folder(folder) => (PathBuf::from(folder), None),
        [folder, flag, library, tests, double] if is_folder(folder) && flag == "--of" => {
            (PathBuf::from(folder), Some([library, tests, double].map(PathBuf::from)))
        }
        _ => {
            anyhow::bail!("the arguments are the folder to write, and, for tests, --of LIBRARY TESTS DOUBLE")
        }
    };
    let built = match given {
        Some([library, tests, double]) => {
            Built { library, include: root.join("include"), tests, double, is_test: true }
        }
        None => {
            let dist = dist::build(true, None)?;
            let double = tools::driver_double("source")?;
            let tests = test_program()?;
            Built { library: dist.library(), include: dist.include, tests, double, is_test: false }
        }
    };
    lay_out(&target, &built)?;
    let size = size_of(&target)?;
    ensure!(size < LIMIT, "the kit takes {size} bytes, more than {LIMIT}");
    println!("{}: {:.1} MB; on the machine with the GPU: ./run.sh", target.display(), size as f64 / 1e6);
    Ok(())
}

/// Writes the kit.
fn lay_out(target: &Path, built: &Built) -> Result<()> {
    let root = shell::root();
    if target.exists() {
        ensure!(target.join("run.sh").exists(), "{} is something else than a kit", target.display());
        fs::remove_dir_all(target)?;
    }
    let folder = |name: &str| -> Result<PathBuf> {
        let path = target.join(name);
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    };
    let (lib, bin, c, ptx) = (folder("lib")?, folder("bin")?, folder("bin/c")?, folder("ptx")?);
    copy(&built.library, &lib)?;
    copy(&root.join("c_tests/gpu_kit/run.sh"), target)?;
    copy(&root.join("benches/gpu_transform/problems.txt"), target)?;
    copy(&root.join("problems/contractions.txt"), target)?;
    for entry in fs::read_dir(root.join("src/backend/cuda/ptx"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "ptx") {
            copy(&path, &ptx)?;
        }
    }
    if built.is_test {
        symlink(&built.tests, bin.join("cuda")).context("cannot link the test program")?;
    } else {
        fs::copy(&built.tests, bin.join("cuda")).context("cannot copy the test program")?;
        // What the report is read against. In the profile of the test program, which is built.
        let mut estimates = shell::cargo();
        let estimates = shell::output(estimates.args(["test", "--quiet", "--bench", "gpu_estimates"]))?;
        fs::write(target.join("estimates.txt"), estimates + "\n").context("cannot write the estimates")?;
    }

    let compile = |source: &str, to: &Path, more: &[&str], libraries: &[&str]| -> Result<()> {
        let mut command = tools::c_compiler(Machine::target()?)?;
        command.args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O2", "-I"]).arg(&built.include);
        command.args(more).arg(root.join(source)).arg("-o").arg(to);
        shell::run(command.args(libraries).arg("-Wl,--allow-shlib-undefined"))
    };
    let lib_path = format!("-L{}", lib.display());
    let ours = built.library.display().to_string();
    compile("c_tests/gpu_kit/probe.c", &bin.join("probe"), &[], &["-ldl"])?;
    let headers = format!("-I{}", root.join("tests/library/header/cuda").display());
    for name in ["gpu_transform", "gpu_convolution", "gpu_reduce", "gpu_layers"] {
        let source = format!("benches/{name}/{name}.c");
        compile(&source, &bin.join(name), &[&headers], &[&ours, "-ldl"])?;
    }
    // The double has the run-time library's name, so that the programs ask for the real one where
    // they run.
    let runtime = format!("-I{}", root.join("c_tests/driver_double").display());
    let on_device = root.join("c_tests/on_device.h").display().to_string();
    let double_path = format!("-L{}", built.double.display());
    for program in PROGRAMS {
        let source = format!("c_tests/{program}.c");
        let libraries = [&*lib_path, &double_path, &ours, "-lcudart", "-lm", "-lpthread"];
        compile(&source, &c.join(program), &[&runtime, "-include", &on_device], &libraries)?;
    }
    Ok(())
}

fn copy(file: &Path, to: &Path) -> Result<()> {
    let name = file.file_name().context("a file has a name")?;
    fs::copy(file, to.join(name)).with_context(|| format!("cannot copy {}", file.display()))?;
    Ok(())
}

/// The program of `tests/cuda`, built without running it.
fn test_program() -> Result<PathBuf> {
    let mut command = shell::cargo();
    command.args(["test", "--test", "cuda", "--no-run", "--message-format=json-render-diagnostics"]);
    let output = shell::output(&mut command)?;
    let found = output.lines().filter(|line| line.contains("\"name\":\"cuda\"")).find_map(|line| {
        let (_, rest) = line.split_once("\"executable\":\"")?;
        Some(PathBuf::from(rest.split('"').next()?))
    });
    found.context("cargo names no program of tests/cuda")
}

fn size_of(path: &Path) -> Result<u64> {
    let data = fs::symlink_metadata(path)?;
    if !data.is_dir() {
        return Ok(data.len());
    }
    fs::read_dir(path)?.map(|entry| size_of(&entry?.path())).sum()
}
