//! Ragged batches on the CPU: a row of the innermost loop at a time.

use super::kind::{Call, Kind};
use super::shape::with_cell;
use super::{Machine, threads};
use crate::backend::Address;
use crate::backend::batches::Batches;
use crate::error::Result;
use crate::layout::Axis;
use crate::ops::ragged::{Ragged, RaggedFunction};

impl Kind for Ragged {
    fn is_modest(&self, _machine: Machine) -> bool {
        true
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { run(self, call.at, call.machine) }
    }
}

/// Runs `step` on `machine`; `at` are its operands as [`RaggedFunction`] lists them.
///
/// # Errors
/// As for [`crate::backend::run`]; bad parameter for offsets that are negative or decrease, before
/// anything is written.
///
/// # Safety
/// As for [`crate::backend::reference::ragged`]; the destination does not overlap what is read.
unsafe fn run(step: &Ragged, at: &[Address], machine: Machine) -> Result<()> {
    let batches = Batches::of(step, at);
    // SAFETY: the offsets of all batches are readable.
    unsafe { batches.check() }?;
    let is_load = step.function == RaggedFunction::Load;
    let [dense, lists] = if is_load { [at[0], at[1]] } else { [at[1], at[0]] };
    let (outer, inner) = match step.nest.axes() {
        [outer @ .., inner] => (outer, *inner),
        [] => (&[][..], Axis { extent: 1, strides: [1, 1] }),
    };
    let size = step.scalar.size();
    let rows = outer.iter().map(|axis| axis.extent).product::<i64>();
    let items = (step.batches * rows) as usize;
    let threads = machine.threads_for(items.saturating_mul(inner.extent as usize * size));
    threads::in_ranges(threads, items, 0, &|_, range| {
        for item in range {
            let (batch, mut rest) = (item as i64 / rows, item as i64 % rows);
            let [mut near, mut far] = step.nest.offsets;
            for axis in outer.iter().rev() {
                let turn = rest % axis.extent;
                rest /= axis.extent;
                near += turn * axis.strides[0];
                far += turn * axis.strides[1];
            }
            // SAFETY: the offsets are readable.
            let (begin, length) = unsafe { batches.range(batch) };
            // Elements of the row that lie in front of the batch's end.
            let count = match inner.strides[1] {
                _ if far >= length => 0,
                0 => inner.extent,
                stride => ((length - far - 1) / stride + 1).min(inner.extent),
            } as usize;
            let place =
                |base: Address, offset: i64| base.pointer().wrapping_offset(offset as isize * size as isize);
            let (near, far) = (place(dense, batch * step.stride + near), place(lists, begin + far));
            let [near_step, far_step] = inner.strides.map(|stride| stride as isize);
            // SAFETY: elements of a row that both operands have, and those of the dense one behind
            // them.
            unsafe {
                if is_load {
                    moved(size, [near, far], [near_step, far_step], count);
                    let rest = near.wrapping_offset(count as isize * near_step * size as isize);
                    zeros(size, rest, near_step, inner.extent as usize - count);
                } else {
                    moved(size, [far, near], [far_step, near_step], count);
                }
            }
        }
    })
}

/// # Safety
/// `n` cells at these steps are readable from the second pointer on, and writable from the first
/// one on.
unsafe fn moved(size: usize, [to, from]: [*mut u8; 2], steps: [isize; 2], n: usize) {
    // SAFETY: `n` cells are readable and writable at these steps.
    unsafe {
        if steps == [1, 1] {
            to.copy_from_nonoverlapping(from, n * size);
            return;
        }
        with_cell!(size, W => for i in 0..n as isize {
            to.cast::<W>().offset(i * steps[0]).write_unaligned(from.cast::<W>().offset(i * steps[1]).read_unaligned());
        });
    }
}

/// # Safety
/// `n` cells at this step are writable.
unsafe fn zeros(size: usize, to: *mut u8, step: isize, n: usize) {
    // SAFETY: `n` cells are writable at this step.
    unsafe {
        if step == 1 {
            to.write_bytes(0, n * size);
            return;
        }
        for i in 0..n as isize {
            to.offset(i * step * size as isize).write_bytes(0, size);
        }
    }
}
