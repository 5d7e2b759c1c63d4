//! Filters with many taps: blocks of positions are convolved by [transforms](super::fft) in
//! binary64, two blocks of a sequence at a time, as the real and the imaginary part.
//!
//! The error of a transform grows with the largest products of a sequence, and one that is no
//! number spoils all results: where products might not be finite, sums are added term by term.

use super::fft::{self, Complex};
use super::{Job, Rows, Span, TAPS, TILE};
use crate::backend::cpu::scratch::{Parts, bytes_of};
use crate::backend::cpu::{arena, threads};
use crate::backend::function::Real;
use crate::dtype::convert::convert;
use crate::dtype::numbers::Math;
use crate::error::Result;
use crate::ops::causal::CausalFunction;

/// Points of the smallest transform: of fewer, too many would only repeat what the block before
/// has.
const LEAST_POINTS: usize = 1024;

/// Products of sums of absolute values that stay finite however they are added, with room for
/// rounding.
const FINITE: f64 = 1e290;

/// Whether products of such sums of absolute values are; a NaN is not less than anything.
fn are_finite(products: f64) -> bool {
    products < FINITE
}

/// Scratch of a thread beyond which one thread computes alone.
const SERIAL_SCRATCH: usize = 256 << 20;

/// The numbers of a transform in scratch, zeros at first.
///
/// # Safety
/// There is scratch for them that nobody else uses.
unsafe fn numbers<'a>(parts: &mut Parts, points: usize) -> Complex<'a> {
    // SAFETY: the scratch has room for two numbers a point.
    Complex::of(unsafe { parts.filled(2 * points, 0.0) })
}

/// What every channel is computed with.
struct Transforms<'a> {
    kernels: fft::Kernels<f64>,
    roots: &'a [f64],
    points: usize,
    /// Positions of a block.
    block: usize,
}

impl Transforms<'_> {
    fn forward(&self, z: &mut Complex<'_>) {
        // SAFETY: the machine has the level.
        unsafe { (self.kernels.forward)(z.re, z.im, self.roots) }
    }

    fn inverse(&self, z: &mut Complex<'_>) {
        // SAFETY: the machine has the level.
        unsafe { (self.kernels.inverse)(z.re, z.im, self.roots) }
    }

    fn scale(&self) -> f64 {
        1.0 / self.points as f64
    }
}

impl<T: Real + Math> Job<'_, T> {
    /// Points of the transforms: blocks three times as long as what they share, or the whole
    /// sequence at once.
    fn points(&self) -> usize {
        let whole = (self.length + self.taps - 1).next_power_of_two();
        (4 * self.taps).next_power_of_two().max(LEAST_POINTS).min(whole)
    }

    /// Runs a step whose filters are [transformed](crate::ops::causal::Causal::is_transformed).
    ///
    /// # Errors
    /// As for [`super::run`].
    ///
    /// # Safety
    /// As for [`super::run`].
    pub(super) unsafe fn transformed(&self) -> Result<()> {
        let points = self.points();
        arena::with(bytes_of::<f64>(fft::roots_len(points)), |roots| {
            // SAFETY: as many numbers, of which nobody else knows.
            let roots = unsafe { Parts::new(roots).filled(fft::roots_len(points), 0.0) };
            if !arena::is_surveying() {
                fft::roots(points, roots);
            }
            let kernels = fft::Kernels::of(self.machine.isa);
            let transforms = Transforms { kernels, roots, points, block: points + 1 - self.taps };
            let of_transforms = bytes_of::<f64>(2 * points).saturating_mul(3);
            let of_rows = Rows::<T>::bytes(6, self.row_room()).max(self.bytes_of_weights(1));
            let bytes = of_transforms.saturating_add(of_rows);
            let threads = if bytes > SERIAL_SCRATCH { 1 } else { self.threads(self.taps) };
            threads::in_ranges(threads, self.step.channels as usize, bytes, &|scratch, channels| {
                for channel in channels {
                    // SAFETY: scratch for three transforms and rows; positions and taps of a
                    // channel.
                    unsafe {
                        match self.step.function {
                            CausalFunction::Weights => {
                                self.transformed_weights(&transforms, scratch, channel as i64)
                            }
                            _ => self.transformed_sums(&transforms, scratch, channel as i64),
                        }
                    }
                }
            })
        })
    }

    /// Writes the numbers of `span` of a channel of a sequence to `to`, and the sum of their
    /// absolute values.
    ///
    /// # Safety
    /// As for [`super::run`].
    unsafe fn widened(&self, operand: usize, place: [i64; 2], span: Span, to: &mut [f64]) -> f64 {
        let mut tile = [T::ZERO; 256];
        let mut size = 0.0;
        for begin in (span.begin..span.end).step_by(tile.len()) {
            let part = Span { begin, end: span.end.min(begin + tile.len()) };
            let tile = &mut tile[..part.len()];
            // SAFETY: the part lies inside the line of the operand.
            unsafe { self.line(operand, place, part, tile) };
            for (to, &number) in to[begin - span.begin..].iter_mut().zip(&*tile) {
                *to = convert(number);
                size += to.abs();
            }
        }
        size
    }

    /// The sum of the absolute values of a sequence.
    ///
    /// # Safety
    /// As for [`super::run`].
    unsafe fn size(&self, operand: usize, place: [i64; 2], room: &mut [f64]) -> f64 {
        let spans = (0..self.length).step_by(room.len());
        // SAFETY: the spans lie inside the line of the operand.
        spans
            .map(|begin| unsafe {
                self.widened(operand, place, Span { begin, end: self.length.min(begin + room.len()) }, room)
            })
            .sum()
    }

    /// Pairs of blocks of a sequence; the second may be empty.
    fn pairs(&self, block: usize) -> impl Iterator<Item = [Span; 2]> + use<T> {
        let length = self.length;
        (0..length).step_by(2 * block).map(move |begin| {
            let at = |k: usize| length.min(begin + k * block);
            [Span { begin: at(0), end: at(1) }, Span { begin: at(1), end: at(2) }]
        })
    }

    /// The taps of a channel and the sum of their absolute values, as the newest comes first.
    ///
    /// # Safety
    /// As for [`super::run`].
    unsafe fn wide_taps(&self, scratch: *mut u8, operand: usize, channel: i64, to: &mut [f64]) -> f64 {
        // SAFETY: scratch of a row, and the taps of a channel.
        unsafe {
            let taps = Rows::<T>::new(scratch, self.row_room()).take(self.taps);
            self.weight(operand, channel, taps);
            let mut size = 0.0;
            for (to, &tap) in to.iter_mut().zip(taps.iter().rev()) {
                *to = convert(tap);
                size += to.abs();
            }
            size
        }
    }

    /// The sums of a channel of every sequence: of x, or of dy for its gradient.
    ///
    /// # Safety
    /// As for [`super::run`]; scratch for three transforms and rows.
    unsafe fn transformed_sums(&self, transforms: &Transforms<'_>, scratch: *mut u8, channel: i64) {
        let (step, Transforms { points, block, kernels, .. }) = (self.step, transforms);
        let is_forward = step.function == CausalFunction::Forward;
        let (operand, shared) = if is_forward { (1, self.taps - 1) } else { (4, 0) };
        let mut parts = Parts::new(scratch);
        // SAFETY: the scratch holds three transforms and rows; the operands have the lines of every
        // sequence and channel.
        unsafe {
            let (mut taps, mut z) = (numbers(&mut parts, *points), numbers(&mut parts, *points));
            let scratch = scratch.add(parts.bytes);
            let of_taps = self.wide_taps(scratch, 2, channel, taps.re);
            transforms.forward(&mut taps);
            for sequence in 0..step.batch {
                let place = [sequence, channel];
                let products = of_taps * self.size(operand, place, z.re);
                if !are_finite(products) {
                    self.plain_sums(scratch, place);
                    continue;
                }
                for pair in self.pairs(*block) {
                    for (span, to) in pair.iter().zip([&mut *z.re, &mut *z.im]) {
                        let reach =
                            if is_forward { span.back(self.taps) } else { span.on(self.taps, self.length) };
                        to.fill(0.0);
                        if span.len() > 0 {
                            // Positions before the sequence are zeros.
                            let first = shared - if is_forward { span.begin - reach.begin } else { 0 };
                            self.widened(operand, place, reach, &mut to[first..]);
                        }
                    }
                    transforms.forward(&mut z);
                    let product = if is_forward { kernels.multiply } else { kernels.correlate };
                    product([z.re, z.im], [taps.re, taps.im], transforms.scale());
                    transforms.inverse(&mut z);
                    for (&span, sums) in pair.iter().zip([&*z.re, &*z.im]) {
                        self.write_wide(place, span, &sums[shared..]);
                    }
                }
            }
        }
    }

    /// Writes sums of binary64 to `span` of the result.
    ///
    /// # Safety
    /// As for [`super::run`].
    unsafe fn write_wide(&self, [sequence, channel]: [i64; 2], span: Span, sums: &[f64]) {
        let mut tile = [T::ZERO; 256];
        for begin in (span.begin..span.end).step_by(tile.len()) {
            let part = Span { begin, end: span.end.min(begin + tile.len()) };
            let tile = &mut tile[..part.len()];
            tile.iter_mut().zip(&sums[begin - span.begin..]).for_each(|(to, &sum)| *to = convert(sum));
            // SAFETY: the part lies inside the line of the destination, which is this task's alone.
            unsafe { self.write(0, self.step.line(sequence, channel), self.step.stride(), part, tile) };
        }
    }

    /// The sums of a channel of a sequence as they are written.
    ///
    /// # Safety
    /// As for [`super::run`]; scratch of six rows.
    unsafe fn plain_sums(&self, scratch: *mut u8, [sequence, channel]: [i64; 2]) {
        for (_, span) in self.spans().take(self.length.div_ceil(TILE)) {
            // SAFETY: the operands are those of the step, and the scratch holds six rows.
            unsafe {
                match self.step.function {
                    CausalFunction::Forward => self.forward_tile(scratch, sequence, channel, span),
                    _ => self.data_tile(scratch, sequence, channel, span),
                }
            }
        }
    }

    /// The gradients of the taps of a channel.
    ///
    /// # Safety
    /// As for [`super::run`]; scratch for three transforms and rows.
    unsafe fn transformed_weights(&self, transforms: &Transforms<'_>, scratch: *mut u8, channel: i64) {
        let (step, Transforms { points, block, kernels, .. }) = (self.step, transforms);
        let mut parts = Parts::new(scratch);
        // SAFETY: the scratch holds three transforms and rows; the operands have the lines of every
        // sequence and channel.
        unsafe {
            let mut sums = numbers(&mut parts, *points);
            let (mut x, mut g) = (numbers(&mut parts, *points), numbers(&mut parts, *points));
            let of_products = |sequence| {
                let place = [sequence, channel];
                self.size(2, place, x.re) * self.size(5, place, g.re)
            };
            if !are_finite((0..step.batch).map(of_products).sum()) {
                return self.plain_weights(scratch.add(parts.bytes), channel as usize);
            }
            for place in (0..step.batch).map(|sequence| [sequence, channel]) {
                for pair in self.pairs(*block) {
                    let of_pair = pair.iter().zip([&mut *x.re, &mut *x.im]).zip([&mut *g.re, &mut *g.im]);
                    for ((&span, x), g) in of_pair {
                        x.fill(0.0);
                        g.fill(0.0);
                        if span.len() > 0 {
                            // Both begin where the first tap reads, so that a tap is how far x is
                            // shifted.
                            let (reach, first) = (span.back(self.taps), self.taps - 1);
                            self.widened(2, place, reach, &mut x[first - (span.begin - reach.begin)..]);
                            self.widened(5, place, span, &mut g[first..]);
                        }
                    }
                    transforms.forward(&mut x);
                    transforms.forward(&mut g);
                    // Of the product with the conjugate the real part is the sum over both blocks.
                    (kernels.accumulate)([sums.re, sums.im], [g.re, g.im], [x.re, x.im]);
                }
            }
            transforms.inverse(&mut sums);
            let scale = transforms.scale();
            for k in 0..self.taps {
                let sum: T = convert(sums.re[self.taps - 1 - k] * scale);
                self.put_sum(0, step.tap(channel, k as i64), sum);
            }
        }
    }

    /// The gradients of the taps of a channel as they are written.
    ///
    /// # Safety
    /// As for [`super::run`]; scratch for lanes and rows.
    unsafe fn plain_weights(&self, scratch: *mut u8, channel: usize) {
        for block in (0..self.taps).step_by(TAPS) {
            // SAFETY: the operands are those of the step, and the scratch holds lanes and rows.
            unsafe { self.weights_of(scratch, block, channel..channel + 1) };
        }
    }
}
