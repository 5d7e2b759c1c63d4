//! The obvious loops of a normalisation: every group collected, summed by the tree as it is
//! defined, and mapped.

use super::Kind;
use super::{load, store};
use crate::backend::Address;
use crate::backend::function::{Real, with_real};
use crate::dtype::math::{expm1, sigmoid, tanh};
use crate::dtype::numbers::Math;
use crate::error::Result;
use crate::layout::LoopNest;
use crate::ops::Scaling;
use crate::ops::activation::Activation;
use crate::ops::function::Function;
use crate::ops::normalise::{Normalise, NormaliseBackward, Slope, Statistics, Tree};

/// The sum of all numbers in the order that [`Tree`] defines.
fn sum(tree: Tree, numbers: &[f64]) -> f64 {
    let mut level: Vec<f64> = numbers.chunks(tree.block).map(|block| lanes(tree.lanes, block)).collect();
    while level.len() > 1 {
        level =
            level.chunks(2).map(|pair| pair.iter().copied().reduce(|a, b| a + b).unwrap_or(0.0)).collect();
    }
    level.first().copied().unwrap_or(0.0)
}

/// The sum of one block.
fn lanes(count: usize, block: &[f64]) -> f64 {
    if count > 1 {
        // What is joined last are the lanes of even number and those of odd number.
        let half = |odd: usize| block.iter().skip(odd).step_by(2).copied().collect::<Vec<_>>();
        return lanes(count / 2, &half(0)) + lanes(count / 2, &half(1));
    }
    block.iter().fold(0.0, |sum, x| sum + x)
}

/// The offsets of a group's elements, in order.
fn offsets<const N: usize, const M: usize>(group: [i64; M], members: &LoopNest<N>) -> Vec<[i64; N]> {
    let mut offsets = Vec::new();
    members.for_each(|member| offsets.push(std::array::from_fn(|k| group[k] + member[k])));
    offsets
}

/// Mean and variance of numbers, and that of one degree of freedom less.
fn moments(tree: Tree, numbers: &[f64]) -> [f64; 3] {
    let m = numbers.len() as f64;
    let distances: Vec<f64> = numbers.iter().map(|x| x - numbers[0]).collect();
    let squares: Vec<f64> = distances.iter().map(|d| d * d).collect();
    let total = sum(tree, &distances);
    let rest = sum(tree, &squares) - total * (total / m);
    let variance = if rest < 0.0 { 0.0 } else { rest } / m;
    let unbiased = if m == 1.0 { variance } else { variance * m / (m - 1.0) };
    [numbers[0] + total / m, variance, unbiased]
}

/// The function, and its derivative.
fn activated<T: Real + Math>(Activation { function, parameter }: Activation, x: T) -> (T, T) {
    let (parameter, one) = (T::from_f64(parameter), T::from_f64(1.0));
    match function {
        Function::ReluOrNan | Function::ClippedReluOrNan if x.is_nan() => (x, one),
        Function::Relu | Function::ReluOrNan if x > T::ZERO => (x, one),
        Function::ClippedRelu | Function::ClippedReluOrNan if x > T::ZERO => {
            let result = if x > parameter { parameter } else { x };
            (result, if x <= parameter { one } else { T::ZERO })
        }
        Function::ClippedRelu | Function::ClippedReluOrNan if T::ZERO > parameter => (parameter, T::ZERO),
        Function::Relu | Function::ReluOrNan | Function::ClippedRelu | Function::ClippedReluOrNan => {
            (T::ZERO, T::ZERO)
        }
        Function::Sigmoid => (sigmoid(x), sigmoid(x) * (one - sigmoid(x))),
        Function::Tanh => (tanh(x), one - tanh(x) * tanh(x)),
        Function::Elu if x > T::ZERO => (x, one),
        Function::Elu => (parameter * expm1(x), parameter * expm1(x) + parameter),
        Function::Swish => {
            let s = sigmoid(parameter * x);
            (x * s, s + parameter * x * (s * (one - s)))
        }
        other => unreachable!("{other:?} has no formula here: write one"),
    }
}

/// Runs `step`; `at` are y, saved mean, saved inverse, mean, variance, reserve space, x, z, scale
/// and bias.
///
/// # Safety
/// For every offset of the loops, the cells of the destinations are writable (and readable where
/// they are blended), those of the others readable, each for one scalar; all addresses are aligned.
/// Operands that the step does not use are not touched.
pub unsafe fn normalise(step: &Normalise, at: &[Address]) {
    with_real!(step.compute, T => {
        // SAFETY: every operand that the step uses has the cells of each group.
        step.groups.for_each(|group| unsafe { forward_group::<T>(step, group, at) });
    });
}

/// # Safety
/// As for [`normalise`].
unsafe fn forward_group<T: Real + Math>(step: &Normalise, group: [i64; 5], at: &[Address]) {
    let [y, saved_mean, saved_inverse, means, variances, reserve, x, z, scale, bias] =
        std::array::from_fn(|k| at[k].pointer());
    let cells = offsets(group, &step.members);
    // SAFETY: the operand has a number of this group.
    let number = |from: *mut u8| unsafe { load::<T>(T::SCALAR, from, group[4]) };
    // SAFETY: the destination has a place of this group.
    let put = |to: *mut u8, value: T| unsafe { store(T::SCALAR, to, group[4], value, Scaling::MOVE) };
    let epsilon = T::from_f64(step.epsilon);
    let (mean, slope) = match step.statistics {
        Statistics::Given => (number(means), number(scale) / (number(variances) + epsilon).root()),
        Statistics::Batch { factor, running, saves } => {
            let numbers: Vec<f64> =
                // SAFETY: the cells are ones of x.
                cells.iter().map(|cell| unsafe { load::<T>(step.data, x, cell[1]) }.to_f64()).collect();
            let [mean, variance, unbiased] = moments(step.tree(), &numbers);
            let inverse = T::from_f64((variance + step.epsilon).sqrt().recip());
            if saves {
                put(saved_mean, T::from_f64(mean).canonical());
                put(saved_inverse, inverse.canonical());
            }
            for (k, to, new) in [(0, means, mean), (1, variances, unbiased)] {
                if running[k] && factor != 0.0 {
                    let old = if factor == 1.0 { 0.0 } else { (1.0 - factor) * number(to).to_f64() };
                    put(to, T::from_f64(old + factor * new).canonical());
                }
            }
            (T::from_f64(mean), number(scale) * inverse)
        }
    };
    let bias = number(bias);
    for [to, from, added, kept] in cells {
        // SAFETY: the cells are ones of x, of what is added, of what is kept and of the
        // destination.
        unsafe {
            let mut r = (load::<T>(step.data, x, from) - mean) * slope + bias;
            if step.adds {
                r = r + load::<T>(step.data, z, added);
            }
            if let Some(activation) = step.activation {
                let (result, slope) = activated(activation, r);
                r = result;
                if let Some(scalar) = step.slopes {
                    store(scalar, reserve, kept, slope.canonical(), Scaling::MOVE);
                }
            }
            write(step.data, y, to, r, step.scaling);
        }
    }
}

/// Stores `alpha * x + beta * old`, each operation rounded once in the computation type.
///
/// # Safety
/// The place is writable and aligned, and readable if `beta != 0`.
unsafe fn write<T: Real + Math>(
    scalar: crate::dtype::Scalar, base: *mut u8, offset: i64, x: T, scaling: Scaling,
) {
    let mut r = x;
    if !scaling.is_move() {
        r = x * T::from_f64(scaling.alpha);
        if scaling.beta != 0.0 {
            // SAFETY: the place is readable, as beta is not 0.
            r = r + unsafe { load::<T>(scalar, base, offset) } * T::from_f64(scaling.beta);
        }
    }
    // SAFETY: the place is writable and aligned.
    unsafe { store(scalar, base, offset, r.canonical(), Scaling::MOVE) };
}

/// Runs `step`; `at` are dx, the gradients of scale and bias, dz, x, dy, scale, bias, saved mean,
/// saved inverse and the reserve space.
///
/// # Safety
/// As for [`normalise`].
pub unsafe fn normalise_backward(step: &NormaliseBackward, at: &[Address]) {
    with_real!(step.compute, T => {
        // SAFETY: every operand that the step uses has the cells of each group.
        step.groups.for_each(|group| unsafe { backward_group::<T>(step, group, at) });
    });
}

/// # Safety
/// As for [`normalise_backward`].
unsafe fn backward_group<T: Real + Math>(step: &NormaliseBackward, group: [i64; 6], at: &[Address]) {
    let [dx, d_scale, d_bias, dz, x, dy, scale, bias, means, inverses, reserve] =
        std::array::from_fn(|k| at[k].pointer());
    let cells = offsets(group, &step.members);
    // SAFETY: the operand has a number of this group.
    let number = |from: *mut u8| unsafe { load::<T>(T::SCALAR, from, group[5]) };
    // SAFETY: the cells are ones of x.
    let xs: Vec<T> = cells.iter().map(|cell| unsafe { load(step.data, x, cell[1]) }).collect();
    let (mean, inverse) = if step.saved {
        (number(means), number(inverses))
    } else {
        let [mean, variance, _] = moments(step.tree(), &xs.iter().map(|x| x.to_f64()).collect::<Vec<_>>());
        (T::from_f64(mean), T::from_f64((variance + step.epsilon).sqrt().recip()))
    };
    let slope = number(scale) * inverse;
    let gradients: Vec<T> = cells
        .iter()
        .zip(&xs)
        .map(|(cell, &x)| {
            // SAFETY: the cells are ones of dy.
            let dy: T = unsafe { load(step.data, dy, cell[2]) };
            let factor = match step.slope {
                Slope::One => return dy,
                Slope::Of(activation) => activated(activation, (x - mean) * slope + number(bias)).1,
                // SAFETY: the cells are ones of what the forward pass kept.
                Slope::Kept(scalar) => unsafe { load(scalar, reserve, cell[4]) },
            };
            if factor == T::ZERO { T::ZERO } else { dy * factor }
        })
        .collect();
    let m = cells.len() as f64;
    let plain: Vec<f64> = gradients.iter().map(|g| g.to_f64()).collect();
    let tilted: Vec<f64> = plain.iter().zip(&xs).map(|(g, x)| g * (x.to_f64() - mean.to_f64())).collect();
    let sums = [sum(step.tree(), &plain), sum(step.tree(), &tilted) * inverse.to_f64()];
    let (centre, tilt) = (T::from_f64(sums[0] / m), T::from_f64(inverse.to_f64() * sums[1] / m));
    for (([to, _, _, split, _], g), x) in cells.into_iter().zip(gradients).zip(xs) {
        // SAFETY: the cells are ones of dx, and of dz if the step splits.
        unsafe {
            write(step.data, dx, to, (g - centre - (x - mean) * tilt) * slope, step.scaling);
            if step.splits {
                store(step.data, dz, split, g.canonical(), Scaling::MOVE);
            }
        }
    }
    let Scaling { alpha, beta } = step.parameter_scaling;
    for (to, sum) in [(d_scale, sums[1]), (d_bias, sums[0])] {
        let mut new = T::from_f64(sum) * T::from_f64(alpha);
        if beta != 0.0 {
            new = new + number(to) * T::from_f64(beta);
        }
        // SAFETY: the gradient has a place of this group.
        unsafe { store(T::SCALAR, to, group[5], new.canonical(), Scaling::MOVE) };
    }
}

impl Kind for Normalise {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { normalise(self, at) };
        Ok(())
    }
}

impl Kind for NormaliseBackward {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { normalise_backward(self, at) };
        Ok(())
    }
}
