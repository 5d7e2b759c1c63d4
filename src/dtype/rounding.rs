//! Rounding between number formats, on bits: the arithmetic behind the table of
//! [`convert`](super::convert).
//!
//! Free of branches, so that a loop over it becomes vector code, and free of instructions that old
//! processors lack. No result depends on subnormal arithmetic, so a caller's flush-to-zero mode
//! changes nothing, but for binary32 and binary64 numbers that are subnormal themselves.

use half::bf16;

/// The bits of `x` in a format of `EXP` exponent and `MAN` mantissa bits: nearest even, clipped to
/// `largest`.
#[inline(always)]
pub(super) fn encode<const EXP: u32, const MAN: u32>(x: f32, largest: u32) -> u32 {
    let bias = (1 << (EXP - 1)) - 1;
    let shift = 23 - MAN;
    let magnitude = x.to_bits() & 0x7fff_ffff;
    let sign = (x.to_bits() >> 31) << (EXP + MAN);
    // Normal results: round the mantissa (a carry moves into the exponent, as it should), then
    // rebias.
    let rounded = (magnitude + (1 << (shift - 1)) - 1 + ((magnitude >> shift) & 1)) >> shift;
    let normal = rounded.wrapping_sub((127 - bias) << MAN);
    // Subnormal results: adding a number whose unit in the last place is the smallest subnormal
    // makes the addition itself round; the low bits are the answer.
    let magic = (127 + 1 - bias + shift) << 23;
    let subnormal = (f32::from_bits(magnitude) + f32::from_bits(magic)).to_bits().wrapping_sub(magic);
    let finite = if magnitude < (127 + 1 - bias) << 23 { subnormal } else { normal };
    let clipped = if finite < largest { finite } else { largest };
    if magnitude > 0x7f80_0000 { (1 << (EXP + MAN)) - 1 } else { sign | clipped }
}

/// The value of `bits` in a format of `EXP` exponent and `MAN` mantissa bits. `SPECIAL`: the
/// largest exponent stands for infinity and NaN.
#[inline(always)]
pub(super) fn decode<const EXP: u32, const MAN: u32, const SPECIAL: bool>(bits: u32) -> f32 {
    let bias = (1 << (EXP - 1)) - 1;
    let rebias = (127 - bias) << 23;
    let smallest_normal = 1 << 23;
    let infinity = ((1 << EXP) - 1) << 23;
    let sign = (bits >> (EXP + MAN)) << 31;
    let magnitude = (bits & ((1 << (EXP + MAN)) - 1)) << (23 - MAN);
    let normal = magnitude + rebias;
    // Reads the mantissa as if it had a leading one and takes that one away again: exact.
    let shifted = f32::from_bits(normal + smallest_normal);
    let subnormal = (shifted - f32::from_bits(rebias + smallest_normal)).to_bits();
    let special = normal.wrapping_add(rebias);
    let finite = if magnitude < smallest_normal { subnormal } else { normal };
    f32::from_bits(sign | if SPECIAL && magnitude >= infinity { special } else { finite })
}

/// binary64 to binary32, rounded to odd: truncated, with the last bit set when anything was cut
/// off. Rounding the result to nearest even in a type at least two bits narrower equals rounding
/// `x` itself.
#[inline(always)]
pub(super) fn round_to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    let truncated = nearest.to_bits() - u32::from(back.abs() > x.abs());
    // NaN differs from itself and gets a bit it may already have: still NaN.
    f32::from_bits(truncated | u32::from(back != x))
}

/// An `i64` as a binary64 that rounds like the `i64` in every type narrower than 40 bits of
/// mantissa: numbers too long for binary64 lose their low 10 bits, whose being non-zero is kept in
/// bit 10.
#[inline(always)]
pub(super) fn sticky_f64(x: i64) -> f64 {
    let cut = (x & !0x3ff) | (i64::from(x & 0x3ff != 0) << 10);
    (if x.unsigned_abs() >> 53 == 0 { x } else { cut }) as f64
}

#[inline(always)]
pub(super) fn canonical_f32(x: f32) -> f32 {
    if x.is_nan() { f32::from_bits(0x7fff_ffff) } else { x }
}

#[inline(always)]
pub(super) fn canonical_f64(x: f64) -> f64 {
    if x.is_nan() { f64::from_bits(0x7fff_ffff_ffff_ffff) } else { x }
}

#[inline(always)]
pub(super) fn bf16_from_f32(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1))) >> 16;
    bf16::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fff } else { rounded as u16 })
}

/// `x` clipped to a range inside 22 bits and rounded half to even; NaN is 0. The addition rounds,
/// as the unit in the last place of the sum is 1, and leaves the integer in the low bits: vector
/// code on any processor.
#[inline(always)]
pub(super) fn short_from_f32(x: f32, low: f32, high: f32) -> i32 {
    const MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23
    let x = if x.is_nan() { 0.0 } else { x };
    let x = if x < low { low } else { x };
    let x = if x > high { high } else { x };
    (x + MAGIC).to_bits() as i32 - MAGIC.to_bits() as i32
}

/// The same for any range inside 32 bits.
#[inline(always)]
pub(super) fn int_from_f64(x: f64, low: f64, high: f64) -> i32 {
    const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52: the low 32 bits are zero
    let x = if x.is_nan() { 0.0 } else { x };
    let x = if x < low { low } else { x };
    let x = if x > high { high } else { x };
    (x + MAGIC).to_bits() as i32
}
