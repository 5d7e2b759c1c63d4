//! Gated pairs: everything between the operands is computed anew for each tile.

use super::{Job, Rows, Span, TILE};
use crate::backend::cpu::scratch::{Parts, bytes_of};
use crate::backend::cpu::threads;
use crate::backend::function::Real;
use crate::dtype::numbers::Math;
use crate::error::Result;
use crate::ops::causal::LANES;

/// Rows that a gradient takes.
const ROWS: usize = 20;

/// The weights of a channel, the oldest tap first, and the factor of what is skipped.
struct Weights<'r, T> {
    projections: [&'r mut [T]; 3],
    mixer: &'r mut [T],
    skip: T,
}

/// What the gradients of a tile are made from.
struct Gradients<'r, T> {
    /// The gradients of the projected sequences.
    dp: [&'r mut [T]; 3],
    /// The gradient of the mixed sequence.
    d: &'r mut [T],
}

fn multiply<T: Real>(a: &mut [T], b: &[T]) {
    a.iter_mut().zip(b).for_each(|(a, &b)| *a = *a * b);
}

/// `a + s b`.
fn add_skipped<T: Real>(a: &mut [T], s: T, b: &[T]) {
    a.iter_mut().zip(b).for_each(|(a, &b)| *a = *a + s * b);
}

impl<T: Real + Math> Job<'_, T> {
    /// Numbers that a row of a gated pair may need.
    fn room(&self) -> usize {
        3 * self.taps + 2 * self.mixer + TILE
    }

    /// # Safety
    /// As for [`super::run`]; projections are operand `from`, mixer and skip the next two.
    unsafe fn pair_weights<'r>(&self, rows: &mut Rows<T>, from: usize, channel: i64) -> Weights<'r, T> {
        let all = |n| Span { begin: 0, end: n };
        // SAFETY: a channel has these taps in each projection.
        let projections = [0, 1, 2].map(|q| unsafe {
            let taps = rows.take(self.taps);
            self.read(from, self.step.projection(channel, q, 0), 1, all(self.taps), taps);
            taps
        });
        let mixer = rows.take(self.mixer);
        // SAFETY: the operands from `from` on are projections, mixer and skip, and have this
        // channel.
        let skip = unsafe {
            self.read(from + 1, channel * self.step.mixer, 1, all(self.mixer), mixer);
            self.number(from + 2, channel)
        };
        Weights { projections, mixer, skip }
    }

    /// A projected sequence at `span`.
    ///
    /// # Safety
    /// As for [`super::run`].
    unsafe fn projected<'r>(
        &self, rows: &mut Rows<T>, x: usize, [sequence, channel]: [i64; 2], (part, taps): (usize, &[T]),
        span: Span,
    ) -> &'r mut [T] {
        let reach = span.back(self.taps);
        let (from, out) = (rows.take(reach.len()), rows.take(span.len()));
        // SAFETY: positions of a part.
        unsafe {
            self.read(x, self.step.part(sequence, channel, part as i64), 1, reach, from);
            self.sums(span, from, taps, None, out);
        }
        out
    }

    /// # Safety
    /// As for [`super::run`].
    pub(super) unsafe fn gated(&self) -> Result<()> {
        let room = self.room();
        self.by_tiles(Rows::<T>::bytes(ROWS, room), |scratch, sequence, channels, span| {
            for channel in channels {
                let place = [sequence, channel];
                // SAFETY: scratch of as many rows; positions and taps of a channel.
                unsafe {
                    let mut rows = Rows::<T>::new(scratch, room);
                    let weights = self.pair_weights(&mut rows, 3, channel);
                    let reach = span.back(self.mixer);
                    let u = self.projected(&mut rows, 2, place, (1, weights.projections[1]), reach);
                    multiply(u, self.projected(&mut rows, 2, place, (2, weights.projections[2]), reach));
                    let y = rows.take(span.len());
                    self.sums(span, u, weights.mixer, None, y);
                    add_skipped(y, weights.skip, &u[span.begin - reach.begin..]);
                    let gate = self.projected(&mut rows, 2, place, (0, weights.projections[0]), span);
                    multiply(gate, y);
                    let to = self.step.line(sequence, channel);
                    self.write(0, to, 1, span, y);
                    self.write(1, to, 1, span, gate);
                }
            }
        })
    }

    /// The gradients at `span`; x, its weights, y and dy follow one another from operand `from` on.
    ///
    /// # Safety
    /// As for [`super::run`].
    unsafe fn pair_gradients<'r>(
        &self, rows: &mut Rows<T>, from: usize, place: [i64; 2], weights: &Weights<'_, T>, span: Span,
    ) -> Gradients<'r, T> {
        // SAFETY: positions of a channel.
        unsafe {
            let reach = span.on(self.mixer, self.length);
            let d = rows.take(reach.len());
            self.line(from + 5, place, reach, d);
            let first = rows.take(span.len());
            self.line(from + 4, place, span, first);
            multiply(first, d);
            multiply(d, self.projected(rows, from, place, (0, weights.projections[0]), reach));
            let du = rows.take(span.len());
            let mixer = rows.take(self.mixer);
            mixer.iter_mut().zip(weights.mixer.iter().rev()).for_each(|(to, &tap)| *to = tap);
            (self.kernels.sums)(du, d, 0, mixer, None);
            add_skipped(du, weights.skip, d);
            let [second, third] =
                [2, 1].map(|q| self.projected(rows, from, place, (q, weights.projections[q]), span));
            multiply(second, du);
            multiply(third, du);
            Gradients { dp: [first, second, third], d }
        }
    }

    /// # Safety
    /// As for [`super::run`].
    pub(super) unsafe fn gated_data(&self) -> Result<()> {
        let room = self.room();
        self.by_tiles(Rows::<T>::bytes(ROWS, room), |scratch, sequence, channels, span| {
            for channel in channels {
                let place = [sequence, channel];
                // SAFETY: scratch of as many rows; positions and taps of a channel.
                unsafe {
                    let mut rows = Rows::<T>::new(scratch, room);
                    let mut weights = self.pair_weights(&mut rows, 2, channel);
                    let reach = span.on(self.taps, self.length);
                    let gradients = self.pair_gradients(&mut rows, 1, place, &weights, reach);
                    let dx = rows.take(span.len());
                    for (q, taps) in weights.projections.iter_mut().enumerate() {
                        taps.reverse();
                        (self.kernels.sums)(dx, gradients.dp[q], 0, taps, None);
                        self.write(0, self.step.part(sequence, channel, q as i64), 1, span, dx);
                    }
                }
            }
        })
    }

    /// # Safety
    /// As for [`super::run`].
    pub(super) unsafe fn gated_weights(&self) -> Result<()> {
        let (room, step) = (self.room(), self.step);
        let of_lanes = 3 * self.taps + self.mixer + 1;
        let bytes = Rows::<T>::bytes(ROWS, room).saturating_add(bytes_of::<[T; LANES]>(of_lanes));
        let threads = self.threads(self.taps.max(self.mixer));
        threads::in_ranges(threads, step.channels as usize, bytes, &|scratch, range| {
            for channel in range {
                let channel = channel as i64;
                // SAFETY: scratch for lanes and rows; positions and taps of a channel.
                unsafe {
                    let mut parts = Parts::new(scratch);
                    let lanes = parts.filled(of_lanes, [T::ZERO; LANES]);
                    let scratch = scratch.add(parts.bytes);
                    for (sequence, span) in self.spans() {
                        self.add_pair(Rows::new(scratch, room), [sequence, channel], span, lanes);
                    }
                    let (projections, rest) = lanes.split_at_mut(3 * self.taps);
                    for (k, lanes) in projections.iter_mut().enumerate() {
                        self.put(0, step.projection(channel, 0, k as i64), lanes);
                    }
                    let (mixer, skip) = rest.split_at_mut(self.mixer);
                    for (k, lanes) in mixer.iter_mut().enumerate() {
                        self.put(1, channel * step.mixer + k as i64, lanes);
                    }
                    self.put(2, channel, &mut skip[0]);
                }
            }
        })
    }

    /// Adds a tile of a channel of a sequence to the lanes of the projections, the mixer and skip.
    ///
    /// # Safety
    /// As for [`super::run`].
    unsafe fn add_pair(&self, mut rows: Rows<T>, place: [i64; 2], span: Span, lanes: &mut [[T; LANES]]) {
        let rows = &mut rows;
        let [sequence, channel] = place;
        // SAFETY: positions and taps of a channel.
        unsafe {
            let weights = self.pair_weights(rows, 4, channel);
            let Gradients { dp, d } = self.pair_gradients(rows, 3, place, &weights, span);
            let reach = span.back(self.taps);
            let x = rows.take(reach.len());
            let (projections, rest) = lanes.split_at_mut(3 * self.taps);
            for (q, (lanes, dp)) in projections.chunks_mut(self.taps).zip(&dp).enumerate() {
                self.read(3, self.step.part(sequence, channel, q as i64), 1, reach, x);
                (self.kernels.gradients)(lanes, dp, x, span.first_tap(self.taps, reach));
            }
            let reach = span.back(self.mixer);
            let u = self.projected(rows, 3, place, (1, weights.projections[1]), reach);
            multiply(u, self.projected(rows, 3, place, (2, weights.projections[2]), reach));
            let (mixer, skip) = rest.split_at_mut(self.mixer);
            let d = &d[..span.len()];
            (self.kernels.gradients)(mixer, d, u, span.first_tap(self.mixer, reach));
            (self.kernels.gradients)(skip, d, &u[span.begin - reach.begin..], 0);
        }
    }
}
