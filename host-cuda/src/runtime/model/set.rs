//! Rows that are filled with one value.

use std::ffi::c_void;

use super::copy::{Extent, Rows, Side, fits};
use super::memory::Memory;
use crate::runtime::error::Result;

/// Elements of `size` bytes in rows of `extent.width` bytes, all of one value.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    pub(crate) to: Rows,
    pub(crate) extent: Extent,
    pub(crate) size: usize,
    pub(crate) value: u32,
}

impl Set {
    pub(crate) fn bytes(pointer: *mut c_void, pitch: usize, slice: usize, value: i32, extent: Extent) -> Set {
        let to = Rows { address: pointer.expose_provenance(), pitch, slice };
        // The lowest byte, as of `memset`.
        Set { to, extent, size: 1, value: value as u8 as u32 }
    }

    fn is_empty(&self) -> bool {
        self.extent.width == 0 || self.extent.height == 0 || self.extent.depth == 0
    }

    /// Checks the memory.
    pub(crate) fn check(&self, memory: &Memory) -> Result {
        if self.is_empty() { Ok(()) } else { fits(memory, "devPtr", &self.to, &self.extent, Side::Device) }
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
}
