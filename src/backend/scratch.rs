//! The scratch of steps, asked for before any of them runs: what comes after the first store of a
//! plan cannot run out of memory.

use super::cpu::arena::{self, Hold};
use super::cpu::kind::Kind;
use super::{Address, Choice, Machine, run_chosen};
use crate::error::Result;
use crate::ops::Step;
use crate::ops::plan::with_kind;

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

/// The bytes of scratch that a step asks for on this thread of the CPU core; 0 where a hold of any
/// size suffices. Operands may be packed or looked at, and are not written.
///
/// # Errors
/// As for [`super::run`].
///
/// # Safety
/// As for [`super::run`].
pub unsafe fn scratch(step: Step<'_>, at: &[Address], machine: Machine) -> Result<usize> {
    if with_kind!(step, kind => kind.is_modest(machine)) {
        return Ok(0);
    }
    // SAFETY: the operands are those of the step, of which no task is run.
    arena::survey(|| unsafe { run_chosen(step, at, machine, None, Choice::First) })
}
