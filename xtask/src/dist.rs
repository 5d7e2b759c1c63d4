//! `cargo xtask dist`: the release library as an installation would have it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::shell;

/// The name that programs ask the dynamic linker for.
pub const SONAME: &str = "libcudnn.so.9";

/// What `target/dist` holds.
pub struct Dist {
    /// `libcudnn.so.9`, the link `libcudnn.so` to it for `-lcudnn`, and `libcudnn_static.a`.
    pub lib: PathBuf,
    /// `cudnn.h` and the headers beside it.
    pub include: PathBuf,
}

impl Dist {
    /// The shared library itself.
    pub fn library(&self) -> PathBuf {
        self.lib.join(SONAME)
    }
}

pub fn run(_arguments: &[String]) -> Result<()> {
    let dist = build()?;
    println!("{}\n{}", dist.library().display(), dist.include.display());
    Ok(())
}

/// Builds the library in release mode and lays it out afresh.
pub fn build() -> Result<Dist> {
    shell::run(shell::cargo().args(["build", "--release", "--package", "cudnn-shim"]))?;
    let release = shell::target().join("release");
    let root = shell::target().join("dist");
    let dist = Dist { lib: root.join("lib"), include: root.join("include") };
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("cannot clear {}", root.display()))?;
    }
    fs::create_dir_all(&dist.lib)?;
    fs::create_dir_all(&dist.include)?;
    copy(&release.join("libcudnn.so"), &dist.library())?;
    copy(&release.join("libcudnn.a"), &dist.lib.join("libcudnn_static.a"))?;
    link(SONAME, &dist.lib.join("libcudnn.so"))?;
    let headers = shell::root().join("include");
    for entry in fs::read_dir(&headers).with_context(|| format!("cannot list {}", headers.display()))? {
        let header = entry?.path();
        if let Some(name) = header.file_name().filter(|_| header.extension().is_some_and(|e| e == "h")) {
            copy(&header, &dist.include.join(name))?;
        }
    }
    Ok(dist)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

#[cfg(unix)]
fn link(name: &str, at: &Path) -> Result<()> {
    std::os::unix::fs::symlink(name, at).with_context(|| format!("cannot link {}", at.display()))
}

#[cfg(not(unix))]
fn link(name: &str, at: &Path) -> Result<()> {
    copy(&at.with_file_name(name), at)
}
