//! Maxima and averages with stride 1: every column of a window belongs to the next windows, too, and is folded once.
//!
//! The columns of a row lie side by side, lanes inside, with columns of no cells around them. Tap `k` of all outputs is the same
//! row, `k` columns on: neighbours in NCHW become lanes as the channels of NHWC are. Short rows wait for each other, one behind
//! the other, and are folded as one; what that makes of columns of two rows is left out.

use super::super::end::{Counts, End};
use super::super::fold::Fold;
use super::super::shape::Shape;
use super::super::sink::Sink;
use super::{Block, Job};
use crate::backend::cpu::scratch::{Parts, bytes_of};
use crate::backend::cpu::stream::Distance;
use crate::dtype::convert::Element;

/// Lanes of outputs that are made at a time: with their columns they stay in the first-level cache.
const STRIP_LANES: usize = 2048;

/// Lanes of columns that are folded at a time: as many are asked for meanwhile.
const PIECE_LANES: usize = 256;

/// How outputs share columns.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    /// Columns of a row, those around its cells included.
    pub columns: usize,
    /// Outputs of a row that are made at a time, and rows.
    pub strip: usize,
    pub rows: usize,
}

impl Shared {
    /// `None` where they do not, or where cells or results do not lie side by side.
    pub fn new(shape: &Shape<'_>, is_gathered: bool) -> Option<Self> {
        let (axis, lanes) = (shape.last(), shape.lanes);
        let is_run = |layout: usize| shape.last_step(layout) == Some((shape.size(layout) * lanes) as isize);
        if axis.stride != 1 || axis.outputs < 2 || axis.pad < 0 || !is_run(0) || !is_gathered && !is_run(1) {
            return None;
        }
        let of_windows = axis.outputs.checked_add(axis.window)? - 1;
        let columns = of_windows.max(axis.pad.checked_add(axis.inputs)?);
        // Else most windows lie outside.
        let is_small = columns <= 4 * axis.inputs + 64;
        let columns = columns as usize;
        is_small.then_some(Shared {
            columns,
            strip: (STRIP_LANES / lanes).clamp(1, axis.outputs as usize),
            rows: (STRIP_LANES / columns.saturating_mul(lanes)).max(1),
        })
    }

    /// Bytes of what a thread knows of outputs and of rows.
    pub fn bytes(&self, shape: &Shape<'_>) -> usize {
        bytes_of::<usize>(shape.last().outputs as usize) + bytes_of::<Waiting>(self.rows)
    }

    /// Columns of all rows.
    pub fn all_columns(&self) -> usize {
        self.rows * self.columns
    }

    /// Outputs that are folded as one, and columns between their rows.
    pub fn folded(&self) -> usize {
        (self.rows - 1) * self.columns + self.strip
    }
}

/// A row whose columns are folded: where its results go, and the factor of its other axes in their divisors.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    to: *mut u8,
    count: i64,
}

impl<F: Fold, E: End<F>> Job<'_, F, E>
where
    F::Cell: Element,
{
    /// Where the outputs that are divided as this one end, for every output.
    ///
    /// # Safety
    /// There is room for one of each output, which nobody else uses meanwhile.
    pub(super) unsafe fn alike<'a>(&self, along: &[i64], parts: &mut Parts) -> &'a [usize] {
        // SAFETY: the caller's promise.
        let ends = unsafe { parts.filled(along.len(), 0) };
        let mut at = 0;
        for alike in along.chunk_by(|a, b| a == b || !E::COUNTS && *a != 0 && *b != 0) {
            ends[at..at + alike.len()].fill(at + alike.len());
            at += alike.len();
        }
        ends
    }

    /// The outputs along the last axis, of every lane, from the rows that their windows reach; or else their row waits.
    ///
    /// # Safety
    /// As for [`run`](super::run); the rows are in the block, which is that of this job.
    pub(super) unsafe fn share(
        &self,
        shared: Shared,
        to: *mut u8,
        rows: usize,
        count: i64,
        mine: &mut Block<'_, F>,
        sink: &mut Sink<'_>,
    ) {
        let (shape, axis, lanes) = (self.shape, self.shape.last(), self.shape.lanes);
        let (outputs, window, pad) = (axis.outputs as usize, axis.window as usize, axis.pad as usize);
        // Those before were asked for as the last ones of other windows.
        let fresh = if self.gather.is_some() { 0 } else { shape.axes[shape.axes.len() - 2].stride as usize };
        let columns = mine.columns.wrapping_add((mine.waits * shared.columns + pad) * lanes);
        // SAFETY: the rows exist, and there is room for their columns.
        unsafe {
            mine.waiting.add(mine.waits).write(Waiting { to, count });
            mine.waits += 1;
            let mut folded = 0;
            for begin in (0..outputs).step_by(shared.strip) {
                let n = shared.strip.min(outputs - begin);
                let until = (begin + n + window - 1).saturating_sub(pad).min(axis.inputs as usize);
                while count > 0 && folded < until {
                    let taps = std::slice::from_raw_parts_mut(mine.rows, rows);
                    let some = (PIECE_LANES / lanes).clamp(1, until - folded);
                    let cells = some * lanes;
                    for row in taps.iter().rev().take(fresh) {
                        Distance::Read.fetch(row.cast(), cells * size_of::<F::Cell>());
                    }
                    (self.folds.rows)(columns.add(folded * lanes), taps, rows, cells);
                    taps.iter_mut().for_each(|row| *row = row.wrapping_add(cells));
                    folded += some;
                }
                if mine.waits == shared.rows {
                    self.finish(shared, begin, n, mine, sink);
                }
            }
            mine.waits %= shared.rows;
        }
    }

    /// `n` outputs from `begin` on of all rows that wait.
    ///
    /// # Safety
    /// As for [`share`](Self::share); the columns of these outputs are folded.
    pub(super) unsafe fn finish(
        &self,
        shared: Shared,
        begin: usize,
        n: usize,
        mine: &mut Block<'_, F>,
        sink: &mut Sink<'_>,
    ) {
        let (lanes, size) = (self.shape.lanes, self.shape.size(0));
        let window = self.shape.last().window as usize;
        // SAFETY: the columns are there, and room for the outputs and what lies between them.
        unsafe {
            let taps = std::slice::from_raw_parts_mut(mine.taps.cast::<*const F::Lane>(), window);
            for (tap, at) in taps.iter_mut().zip(begin..) {
                *tap = mine.columns.add(at * lanes);
            }
            (self.folds.again)(mine.out, taps, window, ((mine.waits - 1) * shared.columns + n) * lanes);
            for row in 0..mine.waits {
                let Waiting { to, count } = mine.waiting.add(row).read();
                let results = sink.run::<F::Cell>(to.wrapping_add(begin * lanes * size), n * lanes);
                let sums = mine.out.add(row * shared.columns * lanes);
                let mut at = begin;
                while at < begin + n {
                    let alike = mine.alike[at].min(begin + n) - at;
                    let skipped = (at - begin) * lanes;
                    let counts = Counts::Same(count * mine.along[at]);
                    self.end.run(results.add(skipped), sums.add(skipped), alike * lanes, counts);
                    at += alike;
                }
            }
        }
    }
}
