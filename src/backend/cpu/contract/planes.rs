//! A windowed operand as planes: copied once per block of outputs, with its padding, so that every tap of every channel
//! is the same plane read from another place.
//!
//! Lanes run along the destination's fastest dimension. Of a window with stride s, outputs p and p + 1 read positions s
//! apart; the copy puts positions of one remainder modulo s (a phase) side by side, so that these are neighbours. A tile
//! then takes its vectors from `plane of channel and phase + shift of the tap + place of the outputs`: nothing is
//! packed per tap.

use std::ops::Range;

use super::pack::{Part, Source, pairs, row};
use super::points::{Even, Point, Turn, Walk};
use super::simd::Simd;
use crate::dtype::convert::{Element, with_element};
use crate::layout::Axis;
use crate::ops::Scaling;
use crate::ops::contract::{Contract, Role};

/// One dimension of the planes.
#[derive(Clone, Debug)]
pub(super) struct Dim {
    /// The loop over outputs.
    pub(super) outputs: Turn,
    /// The bound it belongs to.
    bound: Option<usize>,
    /// The loop over taps; one tap if there is none.
    taps: Turn,
    /// Positions between neighbouring outputs.
    stride: i64,
    /// Where output 0 meets tap 0, and the position that the operand's offset is at; the number of positions, and how far
    /// the operand moves per position.
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
    pub(super) fn is_mirrored(&self) -> bool {
        self.step() < 0
    }

    /// The loop over taps.
    pub(super) fn taps(&self) -> &Turn {
        &self.taps
    }

    fn step(&self) -> i64 {
        self.bound.map_or(0, |d| self.taps.by.pos[d])
    }

    /// Cells along the dimension for so many outputs.
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

/// Channels ahead that are asked for.
const AHEAD: i64 = 8;

/// Asks for a cache line.
#[inline(always)]
pub(super) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: part of the base instruction set; an address that cannot be read is ignored.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// How a step is computed from planes.
#[derive(Clone, Debug)]
pub(super) struct Planes {
    /// The slower and the faster dimension.
    pub(super) dims: [Dim; 2],
    /// The other loops of the rows of outputs.
    pub(super) outer: Walk,
    /// The loops of the sum that are not taps of the dims: one plane each.
    pub(super) channels: Walk,
}

/// A dimension that turns once.
fn none() -> Turn {
    Turn { extent: 1, by: Point::default() }
}

impl Planes {
    /// Planes for the M loops of a canonical step, if that does not waste lanes.
    pub(super) fn of(step: &Contract, lanes: usize) -> Option<Planes> {
        let rows: Vec<usize> = step.loops(Role::M).map(|(index, _)| index).collect();
        let mut used = Vec::new();
        let mut dim = |index: Option<usize>| -> Option<Dim> {
            let outputs = index.map_or(none(), |index| Turn::of(step, index));
            let bound = index.and_then(|i| step.bounds().iter().position(|b| b.axes[0] == i as u8));
            let Some(d) = bound else {
                if step.bounds().iter().any(|b| index.is_some_and(|i| b.axes[1] == i as u8)) {
                    return None;
                }
                let unit = outputs.by.at[1];
                let (start, extent, stride) = (0, i64::MAX, 1);
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
            let (taps, stride) = (Turn::of(step, tap), bound.steps[0]);
            let at = |t: usize| bound.start + t as i64 * bound.steps[1];
            let shifts = || (0..taps.extent).map(|t| at(t).div_euclid(stride));
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
        let channels: Vec<Turn> = step
            .loops(Role::K)
            .filter(|(index, _)| !used.contains(index))
            .map(|(index, _)| Turn::of(step, index))
            .collect();
        let planes = Planes {
            outer: Walk { turns: left.into_iter().map(|index| Turn::of(step, index)).collect() },
            channels: Walk { turns: channels },
            dims,
        };
        let [slow, fast] = &planes.dims;
        // Where some loop of the sum is the way through memory, rows along it are packed instead.
        let reach = fast.unit.abs() * fast.stride;
        let shorter = |axis: &Axis<5>| axis.extent > 1 && axis.strides[1].abs() < reach;
        if reach > FAR && step.loops(Role::K).any(|(_, axis)| shorter(axis)) {
            return None;
        }
        // Lanes between the rows of a window are wasted. Of the batch nothing may depend on it: the order of sums does.
        let rows = if slow.bound.is_some() { slow.outputs.extent } else { 1 };
        let pitch = fast.cells(fast.outputs.extent);
        let whole = (rows * fast.outputs.extent).div_ceil(lanes) * 2;
        let tiles = (rows * pitch).div_ceil(lanes);
        // A window of few outputs is better packed with its neighbours. Kernels compute half tiles at least.
        let computed = (rows * pitch).next_multiple_of(lanes / 2);
        let few = slow.bound.is_some() && 3 * rows * fast.outputs.extent < computed;
        (tiles <= whole && !few && planes.taps() <= 512 && pitch < 1 << 24).then_some(planes)
    }

    /// The same for tiles of two by two outputs of a window of three by three taps, with patches of four by four positions
    /// as their taps, in the order of positions; `None` for other windows.
    pub(super) fn in_pairs(&self) -> Option<Planes> {
        let pairs = |dim: &Dim| -> Option<Dim> {
            let d = dim.bound?;
            if dim.stride != 1 || dim.taps.extent != 3 || dim.step().abs() != 1 {
                return None;
            }
            let start = if dim.is_mirrored() { dim.start - 2 } else { dim.start };
            let mut by = Point::default();
            by.add(&dim.outputs.by, 2);
            let mut tap = Point::default();
            tap.pos[d] = 1;
            let at = |t: i64| start + t;
            let mut phases = vec![at(0).rem_euclid(2), at(1).rem_euclid(2)];
            phases.sort_unstable();
            Some(Dim {
                outputs: Turn { extent: dim.outputs.extent.div_ceil(2), by },
                bound: dim.bound,
                taps: Turn { extent: 4, by: tap },
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

    /// Whether the positions of both dimensions lie side by side, without gaps.
    pub(super) fn are_dense(&self) -> bool {
        let [slow, fast] = &self.dims;
        slow.bound.is_some() && fast.bound.is_some() && fast.unit == 1 && slow.unit == fast.extent
    }

    /// Whether a place is inside the bounds that are not those of the planes' dimensions.
    fn is_inside(&self, source: Source<'_>, point: &Point) -> bool {
        let [slow, fast] = &self.dims;
        source.bounds.iter().enumerate().all(|(d, bound)| {
            [slow.bound, fast.bound].contains(&Some(d))
                || ((bound.start + point.pos[d]) as u64) < bound.extent as u64
        })
    }

    /// Taps per channel.
    pub(super) fn taps(&self) -> usize {
        self.dims[0].taps.extent * self.dims[1].taps.extent
    }

    /// The points of the sum for the channels `begin..end` in the order of kernels, `per` channels to a cell, as an operand
    /// without bounds sees them. Where a cell has no channel left the last one stands: its plane is 0.
    pub(super) fn evens(&self, begin: usize, end: usize, per: usize, slot: usize, list: &mut Vec<Even>) {
        list.clear();
        let [slow, fast] = &self.dims;
        for cell in (begin..end).step_by(per) {
            let first = self.channels.offset(cell, slot);
            let mate = (per > 1).then(|| self.channels.offset((cell + 1).min(end - 1), slot) - first);
            for t0 in 0..slow.taps.extent {
                let at = first + t0 as i64 * slow.taps.by.at[slot];
                let by = fast.taps.by.at[slot];
                Even::plain(at, by, fast.taps.extent, mate).push(list, false);
            }
        }
    }

    /// The block of outputs of `rows` by `columns`, as cells: pitch of a row, of a plane, planes per channel.
    pub(super) fn block(&self, rows: usize, columns: usize, line: usize) -> Block {
        let [slow, fast] = &self.dims;
        let pitch = fast.cells(columns);
        // An odd number of cache lines, so that the planes of many channels do not meet in the same sets.
        let plane = (slow.cells(rows) * pitch).next_multiple_of(line);
        let plane = if (plane / line).is_multiple_of(2) { plane + line } else { plane };
        Block { rows, columns, pitch, plane, phases: slow.phases.len() * fast.phases.len() }
    }
}

/// The planes of a block of outputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) pitch: usize,
    pub(super) plane: usize,
    pub(super) phases: usize,
}

impl Block {
    /// Cells of so many channels.
    pub(super) fn cells(&self, channels: usize) -> usize {
        channels * self.phases * self.plane
    }

    /// Where the vectors of every cell of the sum are, for so many cells of channels.
    pub(super) fn offsets(&self, planes: &Planes, channels: usize, offsets: &mut Vec<i32>) {
        offsets.clear();
        let [slow, fast] = &planes.dims;
        for channel in 0..channels {
            for t0 in 0..slow.taps.extent {
                let (down, phase0) = slow.tap(t0);
                for t1 in 0..fast.taps.extent {
                    let (along, phase1) = fast.tap(t1);
                    let plane = channel * self.phases + phase0 * fast.phases.len() + phase1;
                    offsets.push((plane * self.plane + down * self.pitch + along) as i32);
                }
            }
        }
    }

    /// The rows of elements that the planes of a channel consist of, for the outputs from a row and a column on; all other
    /// cells are 0.
    pub(super) fn spans(&self, planes: &Planes, [first_row, first_column]: [usize; 2]) -> Vec<Span> {
        let [slow, fast] = &planes.dims;
        let mut spans = Vec::with_capacity(self.phases * slow.cells(self.rows));
        let anchor = slow.anchor * slow.unit + fast.anchor * fast.unit;
        for (p0, p1) in (0..slow.phases.len()).flat_map(|p0| (0..fast.phases.len()).map(move |p1| (p0, p1))) {
            let plane = (p0 * fast.phases.len() + p1) * self.plane;
            let (x1, cells) = (fast.position(first_column, 0, p1), self.pitch as i64);
            let (low, high) = if fast.bound.is_none() {
                (0, cells)
            } else {
                let until = |x: i64| (x - x1 + fast.stride - 1).div_euclid(fast.stride).clamp(0, cells);
                (until(0), until(fast.extent))
            };
            for u in 0..slow.cells(self.rows) {
                let x0 = slow.position(first_row, u, p0);
                if low < high && (slow.bound.is_none() || (x0 as u64) < slow.extent as u64) {
                    let from = x0 * slow.unit + (x1 + low * fast.stride) * fast.unit - anchor;
                    let to = plane + u * self.pitch + low as usize;
                    spans.push(Span { from, to, len: (high - low) as usize });
                }
            }
        }
        spans
    }

    /// Copies the channels `begin..end`, of which each has `spans`. If `kept`, cells between them are 0 already.
    ///
    /// # Safety
    /// Every element inside the bounds is readable and aligned; `to` has room for the [`cells`](Block::cells).
    #[allow(clippy::too_many_arguments, reason = "a block of a block of a block")]
    pub(super) unsafe fn copy<S: Simd<Part: Part>>(
        &self,
        planes: &Planes,
        source: Source<'_>,
        outer: &Point,
        spans: &[Span],
        Range { start, end }: Range<usize>,
        to: *mut S::Part,
        kept: bool,
    ) {
        // SAFETY: handed on.
        with_element!(source.scalar, E => unsafe {
            self.copy_of::<S::Plain, E>(planes, source, outer, spans, start..end, to, kept)
        })
    }

    /// The same for one channel of [dense](Planes::are_dense) planes, all of it converted at once: `near` has room for what
    /// the spans reach. No more rows of their own are converted then, of which short ones cost more than their elements.
    ///
    /// # Safety
    /// As for [`copy`](Block::copy).
    #[allow(clippy::too_many_arguments, reason = "a block of a block of a block")]
    pub(super) unsafe fn copy_near<S: Simd<Part: Part>>(
        &self,
        planes: &Planes,
        source: Source<'_>,
        place: &Point,
        (spans, reach): (&[Span], &Range<i64>),
        near: *mut S::Part,
        to: *mut S::Part,
        kept: bool,
    ) {
        let (mut source, mut place) = (source, *place);
        if let (Some(convert), Some(part)) = (source.convert, S::Part::SCALAR)
            && planes.is_inside(source, &place)
        {
            let from = (place.at[1] + reach.start) as isize * source.scalar.size() as isize;
            let len = (reach.end - reach.start) as usize;
            // SAFETY: the caller's promise: the elements are inside the bounds.
            unsafe { convert(near.cast(), source.data.wrapping_offset(from), len, Scaling::MOVE) };
            source.data = near.wrapping_offset(-reach.start as isize).cast();
            (source.scalar, source.convert, place.at[1]) = (part, None, 0);
        }
        // SAFETY: handed on; what was converted is where its source would be.
        unsafe { self.copy::<S>(planes, source, &place, spans, 0..1, to, kept) }
    }

    /// The elements from the first to the last one of all spans.
    pub(super) fn reach(&self, planes: &Planes, spans: &[Span]) -> Range<i64> {
        let step = planes.dims[1].stride * planes.dims[1].unit;
        let last = |span: &Span| span.from + (span.len as i64 - 1) * step + 1;
        let (first, end) = (spans.iter().map(|span| span.from).min(), spans.iter().map(last).max());
        first.unwrap_or(0)..end.unwrap_or(0)
    }

    /// # Safety
    /// As for [`copy`](Block::copy).
    #[allow(clippy::too_many_arguments, reason = "a block of a block of a block")]
    unsafe fn copy_of<S: Simd<Part: Part>, E: Element>(
        &self,
        planes: &Planes,
        source: Source<'_>,
        outer: &Point,
        spans: &[Span],
        channels: Range<usize>,
        to: *mut S::Part,
        kept: bool,
    ) {
        let fast = &planes.dims[1];
        let (per, step) = (S::PER, (fast.stride * fast.unit) as isize);
        let data = source.data.cast::<E>();
        // SAFETY: the caller's promise: cells lie in `to`, elements are read inside the bounds only.
        unsafe {
            if !channels.len().is_multiple_of(per) {
                // The last cell of the sum has no second channel.
                let last = self.cells(channels.len() / per) * per;
                to.add(last).write_bytes(0, self.cells(1) * per);
            }
            // Short runs from many pages: the processor does not see the next channels coming.
            let ahead = planes.channels.turns.last().map_or(0, |turn| turn.by.at[1] * AHEAD);
            let point = |channel: usize| {
                let mut point = planes.channels.point(channel);
                point.add(outer, 1);
                point
            };
            let is_inside = |point: &Point| planes.is_inside(source, point);
            let mut next = channels.start;
            while next < channels.end {
                let (channel, number) = (next, next - channels.start);
                let to = to.add(self.cells(number / per) * per + number % per);
                let mate = (per == 2 && channel + 1 < channels.end).then(|| point(channel + 1));
                let point = point(channel);
                let inside = is_inside(&point);
                // Both channels of a cell at once, where they are alike.
                let mate = mate.filter(|mate| number.is_multiple_of(2) && inside && is_inside(mate));
                let mate = mate.map(|mate| (mate.at[1] - point.at[1]) as isize);
                let parts = if mate.is_some() { 2 } else { 1 };
                next += parts;
                let clear = |cells: Range<usize>| {
                    if per == 1 {
                        to.add(cells.start).write_bytes(0, cells.len());
                        return;
                    }
                    for i in cells {
                        (0..parts).for_each(|k| to.add(i * per + k).write(S::Part::default()));
                    }
                };
                let mut done = 0;
                for span in if inside { spans } else { &[] } {
                    let from = point.at[1] + span.from;
                    if self.rows == 1 {
                        let line = (64 / size_of::<E>() as i64).max(1);
                        (0..span.len as i64 * step.abs() as i64)
                            .step_by(line as usize)
                            .for_each(|i| prefetch(data.wrapping_offset((from + ahead + i) as isize)));
                    }
                    if !kept && done < span.to {
                        clear(done..span.to);
                    }
                    let (from, cells) = (data.offset(from as isize), to.add(span.to * per));
                    match mate {
                        Some(far) => pairs::<S, E>([from, from.offset(far)], step, span.len, cells),
                        None => row::<S, E>(source.convert, from, step, span.len, cells),
                    }
                    done = span.to + span.len;
                }
                if !kept || !inside {
                    clear(done..self.cells(1));
                }
            }
        }
    }
}

/// Neighbours that a channel's planes have: where the first is, less the place of the channel, its cell, and how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    from: i64,
    to: usize,
    len: usize,
}
