//! The phases of a stride: computed together, where a kernel writes whole rows, else one by one.

use super::problem::Problem;
use super::table::STRIDE_PHASES;
use super::{Machine, pointers};
use crate::backend::choice;
use crate::backend::cpu::kind::{self, Call, Kind, Table};
use crate::error::Result;
use crate::ops::contract::{Accumulate, Contract, Phases};

impl Kind for Phases {
    fn table() -> Table {
        kind::rows(STRIDE_PHASES)
    }

    /// Those that run all phases together, and those that run each of them.
    fn kernels(&self, machine: Machine) -> Vec<&'static str> {
        let Some(first) = self.0.first() else { return Vec::new() };
        let mut each = first.kernels(machine);
        each.retain(|name| self.0.iter().all(|step| step.kernels(machine).contains(name)));
        let mut names = together(&self.0, machine);
        names.append(&mut each);
        names
    }

    /// The one that runs all phases together, or else that of the first.
    fn kernel(&self, machine: Machine) -> Option<&'static str> {
        together(&self.0, machine).first().copied().or_else(|| self.0.first()?.kernel(machine))
    }

    fn is_modest(&self, machine: Machine) -> bool {
        self.0.iter().all(|step| step.is_modest(machine))
    }

    /// In any order; together, where a kernel writes whole rows of the destination.
    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        if let Some(first) = first(&self.0) {
            let at = pointers(call.at);
            let operands = [at[1], at[2]].map(<*mut u8>::cast_const);
            let problem = Problem::new(first, &at[..call.at.len()], operands, false, call.machine, None);
            if let Ok((_, launch)) = call.choice.of(STRIDE_PHASES, |accept| accept(&problem, &self.0)) {
                // SAFETY: the operands are those of all phases, whose elements are distinct.
                return unsafe { launch.run() };
            }
        }
        let call = Call { panels: None, ..*call };
        // SAFETY: the operands are those of each phase.
        self.0.iter().try_for_each(|step| unsafe { step.run(&call) })
    }
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
