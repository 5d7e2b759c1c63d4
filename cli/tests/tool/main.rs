//! The tool as its users start it.

mod docs;
mod explain;
mod memory;
mod programs;
mod refusals;
mod transform;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The tool, in a plain environment.
pub fn tool() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-shim"));
    command.env("NO_COLOR", "1").env("LC_ALL", "C");
    command
}

/// What it prints for these arguments; it has to succeed quietly.
pub fn says<S: AsRef<OsStr>>(arguments: &[S]) -> String {
    let output = tool().args(arguments).output().expect("the tool starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{:?}\n{said}", output.status);
    String::from_utf8(output.stdout).expect("it prints UTF-8")
}

/// The one line with which it refuses.
pub fn refuses(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 1 && lines[0].starts_with("cudnn-shim: "), "{said}");
    lines[0]["cudnn-shim: ".len()..].to_owned()
}

/// An empty folder of this name.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the target's scratch folder is writable");
    folder
}

/// A .npy file as NumPy writes it: version 1, an header of a multiple of 64 bytes.
pub fn npy(descr: &str, fortran: bool, shape: &[i64], data: &[u8]) -> Vec<u8> {
    let shape: String = shape.iter().map(|extent| format!("{extent},")).collect();
    let order = if fortran { "True" } else { "False" };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({shape}), }}");
    while !(10 + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((text.len() as u16).to_le_bytes());
    file.extend(text.bytes());
    file.extend(data);
    file
}

/// Shape text and data of a .npy file of version 1.
pub fn parts(file: &[u8]) -> (String, Vec<u8>) {
    assert!(file.starts_with(b"\x93NUMPY\x01"));
    let end = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
    (String::from_utf8_lossy(&file[10..end]).trim().to_owned(), file[end..].to_vec())
}

/// Compares with a committed file; `UPDATE_SNAPSHOTS=1` writes it instead, for somebody to look at.
pub fn snapshot(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(file);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).expect("writable");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "{file} is no longer what the tool prints:\n{text}");
}
