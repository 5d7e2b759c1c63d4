//! The list of an installation: what `uninstall` takes away.
//!
//! One path per line, relative to the prefix, so that the tree may be moved; folders end with `/`.
//! It grows with every file, so that an installation that failed half-way can be taken away too.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use crate::api::Api;

/// Folders that hold nothing but ours, whoever made them.
const OURS: [&str; 2] = ["lib/cudnn-shim/", "lib/cmake/CUDNN/"];

/// Where the list of this version lies, relative to the prefix.
pub fn name(api: Api) -> String {
    format!("lib/cudnn-shim/install_manifest_v{}.txt", api.major())
}

/// A list that is being written.
pub struct Manifest {
    paths: Vec<String>,
    file: File,
}

impl Manifest {
    /// Begins the list at `path`, which is `name` below the prefix, with itself and with what a
    /// former installation has listed there: what it placed may still be there.
    pub fn begin(path: &Path, name: &str) -> Result<Manifest> {
        let former = if path.exists() { read(path, name)? } else { Vec::new() };
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut manifest = Manifest { paths: Vec::new(), file };
        manifest.add(name)?;
        former.iter().try_for_each(|former| manifest.add(former))?;
        Ok(manifest)
    }

    /// Lists `path`, once.
    pub fn add(&mut self, path: &str) -> Result<()> {
        if !self.paths.iter().any(|listed| listed == path) {
            writeln!(self.file, "{path}").context("cannot write the list of files")?;
            self.paths.push(path.to_owned());
        }
        Ok(())
    }
}

/// Removes what the list `name` below `root` has, the list itself after all other files, then the
/// folders that the installation made, as far as they are empty.
pub fn remove(root: &Path, name: &str) -> Result<()> {
    let paths = read(&root.join(name), name)?;
    let is_folder = |path: &&String| path.ends_with('/');
    let files = paths.iter().filter(|path| !is_folder(path) && *path != name).map(String::as_str);
    for file in files.chain([name]) {
        let file = root.join(file);
        match fs::remove_file(&file) {
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(error).with_context(|| format!("cannot remove {}", file.display()));
            }
            _ => {}
        }
    }
    let mut folders: Vec<&str> = paths.iter().filter(is_folder).map(String::as_str).chain(OURS).collect();
    // What lies deeper sorts behind the folder that it lies in.
    folders.sort_unstable();
    for folder in folders.into_iter().rev() {
        // Collected without the `.` that stands for the prefix, for no folder can be removed by
        // that name. Fails for one that holds something, which then stays.
        let _ = fs::remove_dir(root.join(folder).components().collect::<PathBuf>());
    }
    Ok(())
}

fn read(path: &Path, name: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("nothing is installed there: cannot read {}", path.display()))?;
    parse(&text, name).with_context(|| format!("{} is no list of ours", path.display()))
}

/// The paths of a list, relative to the prefix.
fn parse(text: &str, name: &str) -> Result<Vec<String>> {
    // Lists of earlier releases have absolute paths; their own one shows the prefix.
    let prefix = text.lines().find_map(|line| line.strip_suffix(name)).context("it does not name itself")?;
    let relative = |line: &str| {
        let path = line.strip_prefix(prefix).filter(|path| is_below(path));
        path.map(str::to_owned).with_context(|| format!("{line} does not lie below the prefix"))
    };
    text.lines().map(relative).collect()
}

fn is_below(path: &str) -> bool {
    let mut components = Path::new(path).components();
    !path.is_empty() && components.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use super::{Api, name, parse};

    #[test]
    fn lists_are_relative_and_absolute_ones_are_read_too() {
        let name = name(Api::Nine);
        let paths = ["include/cudnn.h".to_owned(), name.clone()];
        for prefix in ["", "/", "/opt/n n/"] {
            let text: String = paths.iter().map(|path| format!("{prefix}{path}\n")).collect();
            assert_eq!(parse(&text, &name).unwrap(), paths);
        }
        for wrong in ["include/cudnn.h\n", &format!("{name}\n../x\n"), &format!("{name}\n/x\n")] {
            assert!(parse(wrong, &name).is_err(), "{wrong}");
        }
    }
}
