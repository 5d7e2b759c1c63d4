//! An operand as kernels read it, and which elements it holds.

use super::points::{OperandOffsets, StridedRun};
use crate::backend::cpu::Isa;
use crate::backend::cpu::row::{Row, between};
use crate::dtype::Scalar;
use crate::ops::Scaling;
use crate::ops::contract::{Bound, Contract};

/// One operand as packing sees it.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub data: *const u8,
    pub scalar: Scalar,
    /// Which of a point's offsets count.
    pub slot: usize,
    pub bounds: &'a [Bound],
    /// Converts neighbours, if the kernels of the level compute in another type.
    pub convert: Option<Row>,
    /// Whether bytes have their highest bits turned over, 0 included.
    pub is_shifted: bool,
    /// What a byte counts in the tail of its line.
    pub compensation: i32,
    pub isa: Isa,
    pub held: Held,
}

impl<'a> Source<'a> {
    /// The operand in `slot` of a step, as kernels that read parts of `part` want it.
    pub fn of(step: &'a Contract, slot: usize, data: *const u8, part: Option<Scalar>, isa: Isa) -> Self {
        let (scalar, bounds) = if slot == 1 { (step.a, step.bounds()) } else { (step.b, &[][..]) };
        let other = part.filter(|&part| part != scalar);
        Source {
            data,
            scalar,
            slot,
            bounds,
            convert: other.map(|part| between(scalar, part, Scaling::MOVE, isa)),
            is_shifted: false,
            compensation: 0,
            isa,
            held: Held::of(step, slot),
        }
    }
}

// SAFETY: an address without meaning of its own; it is only read.
unsafe impl Sync for Source<'_> {}

impl Source<'_> {
    /// With debug assertions, that what packing reads of some lanes are elements of the operand.
    #[inline(always)]
    pub fn assert_holds_all(&self, lanes: &[OperandOffsets], sum: &[StridedRun]) {
        if !cfg!(debug_assertions) {
            return;
        }
        for (lane, even) in lanes.iter().flat_map(|lane| sum.iter().map(move |even| (lane, even))) {
            let (low, high) = even.inside(lane, self.bounds);
            let at = lane.at[self.slot] + even.at + low as i64 * even.by;
            let group_offsets = even.group_offsets.unwrap_or_default();
            for other in [0].iter().chain(&group_offsets) {
                self.held.assert_holds(at + other, even.by, high - low);
            }
        }
    }
}

/// The elements that a step may read of an operand, from the first to the last one. Known in builds
/// with debug assertions, which hold every copy to it; nothing in others.
#[derive(Clone, Copy)]
pub struct Held {
    #[cfg(debug_assertions)]
    ends: Option<[i64; 2]>,
}

impl Held {
    /// For memory of the kernels' own.
    pub const UNKNOWN: Held = Held {
        #[cfg(debug_assertions)]
        ends: None,
    };

    /// What the operand in a slot of a step holds: of a bounded dimension all positions.
    #[cfg(debug_assertions)]
    fn of(step: &Contract, slot: usize) -> Held {
        let (axes, bounds) = (step.nest.axes(), if slot == 1 { step.bounds() } else { &[] });
        let mut ends = [step.nest.offsets[slot]; 2];
        let mut add = |first: i64, last: i64| {
            ends = [ends[0].saturating_add(first.min(last)), ends[1].saturating_add(first.max(last))];
        };
        for (index, axis) in axes.iter().enumerate() {
            if !bounds.iter().any(|bound| bound.axes.contains(&(index as u8))) {
                add(0, (axis.extent - 1).max(0).saturating_mul(axis.strides[slot]));
            }
        }
        for bound in bounds {
            let moves = bound.axes.map(|index| axes[usize::from(index)].strides[slot]);
            let Some(axis) = bound.steps.iter().position(|&step| step != 0) else { return Held::UNKNOWN };
            let unit = moves[axis] / bound.steps[axis];
            // A loop that moves positions in another proportion than elements has no span that a
            // bound gives.
            if (0..2).any(|k| moves[k] != unit * bound.steps[k]) {
                return Held::UNKNOWN;
            }
            add(-bound.start * unit, (bound.extent - 1 - bound.start) * unit);
        }
        Held { ends: Some(ends) }
    }

    #[cfg(not(debug_assertions))]
    #[inline(always)]
    fn of(_: &Contract, _: usize) -> Held {
        Held {}
    }

    /// What two steps may read of one operand.
    pub fn or(self, other: Held) -> Held {
        #[cfg(not(debug_assertions))]
        let _ = other;
        Held {
            #[cfg(debug_assertions)]
            ends: self.ends.zip(other.ends).map(|(a, b)| [a[0].min(b[0]), a[1].max(b[1])]),
        }
    }

    /// With debug assertions, that these elements are among them.
    #[inline(always)]
    pub fn assert_holds(&self, at: i64, by: i64, len: usize) {
        #[cfg(debug_assertions)]
        if let (Some([first, end]), true) = (self.ends, len > 0) {
            let last = at + (len as i64 - 1) * by;
            assert!(
                at.min(last) >= first && at.max(last) <= end,
                "elements {at} to {last} of an operand that holds {first} to {end}"
            );
        }
        #[cfg(not(debug_assertions))]
        let _ = (at, by, len);
    }
}
