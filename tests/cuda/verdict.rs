//! A missing, old, broken or incomplete driver ends in a CPU handle and one line in the log.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::api::{self, NOT_INITIALIZED, SUCCESS};
use crate::{child, common};

/// The error codes that a healthy driver knows; everything else is unknown to it.
const NAMES: &str = "int cuGetErrorName(int code, const char **name) {\n\
    *name = code == 100 ? \"CUDA_ERROR_NO_DEVICE\" : 0;\n    return *name == 0;\n}\n";

/// A driver of a few lines of C, built into a directory of its own.
fn fake_driver(name: &str, source: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda_verdict").join(name);
    if child::is_one() {
        return dir;
    }
    let dir = common::scratch_dir(&format!("cuda_verdict/{name}"));
    let file = dir.join("driver.c");
    fs::write(&file, source).expect("source of the driver");
    let cc = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(cc)
        .args(["-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", "-o"])
        .args([&dir.join("libcuda.so.1"), &file])
        .status()
        .expect("a C compiler is needed: apt-get install gcc");
    assert!(status.success(), "the driver {name} was not built");
    dir
}

/// A driver with all symbols that the library asks for, less `missing`; all return 0 and do
/// nothing, but those that `source` defines, and that of its version, which is new enough.
pub fn complete_driver(name: &str, source: &str, missing: &str) -> PathBuf {
    let mut text = source.to_owned();
    for symbol in cudnn::backend::cuda::symbols() {
        if symbol == missing || source.contains(&format!("int {symbol}(")) {
            continue;
        }
        if symbol == "cuDriverGetVersion" {
            text += "int cuDriverGetVersion(int *v) { *v = 12000; return 0; }\n";
        } else {
            writeln!(text, "int {symbol}() {{ return 0; }}").expect("a string grows");
        }
    }
    fake_driver(name, &text)
}

/// Expects a CPU handle with `reason` in the log exactly once, and the same reason where the CUDA
/// core is asked for.
pub fn expect_no_cuda(libraries: &Path, reason: &str) {
    let log = [("CUDNN_LOGLEVEL_DBG", "3"), ("CUDNN_LOGDEST_DBG", "stderr")];
    // The verdict on the driver stands for the whole process, so that either question needs one of
    // its own.
    let ask = |variables: &[(&str, &str)]| {
        let output = child::start(libraries, variables, || match env::var("CUDNN_SHIM_BACKEND") {
            Ok(_) => {
                let (status, text) = api::create().expect_err("there is no CUDA core");
                assert_eq!(status, NOT_INITIALIZED, "{text}");
                println!("refusal: {text}");
            }
            Err(_) => {
                let handle = api::create().expect("a CPU handle");
                // SAFETY: the handle is alive.
                unsafe { assert_eq!(api::cudnnDestroy(handle), SUCCESS) };
            }
        })?;
        let text = child::text(&output);
        assert!(output.status.success(), "{text}");
        Some(text)
    };
    let Some(text) = ask(&log) else { return };
    let cores: Vec<&str> = text.lines().filter(|line| line.contains("cudnnCreate: core: ")).collect();
    assert_eq!(cores.len(), 1, "{text}");
    assert!(cores[0].contains("core: cpu") && cores[0].contains(reason), "{}", cores[0]);
    let Some(text) = ask(&[("CUDNN_SHIM_BACKEND", "cuda")]) else { return };
    let refusal = text.lines().find(|line| line.contains("refusal: ")).expect("the refusal");
    assert!(refusal.contains(reason), "{refusal}");
}

#[test]
fn no_driver() {
    expect_no_cuda(&fake_driver_of_another_name(), "no CUDA driver (libcuda.so.1");
}

/// A directory without `libcuda.so.1`, but with a `libcuda.so` for linking, which must not be taken
/// for one.
fn fake_driver_of_another_name() -> PathBuf {
    let dir = complete_driver("stub", "int cuInit(unsigned f) { return 34; }\n", "");
    // In the child it is gone already.
    let _ = fs::rename(dir.join("libcuda.so.1"), dir.join("libcuda.so"));
    dir
}

#[test]
fn driver_with_cu_init_only() {
    let dir = fake_driver("cu_init_only", "int cuInit(unsigned f) { return 0; }\n");
    expect_no_cuda(&dir, "has no cuDriverGetVersion");
}

#[test]
fn driver_without_device() {
    let source = format!("{NAMES}int cuInit(unsigned f) {{ return 100; }}\n");
    let dir = complete_driver("no_device", &source, "");
    expect_no_cuda(&dir, "cuInit returned CUDA_ERROR_NO_DEVICE (100)");
}

#[test]
fn driver_that_counts_no_device() {
    let source = format!("{NAMES}int cuDeviceGetCount(int *n) {{ *n = 0; return 0; }}\n");
    expect_no_cuda(&complete_driver("zero_devices", &source, ""), "sees no device");
}

#[test]
fn driver_with_unknown_error_code() {
    let source = format!("{NAMES}int cuInit(unsigned f) {{ return 987654; }}\n");
    let dir = complete_driver("unknown_code", &source, "");
    expect_no_cuda(&dir, "cuInit returned an unknown error (987654)");
}

#[test]
fn driver_too_old() {
    let source = "int cuDriverGetVersion(int *v) { *v = 11080; return 0; }\n";
    let dir = complete_driver("old", source, "");
    expect_no_cuda(&dir, "the CUDA driver serves CUDA 11.8, at least 12.0 is needed");
}

/// Drivers before 12.0 lack symbols, too; that they are old says more.
#[test]
fn driver_too_old_for_a_symbol() {
    let source = "int cuDriverGetVersion(int *v) { *v = 11070; return 0; }\n";
    let dir = complete_driver("old_515", source, "cuCtxGetId");
    expect_no_cuda(&dir, "the CUDA driver serves CUDA 11.7, at least 12.0 is needed");
}

/// The warnings of a first handle, less what the machine gives rise to.
fn warnings(dir: &Path, variables: &[(&str, &str)]) -> Option<Vec<String>> {
    let mut all = vec![("CUDNN_LOGLEVEL_DBG", "2"), ("CUDNN_LOGDEST_DBG", "stderr")];
    all.extend(variables);
    let output = child::start(dir, &all, || {
        for _ in 0..2 {
            let handle = api::create().expect("a CPU handle");
            // SAFETY: the handle is alive.
            unsafe { assert_eq!(api::cudnnDestroy(handle), SUCCESS) };
        }
    })?;
    let text = child::text(&output);
    assert!(output.status.success(), "{text}");
    Some(text.lines().filter(|line| line.contains("the CPU core, for")).map(str::to_owned).collect())
}

#[test]
fn a_driver_that_fails_is_warned_of() {
    let source = format!("{NAMES}int cuInit(unsigned f) {{ return 999; }}\n");
    let failing = complete_driver("failing", &source, "");
    let Some(lines) = warnings(&failing, &[]) else { return };
    assert_eq!(lines.len(), 1, "once: {lines:?}");
    assert!(lines[0].contains("cuInit returned an unknown error (999)"), "{}", lines[0]);
    let asked_for = warnings(&failing, &[("CUDNN_SHIM_BACKEND", "cpu")]);
    assert_eq!(asked_for.expect("this is the parent"), [""; 0], "who asks for the CPU core is not warned");
}

#[test]
fn a_machine_without_a_device_is_not_warned_of() {
    let source = format!("{NAMES}int cuInit(unsigned f) {{ return 100; }}\n");
    let Some(lines) = warnings(&complete_driver("no_device_at_all", &source, ""), &[]) else { return };
    assert_eq!(lines, [""; 0]);
}

#[test]
fn driver_that_lacks_any_one_symbol() {
    // In a child the variable says which; the parent makes one child for each.
    if child::is_one() {
        return expect_no_cuda(Path::new(""), "");
    }
    for symbol in cudnn::backend::cuda::symbols() {
        let dir = complete_driver(&format!("without_{symbol}"), "", symbol);
        expect_no_cuda(&dir, &format!("the CUDA driver has no {symbol}"));
    }
}

#[test]
fn the_cpu_core_does_not_look_for_a_driver() {
    let source = "#include <stdlib.h>\n__attribute__((constructor)) static void init(void) { abort(); }\n";
    let dir = complete_driver("aborting", source, "");
    child::run(&dir, &[("CUDNN_SHIM_BACKEND", "cpu")], || {
        let handle = api::create().expect("a CPU handle");
        // SAFETY: the handle is alive.
        unsafe { assert_eq!(api::cudnnDestroy(handle), SUCCESS) };
    });
}

#[test]
fn the_library_links_nothing_of_cuda() {
    let output = Command::new("readelf").arg("-d").arg(common::library()).output();
    let Ok(output) = output else {
        println!("skipped: no readelf; install it: apt-get install binutils");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let known = ["libc.so", "libm.so", "libpthread.so", "libdl.so", "libgcc_s.so", "ld-linux"];
    let needed: Vec<&str> = text.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(!needed.is_empty(), "{text}");
    for line in needed {
        assert!(known.iter().any(|name| line.contains(name)), "{line}");
    }
}
