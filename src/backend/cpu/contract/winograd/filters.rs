//! Lanes are filters: channels of a pixel are contiguous, in the windowed operand and in the destination.
//!
//! Patches are transformed where they lie, a vector of channels at a time, and tiles are the rows of the kernels. The
//! outputs of a tile come out as contiguous runs of filters.

#![allow(clippy::needless_range_loop, reason = "elements of small matrices")]

use super::super::engine::{Operands, Shared};
use super::super::finish::{Outputs, Run, finish};
use super::super::kernel::{Kernels, Panel};
use super::super::pack::{Source, pack};
use super::super::planes::{Dim, Planes};
use super::super::points::{Even, Point, Turn, Walk};
use super::super::simd::{MR, Simd};
use super::{
    CHANNELS, EIGHT, ELEMENTS, FILTER, OUTPUTS, PATCHES, SUM, SUMS, TAPS, TILES, filter, load, patch, result,
    store,
};
use crate::backend::cpu::{arena, threads};
use crate::error::Result;
use crate::ops::Scaling;
use crate::ops::contract::{Accumulate, Contract, Role};

/// Cells between slabs of memory beside their contents: a line, so that the elements of a patch do not meet in the same
/// sets.
const LINE: usize = 16;

/// Channels of a filter whose taps are packed at once: a line of them.
const PASS: usize = 16;

/// Filters whose sums are kept at once, at least.
const GROUP: usize = 32;

/// A contraction by F(2x2, 3x3).
pub(in super::super) struct FilterLanes<'a, S: Simd> {
    outputs: Outputs<'a>,
    kernels: &'a Kernels<S>,
    batch: Walk,
    images: Walk,
    dims: [Dim; 2],
    image: Source<'a>,
    filter: Source<'a>,
    origin: [i64; 5],
    /// What a tap moves in the filter, of the slower and the faster dimension, and where tap 0 of the patch's order is.
    taps: [i64; 2],
    first: i64,
    channels: Turn,
    filters: Turn,
    /// Extents of the outputs, and what an output moves.
    extents: [usize; 2],
    by: [Point; 2],
    /// Parts that the tiles of all images, and that the panels of filters are divided in.
    blocks: usize,
    shares: usize,
    /// Panels whose sums are kept at once: the same in all blocks, so that the scratch of the largest one is enough.
    group: usize,
}

// SAFETY: addresses; tasks write disjoint elements.
unsafe impl<S: Simd> Sync for FilterLanes<'_, S> {}

/// How a task is called, compiled for the level: filters, scratch, number.
pub(in super::super) type Task<S> = unsafe fn(&FilterLanes<'_, S>, *mut f32, *mut f32, usize);

impl<'a, S: Simd<Part = f32, Cell = f32, Sum = f32>> FilterLanes<'a, S> {
    const NR: usize = Kernels::<S>::NR;

    /// `None` where it does not apply or does not pay. Of the batch nothing depends on it.
    pub(in super::super) fn new(
        outputs: Outputs<'a>,
        operands: Operands,
        kernels: &'a Kernels<S>,
    ) -> Option<FilterLanes<'a, S>> {
        let step: &Contract = outputs.step;
        if step.accumulate != Accumulate::Single || step.bounds().len() != 2 {
            return None;
        }
        let direct = Planes::seen(step)?;
        let ([channels], [filters]) = (&direct.channels.turns[..], &Walk::of(step, Role::N).turns[..]) else {
            return None;
        };
        let side_by_side = channels.by.at[1] == 1 && filters.by.at[0] == 1;
        let extents = direct.dims.each_ref().map(|dim| dim.outputs.extent);
        let enough = channels.extent >= CHANNELS && filters.extent >= CHANNELS;
        let worth = enough && extents[0] * extents[1] >= OUTPUTS && channels.extent.is_multiple_of(EIGHT);
        let batch = Walk::of(step, Role::Batch);
        let bytes = ELEMENTS * channels.extent * filters.extent * size_of::<f32>() * batch.len();
        if !side_by_side || !worth || bytes > FILTER {
            return None;
        }
        let (taps, first) = direct.taps_forward();
        let by = direct.dims.each_ref().map(|dim| dim.outputs.by);
        let pairs = direct.in_pairs()?;
        let tiles = pairs.dims.iter().map(|dim| dim.outputs.extent).product::<usize>() * pairs.outer.len();
        let most = (PATCHES / (channels.extent * size_of::<f32>())).clamp(4 * MR, TILES);
        let [image, filter] = operands.sources::<S>(step);
        Some(FilterLanes {
            blocks: tiles.div_ceil(most),
            shares: 1,
            group: 1,
            batch,
            images: pairs.outer,
            dims: pairs.dims,
            image,
            filter,
            origin: step.nest.offsets,
            outputs,
            kernels,
            taps,
            first,
            channels: *channels,
            filters: *filters,
            extents,
            by,
        })
    }

    fn panels(&self) -> usize {
        self.filters.extent.div_ceil(Self::NR)
    }

    /// Cells of one element of a panel of transformed filters, and of the channels of a transformed patch.
    fn panel_cells(&self) -> usize {
        self.channels.extent * Self::NR + LINE
    }

    fn tile_cells(&self) -> usize {
        self.channels.extent + LINE
    }

    /// Cells of one element of the transformed patches of this many tiles, and of their sums with a group of panels.
    fn slab(&self, tiles: usize) -> usize {
        tiles * self.tile_cells() + LINE
    }

    fn sums(&self, tiles: usize) -> usize {
        tiles * self.group * Self::NR + LINE
    }

    /// Cells of the channels outside the image, and of those of a patch that are converted.
    fn pixels(&self) -> usize {
        let converted = if self.image.convert.is_some() { ELEMENTS } else { 0 };
        (1 + converted) * self.channels.extent
    }

    /// Tiles of all images.
    fn tiles(&self) -> usize {
        self.dims.iter().map(|dim| dim.outputs.extent).product::<usize>() * self.images.len()
    }

    /// Panels whose sums are kept at once, of this many tiles.
    fn group_of(&self, tiles: usize) -> usize {
        let panel = tiles * Self::NR * ELEMENTS * size_of::<f32>();
        let panels = self.panels().div_ceil(self.shares);
        let most = (SUMS / panel).max(GROUP.div_ceil(Self::NR));
        panels.div_ceil(panels.div_ceil(most))
    }

    /// Runs the contraction.
    ///
    /// # Safety
    /// As for [`run`](super::super::run), and for the level of `task` and `transform`.
    pub(in super::super) unsafe fn run(
        mut self,
        threads: usize,
        task: Task<S>,
        transform: Task<S>,
    ) -> Result<()> {
        let products = self.batch.len();
        if threads > 1 {
            // Each share transforms the patches again, so that it must have filters enough.
            let wanted = (4 * threads).div_ceil(products * self.blocks);
            self.shares = wanted.min(self.panels()).min(self.filters.extent.div_ceil(128));
        }
        let tiles = self.tiles().div_ceil(self.blocks);
        self.group = self.group_of(tiles);
        let lines = 4 * self.group * Self::NR;
        let scratch = ELEMENTS * (self.slab(tiles) + self.sums(tiles)) + lines + self.pixels();
        let panels = products * self.panels();
        arena::with(panels * ELEMENTS * self.panel_cells() * size_of::<f32>(), |memory| {
            let shared = Shared(memory.cast::<f32>());
            let packed = TAPS * PASS * Self::NR * size_of::<f32>();
            threads::run_with(threads, panels, packed, &|scratch, panel| {
                // SAFETY: the caller's promises; every panel has a place of its own.
                unsafe { transform(&self, shared.at(0), scratch.cast(), panel) };
            })?;
            let tasks = products * self.blocks * self.shares;
            threads::run_with(threads, tasks, scratch * size_of::<f32>(), &|scratch, index| {
                // SAFETY: the caller's promises; tasks write disjoint elements, and the scratch is this one's.
                unsafe { task(&self, shared.at(0), scratch.cast(), index) };
            })
        })
    }

    /// Transforms the filters of one panel: `[element][channel][lane]`.
    ///
    /// # Safety
    /// As for [`run`](super::super::run); `to` has room for all panels, `packed` for the taps of a pass.
    #[inline(always)]
    pub(in super::super) unsafe fn filters(&self, to: *mut f32, packed: *mut f32, number: usize) {
        let (batch, panel) = (self.batch.point(number / self.panels()), number % self.panels());
        let begin = panel * Self::NR;
        let count = Self::NR.min(self.filters.extent - begin);
        let cells = self.panel_cells();
        let to = to.wrapping_add(number * ELEMENTS * cells);
        let mut lanes = [Point::default(); super::super::simd::MAX_NR];
        for (l, lane) in lanes[..count].iter_mut().enumerate() {
            let along = self.filters.by.at[2] * (begin + l) as i64;
            lane.at[2] = self.origin[2] + batch.at[2] + along + self.first;
        }
        let mut evens = Vec::with_capacity(TAPS);
        for first in (0..self.channels.extent).step_by(PASS) {
            let len = PASS.min(self.channels.extent - first);
            let by = self.channels.by.at[2];
            evens.clear();
            for tap in 0..TAPS as i64 {
                let at = first as i64 * by + tap / 3 * self.taps[0] + tap % 3 * self.taps[1];
                evens.push(Even::plain(at, by, len, None));
            }
            // SAFETY: the caller promises the elements, and the room; the panel has its place.
            unsafe {
                pack::<S>(self.filter, &lanes[..count], &evens, Self::NR, packed);
                for (channel, lane) in
                    (0..len).flat_map(|c| (0..Self::NR).step_by(EIGHT).map(move |lane| (c, lane)))
                {
                    let tap = |t: usize| load(packed.add((t * len + channel) * Self::NR + lane));
                    let lines = [0, 3, 6].map(|r| filter([tap(r), tap(r + 1), tap(r + 2)]));
                    for j in 0..4 {
                        let column = filter([lines[0][j], lines[1][j], lines[2][j]]);
                        for (i, &v) in column.iter().enumerate() {
                            let place = (first + channel) * Self::NR + lane;
                            store(to.add((i * 4 + j) * cells + place), v);
                        }
                    }
                }
            }
        }
    }

    /// The image of a tile, and its row and column among the tiles of the image.
    fn tile(&self, tile: usize) -> (Point, [usize; 2]) {
        let [slow, fast] = self.dims.each_ref().map(|dim| dim.outputs.extent);
        (self.images.point(tile / (slow * fast)), [tile / fast % slow, tile % fast])
    }

    /// Transforms the patches of some tiles: `[element][tile][channel]`.
    ///
    /// # Safety
    /// As for [`task`](FilterLanes::task); of the `pixels` the first are zeros.
    #[inline(always)]
    unsafe fn patches(&self, place: i64, tiles: std::ops::Range<usize>, pixels: *mut f32, to: *mut f32) {
        let slab = self.slab(tiles.len());
        let (channels, size) = (self.channels.extent, self.image.scalar.size() as i64);
        for (row, tile) in tiles.enumerate() {
            let (image, at) = self.tile(tile);
            let mut from = [pixels.cast_const(); ELEMENTS];
            let position = |dim: usize, i: usize| self.dims[dim].first_position() + (2 * at[dim] + i) as i64;
            for (i, from) in from.iter_mut().enumerate() {
                let positions = [position(0, i / 4), position(1, i % 4)];
                if self.dims.iter().zip(positions).all(|(dim, x)| dim.holds(x)) {
                    let along: i64 = self.dims.iter().zip(positions).map(|(dim, x)| dim.offset(x)).sum();
                    let at = (place + image.at[1] + along) * size;
                    *from = self.image.data.wrapping_offset(at as isize).cast();
                    if let Some(convert) = self.image.convert {
                        let near = pixels.wrapping_add((1 + i) * channels);
                        // SAFETY: the caller's promises: the channels of a pixel lie side by side.
                        unsafe { convert(near.cast(), from.cast(), channels, Scaling::MOVE) };
                        *from = near;
                    }
                }
            }
            let to = to.wrapping_add(row * self.tile_cells());
            for channel in (0..channels).step_by(EIGHT) {
                // SAFETY: the caller's promises: what is outside reads zeros.
                unsafe {
                    let d = |i: usize, j: usize| load(from[i * 4 + j].add(channel));
                    let d = [0, 1, 2, 3].map(|i| patch([d(i, 0), d(i, 1), d(i, 2), d(i, 3)]));
                    for j in 0..4 {
                        let column = patch([d[0][j], d[1][j], d[2][j], d[3][j]]);
                        for (i, &v) in column.iter().enumerate() {
                            store(to.add((i * 4 + j) * slab + channel), v);
                        }
                    }
                }
            }
        }
    }

    /// Computes one block of tiles for one share of the filters.
    ///
    /// # Safety
    /// As for [`run`](super::super::run); the filters are transformed; the scratch is this task's alone.
    #[inline(always)]
    pub(in super::super) unsafe fn task(&self, filters: *const f32, scratch: *mut f32, index: usize) {
        let (share, index) = (index % self.shares, index / self.shares);
        let (block, product) = (index % self.blocks, index / self.blocks);
        let all = self.tiles();
        let tiles = all * block / self.blocks..all * (block + 1) / self.blocks;
        let count = tiles.len();
        let mut place = self.batch.point(product);
        (0..5).for_each(|k| place.at[k] += self.origin[k]);
        let (slab, sums_slab, group) = (self.slab(count), self.sums(count), self.group);
        let sums = scratch.wrapping_add(ELEMENTS * slab);
        let lines = sums.wrapping_add(ELEMENTS * sums_slab);
        let pixels = lines.wrapping_add(4 * group * Self::NR);
        // SAFETY: the caller's promises; the scratch is as large as `run` says.
        unsafe {
            pixels.write_bytes(0, self.channels.extent);
            self.patches(place.at[1], tiles.clone(), pixels, scratch);
        }
        let offsets: Vec<i32> = (0..self.channels.extent.min(SUM)).map(|c| (c * Self::NR) as i32).collect();
        let all = self.panels();
        let (mut first, end) = (all * share / self.shares, all * (share + 1) / self.shares);
        let strips = count.div_ceil(MR);
        while first < end {
            let panels = first..end.min(first + group);
            first = panels.end;
            for (e, panel) in (0..ELEMENTS).flat_map(|e| panels.clone().map(move |panel| (e, panel))) {
                let from =
                    filters.wrapping_add(((product * all + panel) * ELEMENTS + e) * self.panel_cells());
                let lanes = Self::NR.min(self.filters.extent - panel * Self::NR);
                let to = sums.wrapping_add(e * sums_slab + (panel - panels.start) * count * Self::NR);
                for begin in (0..self.channels.extent).step_by(SUM) {
                    for strip in 0..strips {
                        let (row, next) = (count * strip / strips, count * (strip + 1) / strips);
                        let patches = scratch.wrapping_add(e * slab + begin);
                        let rows = [std::array::from_fn(|m| {
                            patches.wrapping_add((row + m) * self.tile_cells()).cast_const()
                        })];
                        let c: [*mut f32; MR] =
                            std::array::from_fn(|m| to.wrapping_add((row + m) * Self::NR));
                        let panel = Panel {
                            rows: rows.as_ptr(),
                            segments: 1,
                            len: SUM.min(self.channels.extent - begin),
                            step: 1,
                            offsets: offsets.as_ptr(),
                            v: from.wrapping_add(begin * Self::NR),
                        };
                        // SAFETY: all of the panel has been written above.
                        unsafe { self.kernels.of(next - row, lanes)(&panel, &c, begin > 0) };
                    }
                }
            }
            for (number, tile) in tiles.clone().enumerate() {
                let from = sums.wrapping_add(number * Self::NR).cast_const();
                // SAFETY: the sums of the group are there.
                unsafe {
                    self.results(&place, tile, panels.clone(), (from, sums_slab, count * Self::NR), lines)
                };
            }
        }
    }

    /// The outputs of one tile for some panels, whose sums are `apart` from panel to panel and a slab from element to
    /// element.
    ///
    /// # Safety
    /// As for [`task`](FilterLanes::task); `lines` has room for four times the lanes.
    #[inline(always)]
    unsafe fn results(
        &self,
        place: &Point,
        tile: usize,
        panels: std::ops::Range<usize>,
        (sums, slab, apart): (*const f32, usize, usize),
        lines: *mut f32,
    ) {
        let begin = panels.start * Self::NR;
        let len = (panels.end * Self::NR).min(self.filters.extent) - begin;
        let line = panels.len() * Self::NR;
        for lane in (0..len).step_by(EIGHT) {
            let from = sums.wrapping_add(lane / Self::NR * apart + lane % Self::NR);
            // SAFETY: all sums of the panels are there, and there is room in the lines.
            unsafe {
                let m = |i: usize, j: usize| load(from.add((i * 4 + j) * slab));
                let columns = [0, 1, 2, 3].map(|j| result([m(0, j), m(1, j), m(2, j), m(3, j)]));
                for i in 0..2 {
                    let [even, odd] = result([columns[0][i], columns[1][i], columns[2][i], columns[3][i]]);
                    store(lines.add(2 * i * line + lane), even);
                    store(lines.add((2 * i + 1) * line + lane), odd);
                }
            }
        }
        let (image, [down, along]) = self.tile(tile);
        let mut filters = Point::default();
        filters.add(&self.filters.by, begin as i64);
        let run = Run { lane: 0, len: len as u32, at: filters.at, by: self.filters.by.at };
        for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let (y, x) = (2 * down + i, 2 * along + j);
            if y < self.extents[0] && x < self.extents[1] {
                let mut pixel = image;
                pixel.add(&self.by[0], y as i64);
                pixel.add(&self.by[1], x as i64);
                let row = pixel.offsets(&place.at);
                // SAFETY: the caller's promise; the output is inside the extents.
                unsafe { finish(&self.outputs, &row, &run, lines.add((2 * i + j) * line)) };
            }
        }
    }
}
