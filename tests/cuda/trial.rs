//! A driver that starts and sees a device is not believed before the device has worked: the first
//! handle of a process tries it.

use std::path::{Path, PathBuf};
use std::{ptr, thread, time::Duration};

use crate::api::{self, NOT_INITIALIZED};
use crate::child;
use crate::double::{self, count};
use crate::launch::{Transpose, current, destroy};
use crate::verdict::{complete_driver, expect_no_cuda};

/// A driver of host memory: it starts, sees a device, and does all that the trial asks of it, but
/// for what `lies` puts in the place of some entry points. Its kernel copies, as the one of the
/// trial does: the parameter begins with destination and source.
fn host_driver(name: &str, lies: &str) -> PathBuf {
    let truth = [
        ("cuInit", "(unsigned f) { return 0; }"),
        ("cuDeviceGetCount", "(int *n) { *n = 1; return 0; }"),
        ("cuGetErrorName", "(int code, const char **name) { *name = 0; return 1; }"),
        ("cuDeviceGetAttribute", "(int *v, unsigned a, int d) { *v = a == 75 ? 8 : 0; return 0; }"),
        ("cuDevicePrimaryCtxRetain", "(void **c, int d) { *c = &place; return 0; }"),
        ("cuCtxGetCurrent", "(void **c) { *c = context; return 0; }"),
        ("cuCtxPushCurrent_v2", "(void *c) { context = c; return 0; }"),
        ("cuCtxPopCurrent_v2", "(void **c) { *c = context; context = 0; return 0; }"),
        ("cuCtxGetId", "(void *c, unsigned long long *id) { *id = 1; return 0; }"),
        ("cuModuleGetFunction", "(void **f, void *m, const char *name) { *f = &place; return 0; }"),
        ("cuEventCreate", "(void **e, unsigned f) { *e = &place; return 0; }"),
        ("cuStreamCreate", "(void **s, unsigned f) { *s = &place; return 0; }"),
        ("cuMemAlloc_v2", "(char **a, unsigned long n) { *a = malloc(n); return 0; }"),
        ("cuMemFree_v2", "(char *a) { free(a); return 0; }"),
        (
            "cuMemcpyHtoDAsync_v2",
            "(char *d, char *s, unsigned long n, void *q) { memcpy(d, s, n); return 0; }",
        ),
        (
            "cuMemcpyDtoHAsync_v2",
            "(char *d, char *s, unsigned long n, void *q) { memcpy(d, s, n); return 0; }",
        ),
        (
            "cuLaunchKernel",
            "(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned s, void *q, \
             char ***p, void **x) { char **at = p[0]; memcpy(at[0], at[1], 64); return 0; }",
        ),
    ];
    let mut text =
        "#include <stdlib.h>\n#include <string.h>\nstatic char place; static void *context;\n".to_owned();
    for entry in ["cuEventDestroy_v2", "cuEventRecord", "cuEventSynchronize", "cuStreamDestroy_v2"] {
        if !lies.contains(&format!("int {entry}(")) {
            text += &format!("int {entry}() {{ return 0; }}\n");
        }
    }
    for (entry, body) in truth.iter().filter(|(entry, _)| !lies.contains(&format!("int {entry}("))) {
        text += &format!("int {entry}{body}\n");
    }
    complete_driver(name, &(text + lies), "")
}

/// The core of a first handle on this driver, and what is logged about it.
fn core(driver: &Path) -> Option<String> {
    let log = [("CUDNN_LOGLEVEL_DBG", "3"), ("CUDNN_LOGDEST_DBG", "stderr")];
    let output = child::start(driver, &log, || destroy(api::create().expect("a handle")))?;
    let text = child::text(&output);
    assert!(output.status.success(), "{text}");
    Some(text.lines().filter(|line| line.contains("cudnnCreate: core: ")).collect())
}

#[test]
fn a_driver_that_does_what_it_says_is_taken() {
    let Some(core) = core(&host_driver("true", "")) else { return };
    assert!(core.contains("core: cuda"), "{core}");
}

#[test]
fn a_driver_whose_calls_all_succeed_and_do_nothing() {
    let source = "int cuDeviceGetCount(int *n) { *n = 1; return 0; }\n";
    let rest = "int cuMemAlloc_v2() { return 0; } int cuMemFree_v2() { return 0; } int cuEventCreate() { return 0; }\n\
        int cuEventDestroy_v2() { return 0; } int cuEventRecord() { return 0; } int cuEventSynchronize() { return 0; }\n\
        int cuStreamCreate() { return 0; } int cuStreamDestroy_v2() { return 0; }\n\
        int cuMemcpyHtoDAsync_v2() { return 0; } int cuMemcpyDtoHAsync_v2() { return 0; }\n";
    let dir = complete_driver("does_nothing", &format!("{source}{rest}"), "");
    expect_no_cuda(&dir, "the device fails a first trial: bytes that are copied to it come back changed");
}

#[test]
fn a_driver_for_linking_only() {
    let source = "int cuDeviceGetCount(int *n) { *n = 1; return 0; }\n";
    expect_no_cuda(&complete_driver("no_memory_calls", source, ""), "the CUDA driver has no cuMemAlloc_v2");
}

#[test]
fn a_driver_without_a_context() {
    let dir = host_driver("no_context", "int cuDevicePrimaryCtxRetain() { return 46; }\n");
    expect_no_cuda(&dir, "trial: cuDevicePrimaryCtxRetain returned an unknown error (46)");
}

#[test]
fn a_driver_that_allocates_nothing() {
    let dir = host_driver("no_memory", "int cuMemAlloc_v2() { return 2; }\n");
    expect_no_cuda(&dir, "trial: cuMemAlloc returned an unknown error (2)");
}

#[test]
fn a_driver_that_loads_no_kernel() {
    let dir = host_driver("no_kernels", "int cuModuleLoadDataEx() { return 801; }\n");
    expect_no_cuda(&dir, "trial: cuModuleLoadDataEx returned an unknown error (801)");
}

#[test]
fn a_driver_that_starts_no_kernel() {
    let dir = host_driver("no_launch", "int cuLaunchKernel() { return 719; }\n");
    expect_no_cuda(&dir, "trial: cuLaunchKernel returned an unknown error (719)");
}

#[test]
fn a_kernel_that_fails_later() {
    let dir = host_driver("fails_later", "int cuEventSynchronize() { return 700; }\n");
    expect_no_cuda(&dir, "trial: cuEventSynchronize returned an unknown error (700)");
}

#[test]
fn a_kernel_that_does_nothing() {
    let dir = host_driver("no_work", "int cuLaunchKernel() { return 0; }\n");
    expect_no_cuda(&dir, "a kernel that copies bytes leaves others");
}

#[test]
fn a_kernel_that_does_the_last_byte_wrong() {
    let lies = "int cuLaunchKernel(void *f, int a, int b, int c, int d, int e, int g, int s, void *q, char ***p, void **x) {\n\
        char **at = p[0]; memcpy(at[0], at[1], 63); return 0; }\n";
    expect_no_cuda(&host_driver("last_byte", lies), "a kernel that copies bytes leaves others");
}

#[test]
fn a_copy_that_changes_bytes() {
    let lies = "int cuMemcpyDtoHAsync_v2(char *d, char *s, unsigned long n, void *q) { memset(d, 0, n); return 0; }\n";
    expect_no_cuda(&host_driver("copies_wrong", lies), "bytes that are copied to it come back changed");
}

/// One allocation, one kernel and one wait in a process, however many handles; in the context that
/// is current, and nothing stays.
#[test]
fn it_is_tried_once() {
    double::run_untried(&[], || {
        double::use_device(1);
        let before = current();
        for _ in 0..3 {
            destroy(api::create().expect("a handle"));
        }
        let calls = ["cuMemAlloc_v2", "cuMemFree_v2", "cuLaunchKernel", "cuEventSynchronize", "copy_w16"];
        assert_eq!(calls.map(count), [1; 5]);
        let pairs = [("cuEventCreate", "cuEventDestroy_v2"), ("cuStreamCreate", "cuStreamDestroy_v2")];
        assert_eq!(pairs.map(|(made, gone)| (count(made), count(gone))), [(1, 1); 2]);
        assert_eq!(current(), before);
        assert_eq!(
            count("cuDevicePrimaryCtxRetain") - count("cuDevicePrimaryCtxRelease_v2"),
            1,
            "the test's"
        );
    });
}

/// Without a context there is one for the trial, which stays until the first handle is bound: a
/// program that uses the device next finds it there.
#[test]
fn the_context_of_the_trial_goes_with_the_first_handle() {
    let held = || count("cuDevicePrimaryCtxRetain") - count("cuDevicePrimaryCtxRelease_v2");
    double::run_untried(&[], || {
        let handle = api::create().expect("a handle");
        assert!(current().is_null(), "the program has none");
        assert_eq!(held(), 1);
        double::use_device(1);
        assert!(Transpose::new().works(handle));
        assert_eq!(held(), 2, "the test's and the handle's own");
        destroy(handle);
        assert_eq!(held(), 1);
        let handle = api::create().expect("a handle");
        assert_eq!(held(), 2, "it was tried before");
        destroy(handle);
    });
}

/// It goes with a handle that was never bound, too.
#[test]
fn the_context_of_the_trial_goes_with_a_handle_that_did_nothing() {
    double::run_untried(&[], || {
        destroy(api::create().expect("a handle"));
        assert_eq!((count("cuDevicePrimaryCtxRetain"), count("cuDevicePrimaryCtxRelease_v2")), (1, 1));
    });
}

/// A device whose memory the program has taken, and a context in which its own work failed, say
/// nothing about the driver: the handle is bound to the device, and the next one tries it.
fn not_held_against_the_driver(variables: &[(&str, &str)]) {
    double::run_untried(variables, || {
        double::use_device(0);
        double::fail("cuMemAlloc_v2", 0, 2);
        let handle = api::create().expect("a handle on the device");
        assert_eq!(double::withdraw_faults(), 0);
        assert!(Transpose::new().works(handle), "on the device");
        let launches = count("cuLaunchKernel");
        destroy(api::create().expect("a handle"));
        assert_eq!(count("cuLaunchKernel"), launches + 1, "it is tried now");
        destroy(api::create().expect("a handle"));
        assert_eq!(count("cuLaunchKernel"), launches + 1, "and not again");
        destroy(handle);
    });
}

#[test]
fn what_the_program_did_is_not_held_against_the_driver() {
    not_held_against_the_driver(&[]);
}

#[test]
fn what_the_program_did_is_not_held_against_a_driver_that_is_asked_for() {
    not_held_against_the_driver(&[("CUDNN_SHIM_BACKEND", "cuda")]);
}

/// A verdict against the driver stands, too.
#[test]
fn a_device_that_fails_once_is_not_asked_again() {
    double::run_untried(&[("CUDNN_SHIM_BACKEND", "cuda")], || {
        double::use_device(0);
        double::fail("cuLaunchKernel", 0, 719);
        for _ in 0..2 {
            let (status, text) = api::create().expect_err("no core");
            assert_eq!(status, NOT_INITIALIZED);
            assert!(text.contains("the device fails a first trial: cuLaunchKernel"), "{text}");
        }
        assert_eq!((count("cuLaunchKernel"), count("cuMemFree_v2")), (1, 1));
    });
}

/// Who captures a stream can make a first handle meanwhile.
#[test]
fn a_capture_goes_on_around_the_trial() {
    double::run_untried(&[], || {
        double::use_device(0);
        let (mut stream, mut graph) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: plain calls of the driver with places for their results.
        unsafe {
            assert_eq!(double::cuStreamCreate(&mut stream, 0), 0);
            assert_eq!(double::cuStreamBeginCapture_v2(stream, 0), 0);
            let handle = api::create().expect("a handle");
            assert_eq!(count("cuLaunchKernel"), 1);
            assert_eq!(double::cuStreamEndCapture(stream, &mut graph), 0);
            destroy(handle);
        }
    });
}

/// Threads that come at once wait for one trial; a child that is forked meanwhile does not.
#[test]
fn threads_and_children() {
    double::run_untried(&[("DRIVER_DOUBLE_SLOW_LOAD", "500")], || {
        double::use_device(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    double::use_device(0);
                    destroy(api::create().expect("a handle"));
                });
            }
            while count("loading") == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            // SAFETY: the child calls the library, and leaves without anybody's exit handlers; the
            // alarm ends one that waits for ever.
            unsafe {
                let child = libc::fork();
                assert!(child >= 0, "fork failed");
                if child == 0 {
                    libc::alarm(20);
                    let refused =
                        matches!(api::create(), Err((NOT_INITIALIZED, text)) if text.contains("was forked"));
                    libc::_exit(i32::from(!refused));
                }
                let mut status = -1;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                assert_eq!(status, 0, "the child failed");
            }
        });
        assert_eq!(count("copy_w16"), 1);
    });
}

/// Who asks for the CPU core has no device touched.
#[test]
fn the_cpu_core_tries_nothing() {
    double::run_untried(&[("CUDNN_SHIM_BACKEND", "cpu")], || {
        destroy(api::create().expect("a handle"));
        assert_eq!((count("cuInit"), count("cuLaunchKernel")), (0, 0));
    });
}
