//! The program of the demo that trains on handwritten digits: what it learns depends on nothing but
//! its input, and what it cannot read or write it says in one line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::common;

struct Setting {
    scratch: PathBuf,
    lib: PathBuf,
    program: PathBuf,
}

/// The program, compiled by the first test that needs it.
fn setting() -> Option<&'static Setting> {
    static SETTING: OnceLock<Option<Setting>> = OnceLock::new();
    SETTING
        .get_or_init(|| {
            let scratch = common::scratch_dir("digits");
            let (lib, program) = (common::install_layout(&scratch), scratch.join("digits"));
            let sources = [common::project_root().join("demo/digits.c")];
            common::compiled("gcc", &["-std=c99", "-lm"], &sources, &lib, &program)?;
            Some(Setting { scratch, lib, program })
        })
        .as_ref()
}

fn data() -> PathBuf {
    common::project_root().join("demo/digits.dat")
}

impl Setting {
    fn run(&self, arguments: &[&Path], threads: &str) -> Output {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("LD_LIBRARY_PATH", &self.lib);
        command.env("CUDNN_SHIM_BACKEND", "cpu").env("CUDNN_SHIM_NUM_THREADS", threads);
        command.output().expect("the program starts")
    }
}

#[test]
fn the_same_weights_for_any_number_of_threads() {
    let Some(setting) = setting() else { return };
    let last = |threads: &str| {
        let output = setting.run(&["--steps".as_ref(), "5".as_ref(), &data()], threads);
        assert!(output.status.success(), "{}", common::printed(&output));
        String::from_utf8_lossy(&output.stdout).lines().last().expect("a line").to_owned()
    };
    let want = last("1");
    assert!(want.starts_with("digits: ") && want.contains(" of 360 right, weights "), "{want}");
    for threads in ["1", "2", "3", "8"] {
        assert_eq!(last(threads), want, "{threads} threads");
    }
}

#[test]
fn the_picture_is_a_png_that_appears_whole() {
    let Some(setting) = setting() else { return };
    let png = setting.scratch.join("digits.png");
    let output = setting.run(&["--steps".as_ref(), "1".as_ref(), &data(), &png], "2");
    assert!(output.status.success(), "{}", common::printed(&output));
    let bytes = fs::read(&png).expect("a picture");
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.ends_with(b"IEND\xaeB\x60\x82"));
    assert!(!setting.scratch.join("digits.png.part").exists());
}

#[test]
fn bad_input_is_one_line_and_exit_code_2() {
    let Some(setting) = setting() else { return };
    let whole = fs::read(data()).expect("the digits");
    let file = |name: &str, bytes: &[u8]| {
        let path = setting.scratch.join(name);
        fs::write(&path, bytes).expect("a file");
        path
    };
    let mut label = whole.clone();
    label[16] = 10;
    let nowhere = setting.scratch.join("no/such/folder/digits.png");
    for (arguments, says) in [
        (vec![setting.scratch.join("missing.dat")], "cannot be opened"),
        (vec![file("short.dat", &whole[..whole.len() - 1])], "ends early"),
        (vec![file("long.dat", &[&whole[..], b"x"].concat())], "longer"),
        (vec![file("foreign.dat", b"P6 8 8 255 and so on and on")], "not a file of digits"),
        (vec![file("label.dat", &label)], "a label is no digit"),
        (vec![], "usage"),
        (vec!["--steps".into(), "1".into(), data(), nowhere], "cannot be written"),
    ] {
        let paths: Vec<&Path> = arguments.iter().map(PathBuf::as_path).collect();
        let output = setting.run(&paths, "2");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{paths:?}: {said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{paths:?}: {said}");
    }
}
