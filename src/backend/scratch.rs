//! The scratch of steps, asked for before any of them runs: what comes after the first store of a
//! plan cannot run out of memory.

use super::cpu::arena::{self, Hold, KEPT_BYTES};
use super::cpu::normalise;
use super::{Address, Choice, Machine, run_chosen};
use crate::error::Result;
use crate::ops::Step;
use crate::ops::contract::{Contract, Role};

/// Whether this thread holds the scratch of the plans that it runs.
pub fn is_held() -> bool {
    arena::is_held()
}

/// Keeps scratch for steps that ask for `bytes` bytes, as [`scratch`] tells, and for all that ask
/// for less, until the hold goes.
///
/// # Errors
/// Host allocation.
pub fn hold(bytes: usize) -> Result<Hold> {
    arena::hold(bytes)
}

/// Calls `work` with `bytes` bytes of this thread's scratch until it returns; none are had for 0.
///
/// # Errors
/// Host allocation, and `work` was not called then; what `work` returns.
pub fn lend<R>(bytes: usize, work: impl FnOnce(*mut u8) -> Result<R>) -> Result<R> {
    arena::with(bytes, work)
}

/// Whether no hold keeps less than products of at most these extents ask for, in any order.
pub fn is_kept(extents: [i64; 3]) -> bool {
    most_scratch(extents) <= KEPT_BYTES
}

/// More bytes of scratch than products of at most these extents ask for, in any order: copies of
/// their matrices, padded to whole tiles and transformed.
pub fn most_scratch(extents: [i64; 3]) -> usize {
    /// Lanes of the largest tile.
    const TILE: i64 = 64;
    /// A copy in the widest type, and what Winograd's algorithm makes of it.
    const COPIES: usize = 4 * 8;
    let [m, n, k] = extents.map(|extent| extent.saturating_add(TILE));
    let cells = m.saturating_mul(k).saturating_add(k.saturating_mul(n)).saturating_add(m.saturating_mul(n));
    usize::try_from(cells).unwrap_or(usize::MAX).saturating_mul(COPIES)
}

/// The bytes of scratch that a step asks for on this thread of the CPU core; 0 where a hold of any
/// size suffices. Operands may be packed or looked at, and are not written.
///
/// # Errors
/// As for [`super::run`].
///
/// # Safety
/// As for [`super::run`].
pub unsafe fn scratch(step: Step<'_>, at: &[Address], machine: Machine) -> Result<usize> {
    if is_modest(step, machine) {
        return Ok(0);
    }
    // SAFETY: the operands are those of the step, of which no task is run.
    arena::survey(|| unsafe { run_chosen(step, at, machine, None, Choice::First) })
}

/// Whether a step asks for no more than every hold keeps, whatever kernel runs it.
fn is_modest(step: Step<'_>, machine: Machine) -> bool {
    let normalises = |groups: i64| normalise::most_scratch(groups as usize, machine) <= KEPT_BYTES;
    match step {
        Step::Contract(step) => is_small(step),
        Step::Phases(phases) => phases.0.iter().all(is_small),
        Step::Normalise(step) => normalises(step.groups.len()),
        Step::NormaliseBackward(step) => normalises(step.groups.len()),
        // Their scratch grows with extents.
        Step::Rows(_)
        | Step::RowNorm(_)
        | Step::RowNormBackward(_)
        | Step::Reduce(_)
        | Step::Window(_)
        | Step::Sample(_)
        | Step::Causal(_)
        | Step::Ctc(_) => false,
        // Buffers of a tile, a few rows, or none.
        Step::Mapped(_)
        | Step::Transform(_)
        | Step::Padded(_)
        | Step::Scale(_)
        | Step::Set(_)
        | Step::Map(_)
        | Step::WideMap(_)
        | Step::Random(_)
        | Step::Aggregate(_)
        | Step::Ragged(_)
        | Step::Words(_) => true,
    }
}

/// Whether a contraction is so small that its scratch fits into any hold.
fn is_small(step: &Contract) -> bool {
    let batch = usize::try_from(step.extent(Role::Batch)).unwrap_or(usize::MAX);
    let one = most_scratch([Role::M, Role::N, Role::K].map(|role| step.extent(role)));
    one.saturating_mul(batch) <= KEPT_BYTES
}
