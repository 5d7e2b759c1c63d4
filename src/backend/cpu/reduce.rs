//! ReduceTensor: tiles of outputs times chunks of what they reduce, joined in the one tree that
//! [`Reduce`] describes.
//!
//! Where neighbours in memory belong to one output, its elements come in blocks; where they belong
//! to neighbouring outputs, one element of each comes as a row. Chunks are whole subtrees, so that
//! no result depends on their number.

pub(in crate::backend) mod rows;
mod sequence;
mod table;
mod tree;
mod workspace;

use std::ops::Range;

use self::sequence::{Loader, MOST_ROW_BYTES, ROW_BYTES, Steps};
use self::table::{Elements, KERNELS};
use self::tree::{GROUP, Kernels, MOST_BLOCKS};
use self::workspace::{Slots, Workspace};
use super::kind::{self, Call, Kind, Table};
use super::machine::TASKS_PER_THREAD;
use super::strided::copy_strided;
use super::{Machine, arena, row, threads};
use crate::backend::Address;
use crate::backend::choice;
use crate::backend::function::{Fold, Real, finish, is_selected, with_fold, with_real};
use crate::backend::reference::store_index;
use crate::error::Result;
use crate::layout::MAX_AXES;
use crate::ops::{NanRule, Reduce, Reduction, Scaling};

/// Numbers per chunk at least, in blocks.
const CHUNK_BLOCKS: usize = 16;

impl Kind for Reduce {
    fn table() -> Table {
        kind::rows(KERNELS)
    }

    fn kernels(&self, _machine: Machine) -> Vec<&'static str> {
        let steps = Steps::new(self);
        choice::names(KERNELS, |accept| accept(self, &steps))
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        let [dst, indices, src] = [0, 1, 2].map(|k| call.at[k]);
        if self.outputs.is_empty() {
            return Ok(());
        }
        let steps = Steps::new(self);
        let (_, elements) = call.choice.of(KERNELS, |accept| accept(self, &steps))?;
        with_real!(self.compute, T => with_fold!(self.reduction, F => {
            let (kernels, joined) = (Kernels::of::<F>(call.machine.isa), Joined::of::<F>());
            let places = Places { dst, src, indices };
            let task = Task::<T, <F as Fold>::Lane<T>>::new(self, places, (steps, elements), kernels, joined, call.machine);
            // SAFETY: the operands are those of the problem.
            unsafe { task.run(call.machine) }
        }))
    }
}

/// Where the data lies.
#[derive(Clone, Copy)]
struct Places {
    dst: Address,
    src: Address,
    indices: Address,
}

/// Neighbouring outputs along one loop: where each operand is for the first, and how many there
/// are.
#[derive(Clone, Copy)]
struct OutputTile {
    dst: isize,
    src: isize,
    place: i64,
    width: usize,
}

/// `L`, the type of the accumulators. It is generic, so that the loops of tasks are instantiated
/// once for each accumulator, not for each reduction.
#[derive(Clone, Copy)]
struct Joined<T, L> {
    identity: L,
    of_number: fn(T) -> L,
    number: fn(L) -> T,
}

impl<T: Real, L: Copy> Joined<T, L> {
    fn of<F: Fold<Lane<T> = L>>() -> Self {
        Joined { identity: F::lane(F::identity::<T>()), of_number: F::lane::<T>, number: F::number::<T> }
    }
}

struct Task<'a, T, L> {
    problem: &'a Reduce,
    places: Places,
    steps: Steps,
    loader: Loader,
    kernels: Kernels<T, L>,
    joined: Joined<T, L>,
    store: row::Row,
    /// The loops around the tiles, and the loop that tiles cut: extent and strides in scalars.
    outer: [(usize, [i64; 3]); MAX_AXES],
    outer_rank: usize,
    along: (usize, [i64; 3]),
    /// Outputs per tile at most.
    width: usize,
    /// Whether elements come as rows.
    by_rows: bool,
}

/// What becomes of one chunk.
type OnChunk<'a, T, L> = &'a (dyn Fn(usize, &mut Workspace<'_, T, L>) + Sync);

impl<'a, T: Real, L: Copy + Send + Sync> Task<'a, T, L> {
    fn new(
        problem: &'a Reduce, places: Places, (steps, elements): (Steps, Elements), kernels: Kernels<T, L>,
        joined: Joined<T, L>, machine: Machine,
    ) -> Self {
        let cell = problem.src.size();
        let axes = problem.outputs.axes();
        let mut outer = [(1, [1; 3]); MAX_AXES];
        for (to, axis) in outer.iter_mut().zip(axes) {
            *to = (axis.extent as usize, axis.strides);
        }
        let mut outer_rank = axes.len();
        let (by_rows, tiled) = match elements {
            Elements::Rows(closest) => (true, Some(closest)),
            Elements::Blocks => (false, outer_rank.checked_sub(1)),
        };
        let along = match tiled {
            Some(i) => {
                outer[i..outer_rank].rotate_left(1);
                outer_rank -= 1;
                outer[outer_rank]
            }
            None => (1, [1; 3]),
        };
        let most = ROW_BYTES / size_of::<T>();
        let tasks =
            (machine.threads * TASKS_PER_THREAD).div_ceil(outer[..outer_rank].iter().map(|l| l.0).product());
        // Rows are as long as can be; elements of an output are best divided with it, not among
        // tasks.
        let width = if by_rows { most.min(along.0) } else { along.0.div_ceil(tasks).clamp(1, most) };
        Task {
            problem,
            places,
            steps,
            loader: Loader {
                cell,
                is_real: problem.src == T::SCALAR,
                widen: row::between(problem.src, T::SCALAR, Scaling::MOVE, machine.isa),
            },
            kernels,
            joined,
            store: row::between(T::SCALAR, problem.dst, problem.scaling, machine.isa),
            width,
            outer,
            outer_rank,
            along,
            by_rows,
        }
    }

    /// # Safety
    /// As for [`run`](fn@run).
    unsafe fn run(&self, machine: Machine) -> Result<()> {
        let tiles = self.outer().iter().map(|l| l.0).product::<usize>() * self.along.0.div_ceil(self.width);
        let outputs = self.problem.outputs.len() as usize;
        let bytes = outputs.saturating_mul(self.steps.len).saturating_mul(self.loader.cell);
        let threads = machine.threads_for(bytes);
        let wanted = if threads > 1 { threads * TASKS_PER_THREAD } else { 1 };
        let blocks = self.steps.len.div_ceil(Reduce::BLOCK);
        let least = if self.by_rows { CHUNK_BLOCKS.div_ceil(self.width) } else { CHUNK_BLOCKS };
        if tiles < wanted && blocks >= 2 * least {
            let chunk = blocks.div_ceil(wanted.div_ceil(tiles)).max(least).next_power_of_two();
            // SAFETY: the operands are those of the problem.
            return unsafe { self.in_chunks(threads, tiles, chunk * Reduce::BLOCK) };
        }
        threads::in_ranges(threads, tiles, self.scratch(), &|scratch, range| {
            // SAFETY: scratch of this thread.
            let mut work = unsafe { self.workspace(scratch) };
            for tile in range {
                let tile = self.tile(tile);
                // SAFETY: the operands have the tile's outputs and their elements.
                unsafe {
                    self.join(tile, 0..self.steps.len, &mut work);
                    if self.problem.indices.is_some() {
                        self.find(tile, 0..self.steps.len, &mut work);
                    }
                    self.finish(tile, &mut work);
                }
            }
        })
    }

    /// Divides what each output reduces among tasks, for there are too few outputs to divide.
    ///
    /// # Safety
    /// As for [`run`](fn@run); `chunk` is a block times a power of two.
    unsafe fn in_chunks(&self, threads: usize, tiles: usize, chunk: usize) -> Result<()> {
        let chunks = self.steps.len.div_ceil(chunk);
        let range = |task: usize| {
            let first = task % chunks * chunk;
            first..(first + chunk).min(self.steps.len)
        };
        let count = tiles * chunks;
        let bytes = Slots::<T>::bytes(count + tiles, self.width);
        arena::with(bytes, |at| {
            // SAFETY: room for a slot of each task, and one of each tile behind them.
            let slots = unsafe { Slots::new(at, count + tiles, self.width) };
            let each_chunk = |f: OnChunk<T, L>| {
                threads::run_with(threads, count, self.scratch(), &|scratch, task| {
                    // SAFETY: scratch of this thread, and the slot of this task.
                    unsafe {
                        let mut work = self.workspace(scratch);
                        f(task, &mut work);
                        slots.put(task, work.values, work.firsts);
                    }
                })
            };
            each_chunk(&|task, work| {
                // SAFETY: the source has the tile's elements.
                unsafe { self.join(self.tile(task / chunks), range(task), work) };
            })?;
            if arena::is_surveying() {
                return Ok(());
            }
            arena::with(self.scratch(), |scratch| {
                for tile in 0..tiles {
                    // SAFETY: scratch of this thread; all tasks have ended, and every slot has been
                    // put. There are as many results as tiles.
                    unsafe {
                        let Workspace { subtrees, joined, values, firsts, .. } = &mut self.workspace(scratch);
                        for chunk in 0..chunks {
                            let (row, _) = slots.get(tile * chunks + chunk);
                            joined
                                .iter_mut()
                                .zip(row)
                                .for_each(|(lane, &value)| *lane = (self.joined.of_number)(value));
                            subtrees.push(joined, 1, &self.kernels);
                        }
                        self.numbers(values, subtrees.root(&self.kernels));
                        slots.put(count + tile, values, firsts);
                    }
                }
                Ok(())
            })?;
            if self.problem.indices.is_some() {
                each_chunk(&|task, work| {
                    // SAFETY: the results are there, and the source has the tile's elements.
                    unsafe {
                        work.values.copy_from_slice(slots.get(count + task / chunks).0);
                        self.find(self.tile(task / chunks), range(task), work);
                    }
                })?;
            }
            arena::with(self.scratch(), |scratch| {
                for tile in 0..tiles {
                    // SAFETY: all tasks have put their slots; the destination has the tile's
                    // outputs.
                    unsafe {
                        let mut work = self.workspace(scratch);
                        work.values.copy_from_slice(slots.get(count + tile).0);
                        for chunk in 0..chunks {
                            let (_, firsts) = slots.get(tile * chunks + chunk);
                            let all = work.firsts.iter_mut().zip(firsts);
                            all.for_each(|(first, &other)| *first = other.min(*first));
                        }
                        self.finish(self.tile(tile), &mut work);
                    }
                }
                Ok(())
            })
        })
    }

    /// What lanes hold, as numbers.
    fn numbers(&self, values: &mut [T], lanes: &[L]) {
        values.iter_mut().zip(lanes).for_each(|(value, &lane)| *value = (self.joined.number)(lane));
    }

    fn outer(&self) -> &[(usize, [i64; 3])] {
        &self.outer[..self.outer_rank]
    }

    fn scratch(&self) -> usize {
        Workspace::<T, L>::bytes(self.width, self.by_rows)
    }

    /// # Safety
    /// There are [`scratch`](Self::scratch) bytes, and nobody else uses them meanwhile.
    unsafe fn workspace<'s>(&self, scratch: *mut u8) -> Workspace<'s, T, L> {
        // SAFETY: the scratch is as large as `scratch` says, and this thread's alone.
        unsafe { Workspace::new(scratch, self.width, self.by_rows, self.joined.identity) }
    }

    fn tile(&self, number: usize) -> OutputTile {
        let cuts = self.along.0.div_ceil(self.width);
        let first = number % cuts * self.width;
        let mut at = self.problem.outputs.offsets;
        let mut add = |strides: [i64; 3], turn: usize| {
            (0..3).for_each(|k| at[k] += strides[k] * turn as i64);
        };
        add(self.along.1, first);
        let mut rest = number / cuts;
        for &(extent, strides) in self.outer().iter().rev() {
            add(strides, rest % extent);
            rest /= extent;
        }
        OutputTile {
            dst: at[0] as isize * self.problem.dst.size() as isize,
            src: at[1] as isize * self.loader.cell as isize,
            place: at[2],
            width: self.width.min(self.along.0 - first),
        }
    }

    /// Bytes from output to output of a tile, in the source.
    fn src_step(&self) -> isize {
        self.along.1[1] as isize * self.loader.cell as isize
    }

    /// Joins these positions of every output of a tile, into `work.values`.
    ///
    /// # Safety
    /// The elements are readable.
    unsafe fn join(&self, tile: OutputTile, range: Range<usize>, work: &mut Workspace<'_, T, L>) {
        let Workspace { blocks, offsets, lanes, subtrees, joined, values, room, .. } = work;
        let (blocks, room) = (*blocks, *room);
        let start = self.places.src.pointer().wrapping_offset(tile.src);
        let block_ranges =
            range.clone().step_by(Reduce::BLOCK).map(|p| p..(p + Reduce::BLOCK).min(range.end));
        if self.by_rows {
            let contiguous = self.src_step() == self.loader.cell as isize;
            subtrees.clear();
            for block in block_ranges {
                let mut count = 0;
                self.steps.each(block, |offset, _| {
                    offsets[count] = offset;
                    count += 1;
                });
                let offsets = &offsets[..count];
                lanes.clear(offsets.len());
                // Rows that follow one another are one long row, and so are their lanes.
                let bytes = (tile.width * self.loader.cell) as isize;
                let follow = contiguous
                    && tile.width == self.width
                    && offsets.windows(2).all(|two| two[1] - two[0] == bytes);
                let most = if follow {
                    (MOST_ROW_BYTES / size_of::<T>() / tile.width).clamp(1, Reduce::LANES)
                } else {
                    1
                };
                for (number, group) in offsets.chunks(GROUP * Reduce::LANES).enumerate() {
                    let together = if group.len().is_multiple_of(Reduce::LANES) { most } else { 1 };
                    for (part, lane) in lanes.parts_mut(together).enumerate() {
                        let (first, width) = (part * together, lane.len().min(together * tile.width));
                        // Rows of one lane are joined together, so those read soon are those of the
                        // next lanes.
                        let soon = first + together;
                        let past = soon / Reduce::LANES * (GROUP - 1) * Reduce::LANES;
                        let soon = number * GROUP * Reduce::LANES + soon + past;
                        let soon = std::array::from_fn(|k| {
                            // Rows that do not lie side by side are not asked for, nor is what
                            // follows the last block: the lane itself is at hand.
                            let next = offsets.get(soon + k * Reduce::LANES).filter(|_| contiguous);
                            next.map_or(lane.as_ptr().cast(), |&next| start.wrapping_offset(next).cast())
                        });
                        let mut rows = [std::ptr::null(); GROUP];
                        let mut count = 0;
                        for i in (first..group.len()).step_by(Reduce::LANES) {
                            let from = start.wrapping_offset(group[i]);
                            // SAFETY: the elements of a row are readable, and there is room for all
                            // rows of a group.
                            rows[count] =
                                unsafe { self.loader.row(from, self.src_step(), width, blocks, count) };
                            count += 1;
                        }
                        // SAFETY: rows of that width, and as many lanes.
                        unsafe {
                            (self.kernels.add_rows)(lane.as_mut_ptr(), &rows[..count], &soon, width);
                        }
                    }
                }
                subtrees.push(lanes.joined(&self.kernels), 1, &self.kernels);
            }
            self.numbers(values, subtrees.root(&self.kernels));
            return;
        }
        let starts = |j: usize| start.wrapping_offset(j as isize * self.src_step());
        // Where elements lie side by side from a position on, and how many blocks of them make one
        // subtree.
        let place = |j: usize, from: usize| {
            let (elements, len) = self.loader.place::<T>(&self.steps, starts(j), from..range.end)?;
            let most = (len / Reduce::BLOCK).min(MOST_BLOCKS).checked_ilog2()?;
            let level = ((from - range.start) / Reduce::BLOCK).trailing_zeros();
            Some((elements, 1 << most.min(level)))
        };
        // The same positions of all outputs before the next ones: outputs often lie side by side,
        // as the channels of an image do, and pages are visited once.
        subtrees.clear();
        let mut here = place(0, range.start);
        let mut from = range.start;
        while from < range.end {
            let count = here.map_or(1, |(_, count)| count);
            let to = (from + count * Reduce::BLOCK).min(range.end);
            for (j, joined) in joined.iter_mut().enumerate().take(tile.width) {
                // Asked for while this one is read: the next output, or what follows of the first.
                let after = match (j + 1 < tile.width, to < range.end) {
                    (true, _) => Some((j + 1, from)),
                    (false, more) => more.then_some((0, to)),
                };
                let next = after.and_then(|(j, from)| place(j, from));
                if let (None, Some((j, from))) = (next, after) {
                    let end = (from + Reduce::BLOCK).min(range.end);
                    self.loader.fetch(&self.steps, starts(j), from..end);
                }
                // SAFETY: these elements are of the sequence: a power of two of blocks, or one of
                // any length; there is room.
                *joined = unsafe {
                    if let Some((elements, _)) = here {
                        let soon = next.map_or(elements, |(elements, _)| elements);
                        (self.kernels.blocks)(elements, count, soon, room)
                    } else {
                        let elements = self.loader.block::<T>(&self.steps, starts(j), from..to, blocks);
                        (self.kernels.block)(elements, to - from)
                    }
                };
                here = next;
            }
            subtrees.push(joined, count as u64, &self.kernels);
            from = to;
        }
        self.numbers(values, subtrees.root(&self.kernels));
    }

    /// Finds among these positions the lowest index of an element that was selected, given
    /// `work.values`, into `work.firsts`.
    ///
    /// # Safety
    /// The elements are readable.
    unsafe fn find(&self, tile: OutputTile, range: Range<usize>, work: &mut Workspace<'_, T, L>) {
        let Workspace { blocks, values, firsts, .. } = work;
        let blocks = *blocks;
        let start = self.places.src.pointer().wrapping_offset(tile.src);
        // Of the reductions that select, one goes by magnitudes.
        let by_magnitude = matches!(self.problem.reduction, Reduction::Amax(_));
        let selected = |x: T, value: T| is_selected(if by_magnitude { x.magnitude() } else { x }, value);
        firsts.fill(i64::MAX);
        if self.by_rows {
            self.steps.each(range, |offset, index| {
                // SAFETY: the elements of the row are readable, and as many are compared as it is
                // wide.
                unsafe {
                    let from = start.wrapping_offset(offset);
                    let row = self.loader.row::<T>(from, self.src_step(), tile.width, blocks, 0);
                    for j in 0..tile.width {
                        if selected(row.add(j).read(), values[j]) {
                            firsts[j] = firsts[j].min(index);
                        }
                    }
                }
            });
            return;
        }
        for j in 0..tile.width {
            let start = start.wrapping_offset(j as isize * self.src_step());
            for first in range.clone().step_by(Reduce::BLOCK) {
                if firsts[j] == 0 {
                    break;
                }
                let block = first..(first + Reduce::BLOCK).min(range.end);
                // SAFETY: the elements of the block are readable.
                let elements = unsafe { self.loader.block::<T>(&self.steps, start, block.clone(), blocks) };
                for position in block {
                    // SAFETY: inside the block.
                    let x = unsafe { elements.add(position - first).read() };
                    if selected(x, values[j]) {
                        firsts[j] = firsts[j].min(self.steps.index(position));
                    }
                }
            }
        }
    }

    /// Turns `work.values` into results and stores them, and the indices.
    ///
    /// # Safety
    /// The tile's outputs are writable, and readable if `beta != 0`; so are its indices, if some
    /// are written.
    unsafe fn finish(&self, tile: OutputTile, work: &mut Workspace<'_, T, L>) {
        let Workspace { blocks, values, firsts, .. } = work;
        let blocks = *blocks;
        let Reduce { reduction, scaling, dst, .. } = *self.problem;
        for value in values.iter_mut() {
            *value = finish(reduction, *value, self.steps.len as i64);
        }
        if let Some(width) = self.problem.indices {
            for (j, &first) in firsts.iter().enumerate().take(tile.width) {
                // SAFETY: the indices have a place for every output of the tile.
                unsafe {
                    store_index(
                        self.places.indices.pointer(),
                        width,
                        tile.place + j as i64 * self.along.1[2],
                        first,
                    )
                };
            }
        }
        let (cell, step) = (dst.size(), self.along.1[0] as isize * dst.size() as isize);
        let to = self.places.dst.pointer().wrapping_offset(tile.dst);
        let results = values.as_ptr().cast::<u8>();
        // SAFETY: the destination has the tile's outputs; a buffer holds more cells than a tile
        // has.
        unsafe {
            if step == cell as isize {
                return (self.store)(to, results, tile.width, scaling);
            }
            let buffer = blocks.raw;
            if scaling.beta != 0.0 {
                copy_strided(cell, buffer, cell as isize, to, step, tile.width);
            }
            (self.store)(buffer, results, tile.width, scaling);
            copy_strided(cell, to, step, buffer, cell as isize, tile.width);
        }
    }
}
