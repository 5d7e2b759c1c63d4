//! Where `CUDNN_SHIM_ORIGINAL=auto` finds an original: places that hold the double, one at a time.

use std::fs;
use std::path::{Path, PathBuf};

use crate::double::{Setting, setting};

/// Whether the double was asked for something that only an original that was found is.
fn is_found(setting: &Setting, variables: &[(&str, PathBuf)]) -> bool {
    let mut command = setting.command(&setting.program("layers.c"), Path::new("auto"));
    command.env("CUDNN_SHIM_ROUTE", "all=original").env("HOME", &setting.scratch);
    command.env_remove("CONDA_PREFIX").env_remove("VIRTUAL_ENV").envs(variables.iter().cloned());
    setting.counted(&mut command, "auto").0.contains_key("cudnnLRNCrossChannelForward")
}

#[test]
fn auto_takes_the_next_library_of_the_name() {
    let Some(setting) = setting() else { return };
    let prefix = |name: &str, below: &str| {
        let prefix = setting.scratch.join(name);
        let folder = prefix.join(below);
        fs::create_dir_all(&folder).expect("a scratch folder");
        fs::copy(setting.whole().join("libcudnn.so.9"), folder.join("libcudnn.so.9")).expect("writable");
        prefix
    };
    // Behind ours, which the loader's path begins with, and which is none.
    let path = std::env::join_paths([setting.lib.as_path(), setting.whole()]).expect("no colons");
    assert!(is_found(setting, &[("LD_LIBRARY_PATH", path.into())]));
    if is_found(setting, &[]) || Path::new("/usr/lib/x86_64-linux-gnu/libcudnn.so.9").exists() {
        println!("skipped: places behind the folders of this system, which has an original");
        return;
    }
    assert!(is_found(setting, &[("CONDA_PREFIX", prefix("conda", "lib"))]));
    let package = "lib/python3.11/site-packages/nvidia/cudnn/lib";
    assert!(is_found(setting, &[("VIRTUAL_ENV", prefix("python", package))]));
    assert!(is_found(setting, &[("CONDA_PREFIX", setting.scratch.join("python"))]));
    // A folder of Python that is none.
    assert!(!is_found(setting, &[("VIRTUAL_ENV", prefix("other", "lib/ruby3/nvidia/cudnn/lib"))]));
}
