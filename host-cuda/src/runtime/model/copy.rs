//! Rows of slices, and copies of them.

use std::ffi::c_void;

use super::guarded;
use super::memory::{Kind, Memory};
use crate::runtime::error::{Error, Result};

/// `cudaExtent`: width in bytes, height in rows, depth in slices.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Extent {
    /// Bytes of a row.
    pub width: usize,
    /// Rows of a slice.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

/// `cudaPitchedPtr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Pitched {
    /// The first byte.
    pub pointer: *mut c_void,
    /// Bytes from row to row.
    pub pitch: usize,
    /// The width that was asked for.
    pub width: usize,
    /// Rows of a slice.
    pub height: usize,
}

/// Where rows begin, and the bytes from row to row and from slice to slice.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    pub(crate) address: usize,
    pub(crate) pitch: usize,
    pub(crate) slice: usize,
}

/// A copy of `depth` slices of `height` rows of `width` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    pub(crate) to: Rows,
    pub(crate) from: Rows,
    pub(crate) extent: Extent,
    pub(crate) kind: i32,
}

/// What `cudaMemcpyKind` says of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Host,
    Device,
    /// `cudaMemcpyDefault`: the address says.
    Any,
}

fn sides(kind: i32) -> Result<(Side, Side)> {
    Ok(match kind {
        0 => (Side::Host, Side::Host),
        1 => (Side::Device, Side::Host),
        2 => (Side::Host, Side::Device),
        3 => (Side::Device, Side::Device),
        4 => (Side::Any, Side::Any),
        _ => return Err(Error::InvalidMemcpyDirection.because(format_args!("kind is {kind}, not 0 to 4"))),
    })
}

/// Bytes from the first to the last of rows, if any memory is as large.
pub(crate) fn span(rows: &Rows, extent: &Extent) -> Option<usize> {
    let slices = (extent.depth - 1).checked_mul(rows.slice)?;
    let below = (extent.height - 1).checked_mul(rows.pitch)?;
    let bytes = slices.checked_add(below)?.checked_add(extent.width)?;
    (bytes <= isize::MAX as usize).then_some(bytes)
}

/// Whether `rows` fit where they are: a whole pitch each, inside a block if they begin in one.
pub(crate) fn fits(memory: &Memory, name: &str, rows: &Rows, extent: &Extent, side: Side) -> Result {
    let invalid =
        |rule: std::fmt::Arguments| Err(Error::InvalidValue.because(format_args!("{name}: {rule}")));
    if rows.address == 0 {
        return invalid(format_args!("NULL"));
    }
    if extent.height > 1 && (rows.pitch < extent.width || rows.pitch > isize::MAX as usize) {
        let rule = format!("{name}: a pitch of {} bytes for rows of {}", rows.pitch, extent.width);
        return Err(Error::InvalidPitchValue.because(rule));
    }
    let Some(bytes) = span(rows, extent) else {
        return invalid(format_args!("{extent:?}: no memory is as large"));
    };
    match (memory.find(rows.address), side) {
        (None, Side::Device) => invalid(format_args!("{:#x} is not device memory", rows.address)),
        (None, _) => Ok(()),
        (Some((_, block)), Side::Host) if block.kind() == Kind::Device => {
            invalid(format_args!("{:#x} is device memory, the direction says host", rows.address))
        }
        (Some((start, block)), _) => {
            let left = block.reach() - (rows.address - start);
            if bytes <= left {
                return Ok(());
            }
            invalid(format_args!(
                "{bytes} bytes from {:#x}, where {left} are left of a block of {} bytes",
                rows.address,
                block.size()
            ))
        }
    }
}

impl Copy {
    pub(crate) fn flat(to: *mut c_void, from: *const c_void, count: usize, kind: i32) -> Copy {
        let rows = |address| Rows { address, pitch: count, slice: count };
        Copy {
            to: rows(to.expose_provenance()),
            from: rows(from.expose_provenance()),
            extent: Extent { width: count, height: 1, depth: 1 },
            kind,
        }
    }

    fn is_empty(&self) -> bool {
        self.extent.width == 0 || self.extent.height == 0 || self.extent.depth == 0
    }

    /// Checks direction and memory.
    pub(crate) fn check(&self, memory: &Memory) -> Result {
        let (to, from) = sides(self.kind)?;
        if self.is_empty() {
            return Ok(());
        }
        fits(memory, "dst", &self.to, &self.extent, to)?;
        fits(memory, "src", &self.from, &self.extent, from)?;
        let (a, b, count) = (self.to.address, self.from.address, self.extent.width);
        let is_one_row = self.extent.height == 1 && self.extent.depth == 1;
        if guarded::is_on() && is_one_row && a != b && a.abs_diff(b) < count {
            let rule =
                format!("dst {a:#x} and src {b:#x} of {count} bytes overlap, which has no defined result");
            return Err(Error::InvalidValue.because(rule));
        }
        Ok(())
    }

    /// Copies; overlapping rows as if each went through a buffer.
    ///
    /// # Safety
    /// The rows are there, and nobody else writes them or the source meanwhile.
    pub unsafe fn run(&self) {
        if self.is_empty() {
            return;
        }
        for slice in 0..self.extent.depth {
            for row in 0..self.extent.height {
                let at = |rows: &Rows| rows.address + slice * rows.slice + row * rows.pitch;
                let to: *mut u8 = std::ptr::with_exposed_provenance_mut(at(&self.to));
                let from: *const u8 = std::ptr::with_exposed_provenance(at(&self.from));
                // SAFETY: a row of those that the caller vouches for.
                unsafe { to.copy_from(from, self.extent.width) };
            }
        }
    }
}
