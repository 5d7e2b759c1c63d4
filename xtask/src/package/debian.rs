//! The package for Debian and Ubuntu, by dpkg-deb.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::{Release, VERSION, contents};
use crate::tree::{PLAIN, set_mode};
use crate::{shell, tools};

/// Where the packages put the tree: no folder that the loader or a compiler searches, so that a
/// libcudnn of the system keeps its place until somebody decides otherwise.
pub const PREFIX: &str = "usr/lib/cudnn-shim";

/// What the packages say of themselves, for people.
pub const DESCRIPTION: &str = "A drop-in libcudnn for the legacy descriptor API, with host CUDA libraries for machines without a GPU. \
     Everything lies in /usr/lib/cudnn-shim and takes the place of nothing: run a program with `cudnn-shim run PROGRAM`, \
     or make the library known to all with a line in /etc/ld.so.conf.d.";

/// The tree below [`PREFIX`] of a new folder `root`, and the tool where shells and `man` find it.
pub fn root_folder(root: &Path, tree: &Path) -> Result<()> {
    contents::copy_tree(tree, &root.join(PREFIX))?;
    let link = |target: &str, file: &str| -> Result<()> {
        let path = root.join(file);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(std::os::unix::fs::symlink(target, path)?)
    };
    link("../lib/cudnn-shim/bin/cudnn-shim", "usr/bin/cudnn-shim")?;
    link("../../lib/cudnn-shim/share/doc/cudnn-shim", "usr/share/doc/cudnn-shim")?;
    for page in fs::read_dir(tree.join("share/man/man1")).into_iter().flatten().flatten() {
        let name = page.file_name().to_string_lossy().into_owned();
        link(
            &format!("../../../lib/cudnn-shim/share/man/man1/{name}"),
            &format!("usr/share/man/man1/{name}"),
        )?;
    }
    Ok(())
}

pub fn make(release: &Release, tree: &Path) -> Result<PathBuf> {
    if let Some(line) = tools::lacking("dpkg-deb") {
        bail!("dpkg-deb does not work here; install it: {line}");
    }
    let root = release.work.join("deb");
    root_folder(&root, tree)?;
    let size = shell::output(
        Command::new("du").args(["--summarize", "--block-size=1024", "--apparent-size"]).arg(&root),
    )?;
    let size = size.split_whitespace().next().unwrap_or("0");
    let control = root.join("DEBIAN/control");
    fs::create_dir_all(root.join("DEBIAN"))?;
    fs::write(
        &control,
        format!(
            "Package: cudnn-shim\nVersion: {VERSION}\nArchitecture: {}\nMaintainer: The cudnn-shim authors <maintainers@cudnn-shim.invalid>\n\
             Installed-Size: {size}\nDepends: libc6 (>= {}), libgcc-s1 | libgcc1\nSection: libs\nPriority: optional\n\
             Description: drop-in libcudnn for the legacy descriptor API, no GPU needed\n {DESCRIPTION}\n",
            release.machine.debian, release.glibc
        ),
    )?;
    set_mode(&control, PLAIN)?;
    contents::date(release, &root)?;
    let file = release.out.join(format!("cudnn-shim_{VERSION}_{}.deb", release.machine.debian));
    let mut build = release.dated("dpkg-deb");
    let level = format!("-z{}", release.compression.level());
    build.args(["--build", "--root-owner-group", "-Zxz", level.as_str(), "--threads-max=1"]);
    build.arg(&root).arg(&file);
    shell::run(&mut build)?;
    Ok(file)
}
