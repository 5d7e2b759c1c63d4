//! The phases of a stride: computed together, where a kernel writes whole rows, else one by one.

use std::cell::Cell;

use super::engine::Operands;
use super::finish::Outputs;
#[cfg(target_arch = "x86_64")]
use super::{AVX2_SINGLE, AVX512_SINGLE};
use super::{Job, Machine, PORTABLE_SINGLE, depthwise, kernel, run};
use crate::error::Result;
use crate::ops::contract::{Accumulate, Contract, MAX_OPERANDS};

/// Runs the parts of one destination, which differ in nothing but their loops, in any order; together, where a kernel writes
/// whole rows of it.
///
/// # Errors
/// As for [`run`].
///
/// # Safety
/// As for [`run`], for each of them; elements that they write are distinct.
pub unsafe fn run_phases(steps: &[Contract], at: &[*mut u8], machine: Machine) -> Result<()> {
    // SAFETY: handed on.
    unsafe {
        let done = together(steps, at, machine, None);
        done.unwrap_or_else(|| steps.iter().try_for_each(|step| run(step, at, machine, None)))
    }
}

/// The name of the kernel that [`run_phases`] computes all steps with, or else the first one.
pub fn kernel_of_phases(steps: &[Contract], machine: Machine) -> Option<&'static str> {
    let taken = Cell::new(None);
    let at = [std::ptr::null_mut(); MAX_OPERANDS];
    // SAFETY: only the choice is made: no address is followed.
    unsafe { together(steps, &at, machine, Some(&taken)) };
    taken.get().or_else(|| kernel(steps.first()?, machine))
}

/// [`run_phases`] for steps that are computed together; `None`, and nothing done, for others. `taken` as in [`Job`].
///
/// # Safety
/// As for [`run_phases`].
unsafe fn together(
    steps: &[Contract], at: &[*mut u8], machine: Machine, taken: Option<&Cell<Option<&'static str>>>,
) -> Option<Result<()>> {
    let first = steps.first()?;
    let fits = |step: &Contract| step.is_canonical() && !step.is_empty();
    if first.accumulate != Accumulate::Single || !steps.iter().all(fits) {
        return None;
    }
    let operands = Operands { a: at[1], b: at[2], isa: machine.isa };
    let outputs = Outputs::of(first, at, machine.isa);
    let job = Job { outputs, operands, transformed: false, threads: machine.threads, panels: None, taken };
    // SAFETY: handed on; the level is one that the processor has.
    unsafe {
        match machine.isa {
            #[cfg(target_arch = "x86_64")]
            isa if isa.has_avx512() => depthwise(&job, steps, &AVX512_SINGLE),
            #[cfg(target_arch = "x86_64")]
            isa if isa.has_avx2() => depthwise(&job, steps, &AVX2_SINGLE),
            _ => depthwise(&job, steps, &PORTABLE_SINGLE),
        }
    }
}
