//! Products of binary32 in parts, by Tensor Cores: small integers bit for bit, real numbers of
//! every magnitude within the bound, infinities and NaN where the definition has them, and the
//! kernels without Tensor Cores wherever a step does not allow tiles.

use cudnn::dtype::Scalar;
use cudnn::ops::contract::{Accumulate, Parts, Role, Terms};
use cudnn::ops::{Contract, Scaling};

use crate::contract::{Core, differences, lines, side};
use crate::double;
use crate::multistage::{
    Layer, channels_last, core_of_stages, integers, layers, on_devices, on_earlier_device, runs_all_layers,
};
use testkit::convolution::{DIRECTIONS, Direction};
use testkit::random::Rng;
use testkit::tensor::{Tensor, each};

const F32: [Scalar; 3] = [Scalar::F32; 3];

/// How often kernels of parts have run.
fn of_parts(core: &Core) -> usize {
    let is_it =
        |name: &str| name.starts_with("contract_multistage_f32") || name.starts_with("contract_gradient_f32");
    core.kernels.iter().filter(|(name, _)| is_it(name)).map(|(_, count)| count).sum()
}

/// Lets a step have tiles; and room for parts of its sums, with NaNs in it, if they are cut.
fn allowed(step: &mut Contract, has_room: bool) -> Option<Tensor> {
    step.allow_tiles = true;
    let parts = Parts::of(step).filter(|_| has_room)?;
    step.workspace = parts.workspace(step.accumulate)?;
    let floats = step.workspace.div_ceil(4) as i64;
    Some(Tensor::packed(&[1, floats], &[0, 1], Scalar::F32).fill(|| f64::NAN))
}

/// Every layer in every direction; on a double each direction has a third of them.
fn whole_numbers(core: &mut Core) {
    let mut rng = Rng(71);
    let long = Layer { padding: 1, ..Layer::of([3, 16, 72, 1], vec![40, 31], 3) };
    for (case, layer) in layers().into_iter().chain([long]).enumerate() {
        let conv = layer.convolution();
        let order = channels_last(conv.x.len());
        for (turn, direction) in DIRECTIONS.into_iter().enumerate() {
            let is_large = layer.counts[3] == 80;
            if !double::does_all() && !is_large && (case + turn) % 3 != 0 {
                continue;
            }
            let dims = conv.dims(direction).map(<[i64]>::to_vec);
            let [dst, a, b] = [0, 1, 2].map(|of| integers(&dims[of], &order, F32[of], &mut rng));
            let beta = [0.0, 1.0][case % 2];
            let dst = if beta == 0.0 { Tensor::new(dst.layout, dst.scalar) } else { dst };
            let terms = Terms::scaled(Scaling { alpha: 2.0, beta });
            let mut steps = conv.steps(direction, [&dst, &a, &b], Accumulate::Single, &terms).expect("steps");
            let mut scratch = None;
            steps.iter_mut().for_each(|step| scratch = allowed(step, direction == Direction::Filter));
            let (mut want, sums) = (dst.clone(), conv.expected(direction, &a, &b));
            let mut next = sums.iter();
            each(&dst.layout.dims, |index| {
                let old = if beta == 0.0 { 0.0 } else { dst.get(index) };
                want.set(index, 2.0 * next.next().unwrap()[0] + old);
            });
            let before = of_parts(core);
            let tensors: Vec<&Tensor> = [&dst, &a, &b].into_iter().chain(&scratch).collect();
            let got = core.run(&steps, &tensors);
            let said = format!("{layer:?}, {direction:?}\n{}", lines(&steps));
            assert!(got.same_bytes(&want), "{said}\n{}", differences(&got, &want));
            // Of gradients of the data the filters have to fill whole steps.
            let whole = direction != Direction::Data || layer.counts[2] % 16 == 0;
            assert!(!whole || of_parts(core) > before, "{said}: {:?}", core.kernels);
        }
    }
}

/// What numbers are drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Numbers {
    Normal,
    Positive,
    Wide,
    Denormal,
    Largest,
    NotFinite,
}

const NUMBERS: [Numbers; 6] = [
    Numbers::Normal,
    Numbers::Positive,
    Numbers::Wide,
    Numbers::Denormal,
    Numbers::Largest,
    Numbers::NotFinite,
];

impl Numbers {
    fn draw(self, rng: &mut Rng) -> f64 {
        let x = rng.real();
        let power = |from: i32, count: usize, rng: &mut Rng| 2.0_f64.powi(from + rng.below(count) as i32);
        match self {
            Numbers::Normal => x,
            Numbers::Positive => x.abs(),
            Numbers::Wide => x * power(-60, 121, rng),
            Numbers::Denormal => x * power(-149, 24, rng),
            // Beyond 2^104 the factor leaves the range, and so do sums from 2^80 on.
            Numbers::Largest => x * power(20, 108, rng),
            Numbers::NotFinite if rng.below(500) == 0 => {
                rng.pick(&[f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0, 1e-45])
            }
            Numbers::NotFinite => x,
        }
    }
}

/// How far a sum may be from the definition: as a sum of parts, or, where it has to be made anew,
/// as a chain. What a product of fragments sums is rounded once by the double; a device may cut
/// each of its addends off.
fn bound(terms: i64, sum: f64, magnitude: f64) -> f64 {
    let cut = if double::is_real() { 46.0 } else { 11.0 };
    let of_parts = 1.02 * (cut + terms as f64 / 16.0);
    let is_anew = magnitude >= 2.0_f64.powi(75) || !magnitude.is_finite();
    let units = if is_anew { of_parts.max(terms as f64) } else { of_parts };
    let least = 2.0_f64.powi(-149);
    (units * 2.0_f64.powi(-24) * magnitude.min(f64::MAX) + least).max(sum.abs() * f64::EPSILON)
}

fn check(got: f64, [sum, magnitude]: [f64; 2], terms: i64, said: &dyn Fn() -> String) {
    let most = f64::from(f32::MAX);
    if sum.is_nan() {
        assert!(got.is_nan(), "{got} instead of {sum}: {}", said());
    } else if sum.is_infinite() {
        assert!(got == sum, "{got} instead of {sum}: {}", said());
    } else if magnitude < most {
        let off = (got - sum).abs();
        let bound = bound(terms, sum, magnitude);
        assert!(off <= bound, "{got} instead of {sum}, {off:e} of {bound:e}: {}", said());
    }
}

/// Products of matrices whose operands lie in each of the three ways, of all kinds of numbers.
fn matrices(core: &mut Core) {
    let mut rng = Rng(72);
    let ways = [[[0, 1, 2], [0, 2, 1]], [[0, 1, 2], [0, 1, 2]], [[0, 2, 1], [0, 1, 2]]];
    for case in 0..double::cases(36) {
        let (numbers, [a_order, b_order]) = (NUMBERS[case % NUMBERS.len()], ways[case / 2 % 3]);
        let is_across = a_order == [0, 2, 1];
        let [m, n] = [8 * (1 + rng.below(18) as i64), 8 * (1 + rng.below(12) as i64)];
        let k = if is_across { 1 + rng.below(1500) as i64 } else { rng.pick(&[16, 48, 64, 256, 1008]) };
        let made = |dims: [i64; 3], order: [usize; 3]| Tensor::packed(&dims, &order, Scalar::F32);
        let c = made([1, m, n], a_order);
        let a = made([1, m, k], a_order).fill(|| numbers.draw(&mut rng));
        // One kind of magnitude against another, so that products stay in the range.
        let other = if numbers == Numbers::Denormal { Numbers::Wide } else { numbers };
        let b = made([1, k, n], b_order).fill(|| other.draw(&mut rng));
        let terms = Terms::scaled(Scaling::MOVE);
        let mut step = Contract::matmul(side(&c), side(&a), side(&b), Accumulate::Single, &terms).unwrap();
        let scratch = allowed(&mut step, case % 2 == 0);
        let tensors: Vec<&Tensor> = [&c, &a, &b].into_iter().chain(&scratch).collect();
        let before = of_parts(core);
        let got = core.run(&[step], &tensors);
        assert!(of_parts(core) > before, "case {case}: {step}\n{:?}", core.kernels);
        assert!(core.run(&[step], &tensors).same_bytes(&got), "case {case}: other bits in another run");
        let (rows, columns) = (a.numbers(), b.numbers());
        each(&[1, m, n], |at| {
            let product = |i: i64| rows[(at[1] * k + i) as usize] * columns[(i * n + at[2]) as usize];
            let sums = (0..k).fold([0.0, 0.0], |[sum, all], i| [sum + product(i), all + product(i).abs()]);
            check(got.get(at), sums, k, &|| format!("case {case}, {numbers:?}, {at:?}: {step}"));
        });
    }
}

/// One by a number is that number, whatever it is: its parts are all of it.
fn every_number(core: &mut Core) {
    let mut rng = Rng(73);
    let (m, k) = (64, 64);
    let made = |dims: [i64; 3], order: [usize; 3]| Tensor::packed(&dims, &order, Scalar::F32);
    let c = made([1, m, k], [0, 1, 2]);
    let mut exponent = 0;
    let a = made([1, m, k], [0, 1, 2]).fill(|| {
        exponent = (exponent + 1) % 255;
        let bits = rng.word() as u32 & 0x807f_ffff | exponent << 23;
        f64::from(f32::from_bits(bits))
    });
    for scale in [1.0, -0.5] {
        let mut b = made([1, k, k], [0, 2, 1]).fill(|| 0.0);
        (0..k).for_each(|i| b.set(&[0, i, i], scale));
        let terms = Terms::scaled(Scaling::MOVE);
        let mut step = Contract::matmul(side(&c), side(&a), side(&b), Accumulate::Single, &terms).unwrap();
        step.allow_tiles = true;
        let got = core.run(&[step], &[&c, &a, &b]);
        each(&[1, m, k], |at| {
            let want = f64::from((a.get(at) * scale) as f32);
            assert!(got.get(at) == want, "{} instead of {want}", got.get(at));
        });
    }
    assert!(of_parts(core) > 0);
}

/// Layers with windows, of real numbers with infinities among them: each reaches what sees it
/// alone, padding sees none, and an image has the same bits in any batch.
fn windows(core: &mut Core) {
    let mut rng = Rng(74);
    for (layer, direction) in [
        (Layer { padding: 1, ..Layer::of([3, 20, 24, 1], vec![9, 7], 3) }, Direction::Forward),
        (Layer { padding: 1, ..Layer::of([2, 24, 48, 1], vec![9, 7], 3) }, Direction::Data),
        (Layer { padding: 1, stride: 2, ..Layer::of([2, 24, 40, 1], vec![9, 7], 3) }, Direction::Filter),
    ] {
        let conv = layer.convolution();
        let order = channels_last(4);
        let dims = conv.dims(direction).map(<[i64]>::to_vec);
        let mut drawn = |of: usize, numbers: Numbers| {
            Tensor::packed(&dims[of], &order, Scalar::F32).fill(|| numbers.draw(&mut rng))
        };
        let (a, b) = (drawn(1, Numbers::NotFinite), drawn(2, Numbers::Normal));
        let dst = Tensor::packed(&dims[0], &order, Scalar::F32);
        let terms = Terms::scaled(Scaling::MOVE);
        let mut run = |a: &Tensor, dst: &Tensor, images: i64| {
            let mut part = layer.clone();
            part.counts[0] = images;
            let mut steps =
                part.convolution().steps(direction, [dst, a, &b], Accumulate::Single, &terms).expect("steps");
            steps.iter_mut().for_each(|step| step.allow_tiles = true);
            let before = of_parts(core);
            let got = core.run(&steps, &[dst, a, &b]);
            assert!(of_parts(core) > before, "{}", lines(&steps));
            (got, steps.iter().map(|step| step.extent(Role::K)).max().expect("a step"))
        };
        let images = layer.counts[0];
        let (got, terms) = run(&a, &dst, images);
        let sums = conv.expected(direction, &a, &b);
        let mut next = sums.iter();
        each(&dims[0], |at| {
            check(got.get(at), *next.next().unwrap(), terms, &|| format!("{layer:?}, {direction:?}, {at:?}"));
        });
        if direction == Direction::Filter {
            continue;
        }
        let (mut one, mut whole) = (dims[1].clone(), dims[0].clone());
        (one[0], whole[0]) = (1, 1);
        let mut image = Tensor::packed(&one, &order, Scalar::F32);
        each(&one, |at| image.set(at, a.get(&[images - 1, at[1], at[2], at[3]])));
        let (alone, _) = run(&image, &Tensor::packed(&whole, &order, Scalar::F32), 1);
        each(&whole, |at| {
            let want = got.get(&[images - 1, at[1], at[2], at[3]]);
            assert!(alone.get(at).to_bits() == want.to_bits(), "{layer:?}, {direction:?}, {at:?}");
        });
    }
}

/// Who asks for plain sums has the kernels without Tensor Cores, who allows conversion has TF32,
/// and so do operands off 16 bytes have the former.
fn permissions(core: &mut Core) {
    let mut rng = Rng(75);
    let made = |dims: [i64; 3], order: [usize; 3], rng: &mut Rng| {
        Tensor::packed(&dims, &order, Scalar::F32).fill(|| rng.real())
    };
    let (c, a) = (made([1, 72, 64], [0, 1, 2], &mut rng), made([1, 72, 64], [0, 1, 2], &mut rng));
    let b = made([1, 64, 64], [0, 2, 1], &mut rng);
    let terms = Terms::scaled(Scaling::MOVE);
    let plain = Contract::matmul(side(&c), side(&a), side(&b), Accumulate::Single, &terms).unwrap();
    let mut ran = |step: Contract| {
        core.kernels.clear();
        let got = core.run(&[step], &[&c, &a, &b]);
        (got, core.kernels.keys().copied().collect::<Vec<_>>())
    };
    let (chains, kernels) = ran(plain);
    assert_eq!(kernels, ["contract_f32"]);
    let allowing = |tiles: bool, conversion: bool| {
        let mut step = plain;
        (step.allow_tiles, step.allow_conversion) = (tiles, conversion);
        step
    };
    let (parts, kernels) = ran(allowing(true, false));
    assert_eq!(kernels, ["contract_multistage_f32_64x64"]);
    assert!(!parts.same_bytes(&chains), "a chain has other bits");
    for allow_tiles in [false, true] {
        let (_, kernels) = ran(allowing(allow_tiles, true));
        assert_eq!(kernels, ["contract_multistage_tf32_64x64"]);
    }
    // Nothing is multiplied in parts that is not aligned, or of another type.
    let narrow = made([1, 72, 63], [0, 1, 2], &mut rng);
    let columns = made([1, 63, 64], [0, 2, 1], &mut rng);
    let mut step =
        Contract::matmul(side(&c), side(&narrow), side(&columns), Accumulate::Single, &terms).unwrap();
    step.allow_tiles = true;
    core.kernels.clear();
    core.run(&[step], &[&c, &narrow, &columns]);
    assert_eq!(core.kernels.keys().copied().collect::<Vec<_>>(), ["contract_f32"]);
}

fn all() {
    let Some(mut core) = core_of_stages() else { return };
    permissions(&mut core);
    every_number(&mut core);
    windows(&mut core);
    matrices(&mut core);
    if !runs_all_layers() {
        return;
    }
    whole_numbers(&mut core);
    for kernel in [
        "contract_multistage_f32_128x128",
        "contract_multistage_f32_64x64",
        "contract_multistage_f32_128x128_columns",
        "contract_multistage_f32_64x64_columns",
        "contract_gradient_f32_64x64",
    ] {
        assert!(core.kernels.contains_key(kernel), "{kernel}: {:?}", core.kernels);
    }
}

#[test]
fn products_of_parts_agree_with_the_definition() {
    on_devices(all);
}

/// Devices before 8.0 have plain sums, with the same bits whether tiles are allowed or not.
#[test]
fn earlier_devices_have_no_products_of_parts() {
    on_earlier_device(|mut core| {
        let mut rng = Rng(76);
        let mut made = |dims: [i64; 3], order: [usize; 3]| {
            Tensor::packed(&dims, &order, Scalar::F32).fill(|| rng.real())
        };
        let (c, a, b) =
            (made([1, 64, 64], [0, 1, 2]), made([1, 64, 80], [0, 1, 2]), made([1, 80, 64], [0, 2, 1]));
        let terms = Terms::scaled(Scaling::MOVE);
        let plain = Contract::matmul(side(&c), side(&a), side(&b), Accumulate::Single, &terms).unwrap();
        let want = core.run(&[plain], &[&c, &a, &b]);
        let mut allowing = plain;
        allowing.allow_tiles = true;
        let got = core.run(&[allowing], &[&c, &a, &b]);
        assert!(got.same_bytes(&want), "{}", differences(&got, &want));
        assert_eq!(core.kernels.keys().copied().collect::<Vec<_>>(), ["contract_f32"]);
    });
}
