//! Operands that share memory: who meets whom, and copies of what would be overwritten before it is read.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::ops::ByteSpan;

/// A copy of the bytes around a data pointer, alive while a plan reads it.
pub(super) struct Staged {
    words: Vec<u64>,
    low: i64,
}

impl Staged {
    /// Copies a span.
    ///
    /// # Errors
    /// Host allocation.
    ///
    /// # Safety
    /// Every byte of the span around `from` is readable.
    pub unsafe fn copy(from: *const u8, (low, high): ByteSpan) -> Result<Self> {
        let len = (high - low) as usize;
        let mut words: Vec<u64> = Vec::new();
        words.try_reserve_exact(len.div_ceil(8)).map_err(|_| Error::HostAllocation { bytes: len })?;
        // SAFETY: the span is readable by the caller's promise, and `words` has room for it.
        unsafe {
            let first = from.wrapping_offset(low as isize);
            words.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(first, len);
        }
        Ok(Staged { words, low })
    }

    /// The data pointer into the copy. Its 8-byte alignment serves every scalar: a span starts at a multiple of the
    /// scalar's size from its pointer.
    pub fn base(&self) -> *const u8 {
        self.words.as_ptr().cast::<u8>().wrapping_offset(-(self.low as isize))
    }
}

/// Whether two spans around pointers share a byte.
///
/// # Errors
/// As [`addresses`].
#[inline]
pub(super) fn overlap(a: (*const u8, ByteSpan), b: (*mut u8, ByteSpan)) -> Result<bool> {
    let a = addresses(a.0.addr(), a.1)?;
    let b = addresses(b.0.addr(), b.1)?;
    Ok(a.start < b.end && b.start < a.end)
}

/// What the CUDA core answers where the CPU core would keep a copy.
pub(super) fn refusal(src: &str, dst: &str) -> Error {
    Error::unsupported(format!(
        "{src} and {dst} overlap: the CUDA core does that only where every element is its own source, for it \
         allocates no memory to keep a copy of the source"
    ))
}

/// The addresses that a byte span around a pointer covers.
///
/// # Errors
/// A mismatch if the span does not fit the address space, so that the pointer cannot belong to such a tensor.
#[inline]
pub(super) fn addresses(base: usize, (low, high): ByteSpan) -> Result<Range<usize>> {
    let end = |offset: i64| isize::try_from(offset).ok().and_then(|offset| base.checked_add_signed(offset));
    match (end(low), end(high)) {
        (Some(low), Some(high)) => Ok(low..high),
        _ => Err(Error::mismatch(format!(
            "a tensor of {low}..{high} bytes around {base:#x} does not fit the address space"
        ))),
    }
}
