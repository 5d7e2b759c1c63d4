//! The shared library of either version as a file: exactly the original's symbols and versions and
//! those restored from earlier ones, no foreign dependency, and a program that was linked against
//! the original runs on it as it is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

mod stubs;

use crate::build::library;
use crate::interface::{BOTH, Interface};

/// A fresh folder of this name in the target's scratch folder.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the target's scratch folder is writable");
    folder
}

fn run(command: &mut Command) -> Output {
    let output =
        command.env("LC_ALL", "C").output().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn stdout(command: &mut Command) -> String {
    String::from_utf8(run(command).stdout).expect("these tools print UTF-8")
}

/// `name@@version` of every defined dynamic symbol, and its kind.
fn symbols(library: &Path) -> Vec<(String, char)> {
    let list =
        stdout(Command::new("nm").args(["-D", "--defined-only", "--with-symbol-versions"]).arg(library));
    list.lines()
        .map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let kind = words.next().and_then(|kind| kind.chars().next()).expect("nm prints a kind");
            (words.next().expect("nm prints a name").to_owned(), kind)
        })
        .collect()
}

/// The original's symbols and the restored calls, all of the one version.
fn expected(interface: Interface) -> BTreeSet<String> {
    let table = interface.symbols();
    let original = table.rows().map(|row| row.get("symbol").to_owned() + row.get("version"));
    let restored = interface.restored().into_iter().map(|f| format!("{}@@{}", f.name, interface.soname()));
    original.chain(restored).collect()
}

/// The version of the calls of `cudnn_shim.h`.
const EXTENSIONS: &str = "CUDNN_SHIM_1";

#[test]
fn exports_exactly_the_original_symbols_and_versions() {
    for interface in BOTH {
        let symbols = symbols(&library(interface));
        // The linker also lists the version node itself, as an absolute symbol without a place in
        // the library.
        let (nodes, code): (Vec<_>, Vec<_>) = symbols.into_iter().partition(|(_, kind)| *kind == 'A');
        let mut nodes: Vec<&str> = nodes.iter().filter_map(|(name, _)| name.split('@').next()).collect();
        nodes.sort_unstable();
        assert_eq!(nodes, [EXTENSIONS, interface.soname()]);
        for (name, kind) in &code {
            assert_eq!(*kind, 'T', "{name} is no function");
        }
        let names: BTreeSet<String> = code.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(names.len(), code.len(), "a symbol is exported twice");
        let (ours, names): (BTreeSet<_>, BTreeSet<_>) =
            names.into_iter().partition(|name| name.ends_with(&format!("@@{EXTENSIONS}")));
        let declared = interface.extensions().into_iter().map(|name| format!("{name}@@{EXTENSIONS}"));
        assert_eq!(ours, declared.collect());
        assert_eq!(ours.len(), 21);
        assert_eq!(names, expected(interface));
        assert_eq!(names.len(), if interface == Interface::Nine { 239 + 58 } else { 268 + 3 });
    }
}

#[test]
fn is_called_like_the_original_and_needs_the_system_alone() {
    BOTH.into_iter().for_each(needs_the_system_alone);
}

fn needs_the_system_alone(interface: Interface) {
    let dynamic = stdout(Command::new("readelf").args(["--dynamic", "--wide"]).arg(library(interface)));
    let values = |tag: &str| -> Vec<&str> {
        let lines = dynamic.lines().filter(|line| line.contains(tag));
        lines.map(|line| line.split(['[', ']']).nth(1).expect("a name in brackets")).collect()
    };
    assert_eq!(values("(SONAME)"), [interface.soname()]);
    assert!(values("(RPATH)").is_empty() && values("(RUNPATH)").is_empty());
    for needed in values("(NEEDED)") {
        let stem = needed.split(".so").next().unwrap_or_default();
        let system = ["libc", "libm", "libpthread", "libdl", "libgcc_s"].contains(&stem);
        assert!(system || stem.starts_with("ld-linux"), "the library needs {needed}");
    }
}

/// A library with the original's file name, symbols and versions, to link programs against.
fn stand_in(interface: Interface, folder: &Path) {
    let soname = interface.soname();
    let mut source = String::new();
    let mut script = format!("{soname} {{\n  global:\n");
    for row in interface.symbols().rows() {
        let name = row.get("symbol");
        source += &format!("int {name}(void) {{ return -1; }}\n");
        script += &format!("    {name};\n");
    }
    script += "  local: *;\n};\n";
    std::fs::write(folder.join("stand_in.c"), source).expect("writable");
    std::fs::write(folder.join("stand_in.map"), script).expect("writable");
    run(Command::new("gcc").current_dir(folder).args([
        "-shared",
        "-fPIC",
        "-o",
        soname,
        "stand_in.c",
        &format!("-Wl,-soname,{soname}"),
        "-Wl,--version-script=stand_in.map",
    ]));
    std::os::unix::fs::symlink(soname, folder.join("libcudnn.so")).expect("writable");
    // The same without versions, which the dynamic linker complains about.
    std::fs::create_dir(folder.join("unversioned")).expect("writable");
    let output = format!("unversioned/{soname}");
    run(Command::new("gcc").current_dir(folder).args(["-shared", "-fPIC", "stand_in.c", "-o", &output]));
}

/// Takes the address of every function, so that the dynamic linker has to find each, and calls a
/// few.
fn program(interface: Interface) -> String {
    let mut text = "#include \"cudnn.h\"\n#include <stdio.h>\n".to_owned();
    let table = interface.symbols();
    for row in table.rows().filter(|row| !row.is("declared")) {
        text += &format!("cudnnStatus_t {}(void);\n", row.get("symbol"));
    }
    text += "typedef void (*function)(void);\nstatic const function all[] = {\n";
    text.extend(table.rows().map(|row| format!("    (function){},\n", row.get("symbol"))));
    text += r#"};
int main(void) {
    cudnnHandle_t handle = 0;
    unsigned count = 0, i;
    for (i = 0; i < sizeof all / sizeof *all; i++) count += all[i] != 0;
    if (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS) return 1;
    /* A missing descriptor, and a missing handle. */
    if (cudnnBuildRNNDynamic(handle, 0, 1) != CUDNN_STATUS_BAD_PARAM) return 2;
    if (cudnnBuildRNNDynamic(0, 0, 0) != CUDNN_STATUS_BAD_PARAM) return 3;
    if (cudnnDestroy(handle) != CUDNN_STATUS_SUCCESS) return 4;
    printf("%u %d %s\n", count, cudnnGetVersion() == CUDNN_VERSION, cudnnGetErrorString(CUDNN_STATUS_BAD_PARAM));
    return 0;
}
"#;
    text
}

#[test]
fn a_program_linked_against_the_original_runs_unchanged() {
    BOTH.into_iter().for_each(runs_unchanged);
}

fn runs_unchanged(interface: Interface) {
    let folder = scratch(&format!("relink-{interface:?}"));
    stand_in(interface, &folder);
    std::fs::write(folder.join("program.c"), program(interface)).expect("writable");
    let mut link = Command::new("gcc");
    link.current_dir(&folder).arg("-I").arg(interface.include()).args([
        "-DCUDNN_SHIM_NO_CUDA_HEADERS",
        "-o",
        "program",
    ]);
    run(link.args(["program.c", "-L.", "-lcudnn"]));
    let ours = scratch(&format!("relink-ours-{interface:?}"));
    std::fs::hard_link(library(interface), ours.join(interface.soname())).expect("writable");
    let start = |path: &Path, now: bool| {
        let mut command = Command::new(folder.join("program"));
        command.env("LD_LIBRARY_PATH", path).env("CUDNN_SHIM_BACKEND", "cpu").env_remove("LD_BIND_NOW");
        if now {
            command.env("LD_BIND_NOW", "1");
        }
        command.output().expect("the program starts")
    };
    // The stand-in itself fails the program, so what passes below was answered by our library.
    assert_eq!(start(&folder, false).status.code(), Some(1));
    let unversioned = start(&folder.join("unversioned"), false);
    assert!(String::from_utf8_lossy(&unversioned.stderr).contains("no version information available"));
    for now in [false, true] {
        let output = start(&ours, now);
        let (said, printed) =
            (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        assert_eq!(said, "", "{interface:?} LD_BIND_NOW={now}");
        let count = if interface == Interface::Nine { 239 } else { 268 };
        assert_eq!(printed, format!("{count} 1 CUDNN_STATUS_BAD_PARAM\n"));
        assert!(output.status.success());
    }
}
