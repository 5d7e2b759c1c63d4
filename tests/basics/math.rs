//! The elementary functions of `dtype::math` against exact values: within 2 units in the last
//! place.

#![allow(clippy::type_complexity, reason = "tables of functions")]

use cudnn::dtype::{angles, math};

/// Units in the last place that a function may be off.
const BOUND: f64 = 2.0;

/// The step of a walk over binary32 that takes a bit more than 10 million samples in all.
const STEP: u32 = 3443;

unsafe extern "C" {
    safe fn erf(x: f64) -> f64;
}

type Pair = (&'static str, fn(f32) -> f32, fn(f64) -> f64);

/// The functions in binary32, each with one in binary64 of another library.
const SINGLE: &[Pair] =
    &[
        ("exp", math::exp, f64::exp),
        ("expm1", math::expm1, f64::exp_m1),
        ("sigmoid", math::sigmoid, |x| {
            if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
        }),
        ("tanh", math::tanh, f64::tanh),
        ("log", math::log, f64::ln),
        ("log1p", math::log1p, f64::ln_1p),
        ("softplus", math::softplus, |x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
        ("erf", math::erf, |x| erf(x)),
        ("sine", |x| angles::sine(x.into()) as f32, f64::sin),
        ("cosine", |x| angles::cosine(x.into()) as f32, f64::cos),
        ("tangent", |x| angles::tangent(x.into()) as f32, f64::tan),
        ("angle of (3, x)", |x| angles::angle(x.into(), 3.0) as f32, |x| x.atan2(3.0)),
        ("power of -3/4", |x| math::power(x, -0.75), |x| x.powf(-0.75)),
    ];

/// How many units in the last place of binary32 lie between a result and the exact one; infinite if
/// one is a NaN and the other is not, or if zeros have other signs.
fn units(result: f32, exact: f64) -> f64 {
    if result.is_nan() || exact.is_nan() {
        return if result.is_nan() && exact.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if result == 0.0 && exact == 0.0 && result.is_sign_negative() != exact.is_sign_negative() {
        return f64::INFINITY;
    }
    distance(result, exact)
}

fn distance(result: f32, exact: f64) -> f64 {
    if result.is_infinite() {
        // Beyond the largest number by less than the bound is as good as infinite.
        let edge = f64::from(f32::MAX) - BOUND * 2f64.powi(104);
        return if exact.abs() > edge && (exact > 0.0) == (result > 0.0) { 0.0 } else { f64::INFINITY };
    }
    let exponent = if exact == 0.0 { -126 } else { (exact.abs().log2().floor() as i32).max(-126) };
    (f64::from(result) - exact).abs() / 2f64.powi(exponent - 23)
}

/// Walks binary32 in steps, starting at `first`, and returns the largest error of each function and
/// where it is.
fn walk(first: u32, step: u32) -> Vec<(f64, f32)> {
    let mut worst = vec![(0.0, 0.0); SINGLE.len()];
    let mut bits = Some(first);
    while let Some(at) = bits {
        let x = f32::from_bits(at);
        for ((_, function, exact), worst) in SINGLE.iter().zip(&mut worst) {
            let off = units(function(x), exact(f64::from(x)));
            if off > worst.0 {
                *worst = (off, x);
            }
        }
        bits = at.checked_add(step);
    }
    worst
}

fn judge(worst: &[(f64, f32)]) {
    for ((name, ..), (off, x)) in SINGLE.iter().zip(worst) {
        println!("{name}: at most {off:.3} units, at {x:e}");
        assert!(*off <= BOUND, "{name} of {x:e} is {off} units off");
    }
}

/// All of binary32 with `MATH_STEP=1 cargo test --release --test basics math::`, which takes an
/// hour of processor time.
#[test]
fn binary32_is_within_the_bound() {
    let step = std::env::var("MATH_STEP").map_or(STEP, |step| step.parse().expect("a number"));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()) as u32;
    let worst = std::thread::scope(|scope| {
        let walk = |k: u32| scope.spawn(move || walk(k * step, threads * step));
        let walks: Vec<_> = (0..threads).map(walk).collect();
        walks.into_iter().map(|walk| walk.join().unwrap()).reduce(|mut all, one| {
            all.iter_mut().zip(one).filter(|(all, one)| one.0 > all.0).for_each(|(all, one)| *all = one);
            all
        })
    });
    judge(&worst.unwrap());
}

#[test]
fn the_ends_of_the_range_are_exact() {
    let cases: &[(fn(f64) -> f64, fn(f32) -> f32, &[(f64, f64)])] = {
        const INF: f64 = f64::INFINITY;
        const NAN: f64 = f64::NAN;
        &[
            (
                math::exp,
                math::exp,
                &[(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN), (-1e4, 0.0)],
            ),
            (math::expm1, math::expm1, &[(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (NAN, NAN)]),
            (math::sigmoid, math::sigmoid, &[(0.0, 0.5), (INF, 1.0), (-INF, 0.0), (NAN, NAN)]),
            (math::tanh, math::tanh, &[(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN)]),
            (
                math::log,
                math::log,
                &[(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-1.0, NAN), (-INF, NAN)],
            ),
            (math::log1p, math::log1p, &[(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (INF, INF), (-2.0, NAN)]),
            (math::softplus, math::softplus, &[(INF, INF), (-INF, 0.0), (NAN, NAN), (1e4, 1e4)]),
            (
                math::erf,
                math::erf,
                &[(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (9.0, 1.0), (NAN, NAN)],
            ),
        ]
    };
    for (double, single, values) in cases {
        for &(x, expected) in *values {
            let (wide, narrow) = (double(x), single(x as f32));
            assert!(
                wide.to_bits() == expected.to_bits() || wide.is_nan() && expected.is_nan(),
                "{x}: {wide}"
            );
            let expected = expected as f32;
            assert!(
                narrow.to_bits() == expected.to_bits() || narrow.is_nan() && expected.is_nan(),
                "{x}: {narrow}"
            );
        }
    }
}

/// Of binary64 there is a table of exact values (`tests/data/math/generate.py`).
#[test]
fn binary64_is_within_the_bound() {
    let functions: &[(&str, fn(f64) -> f64)] = &[
        ("exp", math::exp),
        ("expm1", math::expm1),
        ("sigmoid", math::sigmoid),
        ("tanh", math::tanh),
        ("log", math::log),
        ("log1p", math::log1p),
        ("softplus", math::softplus),
        ("erf", math::erf),
    ];
    let mut seen = 0;
    for line in include_str!("../data/math/exact.tsv").lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, numbers @ ..] = &columns[..] else { unreachable!() };
        let number = |k: usize| f64::from_bits(u64::from_str_radix(numbers[k], 16).unwrap());
        let (x, high, low) = (number(0), number(1), number(2));
        let function = functions.iter().find(|f| f.0 == *name).expect("a function of the table").1;
        let unit = f64::from_bits(high.abs().to_bits() & 0x7ff0_0000_0000_0000) * f64::EPSILON;
        // The difference of the two high parts is exact.
        let off = ((function(x) - high) - low).abs() / unit;
        assert!(off <= BOUND, "{name} of {x:e} is {off} units off");
        seen += 1;
    }
    assert!(seen > 1500, "{seen} values");
}

/// Also where x lies in the middle between two powers of 2, either of which a power of e may be
/// made of.
#[test]
fn powers_below_zero_have_the_bits_of_all_powers() {
    let mut middles = 0;
    for n in 0..1_100 {
        let x = (f64::from(n) + 0.5) * std::f64::consts::LN_2;
        for away in 0..9 {
            let single = -f32::from_bits((x as f32).to_bits() + away - 4);
            middles += usize::from((single * std::f32::consts::LOG2_E).fract() == -0.5);
            let got = math::exp_below_zero(single).to_bits();
            assert_eq!(got, math::exp(single).to_bits(), "e^{single}");
            let double = -f64::from_bits(x.to_bits() + u64::from(away) - 4);
            middles += usize::from((double * std::f64::consts::LOG2_E).fract() == -0.5);
            let got = math::exp_below_zero(double).to_bits();
            assert_eq!(got, math::exp(double).to_bits(), "e^{double}");
        }
    }
    assert!(middles > 1_000, "{middles} numbers in the middle");
}
