//! Attention: blocks of queries by tiles of keys, with the softmax on the way.

use std::ops::Range;

use super::change::Change;
use super::dropout::Dropout;
use super::loops::{LANES, Scores, Sums, joined};
use super::matrix::Matrix;
use super::packed::{Level, Packed};
use super::problem::Problem;
use super::sight::Sight;
use crate::backend::cpu::contract::blocks::Left;
use crate::backend::cpu::scratch::Parts;
use crate::backend::cpu::threads;
use crate::error::Result;
use crate::ops::attend::Attend;

/// Rows whose scores are computed at once: some micro-panels.
const ROWS: usize = 48;

/// The same where rows see less of a tile than its end: more of them would leave out less.
const EDGE_ROWS: usize = 12;

/// Elements of the queries and the sums of a task at most, and its blocks of rows: a tile of keys
/// is packed once for all of them.
const MOST: usize = 96 << 10;
const MOST_BLOCKS: usize = 8;

/// Keys of a tile, over which a row is softened at once, and of those whose values are added at
/// once.
const TILE: usize = 256;
const ADDED: usize = 128;

/// A step that is ready to run.
pub struct Forward<'a> {
    problem: Problem<'a>,
    /// o, q, k and v.
    matrices: [Matrix; 4],
    /// Rows of a task.
    rows: usize,
}

// SAFETY: addresses; tasks write rows of their own.
unsafe impl Sync for Forward<'_> {}

/// What a thread computes with.
struct Scratch {
    /// Queries of the task, and a tile of keys and values.
    q: Packed,
    k: Packed,
    v: Packed,
    scores: *mut f32,
    /// What weights are multiplied by, if they are.
    kept: *mut f32,
    /// Sums of values, lanes of the sums of weights, and the largest scores.
    sums: *mut f32,
    lanes: *mut f32,
    largest: *mut f32,
}

/// What is computed of some queries of a head.
struct Part {
    sight: Sight,
    change: Change,
    dropout: Option<Dropout>,
    /// The first of them.
    first: i64,
}

impl<'a> Forward<'a> {
    pub fn new(problem: Problem<'a>) -> Self {
        let (step, level) = (problem.step, problem.level);
        let heads = (step.extents[0] * step.extents[1]) as usize;
        let all = (step.extents[2] as usize).div_ceil(ROWS);
        let pitches: usize = step.widths.iter().map(|&width| level.pitch(width as usize)).sum();
        // Several tasks for each thread, if there are as many blocks.
        let wanted = (all * heads).div_ceil(4 * problem.machine.threads);
        let rows = ROWS * wanted.min(MOST / pitches / ROWS).clamp(1, MOST_BLOCKS).min(all.max(1));
        Forward { problem, matrices: problem.matrices(), rows }
    }

    fn scratch(&self, parts: &mut Parts) -> Scratch {
        let (level, [width, columns]) = (self.problem.level, self.problem.step.widths);
        let q = Packed::new(level, self.rows, width, false, parts);
        let k = Packed::new(level, TILE, width, true, parts);
        let v = Packed::new(level, TILE, columns, false, parts);
        Scratch {
            q,
            k,
            v,
            scores: parts.take(ROWS * TILE),
            kept: parts.take(if self.problem.step.dropout.is_some() { ROWS * TILE } else { 0 }),
            sums: parts.take(self.rows * v.pitch),
            lanes: parts.take(self.rows * LANES),
            largest: parts.take(self.rows),
        }
    }

    /// Runs the step.
    ///
    /// # Errors
    /// Host allocation, with nothing written.
    ///
    /// # Safety
    /// The operands are those of the step.
    pub unsafe fn run(&self) -> Result<()> {
        let step = self.problem.step;
        let [batch, heads, rows, keys] = step.extents.map(|extent| extent as usize);
        let parts = rows.div_ceil(self.rows);
        let items = batch * heads * rows;
        let columns = (step.widths[0] + step.widths[1]) as usize;
        let threads = self.problem.machine.threads_for(items.saturating_mul(keys).saturating_mul(columns));
        let mut counted = Parts::new(std::ptr::null_mut());
        self.scratch(&mut counted);
        threads::run_with(threads, batch * heads * parts, counted.bytes, &|scratch, task| {
            let (head, part) = (task / parts, task % parts);
            // The last rows, of which a causal band leaves the most, come first.
            let first = (parts - 1 - part) * self.rows;
            let mut scratch = self.scratch(&mut Parts::new(scratch));
            let head = [(head / heads) as i64, (head % heads) as i64];
            let rows = first as i64..rows.min(first + self.rows) as i64;
            // SAFETY: the rows are those of the task.
            unsafe {
                if !self.add_up(head, rows.clone(), false, &mut scratch) {
                    self.add_up(head, rows.clone(), true, &mut scratch);
                }
                for (row, number) in rows.enumerate() {
                    self.finish([head[0], head[1], number], row, &scratch);
                }
            }
        })
    }

    /// Adds up some rows of a head: whether all sums are finite. Values that are not may stand
    /// where a row sees nothing, so they are looked at only if that `looks`.
    ///
    /// # Safety
    /// As for [`run`](Forward::run); no other task has these rows, or the scratch.
    unsafe fn add_up(
        &self, [batch, head]: [i64; 2], rows: Range<i64>, looks: bool, scratch: &mut Scratch,
    ) -> bool {
        let (step, count) = (self.problem.step, (rows.end - rows.start) as usize);
        let [_, q, k, v] = &self.matrices;
        // SAFETY: the operands and the scratch are those of the task.
        unsafe {
            let sight = Sight::of(&self.problem, batch);
            let change = Change::of(&self.problem, [batch, head]);
            let dropout = Dropout::of(&self.problem, [batch, head]);
            let of = Part { sight, change, dropout, first: rows.start };
            let sight = &of.sight;
            let end = sight.queries.min(rows.end).max(rows.start);
            let counted = (end - rows.start) as usize;
            scratch.q.load(q, [batch, head], rows.start..end, true);
            scratch.q.scale(counted, sight.scale);
            scratch.sums.write_bytes(0, count * scratch.v.pitch);
            scratch.lanes.write_bytes(0, count * LANES);
            (0..count).for_each(|row| scratch.largest.add(row).write(f32::MIN));
            if let Some((_, step)) = step.sink {
                // A score that all rows have seen before the first key, and that adds no values.
                let sink = self.problem.number(Attend::SINK, head * step, 0.0) as f32;
                let largest = if sink > f32::MIN { sink } else { f32::MIN };
                for row in 0..count {
                    scratch.largest.add(row).write(largest);
                    scratch.lanes.add(row * LANES).write((sink - largest).exp());
                }
            }
            let own = step.heads.map(|own| head / (step.extents[1] / own));
            let all = sight.of_rows(rows.start..end);
            let first = all.start - all.start % TILE as i64;
            for begin in (first..all.end).step_by(TILE) {
                let tile = begin..all.end.min(begin + TILE as i64);
                scratch.k.load(k, [batch, own[0]], tile.clone(), false);
                scratch.v.load(v, [batch, own[1]], tile.clone(), false);
                if looks {
                    scratch.v.look((tile.end - tile.start) as usize);
                }
                for block in (0..counted).step_by(ROWS) {
                    let block = block..counted.min(block + ROWS);
                    let seen = sight.of_row(rows.start + block.start as i64);
                    let step = if seen.end < tile.end { EDGE_ROWS } else { ROWS };
                    for first in block.clone().step_by(step) {
                        let part = first..block.end.min(first + step);
                        self.block(&of, part, &tile, scratch);
                    }
                }
            }
            (self.problem.level.loops.are_finite)(scratch.sums, count * scratch.v.pitch)
        }
    }

    /// Some rows of a task, by a tile of keys.
    ///
    /// # Safety
    /// As for [`add_up`](Forward::add_up).
    unsafe fn block(&self, of: &Part, rows: Range<usize>, tile: &Range<i64>, scratch: &Scratch) {
        let (sight, start) = (&of.sight, of.first);
        let Level { blocks, loops } = &self.problem.level;
        let seen = sight.of_rows(start + rows.start as i64..start + rows.end as i64);
        let end = seen.end.min(tile.end);
        if end <= tile.start.max(seen.start) {
            return;
        }
        let (count, columns) = (rows.len(), (end - tile.start) as usize);
        let (whole, pitch) = (columns.next_multiple_of(LANES), scratch.v.pitch);
        let sums = scratch.sums.wrapping_add(rows.start * pitch);
        // SAFETY: the rows and columns are those of the task and of the tile.
        unsafe {
            let (q, keys) = (scratch.q.left(rows.start), scratch.k.as_columns);
            let extents = [count, columns, self.problem.step.widths[0] as usize];
            blocks.multiply(extents, q, keys, scratch.scores, TILE, false);
            let scores = Scores { at: scratch.scores, pitch: TILE, rows: count, columns: whole };
            let place = (start + rows.start as i64, tile.start);
            of.change.apply(scores, columns, place, std::ptr::null_mut());
            sight.mask(scores, columns, place, sight.fill);
            let own = Sums {
                largest: scratch.largest.add(rows.start),
                lanes: scratch.lanes.add(rows.start * LANES),
                values: sums,
                pitch,
            };
            (loops.soften)(scores, own);
            if let Some(dropout) = &of.dropout {
                dropout.numbers(scores, columns, place, scratch.kept);
                (loops.join)(scores, scratch.kept);
            }
            self.problem.types.round(scores);
            for first in (0..columns).step_by(ADDED) {
                let weights = Left { at: scratch.scores.add(first), row: TILE, term: 1 };
                scratch.v.add_product([count, ADDED.min(columns - first)], weights, first, sums);
            }
        }
    }

    /// Writes a row.
    ///
    /// # Safety
    /// As for [`add_up`](Forward::add_up).
    unsafe fn finish(&self, place: [i64; 3], row: usize, scratch: &Scratch) {
        let sums = scratch.sums.wrapping_add(row * scratch.v.pitch);
        // SAFETY: the row is the task's.
        unsafe {
            let total = joined(scratch.lanes.cast::<[f32; LANES]>().add(row).read());
            let factor = if total == 0.0 { 0.0 } else { 1.0 / total };
            (self.problem.level.loops.multiply)(sums, scratch.v.pitch, factor);
            self.matrices[0].store(place, sums);
            let Some(strides) = self.problem.step.stats else { return };
            let natural = f64::from(total).ln() + f64::from(scratch.largest.add(row).read());
            let stats = if self.problem.step.log2 { natural * std::f64::consts::LOG2_E } else { natural };
            let offset: i64 = strides.iter().zip(place).map(|(stride, index)| stride * index).sum();
            self.problem.at[1].pointer().cast::<f32>().offset(offset as isize).write(stats as f32);
        }
    }
}
