//! The obvious loops of sampling: every position, every channel, every tap.

use super::Kind;
use super::{load, store};
use crate::backend::Address;
use crate::backend::function::{Real, with_real};
use crate::dtype::numbers::Math;
use crate::error::Result;
use crate::ops::sample::{LANES, Pictures, Sample, SampleFunction};

/// The coordinate of pixel `i` of `n`.
fn coordinate<T: Real>(i: i64, n: i64) -> T {
    if n == 1 { T::ZERO } else { T::from_f64((2 * i - (n - 1)) as f64) / T::from_f64((n - 1) as f64) }
}

/// The taps along one axis, each with its weight, where they are pixels.
type Taps<T> = [Option<(i64, T)>; 2];

/// The taps of a coordinate on an axis of `n` pixels, or none where all of them are outside.
fn taps<T: Real + Math>(g: T, n: i64) -> Option<Taps<T>> {
    let p = (g + T::ONE) * T::from_f64((n - 1) as f64 * 0.5);
    let first = p.to_f64().floor();
    if !(first >= -1.0 && first <= (n - 1) as f64) {
        return None;
    }
    let beyond = p - T::from_f64(first);
    let tap = |i: i64, weight: T| (0..n).contains(&i).then_some((i, weight));
    Some([tap(first as i64, T::ONE - beyond), tap(first as i64 + 1, beyond)])
}

/// A step on its operands.
struct Loops<'a> {
    step: &'a Sample,
    at: &'a [Address],
}

/// Runs `step`; `at` are its operands as [`SampleFunction`] lists them.
///
/// # Safety
/// Every element of the destination is writable (and readable if `beta != 0`), every element of the
/// other operands readable, each for one scalar; all addresses are aligned.
pub unsafe fn sample(step: &Sample, at: &[Address]) {
    let loops = Loops { step, at };
    with_real!(step.compute, T => {
        // SAFETY: in every arm the elements of the destination are writable, those of other
        // operands readable.
        unsafe {
            match step.function {
                SampleFunction::AffineGrid => loops.affine_grid::<T>(),
                SampleFunction::AffineGradient => loops.affine_gradient::<T>(),
                SampleFunction::Bilinear => loops.bilinear::<T>(),
                SampleFunction::DataGradient => loops.data_gradient::<T>(),
                SampleFunction::GridGradient => loops.grid_gradient::<T>(),
            }
        }
    });
}

impl Loops<'_> {
    /// # Safety
    /// The element is one of this operand's.
    unsafe fn number<T: Real>(&self, operand: usize, scalar: crate::dtype::Scalar, offset: i64) -> T {
        // SAFETY: the element is one of this operand's.
        unsafe { load(scalar, self.at[operand].pointer(), offset) }
    }

    /// # Safety
    /// The element is one of the destination's.
    unsafe fn put<T: Real>(&self, scalar: crate::dtype::Scalar, offset: i64, x: T) {
        // SAFETY: the element is one of the destination's.
        unsafe { store(scalar, self.at[0].pointer(), offset, x.canonical(), self.step.scaling) }
    }

    /// # Safety
    /// As for [`sample`].
    unsafe fn affine_grid<T: Real + Math>(&self) {
        let [rows, columns] = self.step.target;
        for n in 0..self.step.images {
            for place in 0..rows * columns {
                let (x, y): (T, T) =
                    (coordinate(place % columns, columns), coordinate(place / columns, rows));
                for i in 0..2 {
                    // SAFETY: a row of a map, and a number of the grid.
                    unsafe {
                        let [a, b, c] =
                            [0, 1, 2].map(|j| self.number::<T>(1, self.step.grid, (n * 2 + i) * 3 + j));
                        self.put(self.step.grid, (n * rows * columns + place) * 2 + i, a * x + b * y + c);
                    }
                }
            }
        }
    }

    /// # Safety
    /// As for [`sample`].
    unsafe fn affine_gradient<T: Real + Math>(&self) {
        let [rows, columns] = self.step.target;
        for entry in 0..self.step.images * 6 {
            let (n, i, j) = (entry / 6, entry / 3 % 2, entry % 3);
            let mut lanes = [0.0_f64; LANES];
            for place in 0..rows * columns {
                let factor: T = match j {
                    0 => coordinate(place % columns, columns),
                    1 => coordinate(place / columns, rows),
                    _ => T::ONE,
                };
                // SAFETY: a number of the gradient.
                let given: T =
                    unsafe { self.number(1, self.step.grid, (n * rows * columns + place) * 2 + i) };
                lanes[place as usize % LANES] += given.to_f64() * factor.to_f64();
            }
            let mut sums = lanes.to_vec();
            while sums.len() > 1 {
                let (low, high) = sums.split_at(sums.len() / 2);
                sums = low.iter().zip(high).map(|(a, b)| a + b).collect();
            }
            // SAFETY: a number of the maps.
            unsafe { self.put(self.step.grid, entry, T::from_f64(sums[0])) };
        }
    }

    /// Taps along y and x at a position of the grid, operand `grid`.
    ///
    /// # Safety
    /// As for [`sample`].
    unsafe fn taps<T: Real + Math>(&self, grid: usize, n: i64, place: i64) -> Option<[Taps<T>; 2]> {
        let at = (n * self.step.positions() + place) * 2;
        // SAFETY: two numbers of the grid.
        let [x, y] = [0, 1].map(|i| unsafe { self.number::<T>(grid, self.step.grid, at + i) });
        Some([taps(y, self.step.source[0])?, taps(x, self.step.source[1])?])
    }

    /// Calls `work` with the pixel and the weight of every tap inside the picture, in row-major
    /// order.
    fn each_tap<T: Real>([down, across]: [Taps<T>; 2], mut work: impl FnMut([i64; 2], T)) {
        for (h, below) in down.into_iter().flatten() {
            for (w, right) in across.into_iter().flatten() {
                work([h, w], below * right);
            }
        }
    }

    /// # Safety
    /// As for [`sample`].
    unsafe fn bilinear<T: Real + Math>(&self) {
        let (Sample { x, y, channels, target, .. }, positions) = (self.step, self.step.positions());
        for n in 0..self.step.images {
            for c in 0..*channels {
                for place in 0..positions {
                    let mut total = T::ZERO;
                    // SAFETY: taps are pixels inside the picture, and the indices are inside their
                    // operands.
                    unsafe {
                        if let Some(taps) = self.taps::<T>(2, n, place) {
                            Self::each_tap(taps, |[h, w], weight| {
                                total =
                                    total + weight * self.number::<T>(1, x.scalar, x.offset([n, c, h, w]));
                            });
                        }
                        let to = y.offset([n, c, place / target[1], place % target[1]]);
                        self.put(y.scalar, to, total);
                    }
                }
            }
        }
    }

    /// # Safety
    /// As for [`sample`].
    unsafe fn data_gradient<T: Real + Math>(&self) {
        let Sample { x, y, channels, target, source: [rows, columns], .. } = self.step;
        for n in 0..self.step.images {
            for c in 0..*channels {
                let mut sums = vec![T::ZERO; (rows * columns) as usize];
                for place in 0..self.step.positions() {
                    // SAFETY: the sample, channel and position are inside the gradient and the
                    // grid.
                    let (taps, given) = unsafe {
                        let from = y.offset([n, c, place / target[1], place % target[1]]);
                        (self.taps::<T>(2, n, place), self.number::<T>(1, y.scalar, from))
                    };
                    let Some(taps) = taps else { continue };
                    Self::each_tap(taps, |[h, w], weight| {
                        let sum = &mut sums[(h * columns + w) as usize];
                        *sum = *sum + given * weight;
                    });
                }
                for (pixel, sum) in (0..).zip(sums) {
                    // SAFETY: a pixel of the destination.
                    unsafe { self.put(x.scalar, x.offset([n, c, pixel / columns, pixel % columns]), sum) };
                }
            }
        }
    }

    /// # Safety
    /// As for [`sample`].
    unsafe fn grid_gradient<T: Real + Math>(&self) {
        let Sample { x, y, channels, target, .. } = self.step;
        let halves = self.step.halves().map(T::from_f64);
        for n in 0..self.step.images {
            for place in 0..self.step.positions() {
                let mut sums = [T::ZERO; 2];
                // SAFETY: the grid has a pair of numbers for every position.
                if let Some([down, across]) = unsafe { self.taps::<T>(3, n, place) } {
                    let weight = |tap: Option<(i64, T)>| tap.map_or(T::ZERO, |(_, weight)| weight);
                    for c in 0..*channels {
                        // SAFETY: taps are pixels inside the picture.
                        let pixel = |h: usize, w: usize| unsafe { self.pixel(x, [n, c], down[h], across[w]) };
                        // SAFETY: the gradient has an element for every position of every channel.
                        let given: T = unsafe {
                            self.number(2, y.scalar, y.offset([n, c, place / target[1], place % target[1]]))
                        };
                        let right = (pixel(0, 1) - pixel(0, 0)) * weight(down[0])
                            + (pixel(1, 1) - pixel(1, 0)) * weight(down[1]);
                        let below = (pixel(1, 0) - pixel(0, 0)) * weight(across[0])
                            + (pixel(1, 1) - pixel(0, 1)) * weight(across[1]);
                        sums = [sums[0] + given * right, sums[1] + given * below];
                    }
                }
                let to = (n * self.step.positions() + place) * 2;
                // SAFETY: two numbers of the gradient.
                unsafe {
                    self.put(self.step.grid, to, sums[0] * halves[1]);
                    self.put(self.step.grid, to + 1, sums[1] * halves[0]);
                }
            }
        }
    }

    /// A pixel of x, or 0 outside.
    ///
    /// # Safety
    /// As for [`sample`].
    unsafe fn pixel<T: Real>(
        &self, x: &Pictures, [n, c]: [i64; 2], h: Option<(i64, T)>, w: Option<(i64, T)>,
    ) -> T {
        match (h, w) {
            // SAFETY: a pixel of x.
            (Some((h, _)), Some((w, _))) => unsafe { self.number(1, x.scalar, x.offset([n, c, h, w])) },
            _ => T::ZERO,
        }
    }
}

impl Kind for Sample {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { sample(self, at) };
        Ok(())
    }
}
