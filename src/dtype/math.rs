//! Elementary functions of binary32 and binary64, written from additions, products, quotients and
//! operations on bits.
//!
//! Every operation rounds on its own, none is fused, and none comes from a mathematical library: so
//! the functions have the same bits on every processor, and `math.cuh`, which says the same in the
//! same order, has them on every device. There are no branches, so that a loop over any of them
//! becomes vector code. Results are at most 2 units in the last place from the exact ones
//! (`tests/basics/math.rs` walks all of binary32); the signs of zeros, infinities and subnormal
//! results are right, and NaNs give NaNs.
//!
//! ```text
//!  exp     x = n ln2 + r with |r| <= ln2 / 2;  e^x = 2^n (1 + p),  p = r + r^2 q(r)      (Cody and Waite)
//!  expm1   (2^n - 1) + 2^n p
//!  sigmoid E = exp(-|x|);  s = E / (1 + E), corrected by what 1 + E lost in rounding;  s, or 1 - s above 0
//!  tanh    E = exp(-2|x|);  (1 - E) / (1 + E), with half of what 1 - E lost added
//!  log     x = 2^k (1 + f);  s = f / (2 + f);  log(1 + f) = f - s (f - R),  R = s^2 w(s^2)
//!  log1p   the logarithm of the rounded 1 + x, corrected by what the sum lost
//!  erf     below 1: x + x c(x^2);  above: 1 - exp(-g(|x| - 1)),  g = -log(erfc)
//! ```
//! The polynomials q, w, c and g are least-squares fits on Chebyshev nodes, in 50 digits, with the
//! coefficients rounded one after another and the rest fitted anew.

use super::convert::Element;
use super::numbers::{Math, Numbers};

macro_rules! math {
    ($T:ident, $Bits:ident, $mantissa:literal, $raised:literal, $($constants:tt)*) => {
        impl Math for $T {
            const ONE: Self = 1.0;
            const TWO: Self = 2.0;
            const HALF: Self = 0.5;
            const INFINITY: Self = $T::INFINITY;
            const NAN: Self = $T::from_bits(!0 >> 1);
            const LEAST_NORMAL: Self = $T::MIN_POSITIVE;
            const SHIFTER: Self = 1.5 * (1_u64 << $mantissa) as $T;
            const HALF_POWER_SHIFTER: Self = Self::SHIFTER + ($T::MAX_EXP - 2) as $T;
            // The least power is 2^-1075, and 2^-150 in binary32.
            const RAISED_SHIFTER: Self = Self::SHIFTER + ($T::MAX_EXP as u32 - 1 + $raised) as $T;
            const LOWERED: Self = $T::from_bits(($T::MAX_EXP as $Bits - 1 - $raised) << $mantissa);
            $($constants)*

            #[inline(always)]
            fn power_of_two(shifted: Self) -> Self {
                // All above the exponent field leaves.
                $T::from_bits($T::to_bits(shifted) << $mantissa)
            }
            #[inline(always)]
            fn scaled(self, shifted: Self) -> Self {
                const BIAS: $Bits = $T::MAX_EXP as $Bits - 1;
                let n = $T::to_bits(shifted);
                // In two steps, as the power itself may be no normal number; the first is exact.
                let half = n >> 1;
                let power = |n: $Bits| $T::from_bits(n.wrapping_add(BIAS) << $mantissa);
                self * power(half) * power(n.wrapping_sub(half))
            }
            #[inline(always)]
            fn parts(self) -> (Self, Self) {
                const ROOT: $Bits = $T::to_bits(std::$T::consts::FRAC_1_SQRT_2);
                const MASK: $Bits = (1 << $mantissa) - 1;
                // What is added keeps the difference above 0, so that the exponent can be shifted
                // down.
                const ABOVE: $Bits = ($T::MAX_EXP as $Bits) << $mantissa;
                // From sqrt(1/2) on, the exponent field counts doublings.
                let offset = $T::to_bits(self).wrapping_sub(ROOT).wrapping_add(ABOVE);
                let shifted = $T::from_bits($T::to_bits(Self::SHIFTER) + (offset >> $mantissa));
                ($T::from_bits((offset & MASK) + ROOT), shifted - (Self::SHIFTER + $T::MAX_EXP as $T))
            }
            #[inline(always)]
            fn normal(self) -> (Self, Self) {
                const FACTOR: $T = (1_u64 << ($mantissa + 2)) as $T;
                let is_small = self < Self::LEAST_NORMAL;
                (if is_small { self * FACTOR } else { self }, if is_small { ($mantissa + 2) as $T } else { 0.0 })
            }
            #[inline(always)]
            fn is_signed(self) -> bool {
                self.is_sign_negative()
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                $T::from_bits($T::to_bits(self) & (!0 >> 1))
            }
            #[inline(always)]
            fn signed_as(self, other: Self) -> Self {
                let sign = $T::to_bits(other) & !(!0 >> 1);
                $T::from_bits($T::to_bits(self) & (!0 >> 1) | sign)
            }
        }
    };
}

// Raised by an odd number, as the bias is one.
math! { f32, u32, 23, 33,
    const TINY: Self = 9.313226e-10; // 2^-30
    const LOG2_E: Self = std::f32::consts::LOG2_E;
    const LN2: [Self; 2] = [0.69314575, 1.4286068e-6];
    const EXP_RANGE: [Self; 2] = [-104.0, 89.0];
    const EXPM1_LOW: Self = -30.0;
    const EXP: &'static [Self] =
        &[0.5, 0.16666667, 0.041666508, 0.00833318, 0.001393088, 0.00019969625];
    const LOG: &'static [Self] = &[0.6666666, 0.40000972, 0.28498793, 0.24278815];
    const ERF: &'static [Self] = &[
        0.12837917, -0.37612635, 0.11283743, -0.02686355, 0.005216406, -0.0008423232, 0.00010858782, -8.577988e-6,
    ];
    const ERFC: &'static [Self] =
        &[1.8496056, 2.6389654, 0.84313035, 0.04146171, -0.009833928, 0.0017887794, -0.00017668457];
    const ERF_HIGH: Self = 3.95;
}

math! { f64, u64, 52, 61,
    const TINY: Self = 8.673617379884035e-19; // 2^-60
    const LOG2_E: Self = std::f64::consts::LOG2_E;
    const LN2: [Self; 2] = [0.6931471805601177, -1.7239444525614835e-13];
    const EXP_RANGE: [Self; 2] = [-746.0, 710.0];
    const EXPM1_LOW: Self = -60.0;
    const EXP: &'static [Self] = &[
        0.5,
        0.1666666666666667,
        0.04166666666666667,
        0.008333333333325874,
        0.0013888888888882141,
        0.00019841269875523209,
        2.480158733009619e-05,
        2.7557254657337665e-06,
        2.755726881054038e-07,
        2.5105486917609143e-08,
        2.0916416615973896e-09,
    ];
    const LOG: &'static [Self] = &[
        0.6666666666666735,
        0.3999999999940937,
        0.2857142874367084,
        0.22222198431910276,
        0.18183572152127025,
        0.15313838077256972,
        0.14798197267721283,
    ];
    const ERF: &'static [Self] = &[
        0.1283791670955126,
        -0.37612638903183876,
        0.11283791670958783,
        -0.026866170645631897,
        0.00522397762924565,
        -0.0008548327199358272,
        0.00012055338161400656,
        -1.4925748180206354e-05,
        1.6463247307130268e-06,
        -1.6372371891698225e-07,
        1.4798357234369911e-08,
        -1.1876555591839105e-09,
        6.762801638832501e-11,
    ];
    const ERFC: &'static [Self] = &[
        1.8496055099332482,
        2.6389675142347926,
        0.8431072563584442,
        0.04156109804703683,
        -0.010033825436939986,
        0.0019779030205948358,
        -0.00023732462850804484,
        -2.627084498467429e-05,
        2.714264067224729e-05,
        -9.58059104374356e-06,
        2.0234839088039874e-06,
        -1.0783374986710776e-07,
        -1.2314175220670693e-07,
        6.614960195069612e-08,
        -2.0732473593069645e-08,
        4.628091225319023e-09,
        -7.485705044110646e-10,
        8.39199831844092e-11,
        -5.84048233068798e-12,
        1.8981564846082537e-13,
    ];
    const ERF_HIGH: Self = 5.95;
}

/// The polynomial with these coefficients, the constant one first.
#[inline(always)]
fn polynomial<N: Numbers>(x: N, coefficients: &[N::Each]) -> N {
    let Some((&last, others)) = coefficients.split_last() else { return N::all(N::Each::ZERO) };
    others.iter().rev().fold(N::all(last), |sum, &c| sum * x + N::all(c))
}

/// The same polynomial, even and odd powers apart: two chains of half the length, which overlap.
/// Pre: two coefficients or more.
#[inline(always)]
fn wide_polynomial<N: Numbers>(x: N, square: N, coefficients: &[N::Each]) -> N {
    let last = coefficients.len() - 1;
    let mut sums = [N::all(coefficients[last]), N::all(coefficients[last - 1])];
    for k in (0..last - 1).rev() {
        let sum = &mut sums[(last - k) % 2];
        *sum = *sum * square + N::all(coefficients[k]);
    }
    sums[last % 2] + x * sums[(last + 1) % 2]
}

/// `x`, or `low` below it; a NaN stays.
#[inline(always)]
fn at_least<N: Numbers>(x: N, low: N::Each) -> N {
    let low = N::all(low);
    N::choose(x.less(low), low, x)
}

/// `x`, or `high` above it; a NaN stays.
#[inline(always)]
fn at_most<N: Numbers>(x: N, high: N::Each) -> N {
    let high = N::all(high);
    N::choose(high.less(x), high, x)
}

/// `n` above this shifter and `p`, of which e^x is 2^n (1 + p). Pre: x lies in the range of the
/// exponential, or is a NaN.
#[inline(always)]
fn exponent<N: Numbers>(x: N, shifter: N::Each) -> (N, N) {
    let shifter = N::all(shifter);
    let shifted = x * N::all(N::Each::LOG2_E) + shifter;
    let n = shifted - shifter;
    let r = (x - n * N::all(N::Each::LN2[0])) - n * N::all(N::Each::LN2[1]);
    let square = r * r;
    (shifted, r + square * wide_polynomial(r, square, N::Each::EXP))
}

/// e^x
#[inline(always)]
pub fn exp<N: Numbers>(x: N) -> N {
    let [low, high] = N::Each::EXP_RANGE;
    let (shifted, p) = exponent(at_most(at_least(x, low), high), N::Each::SHIFTER);
    (one::<N>() + p).zip(shifted, Math::scaled)
}

/// e^x of an x that is not above 0: the bits of [`exp`], with fewer operations.
#[inline(always)]
pub fn exp_below_zero<N: Numbers>(x: N) -> N {
    let (shifted, p) = exponent(at_least(x, N::Each::EXP_RANGE[0]), N::Each::RAISED_SHIFTER);
    // The first product is exact.
    (one::<N>() + p) * shifted.map(Math::power_of_two) * N::all(N::Each::LOWERED)
}

/// e^x - 1
#[inline(always)]
pub fn expm1<N: Numbers>(x: N) -> N {
    let x_in_range = at_most(at_least(x, N::Each::EXPM1_LOW), N::Each::EXP_RANGE[1]);
    // Half of all, as 2^n may be infinite where the result is not.
    let (shifted, p) = exponent(x_in_range, N::Each::HALF_POWER_SHIFTER);
    let half = shifted.map(Math::power_of_two);
    let result = ((half - N::all(N::Each::HALF)) + half * p) * N::all(N::Each::TWO);
    small_as_it_is(x, result)
}

/// 1 / (1 + e^-x)
#[inline(always)]
pub fn sigmoid<N: Numbers>(x: N) -> N {
    let one = one::<N>();
    let e = exp_below_zero(-magnitude(x));
    let sum = one + e;
    let lost = e - (sum - one);
    let s = e / sum;
    // What was lost counts by s / (1 + E); where 1 + E is not near 1, so little was lost that s
    // will do.
    let s = s - s * lost;
    let negative = x.compare(x, |x, _| x.is_signed());
    N::choose(negative, s, one - s)
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh<N: Numbers>(x: N) -> N {
    let (one, half) = (one::<N>(), N::all(N::Each::HALF));
    let size = magnitude(x);
    let (shifted, p) = exponent(at_least(-(size + size), N::Each::EXPM1_LOW), N::Each::HALF_POWER_SHIFTER);
    let s = shifted.map(Math::power_of_two) * N::all(N::Each::TWO);
    let e = s * p;
    let below = (one - s) - e;
    let lost = ((one - s) - below) - e;
    // What the numerator lost counts by 1 / (1 + E), half of it or more.
    let q = below / ((one + s) + e) + half * lost;
    small_as_it_is(x, q).zip(x, Math::signed_as)
}

/// The logarithm of 2^k m less k ln2, where m = 1 + f, with `lost` of it and k ln2 added.
#[inline(always)]
fn logarithm<N: Numbers>(m: N, k: N, lost: N) -> N {
    let f = m - one();
    let s = f / (N::all(N::Each::TWO) + f);
    let z = s * s;
    let r = z * polynomial(z, N::Each::LOG);
    let half = N::all(N::Each::HALF) * f * f;
    let [high, low] = N::Each::LN2.map(N::all);
    k * high - ((half - (s * (half + r) + (k * low + lost))) - f)
}

/// The number m in sqrt(1/2)..sqrt(2), and k, of a normal number 2^k m.
#[inline(always)]
fn parts<N: Numbers>(x: N) -> (N, N) {
    (x.map(|x| x.parts().0), x.map(|x| x.parts().1))
}

/// The natural logarithm.
#[inline(always)]
pub fn log<N: Numbers>(x: N) -> N {
    let (m, k) = parts(x.map(|x| x.normal().0));
    let raised = x.map(|x| x.normal().1);
    let infinity = N::all(N::Each::INFINITY);
    let result = logarithm(m, k - raised, zero());
    let result = N::choose(x.less(infinity), result, x);
    let result = N::choose(x.less(zero()), N::all(N::Each::NAN), result);
    N::choose(x.equal(zero()), -infinity, result)
}

/// log(1 + x)
#[inline(always)]
pub fn log1p<N: Numbers>(x: N) -> N {
    let (one, infinity) = (one::<N>(), N::all(N::Each::INFINITY));
    let sum = one + x;
    let lost = N::choose(x.less(one), x - (sum - one), one - (sum - x));
    let (m, k) = parts(sum);
    let result = logarithm(m, k, lost / sum);
    let result = N::choose(x.less(infinity), result, x);
    let result = N::choose(sum.less(zero()), N::all(N::Each::NAN), result);
    let result = N::choose(sum.equal(zero()), -infinity, result);
    small_as_it_is(x, result)
}

/// log(1 + e^x)
#[inline(always)]
pub fn softplus<N: Numbers>(x: N) -> N {
    let above = N::choose(x.less(zero()), zero(), x);
    above + log1p(exp_below_zero(-magnitude(x)))
}

/// The error function.
#[inline(always)]
pub fn erf<N: Numbers>(x: N) -> N {
    let one = one::<N>();
    let size = magnitude(x);
    let small = x + x * polynomial(x * x, N::Each::ERF);
    let beyond = at_most(at_least(size, N::Each::ONE), N::Each::ERF_HIGH) - one;
    let large = (one - exp_below_zero(-polynomial(beyond, N::Each::ERFC))).zip(x, Math::signed_as);
    N::choose(size.less(one), small, large)
}

/// x^y for x >= 0, without the special cases of x = 1 and infinities: exp(y log(x)), in binary64
/// for binary32, where the error stays below 1 unit in the last place. In binary64 it is up to 2 +
/// |y log(x)| units.
#[inline(always)]
pub fn power<T: Math>(x: T, y: T) -> T {
    T::from_f64(exp(y.to_f64() * log(x.to_f64())))
}

#[inline(always)]
fn zero<N: Numbers>() -> N {
    N::all(N::Each::ZERO)
}

#[inline(always)]
fn one<N: Numbers>() -> N {
    N::all(N::Each::ONE)
}

#[inline(always)]
fn magnitude<N: Numbers>(x: N) -> N {
    x.map(Math::magnitude)
}

/// `x` where it is so small that it is the nearest number to the result.
#[inline(always)]
fn small_as_it_is<N: Numbers>(x: N, result: N) -> N {
    N::choose(magnitude(x).less(N::all(N::Each::TINY)), x, result)
}
