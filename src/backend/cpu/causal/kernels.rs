//! What is done with rows of numbers, compiled for each instruction set level: the same operations
//! in the same order.

use cudnn_shim_macros::vectorized;

use crate::backend::cpu::Isa;
use crate::backend::function::Real;
use crate::dtype::math::sigmoid;
use crate::dtype::numbers::Math;
use crate::ops::causal::LANES;

/// Sums that are computed together: several registers of each level.
const TOGETHER: usize = 64;

/// `lanes[k][i % LANES] += g[i] x[first + i + k]`, for each k, of those that x has.
type Gradients<T> = unsafe fn(lanes: &mut [[T; LANES]], g: &[T], x: &[T], first: isize);

/// `out[i] = bias + sum over k, ascending, of taps[k] x[first + i + k]`, from +0, of those that x
/// has; the bias comes last.
type Sums<T> = unsafe fn(out: &mut [T], x: &[T], first: isize, taps: &[T], bias: Option<T>);

/// The kernels of one level.
#[derive(Clone, Copy)]
pub struct Kernels<T: 'static> {
    /// Sums over taps.
    pub sums: Sums<T>,
    /// Sums for the gradients of taps.
    pub gradients: Gradients<T>,
    /// `v = v sigmoid(v)`.
    pub silu: unsafe fn(values: &mut [T]),
    /// `g = g slope(v)`, the slope of the same.
    pub slope: unsafe fn(g: &mut [T], values: &[T]),
    /// The one NaN of the type for every NaN.
    pub canonical: unsafe fn(values: &mut [T]),
}

impl<T: Real + Math> Kernels<T> {
    pub fn of(isa: Isa) -> Self {
        Kernels {
            sums: sums::of(isa),
            gradients: gradients::of(isa),
            silu: silu::of(isa),
            slope: slope::of(isa),
            canonical: canonical::of(isa),
        }
    }
}

/// The part of `0..n` whose elements x has, when element 0 reads `x[first]`.
#[inline(always)]
fn inside(n: usize, first: isize, len: usize) -> (usize, usize) {
    let begin = (-first).clamp(0, n as isize);
    let end = (len as isize - first).clamp(begin, n as isize);
    (begin as usize, end as usize)
}

#[vectorized]
fn sums<T: Real>(out: &mut [T], x: &[T], first: isize, taps: &[T], bias: Option<T>) {
    for (block, out) in out.chunks_mut(TOGETHER).enumerate() {
        let first = first + (block * TOGETHER) as isize;
        let reach = TOGETHER + taps.len() - 1;
        match <&mut [T; TOGETHER]>::try_from(&mut *out) {
            Ok(out) if first >= 0 && first as usize + reach <= x.len() => {
                whole(out, &x[first as usize..][..reach], taps, bias);
            }
            _ => ends(out, x, first, taps, bias),
        }
    }
}

/// The sums of a block all of whose taps x has. Accumulators stay in registers, as no index of
/// theirs is a variable.
#[inline(always)]
fn whole<T: Real>(out: &mut [T; TOGETHER], x: &[T], taps: &[T], bias: Option<T>) {
    let mut sums = [T::ZERO; TOGETHER];
    for (x, &tap) in x.windows(TOGETHER).zip(taps) {
        sums.iter_mut().zip(x).for_each(|(sum, &x)| *sum = *sum + tap * x);
    }
    if let Some(bias) = bias {
        sums.iter_mut().for_each(|sum| *sum = *sum + bias);
    }
    *out = sums;
}

/// The sums of a block at an end of x.
#[inline(never)]
fn ends<T: Real>(out: &mut [T], x: &[T], first: isize, taps: &[T], bias: Option<T>) {
    out.fill(T::ZERO);
    for (k, &tap) in taps.iter().enumerate() {
        let first = first + k as isize;
        let (begin, end) = inside(out.len(), first, x.len());
        if begin < end {
            let x = &x[(first + begin as isize) as usize..];
            out[begin..end].iter_mut().zip(x).for_each(|(sum, &x)| *sum = *sum + tap * x);
        }
    }
    if let Some(bias) = bias {
        out.iter_mut().for_each(|sum| *sum = *sum + bias);
    }
}

#[vectorized]
fn gradients<T: Real>(lanes: &mut [[T; LANES]], g: &[T], x: &[T], first: isize) {
    for (k, lanes) in lanes.iter_mut().enumerate() {
        let first = first + k as isize;
        let (begin, end) = inside(g.len(), first, x.len());
        let at = |i: usize| (first + i as isize) as usize;
        let mut i = begin;
        while i < end && i % LANES != 0 {
            lanes[i % LANES] = lanes[i % LANES] + g[i] * x[at(i)];
            i += 1;
        }
        let mut sums = *lanes;
        while end - i >= LANES {
            let (g, x) = (&g[i..][..LANES], &x[at(i)..][..LANES]);
            sums.iter_mut().zip(g.iter().zip(x)).for_each(|(sum, (&g, &x))| *sum = *sum + g * x);
            i += LANES;
        }
        *lanes = sums;
        while i < end {
            lanes[i % LANES] = lanes[i % LANES] + g[i] * x[at(i)];
            i += 1;
        }
    }
}

#[vectorized]
fn silu<T: Real + Math>(values: &mut [T]) {
    values.iter_mut().for_each(|v| *v = *v * sigmoid(*v));
}

#[vectorized]
fn slope<T: Real + Math>(g: &mut [T], values: &[T]) {
    for (g, &v) in g.iter_mut().zip(values) {
        let s = sigmoid(v);
        *g = *g * (s + v * (s * (T::ONE - s)));
    }
}

#[vectorized]
fn canonical<T: Real>(values: &mut [T]) {
    // Through a copy: numbers that stay as they are would be left unwritten in place, and none of
    // them is then computed beside others.
    let mut chunks = values.chunks_exact_mut(TOGETHER);
    for chunk in &mut chunks {
        let mut copy = [T::ZERO; TOGETHER];
        copy.iter_mut().zip(&*chunk).for_each(|(copy, value)| *copy = value.canonical());
        chunk.copy_from_slice(&copy);
    }
    chunks.into_remainder().iter_mut().for_each(|value| *value = value.canonical());
}
