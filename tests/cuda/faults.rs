//! Every entry point of the driver fails at every call of it: the call ends in a status, and the
//! next one works.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::{env, ptr};

use crate::api::{self, EXECUTION_FAILED_CUDART, NOT_INITIALIZED, SUCCESS};
use crate::child;
use crate::double::{self, Memory, Object};
use crate::launch::Transpose;

/// Codes that the double knows, and one that no driver knows.
const CODES: [c_int; 4] = [1, 2, 719, 987_654];

/// Entry points whose verdict is reached once, by the first handle of a process.
const START: [&str; 3] = ["cuInit", "cuDriverGetVersion", "cuDeviceGetCount"];

/// Entry points that cannot fail a call: names for messages and the log, and giving things back.
const HARMLESS: [&str; 4] =
    ["cuGetErrorName", "cuDeviceGetName", "cuDevicePrimaryCtxRelease_v2", "cuModuleUnload"];

fn set_current(context: Object) {
    // SAFETY: NULL or a context of the double.
    unsafe { assert_eq!(double::cuCtxSetCurrent(context), 0) };
}

/// The life of a handle: created, used, destroyed. With `bound` false it is created while no
/// context is current, and makes one of its own. Returns whether every call succeeded; checks the
/// statuses of those that did not, and takes away the context that one leaves pushed if it is
/// popping that fails.
fn live(bound: bool, transpose: &Transpose, context: Object, failing: &str) -> bool {
    let (x, y) = (Memory::new(&transpose.x), Memory::new(&vec![0xEE; transpose.want.len()]));
    if !bound {
        set_current(ptr::null_mut());
    }
    let mut good = true;
    match api::create() {
        Ok(handle) => {
            for _ in 0..2 {
                let status = transpose.call(handle, x.pointer(), y.pointer());
                good &= status == SUCCESS;
                if status != SUCCESS {
                    assert_eq!(status, EXECUTION_FAILED_CUDART);
                    let text = api::last_error();
                    assert!(text.contains(" returned ") && text.contains(')'), "{text}");
                    if failing == "cuCtxPopCurrent_v2" {
                        let mut popped = ptr::null_mut();
                        // SAFETY: a place for the result.
                        unsafe { assert_eq!(double::cuCtxPopCurrent_v2(&mut popped), 0) };
                    }
                }
            }
            // SAFETY: a live handle.
            unsafe { assert_eq!(api::cudnnDestroy(handle), SUCCESS) };
        }
        Err((status, text)) => {
            assert_eq!(status, NOT_INITIALIZED);
            assert!(text.contains(" returned "), "{text}");
            good = false;
        }
    }
    set_current(context);
    if good {
        assert!(y.read() == transpose.want);
    }
    good
}

#[test]
fn every_call_of_every_entry_point() {
    let variables =
        [("CUDNN_SHIM_CHECK", "1"), ("CUDNN_LOGLEVEL_DBG", "3"), ("CUDNN_LOGDEST_DBG", "/dev/null")];
    // What is exchanged before: for the context and the memory of two operands, and once for the
    // load.
    const RESTORED: u32 = 7;
    double::run(&variables, || {
        double::use_device(0);
        let mut context = ptr::null_mut();
        // SAFETY: a place for the result.
        unsafe { assert_eq!(double::cuCtxGetCurrent(&mut context), 0) };
        let transpose = Transpose::new();
        let mut reached = BTreeSet::new();
        for entry in cudnn::backend::cuda::symbols().iter().filter(|entry| !START.contains(entry)) {
            for (bound, code) in [false, true].into_iter().flat_map(|bound| CODES.map(|code| (bound, code))) {
                for nth in 0.. {
                    // A context without the kernels, so that they are loaded again.
                    double::renew(0);
                    assert!(live(bound, &transpose, context, ""), "before {entry} fails");
                    double::renew(0);
                    if *entry == "cuGetErrorName" {
                        // Names are asked for after another failure only.
                        double::fail("cuLaunchKernel", 0, 719);
                    }
                    if *entry == "cuModuleUnload" {
                        // Unloads after the capture mode cannot be restored.
                        double::fail("cuThreadExchangeStreamCaptureMode", RESTORED, 1);
                    }
                    double::fail(entry, nth, code);
                    let good = live(bound, &transpose, context, entry);
                    if double::withdraw_faults() > 0 {
                        break;
                    }
                    reached.insert(*entry);
                    let alone =
                        HARMLESS.contains(entry) && !matches!(*entry, "cuGetErrorName" | "cuModuleUnload");
                    // The last time it is asked for when a handle goes, whose context then stays as
                    // it is.
                    let at_the_end = *entry == "cuCtxGetId" && nth == 3;
                    assert_eq!(good, alone || at_the_end, "{entry}, call {nth}, bound: {bound}");
                }
            }
        }
        let all: BTreeSet<_> = cudnn::backend::cuda::symbols().iter().copied().collect();
        let missed: Vec<_> = all.iter().filter(|entry| !reached.contains(*entry)).collect();
        assert_eq!(missed.len(), START.len(), "never reached: {missed:?}");
        assert!(live(true, &transpose, context, ""), "after all of them");
    });
}

/// What the first handle of a process gets when the driver fails at the start.
fn start_fails(entry: &'static str) {
    // The verdict on the driver stands for the whole process, so that either answer needs one of
    // its own.
    for variables in [&[][..], &[("CUDNN_SHIM_BACKEND", "cuda")]] {
        let output = child::start(&double::libraries(), variables, || {
            double::fail(entry, 0, 987_654);
            // The verdict stands, although the driver would answer the second time.
            for _ in 0..2 {
                if env::var_os("CUDNN_SHIM_BACKEND").is_none() {
                    let handle = api::create().expect("a CPU handle");
                    // SAFETY: a live handle.
                    unsafe { assert_eq!(api::cudnnDestroy(handle), SUCCESS) };
                } else {
                    let (status, text) = api::create().expect_err("no CUDA core");
                    assert_eq!(status, NOT_INITIALIZED);
                    assert!(text.contains(&format!("{entry} returned an unknown error (987654)")), "{text}");
                }
                assert_eq!(double::withdraw_faults(), 0);
            }
        });
        let Some(output) = output else { return };
        assert!(output.status.success(), "{}", child::text(&output));
    }
}

#[test]
fn initialisation() {
    start_fails("cuInit");
}

#[test]
fn the_drivers_version() {
    start_fails("cuDriverGetVersion");
}

#[test]
fn the_number_of_devices() {
    start_fails("cuDeviceGetCount");
}
