//! The obvious loops of [`RowNorm`] and [`RowNormBackward`]: one row after the other, as the steps
//! would be computed that it stands for.

use super::reduce::Tree;
use super::{Kind, pointers};
use super::{load, store};
use crate::backend::Address;
use crate::backend::function::{Fold, Real, SquareSum, Sum, finish, with_real};
use crate::dtype::convert::Element;
use crate::error::Result;
use crate::ops::normalise::Tree as Shape;
use crate::ops::{Reduction, RowNorm, RowNormBackward, Scaling};

/// Runs `step` row by row; operands in its order.
///
/// # Safety
/// Every element of every row is writable or readable at each operand that the step touches, and
/// aligned to its scalar.
pub unsafe fn row_norm(step: &RowNorm, at: [*mut u8; RowNorm::OPERANDS]) {
    with_real!(step.compute, T => {
        // SAFETY: all elements are there in each operand that is touched.
        unsafe { run::<T>(step, at) }
    });
}

/// # Safety
/// As for [`row_norm`].
unsafe fn run<T: Real>(step: &RowNorm, at: [*mut u8; RowNorm::OPERANDS]) {
    let scalars = step.scalars();
    // SAFETY: what the step reads is readable.
    let read = |k: usize, offset: i64| unsafe { load::<T>(scalars[k], at[k], offset) };
    // SAFETY: what the step writes is writable.
    let write = |k: usize, offset: i64, x: T| unsafe { store(scalars[k], at[k], offset, x, Scaling::MOVE) };
    let epsilon = read(6, step.epsilon.1);
    let share = T::from_f64(1.0 / step.length as f64);
    step.rows.for_each(|row| {
        let x: Vec<T> = (0..step.length).map(|i| read(3, row[3] + i)).collect();
        let mut mean = <T as Element>::ZERO;
        if step.centred {
            let mut tree = Tree::<T, Sum>::new();
            x.iter().for_each(|&x| tree.add(Sum::map(x)));
            mean = finish(Reduction::Avg, tree.joined(), step.length);
        }
        let rest: Vec<T> = x.iter().map(|&x| (x - mean).canonical()).collect();
        let mut tree = Tree::<T, SquareSum>::new();
        rest.iter().for_each(|&rest| tree.add(SquareSum::map(rest)));
        let norm = finish(Reduction::Norm2, tree.joined(), step.length);
        let variance = (share * norm * norm).canonical();
        let inverse = (T::ONE / (variance + epsilon).canonical().root()).canonical();
        for (k, result) in [(1, mean), (2, inverse)] {
            if step.saved[k - 1].is_some() {
                write(k, row[k], result);
            }
        }
        let parameter = |k: usize, i: i64| {
            step.parameters[k].map(|of| read(4 + k, row[4 + k] + if of.each { i } else { 0 }))
        };
        let of_row = step.parameters[0].filter(|of| !of.each);
        let factor = match of_row.and_then(|_| parameter(0, 0)) {
            Some(scale) => (inverse * scale).canonical(),
            None => inverse,
        };
        for (i, &rest) in rest.iter().enumerate() {
            let i = i as i64;
            let mut y = rest * factor;
            if let Some(scale) = parameter(0, i).filter(|_| of_row.is_none()) {
                y = y * scale;
            }
            if let Some(bias) = parameter(1, i) {
                y = y + bias;
            }
            write(0, row[0] + i, y.canonical());
        }
    });
}

/// Runs `step` row by row; operands in its order.
///
/// # Safety
/// As for [`row_norm`].
pub unsafe fn row_norm_backward(step: &RowNormBackward, at: [*mut u8; RowNormBackward::OPERANDS]) {
    with_real!(step.compute, T => {
        // SAFETY: all elements are there in each operand that is touched.
        unsafe { run_backward::<T>(step, at) }
    });
}

/// # Safety
/// As for [`row_norm`].
unsafe fn run_backward<T: Real>(step: &RowNormBackward, at: [*mut u8; RowNormBackward::OPERANDS]) {
    let scalars = step.scalars();
    let zero = <T as Element>::ZERO;
    // SAFETY: what the step reads is readable.
    let read = |k: usize, offset: i64| unsafe { load::<T>(scalars[k], at[k], offset) };
    // SAFETY: what the step writes is writable.
    let write = |k: usize, offset: i64, x: T| unsafe { store(scalars[k], at[k], offset, x, Scaling::MOVE) };
    let length = step.length as usize;
    // What each row adds to the gradients of the parameters.
    let mut terms: [Vec<Vec<T>>; 2] = [Vec::new(), Vec::new()];
    step.rows.for_each(|row| {
        let mean = step.parameters[1].map_or(zero, |_| read(6, row[4]));
        let inverse = read(7, row[5]);
        let of = |k: usize, place: usize| -> Vec<T> {
            (0..step.length).map(|i| read(k, row[place] + i)).collect()
        };
        let (x, dy) = (of(3, 1), of(4, 2));
        let h: Vec<T> = x.iter().map(|&x| ((x - mean) * inverse).canonical()).collect();
        let g: Vec<T> = match step.parameters[0] {
            Some(_) => dy.iter().zip(of(5, 3)).map(|(&dy, scale)| (dy * scale).canonical()).collect(),
            None => dy.clone(),
        };
        let average = |terms: &mut dyn Iterator<Item = T>| {
            let mut tree = Tree::<T, Sum>::new();
            terms.for_each(|term| tree.add(term));
            finish(Reduction::Avg, tree.joined(), step.length)
        };
        let share = average(&mut g.iter().zip(&h).map(|(&g, &h)| (g * h).canonical()));
        let other = if step.parameters[1].is_some() { average(&mut g.iter().copied()) } else { zero };
        for (i, (&g, &h)) in g.iter().zip(&h).enumerate() {
            write(0, row[0] + i as i64, ((g - h * share - other) * inverse).canonical());
        }
        terms[0].push(dy.iter().zip(&h).map(|(&dy, &h)| dy * h).collect());
        terms[1].push(dy);
    });
    for (k, sum) in step.sums.iter().enumerate() {
        let Some((_, first)) = *sum else { continue };
        for i in 0..length {
            let blocks = terms[k]
                .chunks(Shape::ROWS.block)
                .map(|rows| rows.iter().fold(Sum::identity::<T>(), |sum, row| sum + row[i]));
            let mut sums: Vec<T> = blocks.collect();
            while sums.len() > 1 {
                sums = sums
                    .chunks(2)
                    .map(|two| two.iter().copied().reduce(|a, b| a + b).expect("one"))
                    .collect();
            }
            write(1 + k, first + i as i64, sums[0].canonical());
        }
    }
}

impl Kind for RowNorm {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { row_norm(self, pointers(at)) };
        Ok(())
    }
}

impl Kind for RowNormBackward {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { row_norm_backward(self, pointers(at)) };
        Ok(())
    }
}
