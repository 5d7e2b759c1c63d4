//! `cudnnHandle_t`: creation, stream, run-time errors, last error and callback.

use std::ffi::{c_char, c_uint, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_shim_macros::entry;

use super::arg::{self, Out, results};
use super::log::{self, Callback};
use super::types::{
    cudaStream_t, cudnnCallback_t, cudnnErrQueryMode_t, cudnnHandle_t, cudnnRuntimeTag_t, cudnnStatus_t, raw,
};
use super::{beside_graph, beside_handle, context, guard};
use crate::error::Error;
use crate::exec::Context;

/// Creates a handle.
///
/// It is bound for its life to one core. `CUDNN_SHIM_BACKEND` (`auto`, `cpu`, `cuda`) chooses; `auto` takes the CUDA
/// core if a CUDA driver is there and its device works: the first handle of a process has it copy a few bytes. On the CPU core data pointers are host pointers and calls finish before
/// they return. On the CUDA core they are device pointers, and calls queue their work on the handle's stream, in the
/// context that is current now, or at the handle's first call if none is.
///
/// Status: BAD_PARAM if `handle` is NULL; NOT_INITIALIZED if the chosen core is not available (`*handle` is NULL
/// then).
///
/// # Safety
/// `handle` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreate(handle: *mut cudnnHandle_t) -> cudnnStatus_t {
    // SAFETY: `handle` is NULL or valid for one write.
    let out = unsafe { Out::new(handle, "handle") }?;
    out.set(std::ptr::null_mut());
    let context = Context::create()?;
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        Context::complaints().for_each(|text| log::warning(format_args!("cudnnCreate: {text}")));
        if let Some(reason) = context.unexpected_fallback() {
            log::warning(format_args!("cudnnCreate: the CPU core, for {reason}"));
        }
    }
    if let Some(text) = Context::refusal() {
        log::warning(format_args!("cudnnCreate: {text}"));
    }
    log::information(format_args!("cudnnCreate: core: {}", context.core_name()));
    let twin = beside_handle::new_handle(context.is_cpu());
    out.set(context::add(context, twin)?);
    Ok(())
}

/// Destroys a handle; NULL is fine.
///
/// Calls that other threads are making with it go on to their end, with the stream that they began with; this one does not
/// wait for them. What they need of the handle goes with the last of them.
///
/// Status: BAD_PARAM for a handle that is not alive.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroy(handle: cudnnHandle_t) -> cudnnStatus_t {
    if handle.is_null() {
        return Ok(());
    }
    if let Some(twin) = context::twin(handle).map(|twin| twin.shared()) {
        beside_graph::forget(&twin);
    }
    context::remove(handle)
}

/// Chooses the stream that later calls with this handle work on.
///
/// It has to belong to the handle's context and to live as long as calls use it; NULL is the legacy default stream.
/// The CPU core keeps it and does not use it. Calls that other threads are making with the handle end on the stream that
/// they began with; this one does not wait for them.
///
/// Status: BAD_PARAM for a handle that is not alive.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetStream(handle: cudnnHandle_t, streamId: cudaStream_t) -> cudnnStatus_t {
    if let Some(twin) = context::twin(handle) {
        beside_handle::set_stream(&twin, streamId.expose_provenance())?;
    }
    context::with_mut(handle, |context| context.set_stream(streamId.addr()))
}

/// The stream last set, NULL before.
///
/// Status: BAD_PARAM for a handle that is not alive or if `streamId` is NULL.
///
/// # Safety
/// `streamId` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetStream(handle: cudnnHandle_t, streamId: *mut cudaStream_t) -> cudnnStatus_t {
    let stream = context::with(handle, |context| Ok(context.stream()))?;
    results!(new streamId = std::ptr::without_provenance_mut(stream))
}

/// Errors of work that is still running or has run.
///
/// The CPU core finishes every call before it returns and has told its errors there, and no kernel of the CUDA core
/// reports errors of its own, so `*rstatus` is SUCCESS. What goes wrong with queued work, the CUDA runtime tells.
///
/// Status: BAD_PARAM for a handle that is not alive, if `rstatus` is NULL, or for an unknown `mode`. `tag` is not
/// read; nothing in this interface makes one.
///
/// # Safety
/// `rstatus` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnQueryRuntimeError(
    handle: cudnnHandle_t, rstatus: *mut cudnnStatus_t, mode: MaybeUninit<cudnnErrQueryMode_t>,
    tag: *mut cudnnRuntimeTag_t,
) -> cudnnStatus_t {
    context::check(handle)?;
    arg::required(rstatus, "rstatus")?;
    if !(0..=2).contains(&raw(mode)) {
        return Err(Error::argument("mode", raw(mode).into(), "0 raw code, 1 nonblocking, 2 blocking"));
    }
    results!(new rstatus = cudnnStatus_t::CUDNN_STATUS_SUCCESS)
}

/// Moves the text of this thread's last error to `message`.
///
/// The text, cut if need be, then zero bytes up to `max_size`. Reading clears it; a successful call does not. Nothing is written if `message` is NULL.
///
/// # Safety
/// `message` is NULL or valid for writes of `max_size` bytes.
#[cfg(not(feature = "cudnn8"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetLastErrorString(message: *mut c_char, max_size: usize) {
    // SAFETY: `message` is NULL or valid for writes of `max_size` bytes.
    unsafe { guard::take_last_error(message, max_size) }
}

/// Registers a function that hears of calls: errors always, with mask bit 2 warnings, with bit 3 every call.
///
/// NULL ends it.
///
/// Status: SUCCESS.
///
/// # Safety
/// `fptr` is NULL or callable from every thread with the arguments of `cudnnCallback_t` until it is replaced.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetCallback(
    mask: c_uint, udata: *mut c_void, fptr: cudnnCallback_t,
) -> cudnnStatus_t {
    log::set_callback(Callback { mask, udata, function: fptr });
    Ok(())
}

/// The callback as stored.
///
/// The mask is reduced to its three known bits with the error bit always set. Before any cudnnSetCallback the mask is 0.
///
/// Status: BAD_PARAM if any pointer is NULL.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetCallback(
    mask: *mut c_uint, udata: *mut *mut c_void, fptr: *mut cudnnCallback_t,
) -> cudnnStatus_t {
    let callback = log::callback();
    results!(new mask = callback.mask, new udata = callback.udata, new fptr = callback.function)
}
