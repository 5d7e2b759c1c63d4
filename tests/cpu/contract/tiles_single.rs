//! Binary32 in tiles, in parts of bf16: how near sums are, beside a chain of fused multiply-adds
//! too, and numbers of every size.

use cudnn::backend::{Isa, Machine};
use cudnn::dtype::Scalar;
use cudnn::ops::Contract;

use super::runs::run;
use super::tiles::{levels, product, takes_tiles};
use testkit::extent;
use testkit::random::Rng;
use testkit::tensor::{Tensor, each};

/// Half of the distance of 1 to its neighbour.
const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// Six products, or three where conversions are allowed.
const WAYS: [bool; 2] = [false, true];

/// What a sum of `terms` products may be off, in parts of the sum of magnitudes. Of six, those that
/// are left out are a unit at most, a tile rounds as one of bf16 does, and each of its six products
/// once more. Blocks of eight steps or less are summed one by one. Of three, what is left out comes
/// first.
fn bound(terms: i64, three: bool) -> f64 {
    let (products, rest, out) = if three { (3.0, 21.0, 2.0_f64.powi(-15)) } else { (6.0, 25.0, 0.0) };
    1.02 * (8.0 * products + rest + terms as f64 / 128.0) * UNIT + out
}

/// The elements that are compared with binary64: a sixteenth, of all rows and columns of tiles.
fn some([m, n, _]: [i64; 3], mut f: impl FnMut(&[i64])) {
    each(&[m, n], |at| {
        if (at[0] + 3 * at[1]) % 16 == 0 || at[0] + 1 == m {
            f(at)
        }
    });
}

/// Sums and sums of magnitudes in binary64, which has 29 more bits.
fn expected(a: &Tensor, b: &Tensor, extents: [i64; 3]) -> Vec<[f64; 2]> {
    let mut sums = Vec::new();
    some(extents, |at| {
        let products = (0..extents[2]).map(|k| a.get(&[at[0], k]) * b.get(&[k, at[1]]));
        sums.push(products.fold([0.0, 0.0], |sum: [f64; 2], x| [sum[0] + x, sum[1] + x.abs()]));
    });
    sums
}

/// A product that may be converted, or not.
fn problem(extents: [i64; 3], three: bool) -> (Contract, [Tensor; 3]) {
    let (mut step, tensors) = product(extents, Scalar::F32);
    step.allow_conversion = three;
    (step, tensors)
}

/// A number of any significand whose exponent is one of some.
fn of_exponents(rng: &mut Rng, low: i32, high: i32) -> f64 {
    let exponent = low + rng.below((high - low + 1) as usize) as i32;
    (1.0 + (rng.word() >> 41) as f64 / 8_388_608.0).copysign(rng.real()) * 2.0_f64.powi(exponent)
}

#[test]
fn sums_of_numbers_of_every_size_are_within_their_bound() {
    let mut rng = Rng(71);
    // The exponents of both factors; the last ones leave the range of tiles: chains are made.
    let sizes = [
        ([0, 0], [0, 0]),
        ([-10, 10], [-10, 10]),
        ([-149, -100], [-20, 60]),
        ([-149, -120], [100, 127]),
        ([-126, -60], [-90, -10]),
        ([-149, 40], [-149, 30]),
        ([60, 62], [10, 20]),
        ([100, 127], [-127, -100]),
        ([120, 127], [-149, -10]),
    ];
    let all = sizes.len() * WAYS.len() * 2;
    extent::say(if extent::is_full() { all } else { sizes.len() }, all);
    for (case, (of_a, of_b)) in sizes.into_iter().enumerate() {
        for three in WAYS.into_iter().filter(|&three| extent::is_full() || three == (case % 2 == 0)) {
            let extents = [[130, 128, 512], [128, 131, 1100], [144, 130, 600]][case % 3];
            let (step, [c, a, b]) = problem(extents, three);
            let mut a = a.fill(|| of_exponents(&mut rng, of_a[0], of_a[1]));
            let mut b = b.fill(|| of_exponents(&mut rng, of_b[0], of_b[1]));
            let sums = expected(&a, &b, extents);
            let mut first: Option<Tensor> = None;
            // The model of tiles is slow, and in a sample has every case once.
            let threads: &[usize] = if extent::is_full() { &[1, 5] } else { &[5] };
            let machines = levels()
                .into_iter()
                .flat_map(|isa| threads.iter().map(move |&threads| Machine { isa, threads }));
            for machine in machines {
                assert!(takes_tiles(&step, machine.isa));
                let got = run(&[step], &c, &[a.base(), b.base()], machine);
                assert!(
                    first.get_or_insert_with(|| got.clone()).same_bytes(&got),
                    "case {case} on {machine:?}"
                );
                let mut next = sums.iter();
                some(extents, |at| {
                    let [sum, magnitude] = next.next().unwrap();
                    let is_chain = of_a[1].max(of_b[1]) >= 104 || *magnitude > 2.0_f64.powi(79);
                    let chain = if is_chain { extents[2] as f64 * UNIT } else { 0.0 };
                    let most = bound(extents[2], three).max(chain) * magnitude + 2.0_f64.powi(-149);
                    let error = (got.get(at) - sum).abs();
                    assert!(
                        error <= most,
                        "{error:e} of {sum:e} ({magnitude:e}) at {at:?}: case {case}, three: {three}, on {machine:?}"
                    );
                });
            }
        }
    }
}

/// The root of the mean square of what sums are off, in units of the sum of magnitudes, and the
/// largest.
fn off(got: &Tensor, sums: &[[f64; 2]], extents: [i64; 3]) -> [f64; 2] {
    let (mut next, mut square, mut most) = (sums.iter(), 0.0, 0.0_f64);
    some(extents, |at| {
        let [sum, magnitude] = next.next().unwrap();
        let error = (got.get(at) - sum).abs() / magnitude / UNIT;
        (square, most) = (square + error * error, most.max(error));
    });
    [(square / sums.len() as f64).sqrt(), most]
}

/// From the shortest sums that have tiles on: what `CUDNN_DEFAULT_MATH` rests on.
#[test]
fn six_products_are_nearer_than_a_chain() {
    let mut rng = Rng(72);
    // The longest sums take as long as all others.
    extent::say(if extent::is_full() { 6 } else { 4 }, 6);
    for k in if extent::is_full() { &[512, 1152, 4608][..] } else { &[512, 1152] } {
        let k = *k;
        for positive in [false, true] {
            let extents = [128, 128, k];
            let (step, [c, a, b]) = problem(extents, false);
            let mut number = || if positive { rng.real().abs() } else { rng.real() };
            let (mut a, mut b) = (a.fill(&mut number), b.fill(&mut number));
            let sums = expected(&a, &b, extents);
            let mut of = |step: Contract, isa| {
                let got = run(&[step], &c, &[a.base(), b.base()], Machine { isa, threads: 2 });
                off(&got, &sums, extents)
            };
            let tiles = of(step, levels()[0]);
            let mut chain = step;
            chain.allow_tiles = false;
            let chain = of(chain, Isa::PORTABLE);
            println!("{k} terms, positive: {positive}: tiles {tiles:.2?}, a chain {chain:.2?}");
            assert!(tiles[0] <= chain[0] && tiles[1] <= chain[1], "{k} terms: {tiles:?} and {chain:?}");
        }
    }
}

#[test]
fn a_row_has_the_same_bits_beside_numbers_that_are_none_or_too_large() {
    let mut rng = Rng(73);
    let extents = [150, 130, 600];
    for three in WAYS {
        let (step, [c, a, b]) = problem(extents, three);
        let (mut a, mut b) = (a.fill(|| rng.real()), b.fill(|| rng.real()));
        for isa in levels() {
            let machine = Machine { isa, threads: 2 };
            let plain = run(&[step], &c, &[a.base(), b.base()], machine);
            let mut others = a.clone();
            let far = [
                (3, f64::NAN),
                (17, f64::INFINITY),
                (18, 2.0_f64.powi(127)),
                (33, 2.0_f64.powi(90)),
                (69, -f64::INFINITY),
            ];
            far.iter().for_each(|&(row, value)| others.set(&[row, 9 * row % 600], value));
            let got = run(&[step], &c, &[others.base(), b.base()], machine);
            let (few, _) = problem([130, 130, 600], three);
            let some = run(&[few], &c, &[others.base(), b.base()], machine);
            each(&extents[..2], |at| {
                if !far.iter().any(|&(row, _)| row == at[0]) {
                    assert_eq!(got.get(at).to_bits(), plain.get(at).to_bits(), "{at:?} on {isa:?}");
                }
                if at[0] < 130 {
                    assert_eq!(some.get(at).to_bits(), got.get(at).to_bits(), "{at:?} on {isa:?}");
                }
            });
            for row in [18, 33] {
                assert!((0..130).all(|n| got.get(&[row, n]).is_finite()), "row {row} on {isa:?}");
            }
        }
    }
}

/// The largest numbers, of which a part alone is infinite.
#[test]
fn the_largest_numbers_are_what_they_are() {
    let extents = [128, 128, 512];
    for (three, isa) in WAYS.into_iter().flat_map(|three| levels().into_iter().map(move |isa| (three, isa))) {
        let (step, [c, a, b]) = problem(extents, three);
        let (mut a, mut b) = (a.fill(|| 0.0), b.fill(|| 0.0));
        a.set(&[3, 4], f64::from(f32::MAX));
        b.set(&[4, 5], 1.0);
        a.set(&[6, 7], f64::from(f32::MAX));
        b.set(&[7, 8], -2.0);
        let got = run(&[step], &c, &[a.base(), b.base()], Machine { isa, threads: 1 });
        each(&extents[..2], |at| {
            let want = match at {
                [3, 5] => f64::from(f32::MAX),
                [6, 8] => f64::NEG_INFINITY,
                _ => 0.0,
            };
            assert_eq!(got.get(at), want, "{at:?} on {isa:?}");
        });
    }
}

/// Numbers that are none in every place of a step, with payloads that rounding would turn into
/// others.
#[test]
fn no_nan_is_lost() {
    let extents = [128, 128, 512];
    for (three, isa) in WAYS.into_iter().flat_map(|three| levels().into_iter().map(move |isa| (three, isa))) {
        let (step, [c, a, b]) = problem(extents, three);
        let (mut a, mut b) = (a.fill(|| 1.0), b.fill(|| 0.0));
        for (of, bits) in
            [0x7f80_0001_u32, 0x7fff_ffff, 0xffff_ffff, 0xff80_0001, 0x7fc0_0000].into_iter().enumerate()
        {
            for (place, k) in [0, 15, 16, 31, 500].into_iter().enumerate() {
                // The model is slow, and in a sample has every number and every place once.
                if !extent::is_full() && isa.name() == "amxmodel" && of != place {
                    continue;
                }
                let mut other = a.clone();
                // SAFETY: an element of the matrix, whose rows are packed.
                unsafe { other.base().cast::<u32>().add(5 * 512 + k).write(bits) };
                let got = run(&[step], &c, &[other.base(), b.base()], Machine { isa, threads: 1 });
                each(&extents[..2], |at| {
                    assert_eq!(got.get(at).is_nan(), at[0] == 5, "{bits:x} at {k}: {at:?} on {isa:?}")
                });
            }
        }
        a.set(&[0, 0], 1.0);
        b.set(&[0, 0], 0.0);
    }
}
