//! Every artefact of a release, unpacked where there is neither Rust nor a checkout, and used
//! there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::contents::copy_tree;
use super::{Compression, Release, cross, debian, tarball, wheel};
use crate::api::Api;
use crate::dist::Dist;
use crate::machine::Machine;
use crate::test::Tally;
use crate::tree::Tree;
use crate::{shell, tool, tools};

/// Makes the artefacts of the tree that the tests have built, and counts those that serve. It is
/// the build of this machine, not the portable one of `cargo xtask package`; what is packed, and
/// how, is the same. The artefacts stay if that is wanted, all else if one does not serve.
pub fn verify(dist: &Dist, keeps: bool) -> Result<Tally> {
    for name in ["dpkg-deb", "rpmbuild", "cpio", "xz", "python3"] {
        if let Some(line) = tools::lacking(name) {
            println!("skipped: {name} does not work here, nothing is packed; install it: {line}");
            return Ok(Tally::SKIP);
        }
    }
    let machine = Machine::target()?;
    let build = shell::target().join(machine.folder("package-test"));
    let stage = build.join("stage");
    if stage.exists() {
        fs::remove_dir_all(&stage)?;
    }
    copy_tree(dist.lib.parent().context("the libraries lie in a tree")?, &stage)?;
    if !stage.join("bin/cudnn-shim").exists() {
        // Of another processor all is built in one profile, of this one tests have built that.
        tool::lay_out(&mut Tree::new(stage.clone()), &tool::build(!machine.is_this())?)?;
    }
    let compression = if keeps { Compression::Best } else { Compression::Fast };
    let release = Release::new(stage, None, build.join("out"), build.join("work"), compression)?;
    let artefacts = release.make()?;
    if keeps {
        artefacts.iter().for_each(|file| println!("{}", file.display()));
    }
    let [tarball, deb, rpm, wheel, sums] = artefacts.as_slice() else { bail!("an artefact is missing") };
    shell::run(Command::new("sha256sum").args(["--check", "--quiet"]).arg(sums).current_dir(&release.out))?;
    let mut tally = Tally::default();
    for name in ["tarball", "deb", "rpm", "wheel"] {
        let root = build.join("root").join(name);
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        fs::create_dir_all(&root)?;
        let result = match name {
            "tarball" => unpacked_tarball(tarball, &root),
            "deb" => unpacked_deb(deb, &root),
            "rpm" => unpacked_rpm(rpm, &root),
            _ if machine.is_this() => python(&root, wheel),
            _ => unpacked_wheel(wheel, &root),
        };
        match &result {
            Ok(_) => println!("ok: the {name} serves"),
            Err(error) => println!("FAILED: the {name}: {error:#}"),
        }
        tally = tally + result.unwrap_or(Tally::FAIL);
    }
    // Most of a gigabyte, which only a failure makes worth a look.
    if tally.failed() == 0 {
        for folder in [build.join("stage"), build.join("work"), build.join("root")] {
            fs::remove_dir_all(folder)?;
        }
        if !keeps {
            fs::remove_dir_all(&build)?;
        }
    }
    Ok(tally)
}

fn unpacked_tarball(file: &Path, root: &Path) -> Result<Tally> {
    let mut tar = Command::new("tar");
    shell::run(tar.arg("--extract").arg("--file").arg(file).arg("--directory").arg(root))?;
    serve(root, &tarball::folder(Machine::target()?))
}

fn unpacked_deb(file: &Path, root: &Path) -> Result<Tally> {
    shell::run(Command::new("dpkg-deb").arg("--extract").arg(file).arg(root))?;
    serve(root, debian::PREFIX)
}

fn unpacked_rpm(file: &Path, root: &Path) -> Result<Tally> {
    let archive = root.join("archive");
    shell::run(Command::new("rpm2cpio").arg(file).stdout(fs::File::create(&archive)?))?;
    let mut cpio = Command::new("cpio");
    cpio.args(["--extract", "--make-directories", "--quiet"]).stdin(fs::File::open(&archive)?);
    shell::run(cpio.current_dir(root))?;
    serve(root, debian::PREFIX)
}

/// Whether the tree at `prefix` below `root` serves a program of its processor.
fn serve(root: &Path, prefix: &str) -> Result<Tally> {
    let machine = Machine::target()?;
    if machine.is_this() { demo(root, prefix) } else { cross::serve(machine, root, prefix) }
}

/// Unpacks a wheel of another processor, for which there is no Python here.
fn unpacked_wheel(file: &Path, root: &Path) -> Result<Tally> {
    let mut unpack = Command::new("python3");
    shell::run(unpack.args(["-m", "zipfile", "--extract"]).arg(file).arg(root))?;
    cross::library(Machine::target()?, &root.join("cudnn_shim/lib").join(Api::Nine.soname()))?;
    cross::all_are_of(Machine::target()?, root)?;
    Ok(Tally::PASS)
}

/// Compiles the demo's network against the tree at `prefix` below `root`, and trains it there: with
/// `root` as the root of the file system where we may, which then holds glibc and what was
/// unpacked, and nothing else.
fn demo(root: &Path, prefix: &str) -> Result<Tally> {
    let tree = root.join(prefix);
    let program = root.join("digits");
    let mut compile = tools::c_compiler(Machine::target()?)?;
    compile.args(["-std=c99", "-O2", "-I"]).arg(tree.join("include"));
    compile.arg(shell::root().join("demo/digits.c")).arg("-o").arg(&program);
    shell::run(compile.arg("-L").arg(tree.join("lib")).args(["-lcudnn", "-lm"]))?;
    fs::copy(shell::root().join("demo/digits.dat"), root.join("digits.dat"))?;
    let libraries = format!("{prefix}/lib");
    let mut run = if fs::metadata("/proc/self")?.uid() == 0 {
        bring_glibc(root, &program, &tree.join("lib"))?;
        let mut chroot = Command::new("chroot");
        chroot.arg(root).arg("/digits").args(["/digits.dat", "/digits.png"]);
        chroot.env_clear().env("LD_LIBRARY_PATH", format!("/{libraries}")).env("PATH", "/usr/sbin:/usr/bin");
        chroot
    } else {
        let mut plain = Command::new(&program);
        plain.args(["digits.dat", "digits.png"]).current_dir(root);
        plain.env_clear().env("LD_LIBRARY_PATH", root.join(libraries));
        plain
    };
    run.env("CUDNN_SHIM_BACKEND", "cpu").stdout(Stdio::null());
    shell::run(&mut run)?;
    let picture = root.join("digits.png");
    if !picture.exists() {
        bail!("the program has left no {}", picture.display());
    }
    // The tool starts as well, where a person would start it.
    let tool = tree.join("bin/cudnn-shim");
    let version = shell::output(Command::new(&tool).arg("--version"))?;
    if !version.contains(super::VERSION) {
        bail!("{} says that it is {version}, not {}", tool.display(), super::VERSION);
    }
    Ok(Tally::PASS)
}

/// Copies the loader and the libraries of the system that the program and the library need.
fn bring_glibc(root: &Path, program: &Path, libraries: &Path) -> Result<()> {
    let said = shell::output(Command::new("ldd").arg(program).env("LD_LIBRARY_PATH", libraries))?;
    let files = said.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    for file in files.filter(|file| !file.starts_with(root)) {
        let place = root.join(file.strip_prefix("/").unwrap_or(&file));
        fs::create_dir_all(place.parent().context("a file lies in a folder")?)?;
        fs::copy(&file, &place).with_context(|| format!("cannot copy {}", file.display()))?;
    }
    Ok(())
}

/// Installs the wheel in an empty environment and runs the tests of the package there; what pytest
/// counted.
fn python(root: &Path, wheel: &Path) -> Result<Tally> {
    let venv = wheel::new_environment(&root.join("venv"))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    shell::run(Command::new(&venv).args(pip).arg(format!("{}[test]", wheel.display())))?;
    // The tests alone: beside the source of the package Python would import that.
    copy_tree(&shell::root().join("python/tests"), &root.join("tests"))?;
    let mut tests = Command::new(&venv);
    tests.args(["-m", "pytest", "-q", "-rs", "tests"]).current_dir(root);
    tests.env("CUDNN_SHIM_BACKEND", "cpu").env_remove("CUDNN_SHIM_LIBRARY");
    let mut counted = Tally::default();
    let status = shell::stream(&mut tests, |line| counted = count(line).unwrap_or(counted))?;
    Ok(counted.judged(status))
}

/// Reads the last line of pytest, such as `41 passed, 2 skipped in 5.42s`.
fn count(line: &str) -> Option<Tally> {
    let (counts, _) = line.rsplit_once(" in ")?;
    let mut words = [("passed", 0), ("failed", 0), ("skipped", 0)];
    for part in counts.split(", ") {
        let (number, what) = part.trim_matches(['=', ' ']).split_once(' ')?;
        // An error outside of a test has failed, too; warnings do not count.
        let what = if what.starts_with("error") { "failed" } else { what };
        let number: usize = number.parse().ok()?;
        words.iter_mut().filter(|(word, _)| *word == what).for_each(|(_, sum)| *sum += number);
    }
    Tally::parse(&words.map(|(word, sum)| format!("{sum} {word}")).join(", "))
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn the_last_line_of_pytest_is_read() {
        let counted = |line: &str| count(line).map(|tally| tally.to_string());
        assert_eq!(
            counted("41 passed, 2 skipped in 5.42s").as_deref(),
            Some("41 passed, 0 failed, 2 skipped")
        );
        assert_eq!(
            counted("1 failed, 3 passed, 1 error in 0.1s").as_deref(),
            Some("3 passed, 2 failed, 0 skipped")
        );
        assert_eq!(counted("SKIPPED [1] test_arrays.py:97: PyTorch is not installed"), None);
    }
}
