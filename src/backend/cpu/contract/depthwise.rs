//! Sums over the taps of one channel: depthwise convolutions and their gradients of the data, where the destination's
//! rows are contiguous. One row of sums, as wide as hides the latency; the planes of a channel stay in the first caches.

use std::mem::MaybeUninit;

use super::engine::Operands;
use super::finish::{Outputs, finish};
use super::kernel::{Kernels, Panel};
use super::pack::{Part, Source, pack};
use super::planes::{Block, Planes};
use super::points::{Point, Walk};
use super::simd::{MAX_NR, MR, Simd};
use super::tiles::Tiles;
use crate::backend::cpu::threads;
use crate::dtype::convert::Element;
use crate::error::Result;
use crate::ops::contract::{Contract, Role};

/// Cells of planes at most.
const CELLS: usize = 16 << 10;

/// Taps at most: their factors are kept on the stack.
const TAPS: usize = 512;

/// Outputs below which one thread does all.
const ALONE: usize = 1 << 14;

/// A contraction whose sum is over the taps of planes.
pub(super) struct Depthwise<'a, S: Simd> {
    outputs: Outputs<'a>,
    kernels: &'a Kernels<S>,
    batch: Walk,
    planes: Planes,
    image: Source<'a>,
    filter: Source<'a>,
    origin: [i64; 5],
    /// Parts of the slower dimension of the planes.
    parts: usize,
}

impl<'a, S: Simd<Part: Part, Sum: Element>> Depthwise<'a, S> {
    /// `None` for any other contraction.
    pub(super) fn new(
        outputs: Outputs<'a>,
        operands: Operands,
        kernels: &'a Kernels<S>,
    ) -> Option<Depthwise<'a, S>> {
        let step: &Contract = outputs.step;
        let contiguous = step.loops(Role::M).any(|(_, axis)| axis.strides[0] == 1);
        if S::PER > 1 || step.extent(Role::N) != 1 || step.extent(Role::K) == 0 || !contiguous {
            return None;
        }
        let planes = Planes::of(step, S::L * S::NV)?;
        let [slow, fast] = &planes.dims;
        let fits = |rows: usize| {
            let block = planes.block(rows, fast.outputs.extent, 64 / size_of::<S::Cell>());
            block.cells(1) <= CELLS
        };
        let alone = planes.channels.len() == 1 && planes.taps() > 1 && planes.taps() <= TAPS && fits(1);
        let rows = (1..=slow.outputs.extent).rev().find(|&rows| fits(rows)).unwrap_or(1);
        let parts = slow.outputs.extent.div_ceil(rows);
        let [image, filter] = operands.sources::<S>(step);
        alone.then(|| Depthwise {
            batch: Walk::of(step, Role::Batch),
            image,
            filter,
            origin: step.nest.offsets,
            outputs,
            kernels,
            planes,
            parts,
        })
    }

    /// Runs the contraction.
    ///
    /// # Safety
    /// As for [`super::run`].
    pub(super) unsafe fn run(&self, threads: usize) -> Result<()> {
        let images = self.batch.len() * self.planes.outer.len();
        let [slow, fast] = &self.planes.dims;
        let outputs = images * slow.outputs.extent * fast.outputs.extent;
        let threads = if outputs < ALONE { 1 } else { threads };
        let tasks = (4 * threads).min(images);
        // A tile at the end reads beyond its planes.
        let scratch = (CELLS + 2 * MAX_NR) * size_of::<S::Cell>();
        threads::run_with(threads, tasks * self.parts, scratch, &|scratch, task| {
            let (part, task) = (task % self.parts, task / self.parts);
            let (begin, end) = (images * task / tasks, images * (task + 1) / tasks);
            // SAFETY: handed on; tasks write disjoint elements.
            unsafe { self.images(part, begin, end, scratch.cast()) };
        })
    }

    /// Computes one part of the images `begin..end`.
    ///
    /// # Safety
    /// As for [`super::run`]; `planes` has room for the planes of a part.
    unsafe fn images(&self, part: usize, begin: usize, end: usize, memory: *mut S::Cell) {
        let [slow, fast] = &self.planes.dims;
        let rows = slow.outputs.extent;
        let (r0, r1) = (rows * part / self.parts, rows * (part + 1) / self.parts);
        let nr = S::L * S::WIDE;
        let block: Block = self.planes.block(r1 - r0, fast.outputs.extent, 64 / size_of::<S::Cell>());
        let (mut tiles, mut offsets, mut sum) = (Tiles::default(), Vec::new(), Vec::new());
        let mut start = Point::default();
        start.add(&slow.outputs.by, r0 as i64);
        tiles.of_planes(&start, [&slow.outputs.by, &fast.outputs.by], &block, nr);
        block.offsets(&self.planes, 1, &mut offsets);
        self.planes.evens(0, 1, 1, 2, &mut sum);
        let mut factors = [const { MaybeUninit::<S::Part>::uninit() }; TAPS];
        let mut here = [const { MaybeUninit::<S::Sum>::uninit() }; MAX_NR];
        let outer = self.planes.outer.len();
        for image in begin..end {
            let mut place = self.batch.point(image / outer);
            (0..5).for_each(|k| place.at[k] += self.origin[k]);
            // SAFETY: the caller's promise; the scratch is as large as the block.
            unsafe {
                pack::<S>(self.filter, &[place], &sum, 1, factors.as_mut_ptr().cast());
                place.add(&self.planes.outer.point(image % outer), 1);
                block.copy::<S>(&self.planes, self.image, &place, [r0, 0], 0, 1, memory.cast());
                let table = [[factors.as_ptr().cast::<S::Cell>(); MR]];
                for tile in &tiles.list {
                    let runs = &tiles.runs[tile.first..tile.end];
                    let panel = Panel {
                        rows: table.as_ptr(),
                        segments: 1,
                        len: offsets.len(),
                        step: 1,
                        offsets: offsets.as_ptr(),
                        v: memory.wrapping_add(tile.at),
                    };
                    let to = here.as_mut_ptr().cast::<S::Sum>();
                    (self.kernels.wide)(&panel, &[to; MR], false);
                    for run in runs {
                        finish(&self.outputs, &place.at, run, to.wrapping_add(run.lane as usize));
                    }
                }
            }
        }
    }
}
