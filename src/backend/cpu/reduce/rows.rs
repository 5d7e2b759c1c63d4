//! Groups: statistics of each, then a function of its elements, while they are in the caches.
//!
//! Where neighbours in memory belong to one group, its elements come in blocks; where they belong
//! to neighbouring groups, one element of each comes as a row. The sums are those of the one tree,
//! whether elements come in blocks or as rows.

mod functions;
mod table;
mod transpose;
mod workspace;

use std::marker::PhantomData;
use std::ops::Range;

use self::functions::Functions;
use self::table::{Elements, KERNELS};
use self::transpose::TileTranspose;
use self::workspace::{PeakLane, SumLane, Workspace};
use super::sequence::{Blocks, Loader, MOST_ROW_BYTES, ROW_BYTES, Steps};
use super::tree::{GROUP, Kernels};
use crate::backend::Address;
use crate::backend::choice;
use crate::backend::cpu::kind::{self, Call, Kind, Table};
use crate::backend::cpu::stream::{self, LINE, STREAMING_BYTES, Stream, fetch_run};
use crate::backend::cpu::strided::copy_strided;
use crate::backend::cpu::{Machine, row, threads};
use crate::backend::function::{Fold, GreatestOrNan, Real, Sum, with_real};
use crate::backend::row_function::{RowFormula, with_row_function};
use crate::error::Result;
use crate::layout::LoopNest;
use crate::ops::{Reduce, Rows, Scaling};

/// Bytes of terms that are kept until the results are computed from them: even from the third-level
/// cache they come sooner than they are computed again.
const KEPT_BYTES: usize = 512 << 10;

/// Bytes of each operand of a tile of rows: it is read again, and stays in the second-level cache
/// with what else comes meanwhile.
const TILE_BYTES: usize = 256 << 10;

/// Bytes of the sums of a tile of rows, of which each row reads and writes a lane: they stay in the
/// first-level cache.
const LANES_BYTES: usize = 32 << 10;

/// Groups of a tile at least: a few lines of each row, which are whole steps of the loops over
/// them.
const LEAST_WIDTH: usize = 64;

/// Bytes of rows between the one that is read and the one that memory is asked for meanwhile: it
/// takes that long to answer.
const AHEAD_BYTES: usize = 8 << 10;

impl Kind for Rows {
    fn table() -> Table {
        kind::rows(KERNELS)
    }

    fn kernels(&self, _machine: Machine) -> Vec<&'static str> {
        let steps = table::steps(self);
        choice::names(KERNELS, |accept| accept(self, &steps))
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        if self.groups.is_empty() || self.elements.is_empty() {
            return Ok(());
        }
        let steps = table::steps(self);
        let (_, elements) = call.choice.of(KERNELS, |accept| accept(self, &steps))?;
        let at = [0, 1, 2].map(|k| call.at[k]);
        with_real!(self.compute, T => with_row_function!(self.function, F => {
            let task = Task::<T, F>::new(self, at, (steps, elements), call.machine);
            // SAFETY: the operands are those of the step.
            unsafe { task.run(call.machine) }
        }))
    }
}

/// Groups of a tile of rows at most, of groups of `len` elements: as many as sums stay near of.
fn most_groups<T: Real>(len: usize) -> usize {
    let near = LANES_BYTES / size_of::<T>() / len.clamp(1, Reduce::LANES);
    near.min(MOST_ROW_BYTES / size_of::<T>()) / LEAST_WIDTH * LEAST_WIDTH
}

/// Groups of a tile of rows, of `groups` in a line, whose elements have cells of `cell` bytes: as
/// many as stay near, and about as many in every tile. Without a peak there is so little to compute
/// that rows wait for those that are brought.
fn row_width<T: Real, F: RowFormula>(len: usize, groups: usize, cell: usize) -> usize {
    let near = (TILE_BYTES / len.max(1)).min(if F::HAS_PEAK { usize::MAX } else { ROW_BYTES }) / cell;
    let most = (near / LEAST_WIDTH * LEAST_WIDTH).clamp(LEAST_WIDTH, most_groups::<T>(len));
    let cuts = groups.div_ceil(most);
    groups.div_ceil(cuts).next_multiple_of(LINE / cell).min(most).min(groups)
}

struct Task<T: Real, F: RowFormula> {
    /// Where the operands lie.
    at: [Address; 3],
    /// The elements of a group, of each operand.
    steps: [Steps; 3],
    loaders: [Loader; 3],
    functions: Functions<T>,
    sums: Kernels<T, SumLane<T>>,
    peaks: Kernels<T, PeakLane<T>>,
    store: row::Row,
    scaling: Scaling,
    /// Past the caches, if results are large, and not turned.
    stream: Option<Stream>,
    /// Whether results are written as they are.
    stays: bool,
    /// The loops around the tiles, and the loop that tiles cut: extent, and bytes from group to
    /// group.
    outer: Vec<(usize, [isize; 3])>,
    along: (usize, [isize; 3]),
    start: [isize; 3],
    /// Groups per tile at most.
    width: usize,
    by_rows: bool,
    /// If elements of neighbouring groups become rows on the way.
    transpose: Option<TileTranspose>,
    bytes: usize,
    formula: PhantomData<fn() -> F>,
}

impl<T: Real, F: RowFormula> Task<T, F> {
    fn new(
        rows: &Rows, at: [Address; 3], (steps, elements): ([Steps; 3], Elements), machine: Machine,
    ) -> Self {
        let sizes = rows.scalars.map(|scalar| scalar.size());
        let in_bytes = |strides: [i64; 3]| std::array::from_fn(|k| strides[k] as isize * sizes[k] as isize);
        let mut outer: Vec<(usize, [isize; 3])> =
            rows.groups.axes().iter().map(|axis| (axis.extent as usize, in_bytes(axis.strides))).collect();
        let bytes = (rows.groups.len() * rows.elements.len()) as usize * sizes[0];
        let apart = !at[1..].contains(&at[0]);
        let far = stream::streams(machine.isa).filter(|_| bytes >= STREAMING_BYTES && apart);
        let stream = far.map(|streams| streams.copy);
        let len = steps[0].len;
        let (transpose, tiled) = match elements {
            Elements::Transposed(along) => {
                (Some(TileTranspose::new(rows, len, stream, machine.isa)), Some(along))
            }
            Elements::Rows(along) => (None, Some(along)),
            Elements::Blocks => (None, outer.len().checked_sub(1)),
        };
        let along = tiled.map_or((1, [0; 3]), |along| outer.remove(along));
        let by_rows = !matches!(elements, Elements::Blocks);
        let width = match transpose {
            Some(transpose) => along.0.min(transpose.width),
            None if by_rows => row_width::<T, F>(len, along.0, sizes[1]),
            None => 1,
        };
        Task {
            at,
            loaders: rows.scalars.map(|scalar| Loader {
                cell: scalar.size(),
                is_real: scalar == T::SCALAR,
                widen: row::between(scalar, T::SCALAR, Scaling::MOVE, machine.isa),
            }),
            functions: Functions::of::<F>(machine.isa, by_rows),
            sums: Kernels::of::<Sum>(machine.isa),
            peaks: Kernels::of::<GreatestOrNan>(machine.isa),
            store: row::between(T::SCALAR, rows.scalars[0], rows.scaling, machine.isa),
            scaling: rows.scaling,
            stream: stream.filter(|_| rows.scaling.beta == 0.0 && transpose.is_none()),
            stays: rows.scalars[0] == T::SCALAR && rows.scaling.is_move(),
            width,
            start: in_bytes(rows.groups.offsets),
            steps,
            outer,
            along,
            by_rows,
            transpose,
            bytes,
            formula: PhantomData,
        }
    }

    /// # Safety
    /// As for [`run`](fn@run).
    unsafe fn run(&self, machine: Machine) -> Result<()> {
        let tiles = self.outer.iter().map(|l| l.0).product::<usize>() * self.along.0.div_ceil(self.width);
        // As many bytes are read as are written, or more.
        let threads = machine.threads_for(self.bytes.saturating_mul(2));
        threads::in_ranges(threads, tiles, self.scratch(), &|scratch, range| {
            // SAFETY: as many bytes, of this thread.
            let mut work = unsafe { self.workspace(scratch) };
            for tile in range.clone() {
                let (at, width) = self.tile(tile);
                // SAFETY: the operands have the tile's groups.
                unsafe {
                    if let Some(transpose) = &self.transpose {
                        self.transposed(transpose, at, width, &mut work);
                    } else if self.by_rows {
                        let next = if tile + 1 < range.end { self.tile(tile + 1).0 } else { at };
                        self.rows(at, self.along.1, width, Some(next), &mut work);
                    } else {
                        self.blocks(at, &mut work);
                    }
                }
            }
            // What was streamed comes before the signal that the task is done.
            stream::fence();
        })
    }

    fn len(&self) -> usize {
        self.steps[0].len
    }

    /// Whether the terms of a tile are kept.
    fn kept(&self) -> bool {
        F::FROM_TERM && self.width.saturating_mul(self.len()).saturating_mul(size_of::<T>()) <= KEPT_BYTES
    }

    /// Where the first group of a tile is, and how many groups it has.
    fn tile(&self, number: usize) -> ([*mut u8; 3], usize) {
        let cuts = self.along.0.div_ceil(self.width);
        let first = number % cuts * self.width;
        let mut at = self.start;
        let mut add =
            |steps: [isize; 3], index: usize| (0..3).for_each(|k| at[k] += steps[k] * index as isize);
        add(self.along.1, first);
        let mut rest = number / cuts;
        for &(extent, steps) in self.outer.iter().rev() {
            add(steps, rest % extent);
            rest /= extent;
        }
        let places = std::array::from_fn(|k| self.at[k].pointer().wrapping_offset(at[k]));
        (places, self.width.min(self.along.0 - first))
    }

    /// One group, whose elements come in blocks.
    ///
    /// # Safety
    /// The operands have its elements, as the step reads or writes them.
    unsafe fn blocks(&self, at: [*mut u8; 3], work: &mut Workspace<'_, T>) {
        let Workspace { blocks: [blocks @ .., spare], subtrees, terms, results, .. } = work;
        let (terms, out) = (*terms, *results);
        subtrees.clear();
        let len = self.len();
        let ranges = || (0..len).step_by(Reduce::BLOCK).map(|p| p..(p + Reduce::BLOCK).min(len));
        let kept = self.kept();
        let load = |range: Range<usize>| {
            let mut operands = [std::ptr::null(); 2];
            for (k, operand) in operands.iter_mut().enumerate().take(F::ARITY) {
                // SAFETY: the group's elements are readable, and the buffer holds a block.
                *operand = unsafe {
                    self.loaders[k + 1].block::<T>(&self.steps[k + 1], at[k + 1], range.clone(), blocks[k])
                };
            }
            operands
        };
        let mut peak = T::ZERO;
        if F::HAS_PEAK {
            let mut highest = GreatestOrNan::lane(GreatestOrNan::identity::<T>());
            for range in ranges() {
                let [x, _] = load(range.clone());
                // SAFETY: as many elements lie there.
                let block = unsafe { (self.peaks.block)(x, range.len()) };
                highest = GreatestOrNan::unite::<T>(highest, block);
            }
            peak = GreatestOrNan::number::<T>(highest);
        }
        for range in ranges() {
            let operands = load(range.clone());
            // SAFETY: as many elements lie there, and there is room for as many terms.
            unsafe {
                let terms = terms.add(if kept { range.start } else { 0 });
                (self.functions.terms)(terms, operands, &raw const peak, range.len());
                let sum = (self.sums.block)(terms, range.len());
                subtrees.push(&[sum], 1, &self.sums);
            }
        }
        let statistic = F::statistic(Sum::number::<T>(subtrees.root(&self.sums)[0]));
        for range in ranges() {
            let count = range.len();
            let mut operands = [std::ptr::null(); 2];
            let mut term = terms.cast_const();
            if kept {
                term = term.wrapping_add(range.start);
            } else {
                operands = load(range.clone());
                if F::FROM_TERM {
                    // SAFETY: the operands have `count` elements, and the terms room for them.
                    unsafe { (self.functions.terms)(terms, operands, &raw const peak, count) };
                }
            }
            // SAFETY: the results are of this block, whose elements were read, and the destination
            // has their places.
            unsafe {
                let statistics = [&raw const peak, &raw const statistic];
                (self.functions.results)(out, operands, term, statistics, count);
                self.steps[0].each_run(range, |offset, step, done, len| {
                    self.write(at[0].wrapping_offset(offset), step, out.add(done), len, *spare);
                });
            }
        }
    }

    /// Neighbouring groups, `apart` bytes from one another, whose elements come as rows. Unless
    /// they are near, those that are read soon are asked for, up to where the next tile is.
    ///
    /// # Safety
    /// The operands have their elements, as the step reads or writes them.
    unsafe fn rows(
        &self, at: [*mut u8; 3], apart: [isize; 3], width: usize, next: Option<[*mut u8; 3]>,
        work: &mut Workspace<'_, T>,
    ) {
        let Workspace { blocks, lanes, subtrees, offsets, peaks, peak, statistic, terms, results, .. } = work;
        let ([blocks @ .., spare], terms, results) = (*blocks, *terms, *results);
        subtrees.clear();
        let len = self.len();
        let kept = self.kept();
        let load_one = |k: usize, row: usize, number: usize| {
            let from = at[k + 1].wrapping_offset(offsets[k + 1][row]);
            // SAFETY: every group has an element in this row, and the buffer holds a row.
            unsafe { self.loaders[k + 1].row::<T>(from, apart[k + 1], width, blocks[k], number) }
        };
        let load = |row: usize| {
            let mut operands = [std::ptr::null(); 2];
            for (k, operand) in operands.iter_mut().enumerate().take(F::ARITY) {
                *operand = load_one(k, row, 0);
            }
            operands
        };
        // Rows come from many places, which no processor foresees.
        let fetch = |at: [*mut u8; 3], row: usize| {
            for k in 1..=F::ARITY {
                fetch_run(at[k].wrapping_offset(offsets[k][row]), width * self.loaders[k].cell);
            }
        };
        let row_bytes = width * self.loaders[1].cell;
        let ahead = (AHEAD_BYTES / row_bytes).next_multiple_of(GROUP).max(GROUP);
        let is_far = next.is_some();
        let next = next.filter(|_| F::ARITY * len * row_bytes <= TILE_BYTES);
        if F::HAS_PEAK {
            peaks.fill(GreatestOrNan::lane(GreatestOrNan::identity::<T>()));
            for first in (0..len).step_by(GROUP) {
                let count = GROUP.min(len - first);
                let mut group = [std::ptr::null(); GROUP];
                let mut soon = group;
                for i in 0..count {
                    group[i] = load_one(0, first + i, i);
                    let later = (first + ahead + i).min(len - 1);
                    soon[i] = at[1].wrapping_offset(offsets[1][later]).cast_const().cast();
                }
                // SAFETY: rows of that width, and as many lanes.
                unsafe { (self.peaks.add_rows)(peaks.as_mut_ptr(), &group[..count], &soon, width) };
            }
            peak.iter_mut().zip(&**peaks).for_each(|(peak, &lane)| *peak = GreatestOrNan::number::<T>(lane));
        }
        for first in (0..len).step_by(Reduce::BLOCK) {
            let count = Reduce::BLOCK.min(len - first);
            lanes.clear(count);
            for row in first..first + count {
                match next {
                    Some(next) if F::HAS_PEAK => fetch(next, row),
                    None if !F::HAS_PEAK && is_far => fetch(at, (row + ahead).min(len - 1)),
                    _ => {}
                }
                let operands = load(row);
                let lane =
                    lanes.parts_mut(1).nth((row - first) % Reduce::LANES).expect("a lane of the block");
                // SAFETY: a row of that width, as many statistics, terms and lanes.
                unsafe {
                    let terms = terms.add(if kept { row * width } else { 0 });
                    (self.functions.terms)(terms, operands, peak.as_ptr(), width);
                    let term = terms.cast_const();
                    (self.sums.add_rows)(lane.as_mut_ptr(), &[term], &[term; 4], width);
                }
            }
            subtrees.push(lanes.joined(&self.sums), 1, &self.sums);
        }
        let sums = subtrees.root(&self.sums);
        statistic.iter_mut().zip(sums).for_each(|(to, &sum)| *to = F::statistic(Sum::number::<T>(sum)));
        for (row, &offset) in offsets[0].iter().enumerate() {
            let mut operands = [std::ptr::null(); 2];
            let mut term = terms.cast_const();
            let to = at[0].wrapping_offset(offset);
            if let Some(next) = next.filter(|_| !F::HAS_PEAK) {
                fetch(next, row);
            }
            if kept {
                term = term.wrapping_add(row * width);
            } else {
                operands = load(row);
                if F::FROM_TERM {
                    // SAFETY: each operand has `width` elements in this row, and the terms room for
                    // them.
                    unsafe { (self.functions.terms)(terms, operands, peak.as_ptr(), width) };
                }
            }
            // SAFETY: the results are of this row, whose elements were read, and the destination
            // has their places.
            unsafe {
                let statistics = [peak.as_ptr(), statistic.as_ptr()];
                (self.functions.results)(results, operands, term, statistics, width);
                self.write(to, apart[0], results, width, spare);
            }
        }
    }

    /// Writes `count` results to cells `step` bytes apart.
    ///
    /// # Safety
    /// The cells are writable, and readable if beta is not 0.
    unsafe fn write(&self, to: *mut u8, step: isize, results: *const T, count: usize, blocks: Blocks) {
        let cell = self.loaders[0].cell;
        let results = results.cast::<u8>();
        // SAFETY: the destination has these cells; a buffer holds more than a block or a row has.
        unsafe {
            let buffer = blocks.raw;
            if step == cell as isize {
                return match self.stream {
                    Some(stream) if self.stays => stream(to, results, count * cell),
                    Some(stream) => {
                        (self.store)(buffer, results, count, self.scaling);
                        stream(to, buffer, count * cell);
                    }
                    None => (self.store)(to, results, count, self.scaling),
                };
            }
            if self.scaling.beta != 0.0 {
                copy_strided(cell, buffer, cell as isize, to, step, count);
            }
            (self.store)(buffer, results, count, self.scaling);
            copy_strided(cell, to, step, buffer, cell as isize, count);
        }
    }
}

impl Steps {
    /// The elements of a nest in one of its operands, whose scalars are `cell` bytes long.
    fn over(nest: &LoopNest<3>, operand: usize, cell: usize) -> Self {
        let loops =
            nest.axes().iter().map(|a| (a.extent as usize, a.strides[operand] as isize * cell as isize, 0));
        let start = nest.offsets[operand] as isize * cell as isize;
        Steps::of_loops(loops, start, nest.len() as usize, cell)
    }

    /// Calls `f` with the even runs of the positions in `range`: offset and step in bytes, elements
    /// before, elements.
    fn each_run(&self, range: Range<usize>, mut f: impl FnMut(isize, isize, usize, usize)) {
        let mut done = 0;
        self.strides(range, |offset, step, len| {
            f(offset, step, done, len);
            done += len;
        });
    }
}
