//! Handles of cuBLAS, and what is set on them.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::factor::Factor;
use super::kind::Kind;
use super::product::Products;
use super::status::{
    EXECUTION_FAILED, Failure, NOT_INITIALIZED, Outcome, SUCCESS, calls, finish, required, store,
};
use crate::registry::Registry;
use crate::runtime::capture;
use crate::runtime::model::operation::LibraryCall;

/// What a `cublasHandle_t` stands for.
pub struct Handle {
    /// The caller's stream.
    stream: AtomicUsize,
    pointer_mode: AtomicI32,
    math_mode: AtomicI32,
    atomics_mode: AtomicI32,
    sm_count: AtomicI32,
    /// What multiplies matrices; one call at a time.
    pub products: Mutex<Products>,
}

impl Handle {
    /// Does work in the order of the stream: now, or at each launch of the graph that the stream
    /// captures.
    ///
    /// # Errors
    /// As the work; execution failed for a stream that the runtime does not know, for a capture
    /// that was spoiled, and for the default stream while it would wait for one that captures.
    pub fn submit(&self, work: impl Fn() -> Outcome + Clone + Send + Sync + 'static) -> Outcome {
        submit_on(self.stream.load(Ordering::Relaxed), work)
    }

    /// The same for work whose result the program reads: by the end of the call, unless the result
    /// lies on the device.
    ///
    /// # Errors
    /// As [`Handle::submit`]; not supported on a stream that captures while results lie on the
    /// host.
    pub fn submit_result(&self, work: impl Fn() -> Outcome + Clone + Send + Sync + 'static) -> Outcome {
        if !self.is_device_mode() && capture::is_held(self.stream.load(Ordering::Relaxed)) {
            return Err(Failure::unsupported(
                "the stream captures, and the result lies on the host: there is nothing yet to store; \
                 CUBLAS_POINTER_MODE_DEVICE leaves the call to the graph",
            ));
        }
        self.submit(work)
    }

    /// A number of the call's arguments, which lies where the pointer mode says.
    ///
    /// # Errors
    /// Invalid value for NULL.
    ///
    /// # Safety
    /// As [`Factor::new`].
    pub unsafe fn factor(
        &self, kind: Kind, pointer: *const c_void, argument: &'static str,
    ) -> Outcome<Factor> {
        // SAFETY: as this function's caller says.
        unsafe { Factor::new(kind, pointer, argument, self.is_device_mode()) }
    }

    fn is_device_mode(&self) -> bool {
        self.pointer_mode.load(Ordering::Relaxed) == POINTER_MODE_DEVICE
    }
}

/// `CUBLAS_POINTER_MODE_DEVICE`
pub const POINTER_MODE_DEVICE: c_int = 1;

/// As [`Handle::submit`], for a stream that the call names.
///
/// # Errors
/// As [`Handle::submit`].
pub fn submit_on(stream: usize, work: impl Fn() -> Outcome + Clone + Send + Sync + 'static) -> Outcome {
    const NAME: &str = "a call of cuBLAS";
    let later = || -> LibraryCall {
        let work = work.clone();
        Arc::new(move || finish(NAME, work()) == SUCCESS)
    };
    match capture::library_call(stream, NAME, later) {
        Ok(true) => Ok(()),
        Ok(false) => work(),
        Err(failure) => Err(Failure::new(EXECUTION_FAILED, failure.to_string())),
    }
}

static HANDLES: Registry<Handle> = Registry::new();

/// The version that cublasGetVersion tells: that of the public documentation that this follows.
pub const VERSION: [c_int; 3] = [12, 9, 1];
/// The version of the runtime that it belongs to.
pub const RUNTIME: usize = 12_090;

/// The handle, if it is alive.
///
/// # Errors
/// Not initialized.
pub fn get(handle: *mut c_void) -> Outcome<Arc<Handle>> {
    HANDLES.get(handle).ok_or_else(|| Failure::new(NOT_INITIALIZED, "handle is not alive"))
}

/// Makes a handle, for cuBLAS and for cuBLASLt.
///
/// # Errors
/// Invalid value for NULL; not initialized without a `libcudnn` that multiplies on the CPU core.
///
/// # Safety
/// `place` is NULL or valid for one write.
pub unsafe fn create(place: *mut *mut c_void) -> Outcome {
    required(place, "handle")?;
    let products = Mutex::new(Products::new()?);
    let made = HANDLES.add(Handle {
        stream: AtomicUsize::new(0),
        pointer_mode: AtomicI32::new(0),
        math_mode: AtomicI32::new(0),
        atomics_mode: AtomicI32::new(0),
        sm_count: AtomicI32::new(0),
        products,
    });
    // SAFETY: not NULL, and the caller vouches for one write.
    unsafe { store(place, "handle", made) }
}

/// Ends a handle.
///
/// # Errors
/// Not initialized if it is not alive.
pub fn destroy(handle: *mut c_void) -> Outcome {
    get(handle)?;
    HANDLES.remove(handle);
    Ok(())
}

/// Refuses numbers that are none of an enumeration's.
fn one_of(number: c_int, known: &[c_int], argument: &str) -> Outcome {
    if known.contains(&number) {
        return Ok(());
    }
    Err(Failure::invalid(format!("{argument} is {number}, not one of {known:?}")))
}

/// CUBLAS_DEFAULT_MATH, TENSOR_OP, PEDANTIC, TF32_TENSOR_OP, FP32_EMULATED_BF16X9,
/// FP64_EMULATED_FIXEDPOINT.
const MATH_MODES: [c_int; 6] = [0, 1, 2, 3, 4, 8];
/// CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, a bit that may be added.
const NO_REDUCED_SUMS: c_int = 16;

calls! {
    /// Makes a handle.
    ///
    /// Status: INVALID_VALUE for NULL; NOT_INITIALIZED without a `libcudnn` that multiplies on the
    /// CPU core.
    fn cublasCreate_v2(handle: *mut *mut c_void) {
        // SAFETY: `handle` is NULL or valid for one write.
        unsafe { create(handle) }
    }

    /// Ends a handle.
    ///
    /// Status: NOT_INITIALIZED for one that is not alive.
    fn cublasDestroy_v2(handle: *mut c_void) {
        destroy(handle)
    }

    /// The version of the interface: 10000 * major + 100 * minor + patch.
    ///
    /// Status: INVALID_VALUE for NULL. The handle does not matter.
    fn cublasGetVersion_v2(_handle: *mut c_void, version: *mut c_int) {
        let [major, minor, patch] = VERSION;
        // SAFETY: `version` is NULL or valid for one write.
        unsafe { store(version, "version", 10_000 * major + 100 * minor + patch) }
    }

    /// A part of the version: 0 major, 1 minor, 2 patch.
    ///
    /// Status: INVALID_VALUE for NULL and for another number.
    fn cublasGetProperty(property: c_int, value: *mut c_int) {
        one_of(property, &[0, 1, 2], "type")?;
        // SAFETY: `value` is NULL or valid for one write.
        unsafe { store(value, "value", VERSION[property as usize]) }
    }

    /// Keeps a stream: calls have done their work when they return, or leave it to the graph that
    /// the stream captures.
    ///
    /// Status: NOT_INITIALIZED for a handle that is not alive.
    fn cublasSetStream_v2(handle: *mut c_void, stream: *mut c_void) {
        get(handle)?.stream.store(stream.addr(), Ordering::Relaxed);
        Ok(())
    }

    /// The stream last set, NULL before.
    ///
    /// Status: NOT_INITIALIZED for a handle that is not alive, INVALID_VALUE for NULL.
    fn cublasGetStream_v2(handle: *mut c_void, stream: *mut *mut c_void) {
        let kept = get(handle)?.stream.load(Ordering::Relaxed);
        // SAFETY: `stream` is NULL or valid for one write.
        unsafe { store(stream, "streamId", std::ptr::without_provenance_mut(kept)) }
    }

    /// Looks at the workspace and leaves it alone: none is needed.
    ///
    /// Status: NOT_INITIALIZED for a handle that is not alive; INVALID_VALUE for NULL with a size.
    fn cublasSetWorkspace_v2(handle: *mut c_void, workspace: *mut c_void, bytes: usize) {
        get(handle)?;
        if bytes > 0 { required(workspace, "workspace") } else { Ok(()) }
    }

    /// Where factors and results lie. Both are host memory; but a graph reads factors of the device
    /// at its launch, and keeps those of the host as they are at the call.
    ///
    /// Status: NOT_INITIALIZED for a handle that is not alive, INVALID_VALUE for an unknown mode.
    fn cublasSetPointerMode_v2(handle: *mut c_void, mode: c_int) {
        let handle = get(handle)?;
        one_of(mode, &[0, 1], "mode")?;
        handle.pointer_mode.store(mode, Ordering::Relaxed);
        Ok(())
    }

    /// The mode last set.
    ///
    /// Status: NOT_INITIALIZED for a handle that is not alive, INVALID_VALUE for NULL.
    fn cublasGetPointerMode_v2(handle: *mut c_void, mode: *mut c_int) {
        let kept = get(handle)?.pointer_mode.load(Ordering::Relaxed);
        // SAFETY: `mode` is NULL or valid for one write.
        unsafe { store(mode, "mode", kept) }
    }

    /// Keeps a mode of arithmetic; products are the same in all of them: factors are never rounded.
    ///
    /// Status: NOT_INITIALIZED for a handle that is not alive, INVALID_VALUE for an unknown mode.
    fn cublasSetMathMode(handle: *mut c_void, mode: c_int) {
        let handle = get(handle)?;
        one_of(mode & !NO_REDUCED_SUMS, &MATH_MODES, "mode")?;
        handle.math_mode.store(mode, Ordering::Relaxed);
        Ok(())
    }

    /// The mode last set.
    ///
    /// Status: NOT_INITIALIZED for a handle that is not alive, INVALID_VALUE for NULL.
    fn cublasGetMathMode(handle: *mut c_void, mode: *mut c_int) {
        let kept = get(handle)?.math_mode.load(Ordering::Relaxed);
        // SAFETY: `mode` is NULL or valid for one write.
        unsafe { store(mode, "mode", kept) }
    }

    /// Keeps whether atomics are allowed; none are used.
    ///
    /// Status: NOT_INITIALIZED for a handle that is not alive, INVALID_VALUE for an unknown mode.
    fn cublasSetAtomicsMode(handle: *mut c_void, mode: c_int) {
        let handle = get(handle)?;
        one_of(mode, &[0, 1], "mode")?;
        handle.atomics_mode.store(mode, Ordering::Relaxed);
        Ok(())
    }

    /// The mode last set.
    ///
    /// Status: NOT_INITIALIZED for a handle that is not alive, INVALID_VALUE for NULL.
    fn cublasGetAtomicsMode(handle: *mut c_void, mode: *mut c_int) {
        let kept = get(handle)?.atomics_mode.load(Ordering::Relaxed);
        // SAFETY: `mode` is NULL or valid for one write.
        unsafe { store(mode, "mode", kept) }
    }

    /// Keeps a number of multiprocessors to plan for, which does not matter here.
    ///
    /// Status: NOT_INITIALIZED for a handle that is not alive, INVALID_VALUE for a negative number.
    fn cublasSetSmCountTarget(handle: *mut c_void, count: c_int) {
        let handle = get(handle)?;
        if count < 0 {
            return Err(Failure::invalid(format!("smCountTarget is {count}: must not be negative")));
        }
        handle.sm_count.store(count, Ordering::Relaxed);
        Ok(())
    }

    /// The number last set.
    ///
    /// Status: NOT_INITIALIZED for a handle that is not alive, INVALID_VALUE for NULL.
    fn cublasGetSmCountTarget(handle: *mut c_void, count: *mut c_int) {
        let kept = get(handle)?.sm_count.load(Ordering::Relaxed);
        // SAFETY: `count` is NULL or valid for one write.
        unsafe { store(count, "smCountTarget", kept) }
    }
}

/// The version of the runtime that the interface belongs to.
#[unsafe(no_mangle)]
pub extern "C" fn cublasGetCudartVersion() -> usize {
    RUNTIME
}
