//! `doctor`, completions and the man page.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::{folder, says, tool};

#[test]
fn doctor_tells_about_this_machine() {
    let output = tool()
        .args(["doctor", "--json"])
        .envs([("CUDNN_SHIM_BACKEND", "cpu"), ("CUDNN_SHIM_NUM_THREADS", "3"), ("CUDNN_PLUGIN", "x")])
        .output()
        .expect("the tool starts");
    let facts: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&facts["core"], &facts["threads"], &facts["version"]),
        (&"cpu".into(), &3.into(), &92700.into())
    );
    let read: Vec<&str> =
        facts["environment_read"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert!(
        read.contains(&"CUDNN_SHIM_BACKEND=cpu") && read.contains(&"CUDNN_SHIM_NUM_THREADS=3"),
        "{read:?}"
    );
    assert_eq!(facts["environment_ignored"][0], "CUDNN_PLUGIN: not read by this library");
    let output =
        tool().args(["doctor"]).env("CUDNN_SHIM_BACKEND", "wrong").output().expect("the tool starts");
    assert!(String::from_utf8_lossy(&output.stdout).contains("cudnnCreate fails"));
}

#[test]
fn doctor_reads_programs() {
    let folder = folder("doctor");
    let compile = |arguments: &[&str]| {
        let output = Command::new("gcc").current_dir(&folder).args(arguments).output().expect("gcc starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    // Stands in for a library, and a program that needs one built call, one that nobody has, and the version.
    let library = "int cudnnCreate() { return 1; } int cudnnNever() { return 1; } int cudnnGetVersion() { return 1; }\n";
    fs::write(folder.join("library.c"), library).expect("writable");
    let program = "int cudnnCreate(); int cudnnNever(); int cudnnGetVersion();\n\
                   int main() { return cudnnCreate() + cudnnNever() + cudnnGetVersion(); }\n";
    fs::write(folder.join("program.c"), program).expect("writable");
    compile(&["-w", "-shared", "-fPIC", "library.c", "-Wl,-soname,libcudnn.so.9", "-o", "libcudnn.so.9"]);
    compile(&["-w", "program.c", "./libcudnn.so.9", "-Wl,-rpath,$ORIGIN", "-o", "program"]);
    let program = folder.join("program");
    let facts: Value =
        serde_json::from_str(&says(&["doctor", "--json", program.to_str().expect("UTF-8")])).expect("JSON");
    assert_eq!(facts["asks_for"][0], "libcudnn.so.9");
    assert_eq!(facts["symbols"], 3);
    let loads = facts["would_load"][0].as_str().expect("text");
    assert!(loads.contains("libcudnn.so.9 (not cudnn-shim)"), "{loads}");
    assert_eq!(facts["symbols_wanting"][0], "cudnnNever: missing: the program will not start");
    assert_eq!(facts["symbols_wanting"].as_array().map(Vec::len), Some(1));
    assert!(facts["version_check"].as_str().is_some_and(|text| text.contains("92700")));
    fs::remove_file(folder.join("libcudnn.so.9")).expect("removable");
    let text = says(&["doctor", program.to_str().expect("UTF-8")]);
    assert!(text.contains("libcudnn.so.9"), "{text}");
    // A program without cuDNN.
    let text = says(&["doctor", env!("CARGO_BIN_EXE_cudnn-shim")]);
    assert!(text.contains("asks for no libcudnn"), "{text}");
}

#[test]
fn shells_get_completions_and_readers_a_page() {
    for shell in ["bash", "zsh", "fish"] {
        let text = says(&["completions", shell]);
        assert!(
            ["explain", "transform", "doctor", "pad-channels"].iter().all(|word| text.contains(word)),
            "{shell}"
        );
    }
    let page = says(&["man"]);
    assert!(
        page.contains(".TH cudnn-shim 1") && page.contains("pad\\-channels") && page.contains("svg"),
        "{page}"
    );
    // Every option has a sentence.
    for command in ["explain", "transform", "doctor"] {
        assert!(says(&[command, "--help"]).contains("Usage: cudnn-shim"), "{command}");
    }
}
