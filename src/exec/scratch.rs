//! Scratch for whole plans: had before the first step, so that want of memory is a status with nothing written.

use super::context::Core;
use super::{Call, Context};
use crate::backend::{self, Address, Hold};
use crate::error::Result;
use crate::ops::Plan;
use crate::ops::part::Part;
use crate::ops::plan::MAX_OPERANDS;

impl Context {
    /// Keeps the scratch of all `plans`, each with its operands, until the hold goes; none where the core needs none.
    ///
    /// # Errors
    /// Host allocation; what a step is refused for.
    ///
    /// # Safety
    /// As for [`Context::run`], for each of them.
    pub(super) unsafe fn hold<'a>(
        &self, plans: impl Iterator<Item = (&'a dyn Plan, &'a [Address])>,
    ) -> Result<Option<Hold>> {
        if !matches!(self.core, Core::Cpu { .. }) || !self.runs_at_once() || backend::is_held() {
            return Ok(None);
        }
        let machine = backend::Machine::host();
        let mut most = 0;
        for (plan, at) in plans {
            // Tasks take theirs when they run.
            if plan.is_ordered() || plan.tasks().is_some_and(|tasks| tasks.scratch().is_some()) {
                continue;
            }
            plan.steps(&mut |step, slots| {
                let mut operands = [Address::NULL; MAX_OPERANDS];
                let place = |slot: usize| at.get(slot).copied().unwrap_or(Address::NULL);
                operands.iter_mut().zip(slots).for_each(|(operand, &slot)| *operand = place(slot));
                // SAFETY: the operands of the step, whose spans are readable.
                most = most.max(unsafe { backend::scratch(step, &operands[..slots.len()], machine) }?);
                Ok(())
            })?;
        }
        backend::hold(most).map(Some)
    }
}

impl Call<'_> {
    /// Keeps the scratch of all `parts`, each with its operands, until the hold goes: for a call that runs several plans.
    ///
    /// # Errors
    /// Host allocation; what a step is refused for.
    ///
    /// # Safety
    /// As for [`Context::run`], for each of them.
    pub unsafe fn hold(&self, parts: &[Part], at: &[Vec<Address>]) -> Result<Option<Hold>> {
        if let [only] = parts
            && only.plan.is_one_step()
        {
            return Ok(None);
        }
        let plans = parts.iter().zip(at).map(|(part, at)| (&*part.plan as &dyn Plan, &at[..]));
        // SAFETY: each plan has its operands.
        unsafe { self.context.hold(plans) }
    }
}
