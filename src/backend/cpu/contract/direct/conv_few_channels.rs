//! Windows over few channels that lie side by side: taps of a row and their channels are one run.
//!
//! A block of the image is copied with its padding, so that every row of kernels reads whole runs
//! and nothing is asked per pixel. Lanes are filters, side by side in the destination, or in blocks
//! there. Sums are short: each is one chain. A cell of four bytes at the end of a run reaches into
//! the bytes behind the run, where the filter has zeros.

use super::depthwise_planar::PAIRS;
use crate::backend::cpu::contract::PARALLEL_THRESHOLD;
use crate::backend::cpu::contract::epilogue::binary32::F32Epilogue;
use crate::backend::cpu::contract::epilogue::generic::{Outputs, epilogue_outlined};
use crate::backend::cpu::contract::epilogue::narrow::Line;
use crate::backend::cpu::contract::epilogue::registers::{self, Blocks, Ends, is_even, tile_epilogue};
use crate::backend::cpu::contract::epilogue::run::EIGHT;
use crate::backend::cpu::contract::gemm::engine::{KC, Shared};
use crate::backend::cpu::contract::gemm::tiles::{LaneTile, Tiles};
#[cfg(target_arch = "aarch64")]
use crate::backend::cpu::contract::kernel::simd::NeonDot;
#[cfg(target_arch = "x86_64")]
use crate::backend::cpu::contract::kernel::simd::{Avx2Vnni, Avx512Vnni};
use crate::backend::cpu::contract::kernel::simd::{MAX_NR, MR, Simd};
use crate::backend::cpu::contract::kernel::{Kernels, Panel, RowPointers, fills};
use crate::backend::cpu::contract::operands::pack::{LaneOffsets, PackScalar, pack_panels};
use crate::backend::cpu::contract::operands::planes::{Padded, Planes};
use crate::backend::cpu::contract::operands::points::{Loop, Loops, OperandOffsets, StridedRun};
use crate::backend::cpu::contract::operands::view::View;
use crate::backend::cpu::contract::problem::{Problem, Ready};
use crate::backend::cpu::{Isa, arena, threads};
use crate::dtype::convert::Element;
use crate::error::Result;
use crate::ops::Scaling;
use crate::ops::contract::{Bound, Contract, MAX_BOUNDS, Role};

/// Outputs of a block, unless a row has more.
const BLOCK: usize = 1024;

/// Channels at most: longer runs are worth being read where they lie.
const CHANNELS: usize = 32;

/// Filters at most: lists name each of them.
const FILTERS: usize = 4096;

/// Outputs of a row from which on a copy of it pays, and cells of a row of the copy at most.
const OUTPUTS: usize = 8;
const CELLS: usize = 32 << 10;

/// A contraction over runs.
pub struct ConvFewChannels<'a, S: Simd> {
    outputs: Outputs<'a>,
    kernels: &'a Kernels<S>,
    view: View<'a>,
    planes: Planes,
    channels: usize,
    filters: Loops,
    /// The filter in the order of positions, but for its origin.
    taps: Vec<StridedRun>,
    /// Rows of outputs of a block; the last of the `blocks` of an image may have fewer.
    rows: usize,
    blocks: usize,
}

/// A bound that the zeros behind a run of the filter are outside of.
const FILTER: Bound = Bound { axes: [0; 2], steps: [0; 2], start: 0, extent: 1 };

/// What the runs of a step are.
struct Found {
    planes: Planes,
    filters: Loops,
    channels: usize,
    /// How far channels are apart in the filter.
    apart: i64,
}

/// The runs of a canonical step, where they pay for `least` filters; `gathered` if the channels of
/// a group may be brought together. Of the batch nothing depends on it.
fn find(step: &Contract, least: usize, gathered: bool) -> Option<Found> {
    let filters = Loops::of(step, Role::N);
    let count = filters.len();
    let is_run = match &filters.loops[..] {
        [axis] => axis.by.at[0] == 1,
        [_, axis] => gathered && axis.by.at[0] == 1 && axis.extent.is_multiple_of(EIGHT),
        _ => false,
    };
    if step.bounds().is_empty() || !is_run || count > FILTERS {
        return None;
    }
    let planes = Planes::seen(step)?;
    let fast = &planes.dims[1];
    let is_channel = |axis: &Loop| axis.by.at[1] == 1 && axis.by.pos == [0; MAX_BOUNDS];
    let (channels, apart) = match &planes.channels.loops[..] {
        [] => (1, 0),
        [axis] if is_channel(axis) && axis.extent <= CHANNELS => (axis.extent, axis.by.at[2]),
        _ => return None,
    };
    // Groups of fewer channels have a kernel for several; an image of fewer may be one block.
    let apart_by = fast.pitch() - channels as i64;
    let eights = [EIGHT, 2 * EIGHT];
    let is_block =
        eights.contains(&channels) || channels < EIGHT && eights.contains(&(fast.pitch() as usize));
    let near = apart_by == 0 || gathered && apart_by > 0 && is_block;
    let run = (fast.step().abs() == 1 || fast.taps().extent == 1) && near;
    let wide = fast.span(fast.outputs.extent) * channels;
    // Where filters fill no vector, pixels do.
    let few = count < least && planes.are_interleaved() || channels * count <= PAIRS;
    let fits = run && !few && planes.taps() * channels <= KC;
    (fits && fast.outputs.extent >= OUTPUTS && wide <= CELLS).then_some(Found {
        planes,
        filters,
        channels,
        apart,
    })
}

/// Filters from which on they are better lanes than interleaved pixels: more than a vector, or as
/// many as the smallest tile.
const fn least<S: Simd>() -> usize {
    let half = S::L * S::NV / 2;
    if half > S::L { S::L + 1 } else { half }
}

/// Whether a canonical step of bytes is one over runs, where they are multiplied four at a time.
#[cfg(target_arch = "aarch64")]
pub fn apply(step: &Contract, _: Isa) -> bool {
    find(step, least::<NeonDot>(), false).is_some()
}

/// Whether a canonical step of bytes is one over runs, where they are multiplied four at a time.
#[cfg(target_arch = "x86_64")]
pub fn apply(step: &Contract, isa: Isa) -> bool {
    find(step, if isa.has_avx512() { least::<Avx512Vnni>() } else { least::<Avx2Vnni>() }, false).is_some()
}

impl<'a, S: Simd<Scalar: PackScalar, Acc: Element>> ConvFewChannels<'a, S> {
    const NR: usize = Kernels::<S>::NR;

    /// `None` where it does not apply or does not pay.
    pub fn new(problem: &Problem<'a>, kernels: &'a Kernels<S>) -> Option<ConvFewChannels<'a, S>> {
        let step = problem.step();
        let Found { planes, filters, channels, apart } = find(step, least::<S>(), S::K_PACK == 1)?;
        let mut view = problem.view::<S>();
        if S::K_PACK == 4 && step.a == S::SHIFTED.0 {
            // As in the engine.
            view.b.compensation = S::SHIFTED.1;
        }
        let [slow, fast] = &planes.dims;
        let run = fast.taps().extent * channels;
        let more = run.next_multiple_of(S::K_PACK) - run;
        if more > 0 {
            view.b.bounds = &[FILTER];
        }
        let (moves, first) = planes.taps_forward();
        // At most [`KC`] taps.
        let mut taps = Vec::with_capacity(planes.taps());
        for row in 0..slow.taps().extent as i64 {
            // At most those of a row.
            let mut line = Vec::with_capacity(fast.taps().extent + 1);
            for column in 0..fast.taps().extent as i64 {
                let at = first + row * moves[0] + column * moves[1];
                StridedRun::plain(at, apart, channels, None).push(&mut line, false);
            }
            if more > 0 {
                let mut zeros = StridedRun::plain(0, 0, more, None);
                zeros.pos[0] = FILTER.extent;
                line.push(zeros);
            }
            taps.append(&mut line);
        }
        let down = slow.outputs.extent;
        let blocks = down.div_ceil((BLOCK / fast.outputs.extent).max(1));
        Some(ConvFewChannels {
            rows: down.div_ceil(blocks),
            blocks,
            view,
            channels,
            filters,
            taps,
            outputs: problem.outputs,
            kernels,
            planes,
        })
    }

    fn panels(&self) -> usize {
        self.filters.len().div_ceil(Self::NR)
    }

    /// Cells of a run.
    fn run_cells(&self) -> usize {
        (self.planes.dims[1].taps().extent * self.channels).div_ceil(S::K_PACK)
    }

    /// Cells of the sum.
    fn cells(&self) -> usize {
        self.planes.dims[0].taps().extent * self.run_cells()
    }

    /// Parts of a row of the copy.
    fn pitch(&self) -> usize {
        let fast = &self.planes.dims[1];
        fast.span(fast.outputs.extent) * self.channels
    }

    /// Computes a block of outputs of an image.
    ///
    /// # Safety
    /// As for [`run`](ConvFewChannels::run); the filters are packed, and there is room for a block
    /// of the image.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
    unsafe fn block(&self, filters: *const S::KGroup, copy: *mut S::Scalar, image: usize, block: usize) {
        let [slow, fast] = &self.planes.dims;
        let (outer, pitch) = (self.planes.outer.len(), self.pitch());
        let mut place = self.view.product(image / outer);
        place.add(&self.planes.outer.point(image % outer), 1);
        let first = block * self.rows;
        let rows = self.rows.min(slow.outputs.extent - first);
        // SAFETY: the rows lie inside the padded image, and the copy has room for them.
        unsafe { self.copy(&place, first, rows, copy) };
        let offsets: [i32; KC + 1] = std::array::from_fn(|k| (k * Self::NR) as i32);
        let (taps, len, each) =
            (slow.taps().extent, self.run_cells(), (self.cells() + S::COMPENSATION) * Self::NR);
        let (down, along) = (slow.step().unsigned_abs() as usize, fast.stride() * self.channels);
        let columns = fast.outputs.extent;
        let strips = columns.div_ceil(MR);
        let direct = self.outputs.takes_acc(<S::Acc as Element>::SCALAR);
        let plain = self.outputs.is_plain();
        let narrow = self.outputs.narrow.as_ref().filter(|narrow| narrow.ends_tiles::<S>());
        // Of sums in binary32, and half a tile as well.
        let whole = registers::tiles::<S>().zip(self.outputs.f32_epilogue.as_ref());
        let (mut points, mut tiles) = (Vec::new(), Tiles::default());
        self.filters.points(0, self.filters.len(), &mut points);
        tiles.of_points(&points, Self::NR);
        let blocks_of = |tile: &LaneTile| {
            let (_, f32_epilogue) = whole.filter(|_| !tile.whole && fills(tile.lanes, Self::NR))?;
            Blocks::of(f32_epilogue, &tiles.runs[tile.first..tile.end])
        };
        let mut blocks = Vec::new();
        // At most [`FILTERS`].
        blocks.extend(tiles.list.iter().map(blocks_of));
        let mut here = [S::Acc::default(); MR * MAX_NR];
        // At most [`KC`] rows of taps.
        let mut table: Vec<RowPointers<S::KGroup>> = vec![[std::ptr::null(); MR]; taps];
        for row in 0..rows {
            let mut line = place;
            line.add(&slow.outputs.by, (first + row) as i64);
            for strip in 0..strips {
                let (begin, end) = (columns * strip / strips, columns * (strip + 1) / strips);
                let count = end - begin;
                let from = copy.cast_const().wrapping_add(row * slow.stride() * pitch + begin * along);
                // Loops: what functions of the standard library call is not inlined here.
                for (tap, cells) in table.iter_mut().enumerate() {
                    let mut from = from.wrapping_add(tap * down * pitch);
                    for cells in cells {
                        *cells = from.cast();
                        from = from.wrapping_add(along);
                    }
                }
                let mut places = [[0; 5]; MR];
                let mut place = line;
                place.add(&fast.outputs.by, begin as i64);
                for at in &mut places[..count] {
                    *at = place.at;
                    place.add(&fast.outputs.by, 1);
                }
                for panel in 0..self.panels() {
                    let tile = tiles.list[panel];
                    let (lanes, runs, blocks) =
                        (tile.lanes, &tiles.runs[tile.first..tile.end], blocks[panel].as_ref());
                    let direct = direct && tile.whole;
                    let cells = Panel {
                        rows: table.as_ptr(),
                        segments: taps,
                        len,
                        step: 1,
                        offsets: offsets.as_ptr(),
                        v: filters.wrapping_add(panel * each),
                    };
                    let places = &places[..count];
                    if let Some(narrow) = narrow.filter(|_| tile.whole && lanes == Self::NR) {
                        // SAFETY: the copy and the filters are there, and all lanes have a place in
                        // the destination.
                        unsafe {
                            narrow.tile_epilogue::<S>(&cells, count, &narrow.ends(places, &runs[0], None))
                        };
                        continue;
                    }
                    let leaves = |f32_epilogue: &F32Epilogue| {
                        blocks.is_some()
                            || tile.whole && !(direct && plain) && is_even(f32_epilogue, &runs[0].by)
                    };
                    if let Some((tiles, f32_epilogue)) =
                        whole.filter(|(_, f32_epilogue)| leaves(f32_epilogue))
                    {
                        let mut ends = Ends::of(f32_epilogue, places, &runs[0], None);
                        ends.blocks = blocks;
                        // SAFETY: the panel is the one above; kernels with such tiles have sums in
                        // binary32.
                        unsafe { tile_epilogue(tiles, f32_epilogue, &cells, [count, lanes], &ends) };
                        continue;
                    }
                    let acc = here.as_mut_ptr();
                    let c: [*mut S::Acc; MR] = std::array::from_fn(|m| {
                        if direct {
                            let at = (places[m.min(count - 1)][0] + runs[0].at[0]) as isize;
                            self.outputs.dst.cast::<S::Acc>().wrapping_offset(at)
                        } else {
                            acc.wrapping_add(m * Self::NR)
                        }
                    });
                    // SAFETY: the copy and the filters are there; sums go to the destination where
                    // all lanes have a place in it.
                    unsafe {
                        self.kernels.of(count, lanes)(&cells, &c, false);
                        if let Some((narrow, line)) = self.outputs.narrow.as_ref().zip(Line::of(runs)) {
                            narrow.lines_epilogue(places, &line, c.as_ptr().cast());
                        } else if !(direct && plain) {
                            for (place, &acc) in places.iter().zip(&c) {
                                for run in runs {
                                    let acc = acc.wrapping_add(run.lane as usize);
                                    epilogue_outlined(&self.outputs, place, run, acc);
                                }
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
    /// As for [`block`](ConvFewChannels::block).
    #[inline(always)]
    unsafe fn copy(&self, place: &OperandOffsets, first: usize, rows: usize, copy: *mut S::Scalar) {
        let [slow, fast] = &self.planes.dims;
        let (channels, pitch, size) = (self.channels, self.pitch(), self.view.a.scalar.size());
        let outputs = [rows, fast.outputs.extent];
        let padded = Padded { begin: [first, 0], outputs, cell: channels, pitch };
        let pixels = |at: i64, count: usize, to: *mut S::Scalar| {
            let from = self.view.a.data.wrapping_offset(at as isize * size as isize);
            let (cells, apart) = (count * channels, fast.pitch() as usize);
            // SAFETY: these pixels are inside the bounds, and have a place in the copy.
            unsafe {
                match self.view.a.convert {
                    _ if apart > channels => (0..count).for_each(|pixel| {
                        self.gather(from.wrapping_add(pixel * apart * size), to.add(pixel * channels));
                    }),
                    Some(convert) => convert(to.cast(), from, cells, Scaling::MOVE),
                    None => from.cast::<S::Scalar>().copy_to_nonoverlapping(to, cells),
                }
            }
        };
        // SAFETY: the copy has room for its rows, and behind them for what the last cell of the
        // last run reaches into.
        unsafe {
            self.planes.copy_padded(self.view.a, place, &padded, copy, pixels);
            if S::K_PACK > 1 {
                copy.add(slow.span(rows) * pitch).write_bytes(0, S::K_PACK);
            }
        }
    }

    /// Copies the channels of a group or of a block at one pixel, eight at a time if there are as
    /// many.
    ///
    /// # Safety
    /// They are readable, and as many parts writable.
    #[inline(always)]
    unsafe fn gather(&self, from: *const u8, to: *mut S::Scalar) {
        // SAFETY: as many elements are readable as channels, and as many parts writable.
        unsafe {
            if let Some(convert) = self.view.a.convert {
                return convert(to.cast(), from, self.channels, Scaling::MOVE);
            }
            if self.channels < EIGHT {
                for channel in 0..self.channels {
                    to.add(channel).write(from.cast::<S::Scalar>().add(channel).read());
                }
                return;
            }
            for channel in (0..self.channels).step_by(EIGHT) {
                let eight = from.cast::<S::Scalar>().add(channel).cast::<[S::Scalar; EIGHT]>();
                to.add(channel).cast::<[S::Scalar; EIGHT]>().write(eight.read());
            }
        }
    }
}

impl<S: Simd<Scalar: PackScalar, Acc: Element>> Ready for ConvFewChannels<'_, S> {
    unsafe fn run(self, threads: usize) -> Result<()> {
        let [slow, fast] = &self.planes.dims;
        let images = self.view.batch.len() * self.planes.outer.len();
        let outputs = images * slow.outputs.extent * fast.outputs.extent * self.filters.len();
        let threads =
            if outputs.saturating_mul(self.cells() * S::K_PACK) < PARALLEL_THRESHOLD { 1 } else { threads };
        let (panels, each) = (self.panels(), (self.cells() + S::COMPENSATION) * Self::NR);
        arena::with(self.view.batch.len() * panels * each * size_of::<S::KGroup>(), |memory| {
            let packed = Shared(memory.cast::<S::KGroup>());
            let filter = |number| self.filters.offset(number, 2);
            let filters: LaneOffsets<'_> = (self.filters.len(), &filter);
            // SAFETY: every filter has its elements, and every panel a place.
            unsafe { pack_panels::<S>(&self.view, filters, &self.taps, Self::NR, packed.at(0), each) };
            let scratch = (slow.span(self.rows) * self.pitch() + S::K_PACK) * size_of::<S::Scalar>();
            threads::run_with(threads, images * self.blocks, scratch, &|scratch, index| {
                let (image, block) = (index / self.blocks, index % self.blocks);
                let product = image / self.planes.outer.len();
                let filters = packed.at(product * panels * each);
                // SAFETY: the filters are packed, tasks write disjoint elements, and the scratch is
                // this one's.
                unsafe { self.block(filters, scratch.cast(), image, block) };
            })
        })
    }
}
