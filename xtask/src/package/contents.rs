//! The tree that the tarball and the packages hold.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{Release, notices};
use crate::shell;
use crate::tree::{PLAIN, Tree};

/// Texts of the repository that go along, and where they go below the documentation.
const TEXTS: [&str; 7] = [
    "README.md",
    "CHANGELOG.md",
    "MATRIX.md",
    "SECURITY.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "CONTRIBUTING.md",
];

/// Where the documentation lies.
pub const DOC: &str = "share/doc/cudnn-shim";

/// Lays the tree out afresh; where it is. Version 8 lies in `v8`, for its files have the names of
/// version 9's.
pub fn lay_out(release: &Release) -> Result<PathBuf> {
    let root = release.work.join("tree");
    copy_tree(&release.nine, &root)?;
    if let Some(eight) = &release.eight {
        for folder in ["lib", "include"] {
            copy_tree(&eight.join(folder), &root.join("v8").join(folder))?;
        }
    }
    // The list of an installation serves `cargo xtask uninstall`, which nobody has who gets a
    // package.
    for tree in [root.clone(), root.join("v8")] {
        let lists = tree.join("lib/cudnn-shim");
        if lists.exists() {
            fs::remove_dir_all(lists)?;
        }
    }
    let mut tree = Tree::new(root.clone());
    for text in TEXTS.iter().filter(|text| shell::root().join(text).exists()) {
        tree.copy(&shell::root().join(text), &format!("{DOC}/{text}"), PLAIN)?;
    }
    tree.write(&format!("{DOC}/NOTICES.txt"), &notices::text()?)?;
    copy_tree(&shell::root().join("docs"), &root.join(DOC).join("docs"))?;
    date(release, &root)?;
    Ok(root)
}

/// Copies a folder with its links and modes.
pub fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    shell::run(
        Command::new("cp")
            .args(["--recursive", "--no-dereference", "--preserve=mode"])
            .arg(from.join("."))
            .arg(to),
    )
}

/// Gives every file below `root` the date of the release.
pub fn date(release: &Release, root: &Path) -> Result<()> {
    let stamp = format!("--date=@{}", release.date);
    shell::run(Command::new("find").arg(root).args(["-exec", "touch", "--no-dereference", &stamp, "{}", "+"]))
}
