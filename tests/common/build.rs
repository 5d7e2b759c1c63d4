//! The shared library of each version, built first if need be.

use std::path::PathBuf;
use std::process::Command;

use crate::interface::Interface;

/// The shared library of this version, in the profile of the test itself.
///
/// `cargo test` links the version that its features choose, and only next to the test programs; `cargo build` links
/// either, and asking for one that is up to date costs nothing. Version 8 has a target folder of its own, so that
/// neither build undoes the other.
pub fn library(interface: Interface) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder = test.ancestors().nth(2).expect("a test lies in <target>/<profile>/deps");
    let target = folder.parent().expect("a profile's folder lies in the target folder");
    let profile = folder.file_name().expect("a profile has a name");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--lib", "--package", "cudnn-shim", "--target-dir"]);
    build.current_dir(env!("CARGO_MANIFEST_DIR"));
    let target = match interface {
        Interface::Nine => target.to_owned(),
        Interface::Eight => target.join("v8"),
    };
    build.arg(&target);
    if interface == Interface::Eight {
        build.args(["--features", "cudnn8"]);
    }
    if profile == "release" {
        build.arg("--release");
    }
    let output = build.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let library = target.join(profile).join("libcudnn.so");
    assert!(library.exists(), "{} is missing", library.display());
    library
}
