//! Scratch for whole plans: had before the first step, so that want of memory is a status with
//! nothing written.

use super::context::Core;
use super::staging::Copies;
use super::{Call, Context, tasks};
use crate::backend::{self, Address, Hold, Machine};
use crate::error::Result;
use crate::ops::part::Part;
use crate::ops::plan::{MAX_OPERANDS, Operand};
use crate::ops::{Plan, Role};
use crate::sync::Lock;

/// The scratch that the steps of some plans ask for on a machine, once it is known: kernels are
/// chosen by loops and types, never by addresses.
pub struct Known(Lock<Option<(Machine, usize)>>);

impl Context {
    /// Whether plans run on this core before the call returns, and nobody holds their scratch yet.
    fn may_hold(&self) -> bool {
        matches!(self.core, Core::Cpu { .. }) && self.runs_at_once() && !backend::is_held()
    }

    /// Keeps the scratch of a plan, and `copies` bytes for its operands, until the hold goes; none
    /// where nothing is written before all of it is had.
    ///
    /// # Errors
    /// Host allocation; what a step is refused for.
    ///
    /// # Safety
    /// As for [`Context::run`].
    pub(super) unsafe fn hold_one(
        &self, plan: &dyn Plan, at: &[Address], copies: usize,
    ) -> Result<Option<Hold>> {
        if plan.is_one_step() || !self.may_hold() {
            return Ok(None);
        }
        // SAFETY: the operands of the plan.
        let bytes = unsafe { steps_scratch(plan, at, Machine::host(), false) }?;
        backend::hold(bytes.saturating_add(copies)).map(Some)
    }

    /// What a plan does with memory, for listeners: the bytes of each operand, from its pointer on,
    /// which operands may lie where others do, copies of those that it would overwrite, scratch for
    /// all of its steps, tasks that do not wait for each other, and an order of writes that it
    /// keeps.
    ///
    /// # Safety
    /// As for [`Context::run`].
    pub(super) unsafe fn extras(&self, plan: &dyn Plan, at: &[Address]) -> Vec<String> {
        let operands = plan.operands();
        let bytes = |operand: &Operand| {
            let (low, high) = operand.span;
            operand.is_touched().then(|| format!("{} {low}..{high}", operand.name))
        };
        let mut extras: Vec<String> = operands.iter().filter_map(bytes).collect();
        for (write, to) in operands.iter().enumerate().filter(|(_, to)| to.role.is_written()) {
            for (read, from) in operands.iter().enumerate().filter(|(_, from)| from.role == Role::Read) {
                if plan.works_in_place(read, write) {
                    extras.push(format!("{} in place of {}", to.name, from.name));
                }
            }
        }
        if let Ok(copies) = Copies::of(plan, at, self.is_cuda()) {
            extras.extend(copies.names(plan).map(|name| format!("a copy of {name}")));
        }
        if plan.is_ordered() {
            extras.push("writes in order".to_owned());
        }
        if !self.is_cpu() {
            return extras;
        }
        // SAFETY: the operands of the plan.
        let scratch = || unsafe { steps_scratch(plan, at, Machine::host(), true) };
        if !plan.is_one_step()
            && let Ok(bytes @ 1..) = scratch()
        {
            extras.push(format!("{bytes} bytes of scratch"));
        }
        extras.extend(plan.tasks().map(|own| format!("{} tasks", own.count())));
        extras
    }
}

impl Call<'_> {
    /// Keeps the scratch of all `parts`, each with its operands, until the hold goes: for a call
    /// that runs several plans. `known` is of these parts, whatever their operands' addresses.
    ///
    /// # Errors
    /// Host allocation; what a step is refused for, and what the operands of a part are.
    ///
    /// # Safety
    /// As for [`Context::run`], for each of them.
    pub unsafe fn hold(
        &self, parts: &[Part], at: &[Vec<Address>], known: Option<&Known>,
    ) -> Result<Option<Hold>> {
        if let [only] = parts
            && only.plan.is_one_step()
        {
            return Ok(None);
        }
        if !self.context.may_hold() {
            return Ok(None);
        }
        let machine = Machine::host();
        let plans = || parts.iter().zip(at).map(|(part, at)| (&*part.plan as &dyn Plan, &at[..]));
        let seen = known.and_then(|known| known.of(machine));
        let steps = match seen {
            Some(bytes) => bytes,
            None => {
                let mut most = 0;
                for (plan, at) in plans() {
                    // SAFETY: each plan has its operands.
                    most = most.max(unsafe { steps_scratch(plan, at, machine, false) }?);
                }
                if let Some(known) = known {
                    known.keep(machine, most);
                }
                most
            }
        };
        let mut copies = 0;
        for (plan, at) in plans() {
            copies = copies.max(Copies::of(plan, at, false)?.bytes);
        }
        backend::hold(steps.saturating_add(copies)).map(Some)
    }
}

impl Known {
    /// Not known yet.
    pub(super) fn new() -> Known {
        Known(Lock::new(None))
    }

    fn of(&self, machine: Machine) -> Option<usize> {
        let known = self.0.write(|known| known.replace(None));
        known.filter(|(of, _)| *of == machine).map(|(_, bytes)| bytes)
    }

    fn keep(&self, machine: Machine, bytes: usize) {
        *self.0.write(|known| known.replace(None)) = Some((machine, bytes));
    }
}

/// The most scratch that a step of the plan asks for; of what every hold keeps, only if `all` is
/// asked.
///
/// # Errors
/// What a step is refused for.
///
/// # Safety
/// As for [`Context::run`].
unsafe fn steps_scratch(plan: &dyn Plan, at: &[Address], machine: Machine, all: bool) -> Result<usize> {
    if plan.is_ordered() {
        return Ok(0);
    }
    // Tasks with scratch of their own are many, of few different steps.
    if let Some(own) = plan.tasks().filter(|own| own.scratch().is_some()) {
        let [bytes, nested] = tasks::scratch(plan, own);
        return Ok(bytes.saturating_add(nested));
    }
    let is_small = plan.most_extents().is_some_and(backend::is_kept);
    if is_small && !all && !cfg!(debug_assertions) {
        return Ok(0);
    }
    let mut most = 0;
    plan.steps(&mut |step, slots| {
        let mut operands = [Address::NULL; MAX_OPERANDS];
        let place = |slot: usize| at.get(slot).copied().unwrap_or(Address::NULL);
        operands.iter_mut().zip(slots).for_each(|(operand, &slot)| *operand = place(slot));
        // SAFETY: the operands of the step, whose spans are readable.
        let bytes = unsafe { backend::scratch(step, &operands[..slots.len()], machine) }?;
        debug_assert!(!is_small || bytes <= backend::KEPT_BYTES, "{bytes} bytes of scratch for {step}");
        most = most.max(bytes);
        Ok(())
    })?;
    Ok(most)
}
