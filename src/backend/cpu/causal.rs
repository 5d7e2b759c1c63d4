//! Causal convolutions on the CPU: rows of a channel are computed in scratch, with as many
//! positions before and behind them as the taps reach.

mod access;
mod fft;
mod gated;
mod kernels;
mod transformed;

use self::kernels::Kernels;
use super::kind::{self, Call, Kind, Table};
use super::row::{self, Row};
use super::scratch::Parts;
use super::{Machine, threads};
use crate::backend::Address;
use crate::backend::choice::{self, Kernel};
use crate::backend::function::{Real, with_real};
use crate::dtype::numbers::Math;
use crate::error::Result;
use crate::ops::Scaling;
use crate::ops::causal::{Causal, CausalFunction, LANES};

/// Positions of a row that are computed together: rows and what they are made from stay in the
/// caches.
const TILE: usize = 1024;
/// Channels that are computed one after the other where they are neighbours in memory: a cache line
/// of them.
const NEIGHBOURS: usize = 16;
/// Taps whose gradients are summed together.
const TAPS: usize = 64;

// The first position of a row belongs to lane 0.
const _: () = assert!(TILE.is_multiple_of(LANES));

/// How sums over taps are computed.
#[derive(Clone, Copy)]
enum Sums {
    /// By Fourier transforms.
    Transformed,
    /// As they are written.
    Written,
}

/// How a kernel computes the sums of a step, if it accepts it.
type Accept = fn(&Causal) -> Option<Sums>;

/// The kernels. Sums have other bits when they are transformed: each step is one kernel's.
const KERNELS: &[Kernel<Accept>] = &[
    Kernel {
        name: "causal_fft",
        when: "filters of 512 taps or more, the newest first, over sequences that are not shorter: Fourier transforms of blocks in binary64",
        accept: |step| step.is_transformed().then_some(Sums::Transformed),
    },
    Kernel {
        name: "causal_direct",
        when: "all others: tap by tap",
        accept: |step| (!step.is_transformed()).then_some(Sums::Written),
    },
];

impl Kind for Causal {
    fn table() -> Table {
        kind::rows(KERNELS)
    }

    fn kernels(&self, _machine: Machine) -> Vec<&'static str> {
        choice::names(KERNELS, |accept| accept(self))
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        let (_, sums) = call.choice.of(KERNELS, |accept| accept(self))?;
        with_real!(self.compute(), T => {
            let job = Job::<T>::new(self, call.at, call.machine);
            // SAFETY: in every arm destinations have an element for every line and tap, and are
            // apart from what is read.
            unsafe {
                match (sums, self.function) {
                    (Sums::Transformed, _) => job.transformed(),
                    (_, CausalFunction::Forward) => job.forward(),
                    (_, CausalFunction::Data) => job.data(),
                    (_, CausalFunction::Weights) => job.weights(),
                    (_, CausalFunction::Gated) => job.gated(),
                    (_, CausalFunction::GatedData) => job.gated_data(),
                    (_, CausalFunction::GatedWeights) => job.gated_weights(),
                }
            }
        })
    }
}

/// A step on its operands.
struct Job<'a, T: 'static> {
    step: &'a Causal,
    at: &'a [Address],
    kernels: Kernels<T>,
    /// From elements to numbers, and back.
    widen: Row,
    narrow: Row,
    machine: Machine,
    length: usize,
    taps: usize,
    mixer: usize,
}

/// Some positions of a sequence, `begin..end`.
#[derive(Clone, Copy)]
struct Span {
    begin: usize,
    end: usize,
}

impl Span {
    fn len(self) -> usize {
        self.end - self.begin
    }

    /// With the positions before it that `taps` taps reach.
    fn back(self, taps: usize) -> Span {
        Span { begin: self.begin.saturating_sub(taps - 1), end: self.end }
    }

    /// With the positions behind it whose taps reach it, in a sequence of this length.
    fn on(self, taps: usize, length: usize) -> Span {
        Span { begin: self.begin, end: self.end.saturating_add(taps - 1).min(length) }
    }

    /// Where in a row of `of` the first tap of this span's first position reads.
    fn first_tap(self, taps: usize, of: Span) -> isize {
        self.begin as isize - (taps as isize - 1) - of.begin as isize
    }
}

/// Rows of numbers in scratch, one after the other.
struct Rows<T> {
    parts: Parts,
    room: usize,
    number: std::marker::PhantomData<T>,
}

impl<T: Real> Rows<T> {
    /// # Safety
    /// There is scratch for as many rows of `room` numbers as are taken, and nobody else uses it.
    unsafe fn new(scratch: *mut u8, room: usize) -> Self {
        Rows { parts: Parts::new(scratch), room, number: std::marker::PhantomData }
    }

    /// Bytes of `rows` rows of `room` numbers.
    fn bytes(rows: usize, room: usize) -> usize {
        super::scratch::bytes_of::<T>(room).saturating_mul(rows)
    }

    /// The next row, of `len` numbers.
    fn take<'a>(&mut self, len: usize) -> &'a mut [T] {
        assert!(len <= self.room, "a row has room for what its step needs");
        let row = self.parts.take::<T>(self.room);
        // SAFETY: `new` was given scratch for as many rows as are taken.
        unsafe {
            super::scratch::fill(row, T::ZERO, len);
            std::slice::from_raw_parts_mut(row, len)
        }
    }
}

impl<'a, T: Real + Math> Job<'a, T> {
    fn new(step: &'a Causal, at: &'a [Address], machine: Machine) -> Self {
        Job {
            step,
            at,
            kernels: Kernels::of(machine.isa),
            widen: row::between(step.scalar, T::SCALAR, Scaling::MOVE, machine.isa),
            narrow: row::between(T::SCALAR, step.scalar, Scaling::MOVE, machine.isa),
            machine,
            length: step.length as usize,
            taps: step.taps as usize,
            mixer: step.mixer as usize,
        }
    }

    /// Numbers that a row of ungated sums or gradients may need.
    fn row_room(&self) -> usize {
        2 * self.taps + TILE
    }

    /// How many threads share sums over `taps` taps at every position.
    fn threads(&self, taps: usize) -> usize {
        let elements = (self.step.batch * self.step.channels) as usize * self.length;
        self.machine.threads_for(elements.saturating_mul(size_of::<f32>()).saturating_mul(taps.min(64)))
    }

    /// Channels that one task computes.
    fn group(&self) -> usize {
        if self.step.channels_inside { NEIGHBOURS } else { 1 }
    }

    /// The sums of `span` before the activation, from the row of x that `span.back(taps)` is.
    ///
    /// # Safety
    /// As for [`Kind::run`]; the processor has the level's instructions.
    unsafe fn sums(&self, span: Span, x: &[T], taps: &[T], bias: Option<T>, out: &mut [T]) {
        // SAFETY: the machine has the level.
        unsafe { (self.kernels.sums)(out, x, span.first_tap(taps.len(), span.back(taps.len())), taps, bias) }
    }

    /// Calls `work` with every tile of every group of channels of every sequence, on all threads:
    /// scratch of `bytes`, the sequence, the channels and the positions.
    fn by_tiles(
        &self, bytes: usize, work: impl Fn(*mut u8, i64, std::ops::Range<i64>, Span) + Sync,
    ) -> Result<()> {
        let (channels, group) = (self.step.channels as usize, self.group());
        let (groups, tiles) = (channels.div_ceil(group), self.length.div_ceil(TILE));
        let items = self.step.batch as usize * groups * tiles;
        threads::in_ranges(self.threads(self.taps.max(self.mixer)), items, bytes, &|scratch, range| {
            for item in range {
                let (tile, rest) = (item % tiles, item / tiles);
                let first = rest % groups * group;
                let span = Span { begin: tile * TILE, end: self.length.min((tile + 1) * TILE) };
                let of_group = first as i64..channels.min(first + group) as i64;
                work(scratch, (rest / groups) as i64, of_group, span);
            }
        })
    }

    /// # Safety
    /// As for [`Kind::run`].
    unsafe fn forward(&self) -> Result<()> {
        self.by_tiles(Rows::<T>::bytes(3, self.row_room()), |scratch, sequence, channels, span| {
            for channel in channels {
                // SAFETY: scratch of three rows; positions and taps of a channel.
                unsafe { self.forward_tile(scratch, sequence, channel, span) };
            }
        })
    }

    /// # Safety
    /// As for [`Kind::run`]; scratch of three rows.
    unsafe fn forward_tile(&self, scratch: *mut u8, sequence: i64, channel: i64, span: Span) {
        // SAFETY: the operands are those of the step, and the scratch holds three rows.
        unsafe {
            let mut rows = Rows::<T>::new(scratch, self.row_room());
            let taps = rows.take(self.taps);
            self.weight(2, channel, taps);
            let x = self.numbers(&mut rows, 1, [sequence, channel], span.back(self.taps));
            self.made(&mut rows, [sequence, channel], span, |out| {
                self.sums(span, x, taps, self.bias(3, channel), out);
                if self.step.silu {
                    (self.kernels.silu)(out);
                }
            });
        }
    }

    /// The gradient of the sums before the activation at `span`, and what it takes of x; operands
    /// x, weight, bias and dy follow one another from `from` on.
    ///
    /// # Safety
    /// As for [`Kind::run`].
    unsafe fn gradient<'r>(
        &self, rows: &mut Rows<T>, from: usize, place: [i64; 2], taps: &[T], span: Span,
    ) -> (&'r [T], &'r [T]) {
        // SAFETY: the tile lies inside the operands, and its rows in this task's scratch.
        unsafe {
            if self.step.is_linear() {
                return (self.numbers(rows, from + 3, place, span), &[]);
            }
            let g = rows.take(span.len());
            self.line(from + 3, place, span, g);
            let x = self.numbers(rows, from, place, span.back(self.taps));
            let sums = rows.take(span.len());
            self.sums(span, x, taps, self.bias(from + 2, place[1]), sums);
            (self.kernels.slope)(g, sums);
            (g, x)
        }
    }

    /// # Safety
    /// As for [`Kind::run`].
    unsafe fn data(&self) -> Result<()> {
        self.by_tiles(Rows::<T>::bytes(6, self.row_room()), |scratch, sequence, channels, span| {
            for channel in channels {
                // SAFETY: scratch of six rows; positions and taps of a channel.
                unsafe { self.data_tile(scratch, sequence, channel, span) };
            }
        })
    }

    /// # Safety
    /// As for [`Kind::run`]; scratch of six rows.
    unsafe fn data_tile(&self, scratch: *mut u8, sequence: i64, channel: i64, span: Span) {
        // SAFETY: the operands are those of the step, and the scratch holds six rows.
        unsafe {
            let mut rows = Rows::<T>::new(scratch, self.row_room());
            let taps = rows.take(self.taps);
            self.weight(2, channel, taps);
            let reach = span.on(self.taps, self.length);
            let (g, _) = self.gradient(&mut rows, 1, [sequence, channel], taps, reach);
            taps.reverse();
            self.made(&mut rows, [sequence, channel], span, |dx| (self.kernels.sums)(dx, g, 0, taps, None));
        }
    }

    /// # Safety
    /// As for [`Kind::run`].
    unsafe fn weights(&self) -> Result<()> {
        let group = self.group();
        let (blocks, channels) = (self.taps.div_ceil(TAPS), self.step.channels as usize);
        let items = channels.div_ceil(group) * blocks;
        threads::in_ranges(self.threads(self.taps), items, self.bytes_of_weights(group), &|scratch, range| {
            for item in range {
                let (block, first) = (item % blocks * TAPS, item / blocks * group);
                // SAFETY: scratch for lanes and four rows; positions and taps of channels.
                unsafe { self.weights_of(scratch, block, first..channels.min(first + group)) };
            }
        })
    }

    /// Bytes of scratch for the gradients of a block of taps of `channels` channels.
    fn bytes_of_weights(&self, channels: usize) -> usize {
        let lanes = super::scratch::bytes_of::<[T; LANES]>(channels * (self.taps.min(TAPS) + 1));
        Rows::<T>::bytes(4, self.row_room()).saturating_add(lanes)
    }

    /// The gradients of the taps from `block` on of some channels, as many as are summed together.
    ///
    /// # Safety
    /// As for [`Kind::run`]; scratch for them.
    unsafe fn weights_of(&self, scratch: *mut u8, block: usize, channels: std::ops::Range<usize>) {
        let width = (self.taps - block).min(TAPS);
        let mut parts = Parts::new(scratch);
        // SAFETY: the operands are those of the step, and the scratch holds what is summed.
        unsafe {
            let lanes = parts.filled(channels.len() * (width + 1), [T::ZERO; LANES]);
            let scratch = scratch.add(parts.bytes);
            let places = self.spans().flat_map(|at| channels.clone().map(move |c| (at, c)));
            for ((sequence, span), channel) in places {
                let lanes = &mut lanes[(channel - channels.start) * (width + 1)..][..width + 1];
                self.add(scratch, [sequence, channel as i64], span, (block, lanes));
            }
            for (lanes, channel) in lanes.chunks_mut(width + 1).zip(channels) {
                for (k, lanes) in lanes[..width].iter_mut().enumerate() {
                    self.put(0, self.step.tap(channel as i64, (block + k) as i64), lanes);
                }
                if self.step.bias && block == 0 {
                    self.put(1, channel as i64, &mut lanes[width]);
                }
            }
        }
    }

    /// Every sequence with each of its tiles.
    fn spans(&self) -> impl Iterator<Item = (i64, Span)> + use<T> {
        let (length, batch) = (self.length, self.step.batch);
        (0..batch).flat_map(move |sequence| {
            let tiles = (0..length).step_by(TILE);
            tiles.map(move |begin| (sequence, Span { begin, end: length.min(begin + TILE) }))
        })
    }

    /// Adds a tile of a channel of a sequence to the lanes of the taps from `block` on, and of the
    /// bias behind them.
    ///
    /// # Safety
    /// As for [`Kind::run`]; scratch of four rows.
    unsafe fn add(
        &self, scratch: *mut u8, place: [i64; 2], span: Span, (block, lanes): (usize, &mut [[T; LANES]]),
    ) {
        let width = lanes.len() - 1;
        // SAFETY: the operands are those of the step, and the scratch holds four rows.
        unsafe {
            let mut rows = Rows::<T>::new(scratch, self.row_room());
            let taps = rows.take(self.taps);
            let mut reach = span.back(self.taps);
            if !self.step.is_linear() {
                self.weight(3, place[1], taps);
            }
            let (g, mut x) = self.gradient(&mut rows, 2, place, taps, span);
            if self.step.is_linear() {
                // Only what these taps reach.
                let back = self.taps - block - width;
                reach = Span { begin: reach.begin, end: span.end.saturating_sub(back).max(reach.begin) };
                reach.begin = (span.begin + block + 1).saturating_sub(self.taps).min(reach.end);
                x = self.numbers(&mut rows, 2, place, reach);
            }
            let first = span.first_tap(self.taps, reach) + block as isize;
            (self.kernels.gradients)(&mut lanes[..width], g, x, first);
            if self.step.bias {
                for (i, &g) in g.iter().enumerate() {
                    lanes[width][i % LANES] = lanes[width][i % LANES] + g;
                }
            }
        }
    }
}
