//! The loops of a CTC loss over numbers side by side: sums, and the rows of alpha and beta.

use cudnn_shim_macros::vectorized;

use crate::backend::cpu::Isa;
use crate::backend::function::Real;
use crate::dtype::math::{exp_below_zero, log};
use crate::ops::ctc::LANES;

/// Numbers that are compared at a time: a vector of binary32, two of binary64.
const COMPARED: usize = 16;

/// `m`, or 0 for minus infinity.
#[inline(always)]
pub(super) fn fit<T: Real>(m: T) -> T {
    if m == T::INFINITY.negative() { T::ZERO } else { m }
}

/// The greater one first; a NaN keeps its place.
#[inline(always)]
fn in_order<T: Real>(a: T, b: T) -> (T, T) {
    if b > a { (b, a) } else { (a, b) }
}

/// The greatest of two, and the logarithm of how many times as much both are.
#[inline(always)]
pub(super) fn join<T: Real>(a: T, b: T) -> (T, T) {
    let (m, l) = in_order(a, b);
    (m, log(T::ONE + exp_below_zero(l - fit(m))))
}

/// The same of three.
#[inline(always)]
fn join3<T: Real>(a: T, b: T, c: T) -> (T, T) {
    let (m, l) = in_order(a, b);
    let (m, r) = in_order(m, c);
    let least = fit(m);
    (m, log((T::ONE + exp_below_zero(l - least)) + exp_below_zero(r - least)))
}

/// `((m - most) + log(sum)) + own` of three states, the last with what is added to it, and the
/// states' own numbers.
type Classes<T> = unsafe fn(out: &mut [T], abc: [&[T]; 3], skip: &[T], most: T, own: &[T]);

/// The functions for one computation type and the instructions of the machine. All need a processor
/// that has them.
#[derive(Clone, Copy)]
pub(super) struct Kernels<T: 'static> {
    /// The greatest number, without NaNs; minus infinity if there is none.
    pub greatest: unsafe fn(x: &[T]) -> T,
    /// The greatest sum of two numbers.
    pub greatest_sum: unsafe fn(a: &[T], b: &[T]) -> T,
    /// The sum in lanes.
    pub total: unsafe fn(x: &[T]) -> T,
    /// The sum of `exp(x - m)` in lanes.
    pub exponentials: unsafe fn(x: &[T], m: T) -> T,
    /// `(x - m) - all`.
    pub logits: unsafe fn(x: &mut [T], m: T, all: T),
    /// `log(x)`.
    pub logs: unsafe fn(x: &mut [T]),
    /// `exp((x - m) - all)`, every NaN the same.
    pub shares: unsafe fn(out: &mut [T], x: &[T], m: T, all: T),
    /// `exp((a + b) - m)` in place of `a`.
    pub weights: unsafe fn(a: &mut [T], b: &[T], m: T),
    /// `a + b`.
    pub sums: unsafe fn(out: &mut [T], a: &[T], b: &[T]),
    /// `a + b` with one `b`.
    pub raised: unsafe fn(out: &mut [T], a: &[T], b: T),
    /// `((m - most) + log(sum)) + own` of two states.
    pub blanks: unsafe fn(out: &mut [T], a: &[T], b: &[T], most: T, own: T),
    /// The same of three states.
    pub classes: Classes<T>,
}

impl<T: Real> Kernels<T> {
    pub fn of(isa: Isa) -> Self {
        Kernels {
            greatest: greatest::of(isa),
            greatest_sum: greatest_sum::of(isa),
            total: total::of(isa),
            exponentials: exponentials::of(isa),
            logits: logits::of(isa),
            logs: logs::of(isa),
            shares: shares::of(isa),
            weights: weights::of(isa),
            sums: sums::of(isa),
            raised: raised::of(isa),
            blanks: blanks::of(isa),
            classes: classes::of(isa),
        }
    }
}

/// The greatest of `number(0)`, ..., `number(n - 1)`.
#[inline(always)]
fn greatest_of<T: Real>(n: usize, number: impl Fn(usize) -> T) -> T {
    let mut most = [T::INFINITY.negative(); COMPARED];
    let mut first = 0;
    while first + COMPARED <= n {
        let mut j = 0;
        while j < COMPARED {
            let x = number(first + j);
            most[j] = if x > most[j] { x } else { most[j] };
            j += 1;
        }
        first += COMPARED;
    }
    while first < n {
        let x = number(first);
        most[0] = if x > most[0] { x } else { most[0] };
        first += 1;
    }
    let mut all = most[0];
    let mut j = 1;
    while j < COMPARED {
        all = if most[j] > all { most[j] } else { all };
        j += 1;
    }
    // Which of two zeros was met first does not show.
    all + T::ZERO
}

/// The sum of `number(0)`, ..., `number(n - 1)` in lanes.
#[inline(always)]
fn sum_of<T: Real>(n: usize, number: impl Fn(usize) -> T) -> T {
    let mut lanes = [T::ZERO; LANES];
    let mut first = 0;
    while first + LANES <= n {
        let mut j = 0;
        while j < LANES {
            lanes[j] = lanes[j] + number(first + j);
            j += 1;
        }
        first += LANES;
    }
    let rest = n - first;
    let mut j = 0;
    while j < rest {
        lanes[j] = lanes[j] + number(first + j);
        j += 1;
    }
    // Lanes beyond the numbers are +0, which changes no sum that began with one.
    let mut half = n.next_power_of_two().min(LANES) / 2;
    while half > 0 {
        let mut j = 0;
        while j < half {
            lanes[j] = lanes[j] + lanes[j + half];
            j += 1;
        }
        half /= 2;
    }
    lanes[0]
}

#[vectorized]
fn greatest<T: Real>(x: &[T]) -> T {
    greatest_of(x.len(), |i| x[i])
}

#[vectorized]
fn greatest_sum<T: Real>(a: &[T], b: &[T]) -> T {
    let b = &b[..a.len()];
    greatest_of(a.len(), |i| a[i] + b[i])
}

#[vectorized]
fn total<T: Real>(x: &[T]) -> T {
    sum_of(x.len(), |i| x[i])
}

#[vectorized]
fn exponentials<T: Real>(x: &[T], m: T) -> T {
    sum_of(x.len(), |i| exp_below_zero(x[i] - m))
}

#[vectorized]
fn logits<T: Real>(x: &mut [T], m: T, all: T) {
    let mut i = 0;
    while i < x.len() {
        x[i] = (x[i] - m) - all;
        i += 1;
    }
}

#[vectorized]
fn logs<T: Real>(x: &mut [T]) {
    let mut i = 0;
    while i < x.len() {
        x[i] = log(x[i]);
        i += 1;
    }
}

#[vectorized]
fn shares<T: Real>(out: &mut [T], x: &[T], m: T, all: T) {
    let x = &x[..out.len()];
    let mut i = 0;
    while i < out.len() {
        out[i] = exp_below_zero((x[i] - m) - all).canonical();
        i += 1;
    }
}

#[vectorized]
fn weights<T: Real>(a: &mut [T], b: &[T], m: T) {
    let b = &b[..a.len()];
    let mut i = 0;
    while i < a.len() {
        a[i] = exp_below_zero((a[i] + b[i]) - m);
        i += 1;
    }
}

#[vectorized]
fn sums<T: Real>(out: &mut [T], a: &[T], b: &[T]) {
    let (a, b) = (&a[..out.len()], &b[..out.len()]);
    let mut i = 0;
    while i < out.len() {
        out[i] = a[i] + b[i];
        i += 1;
    }
}

#[vectorized]
fn raised<T: Real>(out: &mut [T], a: &[T], b: T) {
    let a = &a[..out.len()];
    let mut i = 0;
    while i < out.len() {
        out[i] = a[i] + b;
        i += 1;
    }
}

#[vectorized]
fn blanks<T: Real>(out: &mut [T], a: &[T], b: &[T], most: T, own: T) {
    let (a, b) = (&a[..out.len()], &b[..out.len()]);
    let mut i = 0;
    while i < out.len() {
        let (m, more) = join(a[i], b[i]);
        out[i] = ((m - most) + more) + own;
        i += 1;
    }
}

#[vectorized]
fn classes<T: Real>(out: &mut [T], abc: [&[T]; 3], skip: &[T], most: T, own: &[T]) {
    let n = out.len();
    let [a, b, c] = abc.map(|x| &x[..n]);
    let (skip, own) = (&skip[..n], &own[..n]);
    let mut i = 0;
    while i < n {
        let (m, more) = join3(a[i], b[i], c[i] + skip[i]);
        out[i] = ((m - most) + more) + own[i];
        i += 1;
    }
}
