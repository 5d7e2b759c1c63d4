//! From a [`Plan`] to kernel launches. Pure: nothing here talks to a driver.

use super::kind::Kind;
use super::launch::{Device, Emit};
use super::selection::Call;
use crate::backend::Address;
use crate::error::Result;
use crate::ops::Plan;
use crate::ops::plan::{ABSENT, MAX_OPERANDS, of_kinds, with_kind};

/// Hands the launches of a plan on operands at these addresses to `emit`. Memory may be shared only
/// where the plan [works in place](Plan::works_in_place).
///
/// # Errors
/// The first of `emit`, which ends the plan; not supported for more elements than one grid
/// can hold, which no device has memory for.
pub fn launches(plan: &dyn Plan, at: &[Address], device: Device, emit: Emit<'_>) -> Result<()> {
    let ordered = plan.is_ordered();
    plan.steps(&mut |step, slots| {
        let of = |slot: usize| if slot == ABSENT { 0 } else { at[slot].device() };
        let mut places = [0; MAX_OPERANDS];
        places.iter_mut().zip(slots).for_each(|(place, &slot)| *place = of(slot));
        let places = &places[..slots.len()];
        let call = Call { at: places, ordered, device };
        with_kind!(step, kind => kind.launches(call, emit))
    })
}

/// The names of kernels in all tables, of several kinds of steps one after the other: each with a
/// `*` in place of types and extents.
pub fn tables() -> Vec<&'static str> {
    let mut all = Vec::new();
    for (_, names) in of_kinds!(Problem => Problem::names()) {
        all.extend(names);
    }
    all
}
