//! Lanes are pixels: rows of the destination are contiguous.
//!
//! Tiles are like outputs of a window with stride 2 and 4 x 4 taps: patches of neighbouring tiles
//! are neighbours in the [planes](crate::backend::cpu::contract::operands::planes).

#![allow(clippy::needless_range_loop, reason = "elements of small matrices")]

use cudnn_shim_macros::vectorized;

use super::{
    ACC_BYTES, CHANNELS, EIGHT, ELEMENTS, Eight, FILTER, KC, OUTPUTS, PATCHES, TAPS, TILES, filter, load,
    patch, result, store,
};
use crate::backend::cpu::contract::epilogue::generic::{Outputs, Run, epilogue};
use crate::backend::cpu::contract::gemm::engine::Shared;
use crate::backend::cpu::contract::gemm::tiles::Tiles;
use crate::backend::cpu::contract::kernel::simd::{MAX_NR, MR, Simd};
use crate::backend::cpu::contract::kernel::{Kernels, Panel};
use crate::backend::cpu::contract::operands::pack::pack;
use crate::backend::cpu::contract::operands::planes::{Block, Planes};
use crate::backend::cpu::contract::operands::points::{Loops, OperandOffsets, StridedRun};
use crate::backend::cpu::contract::operands::view::View;
use crate::backend::cpu::contract::problem::{Problem, Ready};
use crate::backend::cpu::filters::{CacheSlot, Kept};
use crate::backend::cpu::{arena, threads};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::contract::{Accumulate, Role};

/// Channels of a filter whose taps are packed at once.
const PASS: usize = 14;

/// A contraction by F(2x2, 3x3).
pub struct PixelLanes<'a, S: Simd> {
    outputs: Outputs<'a>,
    kernels: &'a Kernels<S>,
    view: View<'a>,
    rows: Loops,
    planes: Planes,
    /// What a tap moves in the filter, of the slower and the faster dimension, and where tap 0 of
    /// the patch's order is.
    taps: [i64; 2],
    first: i64,
    /// Extents of the outputs.
    extents: [usize; 2],
    /// What an output moves.
    by: [OperandOffsets; 2],
    strips: usize,
    /// Blocks of tiles, and parts of the strips.
    parts: usize,
    shares: usize,
    /// Where transformed filters stay for later calls, if they may.
    room: Option<CacheSlot<'a>>,
}

/// Cells of one element of transformed patches: a line more, so that the elements of a patch do not
/// meet in the same sets.
fn slab(panels: usize, channels: usize, nr: usize) -> usize {
    panels * channels * nr + 16
}

impl<'a, S: Simd<Scalar = f32, KGroup = f32, Acc = f32>> PixelLanes<'a, S> {
    /// `None` where it does not apply or does not pay. Of the batch nothing depends on it.
    pub fn new(problem: &Problem<'a>, kernels: &'a Kernels<S>) -> Option<PixelLanes<'a, S>> {
        let step = problem.step();
        let contiguous = step.loops(Role::M).any(|(_, axis)| axis.strides[0] == 1);
        let many = step.extent(Role::N) >= CHANNELS as i64;
        if !problem.transformed
            || step.accumulate != Accumulate::Single
            || !contiguous
            || !many
            || !Kernels::<S>::NR.is_multiple_of(EIGHT)
        {
            return None;
        }
        let direct = Planes::of(step, Kernels::<S>::NR, false)?;
        let planes = direct.in_pairs()?;
        let extents = direct.dims.each_ref().map(|dim| dim.outputs.extent);
        let by = direct.dims.each_ref().map(|dim| dim.outputs.by);
        let (channels, rows) = (direct.channels.len(), Loops::of(step, Role::N));
        let count = rows.len();
        let view = problem.view::<S>();
        let bytes = ELEMENTS * channels * count * size_of::<f32>() * view.batch.len();
        let worth = channels >= CHANNELS && extents[0] * extents[1] >= OUTPUTS;
        if !worth || bytes > FILTER {
            return None;
        }
        let (taps, first) = direct.taps_forward();
        let nr = Kernels::<S>::NR;
        let most = PATCHES / (channels * size_of::<f32>());
        let most = most.clamp(nr, TILES) / nr * nr;
        let [slow, fast] = &planes.dims;
        let fits = |rows: usize| planes.block(rows, fast.outputs.extent, 16).pitch * rows <= most;
        let high = (1..=slow.outputs.extent).rev().find(|&rows| fits(rows)).unwrap_or(1);
        Some(PixelLanes {
            parts: slow.outputs.extent.div_ceil(high),
            shares: 1,
            room: problem.room("winograd_pixels"),
            strips: count.div_ceil(MR),
            view,
            rows,
            outputs: problem.outputs,
            kernels,
            planes,
            taps,
            first,
            extents,
            by,
        })
    }

    fn strip(&self, index: usize) -> (usize, usize) {
        let count = self.rows.len();
        let (begin, end) = (count * index / self.strips, count * (index + 1) / self.strips);
        (begin, end - begin)
    }

    /// Cells of one element of a strip: strips have up to [`MR`] rows, and a vector is written at a
    /// time.
    fn strip_cells(&self) -> usize {
        self.planes.channels.len() * MR + EIGHT
    }

    /// Tiles of a block, cells of its planes for one channel, and cells of its patches.
    fn block(&self, part: usize) -> (usize, Block, Tiles) {
        let [slow, fast] = &self.planes.dims;
        let rows = slow.outputs.extent;
        let (r0, r1) = (rows * part / self.parts, rows * (part + 1) / self.parts);
        let block = self.planes.block(r1 - r0, fast.outputs.extent, 16);
        let mut tiles = Tiles::default();
        // The place of a tile in the block instead of an offset.
        let unit = |at: i64| OperandOffsets { at: [at, 0, 0, 0, 0], ..OperandOffsets::default() };
        tiles.of_planes(&OperandOffsets::default(), [&unit(1 << 32), &unit(1)], &block, Kernels::<S>::NR);
        (r0, block, tiles)
    }

    /// Transforms the filters of one strip: `[element][strip][channel][row]`, as tasks walk them.
    ///
    /// # Safety
    /// As for [`run`](crate::backend::cpu::contract::run); `to` has room for all strips.
    #[inline(always)]
    pub unsafe fn filters(&self, to: *mut f32, number: usize) {
        let (batch, strip) = (self.view.batch.point(number / self.strips), number % self.strips);
        let (begin, count) = self.strip(strip);
        let cells = self.strip_cells();
        let apart = self.strips * cells;
        let to = to.wrapping_add(number / self.strips * ELEMENTS * apart + strip * cells);
        let mut rows = [OperandOffsets::default(); MR];
        for (m, row) in rows[..count].iter_mut().enumerate() {
            row.at[2] = self.view.origin[2] + batch.at[2] + self.rows.offset(begin + m, 2) + self.first;
        }
        let channels = self.planes.channels.len();
        let mut packed = [0.0_f32; PASS * TAPS * MR + EIGHT];
        let mut evens = Vec::new();
        // Taps that run backwards come from one cache line each: turning them costs more than
        // reading one by one.
        let in_place = self.view.b.scalar == Scalar::F32 && self.taps[1] != 1;
        for channel in 0..channels {
            let mut g = [[[0.0_f32; EIGHT]; 3]; 3];
            let along = self.planes.channels.offset(channel, 2);
            if in_place {
                for (m, row) in rows[..count].iter().enumerate() {
                    let from = self.view.b.data.cast::<f32>().wrapping_offset((row.at[2] + along) as isize);
                    for r in 0..3 {
                        for s in 0..3 {
                            let offset = r as i64 * self.taps[0] + s as i64 * self.taps[1];
                            // SAFETY: the filter has an element for each of its taps.
                            g[r][s][m] = unsafe { from.offset(offset as isize).read() };
                        }
                    }
                }
            } else {
                let place = channel % PASS;
                if place == 0 {
                    evens.clear();
                    for next in channel..channels.min(channel + PASS) {
                        let offset = self.planes.channels.offset(next, 2);
                        for r in 0..3 {
                            let at = offset + r * self.taps[0];
                            StridedRun::plain(at, self.taps[1], 3, None).push(&mut evens, false);
                        }
                    }
                    // SAFETY: the filters have these elements, and there is room for the taps of a
                    // pass.
                    unsafe { pack::<S>(self.view.b, &rows[..count], &evens, count, packed.as_mut_ptr()) };
                }
                for r in 0..3 {
                    for s in 0..3 {
                        let from = packed.as_ptr().wrapping_add((place * TAPS + r * 3 + s) * count);
                        // SAFETY: behind the taps of a pass there is room for a vector.
                        g[r][s] = unsafe { load(from) };
                    }
                }
            }
            let lines: [[Eight; 4]; 3] = [filter(g[0]), filter(g[1]), filter(g[2])];
            for j in 0..4 {
                let column = filter([lines[0][j], lines[1][j], lines[2][j]]);
                for (i, &v) in column.iter().enumerate() {
                    // SAFETY: the strip has its place; what a vector has too much the next channel
                    // overwrites.
                    unsafe { store(to.add((i * 4 + j) * apart + channel * count), v) };
                }
            }
        }
    }

    /// How many strips of `panels` panels have their sums kept at once.
    fn group(&self, panels: usize) -> usize {
        let strip = panels * MR * Kernels::<S>::NR * ELEMENTS * size_of::<f32>();
        let strips = self.strips.div_ceil(self.shares);
        let groups = strips.div_ceil((ACC_BYTES / strip).max(1));
        strips.div_ceil(groups)
    }

    /// Computes one block of tiles of one image for one share of the strips.
    ///
    /// # Safety
    /// As for [`run`](crate::backend::cpu::contract::run); the filters are transformed; the scratch
    /// is this task's alone.
    #[inline(always)]
    pub unsafe fn task(&self, filters: *const f32, scratch: *mut f32, index: usize) {
        let nr = Kernels::<S>::NR;
        let (share, index) = (index % self.shares, index / self.shares);
        let (part, image) = (index % self.parts, index / self.parts);
        let outer = self.planes.outer.len();
        let (product, image) = (image / outer, image % outer);
        let (r0, block, tiles) = self.block(part);
        let channels = self.planes.channels.len();
        let mut place = self.view.product(product);
        place.add(&self.planes.outer.point(image), 1);
        let mut offsets = Vec::new();
        block.offsets(&self.planes, 1, &mut offsets);
        let plane_cells = (block.cells(1) + MAX_NR).next_multiple_of(16);
        let patches = scratch.wrapping_add(plane_cells);
        let panels = tiles.list.len();
        let slab = slab(panels, channels, nr);
        let acc = patches.wrapping_add(slab * ELEMENTS);
        // Of element e, panel p, channel c.
        let at = |e: usize, p: usize, c: usize| patches.wrapping_add(e * slab + (p * channels + c) * nr);
        // SAFETY: the image has these rows and channels, and the scratch is as large as `run` says.
        unsafe {
            let spans = block.spans(&self.planes, [r0, 0]);
            for channel in 0..channels {
                let kept = channel > 0;
                block.copy::<S>(
                    &self.planes,
                    self.view.a,
                    &place,
                    &spans,
                    channel..channel + 1,
                    scratch,
                    kept,
                );
                for (p, tile) in tiles.list.iter().enumerate() {
                    for lane in (0..tile.lanes).step_by(EIGHT) {
                        let from = scratch.add(tile.at + lane);
                        let mut d = [[[0.0; EIGHT]; 4]; 4];
                        for i in 0..4 {
                            for j in 0..4 {
                                d[i][j] = load(from.offset(offsets[i * 4 + j] as isize));
                            }
                        }
                        let d = [patch(d[0]), patch(d[1]), patch(d[2]), patch(d[3])];
                        for j in 0..4 {
                            let column = patch([d[0][j], d[1][j], d[2][j], d[3][j]]);
                            for (i, &v) in column.iter().enumerate() {
                                store(at(i * 4 + j, p, channel).add(lane), v);
                            }
                        }
                    }
                }
            }
            // At most [`KC`].
            let steps: Vec<i32> = (0..channels.min(KC)).map(|c| (c * nr) as i32).collect();
            let cells = self.strip_cells();
            let (mut first, end) =
                (self.strips * share / self.shares, self.strips * (share + 1) / self.shares);
            let group = self.group(panels);
            // Of element e, strip s of a group, panel p.
            let kept =
                |e: usize, s: usize, p: usize| acc.wrapping_add(((e * group + s) * panels + p) * MR * nr);
            while first < end {
                let strips = first..end.min(first + group);
                first = strips.end;
                for e in 0..ELEMENTS {
                    for (p, tile) in tiles.list.iter().enumerate() {
                        for strip in strips.clone() {
                            let (_, count) = self.strip(strip);
                            let place = (product * ELEMENTS + e) * self.strips + strip;
                            let from = filters.add(place * cells);
                            let to = kept(e, strip - strips.start, p);
                            let c: [*mut f32; MR] = std::array::from_fn(|m| to.wrapping_add(m * nr));
                            for begin in (0..channels).step_by(KC) {
                                let from = from.wrapping_add(begin * count);
                                let table = [std::array::from_fn(|m| from.wrapping_add(m))];
                                let panel = Panel {
                                    rows: table.as_ptr(),
                                    segments: 1,
                                    len: KC.min(channels - begin),
                                    step: count,
                                    offsets: steps.as_ptr(),
                                    v: at(e, p, begin),
                                };
                                self.kernels.of(count, tile.lanes)(&panel, &c, begin > 0);
                            }
                        }
                    }
                }
                for strip in strips.clone() {
                    let (begin, count) = self.strip(strip);
                    for m in 0..count {
                        let here = self.rows.point(begin + m).offsets(&place.at);
                        for (p, tile) in tiles.list.iter().enumerate() {
                            let runs = &tiles.runs[tile.first..tile.end];
                            let from = kept(0, strip - strips.start, p).wrapping_add(m * nr);
                            let apart = group * panels * MR * nr;
                            self.results((from, apart), tile.lanes, &here, runs, r0);
                        }
                    }
                }
            }
        }
    }

    /// The outputs of the tiles of one row of sums.
    ///
    /// # Safety
    /// As for [`task`](PixelLanes::task).
    #[inline(always)]
    unsafe fn results(
        &self, (acc, apart): (*const f32, usize), lanes: usize, row: &[i64; 5], runs: &[Run], r0: usize,
    ) {
        let mut lines = [[0.0_f32; 2 * MAX_NR]; 2];
        for lane in (0..lanes).step_by(EIGHT) {
            // SAFETY: all sums of the panel are there.
            let m = |i: usize, j: usize| unsafe { load(acc.add((i * 4 + j) * apart + lane)) };
            let mut columns = [[[0.0; EIGHT]; 2]; 4];
            for j in 0..4 {
                columns[j] = result([m(0, j), m(1, j), m(2, j), m(3, j)]);
            }
            for (i, line) in lines.iter_mut().enumerate() {
                let [even, odd] = result([columns[0][i], columns[1][i], columns[2][i], columns[3][i]]);
                for l in 0..EIGHT {
                    line[2 * (lane + l)] = even[l];
                    line[2 * (lane + l) + 1] = odd[l];
                }
            }
        }
        for run in runs {
            let (down, along) = ((run.at[0] >> 32) as usize + r0, (run.at[0] & 0xffff_ffff) as usize);
            let len = (2 * run.len as usize).min(self.extents[1] - 2 * along);
            for (i, line) in lines.iter().enumerate().take(self.extents[0] - 2 * down) {
                let mut start = OperandOffsets::default();
                start.add(&self.by[0], (2 * down + i) as i64);
                start.add(&self.by[1], 2 * along as i64);
                let part = Run { lane: 0, len: len as u32, at: start.at, by: self.by[1].at };
                // SAFETY: the outputs are inside the extents, and the line holds their sums.
                unsafe { epilogue(&self.outputs, row, &part, line.as_ptr().add(2 * run.lane as usize)) };
            }
        }
    }
}

impl<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>> Ready for PixelLanes<'_, S> {
    unsafe fn run(mut self, threads: usize) -> Result<()> {
        let (nr, channels) = (Kernels::<S>::NR, self.planes.channels.len());
        let images = self.view.batch.len() * self.planes.outer.len();
        if threads > 1 {
            // Each share transforms the patches again, so that it must have filters enough.
            let wanted = (4 * threads).div_ceil(images * self.parts);
            self.shares = wanted.min(self.strips.div_ceil(16)).max(1);
        }
        let filters = self.view.batch.len() * self.strips;
        let blocks = (0..self.parts).map(|part| self.block(part));
        let scratch = blocks
            .map(|(_, block, tiles)| {
                let panels = tiles.list.len();
                let acc = self.group(panels) * panels * MR * nr * ELEMENTS;
                block.cells(1) + MAX_NR + slab(panels, channels, nr) * ELEMENTS + acc
            })
            .max()
            .unwrap_or(0);
        let scratch = (scratch + 64) * size_of::<f32>();
        let bytes = filters * ELEMENTS * self.strip_cells() * size_of::<f32>();
        // SAFETY: the operands are those of this contraction.
        let kept = self.room.map_or(Ok(None), |room| unsafe { room.place([self.strips, 0, 0, 0], bytes) })?;
        arena::with(if kept.is_some() { 0 } else { bytes }, |memory| {
            let shared = Shared(kept.as_ref().map_or(memory, Kept::at).cast::<f32>());
            if !kept.as_ref().is_some_and(|kept| kept.is_filled) {
                let chunk = filters.div_ceil(4 * threads).max(1);
                threads::run(threads, filters.div_ceil(chunk), &|index| {
                    for number in index * chunk..filters.min((index + 1) * chunk) {
                        // SAFETY: every strip has its filters and a place of its own.
                        unsafe { filters_of::avx2(&self, shared.at(0), number) };
                    }
                })?;
                // SAFETY: all filters are transformed.
                kept.iter().for_each(|kept| unsafe { kept.fill() });
            }
            let tasks = images * self.parts * self.shares;
            threads::run_with(threads, tasks, scratch, &|scratch, index| {
                // SAFETY: the filters are transformed, tasks write disjoint elements, and the
                // scratch is this one's.
                unsafe { task::avx2(&self, shared.at(0), scratch.cast(), index) };
            })
        })
    }
}

/// # Safety
/// As for [`PixelLanes::task`].
#[vectorized]
unsafe fn task<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>>(
    winograd: &PixelLanes<'_, S>, filters: *const f32, scratch: *mut f32, index: usize,
) {
    // SAFETY: the filters are transformed, and the scratch is this task's.
    unsafe { winograd.task(filters, scratch, index) }
}

/// # Safety
/// As for [`PixelLanes::filters`].
#[vectorized]
unsafe fn filters_of<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>>(
    winograd: &PixelLanes<'_, S>, to: *mut f32, number: usize,
) {
    // SAFETY: there is room for all strips.
    unsafe { winograd.filters(to, number) }
}
