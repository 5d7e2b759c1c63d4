//! Every stub, called from C: NOT_SUPPORTED with a sentence that names the call once, BAD_PARAM without a live handle.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::interface::{BOTH, Interface};

/// The calls that are defined under `src/capi/stub/`, of either version.
fn stubs() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/capi/stub");
    let mut names = BTreeSet::new();
    for file in std::fs::read_dir(folder).expect("the folder of stubs exists") {
        let text = std::fs::read_to_string(file.expect("readable").path()).expect("readable");
        let definitions = text.split(" extern \"C\" fn ").skip(1);
        names.extend(definitions.map(|rest| rest.split('(').next().unwrap_or_default().to_owned()));
    }
    names
}

/// Calls every stub with zeros: `handle` where it wants one, else 0. Prints a line for each wrong answer. Also the names
/// of those it calls.
fn program(interface: Interface) -> (String, BTreeSet<String>) {
    let stubs = stubs();
    let mut text = r#"
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
    if (status == expected && found != 0 && strstr(found + 1, name) == 0) return;
    printf("%s: %s \"%s\"\n", name, cudnnGetErrorString(status), message);
    wrong++;
}
int main(void) {
    cudnnHandle_t dead;
#if CUDNN_MAJOR < 9
    cudnnSetCallback(0, 0, listen);
#endif
    if (cudnnCreate(&handle) || cudnnCreate(&dead) || cudnnDestroy(dead)) return 99;
"#
    .to_owned();
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
    // As many when this was written; a call leaves the folder when it is built, none is ever added.
    let most = if interface == Interface::Nine { 154 } else { 138 };
    assert!((1..=most).contains(&called.len()), "{interface:?}: {} stubs", called.len());
    std::fs::write(folder.join("program.c"), source).expect("writable");
    std::fs::copy(super::library(interface), folder.join(interface.soname())).expect("writable");
    let mut link = Command::new("gcc");
    link.current_dir(&folder).arg("-I").arg(interface.include()).args([
        "-DCUDNN_SHIM_NO_CUDA_HEADERS",
        "-o",
        "program",
    ]);
    super::run(link.args(["program.c", interface.soname()]));
    let output =
        Command::new(folder.join("program")).env("LD_LIBRARY_PATH", &folder).output().expect("starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
