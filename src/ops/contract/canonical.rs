//! The canonical form of a contraction: no loop that turns once, no bound that always holds, neighbours folded.

use super::{Bound, Contract, NO_BOUND, Role};
use crate::layout::Axis;

impl Contract {
    /// The form that cores expect. The destination's elements are the same, and so are the terms of every sum, though
    /// not their order.
    ///
    /// - Bounds that always hold are gone where one of the loops turns once; a window without padding keeps its bounds,
    ///   as they say that neighbouring outputs read the same elements.
    /// - Loops of extent 1 that no bound names are gone.
    /// - Batch loops that leave `b` in place are M loops, those that leave `a` in place N loops.
    /// - Batch, M and N loops come in order of falling destination stride, K loops in order of falling stride of `b`,
    ///   then of `a`; K loops that a bound names come behind those that none does where that keeps them together.
    /// - Neighbours of one role that are one loop in every operand are folded, if no bound names them.
    ///
    /// Pre: the spans of all operands are known (see [`LoopNest::span`](crate::layout::LoopNest::span)).
    pub fn canonical(&self) -> Contract {
        let axes = self.nest.axes();
        let bounds: Vec<Bound> = self.bounds().iter().copied().filter(|b| !self.always_holds(b)).collect();
        let is_bound = |i: usize| bounds.iter().any(|b| b.axes.contains(&(i as u8)));
        let mut kept: Vec<(Role, Axis<5>, Option<usize>)> = Vec::new();
        for (i, axis) in axes.iter().enumerate() {
            let bound = is_bound(i);
            if axis.extent == 1 && !bound {
                continue;
            }
            let role = match self.roles[i] {
                Role::Batch if axis.strides[2] == 0 => Role::M,
                Role::Batch if axis.strides[1] == 0 && !bound => Role::N,
                role => role,
            };
            kept.push((role, *axis, bound.then_some(i)));
        }
        let key = |(role, axis, _): &(Role, Axis<5>, Option<usize>)| {
            let s = axis.strides.map(i64::unsigned_abs);
            match role {
                Role::K => (*role, [s[2], s[1], 0]),
                _ => (*role, [s[0], s[1], s[2]]),
            }
        };
        kept.sort_by(|x, y| {
            let (x, y) = (key(x), key(y));
            x.0.cmp(&y.0).then(y.1.cmp(&x.1))
        });
        let mut folded: Vec<(Role, Axis<5>, Option<usize>)> = Vec::new();
        for entry in kept {
            let (role, axis, bound) = entry;
            if let Some((last_role, last, last_bound)) = folded.last_mut()
                && *last_role == role
                && last_bound.is_none()
                && bound.is_none()
                && last.strides.iter().zip(axis.strides).all(|(&o, i)| i.checked_mul(axis.extent) == Some(o))
            {
                *last = Axis { extent: last.extent * axis.extent, strides: axis.strides };
                continue;
            }
            folded.push(entry);
        }
        let mut result = Contract {
            nest: crate::layout::LoopNest::new(&[], self.nest.offsets),
            bounds: [NO_BOUND; super::MAX_BOUNDS],
            bound_count: 0,
            ..*self
        };
        folded.iter().for_each(|&(role, axis, _)| _ = result.push(role, axis));
        let place = |old: u8| {
            folded.iter().position(|f| f.2 == Some(usize::from(old))).expect("bound loops are kept")
        };
        for bound in bounds {
            result.bind(Bound { axes: bound.axes.map(|old| place(old) as u8), ..bound });
        }
        result
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
