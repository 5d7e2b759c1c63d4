//! From a [`Plan`] to kernel launches. Pure: nothing here talks to a driver.
//!
//! A transform of one part goes to the first kernel that fits its canonical nest; padding, folding
//! and blocked tails are one launch of a kernel that finds every destination element's source; a
//! destination that repeats addresses is walked by one thread, in order.

use super::launch::{Device, Emit, Pointers};
use super::nest::single;
use super::{
    aggregate, causal, contract, ctc, fill, formula, general, normalise, pointwise, ragged, random, reduce,
    rows, sample, window, words,
};
use crate::backend::Address;
use crate::error::{Error, Result};
use crate::ops::function::Function;
use crate::ops::plan::ABSENT;
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
        let place = |k: usize| of(slots[k]);
        let places = || slots.iter().copied().map(of).collect::<Vec<_>>();
        let pair = || Pointers { dst: place(0), src: place(1) };
        match step {
            Step::Transform(_) | Step::Padded(_) if ordered => general::ordered(step, pair(), emit),
            Step::Transform(transform) if transform.nest.is_empty() => Ok(()),
            Step::Transform(transform) => single(transform, pair(), emit),
            Step::Padded(padded) => {
                single(&padded.transform(), pair(), emit)?;
                fill::fill(&padded.fill(), place(0), false, emit)
            }
            Step::Mapped(plan) => mapped(plan, pair(), emit),
            Step::Scale(fill) => fill::fill(fill, place(0), ordered, emit),
            Step::Set(set) => fill::set(set, place(0), emit),
            Step::Map(map) if map.function as u32 > Function::Nothing as u32 => {
                formula::launches(map, std::array::from_fn(place), ordered, emit)
            }
            Step::Map(map) => pointwise::launches(map, std::array::from_fn(place), ordered, emit),
            Step::Rows(step) => rows::launches(step, std::array::from_fn(place), ordered, emit),
            Step::WideMap(map) => formula::launches(map, std::array::from_fn(place), ordered, emit),
            Step::Reduce(reduce) => {
                let at =
                    reduce::Places { dst: place(0), indices: place(1), src: place(2), workspace: place(3) };
                reduce::launches(reduce, at, ordered, emit)
            }
            Step::Contract(contract) => contract::launches(contract, &places(), device, emit),
            Step::Phases(phases) => {
                phases.0.iter().try_for_each(|step| contract::launches(step, &places(), device, emit))
            }
            Step::Random(random) => random::launches(random, &places(), emit),
            Step::Normalise(step) => normalise::forward(step, &places(), emit),
            Step::NormaliseBackward(step) => normalise::backward(step, &places(), emit),
            Step::Window(window) => window::launches(window, std::array::from_fn(place), ordered, emit),
            Step::Sample(step) => sample::launches(step, &places(), ordered, emit),
            Step::Causal(step) => causal::launches(step, &places(), emit),
            Step::Aggregate(step) => aggregate::launches(step, &places(), emit),
            Step::Ragged(step) => ragged::launches(step, &places(), emit),
            Step::Words(step) => words::launches(step, place(0), emit),
            Step::Ctc(step) => ctc::launches(step, &places(), emit),
        }
    })
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
