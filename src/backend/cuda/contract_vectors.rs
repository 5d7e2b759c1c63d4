//! Which operands of a contraction lie in aligned vectors of 16 bytes, so that kernels of several
//! stages (`kernels/contract_multistage.cuh`) take them.

use super::formula::numbered;
use crate::dtype::Scalar;
use crate::layout::Axis;
use crate::ops::Compute;
use crate::ops::contract::{Contract, Parts, Role};

/// Bytes of a vector.
const VECTOR: i64 = 16;
/// Loops of a sum but for the innermost one, and bounds, at most.
const TAPS: usize = 3;
/// Terms of a step of the kernels.
const STEP: i64 = 32;
/// Channels, which the kernels count in 32 bits.
const NEAR: i64 = 1 << 30;

/// The loops of a part as kernels walk them, innermost first.
pub(super) fn innermost_first(
    step: &Contract, part: impl Fn(Role) -> bool,
) -> impl Iterator<Item = (usize, &Axis<5>)> {
    let loops = step.nest.axes().iter().enumerate().rev();
    loops.filter(move |&(i, _)| part(step.roles()[i]))
}

/// The parts that sums are cut into, if the workspace has room.
pub(super) fn parts(step: &Contract) -> Option<Parts> {
    let parts = Parts::of(step)?;
    let needed = parts.workspace(step.accumulate)?;
    (needed <= step.workspace).then_some(parts)
}

/// Whether 16 neighbouring bytes of an operand, which starts at `at`, are terms of one sum, aligned
/// and all inside or none.
pub(super) fn is_by_16(step: &Contract, operand: usize, at: u64) -> bool {
    let scalar = if operand == 1 { step.a } else { step.b };
    let size = scalar.size() as i64;
    let neighbours = 16 / size;
    let Some((inner, run)) = innermost_first(step, |role| role == Role::K).next() else { return false };
    let is_bound =
        step.bounds().iter().any(|bound| bound.axes.iter().any(|&axis| usize::from(axis) == inner));
    let others = step.nest.axes().iter().enumerate().filter(|&(i, _)| i != inner);
    let aligned = |offset: i64| offset % neighbours == 0;
    run.strides[operand] == 1
        && aligned(run.extent)
        && !(is_bound && operand == 1)
        && others.into_iter().all(|(_, axis)| aligned(axis.strides[operand]))
        && at.wrapping_add_signed(step.nest.offsets[operand].wrapping_mul(size)).is_multiple_of(16)
}

/// Whether eight neighbours of an operand, which starts at `at`, are columns of one row, aligned to
/// vectors, as many as its type needs for them.
fn is_by_columns(step: &Contract, operand: usize, scalar: Scalar, at: u64) -> bool {
    let size = scalar.size() as i64;
    let Some((inner, run)) = innermost_first(step, |role| role == Role::N).next() else { return false };
    let mut others = step.nest.axes().iter().enumerate().filter(|&(i, _)| i != inner);
    let start = step.nest.offsets[operand].wrapping_mul(size);
    run.strides[operand] == 1
        && run.extent % 8 == 0
        && others.all(|(_, axis)| axis.strides[operand].wrapping_mul(size) % VECTOR == 0)
        && at.wrapping_add_signed(start).is_multiple_of(VECTOR as u64)
}

/// Along what `b` lies in vectors: [`Role::K`] or [`Role::N`]; `None` if it does not, or if
/// something else keeps kernels of several stages from the step.
pub(super) fn of_b(step: &Contract, at: &[u64]) -> Option<Role> {
    let epilogue = &step.epilogue;
    let taps = innermost_first(step, |role| role == Role::K).count().checked_sub(1)?;
    let (_, inner) = innermost_first(step, |role| role == Role::K).next()?;
    if taps > TAPS || inner.extent >= NEAR || step.bounds().len() > TAPS {
        return None;
    }
    // What kernels of several stages finish eight at a time.
    let finishes = |operand: usize, scalar: Scalar, slot: usize| {
        matches!(scalar, Scalar::F16 | Scalar::Bf16 | Scalar::F32)
            && is_by_columns(step, operand, scalar, at[slot])
    };
    let (_, _, calls) = numbered(epilogue.activation);
    let is_finished = finishes(0, step.dst, 0)
        && epilogue.z.zip(step.z_slot()).is_none_or(|((scalar, _), slot)| finishes(3, scalar, slot))
        && epilogue.bias.zip(step.bias_slot()).is_none_or(|(scalar, slot)| finishes(4, scalar, slot));
    if calls || step.real() == Compute::Double || !is_finished {
        return None;
    }
    if !is_by_16(step, 1, at[1]) || parts(step).is_some() {
        return None;
    }
    if is_by_16(step, 2, at[2]) {
        return Some(Role::K);
    }
    let is_narrow = step.b.size() == 2;
    (is_narrow && inner.extent % STEP == 0 && is_by_columns(step, 2, step.b, at[2])).then_some(Role::N)
}
