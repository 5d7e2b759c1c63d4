//! Installing, failing, moving and removing.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::files;
use crate::installed::{profile, run, scratch, xtask};

/// The task with `--prefix`, of the profile that the tests have.
fn task(name: &str, prefix: &Path) -> Command {
    let mut command = xtask(&[name, "--prefix"]);
    command.arg(prefix).args(profile());
    command
}

/// What a task says that has to fail.
fn refusal(command: &mut Command) -> String {
    let output = command.output().expect("cargo starts");
    assert!(!output.status.success(), "{command:?} succeeds");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether a file of an installation is no text.
fn is_binary(file: &str) -> bool {
    file.contains(".so") || file.ends_with(".a") || file.starts_with("bin/")
}

#[test]
fn destdir_moves_the_tree_and_uninstall_takes_it_away() {
    let destdir = scratch("destdir");
    let run_with = |task: &str| {
        let mut command = xtask(&[task, "--prefix", "/opt/nn"]);
        run(command.args(profile()).env("DESTDIR", &destdir));
    };
    run_with("install");
    let root = destdir.join("opt/nn");
    let installed = files(&root);
    let licences =
        ["LICENSE-APACHE", "LICENSE-MIT", "NOTICES.txt"].map(|name| format!("share/doc/cudnn-shim/{name}"));
    let others = ["lib/libcudnn.so.9", "bin/cudnn-shim", "share/man/man1/cudnn-shim.1"];
    for file in licences.iter().map(String::as_str).chain(others) {
        assert!(installed.contains(file), "{file} is missing");
    }
    // What is written says nothing of DESTDIR.
    for file in installed.iter().filter(|file| !is_binary(file)) {
        let text = fs::read_to_string(root.join(file)).expect("text");
        assert!(!text.contains(destdir.to_str().expect("UTF-8")), "{file}");
    }
    // A second installation replaces the first; a stranger's file survives the removal.
    run_with("install");
    fs::write(root.join("include/stranger.h"), "").expect("writable");
    run_with("uninstall");
    assert_eq!(files(&root), BTreeSet::from(["include/stranger.h".to_owned()]));
    assert!(!root.join("lib").exists(), "an empty folder stays behind");
    // Nor does the way to the prefix, once nothing is there.
    fs::remove_dir_all(&root).expect("removable");
    run_with("install");
    run_with("uninstall");
    assert_eq!(fs::read_dir(&destdir).expect("the stage stays").count(), 0, "an empty folder stays behind");
}

#[test]
fn no_place_is_taken_unasked() {
    for name in ["install", "uninstall"] {
        assert!(refusal(&mut xtask(&[name])).contains("--prefix DIR"));
    }
}

#[test]
fn modes_do_not_follow_the_umask() {
    let prefix = scratch("modes").join("new/prefix");
    let install = task("install", &prefix);
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 077 && exec \"$@\"", "sh"]).arg(install.get_program()).args(install.get_args());
    run(shell.current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("DESTDIR"));
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    for file in files(&prefix) {
        let expected = if file.contains(".so") || file.starts_with("bin/") { 0o755 } else { 0o644 };
        assert_eq!(mode(&prefix.join(&file)), expected, "{file}");
        for folder in prefix.join(&file).ancestors().skip(1).take_while(|folder| folder.starts_with(&prefix))
        {
            assert_eq!(mode(folder), 0o755, "{}", folder.display());
        }
    }
}

#[test]
fn a_moved_tree_can_be_removed_and_the_folders_of_others_stay() {
    let parent = scratch("moved");
    let (first, second) = (parent.join("first"), parent.join("second"));
    fs::create_dir_all(first.join("lib")).expect("writable");
    run(&mut task("install", &first));
    fs::rename(&first, &second).expect("movable");
    // Another spelling of the place.
    run(&mut task("uninstall", &parent.join("./second/../second")));
    let left: Vec<PathBuf> =
        fs::read_dir(&second).expect("stays").map(|entry| entry.expect("readable").path()).collect();
    assert_eq!(left, [second.join("lib")]);
    assert_eq!(fs::read_dir(second.join("lib")).expect("stays").count(), 0);
    // A prefix that the installation made goes with it.
    let made = parent.join("made");
    run(&mut task("install", &made));
    run(&mut task("uninstall", &made));
    assert!(!made.exists());
}

#[test]
fn the_list_of_an_earlier_release_is_understood() {
    let prefix = scratch("earlier");
    fs::create_dir_all(prefix.join("lib/cudnn-shim")).expect("writable");
    let paths = ["include.h", "lib/cudnn-shim/install_manifest_v9.txt"];
    let list: String = paths.iter().map(|path| format!("/where/it/was/{path}\n")).collect();
    fs::write(prefix.join("include.h"), "").expect("writable");
    fs::write(prefix.join(paths[1]), list).expect("writable");
    run(&mut task("uninstall", &prefix));
    assert_eq!(files(&prefix), BTreeSet::new());
    assert!(refusal(&mut task("uninstall", &prefix)).contains("nothing is installed there"));
}

#[test]
fn what_a_failed_installation_left_can_be_removed() {
    let prefix = scratch("failed");
    fs::write(prefix.join("include"), "a file where the headers' folder should be").expect("writable");
    assert!(refusal(&mut task("install", &prefix)).contains("uninstall"));
    assert!(prefix.join("lib/libcudnn.so.9").exists(), "the installation failed too early for this test");
    run(&mut task("uninstall", &prefix));
    assert_eq!(files(&prefix), BTreeSet::from(["include".to_owned()]));
    assert!(!prefix.join("lib").exists());
}

#[test]
fn the_other_version_is_not_overwritten() {
    let prefix = scratch("beside");
    fs::create_dir_all(prefix.join("lib/cudnn-shim")).expect("writable");
    fs::write(prefix.join("lib/cudnn-shim/install_manifest_v8.txt"), "").expect("writable");
    let said = refusal(&mut task("install", &prefix));
    assert!(said.contains("another --prefix") && said.contains("uninstall --api 8"), "{said}");
    assert_eq!(files(&prefix).len(), 1, "something is written");
}

#[test]
fn the_compiler_may_have_arguments() {
    let prefix = scratch("compiler");
    run(task("install", &prefix).env("CC", "gcc -g"));
    assert!(prefix.join("lib/libcudnn.so.9").exists());
}
