//! Lanes are filters: channels of a pixel are contiguous, in the windowed operand and in the
//! destination.
//!
//! Patches are transformed where they lie, a vector of channels at a time, and tiles are the rows
//! of the kernels. The outputs of a tile come out as contiguous runs of filters. Images whose rows
//! are contiguous instead are turned first, where they have too few tiles to fill lanes.

#![allow(clippy::needless_range_loop, reason = "elements of small matrices")]

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::ops::Range;

use cudnn_shim_macros::vectorized;

use super::{
    ACC_BYTES, CHANNELS, EIGHT, ELEMENTS, FILTER, KC, OUTPUTS, PATCHES, TAPS, TILES, filter, load, result,
    store,
};
use crate::backend::cpu::contract::epilogue::binary32::F32Epilogue;
use crate::backend::cpu::contract::epilogue::generic::{Outputs, epilogue_outlined};
use crate::backend::cpu::contract::epilogue::registers::{Ends, epilogue, is_even};
use crate::backend::cpu::contract::epilogue::run::Run;
use crate::backend::cpu::contract::gemm::engine::Shared;
use crate::backend::cpu::contract::kernel::simd::{MR, Simd};
use crate::backend::cpu::contract::kernel::{Kernels, Panel};
use crate::backend::cpu::contract::operands::pack::pack;
use crate::backend::cpu::contract::operands::planes::{Dim, Planes};
use crate::backend::cpu::contract::operands::points::{Loop, Loops, OperandOffsets, StridedRun};
use crate::backend::cpu::contract::operands::view::View;
use crate::backend::cpu::contract::problem::{Problem, Ready};
use crate::backend::cpu::filters::{CacheSlot, Kept};
use crate::backend::cpu::stream::prefetch_l2;
use crate::backend::cpu::{arena, threads};
use crate::error::Result;
use crate::ops::contract::{Accumulate, Role};

/// Cells between slabs of memory beside their contents: a line, so that the elements of a patch do
/// not meet in the same sets.
pub(super) const LINE: usize = 16;

/// Outputs of an image in planes up to which its tiles would leave too many lanes without use.
const PLANAR: usize = 256;

/// Channels of a filter whose taps are packed at once: a line of them.
pub(super) const PASS: usize = 16;

/// Lines of the next pass that are asked for with every [`EIGHT`] filters of a channel: of a pass,
/// those of all taps and filters.
const PREFETCH_DISTANCE: usize = (TAPS * EIGHT).div_ceil(PASS);

/// Filters whose sums are kept at once, at least.
const GROUP: usize = 32;

/// Channels that a filter has evenly: those of one loop, or of blocks that are whole eights, and
/// how many of them a block has and what it moves.
fn joined(walk: &Loops) -> Option<(Loop, Option<Loop>)> {
    match walk.loops[..] {
        [axis] => Some((axis, None)),
        [Loop { extent, by }, axis] => {
            let is_even = by.at[2] == axis.by.at[2] * axis.extent as i64 && axis.extent.is_multiple_of(EIGHT);
            let all = Loop { extent: extent * axis.extent, ..axis };
            is_even.then_some((all, Some(Loop { extent: axis.extent, by })))
        }
        _ => None,
    }
}

/// A contraction by F(2x2, 3x3).
pub struct FilterLanes<'a, S: Simd> {
    outputs: Outputs<'a>,
    kernels: &'a Kernels<S>,
    pub(super) view: View<'a>,
    pub(super) images: Loops,
    pub(super) dims: [Dim; 2],
    /// What a tap moves in the filter, of the slower and the faster dimension, and where tap 0 of
    /// the patch's order is.
    taps: [i64; 2],
    first: i64,
    pub(super) channels: Loop,
    filters: Loop,
    /// Where they are in blocks: how many one has, and what it moves.
    pub(super) channel_blocks: Option<Loop>,
    filter_blocks: Option<Loop>,
    /// Extents of the outputs, and what an output moves.
    extents: [usize; 2],
    by: [OperandOffsets; 2],
    /// Parts that the tiles of all images, and that the panels of filters are divided in.
    blocks: usize,
    shares: usize,
    /// Whether rows of an image are contiguous instead of channels.
    pub(super) planar: bool,
    /// Panels whose sums are kept at once: the same in all blocks, so that the scratch of the
    /// largest one is enough.
    pub(super) group: usize,
    /// Where transformed filters stay for later calls, if they may.
    room: Option<CacheSlot<'a>>,
}

impl<'a, S: Simd<Scalar = f32, KGroup = f32, Acc = f32>> FilterLanes<'a, S> {
    pub(super) const NR: usize = Kernels::<S>::NR;

    /// `None` where it does not apply or does not pay. Of the batch nothing depends on it.
    pub fn new(problem: &Problem<'a>, kernels: &'a Kernels<S>) -> Option<FilterLanes<'a, S>> {
        let step = problem.step();
        let few = step.extent(Role::N) < CHANNELS as i64;
        if !problem.transformed || step.accumulate != Accumulate::Single || step.bounds().len() != 2 || few {
            return None;
        }
        let direct = Planes::seen(step)?;
        let (channels, channel_blocks) = joined(&direct.channels)?;
        let (filters, filter_blocks) = joined(&Loops::of(step, Role::N))?;
        let extents = direct.dims.each_ref().map(|dim| dim.outputs.extent);
        let side_by_side = channels.by.at[1] == 1 && filters.by.at[0] == 1;
        let planar = !side_by_side && direct.are_dense() && extents[0] * extents[1] <= PLANAR;
        let worth = channels.extent >= CHANNELS
            && extents[0] * extents[1] >= OUTPUTS
            && channels.extent.is_multiple_of(EIGHT);
        let view = problem.view::<S>();
        let bytes = ELEMENTS * channels.extent * filters.extent * size_of::<f32>() * view.batch.len();
        if !(side_by_side || planar) || !worth || bytes > FILTER {
            return None;
        }
        // Eight at a time they are read where they lie, and finished in registers.
        let reads = channel_blocks.is_none() || !planar && view.a.convert.is_none();
        let ends = problem.outputs.f32_epilogue.filter(|f32_epilogue| is_even(f32_epilogue, &filters.by.at));
        if !reads || filter_blocks.is_some() && ends.is_none() {
            return None;
        }
        let (taps, first) = direct.taps_forward();
        let by = direct.dims.each_ref().map(|dim| dim.outputs.by);
        let pairs = direct.in_pairs()?;
        let tiles = pairs.dims.iter().map(|dim| dim.outputs.extent).product::<usize>() * pairs.outer.len();
        let most = (PATCHES / (channels.extent * size_of::<f32>())).clamp(4 * MR, TILES);
        Some(FilterLanes {
            blocks: tiles.div_ceil(most),
            shares: 1,
            group: 1,
            planar,
            room: problem.room("winograd_filters"),
            view,
            images: pairs.outer,
            dims: pairs.dims,
            outputs: problem.outputs,
            kernels,
            taps,
            first,
            channels,
            channel_blocks,
            filters,
            filter_blocks,
            extents,
            by,
        })
    }

    pub(super) fn panels(&self) -> usize {
        self.filters.extent.div_ceil(Self::NR)
    }

    /// Cells of one element of a panel of transformed filters, and of the channels of a transformed
    /// patch.
    pub(super) fn panel_cells(&self) -> usize {
        self.channels.extent * Self::NR + LINE
    }

    pub(super) fn tile_cells(&self) -> usize {
        self.channels.extent + LINE
    }

    /// Cells of one element of the transformed patches of this many tiles, and of their sums with a
    /// group of panels.
    pub(super) fn slab(&self, tiles: usize) -> usize {
        tiles * self.tile_cells() + LINE
    }

    pub(super) fn acc_len(&self, tiles: usize) -> usize {
        tiles * self.group * Self::NR + LINE
    }

    /// Tiles of all images.
    pub(super) fn tiles(&self) -> usize {
        self.dims.iter().map(|dim| dim.outputs.extent).product::<usize>() * self.images.len()
    }

    /// Panels whose sums are kept at once, of this many tiles.
    fn group_of(&self, tiles: usize) -> usize {
        let panel = tiles * Self::NR * ELEMENTS * size_of::<f32>();
        let panels = self.panels().div_ceil(self.shares);
        let most = (ACC_BYTES / panel).max(GROUP.div_ceil(Self::NR));
        panels.div_ceil(panels.div_ceil(most))
    }

    /// Passes over the channels of a filter.
    pub(super) fn passes(&self) -> usize {
        self.channels.extent.div_ceil(PASS)
    }

    /// Transforms some passes of the filters of one panel: `[element][channel][lane]`.
    ///
    /// # Safety
    /// As for [`run`](crate::backend::cpu::contract::run); `to` has room for the panel, `packed`
    /// for the taps of a pass.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
    pub(super) unsafe fn filters(&self, to: *mut f32, packed: *mut f32, number: usize, passes: Range<usize>) {
        let (batch, panel) = (self.view.batch.point(number / self.panels()), number % self.panels());
        let begin = panel * Self::NR;
        let count = Self::NR.min(self.filters.extent - begin);
        let cells = self.panel_cells();
        let mut lanes = [OperandOffsets::default(); crate::backend::cpu::contract::kernel::simd::MAX_NR];
        for (l, lane) in lanes[..count].iter_mut().enumerate() {
            let along = self.filters.by.at[2] * (begin + l) as i64;
            lane.at[2] = self.view.origin[2] + batch.at[2] + along + self.first;
        }
        // At most three a channel of a pass.
        let mut evens = Vec::with_capacity(3 * PASS);
        // Taps side by side are one run, most often with those of the next channel.
        let near = self.taps[1].abs() == 1;
        for first in passes.map(|pass| pass * PASS) {
            let len = PASS.min(self.channels.extent - first);
            let by = self.channels.by.at[2];
            evens.clear();
            let at = |channel: usize, tap: i64| {
                (first + channel) as i64 * by + tap / 3 * self.taps[0] + tap % 3 * self.taps[1]
            };
            if !near {
                (0..TAPS as i64).for_each(|tap| evens.push(StridedRun::plain(at(0, tap), by, len, None)));
            } else {
                for (channel, row) in (0..len).flat_map(|channel| [0, 3, 6].map(|row| (channel, row))) {
                    StridedRun::plain(at(channel, row), self.taps[1], 3, None).push(&mut evens, false);
                }
            }
            let lines_ahead = if first + PASS < self.channels.extent { PREFETCH_DISTANCE } else { 0 };
            // SAFETY: the filters have these elements, `packed` has room for a pass, and the panel
            // has its place.
            unsafe {
                pack::<S>(self.view.b, &lanes[..count], &evens, Self::NR, packed);
                // Loops, as for patches.
                let mut ahead = [0; 2];
                for eight in 0..len * (Self::NR / EIGHT) {
                    // The lines of the next pass: weights that no call has read for a while are in
                    // memory, and every line is in another run.
                    for _ in 0..lines_ahead {
                        if ahead[1] == count {
                            ahead = [ahead[0] + 1, 0];
                        }
                        let next = if near {
                            at(len, 0) + (ahead[0] * PASS) as i64
                        } else {
                            at(len, ahead[0] as i64)
                        };
                        let next = (lanes[ahead[1]].at[2] + next) * self.view.b.scalar.size() as i64;
                        prefetch_l2(self.view.b.data.wrapping_offset(next as isize));
                        ahead[1] += 1;
                    }
                    let (channel, lane) = (eight / (Self::NR / EIGHT), eight % (Self::NR / EIGHT) * EIGHT);
                    let (start, by) = if near { (channel * TAPS, 1) } else { (channel, len) };
                    let mut lines = [[[0.0; EIGHT]; 4]; 3];
                    for (r, line) in lines.iter_mut().enumerate() {
                        let mut taps = [[0.0; EIGHT]; 3];
                        for (t, tap) in taps.iter_mut().enumerate() {
                            *tap = load(packed.add((start + (3 * r + t) * by) * Self::NR + lane));
                        }
                        *line = filter(taps);
                    }
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
    pub(super) fn tile(&self, tile: usize) -> (OperandOffsets, [usize; 2]) {
        let [slow, fast] = self.dims.each_ref().map(|dim| dim.outputs.extent);
        (self.images.point(tile / (slow * fast)), [tile / fast % slow, tile % fast])
    }

    /// Where a product of the batch begins.
    pub(super) fn place(&self, product: usize) -> OperandOffsets {
        self.view.product(product)
    }

    /// Computes one block of tiles for one share of the filters.
    ///
    /// # Safety
    /// As for [`run`](crate::backend::cpu::contract::run); the filters are transformed; the scratch
    /// is this task's alone.
    #[inline(always)]
    pub unsafe fn task(&self, filters: *const f32, scratch: *mut f32, index: usize) {
        let (share, index) = (index % self.shares, index / self.shares);
        let (block, product) = (index % self.blocks, index / self.blocks);
        let all = self.tiles();
        let tiles = all * block / self.blocks..all * (block + 1) / self.blocks;
        let count = tiles.len();
        let place = self.place(product);
        let (slab, acc_slab, group) = (self.slab(count), self.acc_len(count), self.group);
        let acc = scratch.wrapping_add(ELEMENTS * slab);
        let lines = acc.wrapping_add(ELEMENTS * acc_slab);
        let pixels = lines.wrapping_add(4 * group * Self::NR);
        // SAFETY: the image has these tiles and channels, and the scratch is as large as `run`
        // says.
        unsafe {
            self.patches(place.at[1], tiles.clone(), 0..self.channels.extent, slab, pixels, scratch);
        }
        let offsets = self.steps();
        let all = self.panels();
        let (mut first, end) = (all * share / self.shares, all * (share + 1) / self.shares);
        while first < end {
            let panels = first..end.min(first + group);
            first = panels.end;
            for (e, panel) in (0..ELEMENTS).flat_map(|e| panels.clone().map(move |panel| (e, panel))) {
                let from = ((product * all + panel) * ELEMENTS + e) * self.panel_cells();
                let to = acc.wrapping_add(e * acc_slab + (panel - panels.start) * count * Self::NR);
                let patches = scratch.wrapping_add(e * slab);
                // SAFETY: the patches and the filters are transformed, and there is room for the
                // sums.
                unsafe { self.multiply(panel, filters.wrapping_add(from), (patches, count), &offsets, to) };
            }
            for (number, tile) in tiles.clone().enumerate() {
                let from = acc.wrapping_add(number * Self::NR).cast_const();
                // SAFETY: the sums of the group are there.
                unsafe {
                    self.results(&place, tile, panels.clone(), (from, acc_slab, count * Self::NR), lines)
                };
            }
        }
    }

    /// Multiplies one element of the patches of some tiles with that of a panel of filters.
    ///
    /// # Safety
    /// Both are there, and `to` has room for the sums, a panel's lanes for each tile.
    #[inline(always)]
    pub(super) unsafe fn multiply(
        &self, panel: usize, filters: *const f32, (patches, tiles): (*const f32, usize), offsets: &[i32],
        to: *mut f32,
    ) {
        let lanes = Self::NR.min(self.filters.extent - panel * Self::NR);
        let strips = tiles.div_ceil(MR);
        for begin in (0..self.channels.extent).step_by(KC) {
            let patches = patches.wrapping_add(begin);
            for strip in 0..strips {
                let (row, next) = (tiles * strip / strips, tiles * (strip + 1) / strips);
                let rows = [std::array::from_fn(|m| patches.wrapping_add((row + m) * self.tile_cells()))];
                let c: [*mut f32; MR] = std::array::from_fn(|m| to.wrapping_add((row + m) * Self::NR));
                let panel = Panel {
                    rows: rows.as_ptr(),
                    segments: 1,
                    len: KC.min(self.channels.extent - begin),
                    step: 1,
                    offsets: offsets.as_ptr(),
                    v: filters.wrapping_add(begin * Self::NR),
                };
                // SAFETY: rows and panel have as many cells as the pass, and the rows of `c` lanes
                // for all sums.
                unsafe { self.kernels.of(next - row, lanes)(&panel, &c, begin > 0) };
            }
        }
    }

    /// Where the lanes of the channels of a panel are that are summed at once.
    pub(super) fn steps(&self) -> Vec<i32> {
        // At most [`KC`].
        (0..self.channels.extent.min(KC)).map(|c| (c * Self::NR) as i32).collect()
    }

    /// The outputs of one tile for some panels, whose sums are `apart` from panel to panel and a
    /// slab from element to element.
    ///
    /// # Safety
    /// As for [`task`](FilterLanes::task); `lines` has room for four times the lanes.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
    pub(super) unsafe fn results(
        &self, place: &OperandOffsets, tile: usize, panels: Range<usize>,
        (acc, slab, apart): (*const f32, usize, usize), lines: *mut f32,
    ) {
        let begin = panels.start * Self::NR;
        let len = (panels.end * Self::NR).min(self.filters.extent) - begin;
        let line = panels.len() * Self::NR;
        for lane in (0..len).step_by(EIGHT) {
            let from = acc.wrapping_add(lane / Self::NR * apart + lane % Self::NR);
            // SAFETY: all sums of the panels are there, and there is room in the lines.
            unsafe {
                // Loops, as for patches.
                let mut columns = [[[0.0; EIGHT]; 2]; 4];
                for (j, column) in columns.iter_mut().enumerate() {
                    let mut acc = [[0.0; EIGHT]; 4];
                    for (i, acc) in acc.iter_mut().enumerate() {
                        *acc = load(from.add((i * 4 + j) * slab));
                    }
                    *column = result(acc);
                }
                for i in 0..2 {
                    let [even, odd] = result([columns[0][i], columns[1][i], columns[2][i], columns[3][i]]);
                    store(lines.add(2 * i * line + lane), even);
                    store(lines.add((2 * i + 1) * line + lane), odd);
                }
            }
        }
        let (image, [down, along]) = self.tile(tile);
        let mut filters = OperandOffsets::default();
        filters.add(&self.filters.by, begin as i64);
        let run = Run { lane: 0, len: len as u32, at: filters.at, by: self.filters.by.at };
        for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let (y, x) = (2 * down + i, 2 * along + j);
            if y < self.extents[0] && x < self.extents[1] {
                let mut pixel = image;
                pixel.add(&self.by[0], y as i64);
                pixel.add(&self.by[1], x as i64);
                let row = pixel.offsets(&place.at);
                let line = lines.wrapping_add((2 * i + j) * line);
                if let (Some(blocks), Some(f32_epilogue)) = (&self.filter_blocks, &self.outputs.f32_epilogue)
                {
                    // SAFETY: the output is inside the extents, and the line holds its sums.
                    unsafe { self.blocks_epilogue(f32_epilogue, blocks, &row, begin..begin + len, line) };
                    continue;
                }
                // SAFETY: the output is inside the extents, and the line holds its sums.
                unsafe { epilogue_outlined(&self.outputs, &row, &run, line) };
            }
        }
    }
}

impl<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>> FilterLanes<'_, S> {
    /// Finishes the sums of some filters of a pixel, which are in blocks in the destination.
    ///
    /// # Safety
    /// As for [`task`](FilterLanes::task); the sums are there.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn blocks_epilogue(
        &self, f32_epilogue: &F32Epilogue, blocks: &Loop, row: &[i64; 5], filters: Range<usize>,
        acc: *const f32,
    ) {
        let mut ends = Ends::new(self.filters.by.at[4] == 1, None);
        for filter in filters.clone().step_by(EIGHT) {
            let (block, lane) = ((filter / blocks.extent) as i64, (filter % blocks.extent) as i64);
            let at = |slot: usize| {
                (row[slot] + block * blocks.by.at[slot] + lane * self.filters.by.at[slot]) as isize
            };
            ends.to[0] = f32_epilogue.dst.wrapping_offset(at(0));
            ends.z[0] = f32_epilogue.z.wrapping_offset(at(3));
            ends.bias[0] = f32_epilogue.bias.wrapping_offset(at(4));
            // SAFETY: every eight filters have sums in the line, and a place in each operand.
            unsafe {
                let acc = acc.add(filter - filters.start);
                #[cfg(target_arch = "x86_64")]
                epilogue(f32_epilogue, [[_mm256_loadu_ps(acc)]], &ends);
                #[cfg(target_arch = "aarch64")]
                epilogue(f32_epilogue, [[vld1q_f32(acc), vld1q_f32(acc.add(EIGHT / 2))]], &ends);
            }
        }
    }
}

impl<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>> Ready for FilterLanes<'_, S> {
    unsafe fn run(mut self, threads: usize) -> Result<()> {
        let products = self.view.batch.len();
        let bytes = products * self.panels() * ELEMENTS * self.panel_cells() * size_of::<f32>();
        // SAFETY: the operands are those of this contraction, and there is room for every panel.
        let kept = unsafe {
            let kept = self.room.map_or(Ok(None), |room| room.place([Self::NR, 0, 0, 0], bytes))?;
            if let Some(kept) = kept.as_ref().filter(|kept| !kept.is_filled) {
                self.all_filters(threads, &Shared(kept.at().cast()))?;
                kept.fill();
            }
            kept
        };
        if self.has_few_tiles(threads) {
            self.group = 1;
            let kept = kept.as_ref().map(|kept| Shared(kept.at().cast()));
            // SAFETY: the operands are those of this contraction.
            return unsafe { self.run_few(threads, kept.as_ref()) };
        }
        if threads > 1 {
            // Each share transforms the patches again, so that it must have filters enough.
            let wanted = (4 * threads).div_ceil(products * self.blocks);
            self.shares = wanted.min(self.panels()).min(self.filters.extent.div_ceil(128));
            if self.shares * products * self.blocks < 4 * threads {
                self.blocks = threads::even_parts(self.blocks, threads, self.tiles().div_ceil(4 * MR));
            }
        }
        let tiles = self.tiles().div_ceil(self.blocks);
        self.group = self.group_of(tiles);
        let lines = 4 * self.group * Self::NR;
        let scratch = ELEMENTS * (self.slab(tiles) + self.acc_len(tiles)) + lines + self.pixels();
        arena::with(if kept.is_some() { 0 } else { bytes }, |memory| {
            let shared = Shared(kept.as_ref().map_or(memory, Kept::at).cast::<f32>());
            if kept.is_none() {
                // SAFETY: there is room for every panel.
                unsafe { self.all_filters(threads, &shared) }?;
            }
            let tasks = products * self.blocks * self.shares;
            threads::run_with(threads, tasks, scratch * size_of::<f32>(), &|scratch, index| {
                // SAFETY: the filters are transformed, tasks write disjoint elements, and the
                // scratch is this one's.
                unsafe { task::avx2(&self, shared.at(0), scratch.cast(), index) };
            })
        })
    }
}

/// # Safety
/// As for [`FilterLanes::task`].
#[vectorized]
unsafe fn task<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>>(
    winograd: &FilterLanes<'_, S>, filters: *const f32, scratch: *mut f32, index: usize,
) {
    // SAFETY: the filters are transformed, and the scratch is this task's.
    unsafe { winograd.task(filters, scratch, index) }
}
