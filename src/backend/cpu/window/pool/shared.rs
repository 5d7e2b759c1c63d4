//! Maxima and averages with stride 1: every column of a window belongs to the next windows, too,
//! and is folded once.
//!
//! The columns of a row lie side by side, lanes inside, with columns of no cells around them. Tap
//! `k` of all outputs is the same row, `k` columns on: neighbours in NCHW become lanes as the
//! channels of NHWC are. Short rows are put one behind the other and folded as one; folds over
//! columns of two rows are left out.

use super::end::{Counts, End};
use super::job::{Block, Job, Shared, Waiting};
use crate::backend::cpu::scratch::Parts;
use crate::backend::cpu::stream::Distance;
use crate::backend::cpu::window::fold::{Fold, Times};
use crate::backend::cpu::window::sink::Sink;
use crate::dtype::convert::Element;

/// Lanes of columns that are folded at a time: as many are asked for meanwhile.
const PIECE_LANES: usize = 256;

impl<F: Fold, E: End<F>> Job<'_, F, E>
where
    F::Cell: Element,
    F::Result: Element,
{
    /// Where the outputs that are divided as this one end, for every output.
    ///
    /// # Safety
    /// There is room for one of each output, which nobody else uses meanwhile.
    pub unsafe fn alike<'a>(&self, along: &[i64], parts: &mut Parts) -> &'a [usize] {
        // SAFETY: there is room for an end of every output.
        let ends = unsafe { parts.filled(along.len(), 0) };
        let mut at = 0;
        for alike in along.chunk_by(|a, b| a == b || !E::COUNTS && *a != 0 && *b != 0) {
            ends[at..at + alike.len()].fill(at + alike.len());
            at += alike.len();
        }
        ends
    }

    /// The outputs along the last axis, of every lane, from the rows that their windows reach; or
    /// else their row waits.
    ///
    /// # Safety
    /// As for [`run`](super::super::run); the rows are in the block, which is that of this job.
    pub unsafe fn share(
        &self, shared: Shared, to: *mut u8, rows: usize, count: i64, mine: &mut Block<'_, F>,
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
                    if self.gather.is_none() {
                        let bytes = cells * size_of::<F::Cell>();
                        taps.iter().for_each(|row| self.held.assert_holds(row.cast(), bytes));
                    }
                    for row in taps.iter().rev().take(fresh) {
                        Distance::Read.fetch(row.cast(), cells * size_of::<F::Cell>());
                    }
                    (self.folds.rows)(columns.add(folded * lanes), taps, rows, cells, Times::ONCE);
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
    pub unsafe fn finish(
        &self, shared: Shared, begin: usize, n: usize, mine: &mut Block<'_, F>, sink: &mut Sink<'_>,
    ) {
        let (lanes, size) = (self.shape.lanes, self.shape.size(0));
        let window = self.shape.last().window as usize;
        // SAFETY: the columns are there, and room for the outputs and what lies between them.
        unsafe {
            let taps = std::slice::from_raw_parts_mut(mine.taps.cast::<*const F::Lane>(), window);
            for (tap, at) in taps.iter_mut().zip(begin..) {
                *tap = mine.columns.add(at * lanes);
            }
            let cells = ((mine.waits - 1) * shared.columns + n) * lanes;
            (self.folds.again)(mine.out, taps, window, cells, Times::ONCE);
            for row in 0..mine.waits {
                let Waiting { to, count } = mine.waiting.add(row).read();
                let results = sink.run::<F::Result>(to.wrapping_add(begin * lanes * size), n * lanes);
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
