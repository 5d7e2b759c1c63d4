//! The wheel: the Python package of `python/` with the library, host CUDA and the tool inside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::contents::{copy_tree, date};
use super::{Release, notices};
use crate::tree::EXECUTABLE;
use crate::{shell, tree};

/// What makes wheels, and what names the platforms that one runs on. Of these versions, so that the
/// bytes are the same.
const TOOLS: [&str; 3] = ["setuptools==80.9.0", "wheel==0.45.1", "auditwheel==6.4.2"];

pub fn make(release: &Release, tree: &Path) -> Result<PathBuf> {
    let python = environment()?;
    let folder = release.work.join("wheel");
    copy_tree(&shell::root().join("python"), &folder)?;
    let package = folder.join("src/cudnn_shim");
    let mut inside = tree::Tree::new(package.clone());
    for soname in ["libcudnn.so.9", "libcudnn.so.8"] {
        let home = if soname.ends_with('8') { tree.join("v8/lib") } else { tree.join("lib") };
        // A wheel has no links: the library under the name that programs ask for.
        if let Ok(real) = home.join(soname).canonicalize() {
            inside.copy(&real, &format!("lib/{soname}"), EXECUTABLE)?;
        }
    }
    let host = tree.join("lib/host-cuda");
    if host.exists() {
        for file in fs::read_dir(&host)?.flatten().map(|entry| entry.path()) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Programs ask for names that end in one number; the archive is for relinking, which
            // the tarball serves.
            if name.contains(".so.") || name.ends_with(".so") && !file.is_symlink() {
                inside.copy(&file.canonicalize()?, &format!("lib/host-cuda/{name}"), EXECUTABLE)?;
            }
        }
    }
    inside.copy(&tree.join("bin/cudnn-shim"), "bin/cudnn-shim", EXECUTABLE)?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(shell::root().join(licence), folder.join(licence))?;
    }
    fs::write(folder.join("NOTICES.txt"), notices::text()?)?;
    date(release, &folder)?;
    let made = folder.join("made");
    let mut build = release.dated(&python.display().to_string());
    build.args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]);
    build.arg(format!("--config-settings=--build-option=--plat-name=linux_{}", release.machine.arch));
    build.arg("--config-settings=--build-option=--python-tag=py3").arg("--wheel-dir").arg(&made).arg(&folder);
    shell::run(&mut build)?;
    let wheel = only_wheel(&made)?;
    named(release, &python, &wheel)
}

/// Lets auditwheel name the platforms: it reads which versions of glibc the files ask for.
fn named(release: &Release, python: &Path, wheel: &Path) -> Result<PathBuf> {
    let tag = format!("manylinux_{}_{}", release.glibc.replace('.', "_"), release.machine.arch);
    let said = shell::output(Command::new(python).args(["-m", "auditwheel", "show"]).arg(wheel))?;
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    if !words.contains(&tag) {
        bail!("auditwheel finds another platform than {tag}:\n{said}");
    }
    let mut tags = release.dated(&python.display().to_string());
    tags.args(["-m", "wheel", "tags", "--remove", "--python-tag=py3", "--abi-tag=none"]);
    shell::run(tags.arg(format!("--platform-tag={tag}")).arg(wheel).stdout(std::process::Stdio::null()))?;
    let wheel = only_wheel(wheel.parent().context("a file lies in a folder")?)?;
    let file = release.out.join(wheel.file_name().context("a wheel is a file")?);
    fs::copy(&wheel, &file)?;
    Ok(file)
}

fn only_wheel(folder: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    files
        .into_iter()
        .find(|file| file.extension().is_some_and(|end| end == "whl"))
        .context("pip has left no wheel")
}

/// The Python of a virtual environment with [`TOOLS`].
fn environment() -> Result<PathBuf> {
    let folder = shell::target().join("package/venv");
    let python = folder.join("bin/python");
    let ready = || {
        let check = ["-c", "import setuptools, wheel, auditwheel"];
        python.exists() && Command::new(&python).args(check).status().is_ok_and(|status| status.success())
    };
    if !ready() {
        new_environment(&folder)?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        shell::run(Command::new(&python).args(pip).args(TOOLS))?;
    }
    Ok(python)
}

/// A new virtual environment in `folder`; its Python.
pub fn new_environment(folder: &Path) -> Result<PathBuf> {
    shell::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
    Ok(folder.join("bin/python"))
}
