//! The conversion table against independent definitions: nearest value by search, `half`, recorded
//! results.

use cudnn::dtype::convert::{Bool, E4m3, E5m2, Element, blend, convert, scale};
use half::{bf16, f16};

/// A stream of bit patterns that covers every exponent and many mantissas (splitmix64).
fn noise(count: usize) -> impl Iterator<Item = u64> {
    (0..count as u64).map(|i| {
        let mut z = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// The value of a small float format, by the definition in words: (-1)^s * 1.m * 2^(e - bias).
fn small_float(bits: u32, exp: u32, man: u32, has_infinity: bool) -> f64 {
    let bias = (1 << (exp - 1)) - 1;
    let sign = if bits >> (exp + man) & 1 == 1 { -1.0 } else { 1.0 };
    let e = (bits >> man & ((1 << exp) - 1)) as i32;
    let m = f64::from(bits & ((1 << man) - 1)) / f64::from(1 << man);
    if has_infinity && e == (1 << exp) - 1 {
        return if m == 0.0 { sign * f64::INFINITY } else { f64::NAN };
    }
    if !has_infinity && bits & ((1 << (exp + man)) - 1) == (1 << (exp + man)) - 1 {
        return f64::NAN;
    }
    if e == 0 { sign * m * 2f64.powi(1 - bias) } else { sign * (1.0 + m) * 2f64.powi(e - bias) }
}

/// The nearest value of a saturating FP8 format, found by looking at all of them; ties to the even
/// pattern.
fn nearest_fp8(x: f64, exp: u32, man: u32, has_infinity: bool) -> u8 {
    if x.is_nan() {
        return 0x7f;
    }
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let mut best: Option<(f64, u8)> = None;
    for bits in 0..=0x7f_u8 {
        let v = small_float(u32::from(bits), exp, man, has_infinity);
        if !v.is_finite() {
            continue;
        }
        // The differences are exact: both operands are short.
        let d = if x.is_infinite() { -v } else { (x.abs() - v).abs() };
        if best.is_none_or(|(b, p)| d < b || (d == b && bits % 2 == 0 && p % 2 == 1)) {
            best = Some((d, bits));
        }
    }
    sign | best.expect("a format has finite values").1
}

#[test]
fn fp8_decodes_to_its_definition() {
    for bits in 0..=255_u8 {
        for (got, want) in [
            (E4m3(bits).to_f32(), small_float(u32::from(bits), 4, 3, false)),
            (E5m2(bits).to_f32(), small_float(u32::from(bits), 5, 2, true)),
        ] {
            assert!(
                (got.is_nan() && want.is_nan()) || f64::from(got).to_bits() == want.to_bits(),
                "{bits:#x}: {got} is not {want}"
            );
        }
    }
    assert_eq!(E4m3(0x7e).to_f32(), 448.0);
    assert_eq!(E5m2(0x7b).to_f32(), 57344.0);
}

#[test]
fn fp8_encodes_to_the_nearest_value() {
    let halves = (0..=u16::MAX).map(|b| f16::from_bits(b).to_f64_const());
    let neighbours = (0..=0x7e_u32).flat_map(|b| {
        let middle =
            |exp, man, inf| (small_float(b, exp, man, inf) + small_float(b + 1, exp, man, inf)) / 2.0;
        [middle(4, 3, false), middle(5, 2, true)]
            .into_iter()
            .filter(|m| m.is_finite())
            .flat_map(|m| [m, m * (1.0 + f64::EPSILON), m * (1.0 - f64::EPSILON), -m])
    });
    for x in halves.chain(neighbours).chain([f64::INFINITY, -f64::INFINITY, 1e6, -1e-300, f64::NAN]) {
        let (e4, e5) = (nearest_fp8(x, 4, 3, false), nearest_fp8(x, 5, 2, true));
        assert_eq!(convert::<f64, E4m3>(x).0, e4, "{x:e} to E4m3");
        assert_eq!(convert::<f64, E5m2>(x).0, e5, "{x:e} to E5m2");
        if f64::from(x as f32) == x || x.is_nan() {
            assert_eq!(convert::<f32, E4m3>(x as f32).0, e4, "{x:e} to E4m3");
            assert_eq!(convert::<f32, E5m2>(x as f32).0, e5, "{x:e} to E5m2");
        }
    }
}

#[test]
fn fp8_clips_huge_values() {
    assert_eq!(convert::<f64, E4m3>(1e300).0, 0x7e);
    assert_eq!(convert::<f32, E5m2>(-f32::MAX).0, 0xfb);
}

#[test]
fn f16_decodes_as_half_does() {
    for bits in 0..=u16::MAX {
        let (ours, theirs) = (Element::to_f32(f16::from_bits(bits)), f16::from_bits(bits).to_f32_const());
        assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()), "{bits:#x}");
        assert_eq!(convert::<f16, f64>(f16::from_bits(bits)).is_nan(), theirs.is_nan());
    }
}

#[test]
fn f32_encodes_as_half_does() {
    let edges = (0..=u16::MAX).flat_map(|b| {
        // Every half, and the middle to its neighbour, with one unit either side.
        let h = f16::from_bits(b).to_f32_const().to_bits();
        [h, h ^ 0x1000, (h ^ 0x1000).wrapping_add(1), (h ^ 0x1000).wrapping_sub(1)]
    });
    for bits in edges.chain(noise(1 << 20).map(|z| z as u32)) {
        let x = f32::from_bits(bits);
        let (h, b): (f16, bf16) = (convert(x), convert(x));
        if x.is_nan() {
            assert_eq!((h.to_bits(), b.to_bits()), (0x7fff, 0x7fff));
        } else {
            assert_eq!(h.to_bits(), f16::from_f32_const(x).to_bits(), "{x:e}");
            assert_eq!(b.to_bits(), bf16::from_f32(x).to_bits(), "{x:e}");
        }
    }
}

/// The nearest of the two neighbours of `x`, by comparing exact distances in binary64.
fn nearest_by_distance(x: f64, candidates: [(f64, bool); 3]) -> f64 {
    let mut best = candidates[0];
    for c in candidates {
        let (d, e) = ((c.0 - x).abs(), (best.0 - x).abs());
        if d < e || (d == e && c.1) {
            best = c;
        }
    }
    best.0
}

#[test]
fn f64_rounds_once() {
    // The middle between two halves, moved by less than a binary32 can hold: rounding twice gets
    // these wrong.
    for b in 0..0x7bff_u16 {
        let (lo, hi) = (f16::from_bits(b).to_f64_const(), f16::from_bits(b + 1).to_f64_const());
        let middle = (lo + hi) / 2.0;
        let (below, above) = (f64::from_bits(middle.to_bits() - 1), f64::from_bits(middle.to_bits() + 1));
        assert_eq!(convert::<f64, f16>(below).to_bits(), b);
        assert_eq!(convert::<f64, f16>(above).to_bits(), b + 1);
        assert_eq!(convert::<f64, f16>(middle).to_bits(), if b % 2 == 0 { b } else { b + 1 });
        assert_eq!(convert::<f64, f16>(-above).to_bits(), (b + 1) | 0x8000);
    }
    for b in (0..0x7f7f_u16).step_by(3) {
        let value = |b: u16| f64::from(f32::from_bits(u32::from(b) << 16));
        let middle = (value(b) + value(b + 1)) / 2.0;
        let (below, above) = (f64::from_bits(middle.to_bits() - 1), f64::from_bits(middle.to_bits() + 1));
        assert_eq!(convert::<f64, bf16>(below).to_bits(), b);
        assert_eq!(convert::<f64, bf16>(above).to_bits(), b + 1);
        assert_eq!(convert::<f64, bf16>(middle).to_bits(), if b % 2 == 0 { b } else { b + 1 });
    }
    // Anywhere else, the nearest of the neighbours.
    for z in noise(100_000) {
        let x = f64::from_bits((z & 0x000f_ffff_ffff_ffff) | (1023 - 14 + z % 29) << 52);
        let h: f16 = convert(x);
        let near = [h.to_bits() - 1, h.to_bits(), h.to_bits() + 1]
            .map(|b| (f16::from_bits(b).to_f64_const(), b % 2 == 0));
        assert_eq!(h.to_f64_const(), nearest_by_distance(x, near), "{x:e}");
    }
}

#[test]
fn i64_rounds_once() {
    // Exact integer arithmetic: the middle between two neighbours of a short float, one off either
    // side.
    for exponent in 12..62_u32 {
        for mantissa in [0x80_i64, 0x81, 0xa5, 0xfe] {
            let lo = if exponent >= 7 { mantissa << (exponent - 7) } else { continue };
            let half_ulp = 1_i64 << (exponent - 8);
            let odd = mantissa & 1 == 1;
            let up = |x: i64| (f32::from_bits(((x as f32).to_bits()) & 0xffff_0000)) as f64;
            let (a, b) = (up(lo), up(lo) + 2.0 * half_ulp as f64);
            for (x, want) in
                [(lo + half_ulp - 1, a), (lo + half_ulp, if odd { b } else { a }), (lo + half_ulp + 1, b)]
            {
                assert_eq!(convert::<i64, bf16>(x).to_f64(), want, "{x}");
                assert_eq!(convert::<i64, bf16>(-x).to_f64(), -want, "-{x}");
            }
        }
    }
    assert_eq!(convert::<i64, f32>((1 << 60) + (1 << 36) + 1), ((1_i64 << 60) + (1 << 37)) as f32);
    assert_eq!(convert::<i64, f16>(i64::MAX), f16::INFINITY);
    assert_eq!(convert::<i64, bf16>(i64::MIN).to_f32(), -(2f32.powi(63)));
    assert_eq!(convert::<i64, E4m3>(i64::MIN).0, 0xfe);
    assert_eq!(convert::<i64, i32>(i64::MIN), i32::MIN);
}

/// Recorded on a GPU (RTX 3060, version 9.27): `cudnnTransformTensor` from float to half and
/// bfloat16.
#[test]
fn recorded_halves() {
    let input = [
        1.0,
        2.5,
        -3.25,
        0.001,
        65519.0,
        65520.0,
        1e-8,
        std::f32::consts::PI,
        1.000_488_3,
        1.001_464_8,
        -0.0,
        7e-5_f32,
    ];
    let half = [0x3c00, 0x4100, 0xc280, 0x1419, 0x7bff, 0x7c00, 0, 0x4248, 0x3c00, 0x3c02, 0x8000, 0x0496];
    let bfloat =
        [0x3f80, 0x4020, 0xc050, 0x3a83, 0x4780, 0x4780, 0x322c, 0x4049, 0x3f80, 0x3f80, 0x8000, 0x3893];
    for (i, &x) in input.iter().enumerate() {
        assert_eq!(convert::<f32, f16>(x).to_bits(), half[i], "{x}");
        assert_eq!(convert::<f32, bf16>(x).to_bits(), bfloat[i], "{x}");
    }
}

#[test]
fn floats_to_integers_round_half_to_even_and_saturate() {
    for (x, want) in [
        (0.5, 0),
        (1.5, 2),
        (2.5, 2),
        (-0.5, 0),
        (-1.5, -2),
        (126.5, 126),
        (127.5, 127),
        (-128.5, -128),
        (1e30, 127),
        (-1e30, -128),
        (f32::INFINITY, 127),
        (f32::NEG_INFINITY, -128),
        (f32::NAN, 0),
    ] {
        assert_eq!(convert::<f32, i8>(x), want, "{x}");
        assert_eq!(convert::<f64, i8>(f64::from(x)), want, "{x}");
        assert_eq!(scale::<f32, i8>(1.0, x), want, "{x}");
    }
    assert_eq!(convert::<f32, u8>(-1.0), 0);
    assert_eq!(convert::<f32, u8>(254.5), 254);
    assert_eq!(convert::<f32, u8>(300.0), 255);
    assert_eq!(convert::<f32, i64>(f32::MAX), i64::MAX);
    assert_eq!(convert::<f64, i32>(2_147_483_647.5), i32::MAX);
    assert_eq!(convert::<f64, i64>(-f64::MAX), i64::MIN);
    assert_eq!(convert::<f16, i32>(f16::NEG_INFINITY), i32::MIN);
}

#[test]
fn integers_saturate_and_bools_are_zero_or_one() {
    assert_eq!(convert::<u8, i8>(200), 127);
    assert_eq!(convert::<i8, u8>(-1), 0);
    assert_eq!(convert::<i32, i8>(-1000), -128);
    assert_eq!(convert::<i32, i64>(i32::MIN), i64::from(i32::MIN));
    assert_eq!(convert::<Bool, f32>(Bool(7)), 1.0);
    assert_eq!(convert::<Bool, i64>(Bool(255)), 1);
    assert_eq!(convert::<Bool, Bool>(Bool(7)), Bool(7));
    assert_eq!(scale::<Bool, Bool>(2.0, Bool(7)), Bool(1));
    assert_eq!(convert::<f32, Bool>(f32::NAN), Bool(1));
    assert_eq!(convert::<f64, Bool>(1e-300), Bool(1));
    assert_eq!(convert::<f64, Bool>(-0.0), Bool(0));
    assert_eq!(convert::<E5m2, Bool>(E5m2(0x80)), Bool(0));
}

#[test]
fn moves_keep_bits_and_conversions_canonicalise_nan() {
    let payload = f32::from_bits(0xffa0_1234);
    assert_eq!(convert::<f32, f32>(payload).to_bits(), 0xffa0_1234);
    assert_eq!(scale::<f32, f32>(2.0, payload).to_bits(), 0x7fff_ffff);
    assert_eq!(convert::<f32, f64>(payload).to_bits(), 0x7fff_ffff_ffff_ffff);
    assert_eq!(convert::<f64, f32>(f64::from_bits(0xfff0_0000_0000_0001)).to_bits(), 0x7fff_ffff);
    assert_eq!(convert::<f16, f32>(f16::from_bits(0xfc01)).to_bits(), 0x7fff_ffff);
    assert_eq!(convert::<f16, bf16>(f16::from_bits(0xfc01)).to_bits(), 0x7fff);
    assert_eq!(convert::<E4m3, f16>(E4m3(0xff)).to_bits(), 0x7fff);
    assert_eq!(convert::<f16, E5m2>(f16::INFINITY).0, 0x7b);
}

#[test]
fn scaling_rounds_each_step_and_keeps_minus_zero() {
    assert_eq!(scale::<f32, f32>(1.0, -0.0).to_bits(), (-0.0_f32).to_bits());
    assert_eq!(blend::<f32, f32>(1.0, -0.0, 1.0, 0.0).to_bits(), 0);
    // 1 + 2^-12 squared needs 25 bits; a fused sum would keep the last one.
    let x = 1.0 + 2f32.powi(-12);
    let product = x * x;
    assert_eq!(blend::<f32, f32>(f64::from(x), x, -1.0, product), 0.0);
    assert_ne!(x.mul_add(x, -product), 0.0, "the case must tell fused from separate");
    // With I32 on either side the arithmetic is binary64.
    assert_eq!(blend::<i32, i32>(1.0, i32::MAX - 1, 1.0, 1), i32::MAX);
    assert_eq!(blend::<f32, i32>(1.0, 16_777_216.0, 1.0, 1), 16_777_217);
}
