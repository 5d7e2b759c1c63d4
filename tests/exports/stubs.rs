//! Every stub, called from C: NOT_SUPPORTED with a sentence that names the call, BAD_PARAM without a live handle.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::table::Table;

/// Whether the call is defined under `src/capi/stub/`.
fn stub_sources() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/capi/stub");
    let files = std::fs::read_dir(folder).expect("the folder of stubs exists");
    files.map(|file| std::fs::read_to_string(file.expect("readable").path()).expect("readable")).collect()
}

/// Calls every stub with zeros: `handle` where it wants one, else 0. Prints a line for each wrong answer.
fn program() -> (String, usize) {
    let sources = stub_sources();
    let mut text = r#"
#include "cudnn.h"
#include <stdio.h>
#include <string.h>
static cudnnHandle_t handle;
static int wrong;
static void expect(const char *name, cudnnStatus_t status, cudnnStatus_t expected) {
    char message[512];
    cudnnGetLastErrorString(message, sizeof message);
    if (status == expected && strstr(message, name) != 0) return;
    printf("%s: %s \"%s\"\n", name, cudnnGetErrorString(status), message);
    wrong++;
}
int main(void) {
    cudnnHandle_t dead;
    if (cudnnCreate(&handle) || cudnnCreate(&dead) || cudnnDestroy(dead)) return 99;
"#
    .to_owned();
    let mut count = 0;
    for row in Table::read("functions").rows() {
        let name = row.get("name");
        if !sources.contains(&format!(" fn {name}(")) {
            continue;
        }
        count += 1;
        let call = |handle: &str| {
            let argument =
                |parameter: &str| if parameter.contains("cudnnHandle_t handle") { handle } else { "0" };
            row.get("parameters").split("; ").map(argument).collect::<Vec<_>>().join(", ")
        };
        let live = call("handle");
        writeln!(text, "    expect(\"{name}\", {name}({live}), CUDNN_STATUS_NOT_SUPPORTED);").unwrap();
        if live.contains("handle") {
            for lost in ["0", "dead", "(cudnnHandle_t)16"] {
                writeln!(text, "    expect(\"{name}\", {name}({}), CUDNN_STATUS_BAD_PARAM);", call(lost))
                    .unwrap();
            }
        }
    }
    for row in Table::read("symbols").rows().filter(|row| !row.is("declared")) {
        let name = row.get("symbol");
        writeln!(text, "    extern cudnnStatus_t {name}(void);").unwrap();
        writeln!(text, "    expect(\"{name}\", {name}(), CUDNN_STATUS_NOT_SUPPORTED);").unwrap();
        count += 1;
    }
    (text + "    return wrong != 0;\n}\n", count)
}

#[test]
fn every_stub_is_loud() {
    let library = super::library();
    let folder = super::scratch("stubs");
    let (source, count) = program();
    // 205 when this was written; a call leaves the folder when it is built, none is ever added.
    assert!(count <= 205, "{count} stubs");
    std::fs::write(folder.join("program.c"), source).expect("writable");
    std::fs::copy(&library, folder.join(super::SONAME)).expect("writable");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut link = Command::new("gcc");
    link.current_dir(&folder).arg("-I").arg(include).args(["-DCUDNN_SHIM_NO_CUDA_HEADERS", "-o", "program"]);
    super::run(link.args(["program.c", super::SONAME]));
    let output =
        Command::new(folder.join("program")).env("LD_LIBRARY_PATH", &folder).output().expect("starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
