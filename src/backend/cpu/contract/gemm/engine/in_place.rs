//! Lanes and rows that kernels read where they lie, and where each segment of a row begins: in the
//! operand, in a copy of the part that the window leaves, or in zeros.

use super::{Engine, KC, PackA, PackB};
use crate::backend::cpu::contract::kernel::simd::{MR, Simd};
use crate::backend::cpu::contract::kernel::{Kernels, RowPointers};
use crate::backend::cpu::contract::operands::pack::{PackScalar, Source};
use crate::backend::cpu::contract::operands::planes::Planes;
use crate::backend::cpu::contract::operands::points::{Loop, Loops, OperandOffsets};
use crate::backend::cpu::stream::fetch;
use crate::dtype::convert::Element;
use crate::ops::contract::{Bound, MAX_BOUNDS};

/// Rows up to which lanes are read in place, if lines of the sum are no more elements apart.
const IN_PLACE_M: usize = 96;
const IN_PLACE_PITCH: usize = 1024;

/// Elements between lines of the sum up to which lanes are read in place by any rows: there is
/// little else in memory.
const DENSE: usize = 64;

/// Elements of a run from which on rows are read in place.
const IN_PLACE_RUN: usize = 8;

impl<S: Simd<Scalar: PackScalar, Acc: Element>> Engine<'_, S> {
    /// The pointers to rows read in place, per segment; to zeros where a row's segment is outside
    /// the bounds, to a copy where some taps of it are.
    ///
    /// # Safety
    /// As for [`contract::run`](crate::backend::cpu::contract::run); there is room for the copies
    /// of all segments.
    #[inline(always)]
    pub(super) unsafe fn in_place(
        &self, points: &[OperandOffsets], starts: &[OperandOffsets], base: &[i64; 5], runs: &Runs<'_, S>,
        table: &mut Vec<RowPointers<S::KGroup>>,
    ) {
        let source = self.row_source;
        let (slot, per) = (source.slot, runs.taps.unwrap_or(1));
        let data = source.data.cast::<S::Scalar>().wrapping_offset(base[slot] as isize);
        let first = table.len();
        // At most the segments of a K block.
        table.resize(first + starts.len() / per, [runs.zeros; MR]);
        let table = &mut table[first..];
        // Short segments far apart: kernels would wait for each.
        let far = starts.len() > 1 && matches!(self.from_lanes, PackB::Planes(_));
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
        &self, point: &OperandOffsets, from: *const S::Scalar, taps: &[OperandOffsets], runs: &Runs<'_, S>,
        copy: *mut S::KGroup,
    ) -> *const S::KGroup {
        let source = self.row_source;
        let inside =
            |tap: &OperandOffsets| {
                source.bounds.iter().enumerate().all(|(d, bound)| {
                    ((bound.start + point.pos[d] + tap.pos[d]) as u64) < bound.extent as u64
                })
            };
        let at =
            |tap: &OperandOffsets| from.wrapping_offset(tap.at[source.slot] as isize).cast::<S::KGroup>();
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
                        from.cast::<S::Scalar>().copy_to_nonoverlapping(to.cast(), cells * S::K_PACK);
                    }
                }
                copy
            }
        }
    }
}

/// The lowest and the highest position that taps add to a row's, for every bound.
pub(super) fn reach_of(bounds: &[Bound], starts: &[OperandOffsets]) -> [(i64, i64); MAX_BOUNDS] {
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
    pub(super) zeros: *const S::KGroup,
    pub(super) copies: *mut S::KGroup,
}

/// Whether kernels read lanes where they lie: neighbours in memory, of which a copy would be used
/// so seldom that it costs more than the caches lose by how far lines of the sum are apart. Of what
/// is kept a copy serves many steps. Sums have the order of those that are packed.
pub(super) fn lanes_in_place<S: Simd<Scalar: PackScalar>>(
    source: &Source<'_>, lanes: &Loops, sum: &Loops, rows: usize, keeps: bool,
) -> bool {
    let ([lane], [axis]) = (&lanes.loops[..], &sum.loops[..]) else { return false };
    let native = S::K_PACK == 1
        && <S::Scalar as PackScalar>::SCALAR == Some(source.scalar)
        && source.bounds.is_empty();
    let apart = axis.by.at[source.slot].unsigned_abs() as usize;
    let seldom = !keeps && (rows <= MR || rows <= IN_PLACE_M && apart <= IN_PLACE_PITCH);
    let few = seldom || apart <= DENSE;
    let reach = apart.saturating_mul(axis.extent);
    native
        && few
        && lane.by.at[source.slot] == 1
        && lane.extent >= Kernels::<S>::NR
        && reach < i32::MAX as usize
}

/// How rows are read where they lie, if their sums run through memory evenly and they are of the
/// type that kernels read.
pub(super) fn rows_in_place<S: Simd<Scalar: PackScalar>>(
    source: &Source<'_>, rows: &Loops, sum: &Loops, wanted: bool,
) -> Option<PackA> {
    let axis = sum.loops.last()?;
    let step = axis.by.at[source.slot];
    // Cells are read where they lie if neighbours of the sum fill them.
    let fits =
        wanted && (S::K_PACK == 1 || S::K_PACK == 4 && step == 1 && axis.extent.is_multiple_of(S::K_PACK));
    // Rows outside the bounds read zeros, which lie side by side.
    let bounded = !source.bounds.is_empty();
    let still = |axis: &Loop| axis.by.pos == [0; MAX_BOUNDS];
    if !fits || rows.len() == 0 || step <= 0 || bounded && !(still(axis) && step == 1) {
        return None;
    }
    if axis.extent >= IN_PLACE_RUN {
        return Some(PackA::InPlace { inner: axis.extent / S::K_PACK, step: step as usize, taps: None });
    }
    // Few channels: the taps beside them belong to the run, of which the part inside the window
    // counts.
    let taps = sum.loops[..sum.loops.len() - 1].last()?;
    let run = axis.extent * taps.extent;
    let one = step == 1 && taps.by.at[source.slot] == axis.extent as i64;
    (one && (IN_PLACE_RUN..=KC * S::K_PACK).contains(&run)).then_some(PackA::InPlace {
        inner: run / S::K_PACK,
        step: 1,
        taps: Some(taps.extent),
    })
}

/// How many terms of the rows' sums run through memory in the order of the planes' channels and
/// taps: 0 if all do, else the taps of a channel, if they are many enough.
pub(super) fn planes_in_place<S: Simd<Scalar: PackScalar>>(
    source: &Source<'_>, planes: &Option<Planes>, sum: &Loops,
) -> Option<usize> {
    let planes = planes.as_ref()?;
    let native = S::K_PACK == 1 && <S::Scalar as PackScalar>::SCALAR == Some(source.scalar);
    if !native || planes.channels.loops.len() > 1 || sum.loops.is_empty() {
        return None;
    }
    let [slow, fast] = planes.dims.each_ref().map(|dim| dim.taps());
    let channel = planes.channels.loops.first();
    let mut reach = 1;
    for axis in [Some(fast), Some(slow), channel].into_iter().flatten().filter(|axis| axis.extent > 1) {
        if axis.by.at[source.slot] != reach {
            let all = reach == planes.taps() as i64 && planes.taps() >= IN_PLACE_RUN;
            return all.then_some(planes.taps());
        }
        reach *= axis.extent as i64;
    }
    Some(0)
}
