//! The phases of a stride: computed together, where a kernel writes whole rows, else one by one.

use super::problem::Problem;
use super::table::STRIDE_PHASES;
use super::{Machine, kernel, kernels, run};
use crate::backend::choice::{self, Choice};
use crate::error::Result;
use crate::ops::contract::{Accumulate, Contract};

/// Runs the parts of one destination, which differ in nothing but their loops, in any order;
/// together, where a kernel writes whole rows of it.
///
/// # Errors
/// As for [`run`].
///
/// # Safety
/// As for [`run`], for each of them; elements that they write are distinct.
pub unsafe fn run_stride_phases(
    steps: &[Contract], at: &[*mut u8], machine: Machine, choice: Choice<'_>,
) -> Result<()> {
    if let Some(first) = first(steps) {
        let problem =
            Problem::new(first, at, [at[1], at[2]].map(<*mut u8>::cast_const), false, machine, None);
        if let Ok((_, launch)) = choice.of(STRIDE_PHASES, |accept| accept(&problem, steps)) {
            // SAFETY: the operands are those of all phases, whose elements are distinct.
            return unsafe { launch.run() };
        }
    }
    // SAFETY: the operands are those of each phase.
    steps.iter().try_for_each(|step| unsafe { run(step, at, machine, None, choice) })
}

/// The name of the kernel that runs all steps together, or else the first one.
pub fn kernel_of_stride_phases(steps: &[Contract], machine: Machine) -> Option<&'static str> {
    together(steps, machine).first().copied().or_else(|| kernel(steps.first()?, machine))
}

/// The names of all kernels that accept the steps, together or each of them.
pub fn kernels_of_stride_phases(steps: &[Contract], machine: Machine) -> Vec<&'static str> {
    let Some(first) = steps.first() else { return Vec::new() };
    let mut each = kernels(first, machine);
    each.retain(|name| steps.iter().all(|step| kernels(step, machine).contains(name)));
    let mut names = together(steps, machine);
    names.append(&mut each);
    names
}

/// The names of the kernels that run some steps together.
fn together(steps: &[Contract], machine: Machine) -> Vec<&'static str> {
    let Some(first) = first(steps) else { return Vec::new() };
    let problem = Problem::without_data(first, false, machine);
    choice::names(STRIDE_PHASES, |accept| accept(&problem, steps))
}

/// The first of some steps that may be computed together.
fn first(steps: &[Contract]) -> Option<&Contract> {
    let fits = |step: &Contract| step.is_canonical() && !step.is_empty();
    let first = steps.first()?;
    (first.accumulate == Accumulate::Single && steps.iter().all(fits)).then_some(first)
}
