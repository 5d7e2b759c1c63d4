//! Which operands of a contraction lie in aligned vectors of 16 bytes, so that kernels of several
//! stages (`kernels/contract_mainloop.cuh`) take them.

use super::params::numbered;
use crate::dtype::Scalar;
use crate::layout::Axis;
use crate::ops::Compute;
use crate::ops::contract::{Accumulate, Contract, Parts, Role};

/// Bytes of a vector.
const VECTOR: i64 = 16;
/// Loops of a sum but for the innermost one, and bounds, at most.
const TAPS: usize = 3;
/// Bytes of the terms of a step of the kernels.
const STEP: i64 = 64;
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

/// Whether eight neighbours of an operand, which starts at `at`, are columns of one row, or rows of
/// one column, aligned to vectors, as many as its type needs for them.
fn is_by_eight(step: &Contract, along: Role, operand: usize, scalar: Scalar, at: u64) -> bool {
    let size = scalar.size() as i64;
    let Some((inner, run)) = innermost_first(step, |role| role == along).next() else { return false };
    let mut others = step.nest.axes().iter().enumerate().filter(|&(i, _)| i != inner);
    let start = step.nest.offsets[operand].wrapping_mul(size);
    run.strides[operand] == 1
        && run.extent % 8 == 0
        && others.all(|(_, axis)| axis.strides[operand].wrapping_mul(size) % VECTOR == 0)
        && at.wrapping_add_signed(start).is_multiple_of(VECTOR as u64)
}

/// Along what `a` and `b` lie in vectors: both in terms of a sum, `a` in terms and `b` in columns,
/// or `a` in rows and `b` in columns; `None` if they do not, or if something else keeps kernels of
/// several stages from the step. `is_cut` tells whether its sums are cut into parts.
pub(super) fn of_factors(step: &Contract, is_cut: bool, at: &[u64]) -> Option<[Role; 2]> {
    if step.bounds().len() > TAPS || step.real() == Compute::Double {
        return None;
    }
    if !is_cut && is_by_terms(step, at) {
        if is_by_16(step, 2, at[2]) {
            return Some([Role::K, Role::K]);
        }
        let (_, inner) = innermost_first(step, |role| role == Role::K).next()?;
        let is_whole = is_factor(step.b) && inner.extent * step.b.size() as i64 % STEP == 0;
        return (is_whole && is_by_eight(step, Role::N, 2, step.b, at[2])).then_some([Role::K, Role::N]);
    }
    let has_room = !is_cut || step.workspace_slot().is_some_and(|slot| at[slot].is_multiple_of(16));
    (has_room && is_across(step, at)).then_some([Role::M, Role::N])
}

/// Whether terms of `a` lie together, and results are finished eight columns at a time.
fn is_by_terms(step: &Contract, at: &[u64]) -> bool {
    let mut loops = innermost_first(step, |role| role == Role::K);
    let is_counted = loops.next().is_some_and(|(_, inner)| inner.extent < NEAR) && loops.count() <= TAPS;
    is_counted && is_finished(step, Role::N, at) && is_by_16(step, 1, at[1])
}

/// Whether rows of `a` and of results lie together, none of which leaves a window alone, and
/// columns of `b`, which change places with terms on their way from shared memory.
fn is_across(step: &Contract, at: &[u64]) -> bool {
    let inner = innermost_first(step, |role| role == Role::M).next().map(|(inner, _)| inner);
    let is_bound =
        step.bounds().iter().any(|bound| bound.axes.iter().any(|&axis| Some(usize::from(axis)) == inner));
    is_factor(step.a)
        && is_factor(step.b)
        && !is_bound
        && step.extent(Role::K) > 0
        && is_finished(step, Role::M, at)
        && is_by_eight(step, Role::M, 1, step.a, at[1])
        && is_by_eight(step, Role::N, 2, step.b, at[2])
}

/// Whether fragments of it change places with terms.
fn is_factor(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::F16 | Scalar::Bf16 | Scalar::F32)
}

/// Whether results, and what is added to them, lie eight at a time along rows or columns. Sums of
/// bytes also end as bytes.
fn is_finished(step: &Contract, along: Role, at: &[u64]) -> bool {
    let epilogue = &step.epilogue;
    let finishes = |operand: usize, scalar: Scalar, slot: usize| {
        let of_bytes = step.accumulate == Accumulate::Int32 && scalar == Scalar::I8;
        (is_factor(scalar) || of_bytes) && is_by_eight(step, along, operand, scalar, at[slot])
    };
    let (_, _, calls) = numbered(epilogue.activation);
    !calls
        && finishes(0, step.dst, 0)
        && epilogue.z.zip(step.z_slot()).is_none_or(|((scalar, _), slot)| finishes(3, scalar, slot))
        && epilogue.bias.zip(step.bias_slot()).is_none_or(|(scalar, slot)| finishes(4, scalar, slot))
}
