//! Every stub, called from C: NOT_SUPPORTED with a sentence that names the call once and the list
//! that it is in, BAD_PARAM without a live handle; and everything else, which answers otherwise.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::common::catalogue::stubs;
use crate::interface::{BOTH, Interface};

/// What both programs begin with: a live handle, one that is destroyed, and the judges of an
/// answer.
const PROLOGUE: &str = r#"
#include "cudnn.h"
#include <stdio.h>
#include <string.h>
#if CUDNN_MAJOR >= 9
#define last_error cudnnGetLastErrorString
#else
/* Version 8 tells of errors through the callback alone. */
static char told[512];
static void listen(cudnnSeverity_t severity, void *data, const cudnnDebug_t *call, const char *text) {
    (void)data, (void)call;
    if (severity == CUDNN_SEV_ERROR) snprintf(told, sizeof told, "%s", text);
}
static void last_error(char *message, size_t size) {
    snprintf(message, size, "%s", told);
    told[0] = 0;
}
#endif
static cudnnHandle_t handle;
static int wrong;
static void expect(const char *name, cudnnStatus_t status, cudnnStatus_t expected) {
    char message[512];
    const char *found;
    last_error(message, sizeof message);
    found = strstr(message, name);
    /* Who is refused for no other reason is shown where it is listed. */
    if (status == CUDNN_STATUS_NOT_SUPPORTED && strstr(message, "as its row in MATRIX.md says") == 0) found = 0;
    if (status == expected && found != 0 && strstr(found + 1, name) == 0) return;
    printf("%s: %s \"%s\"\n", name, cudnnGetErrorString(status), message);
    wrong++;
}
static void built(const char *name) {
    char message[512];
    last_error(message, sizeof message);
    if (strstr(message, "not built yet") == 0) return;
    printf("%s is a stub: \"%s\"\n", name, message);
    wrong++;
}
int main(void) {
    cudnnHandle_t dead;
    (void)expect, (void)built;
#if CUDNN_MAJOR < 9
    cudnnSetCallback(0, 0, listen);
#endif
    if (cudnnCreate(&handle) || cudnnCreate(&dead) || cudnnDestroy(dead)) return 99;
"#;

/// Calls every stub with zeros: `handle` where it wants one, else 0. Prints a line for each wrong
/// answer. Also the names of those it calls.
fn program(interface: Interface) -> (String, BTreeSet<String>) {
    let stubs = stubs();
    let mut text = PROLOGUE.to_owned();
    let mut called = BTreeSet::new();
    for function in interface.functions().into_iter().chain(interface.restored()) {
        let name = &function.name;
        if !stubs.contains(name) {
            continue;
        }
        called.insert(name.clone());
        let takes = |parameter: &str| function.parameters.split("; ").any(|p| p.contains(parameter));
        let mut expect = |handle: &str, groups: &str, status: &str| {
            let argument = |parameter: &str| {
                if parameter.contains("cudnnHandle_t handle") {
                    handle
                } else if parameter.contains("int groupCnt") {
                    groups
                } else {
                    "0"
                }
            };
            let arguments = function.parameters.split("; ").map(argument).collect::<Vec<_>>().join(", ");
            writeln!(text, "    expect(\"{name}\", {name}({arguments}), CUDNN_STATUS_{status});").unwrap();
        };
        expect("handle", "1", "NOT_SUPPORTED");
        if takes("cudnnHandle_t handle") {
            for lost in ["0", "dead", "(cudnnHandle_t)16"] {
                expect(lost, "1", "BAD_PARAM");
                // The number of groups is looked at before the handle.
                if takes("int groupCnt") {
                    ["0", "2", "-1"].into_iter().for_each(|groups| expect(lost, groups, "NOT_SUPPORTED"));
                }
            }
        }
    }
    for row in interface.symbols().rows().filter(|row| !row.is("declared")) {
        let name = row.get("symbol");
        writeln!(text, "    extern cudnnStatus_t {name}(void);").unwrap();
        writeln!(text, "    expect(\"{name}\", {name}(), CUDNN_STATUS_NOT_SUPPORTED);").unwrap();
        called.insert(name.to_owned());
    }
    (text + "    return wrong != 0;\n}\n", called)
}

/// Calls everything that is built, with zeros but for `handle`, and prints a line for each that
/// answers as a stub does.
fn program_of_the_built(interface: Interface) -> String {
    let stubs = stubs();
    let mut text = PROLOGUE.to_owned();
    for function in interface.functions().into_iter().chain(interface.restored()) {
        let name = &function.name;
        // The handle is still needed; what has told of errors before is cleared by the next of
        // them.
        if stubs.contains(name) || name == "cudnnDestroy" || name == "cudnnSetCallback" {
            continue;
        }
        let argument = |parameter: &str| {
            if parameter == "void" {
                ""
            } else if parameter.contains("cudnnHandle_t handle") {
                "handle"
            } else if parameter.starts_with("cudnnAlgorithm_t a") {
                "(cudnnAlgorithm_t){0}"
            } else {
                "0"
            }
        };
        let arguments = function.parameters.split("; ").map(argument).collect::<Vec<_>>().join(", ");
        writeln!(text, "    (void){name}({arguments});\n    built(\"{name}\");").unwrap();
    }
    text + "    return wrong != 0;\n}\n"
}

/// Everything that this version exports.
fn exported(interface: Interface) -> BTreeSet<String> {
    let table = interface.symbols();
    let original = table.rows().map(|row| row.get("symbol").to_owned());
    original.chain(interface.restored().into_iter().map(|function| function.name)).collect()
}

#[test]
fn every_stub_is_loud() {
    BOTH.into_iter().for_each(stubs_are_loud);
}

fn stubs_are_loud(interface: Interface) {
    let folder = super::scratch(&format!("stubs-{interface:?}"));
    let (source, called) = program(interface);
    // Version 9 has them all; version 8 those that its table lists.
    let mut expected = stubs();
    if interface == Interface::Eight {
        let exported = exported(interface);
        expected.retain(|name| exported.contains(name));
    }
    assert_eq!(called, expected, "{interface:?}");
    // As many when this was written; a call leaves the list when it is built, none is ever added.
    let most = if interface == Interface::Nine { 78 } else { 65 };
    assert!((1..=most).contains(&called.len()), "{interface:?}: {} stubs", called.len());
    run_program(interface, &folder, &source);
}

#[test]
fn what_is_built_is_no_stub() {
    for interface in BOTH {
        let folder = super::scratch(&format!("built-{interface:?}"));
        run_program(interface, &folder, &program_of_the_built(interface));
    }
}

/// Compiles a program, links it against the library and runs it.
fn run_program(interface: Interface, folder: &Path, source: &str) {
    std::fs::write(folder.join("program.c"), source).expect("writable");
    std::fs::hard_link(super::library(interface), folder.join(interface.soname())).expect("writable");
    let mut link = Command::new("gcc");
    link.current_dir(folder).arg("-I").arg(interface.include()).args([
        "-DCUDNN_SHIM_NO_CUDA_HEADERS",
        "-o",
        "program",
    ]);
    super::run(link.args(["program.c", interface.soname()]));
    let output = Command::new(folder.join("program"))
        .env("LD_LIBRARY_PATH", folder)
        .env("CUDNN_SHIM_BACKEND", "cpu")
        .output()
        .expect("starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
