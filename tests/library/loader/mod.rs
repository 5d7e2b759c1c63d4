//! The installed libraries as the dynamic linker and programs see them: parts, reloading, both
//! versions at once, the original beside them, ways to end.

mod networks;
mod original;
mod parts;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::installed::{self, installed, quiet, run, scratch};
use crate::interface::{BOTH, Interface};
use crate::table::{self, Table};

/// Where a version's libraries are installed.
fn lib(interface: Interface) -> PathBuf {
    installed(interface).join("lib")
}

/// Compiles `c_tests/loader/<name>.c` against the installed headers and links it with `flags`.
fn compile(interface: Interface, name: &str, folder: &Path, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c_tests/loader").join(name).with_extension("c");
    let program = folder.join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-Wall", "-Wextra", "-Werror", "-DCUDNN_SHIM_NO_CUDA_HEADERS", "-pthread", "-I"]);
    gcc.arg(installed(interface).join("include")).arg(source).arg("-o").arg(&program);
    run(gcc.args(flags).args(["-ldl", "-lm"]));
    program
}

/// The flags that link against the installation.
fn linked(interface: Interface, libraries: &[&str]) -> Vec<String> {
    let mut flags = vec![format!("-L{}", lib(interface).display())];
    flags.extend(libraries.iter().map(|name| format!("-l{name}")));
    flags
}

fn compile_linked(interface: Interface, name: &str, folder: &Path, libraries: &[&str]) -> PathBuf {
    let flags = linked(interface, libraries);
    compile(interface, name, folder, &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The program, which finds libraries in `path` alone. Its tensors lie in host memory.
fn with_path(program: &Path, path: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("CUDNN_SHIM_BACKEND", "cpu");
    command.env("LD_LIBRARY_PATH", path).env_remove("LD_BIND_NOW").env_remove("LD_PRELOAD");
    command
}

/// What `answers` prints on our libraries.
fn answers(interface: Interface) -> String {
    let number = if interface == Interface::Nine { 92700 } else { 8907 };
    format!("0 {number} rank 4 strides 60 1 15 3\n")
}

#[test]
fn a_program_runs_lazily_and_bound_at_once_and_opens_no_other_library_of_ours() {
    for interface in BOTH {
        let program =
            compile_linked(interface, "answers", &scratch(&format!("run-{interface:?}")), &["cudnn"]);
        for now in ["", "1"] {
            let mut command = with_path(&program, &lib(interface));
            assert_eq!(quiet(command.env("LD_BIND_NOW", now)), answers(interface));
        }
        let mut command = with_path(&program, &lib(interface));
        let said = String::from_utf8_lossy(&run(command.env("LD_DEBUG", "libs")).stderr).into_owned();
        let ours: BTreeSet<&str> = said
            .lines()
            .filter_map(|line| line.split_once("find library=").map(|(_, rest)| rest))
            .filter_map(|rest| rest.split(' ').next())
            .filter(|name| name.contains("cudnn"))
            .collect();
        assert_eq!(ours, BTreeSet::from([interface.soname()]));
    }
}

#[test]
fn the_archive_links_by_itself() {
    for interface in BOTH {
        let archive = lib(interface).join("libcudnn_static.a");
        let archive = archive.to_str().expect("UTF-8");
        // It shows the interface alone, so that a second library in Rust does not clash with it.
        let list = quiet(Command::new("nm").args(["--defined-only", "--extern-only"]).arg(archive));
        let shown: BTreeSet<&str> = list.lines().filter_map(|line| line.split(' ').nth(2)).collect();
        let table = interface.symbols();
        let mut expected: BTreeSet<String> = table.rows().map(|row| row.get("symbol").to_owned()).collect();
        expected.extend(interface.restored().into_iter().map(|function| function.name));
        expected.extend(interface.extensions());
        assert_eq!(shown, expected.iter().map(String::as_str).collect());
        let program =
            compile(interface, "answers", &scratch(&format!("archive-{interface:?}")), &[archive, "-lm"]);
        assert_eq!(quiet(&mut with_path(&program, Path::new("/nonexistent"))), answers(interface));
    }
}

#[test]
fn a_thousand_reloads_leave_nothing_behind() {
    for interface in BOTH {
        let program = compile(interface, "reload", &scratch(&format!("reload-{interface:?}")), &[]);
        let library = lib(interface).join(interface.soname());
        assert_eq!(quiet(Command::new(program).arg(library)), "mappings grew by 0\n");
    }
}

#[test]
fn both_versions_live_in_one_process() {
    let program = compile(Interface::Nine, "both", &scratch("both"), &[]);
    let nine = lib(Interface::Nine).join("libcudnn.so.9");
    let eight = lib(Interface::Eight).join("libcudnn.so.8");
    let (says_nine, says_eight) = ("92700 2000 CUDNN_STATUS_BAD_PARAM\n", "8907 3 CUDNN_STATUS_BAD_PARAM\n");
    let printed = quiet(Command::new(&program).args([&nine, &eight]));
    assert_eq!(printed, format!("{says_nine}{says_eight}").repeat(2));
    let printed = quiet(Command::new(&program).args([&eight, &nine]));
    assert_eq!(printed, format!("{says_eight}{says_nine}").repeat(2));
}

#[test]
fn programs_end_well_while_handles_live() {
    for interface in BOTH {
        let program =
            compile_linked(interface, "leave", &scratch(&format!("leave-{interface:?}")), &["cudnn"]);
        for way in ["return", "thread", "dead-thread", "atexit", "fork"] {
            let mut command = with_path(&program, &lib(interface));
            assert_eq!(quiet(command.arg(way).env("CUDNN_SHIM_NUM_THREADS", "4")), "", "{way}");
        }
    }
}

#[test]
fn restored_calls_work() {
    for interface in BOTH {
        let folder = scratch(&format!("restored-{interface:?}"));
        let program = compile_linked(interface, "restored", &folder, &["cudnn"]);
        assert_eq!(quiet(&mut with_path(&program, &lib(interface))), "");
    }
}

#[test]
fn statuses_are_named_as_in_their_version() {
    let table = Table::read("enums");
    for interface in BOTH {
        let statuses = table.rows().filter(|row| row.get("enum_type") == "cudnnStatus_t");
        // A second name of a status is not the one that is told.
        let alias = |row: &table::Row<'_>| {
            interface == Interface::Nine && !row.get("alias_of_in_9.27").is_empty()
                || row.get(interface.values()).is_empty()
        };
        let expected: BTreeSet<String> = statuses
            .filter(|row| !alias(row))
            .map(|row| format!("{} {}", row.get(interface.values()), row.get("constant")))
            .collect();
        let program =
            compile_linked(interface, "strings", &scratch(&format!("strings-{interface:?}")), &["cudnn"]);
        let printed = quiet(&mut with_path(&program, &lib(interface)));
        assert_eq!(printed.lines().map(str::to_owned).collect::<BTreeSet<_>>(), expected);
    }
}

/// A CUDA runtime of version 11.8.
fn cudart(folder: &Path) -> PathBuf {
    let source = "int cudaRuntimeGetVersion(int *version) { *version = 11080; return 0; }\n";
    std::fs::write(folder.join("cudart.c"), source).expect("writable");
    let library = folder.join("libcudart.so.11.0");
    run(Command::new("gcc").args(["-shared", "-fPIC"]).arg(folder.join("cudart.c")).arg("-o").arg(&library));
    library
}

#[test]
fn versions_are_consistent_and_can_be_overridden() {
    for interface in BOTH {
        let folder = scratch(&format!("versions-{interface:?}"));
        let program = compile_linked(interface, "versions", &folder, &["cudnn"]);
        let (number, version) =
            if interface == Interface::Nine { (92700, "9.27.0") } else { (8907, "8.9.7") };
        let told = |reported: &str, cudart: Option<&Path>| {
            let mut command = with_path(&program, &lib(interface));
            quiet(command.env("CUDNN_SHIM_VERSION", reported).args(cudart))
        };
        // Without a CUDA runtime, the one that the original was built with.
        let built_with = if interface == Interface::Nine { 12_090 } else { 12_020 };
        assert_eq!(told("", None), format!("{number} {number} {version} {built_with}\n"));
        assert_eq!(told("9.1.0", None), format!("{number} 90100 9.1.0 {built_with}\n"));
        assert_eq!(told("7605", None), format!("{number} 7605 7.6.5 {built_with}\n"));
        assert_eq!(told("new", None), format!("{number} {number} {version} {built_with}\n"));
        assert_eq!(
            told("", Some(&cudart(&folder))),
            format!("{number} {number} {version} 11080\n"),
            "a private one"
        );
        let mut command = with_path(&program, &lib(interface));
        let preloaded = command.env("LD_PRELOAD", cudart(&folder)).env_remove("CUDNN_SHIM_VERSION");
        assert_eq!(quiet(preloaded), format!("{number} {number} {version} 11080\n"));
        // A wrong version is not ignored in silence.
        let mut command = with_path(&program, &lib(interface));
        command.env("CUDNN_SHIM_VERSION", "new").env("CUDNN_LOGLEVEL_DBG", "2");
        let logged = quiet(command.env("CUDNN_LOGDEST_DBG", "stdout"));
        assert!(logged.contains("CUDNN_SHIM_VERSION=\"new\" is ignored"), "{logged}");
    }
}

#[test]
fn the_stripped_library_is_small() {
    // Version 8 is not optimised in a build of tests.
    let nine = Interface::Nine;
    let copy = scratch("small").join("stripped.so");
    run(Command::new("strip").arg(lib(nine).join(nine.soname())).arg("-o").arg(&copy));
    let bytes = std::fs::metadata(&copy).expect("strip wrote it").len();
    // A build of tests checks itself and compresses kernels less, and is larger than a release:
    // some 21.7 MB, and in the many parts of an incremental build up to 0.8 MB more.
    assert!(bytes < 22_500_000, "{bytes} bytes");
}

/// Between builds of one version nothing changes for its users; between the versions much does, and
/// is found.
#[test]
fn builds_of_one_version_have_one_abi() {
    if !installed::is_there("abidiff") {
        return;
    }
    let release = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("dist/lib/libcudnn.so.9");
    let nine = lib(Interface::Nine).join("libcudnn.so.9");
    let compare = |one: &Path, other: &Path| {
        Command::new("abidiff").arg(one).arg(other).env("LC_ALL", "C").output().expect("abidiff starts")
    };
    if release.exists() {
        let output = compare(&nine, &release);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    } else {
        println!("skipped: no second build to compare with; `cargo xtask dist` makes one");
    }
    let output = compare(&lib(Interface::Eight).join("libcudnn.so.8"), &nine);
    let said = String::from_utf8_lossy(&output.stdout);
    // 26 calls are new in version 9, and none of version 8 is missing; each has another version.
    assert_eq!(output.status.code().map(|code| code & 4), Some(4), "{said}");
    assert!(said.contains("SONAME changed from 'libcudnn.so.8' to 'libcudnn.so.9'"), "{said}");
    assert!(said.contains("cudnnGetLastErrorString"), "{said}");
}
