//! The files below a folder: put there with the modes that `install` of the coreutils gives,
//! whatever the checkout and the umask have.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::manifest::Manifest;

/// The mode of shared libraries and folders.
pub const EXECUTABLE: u32 = 0o755;
/// The mode of all other files.
pub const PLAIN: u32 = 0o644;

/// A folder that files are put into.
pub struct Tree {
    root: PathBuf,
    /// Where the tree will be used.
    prefix: PathBuf,
    manifest: Option<Manifest>,
}

impl Tree {
    /// A tree that is used where it is, without a list.
    pub fn new(root: PathBuf) -> Tree {
        Tree { prefix: root.clone(), root, manifest: None }
    }

    /// A tree with the list `manifest`, to be used at `prefix`.
    pub fn listed(root: PathBuf, prefix: PathBuf, manifest: &str) -> Result<Tree> {
        let path = root.join(manifest);
        let mut tree = Tree { root, prefix, manifest: None };
        let folders = tree.make_folder(path.parent().context("a file lies in a folder")?)?;
        let mut list = Manifest::begin(&path, manifest)?;
        folders.iter().try_for_each(|folder| list.add(folder))?;
        tree.manifest = Some(list);
        set_mode(&path, PLAIN)?;
        Ok(tree)
    }

    /// Its top folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where `file` goes; whatever is there is removed, for a library that is in use must not be
    /// overwritten. Who writes it calls [`set_mode`] in the end.
    pub fn place(&mut self, file: &str) -> Result<PathBuf> {
        let path = self.root.join(file);
        let folders = self.make_folder(path.parent().context("a file lies in a folder")?)?;
        if path.symlink_metadata().is_ok() {
            fs::remove_file(&path).with_context(|| format!("cannot replace {}", path.display()))?;
        }
        if let Some(manifest) = &mut self.manifest {
            folders.iter().map(String::as_str).chain([file]).try_for_each(|path| manifest.add(path))?;
        }
        Ok(path)
    }

    /// Makes a folder and those above it; which of them it made, relative to the root. Folders that
    /// are there where the tree will be used do not count: to remove them is not for us.
    fn make_folder(&self, folder: &Path) -> Result<Vec<String>> {
        let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
        let mut made = Vec::new();
        for folder in missing.into_iter().rev() {
            fs::create_dir(folder).with_context(|| format!("cannot create {}", folder.display()))?;
            set_mode(folder, EXECUTABLE)?;
            let Ok(below) = folder.strip_prefix(&self.root) else { continue };
            let used_at = self.prefix.join(below);
            if folder == used_at || !used_at.exists() {
                let below = below.to_str().context("the names of our folders are ASCII")?;
                made.push(format!("{}/", if below.is_empty() { "." } else { below }));
            }
        }
        Ok(made)
    }

    pub fn write(&mut self, file: &str, text: &str) -> Result<()> {
        let path = self.place(file)?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        set_mode(&path, PLAIN)
    }

    pub fn copy(&mut self, from: &Path, file: &str, mode: u32) -> Result<PathBuf> {
        let path = self.place(file)?;
        fs::copy(from, &path)
            .with_context(|| format!("cannot copy {} to {}", from.display(), path.display()))?;
        set_mode(&path, mode)?;
        Ok(path)
    }

    /// A link to `name`, which lies in the same folder.
    pub fn link(&mut self, name: &str, file: &str) -> Result<()> {
        let path = self.place(file)?;
        #[cfg(unix)]
        std::os::unix::fs::symlink(name, &path).with_context(|| format!("cannot link {}", path.display()))?;
        #[cfg(not(unix))]
        fs::copy(path.with_file_name(name), &path)?;
        Ok(())
    }
}

/// Gives a file or folder the permissions `mode`; a folder keeps the group that it hands on.
pub fn set_mode(path: &Path, mode: u32) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mut permissions = fs::metadata(path)?.permissions();
        permissions.set_mode(permissions.mode() & 0o7000 | mode);
        fs::set_permissions(path, permissions)
            .with_context(|| format!("cannot set the mode of {}", path.display()))?;
    }
    #[cfg(not(unix))]
    let _ = (path, mode);
    Ok(())
}
