//! Whole projects, configured, built and run against the installation.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{file, version};
use crate::installed::{self, installed, quiet, run, scratch};
use crate::interface::{BOTH, Interface};

/// The program that every project builds.
fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c_tests/loader/answers.c")
}

/// Runs what a project has built; it has to answer as the version does.
fn answers(interface: Interface, program: &Path) {
    let number = if interface == Interface::Nine { 92700 } else { 8907 };
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", installed(interface).join("lib")).env("CUDNN_SHIM_BACKEND", "cpu");
    assert_eq!(quiet(&mut command), format!("0 {number} rank 4 strides 60 1 15 3\n"));
}

/// Configures the project that uses our package: what it said, unless it was refused.
fn configure(folder: &str, definitions: &[String]) -> Option<String> {
    let mut cmake = Command::new("cmake");
    cmake.arg("-S").arg(file("projects/config")).arg("-B").arg(scratch(folder)).args(definitions);
    let output = cmake.arg(format!("-DSOURCE={}", source().display())).output().expect("cmake starts");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
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
    if !installed::is_there("cmake") {
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
fn a_cmake_project_with_our_find_module_builds_and_runs() {
    if !installed::is_there("cmake") {
        return;
    }
    for interface in BOTH {
        let modules = installed(interface).join("lib/cmake/modules");
        let folder = format!("our_module-{interface:?}");
        let (said, build) = cmake("find_module", &folder, &[format!("-DMODULES={}", modules.display())]);
        assert!(said.contains(&format!("found version {}", version(interface))), "{said}");
        answers(interface, &build.join("answers"));
    }
}

#[test]
fn a_cmake_project_with_our_package_builds_and_runs() {
    if !installed::is_there("cmake") {
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
        for unwanted in ["7.6", "10.0", &format!("{major}.28"), "6...7.6", "7...<8", "10...11"] {
            let said = configure("config-refused", &[prefix.clone(), format!("-DWANTED={unwanted}")]);
            assert!(said.is_none(), "{unwanted} is accepted");
        }
        for range in ["7...10".to_owned(), format!("7...{}", version(interface))] {
            let said = configure("config-range", &[prefix.clone(), format!("-DWANTED={range}")]);
            assert!(said.is_some(), "{range} is refused");
        }
        let excluded = format!("-DWANTED=7...<{}", version(interface));
        assert_eq!(configure("config-range", &[prefix.clone(), excluded]), None);
    }
}

#[test]
fn our_package_is_found_in_other_spellings_and_through_links() {
    if !installed::is_there("cmake") {
        return;
    }
    for interface in BOTH {
        // As on systems where /lib is a link to /usr/lib, and there is no /include.
        let linked = scratch(&format!("config-linked-{interface:?}"));
        std::os::unix::fs::symlink(installed(interface).join("lib"), linked.join("lib")).expect("writable");
        let include = installed(interface).join("include").canonicalize().expect("there");
        let expected = format!("found version {} in {}\n", version(interface), include.display());
        for prefix in [installed(interface), &linked] {
            for name in ["CUDNN", "cuDNN", "CuDNN", "cudnn"] {
                let prefix = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
                let wanted = format!("-DWANTED={}", interface.version()[0]);
                let said = configure("config-names", &[prefix, format!("-DNAME={name}"), wanted]);
                assert!(said.as_ref().is_some_and(|said| said.contains(&expected)), "{name}: {said:?}");
            }
        }
    }
}

#[test]
fn a_makefile_with_pkg_config_builds_and_runs() {
    if !installed::is_there("pkg-config") || !installed::is_there("make") {
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
    if !installed::is_there("meson") || !installed::is_there("pkg-config") {
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
