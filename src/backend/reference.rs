//! The obvious loops: every step, one element at a time. The yardstick of all tests and the last
//! resort.

mod aggregate;
mod attend;
mod attend_backward;
mod causal;
mod contract;
mod ctc;
mod map;
mod normalise;
mod ragged;
mod random;
mod reduce;
mod row_norm;
mod rows;
mod sample;
mod window;

pub use aggregate::aggregate;
pub use attend::{attend, attend_row};
pub use attend_backward::{attend_backward, gradient_columns, gradient_row, gradient_rows};
pub use causal::causal;
pub use contract::{contract, sums};
pub use ctc::{ctc, words};
pub use map::map;
pub use normalise::{normalise, normalise_backward};
pub use ragged::ragged;
pub use random::random;
pub use reduce::reduce;
pub(super) use reduce::store_index;
pub use row_norm::{row_norm, row_norm_backward};
pub use rows::rows;
pub use sample::sample;
pub(super) use window::lowest;
pub use window::window;

use super::{Address, Operands};
use crate::dtype::Scalar;
use crate::dtype::convert::{Element, blend, convert, scale, with_element};
use crate::error::Result;
use crate::ops::plan::with_kind;
use crate::ops::{Padded, Scale, Scaling, Set, Step, Transform, TransformPlan};

/// A kind of steps, implemented for its problem beside its loops.
trait Kind {
    /// Runs the step in exactly the order of its loops.
    ///
    /// # Errors
    /// As for [`run`](fn@run).
    ///
    /// # Safety
    /// As for [`run`](fn@run).
    unsafe fn run(&self, at: &[Address]) -> Result<()>;
}

/// Runs `step` in exactly the order of its loops, so that where destination offsets repeat the last
/// write wins.
///
/// # Errors
/// None; as the other ways to run a step.
///
/// # Safety
/// As for [`super::run`], but destination offsets may repeat.
pub unsafe fn run(step: Step<'_>, at: &[Address]) -> Result<()> {
    // SAFETY: the addresses are as many as the step has operands, with elements as it uses them.
    with_kind!(step, kind => unsafe { kind.run(at) })
}

/// Where the first `N` operands are.
fn pointers<const N: usize>(at: &[Address]) -> [*mut u8; N] {
    std::array::from_fn(|k| at[k].pointer())
}

impl Kind for TransformPlan<'_> {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of every part.
        self.for_each(&mut |part| unsafe { run(part, at) })
    }
}

impl Kind for Transform {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        let [dst, src] = pointers(at);
        // SAFETY: the operands are those of the step.
        unsafe { transform(self, Operands { dst, src }) };
        Ok(())
    }
}

impl Kind for Padded {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the cells of either part are writable at the destination, those that are moved
        // readable at the source.
        unsafe {
            self.transform().run(at)?;
            self.fill().run(at)
        }
    }
}

impl Kind for Scale {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: every cell of the destination is there.
        unsafe { scale_all(self, at[0].pointer()) };
        Ok(())
    }
}

impl Kind for Set {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: every cell of the destination is writable.
        unsafe { set(self, at[0].pointer()) };
        Ok(())
    }
}

/// Runs `transform`; one thread, no vector code.
///
/// # Safety
/// As for [`run`].
pub(super) unsafe fn transform(transform: &Transform, operands: Operands) {
    with_element!(transform.dst, D => with_element!(transform.src, S => {
        transform.nest.for_each(|[dst, src]| {
            // SAFETY: every offset pair of the nest is a readable cell at `src` and a writable one
            // at `dst`.
            unsafe {
                let y = operands.dst.cast::<D>().offset(dst as isize);
                element::<S, D>(y, operands.src.cast::<S>().offset(src as isize), transform.scaling);
            }
        });
    }));
}

/// `*y = convert(alpha * *x + beta * *y)`.
///
/// # Safety
/// `x` is readable; `y` is writable, and readable if `beta != 0`.
unsafe fn element<S: Element, D: Element>(y: *mut D, x: *const S, scaling: Scaling) {
    // SAFETY: `x` is readable, and `y` is writable; it is read only if `beta != 0`, when it is
    // readable, too.
    unsafe {
        let x = x.read();
        y.write(if scaling.is_move() {
            convert(x)
        } else if scaling.beta == 0.0 {
            scale(scaling.alpha, x)
        } else {
            blend(scaling.alpha, x, scaling.beta, y.read())
        });
    }
}

/// Runs `step`; one thread, no vector code.
///
/// # Safety
/// As for [`run`], for the destination alone.
unsafe fn scale_all(step: &Scale, dst: *mut u8) {
    if step.beta == 1.0 {
        return;
    }
    with_element!(step.dst, D => step.nest.for_each(|[offset]| {
        // SAFETY: every offset of the nest is a writable cell, readable if beta is not zero.
        unsafe {
            let y = dst.cast::<D>().offset(offset as isize);
            y.write(if step.beta == 0.0 { D::ZERO } else { scale(step.beta, y.read()) });
        }
    }));
}

/// The scalar at `offset` from `base` as a `T`.
///
/// # Safety
/// It is readable and aligned.
unsafe fn load<T: Element>(scalar: Scalar, base: *const u8, offset: i64) -> T {
    // SAFETY: the element at this offset is readable and aligned.
    with_element!(scalar, S => convert(unsafe { base.cast::<S>().offset(offset as isize).read() }))
}

/// Stores `convert(alpha * x + beta * old)` at `offset` from `base`.
///
/// # Safety
/// The place is writable and aligned, and readable if `beta != 0`.
unsafe fn store<T: Element>(scalar: Scalar, base: *mut u8, offset: i64, x: T, scaling: Scaling) {
    // SAFETY: the element at this offset is writable and aligned, and readable if `beta != 0`.
    with_element!(scalar, D => unsafe { element(base.cast::<D>().offset(offset as isize), &raw const x, scaling) })
}

/// `*y = cell` for every offset of the nest.
///
/// # Safety
/// Every cell of the nest is writable and aligned; offsets may repeat.
pub unsafe fn set(set: &Set, dst: *mut u8) {
    with_element!(set.dst, D => set.nest.for_each(|[offset]| {
        // SAFETY: every offset of the nest is a writable cell.
        unsafe { dst.cast::<D>().offset(offset as isize).write(<D as Element>::from_bits(set.cell)) }
    }));
}
