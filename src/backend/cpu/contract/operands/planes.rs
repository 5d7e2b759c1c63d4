//! A windowed operand as planes: copied once per block of outputs, with its padding, so that every
//! tap of every channel is the same plane read from another place.
//!
//! Lanes run along the destination's fastest dimension. Of a window with stride s, outputs p and
//! p + 1 read positions s apart; the copy puts positions of one remainder modulo s (a phase) side
//! by side, so that these are neighbours. A tile then takes its vectors from
//! `plane of channel and phase + shift of the tap + place of the outputs`: nothing is packed per
//! tap.

mod block;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod padded;

use std::ops::Range;

pub use self::block::Block;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use self::block::Span;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use self::padded::Padded;
use super::pack::Source;
use super::points::{Loop, Loops, OperandOffsets, StridedRun};
use crate::dtype::Scalar;
use crate::ops::contract::{Bound, Contract, MAX_BOUNDS, Role};

/// One dimension of the planes.
#[derive(Clone, Debug)]
pub struct Dim {
    /// The loop over outputs.
    pub outputs: Loop,
    /// The bound it belongs to.
    pub bound: Option<usize>,
    /// The loop over taps; one tap if there is none.
    taps: Loop,
    /// Positions between neighbouring outputs.
    stride: i64,
    /// Where output 0 meets tap 0, and the position that the operand's offset is at; the number of
    /// positions, and how far the operand moves per position.
    start: i64,
    anchor: i64,
    extent: i64,
    unit: i64,
    /// The first and the last whole stride that a tap adds, and the phases that taps meet.
    first: i64,
    last: i64,
    phases: Vec<i64>,
}

impl Dim {
    /// The shift and the phase (as an index) of a tap.
    fn tap(&self, tap: usize) -> (usize, usize) {
        let at = self.start + tap as i64 * self.step();
        let phase = at.rem_euclid(self.stride);
        let index = self.phases.iter().position(|&p| p == phase).unwrap_or(0);
        ((at.div_euclid(self.stride) - self.first) as usize, index)
    }

    /// Whether taps run against positions.
    pub fn is_mirrored(&self) -> bool {
        self.step() < 0
    }

    /// The loop over taps.
    pub fn taps(&self) -> &Loop {
        &self.taps
    }

    /// Whether there is an element at a position, and where, from what the operand's offset is at.
    pub fn holds(&self, position: i64) -> bool {
        (position as u64) < self.extent as u64
    }

    /// How many positions there are.
    pub fn positions(&self) -> usize {
        self.extent as usize
    }

    pub fn offset(&self, position: i64) -> i64 {
        (position - self.anchor) * self.unit
    }

    /// The position where output 0 meets tap 0.
    pub fn first_position(&self) -> i64 {
        self.start
    }

    /// Positions between neighbouring taps, backwards if negative.
    pub fn step(&self) -> i64 {
        self.bound.map_or(0, |d| self.taps.by.pos[d])
    }

    /// Whether no window is along it.
    pub fn is_free(&self) -> bool {
        self.bound.is_none()
    }

    /// Positions between neighbouring outputs.
    pub fn stride(&self) -> usize {
        self.stride as usize
    }

    /// How far the operand moves per position.
    pub fn pitch(&self) -> i64 {
        self.unit
    }

    /// The lowest position that output 0 sees.
    pub fn lowest(&self) -> i64 {
        self.start + (self.step() * (self.taps.extent as i64 - 1)).min(0)
    }

    /// Positions from the first to the last one that `outputs` neighbouring outputs see.
    pub fn span(&self, outputs: usize) -> usize {
        (outputs - 1) * self.stride() + (self.taps.extent - 1) * self.step().unsigned_abs() as usize + 1
    }

    /// The positions with elements, counted from one on.
    pub fn inside(&self, first: i64) -> Range<usize> {
        (-first).max(0) as usize..self.extent.saturating_sub(first).max(0) as usize
    }

    /// Cells along the dimension for `outputs` outputs.
    fn cells(&self, outputs: usize) -> usize {
        outputs + (self.last - self.first) as usize
    }

    /// The position of cell `cell` of a phase, of a block whose outputs start at `begin`.
    fn position(&self, begin: usize, cell: usize, phase: usize) -> i64 {
        self.stride * (begin as i64 + cell as i64 + self.first) + self.phases[phase]
    }
}

/// Elements between neighbouring lanes from which on a plane is a poor way to read an operand.
const FAR: i64 = 8;

/// Taps of planes at most.
const TAPS: usize = 512;

/// Channels side by side from which on they are turned.
const TRANSPOSE_THRESHOLD: usize = 8;

/// Channels ahead that are asked for.
const PREFETCH_DISTANCE: i64 = 8;

/// A step with what it sums over as outputs, and the taps and channels of its outputs as the sum:
/// the gradient of a filter is one whose images have the planes of a convolution. `None` where a
/// bound ties other loops.
pub fn transposed(step: &Contract) -> Option<Contract> {
    let bound_by = |index: usize| step.bounds().iter().any(|bound| bound.axes.contains(&(index as u8)));
    let mut transposed = Contract::new([Scalar::F32, step.a, step.b], step.accumulate, step.epilogue);
    for (index, axis) in step.nest.axes().iter().enumerate() {
        let role = match step.roles()[index] {
            Role::M => Role::K,
            Role::K => Role::M,
            // Neither moves the images.
            Role::N if bound_by(index) => return None,
            Role::N | Role::Batch => Role::Batch,
        };
        transposed.push(role, *axis);
    }
    for bound in step.bounds() {
        let [m, k] = bound.axes;
        if step.roles()[usize::from(m)] != Role::M || step.roles()[usize::from(k)] != Role::K {
            return None;
        }
        transposed.bind(Bound { axes: [k, m], steps: [bound.steps[1], bound.steps[0]], ..*bound });
    }
    Some(transposed)
}

/// How a step is computed from planes.
#[derive(Clone, Debug)]
pub struct Planes {
    /// The slower and the faster dimension.
    pub dims: [Dim; 2],
    /// The other loops of the rows of outputs.
    pub outer: Loops,
    /// The loops of the sum that are not taps of the dims: one plane each.
    pub channels: Loops,
}

/// A dimension that turns once.
fn none() -> Loop {
    Loop { extent: 1, by: OperandOffsets::default() }
}

impl Planes {
    /// The windows of a canonical step along its two innermost M loops, whatever reading them as
    /// planes costs.
    pub fn seen(step: &Contract) -> Option<Planes> {
        // At most the loops of a step, as all lists here but those of phases.
        let rows: Vec<usize> = step.loops(Role::M).map(|(index, _)| index).collect();
        let mut used = Vec::new();
        let mut dim = |index: Option<usize>| -> Option<Dim> {
            let outputs = index.map_or(none(), |index| Loop::of(step, index));
            let bound = index.and_then(|i| step.bounds().iter().position(|b| b.axes[0] == i as u8));
            let Some(d) = bound else {
                if step.bounds().iter().any(|b| index.is_some_and(|i| b.axes[1] == i as u8)) {
                    return None;
                }
                let unit = outputs.by.at[1];
                let (start, extent, stride) = (0, i64::MAX, 1);
                // At most one.
                let phases = vec![0];
                return Some(Dim {
                    outputs,
                    bound,
                    taps: none(),
                    stride,
                    start,
                    anchor: 0,
                    extent,
                    unit,
                    first: 0,
                    last: 0,
                    phases,
                });
            };
            let bound = step.bounds()[d];
            let tap = usize::from(bound.axes[1]);
            if step.roles()[tap] != Role::K || bound.steps[0] <= 0 {
                return None;
            }
            used.push(tap);
            let (taps, stride) = (Loop::of(step, tap), bound.steps[0]);
            if taps.extent > TAPS {
                return None;
            }
            let at = |t: usize| bound.start + t as i64 * bound.steps[1];
            let shifts = || (0..taps.extent).map(|t| at(t).div_euclid(stride));
            // At most [`TAPS`].
            let mut phases: Vec<i64> = (0..taps.extent).map(|t| at(t).rem_euclid(stride)).collect();
            phases.sort_unstable();
            phases.dedup();
            Some(Dim {
                unit: outputs.by.at[1] / stride,
                outputs,
                bound: Some(d),
                first: shifts().min()?,
                last: shifts().max()?,
                taps,
                stride,
                start: bound.start,
                anchor: bound.start,
                extent: bound.extent,
                phases,
            })
        };
        let mut left = rows;
        let dims = {
            let fast = dim(left.pop())?;
            let slow = match left.pop() {
                Some(index) => match dim(Some(index)) {
                    Some(slow) => slow,
                    None => {
                        left.push(index);
                        dim(None)?
                    }
                },
                None => dim(None)?,
            };
            [slow, fast]
        };
        // A window that is too large along one dimension is not one along the other.
        if used.iter().any(|&tap| step.nest.axes()[tap].extent > TAPS as i64) {
            return None;
        }
        let is_channel = |index: &usize| !used.contains(index);
        let channels = step.loops(Role::K).map(|(index, _)| index).filter(is_channel);
        Some(Planes {
            // At most the loops of a step.
            channels: Loops { loops: channels.map(|index| Loop::of(step, index)).collect() },
            outer: Loops { loops: left.into_iter().map(|index| Loop::of(step, index)).collect() },
            dims,
        })
    }

    /// Whether channels lie side by side, so that a copy turns many positions of them at once.
    pub fn are_interleaved(&self) -> bool {
        let near = |axis: &Loop| axis.by.at[1] == 1 && axis.by.pos == [0; MAX_BOUNDS];
        let many =
            matches!(&self.channels.loops[..], [axis] if near(axis) && axis.extent >= TRANSPOSE_THRESHOLD);
        many && self.dims[1].bound.is_some()
    }

    /// Planes for the M loops of a canonical step, if that does not waste lanes; `turns` if cells
    /// are elements, so that a copy may [transpose](Planes::are_interleaved) them.
    pub fn of(step: &Contract, lanes: usize, transposes: bool) -> Option<Planes> {
        let planes = Planes::seen(step)?;
        let [slow, fast] = &planes.dims;
        // Where some loop of the sum is the way through memory, rows along it are packed instead.
        // An image of one output has no lanes, and is far from the others of its batch.
        let is_alone = step.loops(Role::M).next().is_none();
        let reach = if is_alone { i64::MAX } else { fast.unit.abs() * fast.stride };
        let shorter = |axis: &Loop| axis.extent > 1 && axis.by.at[1].abs() < reach;
        let transposed = transposes && planes.are_interleaved();
        if reach > FAR && !transposed && planes.channels.loops.iter().any(shorter) {
            return None;
        }
        // Lanes between the rows of a window are wasted. Of the batch nothing may depend on it: the
        // order of sums does.
        let rows = if slow.bound.is_some() { slow.outputs.extent } else { 1 };
        let pitch = fast.cells(fast.outputs.extent);
        let whole = (rows * fast.outputs.extent).div_ceil(lanes) * 2;
        let tiles = (rows * pitch).div_ceil(lanes);
        // A window of few outputs is better packed with its neighbours. Kernels compute half tiles
        // at least.
        let computed = (rows * pitch).next_multiple_of(lanes / 2);
        let few = slow.bound.is_some() && 3 * rows * fast.outputs.extent < computed;
        (tiles <= whole && !few && planes.taps() <= TAPS && pitch < 1 << 24).then_some(planes)
    }

    /// The same for tiles of two by two outputs of a window of three by three taps, with patches of
    /// four by four positions as their taps, in the order of positions; `None` for other windows.
    pub fn in_pairs(&self) -> Option<Planes> {
        let pairs = |dim: &Dim| -> Option<Dim> {
            let d = dim.bound?;
            if dim.stride != 1 || dim.taps.extent != 3 || dim.step().abs() != 1 {
                return None;
            }
            let start = if dim.is_mirrored() { dim.start - 2 } else { dim.start };
            let mut by = OperandOffsets::default();
            by.add(&dim.outputs.by, 2);
            let mut tap = OperandOffsets::default();
            tap.pos[d] = 1;
            let at = |t: i64| start + t;
            // At most two.
            let mut phases = vec![at(0).rem_euclid(2), at(1).rem_euclid(2)];
            phases.sort_unstable();
            Some(Dim {
                outputs: Loop { extent: dim.outputs.extent.div_ceil(2), by },
                bound: dim.bound,
                taps: Loop { extent: 4, by: tap },
                stride: 2,
                start,
                anchor: dim.anchor,
                extent: dim.extent,
                unit: dim.unit,
                first: at(0).div_euclid(2),
                last: at(3).div_euclid(2),
                phases,
            })
        };
        let [slow, fast] = &self.dims;
        let dims = [pairs(slow)?, pairs(fast)?];
        Some(Planes { dims, outer: self.outer.clone(), channels: self.channels.clone() })
    }

    /// What the taps of the dimensions move operand `b` in the order of positions, and where the
    /// first one is.
    pub fn taps_forward(&self) -> ([i64; 2], i64) {
        let mut first = 0;
        let taps = self.dims.each_ref().map(|dim| {
            let tap = dim.taps.by.at[2];
            if dim.is_mirrored() {
                first += (dim.taps.extent as i64 - 1) * tap;
                return -tap;
            }
            tap
        });
        (taps, first)
    }

    /// Joins the planes of another step on the same operand, whose offset is `apart` further: both
    /// become those that both see, output by output. `false` if these are no phases of one stride;
    /// then neither is of use.
    pub fn join(&mut self, other: &mut Planes, apart: i64) -> bool {
        let position = |dim: &Dim| if dim.bound.is_some() { dim.start * dim.unit } else { 0 };
        let from = |planes: &Planes| planes.dims.iter().map(position).sum::<i64>();
        // Where the other one begins, less what its bounds say.
        let mut left = apart + from(self) - from(other);
        for (dim, seen) in self.dims.iter_mut().zip(&mut other.dims) {
            if seen.bound.is_none() && dim.bound.is_some() {
                // Its bound always holds, and is gone. Any positions will do that are where the
                // elements are.
                let Some(at) = left.checked_div_euclid(dim.unit) else { return false };
                left -= at * dim.unit;
                if at < 0 || at + seen.outputs.extent as i64 > dim.extent {
                    return false;
                }
                (seen.bound, seen.extent) = (dim.bound, dim.extent);
                (seen.start, seen.anchor, seen.first, seen.last) = (at, at, at, at);
            }
            let kind = |dim: &Dim| (dim.bound.is_some(), dim.stride, dim.extent, dim.unit);
            if kind(dim) != kind(seen) {
                return false;
            }
            let [first, last] = [dim.first.min(seen.first), dim.last.max(seen.last)];
            let extent = dim.outputs.extent.max(seen.outputs.extent);
            for dim in [dim, seen] {
                (dim.first, dim.last, dim.outputs.extent) = (first, last, extent);
            }
        }
        left == 0
    }

    /// Whether the positions of both dimensions lie side by side, without gaps.
    pub fn are_dense(&self) -> bool {
        let [slow, fast] = &self.dims;
        slow.bound.is_some() && fast.bound.is_some() && fast.unit == 1 && slow.unit == fast.extent
    }

    /// Whether a place is inside the bounds that are not those of the planes' dimensions.
    pub fn is_inside(&self, source: Source<'_>, point: &OperandOffsets) -> bool {
        let [slow, fast] = &self.dims;
        source.bounds.iter().enumerate().all(|(d, bound)| {
            [slow.bound, fast.bound].contains(&Some(d))
                || ((bound.start + point.pos[d]) as u64) < bound.extent as u64
        })
    }

    /// Taps per channel.
    pub fn taps(&self) -> usize {
        self.dims[0].taps.extent * self.dims[1].taps.extent
    }

    /// The points of the sum for the channels `begin..end` in the order of kernels, `per` channels
    /// to a cell, as an operand without bounds sees them. Where a cell has no channel left the last
    /// one stands: its plane is 0.
    pub fn evens(&self, begin: usize, end: usize, per: usize, slot: usize, list: &mut Vec<StridedRun>) {
        if per == 1 && self.taps() == 1 {
            return self.channels.evens(begin, end, slot, false, list);
        }
        list.clear();
        let [slow, fast] = &self.dims;
        for cell in (begin..end).step_by(per) {
            let first = self.channels.offset(cell, slot);
            let other = |number: usize| self.channels.offset((cell + number).min(end - 1), slot) - first;
            let group_offsets =
                (per > 1).then(|| [1, 2, 3].map(|number| if number < per { other(number) } else { 0 }));
            for t0 in 0..slow.taps.extent {
                let at = first + t0 as i64 * slow.taps.by.at[slot];
                let by = fast.taps.by.at[slot];
                StridedRun::plain(at, by, fast.taps.extent, group_offsets).push(list, false);
            }
        }
    }

    /// The block of outputs of `rows` by `columns`, as cells: pitch of a row, of a plane, planes
    /// per channel.
    pub fn block(&self, rows: usize, columns: usize, line: usize) -> Block {
        let [slow, fast] = &self.dims;
        let pitch = fast.cells(columns);
        // An odd number of cache lines, so that the planes of many channels do not meet in the same
        // sets.
        let plane = (slow.cells(rows) * pitch).next_multiple_of(line);
        let plane = if (plane / line).is_multiple_of(2) { plane + line } else { plane };
        Block { rows, columns, pitch, plane, phases: slow.phases.len() * fast.phases.len() }
    }
}
