//! Sums over the taps of one channel: depthwise convolutions and their gradients of the data, where neighbours in the
//! destination's rows are next to each other, or a stride apart. One row of sums, as wide as hides the latency; the planes of a channel stay in the first caches.

use std::mem::MaybeUninit;

use super::engine::Operands;
use super::finish::{Outputs, Run, finish};
use super::kernel::{Kernels, Panel};
use super::pack::{Part, Source, pack};
use super::planes::{Block, Planes};
use super::points::{Even, Point, Walk};
use super::simd::{MAX_NR, MR, Simd};
use super::tiles::Tiles;
use crate::backend::cpu::threads;
use crate::dtype::convert::Element;
use crate::error::Result;
use crate::layout::Axis;
use crate::ops::contract::{Contract, Role};

/// Cells of planes at most.
const CELLS: usize = 16 << 10;

/// Taps at most: their factors are kept on the stack.
const TAPS: usize = 512;

/// Elements between neighbouring outputs at most.
const APART: i64 = 8;

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
    /// Whether sums are the result.
    plain: bool,
    /// Whether they are not, and all outputs of a plane are one run.
    joined: bool,
    /// Whether planes are converted, and without gaps.
    far: bool,
    /// Whether factors can be read where they are.
    in_place: bool,
}

impl<'a, S: Simd<Part: Part, Sum: Element>> Depthwise<'a, S> {
    /// `None` for any other contraction.
    pub(super) fn new(
        outputs: Outputs<'a>,
        operands: Operands,
        kernels: &'a Kernels<S>,
    ) -> Option<Depthwise<'a, S>> {
        let step: &Contract = outputs.step;
        // Gradients of the data with a stride write every so many elements of a row. Canonical loops end with the nearest.
        let apart = step.loops(Role::M).last().map_or(0, |(_, axis)| axis.strides[0].abs());
        let is_channel = |axis: &Axis<5>| axis.strides[0].abs() < apart;
        let rows = (1..=APART).contains(&apart) && !step.loops(Role::Batch).any(|(_, axis)| is_channel(axis));
        if step.extent(Role::N) != 1 || step.extent(Role::K) == 0 || !rows {
            return None;
        }
        let planes = Planes::of(step, S::L * S::NV, false)?;
        let [slow, fast] = &planes.dims;
        let fits = |rows: usize| {
            let block = planes.block(rows, fast.outputs.extent, 64 / size_of::<S::Cell>());
            block.cells(1) <= CELLS
        };
        let alone = planes.channels.len() == 1 && planes.taps() <= TAPS && fits(1);
        let rows = (1..=slow.outputs.extent).rev().find(|&rows| fits(rows)).unwrap_or(1);
        let parts = slow.outputs.extent.div_ceil(rows);
        let [image, filter] = operands.sources::<S>(step);
        let mut sum = Vec::new();
        planes.evens(0, 1, 1, 2, &mut sum);
        let plain = outputs.takes_sums(S::Sum::SCALAR) && outputs.is_plain();
        let [down, along] = [slow, fast].map(|dim| output(&dim.outputs.by));
        let joined =
            (0..5).all(|k| down[k] == along[k] * fast.outputs.extent as i64) && slow.outputs.extent > 1;
        alone.then(|| Depthwise {
            plain,
            joined: !plain && joined,
            far: image.convert.is_some() && planes.are_dense() && size_of::<S::Part>() == size_of::<S::Sum>(),
            in_place: S::Part::SCALAR == Some(step.b)
                && matches!(sum[..], [Even { by, len, .. }] if by == 1 || len == 1),
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
        let kept = if self.joined || self.far { CELLS * size_of::<S::Sum>() } else { 0 };
        let scratch = (CELLS + 2 * MAX_NR) * size_of::<S::Cell>() + kept;
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
        let spans = block.spans(&self.planes, [r0, 0]);
        let reach = block.reach(&self.planes, &spans);
        let far = self.far && reach.end - reach.start <= CELLS as i64;
        self.planes.evens(0, 1, 1, 2, &mut sum);
        let mut factors = [const { MaybeUninit::<S::Part>::uninit() }; TAPS];
        let mut here = [const { MaybeUninit::<S::Sum>::uninit() }; MAX_NR];
        let channels = self.batch.len();
        let (by, plane) =
            (output(&fast.outputs.by), memory.wrapping_add(CELLS + 2 * MAX_NR).cast::<S::Sum>());
        for image in begin..end {
            // Channel after channel, as they most often lie in memory.
            let mut place = self.batch.point(image % channels).with_origin(&self.origin);
            // SAFETY: the caller's promise; the scratch is as large as the block.
            unsafe {
                let factors = if self.in_place {
                    let from = self.filter.data.cast::<S::Cell>();
                    from.wrapping_offset((place.at[2] + sum[0].at) as isize)
                } else {
                    pack::<S>(self.filter, &[place], &sum, 1, factors.as_mut_ptr().cast());
                    factors.as_ptr().cast::<S::Cell>()
                };
                place.add(&self.planes.outer.point(image / channels), 1);
                let kept = image > begin;
                if far {
                    // Where sums are kept afterwards.
                    let (near, to) = (plane.cast(), memory.cast());
                    block.copy_near::<S>(&self.planes, self.image, &place, (&spans, &reach), near, to, kept);
                } else {
                    block.copy::<S>(&self.planes, self.image, &place, &spans, 0..1, memory.cast(), kept);
                }
                let table = [[factors; MR]];
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
                        let sums = to.wrapping_add(run.lane as usize);
                        if self.plain {
                            let to = self.outputs.dst.cast::<S::Sum>();
                            store(to.wrapping_offset((place.at[0] + run.at[0]) as isize), run, sums);
                        } else if self.joined {
                            let at = (run.at[0] - start.at[0]) / by[0];
                            store(plane.wrapping_offset(at as isize), &Run { by: [1; 5], ..*run }, sums);
                        } else {
                            finish(&self.outputs, &place.at, run, sums);
                        }
                    }
                }
                if self.joined {
                    let at = [start.at[0], 0, 0, start.at[3], start.at[4]];
                    let len = ((r1 - r0) * fast.outputs.extent) as u32;
                    finish(&self.outputs, &place.at, &Run { lane: 0, len, at, by }, plane);
                }
            }
        }
    }
}

/// What a turn moves of dst, z and bias.
fn output(by: &Point) -> [i64; 5] {
    [by.at[0], 0, 0, by.at[3], by.at[4]]
}

/// Puts sums where a run says, from `to` on.
///
/// # Safety
/// As for [`finish`]; the sums are apart from the destination.
#[inline(always)]
unsafe fn store<T: Copy>(to: *mut T, run: &Run, sums: *const T) {
    let (len, apart) = (run.len as usize, run.by[0] as isize);
    // SAFETY: the caller's promise.
    unsafe {
        if apart == 1 || len == 1 {
            sums.copy_to_nonoverlapping(to, len);
        } else {
            (0..len).for_each(|i| to.wrapping_offset(i as isize * apart).write(sums.add(i).read()));
        }
    }
}
