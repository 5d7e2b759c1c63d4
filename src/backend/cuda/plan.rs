//! From a [`Plan`] to kernel launches. Pure: nothing here talks to a driver.
//!
//! A transform of one part goes to the first kernel that fits its canonical nest; padding, folding
//! and blocked tails are one launch of a kernel that finds every destination element's source; a
//! destination that repeats addresses is walked by one thread, in order.

use super::launch::{Device, Emit, Pointers};
use super::nest::{self, single};
use super::selection::{Call, Kernels};
use super::{
    aggregate, causal, contract, contract_table, ctc, fill, general, map, normalise, ragged, random, reduce,
    rows, sample, window, words,
};
use crate::backend::Address;
use crate::error::{Error, Result};
use crate::ops::plan::{ABSENT, MAX_OPERANDS};
use crate::ops::{Plan, Step, TransformPlan};

/// Hands the launches of a plan on operands at these addresses to `emit`. Memory may be shared only
/// where the plan [works in place](Plan::works_in_place).
///
/// # Errors
/// The first of `emit`, which ends the plan; [`Error::Unsupported`] for more elements than one grid
/// can hold, which no device has memory for.
pub fn launches(plan: &dyn Plan, at: &[Address], device: Device, emit: Emit<'_>) -> Result<()> {
    let ordered = plan.is_ordered();
    plan.steps(&mut |step, slots| {
        let of = |slot: usize| if slot == ABSENT { 0 } else { at[slot].device() };
        let mut places = [0; MAX_OPERANDS];
        places.iter_mut().zip(slots).for_each(|(place, &slot)| *place = of(slot));
        let places = &places[..slots.len()];
        let call = Call { at: places, ordered, device };
        let pair = || Pointers { dst: places[0], src: places[1] };
        match step {
            Step::Transform(_) | Step::Padded(_) if ordered => general::ordered(step, pair(), emit),
            Step::Transform(transform) if transform.nest.is_empty() => Ok(()),
            Step::Transform(transform) => single(transform, pair(), emit),
            Step::Padded(padded) => {
                single(&padded.transform(), pair(), emit)?;
                fill::fill(&padded.fill(), places[0], false, emit)
            }
            Step::Mapped(plan) => mapped(plan, pair(), emit),
            Step::Scale(fill) => fill::fill(fill, places[0], ordered, emit),
            Step::Set(set) => fill::set(set, places[0], emit),
            Step::Map(step) => map::launches(&call.of(step), emit),
            Step::WideMap(step) => map::launches(&call.of(step), emit),
            Step::Rows(step) => rows::launches(&call.of(step), emit),
            Step::RowNorm(_) | Step::RowNormBackward(_) => {
                Err(Error::unsupported("rows in one step, which this core normalises in several"))
            }
            Step::Reduce(step) => reduce::launches(&call.of(step), emit),
            Step::Contract(step) => contract::launches(&call.of(step), emit),
            Step::Phases(phases) => {
                phases.0.iter().try_for_each(|step| contract::launches(&call.of(step), emit))
            }
            Step::Random(step) => random::launches(&call.of(step), emit),
            Step::Normalise(step) => normalise::forward(step, call, emit),
            Step::NormaliseBackward(step) => normalise::backward(step, call, emit),
            Step::Window(step) => window::launches(&call.of(step), emit),
            Step::Sample(step) => sample::launches(&call.of(step), emit),
            Step::Causal(step) => causal::launches(step, places, emit),
            Step::Aggregate(step) => aggregate::launches(step, places, emit),
            Step::Ragged(step) => ragged::launches(step, places, emit),
            Step::Words(step) => words::launches(step, places[0], emit),
            Step::Ctc(step) => ctc::launches(step, places, emit),
        }
    })
}

/// The names of kernels in all tables, of several kinds of steps one after the other: each with a
/// `*` in place of types and extents.
pub fn tables() -> Vec<&'static str> {
    fn names<S>(table: &[Kernels<S>]) -> impl Iterator<Item = &'static str> {
        table.iter().flat_map(|kernels| kernels.name.split(' '))
    }
    let mut all: Vec<&str> = names(nest::KERNELS).collect();
    all.extend(names(map::kernels::<3>()));
    all.extend(names(rows::KERNELS));
    all.extend(names(reduce::KERNELS));
    all.extend(
        contract_table::KERNELS.iter().flat_map(|kernel| kernel.join.into_iter().chain([kernel.name])),
    );
    all.extend(names(random::KERNELS));
    all.extend(names(normalise::FORWARD));
    all.extend(names(normalise::BACKWARD));
    all.extend(names(window::KERNELS));
    all.extend(names(sample::KERNELS));
    all
}

/// Parts of a transform that are launched one by one rather than computed element by element, at
/// most, and elements of the destination from which on that pays for the launches.
const FEW_PARTS: usize = 6;
const MANY_ELEMENTS: i64 = 1 << 20;

/// A transform of several parts: one launch, unless one nest or two are all there is, or few parts
/// have many elements, or addresses repeat, or an unfold has more groups of channels than the
/// kernel can count. Two nests are the full groups of a blocked layout and its last one.
fn mapped(plan: &TransformPlan, at: Pointers, emit: Emit<'_>) -> Result<()> {
    if plan.is_ordered() {
        return plan.for_each(&mut |part| general::ordered(part, at, emit));
    }
    let mut nests = [None; 2];
    let (mut parts, mut are_nests) = (0, true);
    // An error ends the walk: beyond a few parts their number does not matter, and it may be
    // millions.
    let _ = plan.for_each(&mut |part| {
        match (part, nests.get_mut(parts)) {
            (Step::Transform(transform), Some(nest)) => *nest = Some(*transform),
            // Cells and zeros, or only zeros: no nest. Or a third part.
            _ => are_nests = false,
        }
        parts += 1;
        if parts > FEW_PARTS {
            Err(Error::Internal("there are more than a few parts".into()))
        } else {
            Ok(())
        }
    });
    if are_nests {
        let filled = nests.iter().flatten().filter(|nest| !nest.nest.is_empty());
        return filled.into_iter().try_for_each(|nest| single(nest, at, emit));
    }
    let elements = plan.layouts().1.dims.iter().fold(1_i64, |all, &dim| all.saturating_mul(dim));
    let is_few = parts <= FEW_PARTS && elements >= MANY_ELEMENTS;
    if !is_few && general::counts_groups(plan) {
        return emit(&general::mapped(plan, at)?);
    }
    plan.for_each(&mut |part| match part {
        Step::Transform(transform) if transform.nest.is_empty() => Ok(()),
        Step::Transform(transform) => single(transform, at, emit),
        Step::Padded(padded) => {
            single(&padded.transform(), at, emit)?;
            fill::fill(&padded.fill(), at.dst, false, emit)
        }
        Step::Scale(part) => fill::fill(part, at.dst, false, emit),
        other => Err(Error::Internal(format!("no part of a transform: {other}").into())),
    })
}
