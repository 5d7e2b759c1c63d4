//! `cudnnHandle_t`: creation, stream, run-time errors, last error and callback.

use std::ffi::{c_char, c_uint, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_shim_macros::entry;

use super::arg::{self, Out, results};
use super::guard::{self};
use super::log::{self, Callback, Note};
use super::slab::{Kind, Table};
use super::twin_place::Pinned;
use super::types::{
    cudaStream_t, cudnnCallback_t, cudnnErrQueryMode_t, cudnnHandle_t, cudnnRuntimeTag_t, cudnnStatus_t, raw,
};
use super::{beside_graph, beside_handle};
use crate::error::{Error, Result};
use crate::exec::{Call, Context};

static CONTEXTS: Table<Context> = Table::new(Kind::Context);

/// Whether `handle` is alive.
///
/// # Errors
/// Bad parameter for NULL, wild, destroyed and wrong-kind handles.
pub(crate) fn check(handle: cudnnHandle_t) -> Result<()> {
    with(handle, |_| Ok(()))
}

/// Runs `body` on the context behind `handle`; several threads may do so at once.
///
/// # Errors
/// As [`check`], and those of `body`.
pub(crate) fn with<R>(handle: cudnnHandle_t, body: impl FnOnce(&Context) -> Result<R>) -> Result<R> {
    CONTEXTS.with(handle.addr(), "handle", body)
}

/// The original's handle beside one of ours, if it has one.
pub(crate) fn twin(handle: cudnnHandle_t) -> Option<Pinned> {
    CONTEXTS.made_twin(handle.addr())
}

/// Changes the context behind `handle`; calls that other threads are making go on with the one that they began with.
///
/// # Errors
/// As [`check`].
pub(crate) fn with_mut(handle: cudnnHandle_t, body: impl FnOnce(&mut Context)) -> Result<()> {
    CONTEXTS.with_mut(handle.addr(), "handle", |context| {
        body(context);
        Ok(())
    })
}

/// Runs `body` as the call `name` that computes, on a copy of the context behind `handle`: as long as it may take, nothing
/// waits for it, be it a thread that uses the handle or a child that was forked meanwhile. Listeners hear what there is to tell when
/// it has ended, in the caller's floating-point mode.
///
/// # Errors
/// As [`check`] and [`Context::call`].
#[inline]
pub(crate) fn compute<R>(
    handle: cudnnHandle_t, name: &'static str, body: impl FnOnce(&mut Call<'_>) -> Result<R>,
) -> Result<R> {
    compute_on(&with(handle, |context| Ok(context.clone()))?, name, body)
}

/// The same for a call that has no handle but a stream, on the core of that stream.
///
/// # Errors
/// Not initialized if there is no core, as of cudnnCreate; as [`Context::call`].
#[cfg(not(feature = "cudnn8"))]
pub(crate) fn compute_on_stream<R>(
    stream: cudaStream_t, name: &'static str, body: impl FnOnce(&mut Call<'_>) -> Result<R>,
) -> Result<R> {
    compute_on(&Context::of_stream(stream.addr())?, name, body)
}

#[inline]
fn compute_on<R>(
    context: &Context, name: &'static str, body: impl FnOnce(&mut Call<'_>) -> Result<R>,
) -> Result<R> {
    // Declared first, dropped last: listeners are notified after `body` returned.
    let mut note = Note::new();
    context.call(name, &mut note.0, body)
}

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
    log::information(format_args!("cudnnCreate: core: {}", context.core_name()));
    let twin = beside_handle::new_handle(context.is_cpu());
    let address = CONTEXTS.insert(context)?;
    if let Some(twin) = twin {
        CONTEXTS.adopt(address, Arc::new(twin));
    }
    out.set(std::ptr::without_provenance_mut(address));
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
    if let Some(twin) = twin(handle).map(|twin| twin.shared()) {
        beside_graph::forget(&twin);
    }
    CONTEXTS.remove(handle.addr(), "handle").map(drop)
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
    if let Some(twin) = twin(handle) {
        beside_handle::set_stream(&twin, streamId.expose_provenance())?;
    }
    CONTEXTS.with_mut(handle.addr(), "handle", |context| {
        context.set_stream(streamId.addr());
        Ok(())
    })
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
    let stream = with(handle, |context| Ok(context.stream()))?;
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
    check(handle)?;
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
