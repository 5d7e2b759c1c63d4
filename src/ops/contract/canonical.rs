//! The canonical form of a contraction: no loop that turns once, no bound that always holds,
//! neighbours folded.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::{Bound, Contract, NO_BOUND, Role};
use crate::layout::{Axis, LoopNest, MAX_AXES};

/// Pixels of an image up to which reading a filter takes as long as what is done with it.
const FEW: i64 = 64;

impl Contract {
    /// This, if it is [canonical](Contract::is_canonical), as the steps of plans are; else its
    /// [canonical form](Contract::canonical), as for those of the problem language.
    pub fn in_canonical_form(&self) -> Cow<'_, Contract> {
        if self.is_canonical() { Cow::Borrowed(self) } else { Cow::Owned(self.canonical()) }
    }

    /// The form that cores expect. The destination's elements are the same, and so are the terms of
    /// every sum, though not their order.
    ///
    /// - Bounds that always hold are gone where one of the loops turns once; a window without
    ///   padding keeps its bounds, as they say that neighbouring outputs read the same elements.
    /// - Loops of extent 1 that no bound names are gone.
    /// - Batch loops that leave `b` in place are M loops, those that leave `a` in place N loops.
    /// - Batch, M and N loops come in order of falling destination stride, K loops in order of
    ///   falling stride of `a`, then of `b`: the innermost one goes along the operand that is read
    ///   most often. Of a few pixels that is `b`.
    /// - Neighbours of one role that are one loop in every operand are folded, if no bound names
    ///   them.
    ///
    /// Pre: the spans of all operands are known (see
    /// [`LoopNest::span`](crate::layout::LoopNest::span)).
    pub fn canonical(&self) -> Contract {
        let mut result = Contract {
            nest: LoopNest::new(&[], self.nest.offsets),
            bounds: [NO_BOUND; super::MAX_BOUNDS],
            bound_count: 0,
            is_canonical: false,
            ..*self
        };
        // Nothing here allocates: it is part of what every call costs.
        let mut bounds = [NO_BOUND; super::MAX_BOUNDS];
        let mut count = 0;
        for bound in self.bounds().iter().filter(|bound| !self.always_holds(bound)) {
            bounds[count] = *bound;
            count += 1;
        }
        let bounds = &mut bounds[..count];
        let mut kept = [(Role::Batch, 0_u8, false); MAX_AXES];
        let mut count = 0;
        for (i, axis) in self.nest.axes().iter().enumerate() {
            let bound = bounds.iter().any(|b| b.axes.contains(&(i as u8)));
            if axis.extent == 1 && !bound {
                continue;
            }
            let role = match self.roles[i] {
                Role::Batch if axis.strides[2] == 0 => Role::M,
                Role::Batch if axis.strides[1] == 0 && !bound => Role::N,
                role => role,
            };
            kept[count] = (role, i as u8, bound);
            count += 1;
        }
        let axis = |i: u8| &self.nest.axes()[usize::from(i)];
        let along_b = self.reads_b_most(&kept[..count]);
        let key = |&(role, i, _): &(Role, u8, bool)| {
            let s = axis(i).strides.map(i64::unsigned_abs);
            match role {
                Role::K if along_b => (role, Reverse([s[2], s[1], 0])),
                Role::K => (role, Reverse([s[1], s[2], 0])),
                _ => (role, Reverse([s[0], s[1], s[2]])),
            }
        };
        let kept = &mut kept[..count];
        kept.sort_by_key(key);
        // Where loops that a bound names have gone.
        let mut places = [0; MAX_AXES];
        let mut last: Option<(Role, Axis<5>, bool)> = None;
        for &(role, i, bound) in kept.iter() {
            let axis = axis(i);
            if let Some((last_role, last, last_bound)) = &mut last
                && *last_role == role
                && !*last_bound
                && !bound
                && last.strides.iter().zip(axis.strides).all(|(&o, i)| i.checked_mul(axis.extent) == Some(o))
            {
                *last = Axis { extent: last.extent * axis.extent, strides: axis.strides };
                continue;
            }
            if let Some((role, axis, _)) = last.replace((role, *axis, bound)) {
                result.push(role, axis);
            }
            places[usize::from(i)] = result.nest.axes().len() as u8;
        }
        if let Some((role, axis, _)) = last {
            result.push(role, axis);
        }
        for bound in bounds {
            result.bind(Bound { axes: bound.axes.map(|old| places[usize::from(old)]), ..*bound });
        }
        result.is_canonical = true;
        result
    }

    /// Whether sums go along `b`, whose elements meet so few of `a` that reading them is most of
    /// the work: where neighbours are neighbours in both. What no bound ties to a window may be a
    /// batch, which must not decide.
    fn reads_b_most(&self, kept: &[(Role, u8, bool)]) -> bool {
        let axis = |i: u8| &self.nest.axes()[usize::from(i)];
        let tied = kept.iter().filter(|&&(role, _, bound)| role == Role::M && bound);
        let pixels = tied.map(|&(_, i, _)| axis(i).extent).product::<i64>();
        let mut sums = kept.iter().filter(|&&(role, ..)| role == Role::K);
        pixels <= FEW && sums.any(|&(_, i, _)| axis(i).strides[1..3] == [1, 1])
    }

    /// Whether no index leaves the bound, and it ties no two loops.
    fn always_holds(&self, bound: &Bound) -> bool {
        let axes = self.nest.axes();
        let (mut low, mut high) = (bound.start, bound.start);
        for (axis, step) in bound.axes.iter().zip(bound.steps) {
            let reach = (axes[usize::from(*axis)].extent - 1).max(0) * step;
            low += reach.min(0);
            high += reach.max(0);
        }
        let single = bound.axes.iter().any(|&axis| axes[usize::from(axis)].extent == 1);
        single && low >= 0 && high < bound.extent
    }
}
