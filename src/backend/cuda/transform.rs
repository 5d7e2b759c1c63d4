//! Transforms: one of one part goes to the first kernel that fits its canonical nest; padding,
//! folding and blocked tails are one launch of a kernel that finds every destination element's
//! source; a destination that repeats addresses is walked by one thread, in order.

use super::general;
use super::kind::{self, Kind};
use super::launch::{Emit, Pointers};
use super::nest::{self, single};
use super::selection::Call;
use crate::error::{Error, Result};
use crate::ops::{Padded, Plan, Step, Transform, TransformPlan};

impl Kind for Transform {
    fn names() -> Vec<&'static str> {
        kind::names(nest::KERNELS)
    }

    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        match (call.ordered, self.nest.is_empty()) {
            (true, _) => general::ordered(Step::Transform(self), pair(call), emit),
            (false, true) => Ok(()),
            (false, false) => single(self, pair(call), emit),
        }
    }
}

impl Kind for Padded {
    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        if call.ordered {
            return general::ordered(Step::Padded(self), pair(call), emit);
        }
        single(&self.transform(), pair(call), emit)?;
        self.fill().launches(call, emit)
    }
}

/// Parts of a transform that are launched one by one rather than computed element by element, at
/// most, and elements of the destination from which on that pays for the launches.
const FEW_PARTS: usize = 6;
const MANY_ELEMENTS: i64 = 1 << 20;

/// A transform of several parts: one launch, unless one nest or two are all there is, or few parts
/// have many elements, or addresses repeat, or an unfold has more groups of channels than the
/// kernel can count. Two nests are the full groups of a blocked layout and its last one.
impl Kind for TransformPlan<'_> {
    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let (plan, at) = (self, pair(call));
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
        let call = Call { at: &[at.dst, at.src], ordered: false, device: call.device };
        plan.for_each(&mut |part| match part {
            Step::Transform(part) => part.launches(call, emit),
            Step::Padded(part) => part.launches(call, emit),
            Step::Scale(part) => part.launches(call, emit),
            other => Err(Error::Internal(format!("no part of a transform: {other}").into())),
        })
    }
}

/// Where the destination and the source are.
fn pair(call: Call<'_>) -> Pointers {
    Pointers { dst: call.at[0], src: call.at[1] }
}
