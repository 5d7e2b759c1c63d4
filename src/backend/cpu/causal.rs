//! Causal convolutions on the CPU: rows of a channel are computed in scratch, with as many positions before and behind them as
//! the taps reach.

mod fft;
mod gated;
mod kernels;
mod transformed;

use self::kernels::Kernels;
use super::row::{self, Row};
use super::scratch::Parts;
use super::{Machine, grid, threads};
use crate::backend::Address;
use crate::backend::choice::{self, Choice, Kernel};
use crate::backend::function::{Real, with_real};
use crate::dtype::convert::{convert, with_element};
use crate::dtype::math::Math;
use crate::error::Result;
use crate::ops::Scaling;
use crate::ops::causal::{Causal, CausalFunction, LANES};

/// Positions of a row that are computed together: rows and what they are made from stay in the caches.
const TILE: usize = 1024;
/// Channels that are computed one after the other where they are neighbours in memory: a cache line of them.
const NEIGHBOURS: usize = 16;
/// Taps whose gradients are summed together.
const TAPS: usize = 64;

// The first position of a row belongs to lane 0.
const _: () = assert!(TILE.is_multiple_of(LANES));

/// How sums over taps are computed.
#[derive(Clone, Copy)]
pub(in crate::backend) enum Sums {
    /// By Fourier transforms.
    Transformed,
    /// As they are written.
    Written,
}

/// How a kernel computes the sums of a step, if it accepts it.
pub(in crate::backend) type Accept = fn(&Causal) -> Option<Sums>;

/// The kernels. Sums have other bits when they are transformed: each step is one kernel's.
pub(in crate::backend) const KERNELS: &[Kernel<Accept>] = &[
    Kernel {
        name: "transforms",
        when: "filters of 512 taps or more, the newest first, over sequences that are not shorter: Fourier transforms of blocks in binary64",
        accept: |step| step.is_transformed().then_some(Sums::Transformed),
    },
    Kernel {
        name: "sums",
        when: "all others: tap by tap",
        accept: |step| (!step.is_transformed()).then_some(Sums::Written),
    },
];

/// The names of all kernels that accept a step, in the order of the table.
pub(in crate::backend) fn kernels(step: &Causal) -> Vec<&'static str> {
    choice::names(KERNELS, |accept| accept(step))
}

/// Runs `step` on `machine`; `at` are its operands as [`CausalFunction`] lists them.
///
/// # Errors
/// As for [`crate::backend::run_by`].
///
/// # Safety
/// As for [`crate::backend::reference::causal`]; the destinations' elements are distinct and do not overlap what is read.
pub(in crate::backend) unsafe fn run(
    step: &Causal, at: &[Address], machine: Machine, choice: Choice<'_>,
) -> Result<()> {
    let (_, sums) = choice.of(KERNELS, |accept| accept(step))?;
    with_real!(step.compute(), T => {
        let job = Job::<T>::new(step, at, machine);
        // SAFETY: the caller's promise, in every arm.
        unsafe {
            match (sums, step.function) {
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
        // SAFETY: `new` was promised scratch for it.
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
        grid::threads_for(
            self.machine,
            elements.saturating_mul(size_of::<f32>()).saturating_mul(taps.min(64)),
        )
    }

    /// Channels that one task computes.
    fn group(&self) -> usize {
        if self.step.channels_inside { NEIGHBOURS } else { 1 }
    }

    /// Reads the numbers of `span` of the line that starts at `first`.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn read(&self, operand: usize, first: i64, stride: i64, span: Span, to: &mut [T]) {
        let first = (first + span.begin as i64 * stride) as isize;
        let size = self.step.scalar.size();
        let from = self.at[operand].pointer().wrapping_offset(first * size as isize);
        debug_assert_eq!(to.len(), span.len());
        if stride == 1 && from.addr().is_multiple_of(size) {
            // SAFETY: the caller's promise; it is aligned.
            return unsafe { (self.widen)(to.as_mut_ptr().cast(), from, span.len(), Scaling::MOVE) };
        }
        with_element!(self.step.scalar, S => for (i, to) in to.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *to = convert(unsafe { from.cast::<S>().offset(i as isize * stride as isize).read_unaligned() });
        });
    }

    /// Where the numbers of `span` of a line start, if they lie in memory as rows hold them.
    fn in_place(&self, operand: usize, [sequence, channel]: [i64; 2], span: Span) -> Option<*mut T> {
        let (step, first) = (self.step, self.step.line(sequence, channel) + span.begin as i64);
        let at = self.at[operand].pointer().cast::<T>().wrapping_offset(first as isize);
        (step.scalar == T::SCALAR && step.stride() == 1 && at.is_aligned()).then_some(at)
    }

    /// The numbers of `span` of a line: where they are, or else a row of them.
    ///
    /// # Safety
    /// As for [`run`](fn@run).
    unsafe fn numbers<'r>(&self, rows: &mut Rows<T>, operand: usize, place: [i64; 2], span: Span) -> &'r [T] {
        if let Some(at) = self.in_place(operand, place, span) {
            // SAFETY: positions of the sequence, which nobody writes meanwhile.
            return unsafe { std::slice::from_raw_parts(at, span.len()) };
        }
        let row = rows.take(span.len());
        // SAFETY: the caller's promise.
        unsafe { self.line(operand, place, span, row) };
        row
    }

    /// Calls `make` with room for the numbers of `span` of a line of the destination, all of which it sets, and has them written: with
    /// the place itself where numbers lie in memory as rows hold them.
    ///
    /// # Safety
    /// As for [`run`](fn@run).
    unsafe fn made(&self, rows: &mut Rows<T>, place: [i64; 2], span: Span, make: impl FnOnce(&mut [T])) {
        let Some(at) = self.in_place(0, place, span) else {
            let row = rows.take(span.len());
            make(row);
            let (first, stride) = (self.step.line(place[0], place[1]), self.step.stride());
            // SAFETY: the caller's promise.
            return unsafe { self.write(0, first, stride, span, row) };
        };
        // SAFETY: positions of the destination, which are this task's alone, and hold numbers whatever their bits; the machine has the
        // level.
        unsafe {
            let out = std::slice::from_raw_parts_mut(at, span.len());
            make(out);
            (self.kernels.canonical)(out);
        }
    }

    /// Writes the numbers of `span` of the line that starts at `first`.
    ///
    /// # Safety
    /// Their places are writable.
    unsafe fn write(&self, operand: usize, first: i64, stride: i64, span: Span, numbers: &mut [T]) {
        // SAFETY: the machine has the level.
        unsafe { (self.kernels.canonical)(numbers) };
        let first = (first + span.begin as i64 * stride) as isize;
        let size = self.step.scalar.size();
        let to = self.at[operand].pointer().wrapping_offset(first * size as isize);
        if stride == 1 && to.addr().is_multiple_of(size) {
            // SAFETY: the caller's promise; it is aligned.
            return unsafe { (self.narrow)(to, numbers.as_ptr().cast(), span.len(), Scaling::MOVE) };
        }
        with_element!(self.step.scalar, D => for (i, &number) in numbers.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { to.cast::<D>().offset(i as isize * stride as isize).write_unaligned(convert(number)) };
        });
    }

    /// Writes the gradient of a weight, the sum of its lanes, or adds it to what is there.
    ///
    /// # Safety
    /// Its place is writable, and readable if it is added to.
    unsafe fn put(&self, operand: usize, offset: i64, lanes: &mut [T; LANES]) {
        let mut half = LANES / 2;
        while half > 0 {
            (0..half).for_each(|j| lanes[j] = lanes[j] + lanes[j + half]);
            half /= 2;
        }
        // SAFETY: the caller's promise.
        unsafe { self.put_sum(operand, offset, lanes[0]) }
    }

    /// Writes the gradient of a weight, or adds it to what is there.
    ///
    /// # Safety
    /// As for [`put`](Job::put).
    unsafe fn put_sum(&self, operand: usize, offset: i64, sum: T) {
        with_element!(self.step.gradient, D => {
            // SAFETY: the caller's promise.
            unsafe {
                let to = self.at[operand].pointer().cast::<D>().offset(offset as isize);
                let sum = if self.step.adds { convert::<D, T>(to.read_unaligned()) + sum } else { sum };
                to.write_unaligned(convert(sum.canonical()));
            }
        });
    }

    /// One number of an operand.
    ///
    /// # Safety
    /// It is readable.
    unsafe fn number(&self, operand: usize, offset: i64) -> T {
        let mut number = [T::ZERO];
        // SAFETY: the caller's promise.
        unsafe { self.read(operand, offset, 1, Span { begin: 0, end: 1 }, &mut number) };
        number[0]
    }

    /// Some positions of a channel of a sequence.
    ///
    /// # Safety
    /// As for [`run`](fn@run).
    unsafe fn line(&self, operand: usize, [sequence, channel]: [i64; 2], span: Span, to: &mut [T]) {
        let step = self.step;
        // SAFETY: positions of the sequence.
        unsafe { self.read(operand, step.line(sequence, channel), step.stride(), span, to) }
    }

    /// The taps of a channel, the oldest first.
    ///
    /// # Safety
    /// As for [`run`](fn@run).
    unsafe fn weight(&self, operand: usize, channel: i64, to: &mut [T]) {
        let from = self.step.tap(channel, 0);
        let stride = if self.taps > 1 { self.step.tap(channel, 1) - from } else { 1 };
        // SAFETY: the taps.
        unsafe { self.read(operand, from, stride, Span { begin: 0, end: self.taps }, to) }
    }

    /// The sums of `span` before the activation, from the row of x that `span.back(taps)` is.
    ///
    /// # Safety
    /// As for [`run`](fn@run); the processor has the level's instructions.
    unsafe fn sums(&self, span: Span, x: &[T], taps: &[T], bias: Option<T>, out: &mut [T]) {
        // SAFETY: the machine has the level.
        unsafe { (self.kernels.sums)(out, x, span.first_tap(taps.len(), span.back(taps.len())), taps, bias) }
    }

    /// # Safety
    /// As for [`run`](fn@run).
    unsafe fn bias(&self, operand: usize, channel: i64) -> Option<T> {
        // SAFETY: the channel's.
        self.step.bias.then(|| unsafe { self.number(operand, channel) })
    }

    /// Calls `work` with every tile of every group of channels of every sequence, on all threads: scratch of `bytes`, the
    /// sequence, the channels and the positions.
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
    /// As for [`run`](fn@run).
    unsafe fn forward(&self) -> Result<()> {
        self.by_tiles(Rows::<T>::bytes(3, self.row_room()), |scratch, sequence, channels, span| {
            for channel in channels {
                // SAFETY: scratch of three rows; positions and taps of a channel.
                unsafe { self.forward_tile(scratch, sequence, channel, span) };
            }
        })
    }

    /// # Safety
    /// As for [`run`](fn@run); scratch of three rows.
    unsafe fn forward_tile(&self, scratch: *mut u8, sequence: i64, channel: i64, span: Span) {
        // SAFETY: the caller's promise.
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

    /// The gradient of the sums before the activation at `span`, and what it takes of x; operands x, weight, bias and dy
    /// follow one another from `from` on.
    ///
    /// # Safety
    /// As for [`run`](fn@run).
    unsafe fn gradient<'r>(
        &self, rows: &mut Rows<T>, from: usize, place: [i64; 2], taps: &[T], span: Span,
    ) -> (&'r [T], &'r [T]) {
        // SAFETY: the caller's promise.
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
    /// As for [`run`](fn@run).
    unsafe fn data(&self) -> Result<()> {
        self.by_tiles(Rows::<T>::bytes(6, self.row_room()), |scratch, sequence, channels, span| {
            for channel in channels {
                // SAFETY: scratch of six rows; positions and taps of a channel.
                unsafe { self.data_tile(scratch, sequence, channel, span) };
            }
        })
    }

    /// # Safety
    /// As for [`run`](fn@run); scratch of six rows.
    unsafe fn data_tile(&self, scratch: *mut u8, sequence: i64, channel: i64, span: Span) {
        // SAFETY: the caller's promise.
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
    /// As for [`run`](fn@run).
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
    /// As for [`run`](fn@run); scratch for them.
    unsafe fn weights_of(&self, scratch: *mut u8, block: usize, channels: std::ops::Range<usize>) {
        let width = (self.taps - block).min(TAPS);
        let mut parts = Parts::new(scratch);
        // SAFETY: the caller's promise.
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

    /// Adds a tile of a channel of a sequence to the lanes of the taps from `block` on, and of the bias behind them.
    ///
    /// # Safety
    /// As for [`run`](fn@run); scratch of four rows.
    unsafe fn add(
        &self, scratch: *mut u8, place: [i64; 2], span: Span, (block, lanes): (usize, &mut [[T; LANES]]),
    ) {
        let width = lanes.len() - 1;
        // SAFETY: the caller's promise.
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
