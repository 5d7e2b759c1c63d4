//! Memory of one value: bytes, and in graphs also pairs and quadruples of them.

use std::ffi::c_void;

use super::capture;
use super::copy::{Rows, Side, fits};
use super::error::{Error, Result};
use super::memory::{Extent, Pitched};
use super::operation::Operation;
use super::state::{Handle, State, state};

/// Elements of `size` bytes in rows of `extent.width` bytes, all of one value.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    pub(super) to: Rows,
    pub(super) extent: Extent,
    pub(super) size: usize,
    pub(super) value: u32,
}

/// `cudaMemsetParams`, of a node of a graph.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Parameters {
    to: *mut c_void,
    pitch: usize,
    value: u32,
    element_size: u32,
    width: usize,
    height: usize,
}

impl Parameters {
    /// What they describe.
    pub(super) fn set(&self) -> Result<Set> {
        let size = self.element_size as usize;
        if !matches!(size, 1 | 2 | 4) {
            return Err(Error::InvalidValue.because(format_args!("elementSize is {size}, not 1, 2 or 4")));
        }
        let Some(width) = self.width.checked_mul(size) else {
            return Err(
                Error::InvalidValue.because(format_args!("width is {}: no memory is as large", self.width))
            );
        };
        // The pitch of one row may be anything.
        let pitch = if self.height == 1 { width } else { self.pitch };
        let to = Rows { address: self.to.expose_provenance(), pitch, slice: 0 };
        Ok(Set { to, extent: Extent { width, height: self.height, depth: 1 }, size, value: self.value })
    }

    /// Describes it.
    pub(super) fn of(set: &Set) -> Parameters {
        Parameters {
            to: std::ptr::with_exposed_provenance_mut(set.to.address),
            pitch: set.to.pitch,
            value: set.value,
            element_size: set.size as u32,
            width: set.extent.width / set.size,
            height: set.extent.height,
        }
    }
}

impl Set {
    fn bytes(pointer: *mut c_void, pitch: usize, slice: usize, value: i32, extent: Extent) -> Set {
        let to = Rows { address: pointer.expose_provenance(), pitch, slice };
        // The lowest byte, as of `memset`.
        Set { to, extent, size: 1, value: value as u8 as u32 }
    }

    fn is_empty(&self) -> bool {
        self.extent.width == 0 || self.extent.height == 0 || self.extent.depth == 0
    }

    /// Checks the memory.
    pub(super) fn check(&self, state: &State) -> Result {
        if self.is_empty() { Ok(()) } else { fits(state, "devPtr", &self.to, &self.extent, Side::Device) }
    }

    /// Writes it.
    ///
    /// # Safety
    /// The rows are there, and nobody else uses them meanwhile.
    pub unsafe fn run(&self) {
        if self.is_empty() {
            return;
        }
        let element = &self.value.to_le_bytes()[..self.size];
        for slice in 0..self.extent.depth {
            for row in 0..self.extent.height {
                let at = self.to.address + slice * self.to.slice + row * self.to.pitch;
                let to: *mut u8 = std::ptr::with_exposed_provenance_mut(at);
                if let [byte] = element {
                    // SAFETY: a row of those that the caller vouches for.
                    unsafe { to.write_bytes(*byte, self.extent.width) };
                    continue;
                }
                for (at, byte) in (0..self.extent.width).zip(element.iter().cycle()) {
                    // SAFETY: a byte of this row.
                    unsafe { to.add(at).write(*byte) };
                }
            }
        }
    }

    fn now(self) -> Result {
        {
            let mut state = state();
            capture::refuse_unsafe(&mut state)?;
            self.check(&state)?;
        }
        // SAFETY: the check found the rows inside their block.
        unsafe { self.run() };
        Ok(())
    }

    fn on(self, stream: Handle) -> Result {
        self.check(&state())?;
        // SAFETY: as for `now`.
        unsafe { capture::submit(stream, Operation::Set(self)) }
    }
}

fn flat(pointer: *mut c_void, value: i32, count: usize) -> Set {
    Set::bytes(pointer, count, count, value, Extent { width: count, height: 1, depth: 1 })
}

fn plane(pointer: *mut c_void, pitch: usize, value: i32, width: usize, height: usize) -> Set {
    Set::bytes(pointer, pitch, 0, value, Extent { width, height, depth: 1 })
}

fn solid(pitched: Pitched, value: i32, extent: Extent) -> Result<Set> {
    let Some(slice) = pitched.pitch.checked_mul(pitched.height) else {
        return Err(Error::InvalidValue.because(format_args!("{pitched:?}: no memory is as large")));
    };
    Ok(Set::bytes(pitched.pointer, pitched.pitch, slice, value, extent))
}

runtime! {
    /// Sets `count` bytes of device memory.
    ///
    /// Status: cudaErrorInvalidValue for NULL, memory of the program's own, and more bytes than a
    /// block has left.
    fn cudaMemset(pointer: *mut c_void, value: i32, count: usize) {
        flat(pointer, value, count).now()
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemset; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemsetAsync(pointer: *mut c_void, value: i32, count: usize, stream: Handle) {
        flat(pointer, value, count).on(stream)
    }

    /// Sets `height` rows of `width` bytes.
    ///
    /// Status: cudaErrorInvalidPitchValue for a pitch below `width`, or one that is negative; as
    /// cudaMemset.
    fn cudaMemset2D(pointer: *mut c_void, pitch: usize, value: i32, width: usize, height: usize) {
        plane(pointer, pitch, value, width, height).now()
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemset2D; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemset2DAsync(
        pointer: *mut c_void, pitch: usize, value: i32, width: usize, height: usize, stream: Handle,
    ) {
        plane(pointer, pitch, value, width, height).on(stream)
    }

    /// Sets `extent.depth` slices of rows.
    ///
    /// Status: as cudaMemset2D.
    fn cudaMemset3D(pitched: Pitched, value: i32, extent: Extent) {
        solid(pitched, value, extent)?.now()
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemset3D; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemset3DAsync(pitched: Pitched, value: i32, extent: Extent, stream: Handle) {
        solid(pitched, value, extent)?.on(stream)
    }
}
