//! The two versions of the interface, as far as building and installing them differs.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::shell;

/// A version of the interface that the library can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// 8.9.7, the feature `cudnn8`.
    Eight,
    /// 9.27, the default.
    Nine,
}

impl Api {
    /// Reads the major number.
    pub fn parse(text: &str) -> Result<Api> {
        match text {
            "8" => Ok(Api::Eight),
            "9" => Ok(Api::Nine),
            _ => bail!("there is version 8 and version 9 of the interface, no version {text}"),
        }
    }

    /// The major number.
    pub fn major(self) -> &'static str {
        if self == Api::Eight { "8" } else { "9" }
    }

    /// Major, minor and patch level.
    pub fn version(self) -> &'static str {
        if self == Api::Eight { "8.9.7" } else { "9.27.0" }
    }

    /// What programs ask the dynamic linker for.
    pub fn soname(self) -> String {
        format!("libcudnn.so.{}", self.major())
    }

    /// The folder of its headers.
    pub fn include(self) -> PathBuf {
        let include = shell::root().join("include");
        if self == Api::Eight { include.join("v8") } else { include }
    }

    /// Builds the libraries and returns the folder of `libcudnn.so` and `libcudnn.a`. Each version has a target
    /// folder of its own, so that neither build undoes the other.
    pub fn build(self, release: bool) -> Result<PathBuf> {
        let target = if self == Api::Eight { shell::target().join("v8") } else { shell::target() };
        let mut command = shell::cargo();
        command.args(["build", "--package", "cudnn-shim", "--target-dir"]).arg(&target);
        if self == Api::Eight {
            command.args(["--features", "cudnn8"]);
        }
        if release {
            command.arg("--release");
        }
        shell::run(&mut command)?;
        Ok(target.join(if release { "release" } else { "debug" }))
    }
}
