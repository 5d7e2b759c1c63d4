//! Sums over the pixels of single channels for each tap of a window, where channels are contiguous
//! (NHWC): gradients of depthwise filters. Lanes are channels; a row of pixels meets up to nine
//! taps at once, whose sums stay in registers.
//!
//! Elements of binary32 are read where they lie. Narrower ones are converted a piece of a row at
//! once, and kept as long as taps of the next rows meet the piece.
//!
//! The sum is cut into pieces of rows, which are grouped into parts, by nothing but the extents of
//! the step and the lanes of a vector. The sums of pieces are added in their order, and so are the
//! sums of parts.

use cudnn_shim_macros::vectorized;

use std::ops::Range;

use super::taps::{self, common};
use crate::backend::cpu::contract::PARALLEL_THRESHOLD;
use crate::backend::cpu::contract::epilogue::generic::{Outputs, Run, epilogue_outlined, reduce_split_k};
use crate::backend::cpu::contract::gemm::engine::Shared;
use crate::backend::cpu::contract::kernel::Kernels;
use crate::backend::cpu::contract::kernel::simd::Simd;
use crate::backend::cpu::contract::operands::pack::{Source, inside};
use crate::backend::cpu::contract::operands::points::{Loop, Loops, OperandOffsets};
use crate::backend::cpu::contract::operands::view::View;
use crate::backend::cpu::contract::problem::{Problem, Ready};
use crate::backend::cpu::{arena, row, threads};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::Scaling;
use crate::ops::contract::{Accumulate, Bound, Contract, MAX_BOUNDS, Role};

/// Taps at most, and those that are summed at once.
const TAPS: usize = 128;
const MANY: usize = 9;

/// Channels of a block, and elements of a piece of the result, at most.
const BLOCK: usize = 256;
const TILE_ELEMENTS: usize = 8 << 10;

/// Converted elements that are kept at most.
const KEPT: usize = 256 << 10;

/// Split-K: ranges of the sum at most, and the pixels that pay for one more.
const MAX_SPLIT_K: usize = 16;
const SPLIT_K_GRAIN: usize = 256;

/// Sums that are kept at most.
const ACC_BYTES: usize = 4 << 20;

/// A contraction with one sum over pixels per channel and tap, with the channels side by side.
pub struct DepthwiseWgradInterleaved<'a, S: Simd> {
    outputs: Outputs<'a>,
    /// Its batch is without the loop over channels.
    view: View<'a>,
    channels: Loop,
    /// The innermost loop over pixels, and the others.
    along: Loop,
    rows: Loops,
    /// Taps along a row, and the others.
    near: Loop,
    far: Loops,
    /// The bound along a row, if there is one.
    bound: Option<usize>,
    /// Pixels of a piece at most, and pieces of a row.
    piece: usize,
    columns: usize,
    parts: usize,
    blocks: usize,
    level: std::marker::PhantomData<fn() -> S>,
}

/// A tap that a piece of a row meets: what it reads of the image for pixel 0 of the piece.
type Tap = taps::Tap<*const f32>;

/// What all taps of a piece share: the result, how far one pixel is from the next in the image and
/// in the result, and where the sums of a tap are.
struct Piece {
    result: *const f32,
    by: [isize; 2],
    acc: *mut f32,
    pitch: usize,
}

/// Elements of a row in binary32: where they came from, how many, and which row of pixels has met
/// them last.
#[derive(Clone, Copy)]
struct Converted {
    from: i64,
    len: usize,
    met: usize,
}

/// Of a canonical step whose sums are over the pixels of channels that lie side by side, the loop
/// over these, and where it is among those of the batch, if there is one: a channel alone lies
/// among others where its pixels are apart. Narrow operands of such a step need no copies in
/// binary32.
pub fn channels(step: &Contract) -> Option<(Option<usize>, Loop)> {
    let is_channel = |axis: &Loop| axis.by.at[1..3] == [1, 1] && axis.by.pos == [0; MAX_BOUNDS];
    let taps = step.extent(Role::M);
    let suits = step.accumulate == Accumulate::Single
        && step.extent(Role::N) == 1
        && step.extent(Role::K) > 1
        && !step.bounds().is_empty();
    if !suits || !step.is_over_images || !(1..=TAPS as i64).contains(&taps) {
        return None;
    }
    let mut loops = step.loops(Role::Batch).map(|(index, _)| Loop::of(step, index)).enumerate();
    if let Some((place, axis)) = loops.find(|(_, axis)| is_channel(axis)) {
        return Some((Some(place), axis));
    }
    let is_apart =
        step.loops(Role::K).all(|(_, axis)| axis.strides[1].abs() > 1 && axis.strides[2].abs() > 1);
    let alone = Loop { extent: 1, by: OperandOffsets { at: [0, 1, 1, 0, 0], ..OperandOffsets::default() } };
    is_apart.then_some((None, alone))
}

impl<'a, S: Simd<Scalar = f32, KGroup = f32, Acc = f32>> DepthwiseWgradInterleaved<'a, S> {
    /// `None` where it does not apply or does not pay.
    pub fn new(problem: &Problem<'a>, _: &Kernels<S>) -> Option<DepthwiseWgradInterleaved<'a, S>> {
        let step = problem.step();
        let (place, channels) = channels(step)?;
        let mut view = problem.view::<S>();
        let (mut rows, mut far) = (Loops::of(step, Role::K), Loops::of(step, Role::M));
        if let Some(place) = place {
            view.batch.loops.remove(place);
        }
        let along = rows.loops.pop()?;
        let bound = along.by.pos.iter().position(|&by| by != 0);
        let near = match bound {
            None => Loop { extent: 1, by: OperandOffsets::default() },
            Some(d) => {
                let near = far.loops.iter().position(|axis| axis.by.pos[d] != 0)?;
                far.loops.remove(near)
            }
        };
        if channels.extent < S::L {
            // They are brought to vectors, with nothing behind them.
            let copy = row::between(Scalar::F32, Scalar::F32, Scaling::MOVE, problem.isa);
            for source in [&mut view.a, &mut view.b] {
                source.convert = source.convert.or(Some(copy));
            }
        }
        let blocks = channels.extent.div_ceil(BLOCK);
        // Some of the channels of an image have the sums that they have among all of them.
        // Neighbours may be one pixel.
        let all = along.by.at[2].unsigned_abs() as usize;
        (all >= S::L).then_some(())?;
        let width = all.div_ceil(S::L).div_ceil(all.div_ceil(BLOCK)) * S::L;
        let columns = along.extent.div_ceil(TILE_ELEMENTS / width);
        let pieces = columns * rows.len();
        let pixels = DepthwiseWgradInterleaved {
            piece: along.extent.div_ceil(columns),
            columns,
            parts: (along.extent * rows.len() / SPLIT_K_GRAIN).clamp(1, MAX_SPLIT_K).min(pieces),
            blocks,
            outputs: problem.outputs,
            view,
            channels,
            along,
            rows,
            near,
            far,
            bound,
            level: std::marker::PhantomData,
        };
        let forwards = bound.is_none_or(|d| pixels.along.by.pos[d] > 0);
        let few = || pixels.acc_len() <= ACC_BYTES && pixels.kept().iter().sum::<usize>() <= KEPT;
        (forwards && few()).then_some(pixels)
    }

    /// Taps, and channels as sums have them: in whole vectors.
    fn sizes(&self) -> [usize; 2] {
        [self.far.len() * self.near.extent, self.channels.extent.next_multiple_of(S::L)]
    }

    /// All sums of all parts.
    fn acc_len(&self) -> usize {
        let [taps, pitch] = self.sizes();
        self.view.batch.len().saturating_mul(self.parts * taps * pitch)
    }

    /// Along a row of the image: the position where pixel 0 meets tap 0, positions between
    /// neighbouring pixels and between taps, and how many there are.
    fn positions(&self) -> [i64; 4] {
        match self.bound {
            None => [0, 1, 0, self.along.extent as i64],
            Some(d) => {
                let bound: &Bound = &self.view.a.bounds[d];
                [bound.start, self.along.by.pos[d], self.near.by.pos[d], bound.extent]
            }
        }
    }

    /// Positions that a piece of a row meets at most.
    fn reach(&self) -> usize {
        let [_, stride, dilation, _] = self.positions();
        (self.piece - 1) * stride as usize + (self.near.extent - 1) * dilation.unsigned_abs() as usize + 1
    }

    /// Channels of a block at most.
    fn width(&self) -> usize {
        self.channels.extent.div_ceil(S::L).div_ceil(self.blocks) * S::L
    }

    /// Cells of scratch for the converted rows of the image, and for that of the result.
    fn kept(&self) -> [usize; 2] {
        let image =
            self.view.a.convert.map_or(0, |_| self.far.len().saturating_mul(self.reach() * self.width()));
        [image, self.view.b.convert.map_or(0, |_| self.piece * self.width())]
    }

    /// Computes the sums of one part of one product for a block of channels.
    ///
    /// # Safety
    /// As for [`run`](DepthwiseWgradInterleaved::run); there is room for the sums, and scratch for
    /// what is converted.
    #[inline(always)]
    unsafe fn part(&self, number: usize, block: usize, acc: *mut f32, scratch: *mut f32) {
        let ([taps, pitch], rows) = (self.sizes(), self.rows.len());
        let (product, part) = (number / self.parts, number % self.parts);
        let vectors = pitch / S::L;
        let vectors = vectors * block / self.blocks..vectors * (block + 1) / self.blocks;
        // The last vector has channels of the one before as well.
        let begin = self.lane(vectors.start);
        let width = self.lane(vectors.end - 1) + S::L - begin;
        let mut base = self.view.product(product);
        base.add(&self.channels.by, begin as i64);
        let clear = |tap: usize| {
            let own = acc.wrapping_add(tap * pitch + vectors.start * S::L);
            // SAFETY: there is room for the sums of every tap.
            unsafe { own.write_bytes(0, vectors.len() * S::L) };
        };
        (0..taps).for_each(clear);
        let mut far = Vec::new();
        self.far.points(0, self.far.len(), &mut far);
        let mut converted = vec![Converted { from: 0, len: 0, met: 0 }; far.len()]; // At most [`TAPS`].
        let (mut lines, mut list) = (Vec::with_capacity(far.len()), Vec::with_capacity(taps));
        let pieces = self.columns * rows;
        for piece in pieces * part / self.parts..pieces * (part + 1) / self.parts {
            // Row after row, as these meet the same elements of the image.
            let first = piece / rows * self.piece;
            let len = self.piece.min(self.along.extent.saturating_sub(first));
            let mut place = base;
            place.add(&self.rows.point(piece % rows), 1);
            let [start, stride, dilation, extent] = self.positions();
            let mut by = 0;
            lines.clear();
            for (number, tap) in far.iter().enumerate() {
                let mut row = place;
                row.add(tap, 1);
                let own = first..first + len;
                // SAFETY: the row lies inside the image or its padding, and the scratch holds
                // converted rows.
                let line = unsafe { self.line(&row, own, width, scratch, &mut converted, piece + 1) };
                if let Some((line, apart)) = line {
                    by = apart;
                    lines.push((number, line));
                }
            }
            // Taps of the same place in their rows have the same pixels: side by side, fewer of
            // these are met by single taps.
            list.clear();
            for near in 0..self.near.extent {
                let position = start + first as i64 * stride + near as i64 * dilation;
                let (begin, end) = inside(position, stride, extent, len as i64);
                let (begin, end) = (begin.max(0) as usize, end.clamp(0, len as i64) as usize);
                for &(far, line) in lines.iter().filter(|_| begin < end) {
                    let from = line.wrapping_offset(position as isize * by);
                    list.push(Tap { number: far * self.near.extent + near, from, first: begin, end });
                }
            }
            if list.is_empty() {
                continue;
            }
            let result_by = self.along.by.at[2] as isize;
            let at = place.at[2] as isize + first as isize * result_by;
            let (mut result, mut apart) = (self.view.b.data.cast::<f32>().wrapping_offset(at), result_by);
            if self.view.b.convert.is_some() {
                let to = scratch.wrapping_add(self.kept()[0]);
                // SAFETY: the result has these pixels and channels, and there is room for a piece.
                unsafe { self.widen(self.view.b, at, result_by, len, width, to) };
                (result, apart) = (to, width as isize);
            }
            let own = acc.wrapping_add(vectors.start * S::L);
            let piece = Piece { result, by: [by * stride as isize, apart], acc: own, pitch };
            let groups = list.len().div_ceil(MANY);
            for group in 0..groups {
                let group = &list[list.len() * group / groups..list.len() * (group + 1) / groups];
                // SAFETY: taps read elements of their pixels, and there is room for the sums.
                unsafe { self.group(&piece, group, &vectors) };
            }
        }
    }

    /// The first channel of a vector.
    fn lane(&self, vector: usize) -> usize {
        (vector * S::L).min(self.channels.extent.saturating_sub(S::L))
    }

    /// Where position 0 of a row of the image would be, and how far one position is from the next;
    /// `None` where the row is outside the other bounds, or its pixels are outside. `met` grows
    /// from one row of pixels to the next.
    ///
    /// # Safety
    /// As for [`part`](DepthwiseWgradInterleaved::part).
    unsafe fn line(
        &self, row: &OperandOffsets, pixels: Range<usize>, width: usize, scratch: *mut f32,
        converted: &mut [Converted], met: usize,
    ) -> Option<(*const f32, isize)> {
        let inside = |(d, bound): (usize, &Bound)| {
            self.bound == Some(d) || ((bound.start + row.pos[d]) as u64) < bound.extent as u64
        };
        if !self.view.a.bounds.iter().enumerate().all(inside) {
            return None;
        }
        let [start, stride, dilation, extent] = self.positions();
        let unit = self.along.by.at[1] / stride;
        let at = row.at[1] - start * unit;
        if self.view.a.convert.is_none() {
            let line = self.view.a.data.cast::<f32>().wrapping_offset(at as isize);
            return Some((line, unit as isize));
        }
        let taps = (self.near.extent as i64 - 1) * dilation;
        let low = (start + pixels.start as i64 * stride + taps.min(0)).max(0);
        let end = (start + (pixels.end - 1) as i64 * stride + taps.max(0) + 1).min(extent);
        if low >= end {
            return None;
        }
        let (from, len) = (at + low * unit, (end - low) as usize);
        let known = converted.iter().position(|c| (c.from, c.len) == (from, len) && c.met > 0);
        // As many rows are kept as are met at once, so that of these none is replaced.
        let oldest = || (0..converted.len()).min_by_key(|&slot| converted[slot].met);
        let slot = known.or_else(oldest)?;
        let to = scratch.wrapping_add(slot * self.reach() * self.width());
        if known.is_none() {
            // SAFETY: the image has these pixels, and there is room for as many rows.
            unsafe { self.widen(self.view.a, from as isize, unit as isize, len, width, to) };
        }
        converted[slot] = Converted { from, len, met };
        Some((to.wrapping_offset(-low as isize * width as isize), width as isize))
    }

    /// Adds the products of a piece of a row with the elements of some taps.
    ///
    /// # Safety
    /// As for [`part`](DepthwiseWgradInterleaved::part); at most [`MANY`] taps.
    #[inline(always)]
    unsafe fn group(&self, piece: &Piece, taps: &[Tap], vectors: &Range<usize>) {
        let whole = common(taps);
        // SAFETY: every tap has elements for the pixels that it is asked for, and sums of its own.
        unsafe {
            macro_rules! of {
                ($($T:literal)*) => {
                    match taps.len() {
                        $($T => self.add::<$T>(piece, taps, whole.clone(), vectors),)*
                        _ => {}
                    }
                };
            }
            of!(1 2 3 4 5 6 7 8 9);
            for tap in taps {
                for alone in [tap.first..whole.start.min(tap.end), whole.end.max(tap.first)..tap.end] {
                    if !alone.is_empty() {
                        self.add::<1>(piece, std::slice::from_ref(tap), alone, vectors);
                    }
                }
            }
        }
    }

    /// The same for some pixels that all `T` taps have elements for.
    ///
    /// # Safety
    /// As for [`group`](DepthwiseWgradInterleaved::group).
    #[inline(always)]
    unsafe fn add<const T: usize>(
        &self, piece: &Piece, taps: &[Tap], pixels: Range<usize>, vectors: &Range<usize>,
    ) {
        let (begin, [by, result_by]) = (self.lane(vectors.start), piece.by);
        for vector in vectors.clone() {
            let lane = self.lane(vector) - begin;
            // SAFETY: the pixels have whole vectors of channels, and every tap has sums for them.
            unsafe {
                let mut from = [std::ptr::null::<f32>(); T];
                let mut acc = [S::zero(); T];
                for (from, tap) in from.iter_mut().zip(taps) {
                    *from = tap.from.wrapping_offset(pixels.start as isize * by + lane as isize);
                }
                let mut result =
                    piece.result.wrapping_offset(pixels.start as isize * result_by + lane as isize);
                let mut moved = 0;
                for _ in pixels.clone() {
                    let factor = S::load(result);
                    let mut t = 0;
                    while t < T {
                        acc[t] = S::fma(S::load(from[t].wrapping_offset(moved)), factor, acc[t]);
                        t += 1;
                    }
                    (moved, result) = (moved + by, result.wrapping_offset(result_by));
                }
                for (&sum, tap) in acc.iter().zip(taps) {
                    let offset = tap.number * piece.pitch + (vector - vectors.start) * S::L;
                    let to = piece.acc.add(offset);
                    S::store(to, S::add(S::load_acc(to), sum));
                }
            }
        }
    }

    /// Adds the sums of all parts of one tap, and finishes them.
    ///
    /// # Safety
    /// As for [`run`](DepthwiseWgradInterleaved::run); the sums are there.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
    unsafe fn epilogue(&self, product: usize, tap: usize, acc: *mut f32) {
        let ([taps, pitch], extent) = (self.sizes(), self.channels.extent);
        // SAFETY: every part has sums of all taps.
        unsafe { reduce_split_k(acc, taps * pitch, self.parts, pitch) };
        let mut place = self.view.product(product);
        place.add(&self.far.point(tap / self.near.extent), 1);
        place.add(&self.near.by, (tap % self.near.extent) as i64);
        let whole = extent / S::L * S::L;
        let last = if whole > 0 { pitch - (extent - whole) } else { 0 };
        for (first, lane, len) in [(0, 0, whole), (whole, last, extent - whole)] {
            let mut at = OperandOffsets::default();
            at.add(&self.channels.by, first as i64);
            let run = Run { lane: 0, len: len as u32, at: at.at, by: self.channels.by.at };
            // SAFETY: all parts of the sums were joined, and the destination has these taps.
            unsafe { epilogue_outlined(&self.outputs, &place.at, &run, acc.add(lane)) };
        }
    }

    /// Converts `width` neighbours at each of `len` places, `by` apart, and puts them side by side;
    /// 0 for channels that there are not.
    ///
    /// # Safety
    /// The elements are readable; there is room for them.
    unsafe fn widen(&self, source: Source<'_>, at: isize, by: isize, len: usize, width: usize, to: *mut f32) {
        let Some(convert) = source.convert else { return };
        let from =
            |i: usize| source.data.wrapping_offset((at + i as isize * by) * source.scalar.size() as isize);
        let own = width.min(self.channels.extent);
        source.held.assert_holds(at as i64, by as i64, len);
        let (pieces, each) = if by == own as isize && own == width { (1, len * width) } else { (len, own) };
        for i in 0..pieces {
            let to = to.wrapping_add(i * width);
            // SAFETY: each position has as many readable channels, and `to` has room for the width.
            unsafe {
                convert(to.cast(), from(i), each, Scaling::MOVE);
                to.wrapping_add(each).write_bytes(0, width.saturating_sub(each));
            }
        }
    }
}

impl<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>> Ready for DepthwiseWgradInterleaved<'_, S> {
    unsafe fn run(self, threads: usize) -> Result<()> {
        let [taps, pitch] = self.sizes();
        let products = self.view.batch.len();
        let all = (self.rows.len() * self.along.extent).saturating_mul(products * taps * pitch);
        let threads = if all < PARALLEL_THRESHOLD { 1 } else { threads };
        let each = taps * pitch;
        let scratch = self.kept().iter().sum::<usize>() * size_of::<f32>();
        arena::with(self.acc_len() * size_of::<f32>(), |memory| {
            let acc = Shared(memory.cast::<f32>());
            threads::run_with(threads, products * self.parts * self.blocks, scratch, &|scratch, index| {
                let (number, block) = (index / self.blocks, index % self.blocks);
                let (acc, scratch) = (acc.at(number * each), scratch.cast());
                // SAFETY: a block of a part has sums of its own, and the scratch is this task's;
                // the operands have its pixels.
                unsafe {
                    match S::L {
                        16 => part::avx512(&self, number, block, acc, scratch),
                        _ => part::avx2(&self, number, block, acc, scratch),
                    }
                }
            })?;
            threads::run(threads, products * taps, &|index| {
                let (product, tap) = (index / taps, index % taps);
                // SAFETY: all sums are there, and every tap has its own, and places of its own in
                // the destination.
                unsafe { self.epilogue(product, tap, acc.at(product * self.parts * each + tap * pitch)) };
            })
        })
    }
}

/// # Safety
/// As for [`DepthwiseWgradInterleaved::part`].
#[vectorized]
unsafe fn part<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>>(
    of: &DepthwiseWgradInterleaved<'_, S>, number: usize, block: usize, acc: *mut f32, scratch: *mut f32,
) {
    // SAFETY: the sums and the scratch are those of this part.
    unsafe { of.part(number, block, acc, scratch) }
}
