//! Every function of the table.

use cudnn::backend::reference;
use cudnn::dtype::Scalar;
use cudnn::ops::Map;
use cudnn::ops::function::{Function, MOST_OPERANDS, Scaled, TABLE};
use cudnn::ops::map::Factors;

use super::plain::{Column, Plain, grid, is_less, is_more, is_near, line};
use testkit::random::Rng;

unsafe extern "C" {
    safe fn erf(x: f64) -> f64;
}

/// The reference's results for operands of one type.
fn mapped<T: Plain>(
    function: Function, operands: &[Column], scalar: Scalar, parameter: f64, factors: Factors, old: &[T],
) -> Vec<T> {
    let mut scalars = [scalar; MOST_OPERANDS + 1];
    scalars[0] = T::SCALAR;
    let map = Map { nest: line(old.len()), scalars, compute: T::COMPUTE, function, parameter, factors };
    let mut results = old.to_vec();
    let at = std::array::from_fn(|k| match k {
        0 => results.as_mut_ptr().cast::<u8>(),
        _ => operands[k - 1].ptr(),
    });
    // SAFETY: every operand has as many elements as there are results.
    unsafe { reference::map(&map, at) };
    results
}

/// The one of two numbers that is `ahead`: a NaN only if both are, or, if it wins, one is. Of
/// zeros, one sign wins.
fn chosen<T: Plain>(x: T, y: T, ahead: fn(T, T) -> bool, nan_wins: bool) -> T {
    match (x.is_missing(), y.is_missing()) {
        (true, _) if nan_wins => x,
        (_, true) if nan_wins => y,
        (true, _) => y,
        (_, true) => x,
        _ if ahead(x, y) => x,
        _ => y,
    }
}

/// What a function is that rounds once for each operation.
fn exact<T: Plain>(function: Function, [x, y, z, v, w]: [T; MOST_OPERANDS], c: T) -> Option<T> {
    let (zero, one) = (T::of(0.0), T::of(1.0));
    let least = |x: T, bound: T| if x > bound { bound } else { x };
    // NaNs compare as nothing.
    let inside = zero < x && x <= c;
    let truth = |holds| if holds { one } else { zero };
    Some(match function {
        Function::Add => x + y,
        Function::Mul => x * y,
        Function::MinNumber => chosen(x, y, is_less, false),
        Function::MinOrNan => chosen(x, y, is_less, true),
        Function::MaxNumber => chosen(x, y, is_more, false),
        Function::MaxOrNan => chosen(x, y, is_more, true),
        Function::Sqrt => x.root(),
        Function::Not => one - x,
        Function::First => x,
        Function::SigmoidGradient => y * (x * (one - x)),
        Function::TanhGradient => y * (one - x * x),
        Function::Relu if x > zero => x,
        Function::Relu => zero,
        Function::ReluOrNan if x > zero || x.is_missing() => x,
        Function::ReluOrNan => zero,
        Function::ReluGradient if x > zero => y,
        Function::ReluGradient => zero,
        Function::ReluOrNanGradient if x > zero || x.is_missing() => y,
        Function::ReluOrNanGradient => zero,
        Function::ClippedRelu | Function::ClippedReluOrNan if x > c => c,
        Function::ClippedRelu if x > zero => x,
        Function::ClippedRelu => zero,
        Function::ClippedReluOrNan if x > zero || x.is_missing() => x,
        Function::ClippedReluOrNan => zero,
        Function::ClippedReluGradient if inside => y,
        Function::ClippedReluGradient => zero,
        Function::ClippedReluOrNanGradient if inside || x.is_missing() => y,
        Function::ClippedReluOrNanGradient => zero,
        Function::EluGradient if x > zero => y,
        Function::EluGradient => y * (x + c),
        Function::Normalise => {
            let factor = v / (z + c).root();
            (x - y) * factor + w
        }
        Function::ClipNumber if x > y => least(x, z),
        Function::ClipNumber => least(y, z),
        Function::ClipOrNan if y > x => least(y, z),
        Function::ClipOrNan => least(x, z),
        Function::ClipGradient if y <= x && x <= z => v,
        Function::ClipGradient => zero,
        Function::Div => x / y,
        Function::AddSquare => x + y * y,
        Function::Remainder => T::of(x.wide() % y.wide()),
        Function::FloorRemainder => match x.wide() % y.wide() {
            0.0 => T::of(0.0_f64.copysign(y.wide())),
            left if (left < 0.0) != (y < zero) => T::of(left) + y,
            left => T::of(left),
        },
        Function::Floor => T::of(x.wide().floor()),
        Function::Ceil => T::of(x.wide().ceil()),
        Function::Reciprocal => one / x,
        Function::ReciprocalRoot => one / x.root(),
        Function::Equal => truth(x == y),
        Function::NotEqual => truth(x != y),
        Function::Less => truth(x < y),
        Function::LessOrEqual => truth(x <= y),
        Function::And => truth(x != zero && y != zero),
        Function::Or => truth(x != zero || y != zero),
        Function::IsZero => truth(x == zero),
        Function::Select if z != zero => x,
        Function::Select => y,
        Function::BoundedRelu if x < y => y + v * (x - y),
        Function::BoundedRelu if x > z => z,
        Function::BoundedRelu => x,
        Function::BoundedReluGradient if x > v => zero,
        Function::BoundedReluGradient if x <= z => w * y,
        Function::BoundedReluGradient => y,
        Function::Affine => x * y * z + v,
        Function::Centred => (x - y) * z,
        Function::NormBackward => (x - y * z - v) * w,
        Function::Gate
        | Function::GateGradient
        | Function::TanhGate
        | Function::TanhGateGradient
        | Function::GatedTanhGradient
        | Function::LstmCell
        | Function::LstmCellGradient
        | Function::GruMemory
        | Function::GruState
        | Function::GruGateGradient
        | Function::GruMemoryGradient
        | Function::Power
        | Function::Sin
        | Function::Cos
        | Function::Tan
        | Function::Atan2
        | Function::Gelu
        | Function::GeluGradient
        | Function::GeluTanh
        | Function::GeluTanhGradient
        | Function::Sigmoid
        | Function::Tanh
        | Function::Elu
        | Function::Swish
        | Function::SwishGradient
        | Function::Softplus
        | Function::Erf
        | Function::Exp
        | Function::ExpDifference
        | Function::Log
        | Function::Nothing => return None,
    })
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

/// What a function of the cell of a recurrent network is, and the sum of the sizes of its terms;
/// `None` for any other function.
fn cell<T: Plain>(function: Function, [x, y, z, v, _]: [f64; MOST_OPERANDS]) -> Option<(f64, f64)> {
    // What has vanished or become 1 in the type is that for the rest of the formula, too.
    let rounded = |x: f64| T::of(x).wide();
    let (s, t) = (|x: f64| rounded(sigmoid(x)), |x: f64| rounded(x.tanh()));
    let slope = |s: f64| s * (1.0 - s);
    let tanh_slope = |t: f64| 1.0 - t * t;
    let (value, size) = match function {
        Function::Gate => (s(x) * y, y.abs()),
        Function::GateGradient => (z * y * slope(s(x)), (z * y).abs()),
        Function::TanhGate => (s(x) * t(y), 1.0),
        Function::TanhGateGradient => (z * t(y) * slope(s(x)), z.abs()),
        Function::GatedTanhGradient => (z * s(x) * tanh_slope(t(y)), z.abs()),
        Function::LstmCell => (s(y) * v + s(x) * t(z), v.abs() + 1.0),
        Function::LstmCellGradient => (v + z * s(x) * tanh_slope(t(y)), v.abs() + z.abs()),
        Function::GruMemory => ((x + s(y) * z).tanh(), 1.0 + x.abs() + z.abs()),
        Function::GruState => ((1.0 - s(x)) * y + s(x) * z, y.abs() + z.abs()),
        Function::GruGateGradient => (v * (z - y) * slope(s(x)), v.abs() * (z.abs() + y.abs())),
        // What a tiny d loses is enlarged by the slope.
        Function::GruMemoryGradient => {
            (z * (1.0 - s(x)) * tanh_slope(y), (z.abs() + T::TINY / T::EPSILON) * (1.0 + y * y))
        }
        _ => return None,
    };
    Some((value, size))
}

/// What an elementary function is, and how far a result may be off, both by roundings and by
/// denormals on the way.
fn elementary<T: Plain>(function: Function, all: [f64; MOST_OPERANDS], c: f64) -> (f64, f64) {
    if let Some((value, size)) = cell::<T>(function, all) {
        return (value, 12.0 * T::EPSILON * size + 8.0 * T::TINY * (1.0 + size));
    }
    let [x, dy, ..] = all;
    let (mut units, mut on_the_way) = (3.0, 1.0);
    let scaled = c * x;
    let value = match function {
        Function::Sigmoid => sigmoid(x),
        Function::Tanh => x.tanh(),
        Function::Elu if x > 0.0 => x,
        Function::Elu => {
            on_the_way += c.abs();
            c * x.exp_m1()
        }
        Function::Swish => {
            (units, on_the_way) = (units + scaled.abs(), on_the_way + x.abs());
            x * sigmoid(scaled)
        }
        Function::SwishGradient => {
            // An infinite dy tells what has vanished from what has nearly.
            let s = T::of(sigmoid(scaled)).wide();
            // What is left of 1 has the roundings of 1.
            let size = dy.abs() * (s + 2.0 * scaled.abs() * s);
            on_the_way += dy.abs() * (1.0 + scaled.abs());
            let off = (units + 3.0 + scaled.abs()) * T::EPSILON * size + 2.0 * T::TINY * on_the_way;
            return (dy * (s + scaled * (s * (1.0 - s))), off);
        }
        Function::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        Function::Erf => erf(x),
        Function::Exp => x.exp(),
        Function::ExpDifference => T::of(x - dy).wide().exp(),
        Function::Log => x.ln(),
        Function::Power => {
            if T::SCALAR == Scalar::F64 {
                units += (dy * x.abs().ln()).abs();
            }
            x.powf(dy)
        }
        Function::Sin => x.sin(),
        Function::Cos => x.cos(),
        Function::Tan => {
            units += 1.0;
            x.tan()
        }
        Function::Atan2 => x.atan2(dy),
        Function::Gelu => {
            // What is left of 1 has the roundings of 1.
            return (0.5 * x * (1.0 + erf(x / 2f64.sqrt())), 4.0 * T::EPSILON * x.abs() + 2.0 * T::TINY);
        }
        Function::GeluGradient => {
            let share = 0.5 * (1.0 + T::of(erf(x / 2f64.sqrt())).wide());
            let density = T::of((-0.5 * x * x).exp()).wide() * (0.5 / std::f64::consts::PI).sqrt();
            let size = dy.abs() * (1.0 + x.abs() * density * (2.0 + x * x));
            let off = 4.0 * T::EPSILON * size + 2.0 * T::TINY * (1.0 + dy.abs() * (1.0 + x.abs()));
            return (dy * (share + x * density), off);
        }
        Function::GeluTanh | Function::GeluTanhGradient => {
            let factor = (8.0 / std::f64::consts::PI).sqrt();
            let inner = factor * (x + 0.044715 * x * x * x);
            let s = T::of(sigmoid(inner)).wide();
            let off = (4.0 + 4.0 * inner.abs()) * T::EPSILON;
            if function == Function::GeluTanh {
                return (x * s, x.abs() * (if s == 0.0 { 0.0 } else { s * off } + 2.0 * T::TINY));
            }
            let (slope, both) = (factor * (x + 3.0 * 0.044715 * x * x * x), s * (1.0 - s));
            if both == 0.0 {
                return (dy * s, 2.0 * T::EPSILON * (dy * s).abs());
            }
            let size = dy.abs() * (s + slope.abs() * s) * off;
            return (dy * (s + slope * both), size + 2.0 * T::TINY * (1.0 + dy.abs() * (1.0 + slope.abs())));
        }
        other => panic!("{other:?} has no witness: write one"),
    };
    let off = units * T::EPSILON * value.abs() + 2.0 * T::TINY * on_the_way;
    (value, off)
}

const FACTORS: [Factors; 3] =
    [Factors::NONE, Factors { alpha: [0.5, -2.0], beta: 0.0 }, Factors { alpha: [-2.0, 0.5], beta: 0.25 }];

/// Every function over the grid, of operands of one type.
fn functions_are_what_they_mean<T: Plain>(operand: Scalar) {
    let mut rng = Rng(31);
    let grid = grid::<T>();
    for row in TABLE {
        // All pairs, and as many draws of five.
        let count = grid.len() * grid.len();
        let operands: Vec<Column> = (0..MOST_OPERANDS)
            .map(|k| {
                let numbers: Vec<f64> = (0..count)
                    .map(|i| match (k, row.operands.len() > 2) {
                        (0, false) => grid[i / grid.len()],
                        (1, false) => grid[i % grid.len()],
                        _ => rng.pick(&grid),
                    })
                    .collect();
                Column::of(operand, &numbers)
            })
            .collect();
        let old: Vec<T> = (0..count).map(|_| T::of(rng.pick(&grid))).collect();
        for parameter in if row.parameters.is_empty() { &[0.0][..] } else { &[1.0, 0.5, 1e-5, 0.0] } {
            for factors in FACTORS {
                let got = mapped(row.function, &operands, operand, *parameter, factors, &old);
                for i in 0..count {
                    let mut x: [T; MOST_OPERANDS] = std::array::from_fn(|k| T::of(operands[k].numbers[i]));
                    let is_cell = cell::<T>(row.function, [0.0; MOST_OPERANDS]).is_some();
                    if is_cell && x.iter().any(|x| x.wide().abs() > 1e9) {
                        // Products of what nearly vanishes with what nearly overflows say nothing.
                        continue;
                    }
                    let alpha = factors.alpha.map(T::of);
                    let factor = match row.scaled {
                        Scaled::Operands => {
                            (x[0], x[1]) = (alpha[0] * x[0], alpha[1] * x[1]);
                            T::of(1.0)
                        }
                        Scaled::Result => alpha[0],
                    };
                    let c = T::of(*parameter);
                    let (value, off) = match exact(row.function, x, c) {
                        Some(value) => (factor * value, 0.0),
                        None if row.function == Function::Nothing => (T::of(-0.0), 0.0),
                        None => {
                            let (value, off) = elementary::<T>(row.function, x.map(T::wide), c.wide());
                            (factor * T::of(value), factor.wide().abs() * (off + T::EPSILON * value.abs()))
                        }
                    };
                    let (want, off) = if factors.beta != 0.0 {
                        let sum = value + T::of(factors.beta) * old[i];
                        (sum, if off > 0.0 { off + T::EPSILON * sum.wide().abs() } else { 0.0 })
                    } else if row.operands.is_empty() {
                        (T::of(0.0), 0.0)
                    } else {
                        (value, off)
                    };
                    // Zeros have their sign, unless they are what a sum of numbers on the way
                    // vanished to.
                    let sums = factors.beta != 0.0 || is_cell || row.function == Function::SwishGradient;
                    let zeros = got[i].wide() == 0.0 && want.wide() == 0.0 && !sums;
                    assert!(
                        is_near(got[i], want, if zeros { 0.0 } else { off }),
                        "{:?} of {x:?} with {parameter} and {factors:?}, {:?} before: {:?} instead of {want:?}",
                        row.function,
                        old[i],
                        got[i]
                    );
                }
            }
        }
    }
}

#[test]
fn functions_are_what_they_mean_in_binary32() {
    for operand in [Scalar::F32, Scalar::F16, Scalar::Bf16, Scalar::I8] {
        functions_are_what_they_mean::<f32>(operand);
    }
}

#[test]
fn functions_are_what_they_mean_in_binary64() {
    for operand in [Scalar::F64, Scalar::F32] {
        functions_are_what_they_mean::<f64>(operand);
    }
}

/// A function, its gradient, and whether that is one of the result.
const GRADIENTS: [(Function, Function, bool); 11] = [
    (Function::Sigmoid, Function::SigmoidGradient, true),
    (Function::Tanh, Function::TanhGradient, true),
    (Function::Relu, Function::ReluGradient, false),
    (Function::ReluOrNan, Function::ReluOrNanGradient, false),
    (Function::ClippedRelu, Function::ClippedReluGradient, false),
    (Function::ClippedReluOrNan, Function::ClippedReluOrNanGradient, false),
    (Function::Elu, Function::EluGradient, true),
    (Function::Swish, Function::SwishGradient, false),
    (Function::Gelu, Function::GeluGradient, false),
    (Function::GeluTanh, Function::GeluTanhGradient, false),
    (Function::BoundedRelu, Function::BoundedReluGradient, false),
];

/// What operands besides x are, where a function has any: two bounds and a slope.
const BOUNDS: [f64; 3] = [-1.0, 2.0, 0.25];

/// A function of a cell, which of its operands a gradient is by, and the gradient.
const CELL_GRADIENTS: [(Function, usize, Function); 7] = [
    (Function::Gate, 0, Function::GateGradient),
    (Function::TanhGate, 0, Function::TanhGateGradient),
    (Function::TanhGate, 1, Function::GatedTanhGradient),
    (Function::TanhGate, 1, Function::LstmCellGradient),
    (Function::GruState, 0, Function::GruGateGradient),
    (Function::GruState, 1, Function::GruMemoryGradient),
    (Function::ClipOrNan, 0, Function::ClipGradient),
];

#[test]
fn gradients_of_cells_are_slopes() {
    const STEP: f64 = 1e-5;
    let mut rng = Rng(77);
    let draw =
        |rng: &mut Rng| -> Vec<f64> { (0..200).map(|_| (rng.below(4001) as f64 - 2000.0) / 700.0).collect() };
    for (function, by, gradient) in CELL_GRADIENTS {
        let mut operands: Vec<Vec<f64>> = (0..MOST_OPERANDS).map(|_| draw(&mut rng)).collect();
        if function == Function::ClipOrNan {
            (operands[1], operands[2]) = (vec![-0.51234; 200], vec![0.71234; 200]);
        }
        let value = |function, operands: &[Vec<f64>]| {
            let columns: Vec<Column> =
                operands.iter().map(|numbers| Column::of(Scalar::F64, numbers)).collect();
            mapped(function, &columns, Scalar::F64, 0.0, Factors::NONE, &[0.0_f64; 200])
        };
        // A gradient of a memory is one by what the memory is the hyperbolic tangent of.
        let of_memory = gradient == Function::GruMemoryGradient;
        let at = |shift: f64| {
            let mut shifted = operands.clone();
            for x in &mut shifted[by] {
                *x = if of_memory { (*x + shift).tanh() } else { *x + shift };
            }
            value(function, &shifted)
        };
        let (above, below) = (at(STEP), at(-STEP));
        let arity = gradient.row().operands.len();
        let (d, added): (usize, Option<usize>) =
            if gradient == Function::LstmCellGradient { (2, Some(3)) } else { (arity - 1, None) };
        let factors = draw(&mut rng);
        let mut given = operands.clone();
        given[d] = factors.clone();
        if of_memory {
            given[1].iter_mut().for_each(|x| *x = x.tanh());
        }
        for (i, slope) in value(gradient, &given).into_iter().enumerate() {
            let want = added.map_or(0.0, |k| given[k][i]) + factors[i] * (above[i] - below[i]) / (2.0 * STEP);
            assert!((slope - want).abs() < 1e-8, "{gradient:?} {i}: {slope} instead of {want}");
        }
    }
}

/// As recorded of the original: a clipped ReLU passes the gradient at its ceiling, and none at 0.
#[test]
fn a_clipped_relu_has_a_slope_at_its_ceiling() {
    let x = [-1.0, 0.0, 10.0, 20.0, 21.0];
    let operands = [&x, &[3.0; 5], &x, &x, &x].map(|numbers| Column::of(Scalar::F32, numbers));
    for function in [Function::ClippedReluGradient, Function::ClippedReluOrNanGradient] {
        let got = mapped(function, &operands, Scalar::F32, 20.0, Factors::NONE, &[0.0_f32; 5]);
        assert_eq!(got, [0.0, 0.0, 3.0, 3.0, 0.0], "{function:?}");
    }
}

#[test]
fn gradients_are_slopes() {
    const STEP: f64 = 1e-5;
    let named = TABLE.iter().filter(|row| format!("{:?}", row.function).ends_with("Gradient"));
    let known = GRADIENTS.len() + CELL_GRADIENTS.len();
    assert_eq!(named.count(), known, "a gradient has no function here");
    // No bend within a step.
    let points: Vec<f64> = (-80..80).map(|i| f64::from(i) * 0.11 + 0.03).collect();
    let value = |function, x: &[f64], parameter| {
        let operands = std::array::from_fn::<_, MOST_OPERANDS, _>(|k| match k {
            1..=3 => Column::of(Scalar::F64, &vec![BOUNDS[k - 1]; x.len()]),
            _ => Column::of(Scalar::F64, x),
        });
        mapped(function, &operands, Scalar::F64, parameter, Factors::NONE, &vec![0.0; x.len()])
    };
    for (function, gradient, of_result) in GRADIENTS {
        for parameter in [0.7, 2.0] {
            let at = |shift| {
                let shifted: Vec<f64> = points.iter().map(|x| x + shift).collect();
                value(function, &shifted, parameter)
            };
            let (above, here, below) = (at(STEP), at(0.0), at(-STEP));
            let mut operands = std::array::from_fn::<_, MOST_OPERANDS, _>(|k| {
                let number = if k < 2 { -1.5 } else { BOUNDS[k - 2] };
                Column::of(Scalar::F64, &vec![number; points.len()])
            });
            operands[0] = Column::of(Scalar::F64, if of_result { &here } else { &points });
            let old = vec![0.0_f64; points.len()];
            let slopes = mapped(gradient, &operands, Scalar::F64, parameter, Factors::NONE, &old);
            for (i, slope) in slopes.into_iter().enumerate() {
                let want = -1.5 * (above[i] - below[i]) / (2.0 * STEP);
                let x = points[i];
                assert!((slope - want).abs() < 1e-8, "{gradient:?} at {x}: {slope} instead of {want}");
            }
        }
    }
}
