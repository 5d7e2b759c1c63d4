//! `cargo xtask dist`: the release library as an installation would have it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::api::Api;
use crate::tree::Tree;
use crate::{host_cuda, install, shell};

/// What `target/dist` holds.
pub struct Dist {
    /// `libcudnn.so.9`, the link `libcudnn.so` to it for `-lcudnn`, `libcudnn_static.a`, and what
    /// build systems read.
    pub lib: PathBuf,
    /// `cudnn.h` and the headers beside it.
    pub include: PathBuf,
}

impl Dist {
    /// An installed tree.
    pub fn at(root: &Path) -> Dist {
        Dist { lib: root.join("lib"), include: root.join("include") }
    }

    /// The shared library, under the name that programs ask the dynamic linker for.
    pub fn library(&self) -> PathBuf {
        self.lib.join(Api::Nine.soname())
    }
}

pub fn run(_arguments: &[String]) -> Result<()> {
    let dist = build()?;
    println!("{}\n{}", dist.library().display(), dist.include.display());
    Ok(())
}

/// Builds the library in release mode and lays it out afresh.
pub fn build() -> Result<Dist> {
    let built = Api::Nine.build(true)?;
    let root = shell::target().join("dist");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("cannot clear {}", root.display()))?;
    }
    let mut tree = Tree::new(root.clone());
    install::lay_out(&mut tree, Api::Nine, &built, true)?;
    host_cuda::lay_out(&mut tree, &host_cuda::build(true)?, true)?;
    Ok(Dist::at(&root))
}
