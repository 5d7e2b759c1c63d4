//! The tarball: the tree below one folder, which may be put anywhere.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Release, VERSION};
use crate::machine::Machine;
use crate::shell;

/// The folder that it unpacks to.
pub fn folder(machine: &Machine) -> String {
    format!("cudnn-shim-{VERSION}-{}-linux", machine.arch)
}

pub fn make(release: &Release, tree: &Path) -> Result<PathBuf> {
    let folder = folder(release.machine);
    let file = release.out.join(format!("{folder}.tar.xz"));
    let mut tar = release.dated("tar");
    tar.args([
        "--create",
        "--xz",
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--format=gnu",
    ]);
    tar.arg(format!("--mtime=@{}", release.date)).arg(format!("--transform=flags=r;s,^[.],{folder},"));
    // More threads cut the stream into blocks of their own, by the number of processors.
    tar.env("XZ_OPT", format!("-{} --threads=1", release.compression.level()));
    tar.arg("--file").arg(&file).arg("--directory").arg(tree).arg(".");
    shell::run(&mut tar)?;
    Ok(file)
}
