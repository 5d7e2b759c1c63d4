//! Functions of device, pinned and managed memory.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use super::error::{Error, Result};
use super::model::Handle;
use super::model::copy::{Extent, Pitched};
use super::model::memory::{Kind, TOTAL};
use super::state::{State, state};
use super::{Out, capture, put};

/// The rows of pitched memory begin at multiples of this.
const PITCH: usize = 512;

/// An allocation as the calls below ask for it: nothing for no bytes, and none while work is
/// captured.
fn allocate(out: Out<*mut c_void>, size: usize, kind: Kind, flags: u32) -> Result {
    let Some(out) = out else {
        return Err(Error::InvalidValue.because("the pointer to store the address at is NULL"));
    };
    let mut state = state();
    capture::refuse_unsafe(&mut state)?;
    out.write(std::ptr::null_mut());
    if size > 0 {
        let start = state.memory.take(size, kind, flags)?;
        out.write(std::ptr::with_exposed_provenance_mut(start));
    }
    Ok(())
}

fn release(pointer: *mut c_void, kinds: &[Kind]) -> Result {
    let mut state = state();
    capture::refuse_unsafe(&mut state)?;
    if pointer.is_null() { Ok(()) } else { state.memory.give(pointer.expose_provenance(), kinds) }
}

/// The pitch of rows of `width` bytes, and the bytes of `rows` of them.
fn pitched(width: usize, rows: Option<usize>) -> Result<(usize, usize)> {
    let pitch = width.checked_next_multiple_of(PITCH);
    let size = pitch.zip(rows).and_then(|(pitch, rows)| pitch.checked_mul(rows));
    match pitch.zip(size) {
        Some((pitch, size)) if size <= isize::MAX as usize => Ok((pitch, size)),
        _ => {
            Err(Error::MemoryAllocation.because(format_args!("rows of {width} bytes: no memory is as large")))
        }
    }
}

/// What `cudaMallocAsync` and its like do: memory is there at once.
pub(super) fn allocate_ordered(out: Out<*mut c_void>, size: usize, on: Handle) -> Result {
    let Some(out) = out else {
        return Err(Error::InvalidValue.because("the pointer to store the address at is NULL"));
    };
    let mut state = state();
    ordered(&mut state, on)?;
    out.write(std::ptr::null_mut());
    if size > 0 {
        let start = state.memory.take(size, Kind::Device, 0)?;
        out.write(std::ptr::with_exposed_provenance_mut(start));
    }
    Ok(())
}

/// Whether a stream may allocate and free: not while it captures, for nodes that do are not built.
fn ordered(state: &mut State, on: Handle) -> Result {
    state.has_stream(on)?;
    if capture::of(state, on).is_some() {
        return Err(Error::NotSupported.because("allocations are not captured; allocate before the capture"));
    }
    capture::refuse_implicit(state, on)
}

runtime! {
    /// Device memory of `size` bytes; NULL for none.
    ///
    /// Status: cudaErrorInvalidValue if `pointer` is NULL; cudaErrorMemoryAllocation beyond what
    /// the device has.
    fn cudaMalloc(pointer: Out<*mut c_void>, size: usize) {
        allocate(pointer, size, Kind::Device, 0)
    }

    /// Gives device or managed memory back; NULL is allowed.
    ///
    /// Status: cudaErrorInvalidValue for what was never given out, was freed before, or is pinned.
    fn cudaFree(pointer: *mut c_void) {
        release(pointer, &[Kind::Device, Kind::Managed])
    }

    /// Pinned memory of `size` bytes.
    ///
    /// Status: as cudaMalloc.
    fn cudaMallocHost(pointer: Out<*mut c_void>, size: usize) {
        allocate(pointer, size, Kind::Host, 0)
    }

    /// Pinned memory; `flags` are kept for cudaHostGetFlags.
    ///
    /// Status: cudaErrorInvalidValue for flags above 7; as cudaMalloc.
    fn cudaHostAlloc(pointer: Out<*mut c_void>, size: usize, flags: u32) {
        if flags > 7 {
            return Err(Error::InvalidValue.because(format_args!("flags is {flags}, more than 7")));
        }
        allocate(pointer, size, Kind::Host, flags)
    }

    /// Gives pinned memory back; NULL is allowed.
    ///
    /// Status: cudaErrorInvalidValue for what is no pinned memory of this library.
    fn cudaFreeHost(pointer: *mut c_void) {
        release(pointer, &[Kind::Host])
    }

    /// Memory of host and device.
    ///
    /// Status: cudaErrorInvalidValue for no bytes, or flags other than 1 (global) and 2 (host); as
    /// cudaMalloc.
    fn cudaMallocManaged(pointer: Out<*mut c_void>, size: usize, flags: u32) {
        if size == 0 || !matches!(flags, 1 | 2) {
            return Err(Error::InvalidValue.because(format_args!("size {size}, flags {flags}: some, and 1 or 2")));
        }
        allocate(pointer, size, Kind::Managed, flags)
    }

    /// Device memory of `height` rows of `width` bytes, which begin at multiples of 512.
    ///
    /// Status: as cudaMalloc.
    fn cudaMallocPitch(pointer: Out<*mut c_void>, pitch: Out<usize>, width: usize, height: usize) {
        let (bytes, size) = pitched(width, Some(height))?;
        if pointer.is_none() {
            return Err(Error::InvalidValue.because("devPtr is NULL"));
        }
        put(pitch, "pitch", bytes)?;
        allocate(pointer, size, Kind::Device, 0)
    }

    /// Device memory of `depth` slices of `height` rows, which begin at multiples of 512.
    ///
    /// Status: as cudaMalloc.
    fn cudaMalloc3D(pointer: Out<Pitched>, extent: Extent) {
        let (pitch, size) = pitched(extent.width, extent.height.checked_mul(extent.depth))?;
        let Some(pointer) = pointer else {
            return Err(Error::InvalidValue.because("pitchedDevPtr is NULL"));
        };
        let mut start = MaybeUninit::new(std::ptr::null_mut());
        allocate(Some(&mut start), size, Kind::Device, 0)?;
        // SAFETY: it is initialised above.
        let start = unsafe { start.assume_init() };
        pointer.write(Pitched { pointer: start, pitch, width: extent.width, height: extent.height });
        Ok(())
    }

    /// Device memory, in the order of a stream: at once.
    ///
    /// Status: as cudaMalloc; cudaErrorInvalidResourceHandle for an unknown stream;
    /// cudaErrorNotSupported in a capture.
    fn cudaMallocAsync(pointer: Out<*mut c_void>, size: usize, stream: Handle) {
        allocate_ordered(pointer, size, stream)
    }

    /// Gives device memory back, in the order of a stream: at once.
    ///
    /// Status: as cudaFree; cudaErrorInvalidValue for NULL; as cudaMallocAsync.
    fn cudaFreeAsync(pointer: *mut c_void, stream: Handle) {
        let mut state = state();
        ordered(&mut state, stream)?;
        state.memory.give(pointer.expose_provenance(), &[Kind::Device, Kind::Managed])
    }

    /// Bytes that are free, and that there are.
    ///
    /// Status: cudaErrorInvalidValue if a pointer is NULL.
    fn cudaMemGetInfo(free: Out<usize>, total: Out<usize>) {
        if total.is_none() {
            return Err(Error::InvalidValue.because("total is NULL"));
        }
        put(free, "free", state().memory.free())?;
        put(total, "total", *TOTAL)
    }

    /// Makes `size` bytes of the program's own count as pinned.
    ///
    /// Status: cudaErrorInvalidValue for NULL, no bytes or unknown flags;
    /// cudaErrorHostMemoryAlreadyRegistered if some of them do already.
    fn cudaHostRegister(pointer: *mut c_void, size: usize, flags: u32) {
        let start = pointer.expose_provenance();
        if start == 0 || size == 0 || start.checked_add(size).is_none() || flags > 15 {
            let rule = format!("{size} bytes at {pointer:p} with flags {flags}: some, not at NULL, flags below 16");
            return Err(Error::InvalidValue.because(rule));
        }
        let mut state = state();
        if state.memory.meets(start, size) {
            let rule = format!("some of the {size} bytes at {pointer:p} are registered already");
            return Err(Error::HostMemoryAlreadyRegistered.because(rule));
        }
        state.memory.register(start, size, flags);
        Ok(())
    }

    /// Ends what cudaHostRegister began at this address.
    ///
    /// Status: cudaErrorInvalidValue for NULL; cudaErrorHostMemoryNotRegistered if nothing is
    /// registered there.
    fn cudaHostUnregister(pointer: *mut c_void) {
        if pointer.is_null() {
            return Err(Error::InvalidValue.because("ptr is NULL"));
        }
        if state().memory.unregister(pointer.expose_provenance()) {
            return Ok(());
        }
        Err(Error::HostMemoryNotRegistered.because(format_args!("{pointer:p} is not registered")))
    }

    /// The device's address of pinned memory: the same.
    ///
    /// Status: cudaErrorInvalidValue for NULL, other memory, or flags.
    fn cudaHostGetDevicePointer(device: Out<*mut c_void>, host: *mut c_void, flags: u32) {
        let pinned = state().memory.find(host.expose_provenance()).is_some_and(|(_, block)| block.kind() != Kind::Device);
        if !pinned || flags != 0 {
            let rule = format!("{host:p} with flags {flags}: pinned memory, and no flags");
            return Err(Error::InvalidValue.because(rule));
        }
        put(device, "pDevice", host)
    }

    /// The flags that pinned memory was allocated with.
    ///
    /// Status: cudaErrorInvalidValue for NULL or other memory.
    fn cudaHostGetFlags(flags: Out<u32>, host: *mut c_void) {
        let state = state();
        match state.memory.find(host.expose_provenance()) {
            Some((_, block)) if block.kind() == Kind::Host => put(flags, "pFlags", block.flags()),
            _ => Err(Error::InvalidValue.because(format_args!("{host:p} is not pinned memory"))),
        }
    }
}
