//! The gradients of attention: weights once more from their statistics, tile by tile.
//!
//! Heads are computed in parallel where there are enough of them: five products of each tile, and
//! sums of all keys of a head in scratch. Else the gradients of keys and values are computed first,
//! in ranges of keys, and those of queries then, in ranges of queries: seven products. Either way
//! sums have the same order. The gradient of a bias that heads or batches share takes two products
//! more, in ranges of queries, for each tile of all of these; else it is left on the way.

use std::ops::Range;

use super::change::Change;
use super::dropout::Dropout;
use super::loops::{LANES, MOST_ROWS, Scores};
use super::matrix::{Matrix, Types};
use super::packed::{Level, Packed};
use super::problem::Problem;
use super::sight::Sight;
use crate::backend::Address;
use crate::backend::cpu::contract::blocks::Left;
use crate::backend::cpu::scratch::Parts;
use crate::backend::cpu::{Isa, Machine, threads};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::attend::{Attend, AttendBackward};

/// Rows whose scores are computed at once, and of a part, for which tiles of keys are packed.
const ROWS: usize = MOST_ROWS;
const PART: usize = 4 * ROWS;

/// Bytes of scratch up to which a thread computes whole heads.
const MOST_SCRATCH: usize = 32 << 20;

/// Keys of a tile.
const TILE: usize = 128;

/// The gradients of a bias that nothing adds to.
static ZEROS: [f32; TILE] = [0.0; TILE];

/// Tiles of a range of keys, where these are computed by themselves.
const TILES: usize = 2;

/// A step that is ready to run.
pub struct Backward<'a> {
    /// The attention.
    problem: Problem<'a>,
    /// dq, dk, dv, do, o, q, k and v.
    matrices: [Matrix; 8],
    /// The type of the inverse of the factor of dropout, if it is given.
    inverse: Option<Scalar>,
    /// The gradient of the bias, if it is wanted, and whether batches and heads have one each.
    bias: Option<(Matrix, [bool; 2])>,
}

// SAFETY: addresses; tasks write rows of their own.
unsafe impl Sync for Backward<'_> {}

/// What a thread computes with.
struct Scratch {
    /// A part of queries, and of gradients of results.
    q: Packed,
    own: Packed,
    /// A tile of keys and values.
    k: Packed,
    v: Packed,
    /// A row of results.
    o: Packed,
    /// Statistics of a part, and sums of its rows.
    stats: *mut f32,
    distances: *mut f32,
    weights: *mut f32,
    slopes: *mut f32,
    /// Slopes of a cap.
    bends: *mut f32,
    /// What weights are multiplied by, if they are.
    kept: *mut f32,
    /// Sums of gradients of a bias, of a part and a tile.
    of_bias: *mut f32,
    /// Sums of gradients of the queries of a part, and of keys and values.
    sums: [*mut f32; 3],
}

/// Which gradients are added up.
#[derive(Clone, Copy)]
struct Wanted {
    queries: bool,
    keys: bool,
    /// Those of a bias, that of some tile.
    bias: bool,
}

impl Wanted {
    const ALL: Wanted = Wanted { queries: true, keys: true, bias: false };
    const KEYS: Wanted = Wanted { queries: false, ..Wanted::ALL };
    const QUERIES: Wanted = Wanted { keys: false, ..Wanted::ALL };
    const BIAS: Wanted = Wanted { queries: false, keys: false, bias: true };
}

/// What is computed of some queries of a head.
struct Part {
    sight: Sight,
    change: Change,
    dropout: Option<Dropout>,
    /// The batch and the head.
    head: [i64; 2],
    /// The first of them.
    first: i64,
    /// The key that sums of keys begin with.
    base: usize,
    wanted: Wanted,
}

impl Scratch {
    fn new(level: Level, step: &Attend, wanted: Wanted, keys: usize, parts: &mut Parts) -> Scratch {
        let [width, columns] = step.widths;
        let mut packed = |rows: usize, columns: i64, transposes: bool| {
            Packed::new(level, rows, columns, transposes, parts)
        };
        let (q, own) = (packed(PART, width, false), packed(PART, columns, false));
        let (k, v) = (packed(TILE, width, true), packed(TILE, columns, true));
        let o = packed(1, columns, false);
        let of = |is_wanted: bool, rows: usize, pitch: usize| if is_wanted { rows * pitch } else { 0 };
        let mut take = |count: usize| parts.take(count);
        Scratch {
            q,
            own,
            k,
            v,
            o,
            stats: take(PART),
            distances: take(PART),
            weights: take(ROWS * TILE),
            slopes: take(ROWS * TILE),
            bends: take(of(step.cap.is_some(), ROWS, TILE)),
            kept: take(of(step.dropout.is_some(), ROWS, TILE)),
            of_bias: take(of(wanted.bias, PART, TILE)),
            sums: [
                take(of(wanted.queries, PART, q.pitch)),
                take(of(wanted.keys, keys, q.pitch)),
                take(of(wanted.keys, keys, own.pitch)),
            ],
        }
    }
}

impl<'a> Backward<'a> {
    pub fn new(step: &'a AttendBackward, at: &'a [Address], machine: Machine) -> Self {
        let problem = Problem::new(&step.forward, &at[AttendBackward::FORWARD..], machine);
        let [width, columns] = step.forward.widths;
        let gradient = |k: usize, columns: i64| Matrix::new(at[k], step.strides[k], columns, problem.types);
        let [dq, dk] = [0, 1].map(|k| gradient(k, width));
        let [dv, own] = [2, 3].map(|k| gradient(k, columns));
        let [o, q, k, v] = problem.matrices();
        let bias = step.bias.map(|(scalar, strides)| {
            let types = Types::of(scalar, machine.isa);
            let matrix = Matrix::new(at[AttendBackward::BIAS], strides, step.forward.extents[3], types);
            (matrix, [0, 1].map(|axis| strides[axis] != 0 || step.forward.extents[axis] == 1))
        });
        Backward { problem, matrices: [dq, dk, dv, own, o, q, k, v], inverse: step.inverse, bias }
    }

    /// The gradient of the bias where each head of each batch has its own.
    fn own_bias(&self) -> Option<&Matrix> {
        self.bias.as_ref().filter(|(_, has_own)| *has_own == [true; 2]).map(|(matrix, _)| matrix)
    }

    fn scratch(&self, wanted: Wanted, keys: usize, parts: &mut Parts) -> Scratch {
        Scratch::new(self.problem.level, self.problem.step, wanted, keys, parts)
    }

    fn bytes(&self, wanted: Wanted, keys: usize) -> usize {
        let mut counted = Parts::new(std::ptr::null_mut());
        self.scratch(wanted, keys, &mut counted);
        counted.bytes
    }

    /// Bytes of scratch of a thread that computes whole heads.
    pub fn most_scratch(step: &AttendBackward, isa: Isa) -> usize {
        let mut counted = Parts::new(std::ptr::null_mut());
        let keys = step.forward.extents[3] as usize;
        Scratch::new(Level::of(isa), &step.forward, Wanted::ALL, keys, &mut counted);
        counted.bytes
    }

    /// Runs the step.
    ///
    /// # Errors
    /// Host allocation, with nothing written.
    ///
    /// # Safety
    /// The operands are those of the step.
    pub unsafe fn run(&self) -> Result<()> {
        let forward = self.problem.step;
        let [batch, heads, rows, keys] = forward.extents.map(|extent| extent as usize);
        let [of_k, of_v] = forward.heads;
        let columns = (forward.widths[0] + forward.widths[1]) as usize;
        let products = (batch * heads).saturating_mul(rows).saturating_mul(keys).saturating_mul(columns);
        let threads = self.problem.machine.threads_for(products);
        // Heads that share keys, or values, are of one group.
        let groups = gcd(of_k, of_v) as usize;
        let share = heads / groups;
        let (all, whole, all_groups) = (Wanted::ALL, self.bytes(Wanted::ALL, keys), batch * groups);
        let are_enough = threads == 1 || all_groups >= 2 * threads || all_groups.is_multiple_of(threads);
        let (range, parts) = (TILES * TILE, rows.div_ceil(PART));
        // Heads and batches that share a bias are of one task.
        let of_bias =
            self.bias.as_ref().filter(|_| self.own_bias().is_none()).map_or([0; 2], |(_, has_own)| {
                [0, 1].map(|axis| if has_own[axis] { [batch, heads][axis] } else { 1 })
            });
        let third = of_bias[0] * of_bias[1] * parts;
        let bytes_of_bias = if third > 0 { self.bytes(Wanted::BIAS, 0) } else { 0 };
        let bias_of = |task: usize, scratch: *mut u8| {
            let (outer, at) = (task / parts, task % parts * PART);
            let place = [outer / of_bias[1], outer % of_bias[1]];
            let mut scratch = self.scratch(Wanted::BIAS, 0, &mut Parts::new(scratch));
            // SAFETY: the gradients are those of some rows of a bias.
            unsafe { self.bias(place, at..rows.min(at + PART), &mut scratch) };
        };
        if are_enough && whole <= MOST_SCRATCH {
            let bytes = whole.max(bytes_of_bias);
            return threads::run_with(threads, all_groups + third, bytes, &|scratch, task| {
                if task >= all_groups {
                    return bias_of(task - all_groups, scratch);
                }
                let (batch, group) = (task / groups, task % groups);
                let mut scratch = self.scratch(all, keys, &mut Parts::new(scratch));
                // SAFETY: the gradients are those of the group.
                unsafe { self.group(batch, group * share..(group + 1) * share, 0..keys, all, &mut scratch) };
            });
        }
        let ranges = keys.div_ceil(range);
        let (of_keys, of_queries) = (Wanted::KEYS, Wanted::QUERIES);
        let bytes = self.bytes(of_keys, range).max(self.bytes(of_queries, 0)).max(bytes_of_bias);
        // One job, so that nothing is written where there is no scratch.
        let (first, second) = (all_groups * ranges, batch * heads * parts);
        threads::run_with(threads, first + second + third, bytes, &|scratch, task| {
            if task >= first + second {
                return bias_of(task - first - second, scratch);
            }
            let parted = &mut Parts::new(scratch);
            if task < first {
                let (outer, at) = (task / ranges, task % ranges * range);
                let (batch, group) = (outer / groups, outer % groups);
                let mut scratch = self.scratch(of_keys, range, parted);
                let (heads, keys) = (group * share..(group + 1) * share, at..keys.min(at + range));
                // SAFETY: the gradients are those of some keys of a group.
                unsafe { self.group(batch, heads, keys, of_keys, &mut scratch) };
            } else {
                let (outer, at) = ((task - first) / parts, (task - first) % parts * PART);
                let (place, rows) = ([outer / heads, outer % heads], at..rows.min(at + PART));
                let mut scratch = self.scratch(of_queries, 0, parted);
                // SAFETY: the gradients are those of some queries of a head.
                unsafe { self.part(place, rows, 0..keys, of_queries, &mut scratch) };
            }
        })
    }

    /// The gradients of some rows of a bias: sums over the batches and heads that have the same, in
    /// their order.
    ///
    /// # Safety
    /// As for [`run`](Backward::run); no other task has these, or the scratch.
    unsafe fn bias(&self, [batch, head]: [usize; 2], rows: Range<usize>, scratch: &mut Scratch) {
        let Some((matrix, has_own)) = &self.bias else { return };
        let [batches, heads, _, keys] = self.problem.step.extents.map(|extent| extent as usize);
        let all = |axis: usize, own: usize, count| if has_own[axis] { own..own + 1 } else { 0..count };
        for begin in (0..keys).step_by(TILE) {
            let tile = begin..keys.min(begin + TILE);
            // SAFETY: the gradients and the scratch are those of the task.
            unsafe {
                scratch.of_bias.write_bytes(0, rows.len() * TILE);
                for (b, h) in all(0, batch, batches).flat_map(|b| all(1, head, heads).map(move |h| (b, h))) {
                    self.part([b, h], rows.clone(), tile.clone(), Wanted::BIAS, scratch);
                }
                let own = matrix.part(begin as i64, tile.len());
                for (row, number) in rows.clone().enumerate() {
                    let place = [batch as i64, head as i64, number as i64];
                    own.store(place, scratch.of_bias.add(row * TILE));
                }
            }
        }
    }

    /// Leaves the gradients of some rows and keys of a bias where the head has its own: `from` says
    /// where those of a row are.
    ///
    /// # Safety
    /// They are readable, and the gradients are those of the task.
    unsafe fn leave_bias(
        &self, [batch, head]: [i64; 2], rows: Range<i64>, keys: &Range<i64>,
        from: impl Fn(usize) -> *const f32,
    ) {
        let Some(own) = self.own_bias() else { return };
        let own = own.part(keys.start, (keys.end - keys.start) as usize);
        for (row, number) in rows.enumerate() {
            // SAFETY: a row of the gradients.
            unsafe { own.store([batch, head, number], from(row)) };
        }
    }

    /// The gradients of some keys of a group of heads, and those of its queries if they are wanted.
    ///
    /// # Safety
    /// As for [`run`](Backward::run); no other task has these, or the scratch.
    unsafe fn group(
        &self, batch: usize, heads: Range<usize>, keys: Range<usize>, wanted: Wanted, scratch: &mut Scratch,
    ) {
        let forward = self.problem.step;
        let (all_heads, rows) = (forward.extents[1] as usize, forward.extents[2] as usize);
        let shares = forward.heads.map(|own| all_heads / own as usize);
        let pitches = [scratch.q.pitch, scratch.own.pitch];
        for head in heads {
            for (k, share) in shares.into_iter().enumerate() {
                if head % share == 0 {
                    // SAFETY: there is a row of sums for each key.
                    unsafe { scratch.sums[1 + k].write_bytes(0, keys.len() * pitches[k]) };
                }
            }
            for first in (0..rows).step_by(PART) {
                let rows = first..rows.min(first + PART);
                // SAFETY: the gradients are those of the task.
                unsafe { self.part([batch, head], rows, keys.clone(), wanted, scratch) };
            }
            for (k, share) in shares.into_iter().enumerate() {
                if (head + 1) % share == 0 {
                    for (row, key) in keys.clone().enumerate() {
                        let place = [batch as i64, (head / share) as i64, key as i64];
                        // SAFETY: the row of sums is that of the key.
                        unsafe {
                            self.matrices[1 + k].store(place, scratch.sums[1 + k].add(row * pitches[k]));
                        }
                    }
                }
            }
        }
    }

    /// What some queries of a head add to the gradients of some keys, which begin with a tile, and
    /// these to those of the queries, which are written.
    ///
    /// # Safety
    /// As for [`group`](Backward::group).
    unsafe fn part(
        &self, [batch, head]: [usize; 2], rows: Range<usize>, keys: Range<usize>, wanted: Wanted,
        scratch: &mut Scratch,
    ) {
        let forward = self.problem.step;
        let [dq, _, _, own, _, q, k, v] = &self.matrices;
        let [batch, head, first] = [batch, head, rows.start].map(|index| index as i64);
        let heads = forward.heads.map(|own| head / (forward.extents[1] / own));
        // SAFETY: the operands and the scratch are those of the task.
        unsafe {
            let (sight, change) = (Sight::of(&self.problem, batch), Change::of(&self.problem, [batch, head]));
            let dropout = Dropout::of(&self.problem, [batch, head]);
            let of = Part { sight, change, dropout, head: [batch, head], first, base: keys.start, wanted };
            let sight = &of.sight;
            let end = sight.queries.min(rows.end as i64).max(first);
            let counted = (end - first) as usize;
            let seen = sight.of_rows(first..end);
            let begin = seen.start.max(keys.start as i64);
            let seen = begin - begin % TILE as i64..seen.end.min(keys.end as i64);
            if wanted.queries {
                scratch.sums[0].write_bytes(0, rows.len() * scratch.q.pitch);
                for begin in keys.clone().step_by(TILE) {
                    // Some tiles no query sees.
                    let tile = begin as i64..keys.end.min(begin + TILE) as i64;
                    let numbers = rows.start as i64..rows.end as i64;
                    self.leave_bias([batch, head], numbers, &tile, |_| ZEROS.as_ptr());
                }
            }
            if !seen.is_empty() {
                scratch.q.load(q, [batch, head], first..end, true);
                scratch.q.look(counted);
                scratch.q.scale(counted, sight.scale);
                scratch.own.load(own, [batch, head], first..end, false);
                scratch.own.look(counted);
                self.read_rows([batch, head, first], counted, scratch);
            }
            for begin in seen.clone().step_by(TILE) {
                let tile = begin..seen.end.min(begin + TILE as i64);
                scratch.k.load(k, [batch, heads[0]], tile.clone(), false);
                if wanted.queries {
                    scratch.k.look((tile.end - tile.start) as usize);
                }
                scratch.v.load(v, [batch, heads[1]], tile.clone(), false);
                for block in (0..counted).step_by(ROWS) {
                    let block = block..counted.min(block + ROWS);
                    self.block(&of, block, &tile, scratch);
                }
            }
            if wanted.queries {
                let pitch = scratch.q.pitch;
                (self.problem.level.loops.multiply)(scratch.sums[0], rows.len() * pitch, sight.scale);
                for (row, number) in rows.enumerate() {
                    dq.store([batch, head, number as i64], scratch.sums[0].add(row * pitch));
                }
            }
        }
    }

    /// Reads the statistics of some rows, and adds up products of their results and gradients.
    ///
    /// # Safety
    /// As for [`group`](Backward::group).
    unsafe fn read_rows(&self, [batch, head, first]: [i64; 3], count: usize, scratch: &mut Scratch) {
        let forward = self.problem.step;
        let strides = forward.stats.unwrap_or_default();
        let stats = self.problem.at[1].pointer().cast::<f32>();
        let factor = self.inverse.map_or(1.0, |scalar| {
            let operand = AttendBackward::INVERSE - AttendBackward::FORWARD;
            // SAFETY: the step touches both numbers.
            unsafe {
                let inverse = self.problem.read(operand, scalar, 0);
                (inverse * self.problem.number(Attend::FACTOR, 0, 1.0)) as f32
            }
        });
        for (row, number) in (0..count).zip(first..) {
            let offset = batch * strides[0] + head * strides[1] + number * strides[2];
            // SAFETY: the row is one of the head, and the scratch has room for it.
            unsafe {
                let own = stats.offset(offset as isize).read();
                let natural = if forward.log2 { own * std::f32::consts::LN_2 } else { own };
                scratch.stats.add(row).write(if natural < f32::MIN { f32::MIN } else { natural });
                scratch.o.load(&self.matrices[4], [batch, head], number..number + 1, false);
                let count = (forward.widths[1] as usize).next_multiple_of(LANES);
                let sum = (self.problem.level.loops.dot)(scratch.own.row(row), scratch.o.row(0), count);
                scratch.distances.add(row).write(sum * factor);
            }
        }
    }

    /// Some rows of a part, by a tile of keys.
    ///
    /// # Safety
    /// As for [`group`](Backward::group).
    unsafe fn block(&self, of: &Part, rows: Range<usize>, tile: &Range<i64>, scratch: &mut Scratch) {
        let (Level { blocks, loops }, Part { sight, wanted, .. }) = (&self.problem.level, of);
        let [width, of_values] = self.problem.step.widths.map(|width| width as usize);
        let seen = sight.of_rows(of.first + rows.start as i64..of.first + rows.end as i64);
        let end = seen.end.min(tile.end);
        if end <= tile.start.max(seen.start) {
            return;
        }
        let (count, columns) = (rows.len(), (end - tile.start) as usize);
        let whole = columns.next_multiple_of(LANES);
        let (weights, slopes, pitch) = (scratch.weights, scratch.slopes, TILE);
        // SAFETY: the rows and columns are those of the part and of the tile.
        unsafe {
            let (q, keys) = (scratch.q.left(rows.start), scratch.k.as_columns);
            blocks.multiply([count, columns, width], q, keys, weights, pitch, false);
            let (own, values) = (scratch.own.left(rows.start), scratch.v.as_columns);
            blocks.multiply([count, columns, of_values], own, values, slopes, pitch, false);
            let place = (of.first + rows.start as i64, tile.start);
            let scores = Scores { at: weights, pitch, rows: count, columns: whole };
            of.change.apply(scores, columns, place, scratch.bends);
            sight.mask(scores, columns, place, sight.fill);
            let of_rows = [scratch.stats, scratch.distances].map(|at| at.add(rows.start).cast_const());
            let gradients = Scores { at: slopes, ..scores };
            if let Some(dropout) = &of.dropout {
                dropout.numbers(scores, columns, place, scratch.kept);
                (loops.join)(gradients, scratch.kept);
            }
            (loops.weigh)(scores, slopes, of_rows);
            if sight.has_fill() {
                sight.mask(gradients, columns, place, 0.0);
            }
            if wanted.queries {
                let numbers = place.0..place.0 + count as i64;
                self.leave_bias(of.head, numbers, &(tile.start..end), |row| gradients.row(row).cast_const());
            }
            if wanted.bias {
                for row in 0..count {
                    (loops.add)(scratch.of_bias.add((rows.start + row) * TILE), gradients.row(row), columns);
                }
                return;
            }
            of.change.bend(gradients, scratch.bends);
            if of.dropout.is_some() {
                (loops.join)(scores, scratch.kept);
            }
            self.problem.types.round(scores);
            self.problem.types.round(gradients);
            if wanted.queries {
                let sums = scratch.sums[0].add(rows.start * scratch.q.pitch);
                let left = Left { at: slopes, row: pitch, term: 1 };
                scratch.k.add_product([count, columns], left, 0, sums);
            }
            if wanted.keys {
                let key = tile.start as usize - of.base;
                let across = |at: *mut f32| Left { at, row: 1, term: pitch };
                let sums = scratch.sums[1].add(key * scratch.q.pitch);
                scratch.q.add_product([columns, count], across(slopes), rows.start, sums);
                let sums = scratch.sums[2].add(key * scratch.own.pitch);
                scratch.own.add_product([columns, count], across(weights), rows.start, sums);
            }
        }
    }
}

/// The greatest common divisor.
fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
