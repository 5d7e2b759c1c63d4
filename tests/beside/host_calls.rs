//! Calls that need no device: `c_tests/beside/host_calls.c` makes all of them, on the library and
//! on an original beside it, and both answer the same.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common;
use crate::double::{Setting, setting, symbols};
use crate::real::{originals, taking_driver};

/// Calls without a handle or a stream that are not made, each with its reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("cudnnGetBackdoor", "declared nowhere"),
    ("cudnnGetRNNDropoutLocationsInternal", "declared nowhere"),
    ("cudnnSetBackdoor", "declared nowhere"),
    ("cudnnSetBackdoorEx", "declared nowhere"),
];

/// The calls of version 9 whose parameters a device has to do with.
fn calls_with_a_device() -> BTreeSet<String> {
    let table = common::project_root().join("tests/data/abi/functions.tsv");
    let text = fs::read_to_string(table).expect("the table of functions");
    let has_one = |line: &&str| ["cudnnHandle_t ", "cudaStream_t "].iter().any(|part| line.contains(part));
    text.lines().filter(has_one).filter_map(|line| Some(line.split('\t').next()?.to_owned())).collect()
}

/// What one of both has answered: the calls by their names, each with its line.
fn answers(text: &str, who: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(who)?.strip_prefix(' '));
    lines.map(|line| (line.split(' ').next().unwrap_or_default().to_owned(), line.to_owned())).collect()
}

/// Makes all calls beside the original in `file`, which has to answer as this library does; the
/// calls, and those that it lacks.
fn made_beside(setting: &Setting, file: &Path, libraries: &OsStr) -> [BTreeSet<String>; 2] {
    let program = setting.program("beside/host_calls.c");
    let mut command: Command = setting.command(&program, file);
    let paths = std::env::split_paths(libraries).collect::<Vec<_>>();
    let path = std::env::join_paths(std::iter::once(setting.lib.clone()).chain(paths)).expect("no colons");
    let (_, output) = setting.counted(command.env("LD_LIBRARY_PATH", path).arg(file), "host_calls");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (ours, theirs) = (answers(&text, "ours"), answers(&text, "original"));
    assert_eq!(ours.len(), theirs.len(), "{text}");
    let (mut made, mut lacking) = (BTreeSet::new(), BTreeSet::new());
    for ((name, own), (_, their)) in ours.into_iter().zip(theirs) {
        if their == format!("{name} lacking") || their.starts_with(&format!("{name} lacking ")) {
            lacking.insert(name);
        } else {
            assert_eq!(own, their, "{}", file.display());
            made.insert(name);
        }
    }
    [made, lacking]
}

#[test]
fn every_call_without_a_device_is_made_beside_the_original() {
    let Some(setting) = setting() else { return };
    let [made, lacking] = made_beside(setting, &setting.whole().join("libcudnn.so.9"), OsStr::new(""));
    assert_eq!(lacking, BTreeSet::new());
    let with_a_device = calls_with_a_device();
    let mut left: BTreeSet<String> =
        symbols().into_iter().filter(|name| !made.contains(name) && !with_a_device.contains(name)).collect();
    for (name, reason) in LEFT_OUT {
        assert!(left.remove(*name), "{name} is made, and left out since: {reason}");
    }
    assert!(left.is_empty(), "neither made nor left out: {left:?}");
    assert_eq!(made.len(), 129, "calls without a device");
}

#[test]
fn the_real_original_answers_calls_without_a_device_as_this_library_does() {
    let Some(setting) = setting() else { return };
    for original in originals() {
        let driver = taking_driver(setting);
        let [made, lacking] = made_beside(setting, &original.file(), driver.as_os_str());
        let own = original.symbols();
        let missing: Vec<_> = lacking.iter().filter(|name| own.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(made.len() > 100, "{made:?}");
    }
}
