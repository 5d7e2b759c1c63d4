//! Lanes and rows that kernels read where they lie, and where each segment of a row begins: in the
//! operand, in a copy of the part that the window leaves, or in zeros.

use super::{Engine, KC, Lanes, RowSource};
use crate::backend::cpu::contract::kernel::simd::{MR, Simd};
use crate::backend::cpu::contract::kernel::{Kernels, RowCells};
use crate::backend::cpu::contract::operands::pack::{Part, Source};
use crate::backend::cpu::contract::operands::planes::Planes;
use crate::backend::cpu::contract::operands::points::{Point, Turn, Walk};
use crate::backend::cpu::stream::fetch;
use crate::dtype::convert::Element;
use crate::ops::contract::{Bound, MAX_BOUNDS};

/// Rows up to which lanes are read in place, if lines of the sum are no more elements apart.
const SELDOM: usize = 96;
const NEAR: usize = 1024;

/// Elements between lines of the sum up to which lanes are read in place by any rows: there is
/// little else in memory.
const DENSE: usize = 64;

/// Elements of a run from which on rows are read in place.
const WORTH: usize = 8;

impl<S: Simd<Part: Part, Sum: Element>> Engine<'_, S> {
    /// The pointers to rows read in place, per segment; to zeros where a row's segment is outside
    /// the bounds, to a copy where some taps of it are.
    ///
    /// # Safety
    /// As for [`contract::run`](crate::backend::cpu::contract::run); there is room for the copies
    /// of all segments.
    #[inline(always)]
    pub(super) unsafe fn in_place(
        &self, points: &[Point], starts: &[Point], base: &[i64; 5], runs: &Runs<'_, S>,
        table: &mut Vec<RowCells<S::Cell>>,
    ) {
        let source = self.row_source;
        let (slot, per) = (source.slot, runs.taps.unwrap_or(1));
        let data = source.data.cast::<S::Part>().wrapping_offset(base[slot] as isize);
        let first = table.len();
        // At most the segments of a K block.
        table.resize(first + starts.len() / per, [runs.zeros; MR]);
        let table = &mut table[first..];
        // Short segments far apart: kernels would wait for each.
        let far = starts.len() > 1 && matches!(self.from_lanes, Lanes::Planes(_));
        for (m, point) in points.iter().enumerate() {
            let from = data.wrapping_offset(point.at[slot] as isize);
            let mut whole = true;
            for (d, bound) in source.bounds.iter().enumerate() {
                let (low, high) = runs.reach[d];
                whole &= point.pos[d] + low >= 0 && point.pos[d] + high < bound.extent;
            }
            if whole {
                for (rows, start) in table.iter_mut().zip(starts.iter().step_by(per)) {
                    rows[m] = from.wrapping_offset(start.at[slot] as isize).cast();
                    if far {
                        fetch(rows[m].cast());
                    }
                }
                continue;
            }
            for (number, (rows, taps)) in table.iter_mut().zip(starts.chunks(per)).enumerate() {
                let copy = runs.copies.wrapping_add((m + number * points.len()) * runs.inner);
                // SAFETY: the copies have room for a segment of this row.
                rows[m] = unsafe { self.segment(point, from, taps, runs, copy) };
            }
        }
    }

    /// The same for one segment of one row, which may leave the bounds.
    ///
    /// # Safety
    /// As for [`in_place`](Engine::in_place).
    unsafe fn segment(
        &self, point: &Point, from: *const S::Part, taps: &[Point], runs: &Runs<'_, S>, copy: *mut S::Cell,
    ) -> *const S::Cell {
        let source = self.row_source;
        let inside =
            |tap: &Point| {
                source.bounds.iter().enumerate().all(|(d, bound)| {
                    ((bound.start + point.pos[d] + tap.pos[d]) as u64) < bound.extent as u64
                })
            };
        let at = |tap: &Point| from.wrapping_offset(tap.at[source.slot] as isize).cast::<S::Cell>();
        // Taps leave a window at its ends.
        match [&taps[0], &taps[taps.len() - 1]].map(inside) {
            [true, true] => at(&taps[0]),
            _ if !taps.iter().any(inside) => runs.zeros,
            _ => {
                let cells = runs.inner / taps.len();
                for (number, tap) in taps.iter().enumerate() {
                    let to = copy.wrapping_add(number * cells);
                    // SAFETY: the run lies inside the operand, or a copy of it in the segment's
                    // place.
                    unsafe {
                        let from = if inside(tap) { at(tap) } else { runs.zeros };
                        // Part by part: cells of several lie anywhere.
                        from.cast::<S::Part>().copy_to_nonoverlapping(to.cast(), cells * S::PER);
                    }
                }
                copy
            }
        }
    }
}

/// The lowest and the highest position that taps add to a row's, for every bound.
pub(super) fn reach_of(bounds: &[Bound], starts: &[Point]) -> [(i64, i64); MAX_BOUNDS] {
    let mut reach = [(0, 0); MAX_BOUNDS];
    for (d, (bound, reach)) in bounds.iter().zip(&mut reach).enumerate() {
        let positions = || starts.iter().map(|start| bound.start + start.pos[d]);
        *reach = (positions().min().unwrap_or(0), positions().max().unwrap_or(0));
    }
    reach
}

/// How rows are read in place.
pub(super) struct Runs<'a, S: Simd> {
    /// Cells of a segment, and the taps it has where they can leave the bounds one by one.
    pub(super) inner: usize,
    pub(super) taps: Option<usize>,
    /// The lowest and the highest position that taps add to a row's.
    pub(super) reach: &'a [(i64, i64); MAX_BOUNDS],
    /// A segment of zeros, and where copies go.
    pub(super) zeros: *const S::Cell,
    pub(super) copies: *mut S::Cell,
}

/// Whether kernels read lanes where they lie: neighbours in memory, of which a copy would be used
/// so seldom that it costs more than the caches lose by how far lines of the sum are apart. Of what
/// is kept a copy serves many steps. Sums have the order of those that are packed.
pub(super) fn lanes_in_place<S: Simd<Part: Part>>(
    source: &Source<'_>, lanes: &Walk, sum: &Walk, rows: usize, keeps: bool,
) -> bool {
    let ([lane], [turn]) = (&lanes.turns[..], &sum.turns[..]) else { return false };
    let native = S::PER == 1 && <S::Part as Part>::SCALAR == Some(source.scalar) && source.bounds.is_empty();
    let apart = turn.by.at[source.slot].unsigned_abs() as usize;
    let seldom = !keeps && (rows <= MR || rows <= SELDOM && apart <= NEAR);
    let few = seldom || apart <= DENSE;
    let reach = apart.saturating_mul(turn.extent);
    native
        && few
        && lane.by.at[source.slot] == 1
        && lane.extent >= Kernels::<S>::NR
        && reach < i32::MAX as usize
}

/// How rows are read where they lie, if their sums run through memory evenly and they are of the
/// type that kernels read.
pub(super) fn rows_in_place<S: Simd<Part: Part>>(
    source: &Source<'_>, rows: &Walk, sum: &Walk, wanted: bool,
) -> Option<RowSource> {
    let turn = sum.turns.last()?;
    let step = turn.by.at[source.slot];
    // Cells are read where they lie if neighbours of the sum fill them.
    let fits = wanted && (S::PER == 1 || S::PER == 4 && step == 1 && turn.extent.is_multiple_of(S::PER));
    // Rows outside the bounds read zeros, which lie side by side.
    let bounded = !source.bounds.is_empty();
    let still = |turn: &Turn| turn.by.pos == [0; MAX_BOUNDS];
    if !fits || rows.len() == 0 || step <= 0 || bounded && !(still(turn) && step == 1) {
        return None;
    }
    if turn.extent >= WORTH {
        return Some(RowSource::InPlace { inner: turn.extent / S::PER, step: step as usize, taps: None });
    }
    // Few channels: the taps beside them belong to the run, of which the part inside the window
    // counts.
    let taps = sum.turns[..sum.turns.len() - 1].last()?;
    let run = turn.extent * taps.extent;
    let one = step == 1 && taps.by.at[source.slot] == turn.extent as i64;
    (one && (WORTH..=KC * S::PER).contains(&run)).then_some(RowSource::InPlace {
        inner: run / S::PER,
        step: 1,
        taps: Some(taps.extent),
    })
}

/// How many terms of the rows' sums run through memory in the order of the planes' channels and
/// taps: 0 if all do, else the taps of a channel, if they are many enough.
pub(super) fn planes_in_place<S: Simd<Part: Part>>(
    source: &Source<'_>, planes: &Option<Planes>, sum: &Walk,
) -> Option<usize> {
    let planes = planes.as_ref()?;
    let native = S::PER == 1 && <S::Part as Part>::SCALAR == Some(source.scalar);
    if !native || planes.channels.turns.len() > 1 || sum.turns.is_empty() {
        return None;
    }
    let [slow, fast] = planes.dims.each_ref().map(|dim| dim.taps());
    let channel = planes.channels.turns.first();
    let mut reach = 1;
    for turn in [Some(fast), Some(slow), channel].into_iter().flatten().filter(|turn| turn.extent > 1) {
        if turn.by.at[source.slot] != reach {
            let all = reach == planes.taps() as i64 && planes.taps() >= WORTH;
            return all.then_some(planes.taps());
        }
        reach *= turn.extent as i64;
    }
    Some(0)
}
