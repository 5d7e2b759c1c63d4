//! The obvious loops of ragged batches: every batch, every element.

use super::Kind;
use crate::backend::Address;
use crate::backend::batches::Batches;
use crate::dtype::convert::{Element, with_element};
use crate::error::Result;
use crate::ops::ragged::{Ragged, RaggedFunction};

/// Runs `step`; `at` are its operands as [`RaggedFunction`] lists them.
///
/// # Errors
/// Bad parameter for offsets that are negative or decrease; nothing is written then.
///
/// # Safety
/// The dense operand has the elements that the step says, aligned; so has the ragged one those that
/// its offsets say, of which there is one more than batches.
pub unsafe fn ragged(step: &Ragged, at: &[Address]) -> Result<()> {
    let batches = Batches::of(step, at);
    // SAFETY: there is an offset more than batches, each readable.
    unsafe { batches.check() }?;
    let is_load = step.function == RaggedFunction::Load;
    let [dense, lists] = if is_load { [at[0], at[1]] } else { [at[1], at[0]] };
    for batch in 0..step.batches {
        // SAFETY: there is an offset more than batches, each readable.
        let (begin, length) = unsafe { batches.range(batch) };
        with_element!(step.scalar, T => step.nest.for_each(|[near, far]| {
            let near = dense.pointer().cast::<T>().wrapping_offset((batch * step.stride + near) as isize);
            let far_at = lists.pointer().cast::<T>().wrapping_offset((begin + far) as isize);
            // SAFETY: an element of the dense operand, and one of the batch if it is in front of
            // its end.
            unsafe {
                match (is_load, far < length) {
                    (true, true) => near.write(far_at.read()),
                    (true, false) => near.write(T::ZERO),
                    (false, true) => far_at.write(near.read()),
                    (false, false) => {}
                }
            }
        }));
    }
    Ok(())
}

impl Kind for Ragged {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { ragged(self, at) }
    }
}
