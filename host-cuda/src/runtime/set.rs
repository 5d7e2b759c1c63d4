//! Memory of one value: bytes, and in graphs also pairs and quadruples of them.

use std::ffi::c_void;

use super::capture;
use super::error::{Error, Result};
use super::model::Handle;
use super::model::copy::{Extent, Pitched, Rows};
use super::model::operation::Operation;
use super::model::set::Set;

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
        capture::now(Operation::Set(flat(pointer, value, count)))
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemset; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemsetAsync(pointer: *mut c_void, value: i32, count: usize, stream: Handle) {
        capture::ordered(stream, Operation::Set(flat(pointer, value, count)))
    }

    /// Sets `height` rows of `width` bytes.
    ///
    /// Status: cudaErrorInvalidPitchValue for a pitch below `width`, or one that is negative; as
    /// cudaMemset.
    fn cudaMemset2D(pointer: *mut c_void, pitch: usize, value: i32, width: usize, height: usize) {
        capture::now(Operation::Set(plane(pointer, pitch, value, width, height)))
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemset2D; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemset2DAsync(
        pointer: *mut c_void, pitch: usize, value: i32, width: usize, height: usize, stream: Handle,
    ) {
        capture::ordered(stream, Operation::Set(plane(pointer, pitch, value, width, height)))
    }

    /// Sets `extent.depth` slices of rows.
    ///
    /// Status: as cudaMemset2D.
    fn cudaMemset3D(pitched: Pitched, value: i32, extent: Extent) {
        capture::now(Operation::Set(solid(pitched, value, extent)?))
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemset3D; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemset3DAsync(pitched: Pitched, value: i32, extent: Extent, stream: Handle) {
        capture::ordered(stream, Operation::Set(solid(pitched, value, extent)?))
    }
}
