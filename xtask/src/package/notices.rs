//! The licence texts of every crate whose code is in the files of a release.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::contents::DOC;
use crate::machine::Machine;
use crate::shell;
use crate::tree::{PLAIN, Tree};

/// The packages that a release is built from.
const ROOTS: [&str; 3] = ["cudnn-shim", "cudnn-shim-cli", "cudnn-shim-host-cuda"];

/// Puts the licences, and those of the crates, into the tree of an installation.
pub fn lay_out(tree: &mut Tree) -> Result<()> {
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        tree.copy(&shell::root().join(licence), &format!("{DOC}/{licence}"), PLAIN)?;
    }
    tree.write(&format!("{DOC}/NOTICES.txt"), &text()?)
}

/// One text: a heading a crate, with its licence and the files in which it states that.
pub fn text() -> Result<String> {
    let mut metadata = shell::cargo();
    metadata.args(["metadata", "--format-version", "1", "--filter-platform", Machine::target()?.triple]);
    let metadata: Value = serde_json::from_str(&shell::output(&mut metadata)?)?;
    let mut text = "The libraries and the tool of this release contain code of these crates. Machine code of CUDA kernels is made of \
                    this project's own sources, by an assembler of NVIDIA's that is not part of the release.\n"
        .to_owned();
    for id in linked(&metadata)? {
        let package = list(&metadata["packages"]).iter().find(|package| package["id"] == id.as_str());
        let package = package.with_context(|| format!("cargo says nothing of {id}"))?;
        if package["source"].is_null() {
            continue;
        }
        let (name, version) = (string(&package["name"]), string(&package["version"]));
        let licence = string(&package["license"]);
        text += &format!("\n{}\n{name} {version}: {licence}\n\n", "=".repeat(80));
        let folder =
            Path::new(string(&package["manifest_path"])).parent().context("a manifest has a folder")?;
        let files = licence_files(folder)?;
        if files.is_empty() {
            text += &format!("The crate brings no text of its licence. Its authors: {}\n", authors(package));
        }
        for file in files {
            text += &String::from_utf8_lossy(&fs::read(&file)?);
            text += "\n";
        }
    }
    Ok(text)
}

/// The packages whose code is linked: the roots and what they depend on, build and test
/// dependencies aside.
fn linked(metadata: &Value) -> Result<BTreeSet<String>> {
    let packages = list(&metadata["packages"]);
    let mut pending: Vec<String> = Vec::new();
    for root in ROOTS {
        let package = packages.iter().find(|package| package["name"] == root && package["source"].is_null());
        pending.push(
            string(&package.with_context(|| format!("{root} is not in the workspace"))?["id"]).to_owned(),
        );
    }
    let nodes = list(&metadata["resolve"]["nodes"]);
    let mut found = BTreeSet::new();
    while let Some(id) = pending.pop() {
        if !found.insert(id.clone()) {
            continue;
        }
        let Some(node) = nodes.iter().find(|node| node["id"] == id.as_str()) else { bail!("no node {id}") };
        for dependency in list(&node["deps"]) {
            // A normal dependency has no name of its kind.
            if list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()) {
                pending.push(string(&dependency["pkg"]).to_owned());
            }
        }
    }
    Ok(found)
}

fn licence_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        file.is_file()
            && ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"]
                .iter()
                .any(|word| name.starts_with(word))
    });
    files.sort();
    Ok(files)
}

fn authors(package: &Value) -> String {
    let names: Vec<&str> = list(&package["authors"]).iter().filter_map(Value::as_str).collect();
    if names.is_empty() { "not named".to_owned() } else { names.join(", ") }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
