//! Offsets of ragged batches in memory of the host: how they are read, and what they have to be
//! before anything is written.

use super::Address;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::ops::ragged::Ragged;

/// Where batches begin and end.
#[derive(Clone, Copy)]
pub(super) struct Batches<'a> {
    step: &'a Ragged,
    offsets: Address,
}

impl<'a> Batches<'a> {
    /// The batches of a step's operands.
    pub fn of(step: &'a Ragged, at: &[Address]) -> Self {
        Batches { step, offsets: at[2] }
    }

    /// # Safety
    /// The offset is readable.
    unsafe fn offset(&self, at: i64) -> i64 {
        let pointer = self.offsets.pointer();
        // SAFETY: the offset is readable, of the type that the step names.
        unsafe {
            match self.step.index {
                Scalar::I32 => pointer.cast::<i32>().offset(at as isize).read().into(),
                _ => pointer.cast::<i64>().offset(at as isize).read(),
            }
        }
    }

    /// Elements in front of a batch, and those from there to the next one. Pre: the offsets are in
    /// order.
    ///
    /// # Safety
    /// The offsets are readable.
    pub unsafe fn range(&self, batch: i64) -> (i64, i64) {
        // SAFETY: the offsets of all batches and of their end are readable.
        let [begin, end] = unsafe { [self.offset(batch), self.offset(batch + 1)] };
        (begin * self.step.multiplier, (end - begin) * self.step.multiplier)
    }

    /// Refuses offsets that are negative, decrease, or lead out of 64 bits.
    ///
    /// # Errors
    /// Bad parameter, with the offset.
    ///
    /// # Safety
    /// The offsets are readable.
    pub unsafe fn check(&self) -> Result<()> {
        let mut last = 0;
        for batch in 0..=self.step.batches {
            // SAFETY: the offsets of all batches and of their end are readable.
            let offset = unsafe { self.offset(batch) };
            let bytes = offset.checked_mul(self.step.multiplier).and_then(|offset| offset.checked_mul(16));
            if offset < last || bytes.is_none() {
                let rule = format!("offsets of batches do not decrease; the last was {last}");
                return Err(Error::element("ragged offsets", batch as usize, offset, rule));
            }
            last = offset;
        }
        Ok(())
    }
}
