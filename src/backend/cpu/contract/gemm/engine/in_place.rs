//! Rows that kernels read where they lie: where each of their segments begins, in the operand, in a copy of what the window leaves of
//! it, or in zeros.

use super::{Engine, Lanes};
use crate::backend::cpu::contract::kernel::RowCells;
use crate::backend::cpu::contract::kernel::simd::{MR, Simd};
use crate::backend::cpu::contract::operands::pack::Part;
use crate::backend::cpu::contract::operands::points::Point;
use crate::backend::cpu::stream::fetch;
use crate::dtype::convert::Element;
use crate::ops::contract::{Bound, MAX_BOUNDS};

impl<S: Simd<Part: Part, Sum: Element>> Engine<'_, S> {
    /// The pointers to rows read in place, per segment; to zeros where a row's segment is outside the bounds, to a copy
    /// where some taps of it are.
    ///
    /// # Safety
    /// As for [`contract::run`](crate::backend::cpu::contract::epilogue::run); there is room for the copies of all segments.
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
                // SAFETY: the caller's promise.
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
                    // SAFETY: the caller's promise.
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
