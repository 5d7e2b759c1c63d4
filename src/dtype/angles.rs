//! Sine, cosine, tangent and the angle of a point, and remainders, in binary64: binary32 is rounded
//! from it.
//!
//! As in [`math`](super::math), every operation rounds on its own and none comes from a
//! mathematical library; `angles.cuh` says the same in the same order. What is left of an angle is
//! found in integers, from as many bits of 2/pi as matter for its exponent, so that it is right for
//! every number (Payne and Hanek). The coefficients of the polynomials are those of FreeBSD's
//! mathematical library (k_sin.c, k_cos.c, s_atan.c).
#![allow(
    clippy::excessive_precision,
    clippy::approx_constant,
    reason = "constants stand as their source prints them"
)]

/// 64 zeros, and the bits of 2/pi behind the point.
const TWO_OVER_PI: [u64; 20] = [
    0x0000000000000000,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
];

/// pi/2 in two parts.
const HALF_PI: [f64; 2] = [1.5707963267948966, 6.123233995736766e-17];
const SINE: [f64; 6] = [
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
];
const COSINE: [f64; 6] = [
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
];
const ARC_TANGENT: [f64; 11] = [
    3.33333333333329318027e-01,
    -1.99999999998764832476e-01,
    1.42857142725034663711e-01,
    -1.11111104054623557880e-01,
    9.09088713343650656196e-02,
    -7.69187620504482999495e-02,
    6.66107313738753120669e-02,
    -5.83357013379057348645e-02,
    4.97687799461593236017e-02,
    -3.65315727442169155270e-02,
    1.62858201153657823623e-02,
];
/// The angles of 1/2, 1, 3/2 and infinity, in two parts.
const ANGLES: [[f64; 2]; 4] = [
    [4.63647609000806093515e-01, 2.26987774529616870924e-17],
    [7.85398163397448278999e-01, 3.06161699786838301793e-17],
    [9.82793723247329054082e-01, 1.39033110312309984516e-17],
    [1.57079632679489655800e+00, 6.12323399573676603587e-17],
];

const NAN: f64 = f64::from_bits(!0 >> 1);
const SIGN: u64 = 1 << 63;
const INFINITE: u64 = 0x7ff << 52;

fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, &c| sum * x + c)
}

fn magnitude(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & !SIGN)
}

/// Quarters of a turn, modulo 4, and what is left of an angle: at most pi/4 in size. Pre: `x` is
/// finite.
fn reduced(x: f64) -> (u64, f64) {
    let bits = x.to_bits() & !SIGN;
    // pi/4
    if bits <= 0x3fe9_21fb_5444_2d18 {
        return (0, x);
    }
    // |x| = m 2^(e - 62), from pi/4 on a normal number.
    let m = bits & ((1 << 52) - 1) | 1 << 52;
    let first = (bits >> 52) + 62 - 1075;
    let (word, shift) = ((first / 64) as usize, first % 64);
    let part = |k: usize| {
        let low = if shift == 0 { 0 } else { TWO_OVER_PI[word + k + 1] >> (64 - shift) };
        TWO_OVER_PI[word + k] << shift | low
    };
    // The product modulo 4, with 190 bits behind the point.
    let wide = |k: usize| u128::from(m) * u128::from(part(k));
    let low = wide(2);
    let middle = wide(1) + (low >> 64);
    let high = (wide(0) as u64).wrapping_add((middle >> 64) as u64);
    let (middle, low) = (middle as u64, low as u64);
    let mut quarters = high >> 62;
    let mut left = [high << 2 | middle >> 62, middle << 2 | low >> 62];
    let mut negative = x.to_bits() & SIGN != 0;
    if negative {
        quarters = quarters.wrapping_neg();
    }
    if left[0] >> 63 != 0 {
        quarters = if negative { quarters.wrapping_sub(1) } else { quarters.wrapping_add(1) };
        negative = !negative;
        left = [(!left[0]).wrapping_add(u64::from(left[1] == 0)), left[1].wrapping_neg()];
    }
    // Leading zeros go, so that 64 bits count. No double is so near a multiple of pi/2 that the
    // first word is 0.
    let zeros = left[0].leading_zeros();
    let top = left[0] << zeros | if zeros == 0 { 0 } else { left[1] >> (64 - zeros) };
    let scale = f64::from_bits(u64::from(1023 - 64 - zeros) << 52);
    let (upper, lower) = ((top & !0x7ff) as f64 * scale, (top & 0x7ff) as f64 * scale);
    let size = upper * HALF_PI[0] + (upper * HALF_PI[1] + lower * HALF_PI[0]);
    (quarters & 3, if negative { -size } else { size })
}

fn sine_of_reduced(r: f64) -> f64 {
    let square = r * r;
    let sum = r + square * r * polynomial(square, &SINE);
    // Zeros keep their sign.
    if r == 0.0 { r } else { sum }
}

fn cosine_of_reduced(r: f64) -> f64 {
    let square = r * r;
    let half = 0.5 * square;
    let rough = 1.0 - half;
    rough + (((1.0 - rough) - half) + square * square * polynomial(square, &COSINE))
}

/// The sine.
pub fn sine(x: f64) -> f64 {
    if x.to_bits() & !SIGN >= INFINITE {
        return NAN;
    }
    let (quarters, r) = reduced(x);
    let value = if quarters & 1 == 0 { sine_of_reduced(r) } else { cosine_of_reduced(r) };
    if quarters & 2 == 0 { value } else { -value }
}

/// The cosine.
pub fn cosine(x: f64) -> f64 {
    if x.to_bits() & !SIGN >= INFINITE {
        return NAN;
    }
    let (quarters, r) = reduced(x);
    let value = if quarters & 1 == 0 { cosine_of_reduced(r) } else { sine_of_reduced(r) };
    if (quarters + 1) & 2 == 0 { value } else { -value }
}

/// The tangent.
pub fn tangent(x: f64) -> f64 {
    if x.to_bits() & !SIGN >= INFINITE {
        return NAN;
    }
    let (quarters, r) = reduced(x);
    let (s, c) = (sine_of_reduced(r), cosine_of_reduced(r));
    if quarters & 1 == 0 { s / c } else { -(c / s) }
}

/// The angle whose tangent is `x`. Pre: `x >= 0`.
fn arc_tangent(x: f64) -> f64 {
    let (reduced, of) = if x < 0.4375 {
        (x, None)
    } else if x < 0.6875 {
        (((x + x) - 1.0) / (2.0 + x), Some(0))
    } else if x < 1.1875 {
        ((x - 1.0) / (x + 1.0), Some(1))
    } else if x < 2.4375 {
        ((x - 1.5) / (1.0 + 1.5 * x), Some(2))
    } else {
        (-1.0 / x, Some(3))
    };
    let square = reduced * reduced;
    let rest = reduced * (square * polynomial(square, &ARC_TANGENT));
    match of {
        None => reduced - rest,
        Some(k) => ANGLES[k][0] - ((rest - ANGLES[k][1]) - reduced),
    }
}

/// The angle of the point `(x, y)`: between -pi and pi.
pub fn angle(y: f64, x: f64) -> f64 {
    let (above, right) = (y.to_bits() & !SIGN, x.to_bits() & !SIGN);
    if above > INFINITE || right > INFINITE {
        return NAN;
    }
    let size = if above == 0 {
        0.0
    } else if right == 0 || above == INFINITE && right != INFINITE {
        HALF_PI[0]
    } else if above == INFINITE {
        ANGLES[1][0]
    } else {
        arc_tangent(magnitude(y) / magnitude(x))
    };
    // pi in two parts.
    let size = if x.to_bits() & SIGN == 0 { size } else { 2.0 * HALF_PI[0] - (size - 2.0 * HALF_PI[1]) };
    if y.to_bits() & SIGN == 0 { size } else { -size }
}

/// What division of `x` by `y` to an integer towards zero leaves, exactly.
pub fn remainder(x: f64, y: f64) -> f64 {
    let (sign, a, b) = (x.to_bits() & SIGN, x.to_bits() & !SIGN, y.to_bits() & !SIGN);
    if a >= INFINITE || b > INFINITE || b == 0 {
        return NAN;
    }
    if a < b {
        return x;
    }
    // Significands and exponents; those of subnormal numbers count from the same exponent as the
    // least normal ones.
    let parts = |bits: u64| match bits >> 52 {
        0 => (bits, 1),
        exponent => (bits & ((1 << 52) - 1) | 1 << 52, exponent),
    };
    let ((mut left, above), (divisor, exponent)) = (parts(a), parts(b));
    left %= divisor;
    let mut steps = above - exponent;
    while steps > 0 && left != 0 {
        // 11 bits at a time stay inside 64.
        let shift = steps.min(11);
        left = (left << shift) % divisor;
        steps -= shift;
    }
    // The significand moves up to its exponent again.
    if left == 0 {
        return f64::from_bits(sign);
    }
    let up = u64::from(left.leading_zeros() - 11).min(exponent - 1);
    let left = left << up;
    let field = if left >> 52 == 0 { 0 } else { exponent - up };
    f64::from_bits(sign | field << 52 | left & ((1 << 52) - 1))
}
