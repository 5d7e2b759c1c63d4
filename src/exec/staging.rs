//! Operands that share memory: which of them overlap, and copies of those that would be overwritten before they are read.

use std::ops::Range;

use crate::backend::Address;
use crate::error::{Error, Result};
use crate::layout::overlap;
use crate::ops::{ByteSpan, Plan};

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
    pub unsafe fn copy(from: Address, (low, high): ByteSpan) -> Result<Self> {
        let len = (high - low) as usize;
        let mut words: Vec<u64> = Vec::new();
        words.try_reserve_exact(len.div_ceil(8)).map_err(|_| Error::HostAllocation { bytes: len })?;
        // SAFETY: every byte of the span around `from` is readable, and `words` has room for them.
        unsafe {
            let first = from.pointer().wrapping_offset(low as isize);
            words.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(first, len);
        }
        Ok(Staged { words, low })
    }

    /// The data pointer into the copy. Its 8-byte alignment serves every scalar: a span starts at a multiple of the
    /// scalar's size from its pointer.
    pub fn base(&self) -> Address {
        Address::from(self.words.as_ptr().cast::<u8>().wrapping_offset(-(self.low as isize)))
    }
}

/// Whether two operands of a plan share a byte: judged by their elements where their layouts are known and that can be
/// decided, by their spans else.
///
/// # Errors
/// As [`addresses`].
#[inline]
pub(super) fn overlap(plan: &dyn Plan, pair: [usize; 2], at: &[Address]) -> Result<bool> {
    let operand = |k: usize| &plan.operands()[pair[k]];
    let a = addresses(at[pair[0]], operand(0).span)?;
    let b = addresses(at[pair[1]], operand(1).span)?;
    Ok(a.start < b.end && b.start < a.end && !is_apart(plan, pair, at))
}

#[cold]
fn is_apart(plan: &dyn Plan, pair: [usize; 2], at: &[Address]) -> bool {
    let [Some(a), Some(b)] = pair.map(|k| plan.layout(k)) else { return false };
    let sizes = pair.map(|k| plan.operands()[k].scalar.size());
    let distance = at[pair[1]].addr().wrapping_sub(at[pair[0]].addr()) as i64;
    overlap::are_disjoint([a, b], sizes, distance)
}

/// What any core answers where one call writes one place twice.
#[cold]
pub(super) fn both_written(one: &str, other: &str) -> Error {
    Error::mismatch(format!("{one} and {other} overlap, and both are written"))
}

/// What the CUDA core answers where the CPU core would keep a copy.
#[cold]
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
pub(super) fn addresses(base: Address, (low, high): ByteSpan) -> Result<Range<usize>> {
    let end =
        |offset: i64| isize::try_from(offset).ok().and_then(|offset| base.addr().checked_add_signed(offset));
    match (end(low), end(high)) {
        (Some(low), Some(high)) => Ok(low..high),
        _ => Err(Error::mismatch(format!(
            "a tensor of {low}..{high} bytes around {:#x} does not fit the address space",
            base.addr()
        ))),
    }
}
