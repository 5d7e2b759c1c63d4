//! Sums over the taps of one channel where channels are contiguous (NHWC): depthwise convolutions
//! and their gradients of the data. Lanes are channels, read in place; a tile is a few neighbouring
//! outputs by a few vectors of channels. Where channels are in blocks (nChw8c), a row of outputs of
//! each block follows that of the block before.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod in_registers;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod narrowed;

use std::mem::MaybeUninit;
use std::ops::Range;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use self::in_registers::InRegisters;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use self::narrowed::Narrowed;
use super::PARALLEL_THRESHOLD;
use super::taps::{self, common};
use crate::backend::cpu::contract::epilogue::generic::{Outputs, Run, epilogue};
use crate::backend::cpu::contract::gemm::engine::Shared;
use crate::backend::cpu::contract::kernel::simd::{MAX_NR, Simd};
use crate::backend::cpu::contract::operands::pack::{LaneOffsets, PackScalar, pack_panels};
use crate::backend::cpu::contract::operands::points::{Loop, Loops, OperandOffsets, StridedRun};
use crate::backend::cpu::contract::operands::view::View;
use crate::backend::cpu::contract::problem::{Problem, Ready};
use crate::backend::cpu::machine::TASKS_PER_THREAD;
use crate::backend::cpu::{arena, threads};
use crate::dtype::convert::Element;
use crate::error::Result;
use crate::ops::contract::Role;

/// Taps at most: those of an output are listed on the stack.
const TAPS: usize = 128;

/// Sums that are kept at most until they are finished, if an output has no more: half of a
/// first-level cache.
const KEPT: usize = 4 << 10;

/// Channels whose factors are used at once.
const BLOCK: usize = 256;

/// Outputs of a tile.
const OUTPUTS: usize = 4;

/// Vectors of channels of a tile.
const VECTORS: usize = 2;

/// A contraction whose sum is over the taps of one channel, with the channels side by side.
pub struct DepthwiseInterleaved<'a, S: Simd> {
    outputs: Outputs<'a>,
    /// Its batch is without the loop over channels.
    view: View<'a>,
    channels: Loop,
    /// The innermost loop of the batch: blocks of channels, of which a row has the same taps.
    blocks: Loop,
    /// What the blocks of a row are divided in, so that there are tasks for all threads.
    parts: usize,
    /// The innermost loop over outputs, and the others.
    along: Loop,
    rows: Loops,
    taps: Loops,
    /// Where each tap is from the first one.
    points: Vec<OperandOffsets>,
    /// Whether sums are the result.
    direct: bool,
    /// How sums leave from registers, if they do.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    in_registers: Option<InRegisters>,
    /// The same for results of fewer bits.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    narrowed: Option<Narrowed>,
    /// [`DepthwiseInterleaved::row`], for the level of `S`.
    task: Task<S>,
}

/// How a task is called, compiled for the level.
pub type Task<S> =
    unsafe fn(&DepthwiseInterleaved<'_, S>, *const <S as Simd>::KGroup, *mut <S as Simd>::Acc, usize);

/// A row of outputs of binary32 sums.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
struct Row<'a> {
    place: &'a OperandOffsets,
    along: &'a Loop,
    image: *const f32,
    factors: *const f32,
    /// Taps that factors have.
    all: usize,
}

/// A tap: where its elements are in the image.
type Tap = taps::Tap<i64>;

impl<'a, S: Simd<Scalar: PackScalar, Acc: Element>> DepthwiseInterleaved<'a, S> {
    /// `None` for any other contraction.
    pub fn new(problem: &Problem<'a>, task: Task<S>) -> Option<DepthwiseInterleaved<'a, S>> {
        let outputs = problem.outputs;
        let step = problem.step();
        // At most the loops of a step.
        let mut others: Vec<(usize, Loop)> =
            step.loops(Role::Batch).map(|(index, _)| (index, Loop::of(step, index))).collect();
        let channels = others.iter().position(|(_, axis)| axis.by.at[0] == 1 && axis.by.at[1] == 1)?;
        let channels = others.remove(channels).1;
        let taps = Loops::of(step, Role::K);
        let native = S::K_PACK == 1 && S::Scalar::SCALAR == Some(step.a);
        let fits = (1..=TAPS).contains(&taps.len()) && channels.extent >= S::L;
        let mut rows = Loops::of(step, Role::M);
        // Channels that positions depend on are no channels.
        let free = channels.by.pos.iter().all(|&by| by == 0);
        if !native || !fits || !free || step.extent(Role::N) != 1 {
            return None;
        }
        let once = Loop { extent: 1, by: OperandOffsets::default() };
        let along = rows.loops.pop().unwrap_or(once);
        let blocks = others.last().map(|(_, axis)| *axis).filter(|axis| axis.by.pos == once.by.pos);
        Some(DepthwiseInterleaved {
            direct: outputs.takes_acc(S::Acc::SCALAR) && outputs.is_plain(),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            in_registers: InRegisters::of::<S>(&outputs, [&channels, &along]),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            narrowed: Narrowed::of::<S>(&outputs, [&channels, &along]),
            outputs,
            // At most the loops of a step.
            view: View {
                batch: Loops { loops: others.into_iter().map(|(_, axis)| axis).collect() },
                ..problem.view::<S>()
            },
            channels,
            blocks: blocks.unwrap_or(once),
            parts: 1,
            along,
            rows,
            // At most `TAPS`.
            points: (0..taps.len()).map(|number| taps.point(number)).collect(),
            taps,
            task,
        })
    }

    /// Channels as the factors have them: in whole vectors, of each all taps.
    fn pitch(&self) -> usize {
        self.channels.extent.next_multiple_of(S::L)
    }

    /// Computes one row of outputs, of some blocks of channels.
    ///
    /// # Safety
    /// As for [`super::super::run`]; the factors are those of all products, and there is room for
    /// the sums that are kept.
    #[inline(always)]
    pub unsafe fn row(&self, factors: *const S::KGroup, acc: *mut S::Acc, index: usize) {
        if S::K_PACK > 1 {
            // Never built for cells of pairs.
            return;
        }
        let (part, index) = (index % self.parts, index / self.parts);
        let (rows, blocks) = (self.rows.len(), self.blocks.extent);
        let product = index / rows * blocks;
        let mut place = self.view.product(product);
        place.add(&self.rows.point(index % rows), 1);
        let mut taps = [const { MaybeUninit::<Tap>::uninit() }; TAPS];
        let mut count = 0;
        for (number, tap) in self.points.iter().enumerate() {
            let even = StridedRun::new(tap, &self.along.by, self.along.extent, 1);
            let (first, end) = even.inside(&place, self.view.a.bounds);
            if first < end {
                taps[count].write(Tap { from: tap.at[1], number, first, end });
                count += 1;
            }
        }
        // SAFETY: the first `count` taps are written.
        let taps = unsafe { std::slice::from_raw_parts(taps.as_ptr().cast::<Tap>(), count) };
        let whole = common(taps);
        let (first, end) = (blocks * part / self.parts, blocks * (part + 1) / self.parts);
        place.add(&self.blocks.by, first as i64);
        for block in first..end {
            let factors = factors.wrapping_add((product + block) * self.taps.len() * self.pitch());
            // SAFETY: taps read inside the image, and the factors are those of the block.
            unsafe { self.block(&place, taps, whole.clone(), factors, acc) };
            place.add(&self.blocks.by, 1);
        }
    }

    /// Computes one row of outputs of one block; all taps have elements for those of `whole`.
    ///
    /// # Safety
    /// As for [`row`](DepthwiseInterleaved::row), with the factors of this product.
    #[inline(always)]
    unsafe fn block(
        &self, place: &OperandOffsets, taps: &[Tap], whole: Range<usize>, factors: *const S::KGroup,
        acc: *mut S::Acc,
    ) {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        {
            let (along, image, all) = (&self.along, self.view.a.data.cast(), self.taps.len());
            let row = Row { place, along, image, factors: factors.cast(), all };
            if let Some(in_registers) = &self.in_registers {
                // SAFETY: taps read inside the image; factors of vectors with an ending are
                // binary32.
                return unsafe { in_registers.row(&row, taps, whole) };
            }
            if let Some(narrowed) = &self.narrowed {
                // SAFETY: taps read inside the image; factors of vectors with such an end are
                // binary32, and so are sums, which have room for those of one output.
                return unsafe {
                    let bias = narrowed.bias(place.at[4], acc.cast());
                    narrowed.row(&row, bias, taps, whole)
                };
            }
        }
        let (width, extent) = (VECTORS * S::L, self.channels.extent);
        // Sums that are results go where those belong.
        let dst = self.outputs.dst.cast::<S::Acc>().wrapping_offset(place.at[0] as isize);
        let piece = if self.direct { self.along.extent } else { self.piece() };
        for q0 in (0..self.along.extent).step_by(piece) {
            let q1 = self.along.extent.min(q0 + piece);
            let (to, apart) = if self.direct {
                let apart = self.along.by.at[0] as isize;
                (dst.wrapping_offset(q0 as isize * apart), apart)
            } else {
                (acc, extent as isize)
            };
            let (first, end) = (whole.start.clamp(q0, q1), whole.end.clamp(q0, q1));
            let tiles = if end - first >= OUTPUTS { first..end } else { 0..0 };
            // Along memory, as long as the factors stay in the first cache.
            for block in (0..extent).step_by(BLOCK) {
                let mut q = q0;
                while q < q1 {
                    // The last tile has outputs of the one before as well.
                    let tile = tiles.contains(&q).then(|| q.min(end - OUTPUTS));
                    let at = tile.unwrap_or(q);
                    let outputs = if tile.is_some() { OUTPUTS } else { 1 };
                    let inside = |q: usize| taps.iter().filter(move |tap: &&Tap| tap.meets(q));
                    let to = to.wrapping_offset((at - q0) as isize * apart);
                    for channel in (block..extent.min(block + BLOCK)).step_by(width) {
                        let (left, to) = (extent - channel, to.wrapping_add(channel));
                        // SAFETY: these taps are inside the image, and the sums of a tile are part
                        // of the row's.
                        unsafe {
                            if left < width {
                                for i in 0..outputs {
                                    let to = to.wrapping_offset(i as isize * apart);
                                    self.part(place, inside(at + i), factors, channel, left, at + i, to);
                                }
                            } else if tile.is_some() {
                                self.tile::<OUTPUTS>(place, taps.iter(), factors, channel, at, (to, apart));
                            } else {
                                self.tile::<1>(place, inside(q), factors, channel, q, (to, apart));
                            }
                        }
                    }
                    q = at + outputs;
                }
            }
            if !self.direct {
                // SAFETY: the outputs have places in the destination, and these are the sums of the
                // piece.
                unsafe { self.epilogue(place, q0..q1, acc) };
            }
        }
    }

    /// Outputs whose sums are kept until they are finished.
    fn piece(&self) -> usize {
        (KEPT / self.channels.extent).clamp(1, self.along.extent.max(1))
    }

    /// Finishes the sums of some outputs: all at once where they are side by side.
    ///
    /// # Safety
    /// As for [`row`](DepthwiseInterleaved::row).
    #[inline(always)]
    unsafe fn epilogue(&self, place: &OperandOffsets, outputs: Range<usize>, acc: *const S::Acc) {
        let (extent, by) = (self.channels.extent, self.channels.by.at);
        let joined = (0..5).all(|k| matches!(k, 1 | 2) || self.along.by.at[k] == by[k] * extent as i64);
        let (count, len) = if joined { (1, outputs.len() * extent) } else { (outputs.len(), extent) };
        for index in 0..count {
            let mut at = OperandOffsets::default();
            at.add(&self.along.by, (outputs.start + index) as i64);
            let run = Run { lane: 0, len: len as u32, at: at.at, by };
            // SAFETY: there are sums for every channel of this output.
            unsafe { epilogue(&self.outputs, &place.at, &run, acc.add(index * extent)) };
        }
    }

    /// Where the image of output `q` and a channel begins.
    fn from(&self, place: &OperandOffsets, channel: usize, q: usize) -> *const S::KGroup {
        let offset = place.at[1] + channel as i64 + q as i64 * self.along.by.at[1];
        self.view.a.data.cast::<S::KGroup>().wrapping_offset(offset as isize)
    }

    /// The sums of `Q` neighbouring outputs, some vectors each.
    ///
    /// # Safety
    /// As for [`row`](DepthwiseInterleaved::row); all taps have elements for all outputs of the
    /// tile, and there is room for the sums, those of neighbouring outputs so far apart.
    #[inline(always)]
    unsafe fn tile<'t, const Q: usize>(
        &self, place: &OperandOffsets, taps: impl Iterator<Item = &'t Tap>, factors: *const S::KGroup,
        channel: usize, q: usize, (to, apart): (*mut S::Acc, isize),
    ) {
        let from = self.from(place, channel, q);
        let (step, all) = (self.along.by.at[1] as isize, self.taps.len());
        // SAFETY: every tap has elements for all outputs of the tile, and the sums have room for
        // it.
        unsafe {
            let mut acc = [[S::zero(); VECTORS]; Q];
            for tap in taps {
                let from = from.offset(tap.from as isize);
                let mut v = 0;
                while v < VECTORS {
                    let factor = S::load(factors.add((channel + v * S::L) * all + tap.number * S::L));
                    let mut i = 0;
                    while i < Q {
                        let x = S::load(from.offset(i as isize * step).add(v * S::L));
                        acc[i][v] = S::fma(x, factor, acc[i][v]);
                        i += 1;
                    }
                    v += 1;
                }
            }
            let mut i = 0;
            while i < Q * VECTORS {
                let (q, v) = (i / VECTORS, i % VECTORS);
                S::store(to.offset(q as isize * apart).add(v * S::L), acc[q][v]);
                i += 1;
            }
        }
    }

    /// The sums of one output for the last channels, which fill no tile.
    ///
    /// # Safety
    /// As for [`tile`](DepthwiseInterleaved::tile).
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "a part of a tile")]
    unsafe fn part<'t>(
        &self, place: &OperandOffsets, taps: impl Iterator<Item = &'t Tap> + Clone,
        factors: *const S::KGroup, channel: usize, left: usize, q: usize, to: *mut S::Acc,
    ) {
        let from = self.from(place, channel, q);
        // SAFETY: taps are inside the image, of which no more than the channels left are read; `to`
        // has a place for each.
        unsafe {
            for lane in (0..left).step_by(S::L) {
                let lanes = S::L.min(left - lane);
                let mut sum = S::zero();
                for tap in taps.clone() {
                    let mut x = [S::ZERO; MAX_NR];
                    from.offset(tap.from as isize).add(lane).copy_to(x.as_mut_ptr(), lanes);
                    let factors = factors.add((channel + lane) * self.taps.len() + tap.number * S::L);
                    let factor = S::load(factors);
                    sum = S::fma(S::load(x.as_ptr()), factor, sum);
                }
                let mut some = [const { MaybeUninit::<S::Acc>::uninit() }; MAX_NR];
                S::store(some.as_mut_ptr().cast(), sum);
                to.add(lane).copy_from_nonoverlapping(some.as_ptr().cast(), lanes);
            }
        }
    }
}

impl<S: Simd<Scalar: PackScalar, Acc: Element>> Ready for DepthwiseInterleaved<'_, S> {
    unsafe fn run(mut self, threads: usize) -> Result<()> {
        let (rows, taps, pitch) = (self.rows.len(), self.taps.len(), self.pitch());
        let outputs = self.view.batch.len() * rows * self.along.extent * self.channels.extent;
        let threads = if outputs < PARALLEL_THRESHOLD { 1 } else { threads };
        let lines = self.view.batch.len() / self.blocks.extent * rows;
        if threads > 1 {
            self.parts = (TASKS_PER_THREAD * threads).div_ceil(lines).min(self.blocks.extent);
        }
        let cells = self.view.batch.len() * taps * pitch;
        arena::with(cells * size_of::<S::KGroup>(), |memory| {
            let factors = Shared(memory.cast::<S::KGroup>());
            let mut evens = Vec::new();
            self.taps.evens(0, taps, 2, false, &mut evens);
            let channel = |number| self.channels.by.at[2] * number as i64;
            let channels: LaneOffsets<'_> = (self.channels.extent, &channel);
            // SAFETY: every channel has its taps, and there is room for whole vectors of factors.
            unsafe { pack_panels::<S>(&self.view, channels, &evens, S::L, factors.at(0), taps * S::L) };
            let acc = if self.direct { 0 } else { self.piece() * self.channels.extent };
            let scratch = acc * size_of::<S::Acc>();
            threads::run_with(threads, lines * self.parts, scratch, &|acc, index| {
                // SAFETY: the factors are packed, tasks write disjoint elements, and the scratch is
                // this one's.
                unsafe { (self.task)(&self, factors.at(0), acc.cast(), index) };
            })
        })
    }
}
