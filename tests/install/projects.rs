//! Whole projects, configured, built and run against the installation.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::installed::{self, installed, quiet, run, scratch};
use crate::interface::{BOTH, Interface};
use crate::{file, version};

/// The program that every project builds.
fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c_tests/loader/answers.c")
}

/// Runs what a project has built; it has to answer as the version does.
fn answers(interface: Interface, program: &Path) {
    let number = if interface == Interface::Nine { 92700 } else { 8907 };
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", installed(interface).join("lib"));
    assert_eq!(quiet(&mut command), format!("0 {number} rank 4 strides 60 1 15 3\n"));
}

/// Configures and builds a CMake project; what it said, and where it was built.
fn cmake(project: &str, folder: &str, definitions: &[String]) -> (String, PathBuf) {
    let build = scratch(folder);
    let configured = run(Command::new("cmake")
        .arg("-S")
        .arg(file("projects").join(project))
        .arg("-B")
        .arg(&build)
        .arg(format!("-DSOURCE={}", source().display()))
        .args(definitions));
    run(Command::new("cmake").arg("--build").arg(&build));
    (String::from_utf8_lossy(&configured.stdout).into_owned(), build)
}

#[test]
fn a_cmake_project_with_its_own_find_module_builds_and_runs() {
    if !installed::is_there("cmake", "cmake") {
        return;
    }
    for interface in BOTH {
        for linkage in ["OFF", "ON"] {
            let (said, build) = cmake(
                "find_module",
                &format!("find_module-{interface:?}-{linkage}"),
                &[
                    format!("-DCUDNN_ROOT={}", installed(interface).display()),
                    format!("-DUSE_STATIC_CUDNN={linkage}"),
                ],
            );
            assert!(said.contains(&format!("found version {}", version(interface))), "{said}");
            answers(interface, &build.join("answers"));
        }
    }
}

#[test]
fn a_cmake_project_with_our_package_builds_and_runs() {
    if !installed::is_there("cmake", "cmake") {
        return;
    }
    for interface in BOTH {
        let prefix = format!("-DCMAKE_PREFIX_PATH={}", installed(interface).display());
        let major = interface.version()[0];
        let wanted = format!("-DWANTED={major}.1");
        let (said, build) = cmake("config", &format!("config-{interface:?}"), &[prefix.clone(), wanted]);
        assert!(said.contains(&format!("found version {}", version(interface))), "{said}");
        answers(interface, &build.join("answers"));
        answers(interface, &build.join("answers_static"));
        // Another major version, or a later one, is refused.
        for unwanted in ["7.6", "10.0", &format!("{major}.28")] {
            let configured = Command::new("cmake")
                .arg("-S")
                .arg(file("projects/config"))
                .arg("-B")
                .arg(scratch("config-refused"))
                .arg(format!("-DSOURCE={}", source().display()))
                .args([&prefix, &format!("-DWANTED={unwanted}")])
                .output()
                .expect("cmake starts");
            assert!(!configured.status.success(), "{unwanted} is accepted");
        }
    }
}

#[test]
fn a_makefile_with_pkg_config_builds_and_runs() {
    if !installed::is_there("pkg-config", "pkg-config") || !installed::is_there("make", "make") {
        return;
    }
    for interface in BOTH {
        let packages = installed(interface).join("lib/pkgconfig");
        for name in ["cudnn", "CUDNN", "cuDNN"] {
            let mut ask = Command::new("pkg-config");
            let told = quiet(ask.args(["--modversion", name]).env("PKG_CONFIG_PATH", &packages));
            assert_eq!(told.trim(), version(interface));
            let folder = scratch(&format!("makefile-{interface:?}-{name}"));
            let mut make = Command::new("make");
            make.arg("-C").arg(&folder).arg("-f").arg(file("projects/pkg_config/Makefile"));
            make.arg(format!("NAME={name}")).arg(format!("SOURCE={}", source().display()));
            run(make.env("PKG_CONFIG_PATH", &packages).env_remove("MAKEFLAGS"));
            answers(interface, &folder.join("answers"));
        }
        // A program without any shared library.
        let told = quiet(
            Command::new("pkg-config")
                .args(["--static", "--cflags", "--libs", "cudnn"])
                .env("PKG_CONFIG_PATH", &packages),
        );
        let program = scratch(&format!("static-{interface:?}")).join("answers");
        let mut gcc = Command::new("gcc");
        run(gcc.arg("-static").arg(source()).arg("-o").arg(&program).args(told.split_whitespace()));
        answers(interface, &program);
    }
}

#[test]
fn a_meson_project_builds_and_runs() {
    if !installed::is_there("meson", "meson") || !installed::is_there("pkg-config", "pkg-config") {
        return;
    }
    for interface in BOTH {
        let folder = scratch(&format!("meson-{interface:?}"));
        for part in [file("projects/meson/meson.build"), source()] {
            let name = part.file_name().expect("a file").to_owned();
            std::fs::copy(part, folder.join(name)).expect("writable");
        }
        let build = folder.join("build");
        let mut setup = Command::new("meson");
        setup.arg("setup").arg(&build).arg(&folder);
        let said = run(setup.env("PKG_CONFIG_PATH", installed(interface).join("lib/pkgconfig")));
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains(&format!("found version {}", version(interface))), "{said}");
        run(Command::new("meson").arg("compile").arg("-C").arg(&build));
        answers(interface, &build.join("answers"));
    }
}
