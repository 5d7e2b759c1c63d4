//! The contexts behind handles, and calls on them.

use std::sync::Arc;

use super::log::Note;
use super::slab::{Kind, Table};
use super::twin_place::Pinned;
#[cfg(not(feature = "cudnn8"))]
use super::types::cudaStream_t;
use super::types::cudnnHandle_t;
use crate::error::Result;
use crate::exec::{Call, Context};
use crate::original::Twin;

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

/// Gives a context a handle, and the original's handle beside it, if there is one.
///
/// # Errors
/// As of the table of handles.
pub(crate) fn add(context: Context, twin: Option<Twin>) -> Result<cudnnHandle_t> {
    let address = CONTEXTS.insert(context)?;
    if let Some(twin) = twin {
        CONTEXTS.adopt(address, Arc::new(twin));
    }
    Ok(std::ptr::without_provenance_mut(address))
}

/// Ends a handle; calls that other threads are making with it go on to their end.
///
/// # Errors
/// As [`check`].
pub(crate) fn remove(handle: cudnnHandle_t) -> Result<()> {
    CONTEXTS.remove(handle.addr(), "handle").map(drop)
}
