//! Sums over the taps of one channel where channels are contiguous (NHWC): depthwise convolutions and their gradients of
//! the data. Lanes are channels, read in place; a tile is a few neighbouring outputs by a few vectors of channels.

use std::mem::MaybeUninit;

use super::engine::{Operands, Shared};
use super::finish::{Outputs, Run, finish};
use super::pack::{Part, Source, pack};
use super::points::{Even, Point, Turn, Walk};
use super::simd::{MAX_NR, Simd};
use crate::backend::cpu::{arena, threads};
use crate::dtype::convert::Element;
use crate::error::Result;
use crate::ops::contract::{Contract, Role};

/// Outputs below which one thread does all.
const ALONE: usize = 1 << 14;

/// Taps at most: those of an output are listed on the stack.
const TAPS: usize = 128;

/// Outputs of a tile.
const OUTPUTS: usize = 4;

/// Vectors of channels of a tile.
const VECTORS: usize = 2;

/// A contraction whose sum is over the taps of one channel, with the channels side by side.
pub(super) struct Channels<'a, S: Simd> {
    outputs: Outputs<'a>,
    image: Source<'a>,
    filter: Source<'a>,
    origin: [i64; 5],
    /// The loop over channels, and the others of the batch.
    channels: Turn,
    batch: Walk,
    /// The innermost loop over outputs, and the others.
    along: Turn,
    rows: Walk,
    taps: Walk,
    level: std::marker::PhantomData<fn() -> S>,
}

/// How a task is called, compiled for the level.
pub(super) type Task<S> = unsafe fn(&Channels<'_, S>, *const <S as Simd>::Cell, usize);

/// A tap: where its elements are in the image, and its factors in the packed filter.
#[derive(Clone, Copy, Default)]
struct Tap {
    at: i64,
    number: usize,
    /// The outputs along the row that it has elements for.
    first: usize,
    end: usize,
}

impl<'a, S: Simd<Part: Part, Sum: Element>> Channels<'a, S> {
    /// `None` for any other contraction.
    pub(super) fn new(outputs: Outputs<'a>, operands: Operands) -> Option<Channels<'a, S>> {
        let step: &Contract = outputs.step;
        let [image, filter] = operands.sources::<S>(step);
        let mut others: Vec<(usize, Turn)> =
            step.loops(Role::Batch).map(|(index, _)| (index, Turn::of(step, index))).collect();
        let channels = others.iter().position(|(_, turn)| turn.by.at[0] == 1 && turn.by.at[1] == 1)?;
        let channels = others.remove(channels).1;
        let taps = Walk::of(step, Role::K);
        let native = S::PER == 1 && S::Part::SCALAR == Some(step.a);
        let fits = (1..=TAPS).contains(&taps.len()) && channels.extent >= S::L;
        let mut rows = Walk::of(step, Role::M);
        // Channels that positions depend on are no channels.
        let free = channels.by.pos.iter().all(|&by| by == 0);
        if !native || !fits || !free || step.extent(Role::N) != 1 {
            return None;
        }
        let along = rows.turns.pop().unwrap_or(Turn { extent: 1, by: Point::default() });
        Some(Channels {
            outputs,
            image,
            filter,
            origin: step.nest.offsets,
            channels,
            batch: Walk { turns: others.into_iter().map(|(_, turn)| turn).collect() },
            along,
            rows,
            taps,
            level: std::marker::PhantomData,
        })
    }

    /// Channels as the factors have them: in whole vectors, of each all taps.
    fn pitch(&self) -> usize {
        self.channels.extent.next_multiple_of(S::L)
    }

    /// Runs the contraction.
    ///
    /// # Safety
    /// As for [`super::run`], and for the level of `task`.
    pub(super) unsafe fn run(&self, threads: usize, task: Task<S>) -> Result<()> {
        let (rows, taps, pitch) = (self.rows.len(), self.taps.len(), self.pitch());
        let outputs = self.batch.len() * rows * self.along.extent * self.channels.extent;
        let threads = if outputs < ALONE { 1 } else { threads };
        let cells = self.batch.len() * taps * pitch;
        arena::with(cells * size_of::<S::Cell>(), |memory| {
            let factors = memory.cast::<S::Cell>();
            let (mut evens, mut lanes) = (Vec::new(), Vec::new());
            self.taps.evens(0, taps, 2, false, &mut evens);
            let channels = Walk { turns: vec![self.channels] };
            for product in 0..self.batch.len() {
                let base = self.origin[2] + self.batch.point(product).at[2];
                for first in (0..pitch).step_by(S::L) {
                    channels.points(first, self.channels.extent.min(first + S::L), &mut lanes);
                    lanes.iter_mut().for_each(|lane| lane.at[2] += base);
                    let to = factors.wrapping_add((product * pitch + first) * taps);
                    // SAFETY: handed on; there is room for whole vectors of factors.
                    unsafe { pack::<S>(self.filter, &lanes, &evens, S::L, to.cast()) };
                }
            }
            let factors = Shared(factors);
            threads::run(threads, self.batch.len() * rows, &|index| {
                let factors = factors.at((index / rows) * taps * pitch);
                // SAFETY: the caller's promises; tasks write disjoint elements.
                unsafe { task(self, factors, index) };
            })
        })
    }

    /// Computes one row of outputs.
    ///
    /// # Safety
    /// As for [`super::run`]; the factors are those of the row's product.
    #[inline(always)]
    pub(super) unsafe fn row(&self, factors: *const S::Cell, index: usize) {
        if S::PER > 1 {
            // Never built for cells of pairs.
            return;
        }
        let rows = self.rows.len();
        let mut place = self.rows.point(index % rows);
        place.add(&self.batch.point(index / rows), 1);
        (0..5).for_each(|k| place.at[k] += self.origin[k]);
        let mut taps = [Tap::default(); TAPS];
        let mut count = 0;
        for number in 0..self.taps.len() {
            let tap = self.taps.point(number);
            let row = Point { pos: std::array::from_fn(|d| place.pos[d] + tap.pos[d]), ..tap };
            let even = Even::new(&row, &self.along.by, self.along.extent, 1);
            let (first, end) = even.inside(&Point::default(), self.image.bounds);
            if first < end {
                taps[count] = Tap { at: tap.at[1], number, first, end };
                count += 1;
            }
        }
        let taps = &taps[..count];
        // Between these all taps have elements.
        let first = taps.iter().map(|tap| tap.first).max().unwrap_or(0);
        let end = taps.iter().map(|tap| tap.end).min().unwrap_or(0).max(first);
        let width = VECTORS * S::L;
        let extent = self.channels.extent;
        let mut sums = [const { MaybeUninit::<S::Sum>::uninit() }; OUTPUTS * MAX_NR];
        let sums = sums.as_mut_ptr().cast::<S::Sum>();
        // Sums that are results go where those belong.
        let direct = self.outputs.takes_sums(S::Sum::SCALAR) && self.outputs.is_plain();
        let dst = self.outputs.dst.cast::<S::Sum>().wrapping_offset(place.at[0] as isize);
        let apart = self.along.by.at[0] as isize;
        for channel in (0..extent).step_by(width) {
            let left = (extent - channel).min(width);
            let mut q = 0;
            while q < self.along.extent {
                let whole = q >= first && q + OUTPUTS <= end && left == width;
                let outputs = if whole { OUTPUTS } else { 1 };
                let direct = direct && left == width;
                let to = if direct {
                    (dst.wrapping_offset(channel as isize + q as isize * apart), apart)
                } else {
                    (sums, width as isize)
                };
                // SAFETY: handed on; there is room for the sums of a tile.
                unsafe {
                    if whole {
                        self.tile::<OUTPUTS, VECTORS>(&place, taps, factors, channel, q, to);
                    } else {
                        let mut some = [Tap::default(); TAPS];
                        let mut count = 0;
                        for tap in taps.iter().filter(|tap| (tap.first..tap.end).contains(&q)) {
                            some[count] = *tap;
                            count += 1;
                        }
                        let some = &some[..count];
                        if left == width {
                            self.tile::<1, VECTORS>(&place, some, factors, channel, q, to);
                        } else {
                            self.part(&place, some, factors, channel, left, q, sums);
                        }
                    }
                    for i in 0..if direct { 0 } else { outputs } {
                        let mut at = Point::default();
                        at.add(&self.along.by, (q + i) as i64);
                        at.add(&self.channels.by, channel as i64);
                        let run = Run { lane: 0, len: left as u32, at: at.at, by: self.channels.by.at };
                        finish(&self.outputs, &place.at, &run, sums.add(i * width));
                    }
                }
                q += outputs;
            }
        }
    }

    /// Where the image of output `q` and a channel begins.
    fn from(&self, place: &Point, channel: usize, q: usize) -> *const S::Cell {
        let offset = place.at[1] + channel as i64 + q as i64 * self.along.by.at[1];
        self.image.data.cast::<S::Cell>().wrapping_offset(offset as isize)
    }

    /// The sums of `Q` neighbouring outputs, `V` vectors each, one after the other.
    ///
    /// # Safety
    /// As for [`row`](Channels::row); all taps have elements for all outputs of the tile, and there is room for the sums,
    /// those of neighbouring outputs so far apart.
    #[inline(always)]
    unsafe fn tile<const Q: usize, const V: usize>(
        &self,
        place: &Point,
        taps: &[Tap],
        factors: *const S::Cell,
        channel: usize,
        q: usize,
        (to, apart): (*mut S::Sum, isize),
    ) {
        let from = self.from(place, channel, q);
        let (step, all) = (self.along.by.at[1] as isize, self.taps.len());
        // SAFETY: the caller's promise.
        unsafe {
            let mut sums = [[S::zero(); V]; Q];
            for tap in taps {
                let from = from.offset(tap.at as isize);
                let mut v = 0;
                while v < V {
                    let factor = S::load(factors.add((channel + v * S::L) * all + tap.number * S::L));
                    let mut i = 0;
                    while i < Q {
                        let x = S::load(from.offset(i as isize * step).add(v * S::L));
                        sums[i][v] = S::fma(x, factor, sums[i][v]);
                        i += 1;
                    }
                    v += 1;
                }
            }
            let mut i = 0;
            while i < Q * V {
                S::store(to.offset((i / V) as isize * apart).add(i % V * S::L), sums[i / V][i % V]);
                i += 1;
            }
        }
    }

    /// The sums of one output for the last channels, which fill no tile.
    ///
    /// # Safety
    /// As for [`tile`](Channels::tile).
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "a part of a tile")]
    unsafe fn part(
        &self,
        place: &Point,
        taps: &[Tap],
        factors: *const S::Cell,
        channel: usize,
        left: usize,
        q: usize,
        to: *mut S::Sum,
    ) {
        let from = self.from(place, channel, q);
        // SAFETY: the caller's promise; of the image no more than the channels left are read.
        unsafe {
            for lane in (0..left).step_by(S::L) {
                let lanes = S::L.min(left - lane);
                let mut sum = S::zero();
                for tap in taps {
                    let mut x = [S::ZERO; MAX_NR];
                    from.offset(tap.at as isize).add(lane).copy_to(x.as_mut_ptr(), lanes);
                    let factors = factors.add((channel + lane) * self.taps.len() + tap.number * S::L);
                    let factor = S::load(factors);
                    sum = S::fma(S::load(x.as_ptr()), factor, sum);
                }
                S::store(to.add(lane), sum);
            }
        }
    }
}
