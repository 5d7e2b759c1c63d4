//! Sums over the pixels of one channel for each tap of a window: gradients of depthwise filters, in planes.
//!
//! The channel of the image is copied with its padding, the channel of the result with as many zeros after every row as the
//! window is wider, so that the whole sum is one long product of two lines, with the image shifted by the place of the tap.

use std::ops::Range;

use super::engine::Operands;
use super::finish::{Outputs, Run, finish};
use super::pack::{self, Source};
use super::planes::{Block, Planes, turned};
use super::points::{Point, Walk};
use super::simd::{MAX_NR, Simd};
use crate::backend::cpu::threads;
use crate::dtype::convert::with_element;
use crate::error::Result;
use crate::ops::contract::{Accumulate, Contract, Role};

/// Cells of the planes of both operands at most.
const CELLS: usize = 128 << 10;

/// Taps at most, and those that are summed at once.
const TAPS: usize = 128;
const MANY: usize = 9;
const FOUR: usize = 4;

/// Pixels from which on vectors are worth it.
const PIXELS: usize = 32;

/// Products below which one thread does all.
const ALONE: usize = 1 << 17;

/// A contraction with one sum over pixels per channel and tap.
pub(super) struct Taps<'a, S: Simd> {
    outputs: Outputs<'a>,
    batch: Walk,
    /// The step with pixels as outputs and taps as the sum, as the planes of a convolution are.
    planes: Planes,
    image: Source<'a>,
    result: Source<'a>,
    origin: [i64; 5],
    block: Block,
    level: std::marker::PhantomData<fn() -> S>,
}

// SAFETY: addresses; tasks write disjoint elements.
unsafe impl<S: Simd> Sync for Taps<'_, S> {}

/// How a task is called, compiled for the level.
pub(super) type Task<S> = unsafe fn(&Taps<'_, S>, *mut f32, Range<usize>);

impl<'a, S: Simd<Part = f32, Cell = f32, Sum = f32>> Taps<'a, S> {
    /// `None` for any other contraction.
    pub(super) fn new(outputs: Outputs<'a>, operands: Operands) -> Option<Taps<'a, S>> {
        let step: &Contract = outputs.step;
        if step.accumulate != Accumulate::Single || step.extent(Role::N) != 1 || step.bounds().len() != 2 {
            return None;
        }
        // Every loop of the destination is a tap; the bounds tie it to pixels.
        let planes = Planes::of(&turned(step)?, S::L, false)?;
        let [slow, fast] = &planes.dims;
        let block = planes.block(slow.outputs.extent, fast.outputs.extent, 16);
        let pixels = slow.outputs.extent * fast.outputs.extent;
        let taps = planes.taps();
        let fits = block.cells(1) + block.rows * block.pitch <= CELLS;
        // Both dimensions are windows, and no channel is left beside the taps.
        let whole = taps as i64 == step.extent(Role::M) && planes.channels.len() == 1;
        let near = block.pitch - block.columns <= MAX_NR;
        if !whole || !fits || !near || taps > TAPS || pixels < PIXELS {
            return None;
        }
        let [image, result] = operands.sources::<S>(step);
        Some(Taps {
            batch: Walk::of(step, Role::Batch),
            image,
            result,
            origin: step.nest.offsets,
            outputs,
            planes,
            block,
            level: std::marker::PhantomData,
        })
    }

    /// Runs the contraction.
    ///
    /// # Safety
    /// As for [`super::run`], and for the level of `task`.
    pub(super) unsafe fn run(&self, threads: usize, task: Task<S>) -> Result<()> {
        let channels = self.batch.len();
        let products =
            channels * self.planes.outer.len() * self.block.rows * self.block.columns * self.planes.taps();
        let threads = if products < ALONE { 1 } else { threads };
        let tasks = channels.min(8 * threads);
        let totals = channels.div_ceil(tasks) * self.planes.taps();
        let cells = self.block.cells(1) + self.block.rows * self.block.pitch + 4 * MAX_NR + totals;
        let scratch = cells * size_of::<f32>();
        threads::run_with(threads, tasks, scratch, &|scratch, index| {
            let part = channels * index / tasks..channels * (index + 1) / tasks;
            // SAFETY: handed on; channels are apart, and the scratch is this task's.
            unsafe { task(self, scratch.cast(), part) };
        })
    }
}

impl<S: Simd<Part = f32, Cell = f32, Sum = f32>> Taps<'_, S> {
    /// Computes the taps of some channels.
    ///
    /// # Safety
    /// As for [`super::run`]; `memory` has room for the planes and the result, each with vectors behind it, and for the totals.
    #[inline(always)]
    pub(super) unsafe fn channels(&self, memory: *mut f32, channels: Range<usize>) {
        let [slow, fast] = &self.planes.dims;
        let (taps, cells) = (self.planes.taps(), self.block.cells(1) + 2 * MAX_NR);
        let (pitch, length) = (self.block.pitch, self.block.rows * self.block.pitch);
        let result = memory.wrapping_add(cells);
        let mut offsets = Vec::new();
        self.block.offsets(&self.planes, 1, &mut offsets);
        let spans = self.block.spans(&self.planes, [0, 0]);
        // SAFETY: there is room; what lies between rows and behind the last one stays 0.
        let totals = unsafe {
            memory.write_bytes(0, cells + length + MAX_NR + channels.len() * taps);
            std::slice::from_raw_parts_mut(result.add(length + MAX_NR), channels.len() * taps)
        };
        let base = |channel: usize| {
            let mut base = self.batch.point(channel);
            base.at = base.offsets(&self.origin);
            base
        };
        // Channel after channel, as they most often lie in memory.
        for image in 0..self.planes.outer.len() {
            for (number, channel) in channels.clone().enumerate() {
                let mut place = base(channel);
                place.add(&self.planes.outer.point(image), 1);
                let totals = &mut totals[number * taps..][..taps];
                // SAFETY: the caller's promises.
                unsafe {
                    self.block.copy::<S>(&self.planes, self.image, &place, &spans, 0..1, memory, true);
                    with_element!(self.result.scalar, E => {
                        for row in 0..self.block.rows {
                            let at = (place.at[2] + row as i64 * slow.outputs.by.at[2]) as isize;
                            let from = self.result.data.cast::<E>().wrapping_offset(at);
                            let (step, to) = (fast.outputs.by.at[2] as isize, result.add(row * pitch));
                            pack::row::<S::Plain, E>(self.result.convert, from, step, self.block.columns, to);
                        }
                    });
                }
                let mut tap = 0;
                while tap < taps {
                    let (offsets, totals) = (&offsets[tap..], &mut totals[tap..]);
                    // SAFETY: as many offsets and totals as taps are left; behind either line there is a vector.
                    tap += unsafe {
                        if offsets.len() >= MANY {
                            dots::<S, MANY>(memory, result, length, offsets, totals)
                        } else if offsets.len() >= FOUR {
                            dots::<S, FOUR>(memory, result, length, offsets, totals)
                        } else {
                            dots::<S, 1>(memory, result, length, offsets, totals)
                        }
                    };
                }
            }
        }
        for (channel, totals) in channels.zip(totals.chunks(taps)) {
            let (base, row) = (base(channel), fast.taps().extent);
            for (down, totals) in totals.chunks(row).enumerate() {
                let mut at = Point::default();
                at.add(&slow.taps().by, down as i64);
                let run = Run { lane: 0, len: row as u32, at: at.at, by: fast.taps().by.at };
                // SAFETY: the caller's promise.
                unsafe { finish(&self.outputs, &base.at, &run, totals.as_ptr()) };
            }
        }
    }
}

/// Adds to `totals` the products of `length` numbers of the result with those of the planes at each of `T` offsets.
///
/// # Safety
/// The instructions of `S`; whole vectors are readable at every offset and of the result.
#[inline(always)]
unsafe fn dots<S: Simd<Part = f32, Cell = f32, Sum = f32>, const T: usize>(
    planes: *const f32,
    result: *const f32,
    length: usize,
    offsets: &[i32],
    totals: &mut [f32],
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        let mut from = [planes; T];
        let mut sums = [S::zero(); T];
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
                sums[t] = S::fma(S::load(from[t].add(i)), factor, sums[t]);
                t += 1;
            }
            i += S::L;
        }
        t = 0;
        while t < T {
            let mut lanes = [0.0_f32; MAX_NR];
            S::store(lanes.as_mut_ptr(), sums[t]);
            let total = lanes[..S::L].iter().sum::<f32>();
            totals[t] += total;
            t += 1;
        }
    }
    T
}
