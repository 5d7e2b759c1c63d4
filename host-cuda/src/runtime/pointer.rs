//! Which memory an address belongs to, and advice about managed memory, from which nothing follows.

use std::ffi::c_void;

use super::error::{Error, Result};
use super::model::Handle;
use super::model::memory::Kind;
use super::state::state;
use super::{Out, capture, put};

/// Whether these bytes are managed memory.
fn managed(pointer: *const c_void, count: usize) -> Result {
    let (state, address) = (state(), pointer.expose_provenance());
    let whole = state.memory.find(address).is_some_and(|(start, block)| {
        block.kind() == Kind::Managed && count > 0 && count <= block.size() - (address - start)
    });
    if whole {
        return Ok(());
    }
    Err(Error::InvalidValue.because(format_args!("{count} bytes at {pointer:p} are not managed memory")))
}

/// `cudaPointerAttributes` of CUDA 11 and 12.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Attributes {
    kind: i32,
    device: i32,
    device_pointer: *mut c_void,
    host_pointer: *mut c_void,
}

impl Attributes {
    fn of(pointer: *const c_void) -> Attributes {
        /// `cudaInvalidDeviceId`.
        const NO_DEVICE: i32 = -2;
        let found = state().memory.find(pointer.expose_provenance()).map(|(_, block)| block.kind());
        let null = std::ptr::null_mut();
        let pointer = pointer.cast_mut();
        match found {
            None => Attributes { kind: 0, device: NO_DEVICE, device_pointer: null, host_pointer: pointer },
            Some(kind) => Attributes {
                kind: kind as i32,
                device: 0,
                device_pointer: pointer,
                host_pointer: if kind == Kind::Device { null } else { pointer },
            },
        }
    }
}

runtime! {
    /// Which memory an address belongs to; of the program's own it says `unregistered`.
    ///
    /// Status: cudaErrorInvalidValue if `attributes` is NULL.
    fn cudaPointerGetAttributes(attributes: Out<Attributes>, pointer: *const c_void) {
        put(attributes, "attributes", Attributes::of(pointer))
    }

    /// The same with the eight words that CUDA 13 has behind, all zero.
    ///
    /// Status: as cudaPointerGetAttributes.
    fn cudnnShimHostPointerGetAttributes13(attributes: Out<(Attributes, [i64; 8])>, pointer: *const c_void) {
        put(attributes, "attributes", (Attributes::of(pointer), [0; 8]))
    }

    /// Says how managed memory will be used; nothing follows from it.
    ///
    /// Status: cudaErrorInvalidValue unless all `count` bytes are managed memory.
    fn cudaMemAdvise(pointer: *const c_void, count: usize, advice: i32, device: i32) {
        let _ = (advice, device);
        managed(pointer, count)
    }

    /// The same with a place in a structure of two numbers.
    ///
    /// Status: as cudaMemAdvise.
    fn cudaMemAdvise_v2(pointer: *const c_void, count: usize, advice: i32, location: u64) {
        let _ = (advice, location);
        managed(pointer, count)
    }

    /// Moves managed memory ahead of its use; there is nothing to move.
    ///
    /// Status: as cudaMemAdvise; cudaErrorInvalidResourceHandle for an unknown stream;
    /// cudaErrorStreamCaptureUnsupported for one that captures: graphs have no such node.
    fn cudaMemPrefetchAsync(pointer: *const c_void, count: usize, device: i32, stream: Handle) {
        let _ = device;
        managed(pointer, count)?;
        capture::refuse_unheld(&mut state(), stream)
    }

    /// The same with a place in a structure of two numbers.
    ///
    /// Status: as cudaMemPrefetchAsync.
    fn cudaMemPrefetchAsync_v2(pointer: *const c_void, count: usize, location: u64, flags: u32, stream: Handle) {
        let _ = (location, flags);
        managed(pointer, count)?;
        capture::refuse_unheld(&mut state(), stream)
    }

    /// Binds managed memory to a stream; nothing follows from it.
    ///
    /// Status: cudaErrorInvalidValue for other memory; as cudaMemPrefetchAsync.
    fn cudaStreamAttachMemAsync(stream: Handle, pointer: *const c_void, length: usize, flags: u32) {
        let _ = flags;
        managed(pointer, length.max(1))?;
        capture::refuse_unheld(&mut state(), stream)
    }
}
