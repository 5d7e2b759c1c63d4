//! The order of work: sums of tiles of groups, chunk by chunk, the statistics that follow from
//! these sums, then the map; a group that fits a cache is finished while it is there.

use std::ops::Range;

use super::job::{GroupTile, Job, Known, LISTS, MAP_TILE, Scratch, Stages};
use super::kernels::{GROUPS, Kernels, SPAN};
use super::table::{Elements, Groups, KERNELS};
use super::transpose::GroupTranspose;
use super::walk::{Cells, Loops, Run, Shared, WIDTH};
use crate::backend::choice::Choice;
use crate::backend::cpu::machine::TASKS_PER_THREAD;
use crate::backend::cpu::stream::LINE;
use crate::backend::cpu::{Machine, arena, stream, threads};
use crate::backend::function::Real;
use crate::error::Result;
use crate::layout::LoopNest;
use crate::ops::normalise::Tree;

/// Blocks per chunk at least.
const CHUNK_BLOCKS: usize = 8;

/// Bytes of a tile that stay in the cache of a core until they are mapped.
const L2_TILE_BYTES: usize = 256 << 10;

/// Rows that are summed at a time at least, so that sums are read and written that much less often,
/// and numbers of as many as stay in the first-level cache.
const LEAST_ROWS: usize = 4;
const ROW_NUMBERS: usize = 2048;

/// Bytes of scratch that a step of `groups` groups takes at most: numbers of tiles that are not
/// filled, and sums of their chunks. Tiles of one width never have room for twice as many groups.
pub(in crate::backend) fn most_scratch(groups: usize, machine: Machine) -> usize {
    let sums = 2 * size_of::<f64>();
    let of_tasks = MAP_TILE * sums * TASKS_PER_THREAD;
    let of_groups = groups.saturating_mul(2 * (LISTS * size_of::<f64>() + sums));
    machine.threads.saturating_mul(of_tasks).saturating_add(of_groups).saturating_add(LINE)
}

/// A job, cut into tiles.
pub(super) struct Engine<'a, T, J, const N: usize, const M: usize> {
    job: &'a J,
    kernels: Kernels<T>,
    outer: Loops<M>,
    along: (usize, [isize; M]),
    members: Loops<N>,
    tree: Tree,
    width: usize,
    elements: Elements,
    /// How groups are turned, if they are.
    transpose: Option<GroupTranspose>,
    /// Bytes of one element of all operands.
    bytes: usize,
}

impl<'a, T: Real, J: Job<T, N, M>, const N: usize, const M: usize> Engine<'a, T, J, N, M> {
    /// # Errors
    /// Not supported if the kernel that is chosen does not accept the step.
    pub fn new(
        job: &'a J, (groups, members, tree): (&LoopNest<M>, &LoopNest<N>, Tree), cells: [usize; M],
        machine: Machine, choice: Choice<'_>,
    ) -> Result<Self> {
        let mut outer = Loops::new(groups, cells);
        let along = outer.take_closest(1);
        let members = Loops::new(members, std::array::from_fn(|k| cells[k]));
        let groups = Groups::new(along.1, &members, tree, job.sums() > 0);
        let (_, elements) = choice.of(KERNELS, |accept| accept(&groups))?;
        let bytes = 2 * cells[1];
        let width = match elements {
            // Rows that are divided among tasks come from memory: whole ones if possible, which the
            // processor foresees.
            Elements::Rows
                if members.len > CHUNK_BLOCKS * tree.block && bytes * members.len * WIDTH > L2_TILE_BYTES =>
            {
                MAP_TILE.min(along.0)
            }
            Elements::Rows => WIDTH.min(along.0),
            Elements::Turned | Elements::Lines => (MAP_TILE / members.len).min(along.0),
            Elements::Runs => 1,
        };
        let kernels = Kernels::of(machine.isa);
        let transpose =
            (elements == Elements::Turned).then(|| GroupTranspose::of::<T>(members.len, width, machine.isa));
        Ok(Engine { job, kernels, outer, along, members, tree, width, elements, transpose, bytes })
    }

    /// # Errors
    /// Host allocation before anything is written; as [`threads::run`].
    ///
    /// # Safety
    /// What the job is promised holds for all groups and cells.
    pub unsafe fn run(&self, machine: Machine) -> Result<()> {
        let cuts = self.along.0.div_ceil(self.width);
        let tiles = self.outer.iterations() * cuts;
        let groups = tiles * self.width;
        let total = self.bytes.saturating_mul(self.members.len).saturating_mul(groups);
        let threads = machine.threads_for(total);
        let wanted = if threads > 1 { threads * TASKS_PER_THREAD } else { 1 };
        let blocks = self.members.len.div_ceil(self.tree.block);
        let near = self.bytes * self.members.len * self.width <= L2_TILE_BYTES;
        if tiles >= wanted && (near || self.tree == Tree::RUNS) || blocks < 2 * CHUNK_BLOCKS {
            return threads::in_ranges(threads, tiles, 0, &|_, range| {
                let mut room = self.room();
                let mut known: [Vec<T>; LISTS] = std::array::from_fn(|_| vec![T::ZERO; self.width]);
                for number in range {
                    let tile = self.tile(number, cuts);
                    let mut lists = known.each_mut().map(|list| &mut list[..tile.width]);
                    // SAFETY: the tile is one of the groups, and no other task has it.
                    unsafe {
                        self.job.prepare(tile, &mut lists);
                        for sum in 0..self.job.sums() {
                            self.job.shifts(sum, self.first(tile), &lists, &mut room.shifts);
                            self.sum(sum, tile, 0..self.members.len, &lists, &mut room);
                            self.job.take(sum, tile, &mut room.sums, &room.shifts, &mut lists);
                        }
                        self.map(tile, 0..self.members.len, &lists, &mut room);
                    }
                }
                stream::fence();
            });
        }
        let chunk =
            blocks.div_ceil(wanted.div_ceil(tiles)).max(CHUNK_BLOCKS).next_power_of_two() * self.tree.block;
        let chunks = self.members.len.div_ceil(chunk);
        let range = |number: usize| chunk * number..(chunk * (number + 1)).min(self.members.len);
        // Numbers of all groups, and sums of all chunks, which every sum uses again.
        let numbers = LISTS.saturating_mul(groups).saturating_mul(size_of::<T>()).next_multiple_of(LINE);
        let sums =
            if self.job.sums() > 0 { tiles.saturating_mul(chunks).saturating_mul(2 * self.width) } else { 0 };
        let bytes = numbers.saturating_add(sums.saturating_mul(size_of::<f64>()));
        arena::with(bytes, |memory| {
            if arena::is_surveying() {
                return Ok(());
            }
            // SAFETY: as many bytes, which are numbers of either type now.
            let (known, partials) = unsafe {
                memory.write_bytes(0, bytes);
                let list = |k: usize| Shared::at(memory.cast::<T>().add(k * groups));
                (std::array::from_fn::<_, LISTS, _>(list), Shared::at(memory.add(numbers).cast::<f64>()))
            };
            let lists = |tile: &GroupTile<M>| {
                // SAFETY: the groups of one tile, which one task at a time has.
                known.each_ref().map(|list| unsafe { list.places(tile.first, tile.width) })
            };
            for number in 0..tiles {
                let tile = self.tile(number, cuts);
                // SAFETY: the tile is one of the groups, and no other task has its lists.
                unsafe { self.job.prepare(tile, &mut lists(&tile)) };
            }
            for sum in 0..self.job.sums() {
                threads::run(threads, tiles * chunks, &|task| {
                    let mut room = self.room();
                    let tile = self.tile(task / chunks, cuts);
                    let lists = lists(&tile);
                    // SAFETY: the tile's groups are there, and each task has a place of its own.
                    unsafe {
                        self.job.shifts(sum, self.first(tile), &lists, &mut room.shifts);
                        self.sum(sum, tile, range(task % chunks), &lists, &mut room);
                        partials.places(task * 2 * self.width, 2 * tile.width).copy_from_slice(&room.sums);
                    }
                })?;
                let mut room = self.room();
                for number in 0..tiles {
                    let tile = self.tile(number, cuts);
                    let mut lists = lists(&tile);
                    let mut tree = Pairs::new(&mut room.waiting);
                    for task in number * chunks..(number + 1) * chunks {
                        // SAFETY: the sums of a chunk, whose task has ended.
                        tree.push(unsafe { partials.places(task * 2 * self.width, 2 * tile.width) });
                    }
                    room.sums = tree.root();
                    // SAFETY: all chunks of the tile were summed, and no other task has its lists.
                    unsafe {
                        self.job.shifts(sum, self.first(tile), &lists, &mut room.shifts);
                        self.job.take(sum, tile, &mut room.sums, &room.shifts, &mut lists);
                    }
                }
            }
            threads::run(threads, tiles * chunks, &|task| {
                let mut room = self.room();
                let tile = self.tile(task / chunks, cuts);
                // SAFETY: the chunk is one of the tile, whose lists are known.
                unsafe { self.map(tile, range(task % chunks), &lists(&tile), &mut room) };
                stream::fence();
            })
        })
    }

    fn room(&self) -> Scratch<T> {
        let rows = if self.tree == Tree::ROWS { self.width * self.rows_at_a_time() } else { 0 };
        Scratch::new(rows, self.transpose.as_ref().map_or(0, GroupTranspose::room))
    }

    fn tile(&self, number: usize, cuts: usize) -> GroupTile<M> {
        let first = number % cuts * self.width;
        let mut offsets = self.outer.at(number / cuts);
        (0..M).for_each(|k| offsets[k] += self.along.1[k] * first as isize);
        let width = self.width.min(self.along.0 - first);
        GroupTile { first: number * self.width, offsets, steps: self.along.1, width }
    }

    /// The tile with its tensors at the first element of every group.
    fn first(&self, mut tile: GroupTile<M>) -> GroupTile<M> {
        let first = self.members.at(0);
        tile.offsets.iter_mut().zip(first).for_each(|(offset, first)| *offset += first);
        tile
    }

    /// Joins positions of a tile, whole subtrees, to `room.sums`.
    ///
    /// # Safety
    /// As for [`Engine::run`].
    unsafe fn sum(
        &self, sum: usize, tile: GroupTile<M>, range: Range<usize>, lists: &[&mut [T]; LISTS],
        room: &mut Scratch<T>,
    ) {
        room.block.clear();
        room.block.resize(2 * tile.width, 0.0);
        // SAFETY: the tile is one of the groups, and the range inside its members.
        unsafe {
            match self.elements {
                Elements::Rows => self.sum_rows(sum, tile, range, lists, room),
                Elements::Turned | Elements::Lines => self.sum_lines(sum, tile, lists, room),
                Elements::Runs => self.sum_run(sum, tile, range, lists, room),
            }
        }
    }

    /// The sums of neighbouring groups, row by row.
    ///
    /// # Safety
    /// As for [`Engine::run`].
    unsafe fn sum_rows(
        &self, sum: usize, tile: GroupTile<M>, range: Range<usize>, lists: &[&mut [T]; LISTS],
        room: &mut Scratch<T>,
    ) {
        let mut tree = Pairs::new(&mut room.waiting);
        let width = tile.width;
        let together = if self.are_line(width) { MAP_TILE / width } else { 1 };
        copy_lists(&mut room.known, lists, together, self.job.sum_lists());
        let steps = std::array::from_fn(|k| tile.steps[k]);
        for block in self.blocks(range) {
            let mut rows = [[std::ptr::null::<T>(); Tree::ROWS.block]; 2];
            let mut count = 0;
            room.block.fill(0.0);
            let (sums, shifts) = (room.block.as_mut_ptr(), room.shifts.as_ptr());
            let add = |rows: &[[*const T; Tree::ROWS.block]; 2], count: usize| {
                let [g, x] = rows.each_ref().map(|rows| &rows[..count]);
                // SAFETY: rows of that width.
                unsafe { (self.kernels.rows)(sums, g, x, width, shifts) };
            };
            self.members.runs(block, |run| {
                for first in (0..run.len).step_by(together) {
                    let n = together.min(run.len - first);
                    let cells = Cells { offsets: tile.at(run.at(first)), steps, n: n * width };
                    let to =
                        [&mut room.g, &mut room.x].map(|row| row.as_mut_ptr().wrapping_add(count * width));
                    // SAFETY: rows of the tile.
                    let from = unsafe {
                        let known = Known::Each(&room.known);
                        self.job.factors(sum, cells, known, to, &mut room.stages, &mut room.raw)
                    };
                    for i in 0..n {
                        (0..2).for_each(|k| rows[k][count] = from[k].wrapping_add(i * width));
                        count += 1;
                    }
                    if count >= self.rows_at_a_time() {
                        add(&rows, count);
                        count = 0;
                    }
                }
            });
            add(&rows, count);
            tree.push(&room.block);
        }
        room.sums = tree.root();
    }

    /// The sums of small groups, each a run, that follow one another.
    ///
    /// # Safety
    /// As for [`Engine::run`].
    unsafe fn sum_lines(
        &self, sum: usize, tile: GroupTile<M>, lists: &[&mut [T]; LISTS], room: &mut Scratch<T>,
    ) {
        let line = self.line(tile, lists, &mut room.known, self.job.sum_lists());
        let to = [&mut room.g, &mut room.x].map(|row| row.as_mut_ptr());
        // SAFETY: the cells of the tile, of which room holds as many.
        unsafe {
            let known = Known::Each(&room.known);
            let factors = self.job.factors(sum, line, known, to, &mut room.stages, &mut room.raw);
            let (each, width) = (self.members.len, tile.width);
            if let Some(transpose) = &self.transpose {
                let transposed = room.transposed.each_mut().map(|transposed| transposed.as_mut_ptr());
                // The same numbers, once.
                let count = if factors[0] == factors[1] { 1 } else { 2 };
                (0..count).for_each(|k| transpose.transpose(transposed[k], factors[k], width));
                let transposed = [transposed[0].cast_const(), transposed[count - 1].cast_const()];
                room.shifts.resize(2 * width + GROUPS, 0.0);
                let (sums, shifts) = (room.block.as_mut_ptr(), room.shifts.as_ptr());
                (self.kernels.columns)(sums, transposed, transpose.pitch, each, width, shifts);
            } else {
                for j in 0..width {
                    let [g, x] = factors.map(|from| from.add(j * each));
                    let shift = [room.shifts[j], room.shifts[width + j]];
                    [room.block[j], room.block[width + j]] = (self.kernels.block)(g, x, each, shift, &[]);
                }
            }
        }
        room.sums.clone_from(&room.block);
    }

    /// The sums of one group, run by run.
    ///
    /// # Safety
    /// As for [`Engine::run`].
    unsafe fn sum_run(
        &self, sum: usize, tile: GroupTile<M>, range: Range<usize>, lists: &[&mut [T]; LISTS],
        room: &mut Scratch<T>,
    ) {
        let mut tree = Pairs::new(&mut room.waiting);
        let known = Known::One(std::array::from_fn(|k| lists[k][0]));
        let cells = |run: Run<N>| Cells { offsets: tile.at(run.offsets), steps: run.steps, n: run.len };
        for block in self.blocks(range.clone()) {
            let (n, end) = (block.len(), block.end);
            let mut here = [room.g.as_ptr(), room.x.as_ptr()];
            let mut done = 0;
            self.members.runs(block, |run| {
                let to = [&mut room.g, &mut room.x].map(|row| row.as_mut_ptr().wrapping_add(done));
                // SAFETY: a part of the block.
                unsafe {
                    let from = self.job.factors(sum, cells(run), known, to, &mut room.stages, &mut room.raw);
                    if run.len == n {
                        here = from;
                    } else {
                        (0..2).filter(|&k| from[k] != to[k].cast_const()).for_each(|k| {
                            to[k].copy_from_nonoverlapping(from[k], run.len);
                        });
                    }
                }
                done += run.len;
            });
            // Runs end with each image of a channel: no line that the processor foresees.
            let next = end..(end + self.tree.block).min(range.end);
            room.soon.clear();
            self.members.runs(next, |run| {
                self.job.reads(sum, &cells(run), &mut |lines| room.soon.extend(lines.each()));
            });
            // SAFETY: the block's numbers.
            let joined = unsafe {
                (self.kernels.block)(here[0], here[1], n, [room.shifts[0], room.shifts[1]], &room.soon)
            };
            tree.push(&joined);
        }
        room.sums = tree.root();
    }

    /// Positions, a block of the tree at a time.
    fn blocks(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let (block, end) = (self.tree.block, range.end);
        range.step_by(block).map(move |first| first..(first + block).min(end))
    }

    /// Maps positions of a tile.
    ///
    /// # Safety
    /// As for [`Engine::run`].
    unsafe fn map(
        &self, tile: GroupTile<M>, range: Range<usize>, lists: &[&mut [T]; LISTS], room: &mut Scratch<T>,
    ) {
        let Scratch { g, x, stages, raw, known, .. } = room;
        let mut stages = Stages { g, x, stages, raw };
        if matches!(self.elements, Elements::Turned | Elements::Lines) {
            let line = self.line(tile, lists, known, J::LISTS);
            // SAFETY: the line lies inside the tile.
            return unsafe { self.job.map(line, None, Known::Each(known), &mut stages) };
        }
        let steps: [isize; N] = std::array::from_fn(|k| tile.steps[k]);
        let line = self.tree == Tree::ROWS && self.are_line(tile.width);
        // Piece by piece, each once it is known which ones follow: what the one after the next
        // reads is asked for.
        let mut waiting: [Option<Cells<N>>; 2] = [None; 2];
        let mut map = |next: Option<Cells<N>>, known| {
            let here = waiting[0];
            waiting = [waiting[1], next];
            if let Some(cells) = here {
                // SAFETY: the cells lie inside the tile.
                unsafe { self.job.map(cells, next.filter(|_| !line), known, &mut stages) };
            }
        };
        if self.tree == Tree::RUNS {
            let known = Known::One(std::array::from_fn(|k| lists[k][0]));
            self.members.runs(range, |run| {
                // Of equal lengths, about, in whole lines.
                let piece = run.len.div_ceil(run.len.div_ceil(MAP_TILE)).next_multiple_of(LINE);
                for first in (0..run.len).step_by(piece) {
                    let n = piece.min(run.len - first);
                    map(Some(Cells { offsets: tile.at(run.at(first)), steps: run.steps, n }), known);
                }
            });
            (0..2).for_each(|_| map(None, known));
            return;
        }
        let rows = if line { MAP_TILE / tile.width } else { 1 };
        copy_lists(known, lists, rows, J::LISTS);
        let known = Known::Each(known);
        self.members.runs(range, |run| {
            for first in (0..run.len).step_by(rows) {
                let n = rows.min(run.len - first) * tile.width;
                map(Some(Cells { offsets: tile.at(run.at(first)), steps, n }), known);
            }
        });
        (0..2).for_each(|_| map(None, known));
    }

    /// Whether the rows of such tiles follow one another in every operand, so that they are one
    /// line, which the processor foresees.
    fn are_line(&self, width: usize) -> bool {
        let inner = self.members.inner();
        width == self.along.0 && (0..N).all(|k| inner[k] == self.along.1[k] * width as isize)
    }

    /// Rows that are summed at a time.
    fn rows_at_a_time(&self) -> usize {
        (ROW_NUMBERS / self.width).max(LEAST_ROWS)
    }

    /// All cells of a tile whose groups follow one another, and the numbers of each cell's group.
    fn line(
        &self, tile: GroupTile<M>, lists: &[&mut [T]; LISTS], known: &mut [Vec<T>; LISTS], count: usize,
    ) -> Cells<N> {
        let (first, each) = (self.members.at(0), self.members.len);
        for (to, from) in known.iter_mut().zip(lists).take(count) {
            to.resize(tile.width * each + SPAN, T::ZERO);
            // SAFETY: there is room for the numbers of the tile and what is written behind them.
            unsafe { (self.kernels.spread)(to.as_mut_ptr(), from.as_ptr(), each, tile.width) };
        }
        Cells { offsets: tile.at(first), steps: self.members.inner(), n: tile.width * each }
    }
}

/// The numbers of a tile in the first `count` lists, this many times over.
fn copy_lists<T: Real>(known: &mut [Vec<T>; LISTS], lists: &[&mut [T]; LISTS], times: usize, count: usize) {
    for (to, from) in known.iter_mut().zip(lists).take(count) {
        to.clear();
        (0..times).for_each(|_| to.extend_from_slice(from));
    }
}

/// Subtrees of equal size as they come, joined pairwise: a binary counter.
struct Pairs<'a> {
    waiting: &'a mut Vec<f64>,
    count: u64,
    width: usize,
}

impl<'a> Pairs<'a> {
    fn new(waiting: &'a mut Vec<f64>) -> Self {
        waiting.clear();
        Pairs { waiting, count: 0, width: 0 }
    }

    fn push(&mut self, sums: &[f64]) {
        self.width = sums.len();
        self.waiting.extend_from_slice(sums);
        (0..self.count.trailing_ones()).for_each(|_| self.join_last());
        self.count += 1;
    }

    fn join_last(&mut self) {
        let at = self.waiting.len() - 2 * self.width;
        let (left, right) = self.waiting[at..].split_at_mut(self.width);
        left.iter_mut().zip(right).for_each(|(left, right)| *left += *right);
        self.waiting.truncate(at + self.width);
    }

    fn root(mut self) -> Vec<f64> {
        while self.waiting.len() > self.width {
            self.join_last();
        }
        self.waiting.clone()
    }
}
