//! Where the library lies that `run` and `doctor` speak of, and beside it the stand-ins for CUDA's
//! libraries.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::{Failure, Result};

/// The variable that names the folder.
pub const VARIABLE: &str = "CUDNN_SHIM_LIB";

/// The library by the names that programs ask for.
pub const LIBRARIES: [&str; 2] = ["libcudnn.so.9", "libcudnn.so.8"];

/// This program.
fn tool() -> PathBuf {
    std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_default()
}

/// A folder with the library.
pub struct Place {
    /// `libcudnn.so.9` or `libcudnn.so.8` is here.
    pub lib: PathBuf,
    /// Stand-ins for the CUDA runtime, cuBLAS and cuRAND, if they were built.
    pub host_cuda: Option<PathBuf>,
}

impl Place {
    /// The folder that is given, else the one that the environment names, else `lib` of the
    /// installation that this tool belongs to, else `dist/lib` of the build folder that it was
    /// built in, or of the `target` here.
    ///
    /// # Errors
    /// No library is there.
    pub fn find(given: Option<&str>) -> Result<Place> {
        let named = given.map(OsString::from).or_else(|| std::env::var_os(VARIABLE));
        if let Some(folder) = named.filter(|folder| !folder.is_empty()) {
            let folder = std::path::absolute(&folder).unwrap_or_else(|_| folder.into());
            return Place::at(&folder)
                .ok_or_else(|| Failure::new(format!("{}: no {} is here", folder.display(), LIBRARIES[0])));
        }
        let tool = tool();
        let here = std::env::current_dir().unwrap_or_default().join("target");
        let built = tool.ancestors().skip(2).take(3).map(|folder| folder.join("dist/lib"));
        let candidates = Place::installed().into_iter().chain(built);
        candidates.chain([here.join("dist/lib")]).find_map(|folder| Place::at(&folder)).ok_or_else(|| {
            Failure::new(format!(
                "no {} beside this tool or in target/dist/lib: `cargo xtask dist` makes it; --lib DIR or {VARIABLE} names the \
                 folder of one that is elsewhere",
                LIBRARIES[0]
            ))
        })
    }

    /// `lib` of the installation that this tool belongs to.
    pub fn installed() -> Option<PathBuf> {
        let tool = tool();
        let bin = tool.parent().filter(|bin| bin.ends_with("bin"))?;
        Some(bin.parent()?.join("lib"))
    }

    fn at(lib: &Path) -> Option<Place> {
        LIBRARIES.iter().any(|name| lib.join(name).exists()).then(|| Place {
            lib: lib.to_owned(),
            host_cuda: Some(lib.join("host-cuda")).filter(|folder| folder.is_dir()),
        })
    }

    /// The folders that go before all others.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.host_cuda.iter().chain([&self.lib]).cloned().collect()
    }
}
