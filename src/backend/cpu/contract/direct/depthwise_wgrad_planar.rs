//! Sums over the pixels of one channel for each tap of a window: gradients of depthwise filters, in
//! planes.
//!
//! A plane of the image is copied with its padding, the plane of the result with zeros behind every
//! row up to the same pitch, so that the whole sum is one long product of two lines, with the image
//! shifted by the place of the tap. Large planes are cut into blocks. In one dimension images are
//! the rows; in three and more each plane of the result meets the planes of the image that the
//! other taps see.

use std::mem::MaybeUninit;
use std::ops::Range;

use cudnn_shim_macros::vectorized;

use super::depthwise_planar::PAIRS;
use crate::backend::cpu::contract::PARALLEL_THRESHOLD;
use crate::backend::cpu::contract::epilogue::generic::{Outputs, Run, epilogue};
use crate::backend::cpu::contract::kernel::simd::{MAX_NR, Simd};
use crate::backend::cpu::contract::operands::pack::{self, Source};
use crate::backend::cpu::contract::operands::planes::{Block, Planes, Span, transposed};
use crate::backend::cpu::contract::operands::points::{Loop, Loops, OperandOffsets};
use crate::backend::cpu::contract::operands::view::View;
use crate::backend::cpu::contract::problem::{Problem, Ready};
use crate::backend::cpu::threads;
use crate::dtype::convert::with_element;
use crate::error::Result;
use crate::ops::contract::{Accumulate, Role};
use crate::reserve::list;

/// Cells of the planes of both operands at most, and where these are parts of a plane.
const CELLS: usize = 128 << 10;
const BLOCK: usize = 16 << 10;

/// Taps at most, and those that are summed at once.
const TAPS: usize = 128;
const MANY: usize = 9;

/// Pixels from which on vectors are worth it.
const PIXELS: usize = 32;

/// Channels of a task at most.
const CHANNELS: usize = 1024;

/// A contraction with one sum over pixels per channel and tap.
pub struct DepthwiseWgradPlanar<'a, S: Simd> {
    outputs: Outputs<'a>,
    view: View<'a>,
    /// The step with pixels as outputs and taps as the sum, as the planes of a convolution are.
    planes: Planes,
    block: Block,
    /// Where blocks begin, and what each copies, from when it runs on.
    blocks: Vec<([usize; 2], Vec<Span>)>,
    level: std::marker::PhantomData<fn() -> S>,
}

impl<'a, S: Simd<Scalar = f32, KGroup = f32, Acc = f32>> DepthwiseWgradPlanar<'a, S> {
    /// `None` for any other contraction.
    pub fn new(problem: &Problem<'a>) -> Option<DepthwiseWgradPlanar<'a, S>> {
        let step = problem.step();
        if step.accumulate != Accumulate::Single || step.bounds().is_empty() {
            return None;
        }
        let mut planes = Planes::of(&transposed(step)?, S::L, false)?;
        // What no bound ties to pixels is a product of its own, so that an image has the same bits
        // in any batch; each filter is.
        let mut view = problem.view::<S>();
        let filters = Loops::of(step, Role::N);
        let channels = std::mem::take(&mut planes.channels.loops);
        let (taps, products) = channels.into_iter().partition::<Vec<_>, _>(is_bound);
        let products = Loops { loops: products };
        // Of more pairs, several are better computed together. Products may be images, whose number
        // must not decide.
        let few = step.is_over_images && products.len() * filters.len() <= PAIRS;
        if filters.len() > 1 && !few {
            return None;
        }
        // At most the loops of a step.
        view.batch.loops.extend(products.loops.into_iter().chain(filters.loops));
        planes.channels.loops = taps;
        let [slow, fast] = &planes.dims;
        let [down, along] = [slow, fast].map(|dim| dim.outputs.extent);
        // Nothing says where rows without a window end.
        if fast.is_free() {
            return None;
        }
        let cells = |rows: usize, columns: usize| {
            let block = planes.block(rows, columns, 16);
            block.cells(1) + rows * block.pitch
        };
        // A whole plane; of larger ones, and where images are rows, as much as stays in the nearest
        // caches.
        let block = if !slow.is_free() && cells(down, along) <= CELLS {
            [down, along]
        } else {
            let columns = (1..)
                .map(|parts| along.div_ceil(parts))
                .find(|&columns| cells(1, columns) <= BLOCK || columns == 1)?;
            let rows = if columns < along {
                1
            } else {
                (1..=down).rev().find(|&rows| cells(rows, along) <= BLOCK)?
            };
            [rows, columns]
        };
        let [rows, columns] = block;
        let block = planes.block(rows, columns, 16);
        let (taps, pixels) = (planes.taps() * planes.channels.len(), down * along);
        let outer = planes
            .outer
            .loops
            .iter()
            .filter(|axis| is_bound(axis))
            .map(|axis| axis.extent)
            .product::<usize>();
        // A window over as many outputs has better kernels, unless more than its taps is summed.
        let summed = planes.outer.loops.iter().any(|axis| !is_bound(axis)) || slow.is_free();
        let more = summed || pixels * outer > taps;
        let near = block.pitch - columns <= MAX_NR.max(columns);
        if cells(rows, columns) > CELLS || !near || !more || taps > TAPS || pixels < PIXELS {
            return None;
        }
        Some(DepthwiseWgradPlanar {
            view,
            outputs: problem.outputs,
            planes,
            block,
            blocks: Vec::new(),
            level: std::marker::PhantomData,
        })
    }

    /// Taps of all planes.
    fn taps(&self) -> usize {
        self.planes.taps() * self.planes.channels.len()
    }

    /// The blocks of a plane.
    fn blocks(&self) -> Result<Vec<([usize; 2], Vec<Span>)>> {
        let [down, along] = self.planes.dims.each_ref().map(|dim| dim.outputs.extent);
        let Block { rows, columns, .. } = self.block;
        let mut blocks = list(down.div_ceil(rows) * along.div_ceil(columns))?;
        for row in (0..down).step_by(rows) {
            for first in (0..along).step_by(columns).map(|column| [row, column]) {
                // Beyond the last row there may be nothing to read.
                let block = Block { rows: rows.min(down - row), ..self.block };
                let mut spans = list(block.most_spans(&self.planes))?;
                block.push_spans(&self.planes, first, &mut spans);
                blocks.push((first, spans));
            }
        }
        Ok(blocks)
    }
}

impl<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>> Ready for DepthwiseWgradPlanar<'_, S> {
    unsafe fn run(mut self, threads: usize) -> Result<()> {
        self.blocks = self.blocks()?;
        let channels = self.view.batch.len();
        let [slow, fast] = &self.planes.dims;
        let products =
            channels * self.planes.outer.len() * slow.outputs.extent * fast.outputs.extent * self.taps();
        let threads = if products < PARALLEL_THRESHOLD { 1 } else { threads };
        let tasks = channels.min(8 * threads).max(channels.div_ceil(CHANNELS));
        let totals = channels.div_ceil(tasks) * self.taps();
        let cells = self.block.cells(1) + self.block.rows * self.block.pitch + 4 * MAX_NR + totals;
        let scratch = cells * size_of::<f32>();
        threads::run_with(threads, tasks, scratch, &|scratch, index| {
            let part = channels * index / tasks..channels * (index + 1) / tasks;
            // SAFETY: the operands have these channels, tasks write disjoint ones, and the scratch
            // is this task's.
            unsafe { channels_of::avx2(&self, scratch.cast(), part) };
        })
    }
}

impl<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>> DepthwiseWgradPlanar<'_, S> {
    /// Computes the taps of some channels.
    ///
    /// # Safety
    /// As for [`super::super::run`]; `memory` has room for the planes and the result, each with
    /// vectors behind it, and for the totals.
    #[inline(always)]
    pub unsafe fn channels(&self, memory: *mut f32, channels: Range<usize>) {
        let [slow, fast] = &self.planes.dims;
        let (taps, each, cells) = (self.taps(), self.planes.taps(), self.block.cells(1) + 2 * MAX_NR);
        let Block { rows, columns, pitch, .. } = self.block;
        let result = memory.wrapping_add(cells);
        let mut offsets = Vec::new();
        self.block.offsets(&self.planes, 1, &mut offsets);
        let parts = each.div_ceil(MANY);
        // At most [`TAPS`].
        let groups: Vec<_> = (0..parts).map(|part| each * part / parts..each * (part + 1) / parts).collect();
        let mut bases = Vec::new();
        self.view.batch.points(channels.start, channels.end, &mut bases);
        bases.iter_mut().for_each(|base| *base = base.with_origin(&self.view.origin));
        // SAFETY: there is room; what lies between rows and behind the last one stays 0.
        let totals = unsafe {
            memory.write_bytes(0, cells + rows * pitch + MAX_NR + bases.len() * taps);
            std::slice::from_raw_parts_mut(result.add(rows * pitch + MAX_NR), bases.len() * taps)
        };
        let seen = |place: &OperandOffsets, far: usize| {
            let mut seen = *place;
            seen.add(&self.planes.channels.point(far), 1);
            seen
        };
        let blocks = &self.blocks;
        // Channel after channel, as they most often lie in memory.
        for image in 0..self.planes.outer.len() {
            let moved = self.planes.outer.point(image);
            for (number, base) in bases.iter().enumerate() {
                let mut place = *base;
                place.add(&moved, 1);
                for ([first_row, first_column], spans) in blocks {
                    let rows = rows.min(slow.outputs.extent - first_row);
                    let columns = columns.min(fast.outputs.extent - first_column);
                    let [down, along] = [slow, fast].map(|dim| dim.outputs.by.at[2]);
                    let at = place.at[2] + *first_row as i64 * down + *first_column as i64 * along;
                    // SAFETY: the block lies inside the planes, for which there is room in
                    // `memory`.
                    unsafe {
                        let size = [rows, columns];
                        copy_rows::<S>(self.view.b, at as isize, [down, along], size, result, pitch);
                        // What a larger block has left.
                        for row in 0..if columns < self.block.columns { rows } else { 0 } {
                            result.add(row * pitch + columns).write_bytes(0, self.block.columns - columns);
                        }
                        if rows < self.block.rows {
                            result.add(rows * pitch).write_bytes(0, MAX_NR);
                        }
                    }
                    for far in 0..self.planes.channels.len() {
                        let seen = seen(&place, far);
                        if !self.planes.is_inside(self.view.a, &seen) {
                            continue;
                        }
                        let kept = blocks.len() == 1;
                        // SAFETY: offsets are as many as totals, planes fit `memory`, and behind
                        // either line there is a vector.
                        unsafe {
                            self.block.copy::<S>(&self.planes, self.view.a, &seen, spans, 0..1, memory, kept);
                            let totals = &mut totals[number * taps + far * each..][..each];
                            for group in &groups {
                                let (offsets, totals) = (&offsets[group.clone()], &mut totals[group.clone()]);
                                dot_products::<S>(memory, result, rows * pitch, offsets, totals);
                            }
                        }
                    }
                }
            }
        }
        // All rows of a filter are one run where they follow each other.
        let (row, fast_by) = (fast.taps().extent, fast.taps().by.at);
        let follow = |k: usize| slow.taps().by.at[k] == fast_by[k] * row as i64;
        let (row, lines) =
            if [0, 3, 4].into_iter().all(follow) { (each, 1) } else { (row, slow.taps().extent) };
        for (base, totals) in bases.iter().zip(totals.chunks(taps)) {
            for (line, totals) in totals.chunks(row).enumerate() {
                let (far, down) = (line / lines, line % lines);
                let mut at = self.planes.channels.point(far);
                at.add(&slow.taps().by, down as i64);
                let run = Run { lane: 0, len: row as u32, at: at.at, by: fast_by };
                // SAFETY: there is a total for every tap of the channel.
                unsafe { epilogue(&self.outputs, &base.at, &run, totals.as_ptr()) };
            }
        }
    }
}

/// Whether positions in the window depend on a turn.
fn is_bound(axis: &Loop) -> bool {
    axis.by.pos.iter().any(|&by| by != 0)
}

/// Copies rows of elements from `at` on, which go `by` from row to row and along a row, to rows
/// `pitch` apart. Not compiled into what calls it, where all types would have vectors of their own.
///
/// # Safety
/// The elements are readable and aligned; there is room for them.
#[inline(never)]
unsafe fn copy_rows<S: Simd<Scalar = f32>>(
    source: Source<'_>, at: isize, by: [i64; 2], [rows, columns]: [usize; 2], to: *mut f32, pitch: usize,
) {
    let [down, along] = by.map(|by| by as isize);
    for row in 0..rows as i64 {
        source.held.assert_holds(at as i64 + row * by[0], by[1], columns);
    }
    with_element!(source.scalar, E => {
        for row in 0..rows {
            let from = source.data.cast::<E>().wrapping_offset(at + row as isize * down);
            // SAFETY: the rows and columns are readable, and `to` has a row of `pitch` for each.
            unsafe {
                pack::row::<S::Portable, E>(source.convert, from, along, columns, to.add(row * pitch));
            }
        }
    });
}

/// Adds to `totals` the products of `length` numbers of the result with those of the planes at each
/// offset, of [`MANY`] at most.
///
/// # Safety
/// The instructions of `S`; whole vectors are readable at every offset and of the result.
#[inline(always)]
unsafe fn dot_products<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>>(
    planes: *const f32, result: *const f32, length: usize, offsets: &[i32], totals: &mut [f32],
) {
    macro_rules! of {
        ($($T:literal)*) => {
            match offsets.len() {
                // SAFETY: whole vectors are readable at every offset and of the result.
                $($T => unsafe { dot_products_of::<S, $T>(planes, result, length, offsets, totals) },)*
                _ => {}
            }
        };
    }
    of!(1 2 3 4 5 6 7 8 9);
}

/// The same of `T` offsets.
///
/// # Safety
/// As for [`dot_products`].
#[inline(always)]
unsafe fn dot_products_of<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>, const T: usize>(
    planes: *const f32, result: *const f32, length: usize, offsets: &[i32], totals: &mut [f32],
) {
    // SAFETY: whole vectors are readable at every offset and of the result.
    unsafe {
        let mut from = [planes; T];
        let mut acc = [S::zero(); T];
        let mut t = 0;
        while t < T {
            from[t] = planes.offset(offsets[t] as isize);
            t += 1;
        }
        let mut i = 0;
        while i < length {
            let factor = S::load(result.add(i));
            t = 0;
            while t < T {
                acc[t] = S::fma(S::load(from[t].add(i)), factor, acc[t]);
                t += 1;
            }
            i += S::L;
        }
        // Lane by lane, of all offsets, which do not wait for each other.
        let mut lanes = [[const { MaybeUninit::<f32>::uninit() }; MAX_NR]; T];
        t = 0;
        while t < T {
            S::store(lanes[t].as_mut_ptr().cast(), acc[t]);
            t += 1;
        }
        let mut total = [0.0_f32; T];
        i = 0;
        while i < S::L {
            t = 0;
            while t < T {
                total[t] += lanes[t][i].assume_init();
                t += 1;
            }
            i += 1;
        }
        t = 0;
        while t < T {
            totals[t] += total[t];
            t += 1;
        }
    }
}

/// # Safety
/// As for [`DepthwiseWgradPlanar::channels`].
#[vectorized]
unsafe fn channels_of<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>>(
    planes: &DepthwiseWgradPlanar<'_, S>, memory: *mut f32, channels: Range<usize>,
) {
    // SAFETY: the memory is large enough for these channels.
    unsafe { planes.channels(memory, channels) }
}
