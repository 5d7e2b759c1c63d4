//! Pointwise operations: every mode against what it means in binary64.

use super::*;

/// The modes with x and b, and what they are.
type Meaning = (i32, fn(f64, f64) -> f64);
const BINARY: &[Meaning] = &[
    (0, |x, b| x + b),
    (1, |x, b| x * b),
    (2, f64::min),
    (3, f64::max),
    (5, |x, b| x + b * b),
    (6, |x, b| x / b),
    (7, |x, b| x % b),
    (8, f64::powf),
    (9, |x, b| x - b),
    (23, f64::atan2),
    (24, |x, b| x - b * (x / b).floor()),
    (300, |x, b| truth(x == b)),
    (301, |x, b| truth(x != b)),
    (302, |x, b| truth(x > b)),
    (303, |x, b| truth(x >= b)),
    (304, |x, b| truth(x < b)),
    (305, |x, b| truth(x <= b)),
    (400, |x, b| truth(x != 0.0 && b != 0.0)),
    (401, |x, b| truth(x != 0.0 || b != 0.0)),
];
type Single = (i32, fn(f64) -> f64);
const UNARY: &[Single] = &[
    (4, f64::sqrt),
    (10, f64::abs),
    (11, f64::ceil),
    (12, f64::cos),
    (13, f64::exp),
    (14, f64::floor),
    (15, f64::ln),
    (16, |x| -x),
    (17, |x| 1.0 / x.sqrt()),
    (18, f64::sin),
    (19, f64::tan),
    (20, |x| erf(x)),
    (21, |x| x),
    (22, |x| 1.0 / x),
    (100, |x| x.max(0.0)),
    (101, f64::tanh),
    (102, sigmoid),
    (103, |x| if x > 0.0 { x } else { x.exp_m1() }),
    (104, |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()))),
    (105, |x| x.exp().ln_1p()),
    (106, |x| x * sigmoid(x)),
    (107, |x| x * sigmoid((8.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x))),
    (402, |x| truth(x == 0.0)),
];

#[test]
fn every_mode_is_what_it_means() {
    let mut rng = Rng(5);
    let (x, y, dx) = (float(1, &[2, 3, 4]), float(3, &[2, 3, 4]), float(4, &[2, 3, 4]));
    for &(mode, meaning) in UNARY {
        let mut world = World::default();
        let numbers = world.random(&mut rng, &x);
        let numbers: Vec<f64> = if matches!(mode, 4 | 15 | 17) {
            numbers.iter().map(|x| x.abs() + 0.01).collect()
        } else {
            numbers
        };
        world.put(&x, &numbers);
        world.room(&y);
        world.run(vec![unary(mode, &x, &y)]);
        let want: Vec<f64> = numbers.iter().map(|x| meaning(f64::from(*x as f32))).collect();
        assert_near(&world.get(&y), &want, 2e-6, &format!("mode {mode}"));
        // The gradient is the slope of the function.
        if (100..200).contains(&mode) {
            let dy = float(2, &[2, 3, 4]);
            let gradients = world.random(&mut rng, &dy);
            world.room(&dx);
            let backward = Kind::Pointwise(Pointwise::new(mode + 100));
            world.run(vec![Operation::new(backward, &[(Port::Dy, &dy), (Port::X, &x)], &[(Port::Dx, &dx)])]);
            let slope = |x: f64| (meaning(x + 1e-6) - meaning(x - 1e-6)) / 2e-6;
            let want: Vec<f64> = numbers.iter().zip(&gradients).map(|(x, dy)| dy * slope(*x)).collect();
            assert_near(&world.get(&dx), &want, 1e-5, &format!("gradient of mode {mode}"));
        }
    }
    for b_dims in [[2, 3, 4], [1, 3, 1]] {
        let b = float(2, &b_dims);
        for &(mode, meaning) in BINARY {
            for alpha in [[1.0, 1.0], [0.5, 2.0]] {
                let mut world = World::default();
                let mut xs = world.random(&mut rng, &x);
                let bs = world.random(&mut rng, &b);
                if mode == 8 {
                    xs.iter_mut().for_each(|x| *x = x.abs() + 0.01);
                }
                // Some are equal, and some zero.
                (xs[1], xs[7]) = (bs[0] * alpha[1] / alpha[0], 0.0);
                world.put(&x, &xs);
                world.room(&y);
                let settings = Pointwise { alpha, ..Pointwise::new(mode) };
                let reads = [(Port::X, &x), (Port::B, &b)];
                world.run(vec![Operation::new(Kind::Pointwise(settings), &reads, &[(Port::Y, &y)])]);
                let want: Vec<f64> = indices(&x.dims)
                    .iter()
                    .enumerate()
                    .map(|(k, index)| {
                        let at: Vec<i64> = index.iter().zip(b_dims).map(|(i, dim)| i % dim).collect();
                        meaning(alpha[0] * f64::from(xs[k] as f32), alpha[1] * bs[offset(&at, &b)])
                    })
                    .collect();
                assert_near(&world.get(&y), &want, 4e-6, &format!("mode {mode} by {alpha:?}"));
            }
        }
    }
}

/// ELU, softplus and swish with numbers of their own, and a factor of what they are of.
#[test]
fn functions_take_their_numbers() {
    let mut rng = Rng(7);
    let (x, dy, y, dx) = (float(1, &[2, 9]), float(2, &[2, 9]), float(3, &[2, 9]), float(4, &[2, 9]));
    type WithNumber = (i32, fn(f64, f64) -> f64);
    let functions: [WithNumber; 3] = [
        (103, |x, alpha| if x > 0.0 { x } else { alpha * x.exp_m1() }),
        (105, |x, beta| (beta * x).exp().ln_1p() / beta),
        (106, |x, beta| x * sigmoid(beta * x)),
    ];
    for (mode, meaning) in functions {
        for number in [1.0, 0.5, 3.0] {
            let settings = |mode| Pointwise {
                elu_alpha: number,
                softplus_beta: number,
                swish_beta: number,
                ..Pointwise::new(mode)
            };
            let mut world = World::default();
            let (xs, dys) = (world.random(&mut rng, &x), world.random(&mut rng, &dy));
            for factor in [1.0, 0.75] {
                world.room(&y);
                let of = Pointwise { alpha: [factor, 1.0], ..settings(mode) };
                world.run(vec![Operation::new(Kind::Pointwise(of), &[(Port::X, &x)], &[(Port::Y, &y)])]);
                let want: Vec<f64> = xs.iter().map(|x| meaning(factor * x, number)).collect();
                assert_near(&world.get(&y), &want, 2e-6, &format!("mode {mode} with {number} of {factor} x"));
            }
            world.room(&dx);
            let reads = [(Port::Dy, &dy), (Port::X, &x)];
            let of = Kind::Pointwise(settings(mode + 100));
            world.run(vec![Operation::new(of, &reads, &[(Port::Dx, &dx)])]);
            let slope = |x: f64| (meaning(x + 1e-6, number) - meaning(x - 1e-6, number)) / 2e-6;
            let want: Vec<f64> = xs.iter().zip(&dys).map(|(x, dy)| dy * slope(*x)).collect();
            assert_near(&world.get(&dx), &want, 1e-5, &format!("gradient of mode {mode} with {number}"));
        }
    }
}

#[test]
fn selections_indices_and_bounds() {
    let mut rng = Rng(6);
    let dims = [3, 5, 4];
    let (x, b, y) = (float(1, &dims), float(2, &dims), float(4, &dims));
    let t = packed(3, DataType::Boolean, &dims);
    let mut world = World::default();
    let (xs, bs) = (world.random(&mut rng, &x), world.random(&mut rng, &b));
    let ts: Vec<f64> = (0..60).map(|k| truth(k % 3 == 0)).collect();
    world.put(&t, &ts);
    world.room(&y);
    let select = Kind::Pointwise(Pointwise::new(601));
    let reads = [(Port::X, &x), (Port::B, &b), (Port::T, &t)];
    world.run(vec![Operation::new(select, &reads, &[(Port::Y, &y)])]);
    let want: Vec<f64> = (0..60).map(|k| if ts[k] != 0.0 { xs[k] } else { bs[k] }).collect();
    assert_near(&world.get(&y), &want, 0.0, "select");

    for axis in 0..3 {
        for of in [DataType::Int32, DataType::Float] {
            let y = packed(9, of, &dims);
            world.room(&y);
            let settings = Pointwise { axis: Some(axis as i64), ..Pointwise::new(501) };
            let operation = Operation::new(Kind::Pointwise(settings), &[(Port::X, &x)], &[(Port::Y, &y)]);
            world.run(vec![operation]);
            let want: Vec<f64> = indices(&dims).iter().map(|index| index[axis] as f64).collect();
            assert_near(&world.get(&y), &want, 0.0, "indices");
        }
    }

    for (clip, slope) in
        [([0.0, 1.0], 0.0), ([-0.5, 1.0], 0.0), ([0.0, f64::INFINITY], 0.125), ([0.5, 1.5], -0.5)]
    {
        let settings = |mode| Pointwise { clip, slope, ..Pointwise::new(mode) };
        world.room(&y);
        world.run(vec![Operation::new(Kind::Pointwise(settings(100)), &[(Port::X, &x)], &[(Port::Y, &y)])]);
        let relu = |x: f64| if x < clip[0] { clip[0] + slope * (x - clip[0]) } else { x.min(clip[1]) };
        let want: Vec<f64> = xs.iter().map(|x| relu(*x)).collect();
        assert_near(&world.get(&y), &want, 1e-6, "a bounded relu");
        world.room(&y);
        let reads = [(Port::Dy, &b), (Port::X, &x)];
        world.run(vec![Operation::new(Kind::Pointwise(settings(200)), &reads, &[(Port::Dx, &y)])]);
        let gradient = |x: f64| {
            if x > clip[1] {
                0.0
            } else if x <= clip[0] {
                slope
            } else {
                1.0
            }
        };
        let want: Vec<f64> = xs.iter().zip(&bs).map(|(x, dy)| dy * gradient(*x)).collect();
        assert_near(&world.get(&y), &want, 1e-6, "its gradient");
    }
}

/// A NaN stays where it is to be propagated; else it is as what lies below the lower bound: that
/// bound, with the slope there.
#[test]
fn bounds_and_slopes_have_one_rule_for_nans() {
    use cudnn::desc::NanPropagation::{Drop, Keep};
    let (x, dy, y) = (float(1, &[1, 6]), float(2, &[1, 6]), float(3, &[1, 6]));
    let xs = [f64::NAN, f64::NEG_INFINITY, -1.0, 0.25, 9.0, f64::INFINITY];
    let dys = [2.0, 3.0, 5.0, 7.0, 11.0, 13.0];
    let bounds = [
        ([0.0, f64::INFINITY], 0.0),
        ([0.0, 6.0], 0.0),
        ([0.0, f64::INFINITY], 0.25),
        ([-0.5, f64::INFINITY], 0.0),
        ([1.0, 6.0], 0.125),
        ([1.0, 6.0], 0.0),
    ];
    for (clip, slope) in bounds {
        for nan in [Drop, Keep] {
            let what = format!("{clip:?} with slope {slope}, {nan:?}");
            let settings = |mode| Kind::Pointwise(Pointwise { clip, slope, nan, ..Pointwise::new(mode) });
            let mut world = World::default();
            world.put(&x, &xs);
            world.put(&dy, &dys);
            world.room(&y);
            world.run(vec![Operation::new(settings(100), &[(Port::X, &x)], &[(Port::Y, &y)])]);
            let relu = |x: f64| match x {
                x if x.is_nan() => {
                    if nan == Keep {
                        x
                    } else {
                        clip[0]
                    }
                }
                x if x <= clip[0] && slope == 0.0 => clip[0],
                x if x < clip[0] => clip[0] + slope * (x - clip[0]),
                x => x.min(clip[1]),
            };
            assert_near(&world.get(&y), &xs.map(relu), 1e-6, &what);
            world.room(&y);
            let reads = [(Port::Dy, &dy), (Port::X, &x)];
            world.run(vec![Operation::new(settings(200), &reads, &[(Port::Dx, &y)])]);
            let gradient = |k: usize| match xs[k] {
                x if x.is_nan() && nan == Keep => dys[k],
                x if x.is_nan() || x <= clip[0] => slope * dys[k],
                x if x > clip[1] => 0.0,
                _ => dys[k],
            };
            let want: Vec<f64> = (0..6).map(gradient).collect();
            assert_near(&world.get(&y), &want, 1e-6, &format!("the gradient of {what}"));
        }
    }
}
