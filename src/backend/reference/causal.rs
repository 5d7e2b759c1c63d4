//! The obvious loops of causal convolutions: a channel of a sequence at a time, tap by tap.

use super::Kind;
use crate::backend::Address;
use crate::backend::function::{Real, with_real};
use crate::dtype::convert::{convert, with_element};
use crate::dtype::math::sigmoid;
use crate::dtype::numbers::Math;
use crate::error::Result;
use crate::ops::causal::{Causal, CausalFunction, LANES, PARTS};

/// A step on its operands.
struct Loops<'a> {
    step: &'a Causal,
    at: &'a [Address],
}

/// Runs `step`; `at` are its operands as [`CausalFunction`] lists them, which need not be aligned.
///
/// # Safety
/// Every element of the destinations is writable (and readable if gradients are added), every
/// element of the other operands readable.
pub unsafe fn causal(step: &Causal, at: &[Address]) {
    let loops = Loops { step, at };
    with_real!(step.compute(), T => {
        // SAFETY: in every arm the elements of destinations are writable, those of other operands
        // readable.
        unsafe {
            match step.function {
                CausalFunction::Forward => loops.forward::<T>(),
                CausalFunction::Data => loops.data::<T>(),
                CausalFunction::Weights => loops.weights::<T>(),
                CausalFunction::Gated => loops.gated::<T>(),
                CausalFunction::GatedData => loops.gated_data::<T>(),
                CausalFunction::GatedWeights => loops.gated_weights::<T>(),
            }
        }
    });
}

/// `sum over k of w[k] x[t - (K - 1) + k]` for every position t.
fn causal_sums<T: Real>(x: &[T], w: &[T]) -> Vec<T> {
    (0..x.len())
        .map(|t| {
            let taps = (0..w.len()).filter(|k| t + k + 1 >= w.len());
            taps.fold(T::ZERO, |sum, k| sum + w[k] * x[t + k + 1 - w.len()])
        })
        .collect()
}

/// `sum over k of w[k] g[s + (K - 1) - k]` for every position s.
fn transposed_sums<T: Real>(g: &[T], w: &[T]) -> Vec<T> {
    (0..g.len())
        .map(|s| {
            let taps = (0..w.len()).rev().filter(|k| s + w.len() - 1 - k < g.len());
            taps.fold(T::ZERO, |sum, k| sum + w[k] * g[s + w.len() - 1 - k])
        })
        .collect()
}

fn products<T: Real>(a: &[T], b: &[T]) -> Vec<T> {
    a.iter().zip(b).map(|(&a, &b)| a * b).collect()
}

/// `a + s b`, element by element.
fn with_skip<T: Real>(a: &[T], s: T, b: &[T]) -> Vec<T> {
    a.iter().zip(b).map(|(&a, &b)| a + s * b).collect()
}

/// The sums over a batch of sequences of one weight's gradient.
struct Lanes<T>([T; LANES]);

impl<T: Real> Lanes<T> {
    fn new() -> Self {
        Lanes([T::ZERO; LANES])
    }

    /// Adds `g[t] x[t - back]` for every position where x has one.
    fn add(&mut self, g: &[T], x: &[T], back: usize) {
        for t in back..g.len() {
            self.0[t % LANES] = self.0[t % LANES] + g[t] * x[t - back];
        }
    }

    fn sum(&self) -> T {
        let mut sums = self.0.to_vec();
        while sums.len() > 1 {
            let (low, high) = sums.split_at(sums.len() / 2);
            sums = low.iter().zip(high).map(|(&a, &b)| a + b).collect();
        }
        sums[0]
    }
}

/// What a gated pair computes on the way, for one channel of one sequence.
struct Pair<T> {
    x: [Vec<T>; 3],
    projections: [Vec<T>; 3],
    mixer: Vec<T>,
    skip: T,
    /// The projected sequences.
    p: [Vec<T>; 3],
    /// The product of the last two.
    u: Vec<T>,
}

impl Loops<'_> {
    /// `n` numbers of an operand, `stride` apart.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn read<T: Real>(&self, operand: usize, first: i64, stride: i64, n: i64) -> Vec<T> {
        let base = self.at[operand].pointer();
        (0..n)
            .map(|i| {
                with_element!(self.step.scalar, S => {
                    // SAFETY: the operand has `n` readable elements from the first one on, a stride
                    // apart.
                    convert(unsafe { base.cast::<S>().offset((first + i * stride) as isize).read_unaligned() })
                })
            })
            .collect()
    }

    /// Writes numbers to an operand of this type, `stride` apart.
    ///
    /// # Safety
    /// Their places are writable.
    unsafe fn write<T: Real>(&self, operand: usize, first: i64, stride: i64, numbers: &[T]) {
        let base = self.at[operand].pointer();
        for (i, &number) in (0..).zip(numbers) {
            with_element!(self.step.scalar, D => {
                // SAFETY: the operand has a place for every number from the first one on, a stride
                // apart.
                unsafe {
                    let to = base.cast::<D>().offset((first + i * stride) as isize);
                    to.write_unaligned(convert(number.canonical()));
                }
            });
        }
    }

    /// Writes the gradient of a weight, or adds to it.
    ///
    /// # Safety
    /// Its place is writable, and readable if it is added to.
    unsafe fn put<T: Real>(&self, operand: usize, offset: i64, number: T) {
        with_element!(self.step.gradient, D => {
            // SAFETY: the operand has this place, which is readable if gradients are added.
            unsafe {
                let to = self.at[operand].pointer().cast::<D>().offset(offset as isize);
                let old: T = if self.step.adds { convert(to.read_unaligned()) } else { T::ZERO };
                let sum = if self.step.adds { old + number } else { number };
                to.write_unaligned(convert(sum.canonical()));
            }
        });
    }

    /// The taps of a channel, the oldest first.
    ///
    /// # Safety
    /// As for [`causal`].
    unsafe fn weight<T: Real>(&self, operand: usize, channel: i64) -> Vec<T> {
        let taps = 0..self.step.taps;
        // SAFETY: taps of the weight.
        taps.flat_map(|k| unsafe { self.read(operand, self.step.tap(channel, k), 0, 1) }).collect()
    }

    /// The sums before the activation; operands x, weight and bias follow one another from `x` on.
    ///
    /// # Safety
    /// As for [`causal`].
    unsafe fn sums<T: Real>(&self, x: usize, sequence: i64, channel: i64) -> Vec<T> {
        // SAFETY: a channel, its taps and its bias.
        unsafe {
            let line = self.line(x, sequence, channel);
            let sums: Vec<T> = causal_sums(&line, &self.weight(x + 1, channel));
            if !self.step.bias {
                return sums;
            }
            let bias: T = self.read(x + 2, channel, 0, 1)[0];
            sums.into_iter().map(|sum| sum + bias).collect()
        }
    }

    /// # Safety
    /// As for [`causal`].
    unsafe fn line<T: Real>(&self, operand: usize, sequence: i64, channel: i64) -> Vec<T> {
        let step = self.step;
        // SAFETY: a channel of a sequence.
        unsafe { self.read(operand, step.line(sequence, channel), step.stride(), step.length) }
    }

    /// The gradient of the sums before the activation; operands as for [`sums`](Loops::sums), and
    /// dy behind them.
    ///
    /// # Safety
    /// As for [`causal`].
    unsafe fn gradient<T: Real + Math>(&self, x: usize, sequence: i64, channel: i64) -> Vec<T> {
        // SAFETY: the gradient has this line of elements.
        let dy: Vec<T> = unsafe { self.line(x + 3, sequence, channel) };
        if self.step.is_linear() {
            return dy;
        }
        // SAFETY: x has this line of elements; weight and bias have this channel.
        let sums: Vec<T> = unsafe { self.sums(x, sequence, channel) };
        sums.iter().zip(&dy).map(|(&v, &dy)| dy * silu_slope(v)).collect()
    }

    /// # Safety
    /// As for [`causal`].
    unsafe fn forward<T: Real + Math>(&self) {
        let step = self.step;
        for (sequence, channel) in self.lines() {
            // SAFETY: the operands have a line for every sequence and channel, y's is writable.
            unsafe {
                let mut sums: Vec<T> = self.sums(1, sequence, channel);
                if step.silu {
                    sums.iter_mut().for_each(|v| *v = *v * sigmoid(*v));
                }
                self.write(0, step.line(sequence, channel), step.stride(), &sums);
            }
        }
    }

    /// # Safety
    /// As for [`causal`].
    unsafe fn data<T: Real + Math>(&self) {
        let step = self.step;
        for (sequence, channel) in self.lines() {
            // SAFETY: the operands have a line for every sequence and channel, that of dx is
            // writable.
            unsafe {
                let g: Vec<T> = self.gradient(1, sequence, channel);
                let dx = transposed_sums(&g, &self.weight(2, channel));
                self.write(0, step.line(sequence, channel), step.stride(), &dx);
            }
        }
    }

    /// # Safety
    /// As for [`causal`].
    unsafe fn weights<T: Real + Math>(&self) {
        let step = self.step;
        for channel in 0..step.channels {
            let mut taps: Vec<Lanes<T>> = (0..step.taps).map(|_| Lanes::new()).collect();
            let mut bias = Lanes::new();
            for sequence in 0..step.batch {
                // SAFETY: the operands have a line for every sequence and channel.
                let (g, x) = unsafe {
                    (self.gradient::<T>(2, sequence, channel), self.line::<T>(2, sequence, channel))
                };
                for (k, lanes) in taps.iter_mut().rev().enumerate() {
                    lanes.add(&g, &x, k);
                }
                bias.add(&g, &vec![T::ONE; g.len()], 0);
            }
            // SAFETY: the gradients have a place for every tap and bias of the channel.
            unsafe {
                for (k, lanes) in (0..).zip(&taps) {
                    self.put(0, step.tap(channel, k), lanes.sum());
                }
                if step.bias {
                    self.put(1, channel, bias.sum());
                }
            }
        }
    }

    /// Every channel of every sequence.
    fn lines(&self) -> impl Iterator<Item = (i64, i64)> + use<> {
        let Causal { batch, channels, .. } = *self.step;
        (0..batch).flat_map(move |sequence| (0..channels).map(move |channel| (sequence, channel)))
    }

    /// What a gated pair computes on the way; operands x, projections, mixer and skip follow one
    /// another from `x` on.
    ///
    /// # Safety
    /// As for [`causal`].
    unsafe fn pair<T: Real>(&self, from: usize, sequence: i64, channel: i64) -> Pair<T> {
        let step = self.step;
        // SAFETY: a channel, its taps and its factor.
        unsafe {
            let x = [0, 1, 2].map(|q| self.read::<T>(from, step.part(sequence, channel, q), 1, step.length));
            let projections =
                [0, 1, 2].map(|q| self.read::<T>(from + 1, step.projection(channel, q, 0), 1, step.taps));
            let p = [0, 1, 2].map(|q| causal_sums(&x[q], &projections[q]));
            let u = products(&p[1], &p[2]);
            let mixer = self.read(from + 2, channel * step.mixer, 1, step.mixer);
            let skip = self.read(from + 3, channel, 0, 1)[0];
            Pair { x, projections, mixer, skip, p, u }
        }
    }

    /// The gradients of the three projected sequences, and of what is skipped and mixed.
    ///
    /// # Safety
    /// As for [`causal`].
    unsafe fn pair_gradients<T: Real>(
        &self, pair: &Pair<T>, from: usize, sequence: i64, channel: i64,
    ) -> ([Vec<T>; 3], Vec<T>) {
        // SAFETY: a channel of a sequence.
        let [y, dy] = [4, 5].map(|k| unsafe { self.line::<T>(from + k, sequence, channel) });
        let d = products(&dy, &pair.p[0]);
        let du = with_skip(&transposed_sums(&d, &pair.mixer), pair.skip, &d);
        ([products(&dy, &y), products(&du, &pair.p[2]), products(&du, &pair.p[1])], d)
    }

    /// # Safety
    /// As for [`causal`].
    unsafe fn gated<T: Real>(&self) {
        for (sequence, channel) in self.lines() {
            // SAFETY: the operands have a line for every sequence and channel, which is writable in
            // both destinations.
            unsafe {
                let pair = self.pair::<T>(2, sequence, channel);
                let y = with_skip(&causal_sums(&pair.u, &pair.mixer), pair.skip, &pair.u);
                let to = self.step.line(sequence, channel);
                self.write(0, to, 1, &y);
                self.write(1, to, 1, &products(&y, &pair.p[0]));
            }
        }
    }

    /// # Safety
    /// As for [`causal`].
    unsafe fn gated_data<T: Real>(&self) {
        for (sequence, channel) in self.lines() {
            // SAFETY: the operands have a line for every sequence and channel, and every part of
            // the gradient is writable.
            unsafe {
                let pair = self.pair::<T>(1, sequence, channel);
                let (dp, _) = self.pair_gradients(&pair, 1, sequence, channel);
                for (q, dp) in (0..PARTS).zip(&dp) {
                    let dx = transposed_sums(dp, &pair.projections[q as usize]);
                    self.write(0, self.step.part(sequence, channel, q), 1, &dx);
                }
            }
        }
    }

    /// # Safety
    /// As for [`causal`].
    unsafe fn gated_weights<T: Real>(&self) {
        let step = self.step;
        let empty = |n: i64| -> Vec<Lanes<T>> { (0..n).map(|_| Lanes::new()).collect() };
        for channel in 0..step.channels {
            let mut projections = [0, 1, 2].map(|_| empty(step.taps));
            let (mut mixer, mut skip) = (empty(step.mixer), Lanes::new());
            for sequence in 0..step.batch {
                // SAFETY: the operands have a line for every sequence and channel.
                let (pair, (dp, d)) = unsafe {
                    let pair = self.pair::<T>(3, sequence, channel);
                    let gradients = self.pair_gradients(&pair, 3, sequence, channel);
                    (pair, gradients)
                };
                for ((taps, dp), x) in projections.iter_mut().zip(&dp).zip(&pair.x) {
                    taps.iter_mut().rev().enumerate().for_each(|(k, lanes)| lanes.add(dp, x, k));
                }
                mixer.iter_mut().rev().enumerate().for_each(|(k, lanes)| lanes.add(&d, &pair.u, k));
                skip.add(&d, &pair.u, 0);
            }
            // SAFETY: the gradients have a place for every tap, projection and bias of the channel.
            unsafe {
                for (q, taps) in (0..).zip(&projections) {
                    for (k, lanes) in (0..).zip(taps) {
                        self.put(0, step.projection(channel, q, k), lanes.sum());
                    }
                }
                for (k, lanes) in (0..).zip(&mixer) {
                    self.put(1, channel * step.mixer + k, lanes.sum());
                }
                self.put(2, channel, skip.sum());
            }
        }
    }
}

/// The slope of `v sigmoid(v)`.
fn silu_slope<T: Real + Math>(v: T) -> T {
    let s = sigmoid(v);
    s + v * (s * (T::ONE - s))
}

impl Kind for Causal {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { causal(self, at) };
        Ok(())
    }
}
