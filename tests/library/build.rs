//! The shared library of each version, built first if need be.

use std::path::PathBuf;
use std::process::Command;

use crate::interface::Interface;

/// The shared library of this version, in the profile of the test itself.
///
/// `cargo test` links the version that its features choose, next to the test programs; the other
/// one is built in a target folder of its own, so that neither build undoes the other.
pub fn library(interface: Interface) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let deps = test.parent().expect("a test lies in a folder");
    let own = if cfg!(feature = "cudnn8") { Interface::Eight } else { Interface::Nine };
    if interface == own {
        return deps.join("libcudnn.so");
    }
    let folder = deps.parent().expect("a test lies in <target>/<profile>/deps");
    let profile = folder.file_name().expect("a profile has a name");
    let target = folder.parent().expect("a profile's folder lies in the target folder");
    let target = target.join(if interface == Interface::Eight { "v8" } else { "v9" });
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--lib", "--package", "cudnn-shim", "--target-dir"]);
    build.arg(&target).current_dir(env!("CARGO_MANIFEST_DIR"));
    if interface == Interface::Eight {
        build.args(["--features", "cudnn8"]);
    }
    if profile == "release" {
        build.arg("--release");
    } else {
        // As `cargo xtask install --debug` builds it: its interface is tested, and no kernel.
        build.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    }
    let output = build.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let library = target.join(profile).join("libcudnn.so");
    assert!(library.exists(), "{} is missing", library.display());
    library
}
