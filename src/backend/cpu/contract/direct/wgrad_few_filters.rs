//! Sums over the pixels of images for every tap of every channel: gradients of filters.
//!
//! Some channels of the image are copied once per block of pixels, into planes with their padding,
//! of which kernels read a cell at a time. Lanes are the filters of the result, which are read
//! where they lie side by side, and packed else. So nothing is packed per tap.
//!
//! The sum is cut into parts, and these into blocks, by nothing but its extents and those of taps
//! and filters: the step may also be a convolution whose window has more taps than there are
//! outputs, with images for channels, and an image must have the same bits in any batch. The sums
//! of the parts are added in their order.

use std::ops::Range;

use crate::backend::cpu::contract::PARALLEL_THRESHOLD;
use crate::backend::cpu::contract::epilogue::generic::{Outputs, epilogue_outlined, reduce_split_k};
use crate::backend::cpu::contract::epilogue::run::Run;
use crate::backend::cpu::contract::gemm::engine::Shared;
use crate::backend::cpu::contract::kernel::simd::{MR, Simd};
use crate::backend::cpu::contract::kernel::{Kernels, Panel, RowPointers};
use crate::backend::cpu::contract::operands::pack::pack;
use crate::backend::cpu::contract::operands::planes::{Block, Planes, transposed};
use crate::backend::cpu::contract::operands::points::{Loop, Loops, OperandOffsets, StridedRun};
use crate::backend::cpu::contract::operands::view::View;
use crate::backend::cpu::contract::problem::{Problem, Ready};
use crate::backend::cpu::{arena, threads};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::contract::{Accumulate, Role};

/// How many times more pixels there are than taps, at least.
const MORE: usize = 4;

/// Filters at most: of more, lanes are better taps and channels, which the engine packs. Taps at
/// most.
const FILTERS: i64 = 128;
const TAPS: usize = 128;

/// Pixels of a block, which is one row at least.
const PIXELS: usize = 512;

/// Pixels of the longest row that is taken.
const ROW: usize = 8 << 10;

/// Bytes of the planes of a block, and of the sums of a task, at most, unless one channel has more.
const PLANES: usize = 192 << 10;
const ACC_BYTES: usize = 192 << 10;

/// Split-K: ranges of the sum at most, and the products per channel that pay for one more.
const MAX_SPLIT_K: usize = 16;
const SPLIT_K_GRAIN: usize = 1 << 18;

/// Bytes of sums that are kept at once.
const ALL_ACC_BYTES: usize = 16 << 20;

/// Rows of sums that are finished by one task.
const FINISHED: usize = 32;

/// A contraction with sums over pixels.
pub struct WgradFewFilters<'a, S: Simd> {
    outputs: Outputs<'a>,
    kernels: &'a Kernels<S>,
    view: View<'a>,
    filters: Loop,
    /// The step with pixels as outputs and taps as the sum, as the planes of a convolution are.
    planes: Planes,
    /// The largest block; the last of the `blocks` of an image may have fewer rows of pixels.
    block: Block,
    blocks: usize,
    parts: usize,
    /// Channels of a task at most.
    group: usize,
    /// Whether filters are read where they lie.
    in_place: bool,
}

impl<'a, S: Simd<Scalar = f32, KGroup = f32, Acc = f32>> WgradFewFilters<'a, S> {
    const NR: usize = Kernels::<S>::NR;

    /// `None` where it does not apply or does not pay.
    pub fn new(problem: &Problem<'a>, kernels: &'a Kernels<S>) -> Option<WgradFewFilters<'a, S>> {
        let step = problem.step();
        let suits = (S::L as i64..=FILTERS).contains(&step.extent(Role::N));
        if step.accumulate != Accumulate::Single || step.bounds().is_empty() || !suits {
            return None;
        }
        let &[filters] = &Loops::of(step, Role::N).loops[..] else { return None };
        let planes = Planes::seen(&transposed(step)?)?;
        let [slow, fast] = &planes.dims;
        let [down, along] = [slow, fast].map(|dim| dim.outputs.extent);
        let width = filters.extent.next_multiple_of(Self::NR);
        let each = planes.taps() * width * size_of::<f32>();
        let pixels = down * along;
        if fast.is_free() || pixels < MORE * planes.taps() || planes.taps() > TAPS || along > ROW {
            return None;
        }
        let blocks = down.div_ceil((PIXELS / along).max(1));
        let rows = down.div_ceil(blocks);
        let block = planes.block(rows, along, 16);
        let images = planes.outer.len();
        let products = (planes.taps() * filters.extent).saturating_mul(pixels * images);
        let view = problem.view::<S>();
        let near = view.b.scalar == Scalar::F32 && filters.by.at[2] == 1;
        let reach = [slow, fast].map(|dim| dim.outputs.by.at[2].unsigned_abs() as usize);
        let reach = rows.saturating_mul(reach[0]).saturating_add(along.saturating_mul(reach[1]));
        Some(WgradFewFilters {
            in_place: near && filters.extent.is_multiple_of(Self::NR / 2) && reach < i32::MAX as usize,
            group: (ACC_BYTES / each).min(PLANES / size_of::<f32>() / block.cells(1)).max(1),
            parts: (products / SPLIT_K_GRAIN).min(MAX_SPLIT_K).min(blocks * images).max(1),
            block,
            blocks,
            view,
            filters,
            outputs: problem.outputs,
            kernels,
            planes,
        })
    }

    /// Sums of a row.
    fn width(&self) -> usize {
        self.filters.extent.next_multiple_of(Self::NR)
    }

    /// Groups of channels.
    fn groups(&self) -> usize {
        self.planes.channels.len().div_ceil(self.group)
    }

    /// The channels of a group, and where its product of the batch begins; `unit` counts groups
    /// through all products.
    fn unit(&self, unit: usize) -> (Range<usize>, OperandOffsets) {
        let (product, first) = (unit / self.groups(), unit % self.groups() * self.group);
        let base = self.view.product(product);
        (first..self.planes.channels.len().min(first + self.group), base)
    }

    /// Cells of scratch for planes, packed lanes, the table of rows and the offsets of lanes.
    fn sizes(&self) -> [usize; 4] {
        let Block { rows, columns, .. } = self.block;
        let strips = (self.group * self.planes.taps()).div_ceil(MR);
        [
            self.block.cells(self.group) + Self::NR,
            if self.in_place { 0 } else { rows * columns * Self::NR },
            strips * rows * size_of::<RowPointers<f32>>() / size_of::<f32>(),
            rows * columns,
        ]
        .map(|cells| cells.next_multiple_of(16))
    }

    /// Computes the sums of one part for one group of channels.
    ///
    /// # Safety
    /// As for [`run`](WgradFewFilters::run); there is room for the sums, and scratch for a block.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
    unsafe fn part(&self, acc: *mut f32, scratch: *mut f32, unit: usize, part: usize) {
        let (channels, base) = self.unit(unit);
        let [slow, fast] = &self.planes.dims;
        let (block, width) = (&self.block, self.width());
        let [planes, packed, table, _] = self.sizes();
        let packed_at = scratch.wrapping_add(planes);
        let table_at = packed_at.wrapping_add(packed).cast::<RowPointers<f32>>();
        let offsets_at = packed_at.wrapping_add(packed + table).cast::<i32>();
        let mut taps = Vec::new();
        block.offsets(&self.planes, channels.len(), &mut taps);
        // Where the rows of sums read the planes, strip by strip, row of pixels by row of pixels.
        for (number, (strip, row)) in
            taps.chunks(MR).flat_map(|strip| (0..block.rows).map(move |row| (strip, row))).enumerate()
        {
            let mut cells = [std::ptr::null(); MR];
            for (cells, &tap) in cells.iter_mut().zip(strip) {
                *cells = scratch.cast_const().wrapping_add(tap as usize + row * block.pitch);
            }
            // SAFETY: there is room for the rows of all strips.
            unsafe { table_at.add(number).write(cells) };
        }
        let pixel = |row: usize, column: usize| {
            slow.outputs.by.at[2] * row as i64 + fast.outputs.by.at[2] * column as i64
        };
        // Where the lanes of a pixel are.
        for i in 0..block.rows * block.columns {
            let offset = match self.in_place {
                true => pixel(i / block.columns, i % block.columns),
                false => (i * Self::NR) as i64,
            };
            // SAFETY: there is room for those of a block.
            unsafe { offsets_at.add(i).write(offset as i32) };
        }
        let pieces = self.planes.outer.len() * self.blocks;
        let pieces = pieces * part / self.parts..pieces * (part + 1) / self.parts;
        let (mut lanes, mut evens) = (Vec::new(), Vec::new());
        for piece in pieces.clone() {
            let first = piece % self.blocks * block.rows;
            let rows = block.rows.min(slow.outputs.extent - first);
            let mut place = base;
            place.add(&self.planes.outer.point(piece / self.blocks), 1);
            // Beyond the last row there may be nothing to read.
            let seen = Block { rows, ..*block };
            let spans = seen.spans(&self.planes, [first, 0]);
            let own = channels.clone();
            // SAFETY: the image has the cells of the spans, and the planes fit the scratch.
            unsafe { seen.copy::<S>(&self.planes, self.view.a, &place, &spans, own, scratch, false) };
            evens.clear();
            for row in first..first + rows {
                StridedRun::plain(pixel(row, 0), fast.outputs.by.at[2], block.columns, None)
                    .push(&mut evens, false);
            }
            for begin in (0..self.filters.extent).step_by(Self::NR) {
                let count = Self::NR.min(self.filters.extent - begin);
                let v = if self.in_place {
                    let at = place.at[2] + begin as i64 + pixel(first, 0);
                    self.view.b.data.cast::<f32>().wrapping_offset(at as isize)
                } else {
                    lanes.clear();
                    // At most one a lane.
                    lanes.extend((begin..begin + count).map(|filter| {
                        let mut lane = place;
                        lane.add(&self.filters.by, filter as i64);
                        lane
                    }));
                    // SAFETY: the gradient has these pixels of every filter, and the lanes of a
                    // block have room.
                    unsafe { pack::<S>(self.view.b, &lanes, &evens, Self::NR, packed_at) };
                    packed_at
                };
                for strip in 0..taps.len().div_ceil(MR) {
                    let own = MR.min(taps.len() - strip * MR);
                    let mut c = [std::ptr::null_mut(); MR];
                    for (m, c) in c[..own].iter_mut().enumerate() {
                        *c = acc.wrapping_add((strip * MR + m) * width + begin);
                    }
                    let panel = Panel {
                        rows: table_at.wrapping_add(strip * block.rows),
                        segments: rows,
                        len: block.columns,
                        step: 1,
                        offsets: offsets_at,
                        v,
                    };
                    // SAFETY: the planes and the lanes are there; what the kernel reads beyond the
                    // last filter of a pixel is packed as zeros, or there is nothing beyond it.
                    unsafe { self.kernels.of(own, count)(&panel, &c, piece > pieces.start) };
                }
            }
        }
    }

    /// Adds the sums of all parts, `apart` from each other, and finishes some rows.
    ///
    /// # Safety
    /// As for [`run`](WgradFewFilters::run); the sums of the group are there.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
    unsafe fn epilogue(&self, (acc, apart): (*mut f32, usize), unit: usize, rows: Range<usize>) {
        let (channels, base) = self.unit(unit);
        let taps = self.planes.taps();
        let [slow, fast] = self.planes.dims.each_ref().map(|dim| dim.taps());
        for row in rows.start..rows.end.min(channels.len() * taps) {
            let total = acc.wrapping_add(row * self.width());
            // SAFETY: every part has sums of this row.
            unsafe { reduce_split_k(total, apart, self.parts, self.filters.extent) };
            let (mut place, tap) = (base, row % taps);
            place.add(&self.planes.channels.point(channels.start + row / taps), 1);
            place.add(&slow.by, (tap / fast.extent) as i64);
            place.add(&fast.by, (tap % fast.extent) as i64);
            let len = self.filters.extent as u32;
            let run = Run { lane: 0, len, at: [0; 5], by: self.filters.by.at };
            // SAFETY: there are sums for every filter of this tap.
            unsafe { epilogue_outlined(&self.outputs, &place.at, &run, total) };
        }
    }
}

impl<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>> Ready for WgradFewFilters<'_, S> {
    unsafe fn run(mut self, threads: usize) -> Result<()> {
        let (products, channels, taps) =
            (self.view.batch.len(), self.planes.channels.len(), self.planes.taps());
        let pixels = self.blocks * self.block.rows * self.block.columns * self.planes.outer.len();
        let all = (products * channels * taps * self.filters.extent).saturating_mul(pixels);
        let threads = if all < PARALLEL_THRESHOLD { 1 } else { threads };
        // Even groups; as many as threads need, if results are packed seldom enough.
        let wanted = if threads > 1 { (3 * threads).div_ceil(products * self.parts) } else { 1 };
        let groups = self.groups().max(wanted.min(channels.div_ceil(MR)));
        self.group = channels.div_ceil(groups);
        let units = products * self.groups();
        let scratch = self.sizes().iter().sum::<usize>() * size_of::<f32>();
        let each = self.group * taps * self.width();
        let most = (ALL_ACC_BYTES / size_of::<f32>() / (self.parts * each)).clamp(1, units);
        arena::with(most * self.parts * each * size_of::<f32>(), |memory| {
            let acc = Shared(memory.cast::<f32>());
            for first in (0..units).step_by(most) {
                let units = most.min(units - first);
                threads::run_with(threads, units * self.parts, scratch, &|scratch, index| {
                    let (unit, part) = (first + index / self.parts, index % self.parts);
                    // SAFETY: every part has sums of its own, and the scratch is this task's.
                    unsafe { self.part(acc.at(index * each), scratch.cast(), unit, part) };
                })?;
                let pieces = (self.group * taps).div_ceil(FINISHED);
                threads::run(threads, units * pieces, &|index| {
                    let (unit, begin) = (index / pieces, index % pieces * FINISHED);
                    let own = acc.at(unit * self.parts * each);
                    // SAFETY: all sums are there, and tasks have rows of their own, which the
                    // destination has.
                    unsafe { self.epilogue((own, each), first + unit, begin..begin + FINISHED) };
                })?;
            }
            Ok(())
        })
    }
}
