//! The two versions of the interface, as far as building and installing them differs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{cubins, shell};

/// What cargo has built.
pub struct Libraries {
    /// `libcudnn.so`.
    pub shared: PathBuf,
    /// `libcudnn.a`.
    pub archive: PathBuf,
}

impl Libraries {
    /// Reads where they are from cargo's messages, for a target triple in the user's configuration
    /// or environment moves them to a folder of its own.
    fn named_in(messages: &str) -> Result<Libraries> {
        let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let ours = messages.filter(|message| message["target"]["name"] == "cudnn");
        let files: Vec<PathBuf> = ours
            .filter_map(|message| message["filenames"].as_array().cloned())
            .flatten()
            .filter_map(|file| file.as_str().map(PathBuf::from))
            .collect();
        let find = |name: &str| {
            let file = files.iter().find(|file| file.file_name().is_some_and(|file| file == name));
            file.cloned().with_context(|| format!("cargo has built no {name}"))
        };
        Ok(Libraries { shared: find("libcudnn.so")?, archive: find("libcudnn.a")? })
    }
}

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

    /// The calls that `cudnn_shim.h` declares, the same for both.
    pub fn extensions() -> Result<Vec<String>> {
        let text = fs::read_to_string(shell::root().join("include/cudnn_shim.h"))?;
        let heads = text.lines().filter(|line| line.starts_with("cudnnStatus_t cudnnShim"));
        let names = heads.filter_map(|line| line.split([' ', '(']).nth(1)).map(str::to_owned);
        Ok(names.collect())
    }

    /// Builds the libraries. Each version has a target folder of its own, so that neither build
    /// undoes the other. For tests version 8 is not optimised, which takes a third of the time:
    /// what it has of its own is its interface. `cubins` is the folder of the packs of machine code
    /// that go into the library; without it, what the environment says.
    pub fn build(self, release: bool, cubins: Option<&Path>) -> Result<Libraries> {
        let target = if self == Api::Eight { shell::target().join("v8") } else { shell::target() };
        let mut command = shell::cargo();
        command.args(["build", "--package", "cudnn-shim", "--target-dir"]).arg(&target);
        if self == Api::Eight {
            command.args(["--features", "cudnn8"]);
        }
        if release {
            command.arg("--release");
        } else if self == Api::Eight {
            command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
        }
        if let Some(folder) = cubins {
            command.env(cubins::VARIABLE, folder);
        }
        // Errors and progress are still for people, on the error stream.
        command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
        Libraries::named_in(&shell::output(&mut command)?)
    }
}

#[cfg(test)]
mod tests {
    use super::Libraries;

    #[test]
    fn the_libraries_are_where_cargo_says() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"libc"},"filenames":["/t/liblibc.rlib"]}
{"reason":"compiler-artifact","target":{"name":"cudnn"},"filenames":["/t/x/libcudnn.so","/t/x/libcudnn.a"]}
{"reason":"build-finished","success":true}"#;
        let libraries = Libraries::named_in(messages).unwrap();
        assert_eq!(libraries.shared.to_str(), Some("/t/x/libcudnn.so"));
        assert_eq!(libraries.archive.to_str(), Some("/t/x/libcudnn.a"));
        assert!(Libraries::named_in("").is_err());
    }
}
