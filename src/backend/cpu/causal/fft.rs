//! Fourier transforms of a power of two of complex numbers in binary64, in place: decimation in
//! frequency with radix 4, whose results lie in the order of reversed digits, and its inverse from
//! that order.
//!
//! Products of transforms do not ask for an order, so that nothing is ever put back in order.

use cudnn_shim_macros::vectorized;

use std::f64::consts::TAU;

use crate::backend::cpu::Isa;
use crate::backend::function::Real;
use crate::dtype::numbers::Math;

/// Points whose transform stays in the first cache, and is computed stage by stage; larger ones
/// part by part.
const IN_CACHE: usize = 1024;

/// Complex numbers, real and imaginary parts apart.
pub struct Complex<'a> {
    pub re: &'a mut [f64],
    pub im: &'a mut [f64],
}

impl<'a> Complex<'a> {
    /// Of `2 n` numbers.
    pub fn of(numbers: &'a mut [f64]) -> Self {
        let (re, im) = numbers.split_at_mut(numbers.len() / 2);
        Complex { re, im }
    }
}

/// Numbers that [`roots`] writes for a transform of `points`.
pub const fn roots_len(points: usize) -> usize {
    2 * points
}

/// Writes the roots of unity of a transform of as many points, stage by stage: of `m` points a
/// stage takes `w^j`, `w^2j` and `w^3j` for `j` below `m / 4`, real parts first, with
/// `w = exp(-2 pi i / m)`.
pub fn roots(points: usize, to: &mut [f64]) {
    let (mut rest, mut m) = (to, points);
    while m >= 4 {
        let quarter = m / 4;
        let (stage, behind) = rest.split_at_mut(6 * quarter);
        for (power, parts) in stage.chunks_exact_mut(2 * quarter).enumerate() {
            let (re, im) = parts.split_at_mut(quarter);
            for (j, (re, im)) in re.iter_mut().zip(im).enumerate() {
                // The quotient is exact.
                (*im, *re) = (-TAU * (((power + 1) * j) as f64 / m as f64)).sin_cos();
            }
        }
        (rest, m) = (behind, quarter);
    }
}

/// The transforms of one level of vector instructions.
#[derive(Clone, Copy)]
pub struct Kernels<T: 'static> {
    /// The transform, to the order of reversed digits.
    pub forward: unsafe fn(re: &mut [T], im: &mut [T], roots: &[T]),
    /// The inverse times the number of points, from that order.
    pub inverse: unsafe fn(re: &mut [T], im: &mut [T], roots: &[T]),
    /// `a = scale a b`, number by number.
    pub multiply: Multiply<T>,
    /// `a = scale a conj(b)`.
    pub correlate: Multiply<T>,
    /// `to += a conj(b)`.
    pub accumulate: Accumulate<T>,
}

/// Products of complex numbers, in place.
type Multiply<T> = unsafe fn(a: [&mut [T]; 2], b: [&[T]; 2], scale: T);

/// The same, added to what is there.
type Accumulate<T> = unsafe fn(to: [&mut [T]; 2], a: [&[T]; 2], b: [&[T]; 2]);

impl<T: Real + Math> Kernels<T> {
    pub fn of(isa: Isa) -> Self {
        Kernels {
            forward: forward::of(isa),
            inverse: inverse::of(isa),
            multiply: multiply::of(isa),
            correlate: correlate::of(isa),
            accumulate: accumulate::of(isa),
        }
    }
}

/// A complex number.
#[derive(Clone, Copy)]
struct Z<T>(T, T);

impl<T: Real> Z<T> {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Z(self.0 + other.0, self.1 + other.1)
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Z(self.0 - other.0, self.1 - other.1)
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Z(self.0 * other.0 - self.1 * other.1, self.0 * other.1 + self.1 * other.0)
    }

    #[inline(always)]
    fn conj(self) -> Self {
        Z(self.0, T::ZERO - self.1)
    }

    /// Times the imaginary unit.
    #[inline(always)]
    fn turned(self) -> Self {
        Z(T::ZERO - self.1, self.0)
    }
}

/// The four quarters of a block and the roots of its stage, with the same length each, so that no
/// index is checked.
macro_rules! butterflies {
    ($re:ident, $im:ident, $roots:ident, |$x:ident, $w:ident| $body:expr) => {{
        let q = $re.len() / 4;
        let (re_low, re_high) = $re.split_at_mut(2 * q);
        let (im_low, im_high) = $im.split_at_mut(2 * q);
        let ((r0, r1), (r2, r3)) = (re_low.split_at_mut(q), re_high.split_at_mut(q));
        let ((i0, i1), (i2, i3)) = (im_low.split_at_mut(q), im_high.split_at_mut(q));
        let (r2, r3, i2, i3) = (&mut r2[..q], &mut r3[..q], &mut i2[..q], &mut i3[..q]);
        let w: [&[T]; 6] = std::array::from_fn(|k| &$roots[k * q..(k + 1) * q]);
        for j in 0..q {
            let $x = [Z(r0[j], i0[j]), Z(r1[j], i1[j]), Z(r2[j], i2[j]), Z(r3[j], i3[j])];
            let $w = [Z(w[0][j], w[1][j]), Z(w[2][j], w[3][j]), Z(w[4][j], w[5][j])];
            let [y0, y1, y2, y3] = $body;
            (r0[j], i0[j]) = (y0.0, y0.1);
            (r1[j], i1[j]) = (y1.0, y1.1);
            (r2[j], i2[j]) = (y2.0, y2.1);
            (r3[j], i3[j]) = (y3.0, y3.1);
        }
    }};
}

/// One stage of a block forwards.
#[inline(always)]
fn stage<T: Real>(re: &mut [T], im: &mut [T], roots: &[T]) {
    butterflies!(re, im, roots, |x, w| {
        let (sum, difference) = (x[0].plus(x[2]), x[0].minus(x[2]));
        let (other_sum, turned) = (x[1].plus(x[3]), x[3].minus(x[1]).turned());
        [
            sum.plus(other_sum),
            difference.plus(turned).times(w[0]),
            sum.minus(other_sum).times(w[1]),
            difference.minus(turned).times(w[2]),
        ]
    });
}

/// One stage of a block back.
#[inline(always)]
fn stage_back<T: Real>(re: &mut [T], im: &mut [T], roots: &[T]) {
    butterflies!(re, im, roots, |x, w| {
        let [a, b, c, d] = [x[0], x[1].times(w[0].conj()), x[2].times(w[1].conj()), x[3].times(w[2].conj())];
        let (sum, other_sum) = (a.plus(c), b.plus(d));
        let (difference, turned) = (a.minus(c), b.minus(d).turned());
        [sum.plus(other_sum), difference.plus(turned), sum.minus(other_sum), difference.minus(turned)]
    });
}

/// Neighbours, sum and difference: the stage of radix 2 of an odd power, its own inverse.
#[inline(always)]
fn pairs<T: Real>(numbers: &mut [T]) {
    for pair in numbers.chunks_exact_mut(2) {
        (pair[0], pair[1]) = (pair[0] + pair[1], pair[0] - pair[1]);
    }
}

#[vectorized]
fn forward<T: Real>(re: &mut [T], im: &mut [T], roots: &[T]) {
    // The stages that span more than the cache go over everything.
    let (mut m, mut of_stage) = (re.len(), 0);
    while m > IN_CACHE {
        for (re, im) in re.chunks_exact_mut(m).zip(im.chunks_exact_mut(m)) {
            stage(re, im, &roots[of_stage..]);
        }
        of_stage += 6 * (m / 4);
        m /= 4;
    }
    let inside = m;
    for (re, im) in re.chunks_exact_mut(inside).zip(im.chunks_exact_mut(inside)) {
        let (mut m, mut of_stage) = (inside, of_stage);
        while m >= 4 {
            for (re, im) in re.chunks_exact_mut(m).zip(im.chunks_exact_mut(m)) {
                stage(re, im, &roots[of_stage..]);
            }
            of_stage += 6 * (m / 4);
            m /= 4;
        }
        if m == 2 {
            pairs(re);
            pairs(im);
        }
    }
}

#[vectorized]
fn inverse<T: Real>(re: &mut [T], im: &mut [T], roots: &[T]) {
    let points = re.len();
    let (mut inside, mut of_last) = (points, 0);
    while inside > IN_CACHE {
        of_last += 6 * (inside / 4);
        inside /= 4;
    }
    // Where the roots of a stage of `m` points lie: all stages of more points come before.
    let first_root = |m: usize| 2 * (points - m);
    debug_assert_eq!(of_last, first_root(inside), "6 (n / 4 + n / 16 + ...) is 2 (n - m)");
    let smallest = if points.trailing_zeros().is_multiple_of(2) { 4 } else { 8 };
    for (re, im) in re.chunks_exact_mut(inside).zip(im.chunks_exact_mut(inside)) {
        if smallest == 8 {
            pairs(re);
            pairs(im);
        }
        let mut m = smallest;
        while m <= inside {
            for (re, im) in re.chunks_exact_mut(m).zip(im.chunks_exact_mut(m)) {
                stage_back(re, im, &roots[first_root(m)..]);
            }
            m *= 4;
        }
    }
    let mut m = (4 * inside).max(smallest);
    while m <= points {
        for (re, im) in re.chunks_exact_mut(m).zip(im.chunks_exact_mut(m)) {
            stage_back(re, im, &roots[first_root(m)..]);
        }
        m *= 4;
    }
}

/// Calls `body` with each number of two arrays, and writes what it makes to the first.
#[inline(always)]
fn each<T: Real>(a: [&mut [T]; 2], b: [&[T]; 2], body: impl Fn(Z<T>, Z<T>) -> Z<T>) {
    let [re, im] = a;
    let n = re.len();
    let (im, b_re, b_im) = (&mut im[..n], &b[0][..n], &b[1][..n]);
    for j in 0..n {
        let z = body(Z(re[j], im[j]), Z(b_re[j], b_im[j]));
        (re[j], im[j]) = (z.0, z.1);
    }
}

#[vectorized]
fn multiply<T: Real>(a: [&mut [T]; 2], b: [&[T]; 2], scale: T) {
    each(a, b, |a, b| Z(scale * a.0, scale * a.1).times(b));
}

#[vectorized]
fn correlate<T: Real>(a: [&mut [T]; 2], b: [&[T]; 2], scale: T) {
    each(a, b, |a, b| Z(scale * a.0, scale * a.1).times(b.conj()));
}

#[vectorized]
fn accumulate<T: Real>(to: [&mut [T]; 2], a: [&[T]; 2], b: [&[T]; 2]) {
    let [re, im] = to;
    let n = re.len();
    let (im, a) = (&mut im[..n], [&a[0][..n], &a[1][..n]]);
    let b = [&b[0][..n], &b[1][..n]];
    for j in 0..n {
        let z = Z(a[0][j], a[1][j]).times(Z(b[0][j], b[1][j]).conj());
        (re[j], im[j]) = (re[j] + z.0, im[j] + z.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::Isa;

    /// Where the result `k` of a transform lies: its digits to the base 4 from behind, below the
    /// lowest bit of an odd power.
    fn place(k: usize, points: usize) -> usize {
        match points {
            1 => 0,
            2 => k,
            _ => k % 4 * (points / 4) + place(k / 4, points / 4),
        }
    }

    #[test]
    fn transforms_are_the_sums_of_their_definition_and_lead_back() {
        for isa in Isa::available() {
            let kernels = Kernels::<f64>::of(isa);
            for points in [4, 8, 16, 32, 64, 512, 1024, 2048, 4096, 8192] {
                let mut table = vec![0.0; roots_len(points)];
                roots(points, &mut table);
                let of = |j: usize, factor: usize| ((j * factor + 3) % 101) as f64 / 50.0 - 1.0;
                let (x, y): (Vec<f64>, Vec<f64>) = (0..points).map(|j| (of(j, 7), of(j, 13))).unzip();
                let (mut re, mut im) = (x.clone(), y.clone());
                // SAFETY: the level is there.
                unsafe { (kernels.forward)(&mut re, &mut im, &table) };
                for k in (0..points).step_by(points.div_ceil(16)) {
                    let (mut sum_re, mut sum_im) = (0.0, 0.0);
                    for j in 0..points {
                        let (sin, cos) = (-TAU * ((j * k % points) as f64 / points as f64)).sin_cos();
                        sum_re += x[j] * cos - y[j] * sin;
                        sum_im += x[j] * sin + y[j] * cos;
                    }
                    let at = place(k, points);
                    let error = (re[at] - sum_re).abs().max((im[at] - sum_im).abs());
                    assert!(error < 1e-12 * points as f64, "{isa:?}: {k} of {points}: {error}");
                }
                // SAFETY: the level is there.
                unsafe { (kernels.inverse)(&mut re, &mut im, &table) };
                for j in 0..points {
                    let n = points as f64;
                    assert!(
                        (re[j] / n - x[j]).abs() < 1e-13 && (im[j] / n - y[j]).abs() < 1e-13,
                        "{j} of {points}"
                    );
                }
            }
        }
    }
}
