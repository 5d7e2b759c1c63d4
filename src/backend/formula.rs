//! The words of the formulas in `ops/function.rs`, as the CPU computes them; `kernels/formula.cuh`
//! has their twins.
//!
//! Free of branches, so that a loop over a formula becomes vector code.

pub(super) use crate::dtype::math::{erf, exp, expm1, log, sigmoid, softplus, tanh};

use super::real::{Real, maximum, minimum};
use crate::dtype::angles;
use crate::dtype::convert::Element;
use crate::dtype::math;
use crate::dtype::numbers::Math;
use crate::dtype::numbers::Numbers;

/// What formulas are about: a number, or several in step.
pub(super) trait Words: Numbers<Each: Real> {}
impl<N: Numbers<Each: Real>> Words for N {}

/// The zero that leaves every number it is added to as it is.
#[inline(always)]
pub(super) fn nothing<N: Words>() -> N {
    -N::all(N::Each::ZERO)
}

/// 0 of the type of `x`.
#[inline(always)]
pub(super) fn zero<N: Words>(_: N) -> N {
    N::all(N::Each::from_bits(no_bits()))
}

/// 0, of which the compiler does not know that it is: where one number of a choice is a known zero,
/// LLVM chooses by `fmaxnm` on aarch64, which makes a NaN of a signalling one.
#[inline(always)]
fn no_bits() -> u64 {
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let bits;
        // SAFETY: an instruction that writes one register.
        unsafe {
            std::arch::asm!("mov {}, xzr", out(reg) bits, options(pure, nomem, nostack, preserves_flags))
        };
        bits
    }
    #[cfg(not(all(target_arch = "aarch64", not(miri))))]
    0
}

/// 1 of the type of `x`.
#[inline(always)]
pub(super) fn one<N: Words>(_: N) -> N {
    N::all(N::Each::ONE)
}

/// `x <= y`
#[inline(always)]
pub(super) fn less_or_equal<N: Words>(x: N, y: N) -> N::Truth {
    x.less_or_equal(y)
}

/// `x > y`
#[inline(always)]
pub(super) fn greater<N: Words>(x: N, y: N) -> N::Truth {
    y.less(x)
}

#[inline(always)]
pub(super) fn choose<N: Words>(condition: N::Truth, yes: N, no: N) -> N {
    N::choose(condition, yes, no)
}

/// `x`, but for numbers above `bound`, which become it.
#[inline(always)]
pub(super) fn below<N: Words>(x: N, bound: N) -> N {
    choose(greater(x, bound), bound, x)
}

#[inline(always)]
pub(super) fn root<N: Words>(x: N) -> N {
    x.map(Real::root)
}

#[inline(always)]
pub(super) fn least_number<N: Words>(x: N, y: N) -> N {
    x.zip(y, minimum::<N::Each, false>)
}

#[inline(always)]
pub(super) fn least_or_nan<N: Words>(x: N, y: N) -> N {
    x.zip(y, minimum::<N::Each, true>)
}

#[inline(always)]
pub(super) fn greatest_number<N: Words>(x: N, y: N) -> N {
    x.zip(y, maximum::<N::Each, false>)
}

#[inline(always)]
pub(super) fn greatest_or_nan<N: Words>(x: N, y: N) -> N {
    x.zip(y, maximum::<N::Each, true>)
}

/// The derivative of `x s` with `s` the sigmoid of `b x`.
#[inline(always)]
pub(super) fn swish_slope<N: Words>(x: N, b: N, s: N) -> N {
    s + b * x * (s * (one(s) - s))
}

/// The derivative of the sigmoid, from its result.
#[inline(always)]
pub(super) fn gate_slope<N: Words>(s: N) -> N {
    s * (one(s) - s)
}

/// The derivative of the hyperbolic tangent, from its result.
#[inline(always)]
pub(super) fn tanh_slope<N: Words>(t: N) -> N {
    one(t) - t * t
}

/// `x == y`
#[inline(always)]
pub(super) fn equal<N: Words>(x: N, y: N) -> N::Truth {
    x.equal(y)
}

/// The largest integer that is not above `x`.
#[inline(always)]
pub(super) fn floor<N: Words>(x: N) -> N {
    // From here on, every number is an integer; what is added to this is rounded to one.
    let bound = N::all(N::Each::SHIFTER) / (one(x) + N::all(N::Each::HALF));
    let size = x.map(Math::magnitude);
    let nearest = ((size + bound) - bound).zip(x, Math::signed_as);
    let result = choose(greater(nearest, x), nearest - one(x), nearest);
    choose(greater(bound, size), result, x)
}

/// What is computed in binary64, whatever the type.
#[inline(always)]
fn wide<N: Words>(x: N, f: impl Fn(f64) -> f64) -> N {
    x.map(|x| N::Each::from_f64(f(x.to_f64())))
}

#[inline(always)]
pub(super) fn sine<N: Words>(x: N) -> N {
    wide(x, angles::sine)
}

#[inline(always)]
pub(super) fn cosine<N: Words>(x: N) -> N {
    wide(x, angles::cosine)
}

#[inline(always)]
pub(super) fn tangent<N: Words>(x: N) -> N {
    wide(x, angles::tangent)
}

/// The angle of the point `(x, y)`.
#[inline(always)]
pub(super) fn angle<N: Words>(y: N, x: N) -> N {
    y.zip(x, |y, x| N::Each::from_f64(angles::angle(y.to_f64(), x.to_f64())))
}

/// What division towards zero leaves, exactly.
#[inline(always)]
pub(super) fn remainder<N: Words>(x: N, y: N) -> N {
    x.zip(y, |x, y| N::Each::from_f64(angles::remainder(x.to_f64(), y.to_f64())))
}

/// What division towards minus infinity leaves, rounded once.
#[inline(always)]
pub(super) fn floor_remainder<N: Words>(x: N, y: N) -> N {
    let left = remainder(x, y);
    let other_sign =
        greater(zero(x), left) & greater(y, zero(y)) | greater(left, zero(x)) & greater(zero(y), y);
    let result = choose(other_sign, left + y, left);
    choose(equal(left, zero(left)), left.zip(y, Math::signed_as), result)
}

/// `x` to the power of `y`, of any sign.
#[inline(always)]
pub(super) fn powered<N: Words>(x: N, y: N) -> N {
    let size = x.map(Math::magnitude);
    let result = size.zip(y, math::power);
    let two = N::all(N::Each::TWO);
    let is_integer = equal(floor(y), y);
    let is_even = equal(floor(y / two) * two, y);
    // Of a number below zero; zeros and infinities have every power.
    let infinity = N::all(N::Each::INFINITY);
    let has_none = greater(zero(x), x) & greater(infinity, size) & greater(infinity, y.map(Math::magnitude));
    let of_negative = choose(has_none, N::all(N::Each::NAN), result);
    let of_negative = choose(is_integer, choose(is_even, result, -result), of_negative);
    let is_negative = x.compare(x, |x, _| x.is_signed());
    let result = choose(is_negative, of_negative, result);
    let size_of_one = choose(is_negative & is_integer, choose(is_even, one(x), -one(x)), one(x));
    let size_of_one = choose(is_negative & has_none, of_negative, size_of_one);
    let result = choose(equal(size, one(x)), size_of_one, result);
    // A NaN has no power but the one of 0, and is the power of nothing but 1.
    let is_one = equal(x, one(x)) | equal(y, zero(y));
    choose(is_one, one(x), choose(equal(x, x) & equal(y, y), result, N::all(N::Each::NAN)))
}

/// `x / 2 (1 + erf(x / sqrt(2)))`
#[inline(always)]
pub(super) fn gelu<N: Words>(x: N) -> N {
    let half = N::all(N::Each::HALF);
    half * x * (one(x) + erf(x * number(std::f64::consts::FRAC_1_SQRT_2)))
}

/// Its slope.
#[inline(always)]
pub(super) fn gelu_slope<N: Words>(x: N) -> N {
    let half = N::all(N::Each::HALF);
    let share = half * (one(x) + erf(x * number(std::f64::consts::FRAC_1_SQRT_2)));
    share + x * (number::<N>(0.3989422804014327) * exp(-(half * x * x)))
}

/// `x` times the sigmoid of `sqrt(8 / pi) (x + 0.044715 x^3)`
#[inline(always)]
pub(super) fn gelu_tanh<N: Words>(x: N) -> N {
    x * sigmoid(x * (number::<N>(1.5957691216057308) + number::<N>(0.07135481627260025) * x * x))
}

/// Its slope.
#[inline(always)]
pub(super) fn gelu_tanh_slope<N: Words>(x: N) -> N {
    let s = sigmoid(x * (number::<N>(1.5957691216057308) + number::<N>(0.07135481627260025) * x * x));
    let inner = number::<N>(1.5957691216057308) + number::<N>(0.21406444881780074) * x * x;
    // Where the sigmoid is 0 or 1, the other factors may be infinite.
    let both = s * (one(s) - s);
    choose(equal(both, zero(s)), s, s + x * inner * both)
}

/// The number that is written so.
#[inline(always)]
fn number<N: Words>(x: f64) -> N {
    N::all(N::Each::from_f64(x))
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::{choose, greater, zero};

    /// As a rectifier has it, in a loop and alone.
    #[test]
    fn a_signalling_nan_is_not_above_zero() {
        let above = |x: f32| choose(greater(x, zero(x)), x, zero(x));
        let mut numbers =
            [0x7f80_0001, 0xff80_0001, 0x7fc0_0000, 0x8000_0000, 0x3f80_0000].map(f32::from_bits);
        assert_eq!(above(black_box(numbers[0])).to_bits(), 0);
        black_box(&mut numbers).iter_mut().for_each(|x| *x = above(*x));
        assert_eq!(numbers.map(f32::to_bits), [0, 0, 0, 0, 0x3f80_0000]);
    }
}
