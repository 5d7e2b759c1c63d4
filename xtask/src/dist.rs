//! `cargo xtask dist`: the library as an installation would have it, of the release or of the
//! tests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::api::Api;
use crate::machine::Machine;
use crate::tree::Tree;
use crate::{cubins, host_cuda, install, shell};

/// What `target/dist` holds, and `target/dist-debug` of the profile of the tests.
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

/// What `cargo xtask dist --help` tells.
pub const ARGUMENTS: &str =
    "--ptx-alone   without machine code of the CUDA kernels, which takes an assembler from the Python index";

pub fn run(arguments: &[String]) -> Result<()> {
    let cubins = match arguments {
        [] => Some(cubins::of_release()?),
        [flag] if flag == cubins::WITHOUT => None,
        _ => bail!("the argument is {}", cubins::WITHOUT),
    };
    let dist = build(true, cubins.as_deref())?;
    println!("{}\n{}", dist.library().display(), dist.include.display());
    Ok(())
}

/// Builds the library, in release mode or in the profile of the tests, with this machine code, and
/// lays it out afresh.
pub fn build(release: bool, cubins: Option<&Path>) -> Result<Dist> {
    let built = Api::Nine.build(release, cubins)?;
    let root = shell::target().join(Machine::target()?.folder(if release { "dist" } else { "dist-debug" }));
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("cannot clear {}", root.display()))?;
    }
    let mut tree = Tree::new(root.clone());
    install::lay_out(&mut tree, Api::Nine, &built, release)?;
    host_cuda::lay_out(&mut tree, &host_cuda::build(release)?, release)?;
    Ok(Dist::at(&root))
}
