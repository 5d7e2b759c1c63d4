//! Windows over few channels that lie side by side: taps of a row and their channels are one run.
//!
//! A block of the image is copied with its padding, so that every row of kernels reads whole runs and nothing is asked per
//! pixel. Lanes are filters, side by side in the destination. Sums are short: each is one chain.

use super::engine::{Operands, SUM, Shared};
use super::finish::{Outputs, finish_single};
use super::kernel::{Kernels, Panel, RowCells};
use super::pack::{Source, pack};
use super::planes::Planes;
use super::points::{Even, Point, Turn, Walk};
use super::run::Run;
use super::simd::{MAX_NR, MR, Simd};
use crate::backend::cpu::{arena, threads};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::Scaling;
use crate::ops::contract::{Accumulate, Contract, Role};

/// Outputs of a block, unless a row has more.
const BLOCK: usize = 1024;

/// Channels at most: longer runs are worth being read where they lie.
const CHANNELS: usize = 32;

/// Outputs of a row from which on a copy of it pays, and cells of a row of the copy at most.
const OUTPUTS: usize = 8;
const CELLS: usize = 32 << 10;

/// Products below which one thread does all.
const ALONE: usize = 1 << 17;

/// A contraction over runs.
pub(super) struct Runs<'a, S: Simd> {
    outputs: Outputs<'a>,
    kernels: &'a Kernels<S>,
    batch: Walk,
    planes: Planes,
    channels: usize,
    filters: Turn,
    image: Source<'a>,
    filter: Source<'a>,
    origin: [i64; 5],
    /// The filter in the order of positions, but for its origin.
    taps: Vec<Even>,
    /// Rows of outputs of a block, of so many in an image; the last one may have fewer.
    rows: usize,
    blocks: usize,
}

// SAFETY: addresses; tasks write disjoint elements.
unsafe impl<S: Simd> Sync for Runs<'_, S> {}

impl<'a, S: Simd<Part = f32, Cell = f32, Sum = f32>> Runs<'a, S> {
    const NR: usize = Kernels::<S>::NR;

    /// `None` where it does not apply or does not pay. Of the batch nothing depends on it.
    pub(super) fn new(
        outputs: Outputs<'a>,
        operands: Operands,
        kernels: &'a Kernels<S>,
    ) -> Option<Runs<'a, S>> {
        let step: &Contract = outputs.step;
        let &[filters] = &Walk::of(step, Role::N).turns[..] else { return None };
        if step.accumulate != Accumulate::Single || step.bounds().is_empty() || filters.by.at[0] != 1 {
            return None;
        }
        let planes = Planes::seen(step)?;
        let [slow, fast] = &planes.dims;
        let (channels, apart) = match &planes.channels.turns[..] {
            [turn] if turn.by.at[1] == 1 && turn.extent <= CHANNELS => (turn.extent, turn.by.at[2]),
            _ => return None,
        };
        let cells = planes.taps() * channels;
        let run = fast.step().abs() == 1 && fast.apart() == channels as i64;
        let wide = fast.span(fast.outputs.extent) * channels;
        // Where filters fill no vector, pixels do.
        let few = filters.extent <= S::L && planes.are_interleaved();
        if !run || few || cells > SUM || fast.outputs.extent < OUTPUTS || wide > CELLS {
            return None;
        }
        let (moves, first) = planes.taps_forward();
        let mut taps = Vec::with_capacity(planes.taps());
        for row in 0..slow.taps().extent as i64 {
            for column in 0..fast.taps().extent as i64 {
                let at = first + row * moves[0] + column * moves[1];
                Even::plain(at, apart, channels, None).push(&mut taps, false);
            }
        }
        let down = slow.outputs.extent;
        let blocks = down.div_ceil((BLOCK / fast.outputs.extent).max(1));
        let [image, filter] = operands.sources::<S>(step);
        Some(Runs {
            rows: down.div_ceil(blocks),
            blocks,
            batch: Walk::of(step, Role::Batch),
            channels,
            filters,
            image,
            filter,
            taps,
            origin: step.nest.offsets,
            outputs,
            kernels,
            planes,
        })
    }

    fn panels(&self) -> usize {
        self.filters.extent.div_ceil(Self::NR)
    }

    /// Cells of the sum.
    fn cells(&self) -> usize {
        self.planes.taps() * self.channels
    }

    /// Cells of a row of the copy.
    fn pitch(&self) -> usize {
        let fast = &self.planes.dims[1];
        fast.span(fast.outputs.extent) * self.channels
    }

    fn base(&self, product: usize) -> Point {
        self.batch.point(product).with_origin(&self.origin)
    }

    /// Runs the contraction.
    ///
    /// # Safety
    /// As for [`super::run`]; the processor has AVX2 and what the kernels need.
    pub(super) unsafe fn run(&self, threads: usize) -> Result<()> {
        let [slow, fast] = &self.planes.dims;
        let images = self.batch.len() * self.planes.outer.len();
        let outputs = images * slow.outputs.extent * fast.outputs.extent * self.filters.extent;
        let threads = if outputs.saturating_mul(self.cells()) < ALONE { 1 } else { threads };
        let (panels, each) = (self.panels(), self.cells() * Self::NR);
        arena::with(self.batch.len() * panels * each * size_of::<f32>(), |memory| {
            let packed = Shared(memory.cast::<f32>());
            for number in 0..self.batch.len() * panels {
                let base = self.base(number / panels).at[2];
                let begin = number % panels * Self::NR;
                let count = Self::NR.min(self.filters.extent - begin);
                let mut lanes = [Point::default(); MAX_NR];
                for (l, lane) in lanes[..count].iter_mut().enumerate() {
                    lane.at[2] = base + self.filters.by.at[2] * (begin + l) as i64;
                }
                // SAFETY: the caller promises the elements; every panel has a place.
                unsafe {
                    pack::<S>(self.filter, &lanes[..count], &self.taps, Self::NR, packed.at(number * each));
                }
            }
            let scratch = slow.span(self.rows) * self.pitch() * size_of::<f32>();
            threads::run_with(threads, images * self.blocks, scratch, &|scratch, index| {
                let (image, block) = (index / self.blocks, index % self.blocks);
                let product = image / self.planes.outer.len();
                let filters = packed.at(product * panels * each);
                // SAFETY: the caller's promises; tasks write disjoint elements, and the scratch is this one's.
                unsafe { self.block(filters, scratch.cast(), image, block) };
            })
        })
    }

    /// Computes a block of outputs of an image.
    ///
    /// # Safety
    /// As for [`run`](Runs::run); the filters are packed, and there is room for a block of the image.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn block(&self, filters: *const f32, copy: *mut f32, image: usize, block: usize) {
        let [slow, fast] = &self.planes.dims;
        let (outer, pitch) = (self.planes.outer.len(), self.pitch());
        let mut place = self.base(image / outer);
        place.add(&self.planes.outer.point(image % outer), 1);
        let first = block * self.rows;
        let rows = self.rows.min(slow.outputs.extent - first);
        // SAFETY: handed on.
        unsafe { self.copy(&place, first, rows, copy) };
        let offsets: [i32; SUM] = std::array::from_fn(|k| (k * Self::NR) as i32);
        let (taps, len) = (slow.taps().extent, fast.taps().extent * self.channels);
        let (down, along) = (slow.step().unsigned_abs() as usize, fast.stride() * self.channels);
        let columns = fast.outputs.extent;
        let strips = columns.div_ceil(MR);
        let direct = self.outputs.takes_sums(Scalar::F32);
        let plain = self.outputs.is_plain();
        let mut here = [0.0_f32; MR * MAX_NR];
        let mut table: Vec<RowCells<f32>> = vec![[std::ptr::null(); MR]; taps];
        for row in 0..rows {
            let mut line = place;
            line.add(&slow.outputs.by, (first + row) as i64);
            for strip in 0..strips {
                let (begin, end) = (columns * strip / strips, columns * (strip + 1) / strips);
                let count = end - begin;
                let from = copy.cast_const().wrapping_add(row * slow.stride() * pitch + begin * along);
                for (tap, cells) in table.iter_mut().enumerate() {
                    let from = from.wrapping_add(tap * down * pitch);
                    *cells = std::array::from_fn(|m| from.wrapping_add(m * along));
                }
                let mut places = [[0; 5]; MR];
                for (m, place) in places[..count].iter_mut().enumerate() {
                    let along = (begin + m) as i64;
                    *place = std::array::from_fn(|k| line.at[k] + fast.outputs.by.at[k] * along);
                }
                for panel in 0..self.panels() {
                    let lane = panel * Self::NR;
                    let lanes = Self::NR.min(self.filters.extent - lane);
                    let direct = direct && (lanes == Self::NR || 2 * lanes == Self::NR);
                    let c: [*mut f32; MR] = std::array::from_fn(|m| {
                        if direct {
                            let at = (places[m][0] + lane as i64) as isize;
                            self.outputs.dst.cast::<f32>().wrapping_offset(at)
                        } else {
                            here.as_mut_ptr().wrapping_add(m * Self::NR)
                        }
                    });
                    let cells = Panel {
                        rows: table.as_ptr(),
                        segments: taps,
                        len,
                        step: 1,
                        offsets: offsets.as_ptr(),
                        v: filters.wrapping_add(panel * self.cells() * Self::NR),
                    };
                    // SAFETY: the copy and the filters are there; sums go to the destination where all lanes have
                    // a place in it.
                    unsafe {
                        self.kernels.of(count, lanes)(&cells, &c, false);
                        if !(direct && plain) {
                            let at = self.filters.by.at.map(|by| by * lane as i64);
                            let run = Run { lane: 0, len: lanes as u32, at, by: self.filters.by.at };
                            for (place, &sums) in places[..count].iter().zip(&c) {
                                finish_single(&self.outputs, place, &run, sums);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Copies what some rows of outputs see of the image, with zeros outside it.
    ///
    /// # Safety
    /// As for [`block`](Runs::block).
    #[inline(always)]
    unsafe fn copy(&self, place: &Point, first: usize, rows: usize, copy: *mut f32) {
        let [slow, fast] = &self.planes.dims;
        let (channels, pitch) = (self.channels, self.pitch());
        let is_inside = self.planes.is_inside(self.image, place);
        let left = fast.lowest();
        let (wide, cells) = (fast.span(fast.outputs.extent), fast.inside(left));
        for row in 0..slow.span(rows) {
            let y = slow.lowest() + (first * slow.stride() + row) as i64;
            let to = copy.wrapping_add(row * pitch);
            // SAFETY: a row of the copy; elements are read inside the bounds only.
            unsafe {
                if !is_inside || !slow.holds(y) || cells.is_empty() {
                    to.write_bytes(0, pitch);
                    continue;
                }
                let (begin, end) = (cells.start.min(wide), cells.end.min(wide));
                to.write_bytes(0, begin * channels);
                to.add(end * channels).write_bytes(0, (wide - end) * channels);
                let at = place.at[1] + slow.offset(y) + fast.offset(left + begin as i64);
                let to = to.add(begin * channels);
                let from = self.image.data.wrapping_offset(at as isize * self.image.scalar.size() as isize);
                let cells = (end - begin) * channels;
                match self.image.convert {
                    Some(convert) => convert(to.cast(), from, cells, Scaling::MOVE),
                    None => from.cast::<f32>().copy_to_nonoverlapping(to, cells),
                }
            }
        }
    }
}
