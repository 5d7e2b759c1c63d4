//! The installed tree as build systems see it: files, finders' expressions and names, whole
//! projects.

mod lifecycle;
mod projects;
mod without_gpu;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::installed::{self, installed, quiet, run, scratch};
use crate::interface::{BOTH, Interface};

/// A file of these tests.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/library/install").join(name)
}

/// `9.27.0` or `8.9.7`.
fn version(interface: Interface) -> String {
    interface.version().join(".")
}

/// Every file and link below `folder`, relative to it.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in std::fs::read_dir(&next).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() && !path.is_symlink() {
                pending.push(path);
            } else {
                let below = path.strip_prefix(folder).expect("found below the folder");
                found.insert(below.to_str().expect("UTF-8").to_owned());
            }
        }
    }
    found
}

#[test]
fn everything_that_is_looked_for_is_there_and_links_lead_to_it() {
    for interface in BOTH {
        let prefix = installed(interface);
        let (soname, version) = (interface.soname(), version(interface));
        for (link, target) in [
            ("lib/libcudnn.so".to_owned(), soname.to_owned()),
            (format!("lib/{soname}"), format!("libcudnn.so.{version}")),
        ] {
            let leads = std::fs::read_link(prefix.join(&link)).expect("a link");
            assert_eq!(leads.to_str(), Some(target.as_str()), "{link}");
        }
        let found = files(prefix);
        for file in [
            "lib/libcudnn_static.a",
            "lib/libcudnn.a",
            "lib/pkgconfig/cudnn.pc",
            "lib/pkgconfig/CUDNN.pc",
            "lib/pkgconfig/cuDNN.pc",
            "lib/cmake/CUDNN/CUDNNConfig.cmake",
            "lib/cmake/CUDNN/CUDNNConfigVersion.cmake",
            "lib/cmake/CUDNN/cudnn-config.cmake",
            "lib/cmake/CUDNN/cudnn-config-version.cmake",
            "lib/cmake/modules/FindCUDNN.cmake",
            "include/cudnn.hpp",
            "include/cudnn.h",
            "include/cudnn_version.h",
            "include/cudnn_backend.h",
            "include/cudnn_shim.h",
        ] {
            assert!(found.contains(file), "{file} is missing");
        }
        for file in &found {
            assert!(prefix.join(file).exists(), "{file} leads nowhere");
        }
        // The list of the installation names exactly what is there.
        let manifest = format!("lib/cudnn-shim/install_manifest_v{}.txt", interface.version()[0]);
        let list = std::fs::read_to_string(prefix.join(manifest)).expect("the list is written");
        let listed: BTreeSet<String> =
            list.lines().filter(|line| !line.ends_with('/')).map(str::to_owned).collect();
        assert_eq!(listed, found);
    }
}

/// The script with every finder's expressions, on a tree.
fn finders(prefix: &Path, version: &str) -> Command {
    let mut cmake = Command::new("cmake");
    cmake.arg(format!("-DPREFIX={}", prefix.display())).arg(format!("-DVERSION={version}"));
    cmake.arg("-P").arg(file("finders.cmake"));
    cmake
}

#[test]
fn every_finder_reads_the_version_and_finds_the_libraries() {
    if !installed::is_there("cmake") {
        return;
    }
    for interface in BOTH {
        let found = quiet(&mut finders(installed(interface), &version(interface)));
        assert!(found.contains("library names found"), "{found}");
        print!("{found}");
    }
    // Spellings that finders do not understand are noticed, each by itself.
    for (header, right, wrong) in [
        ("cudnn.h", "#define CUDNN_MAJOR 9", "#define CUDNN_MAJOR (9)"),
        ("cudnn.h", "#define CUDNN_MINOR 27", "#define CUDNN_MINOR  27"),
        ("cudnn_version.h", "#define CUDNN_PATCHLEVEL 0", "  #define CUDNN_PATCHLEVEL 0"),
        ("cudnn_version.h", "#define CUDNN_MAJOR 9", "#define CUDNN_MAJOR 8"),
    ] {
        let spoiled = scratch("spoiled");
        for part in ["include", "lib"] {
            run(Command::new("cp")
                .arg("-R")
                .arg("--no-dereference")
                .arg(installed(Interface::Nine).join(part))
                .arg(&spoiled));
        }
        let path = spoiled.join("include").join(header);
        let text = std::fs::read_to_string(&path).expect("the header");
        assert!(text.contains(right));
        std::fs::write(&path, text.replacen(right, wrong, 1)).expect("writable");
        let output = finders(&spoiled, "9.27.0").output().expect("cmake starts");
        assert!(!output.status.success(), "{wrong} is not noticed");
    }
}

#[test]
fn a_script_reads_the_version_from_the_start_of_a_line() {
    if !installed::is_there("python3") {
        return;
    }
    for interface in BOTH {
        let include = installed(interface).join("include");
        let headers = ["cudnn.h", "cudnn_version.h"].map(|header| include.join(header));
        let found = quiet(Command::new("python3").arg(file("finders.py")).args(headers));
        assert_eq!(found, format!("{0}\n{0}\n", version(interface)));
    }
}
