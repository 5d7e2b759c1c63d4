//! The obvious loops of the gradients of attention: every row by its definition, in binary64.

use super::attend::{Scores, offset};
use super::{Kind, load, store};
use crate::backend::Address;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::Scaling;
use crate::ops::attend::AttendBackward;

/// Runs `step`; `at` are its operands as [`AttendBackward`] lists them.
///
/// # Safety
/// Every element of the gradients is writable, every element of the other operands readable; all
/// are aligned.
pub unsafe fn attend_backward(step: &AttendBackward, at: &[Address]) {
    let mut sums = vec![0.0; gradient_columns(step)];
    for row in 0..gradient_rows(step) {
        // SAFETY: the row is one of the step's.
        unsafe { gradient_row(step, at, row, &mut sums) };
    }
}

/// The most columns of a row of a gradient.
pub fn gradient_columns(step: &AttendBackward) -> usize {
    let [width, columns] = step.forward.widths;
    width.max(columns).max(if step.bias.is_some() { step.forward.extents[3] } else { 0 }) as usize
}

/// How many rows dq, dk, dv and the gradient of the bias have.
fn rows_of(step: &AttendBackward) -> [i64; 4] {
    let ([batch, heads, rows, keys], [of_k, of_v]) = (step.forward.extents, step.forward.heads);
    let of_bias = step.bias.map_or(0, |(_, strides)| {
        let own = |axis: usize| if strides[axis] == 0 { 1 } else { step.forward.extents[axis] };
        own(0) * own(1) * rows
    });
    [batch * heads * rows, batch * of_k * keys, batch * of_v * keys, of_bias]
}

/// The same together.
pub fn gradient_rows(step: &AttendBackward) -> i64 {
    rows_of(step).iter().sum()
}

/// One row: of dq first, of dk then, of dv, and of the bias; `sums` has [`gradient_columns`]
/// places.
///
/// # Safety
/// As for [`attend_backward`].
pub unsafe fn gradient_row(step: &AttendBackward, at: &[Address], row: i64, sums: &mut [f64]) {
    let forward = &step.forward;
    let [_, heads, rows, keys] = forward.extents;
    let [of_q, of_k, of_v, _] = rows_of(step);
    if row >= of_q + of_k + of_v {
        // SAFETY: the row is one of the step's.
        return unsafe { bias_row(step, at, row - of_q - of_k - of_v, sums) };
    }
    let (result, number, own_heads, count) = match row {
        _ if row < of_q => (0, row, heads, rows),
        _ if row < of_q + of_k => (1, row - of_q, forward.heads[0], keys),
        _ => (2, row - of_q - of_k, forward.heads[1], keys),
    };
    let (outer, place) = (number / count, number % count);
    let (batch, own) = (outer / own_heads, outer % own_heads);
    // SAFETY: the operands are those of the step.
    let pairs = unsafe { Pairs::of(step, at, batch) };
    let sums = &mut sums[..forward.widths[usize::from(result == 2)] as usize];
    sums.fill(0.0);
    let share = heads / own_heads;
    let mut add = |factor: f64, element: &dyn Fn(i64) -> f64| {
        if factor != 0.0 {
            (0..).zip(&mut *sums).for_each(|(c, sum)| *sum += factor * element(c));
        }
    };
    if result == 0 {
        let distance = pairs.row_sum(own, place);
        for column in 0..keys {
            let factor = pairs.of_score(own, place, column, distance);
            add(factor, &|c| pairs.matrix(K, pairs.key_head(0, own), column, c));
        }
    } else {
        for head in own * share..(own + 1) * share {
            for row in 0..rows {
                match result {
                    1 => {
                        let factor = pairs.of_score(head, row, place, pairs.row_sum(head, row));
                        add(factor, &|c| pairs.matrix(Q, head, row, c));
                    }
                    _ => {
                        let weight = pairs.weight(head, row, place).0;
                        let kept = if weight == 0.0 { 0.0 } else { pairs.scores.kept([head, row, place]) };
                        let factor = if kept == 0.0 { 0.0 } else { weight * kept };
                        add(factor, &|c| pairs.matrix(DO, head, row, c));
                    }
                }
            }
        }
    }
    let scale = if result == 2 { 1.0 } else { pairs.scores.scale() };
    for (c, sum) in (0..).zip(&*sums) {
        let to = offset(step.strides[result], [batch, own, place, c]);
        // SAFETY: an element of the gradient.
        unsafe { store(forward.scalar, at[result].pointer(), to, scale * sum, Scaling::MOVE) };
    }
}

/// One row of the gradient of the bias.
///
/// # Safety
/// As for [`attend_backward`].
unsafe fn bias_row(step: &AttendBackward, at: &[Address], row: i64, sums: &mut [f64]) {
    let Some((scalar, strides)) = step.bias else { return };
    let [batch, heads, rows, keys] = step.forward.extents;
    let own_heads = if strides[1] == 0 { 1 } else { heads };
    let (outer, place) = (row / rows, row % rows);
    let (own_batch, own_head) = (outer / own_heads, outer % own_heads);
    let sums = &mut sums[..keys as usize];
    sums.fill(0.0);
    let all = |axis: usize, own: i64, count: i64| if strides[axis] == 0 { 0..count } else { own..own + 1 };
    for batch in all(0, own_batch, batch) {
        // SAFETY: the operands are those of the step.
        let pairs = unsafe { Pairs::of(step, at, batch) };
        for head in all(1, own_head, heads) {
            let distance = pairs.row_sum(head, place);
            for (column, sum) in (0..).zip(&mut *sums) {
                *sum += pairs.of_bias(head, place, column, distance).map_or(0.0, |(x, _)| x);
            }
        }
    }
    for (column, sum) in (0..).zip(&*sums) {
        let to = offset(strides, [own_batch, own_head, place, column]);
        // SAFETY: an element of the gradient.
        unsafe { store(scalar, at[AttendBackward::BIAS].pointer(), to, *sum, Scaling::MOVE) };
    }
}

/// Operands that are matrices.
const DO: usize = AttendBackward::DO;
const O: usize = AttendBackward::FORWARD;
const STATS: usize = O + 1;
const Q: usize = O + 2;
const K: usize = O + 3;
const V: usize = O + 4;

/// The queries and keys of a batch.
struct Pairs<'a> {
    step: &'a AttendBackward,
    at: &'a [Address],
    batch: i64,
    scores: Scores<'a>,
}

impl<'a> Pairs<'a> {
    /// # Safety
    /// As for [`attend_backward`], as long as it is used.
    unsafe fn of(step: &'a AttendBackward, at: &'a [Address], batch: i64) -> Self {
        // SAFETY: these are the operands of the attention.
        let scores = unsafe { Scores::of(&step.forward, &at[AttendBackward::FORWARD..], batch) };
        Pairs { step, at, batch, scores }
    }

    /// The head of keys, or of values, of a head of queries.
    fn key_head(&self, which: usize, head: i64) -> i64 {
        let forward = &self.step.forward;
        head / (forward.extents[1] / forward.heads[which])
    }

    fn matrix(&self, operand: usize, head: i64, row: i64, column: i64) -> f64 {
        let strides = match operand {
            DO => self.step.strides[3],
            O => self.step.forward.strides[0],
            _ => self.step.forward.strides[operand - STATS],
        };
        let place = offset(strides, [self.batch, head, row, column]);
        // SAFETY: an element of a matrix of the step.
        unsafe { load(self.step.forward.scalar, self.at[operand].pointer(), place) }
    }

    /// The sum of `do * o` along a row, times the factor of dropout and its inverse.
    fn row_sum(&self, head: i64, row: i64) -> f64 {
        let product = |c: i64| self.matrix(DO, head, row, c) * self.matrix(O, head, row, c);
        let sum: f64 = (0..self.step.forward.widths[1]).map(product).sum();
        let Some(scalar) = self.step.inverse else { return sum };
        // SAFETY: the step touches the number.
        let inverse: f64 = unsafe { load(scalar, self.at[AttendBackward::INVERSE].pointer(), 0) };
        sum * inverse * self.scores.factor()
    }

    /// The weight of a key, and the slope of its score.
    fn weight(&self, head: i64, row: i64, column: i64) -> (f64, Option<f64>) {
        let (forward, of_keys) = (&self.step.forward, self.key_head(0, head));
        let term = |c: i64| self.matrix(Q, head, row, c) * self.matrix(K, of_keys, column, c);
        let (score, slope) =
            self.scores.of_pair([head, row, column], || (0..forward.widths[0]).map(term).sum());
        if score == f64::NEG_INFINITY {
            return (0.0, slope);
        }
        let place = offset(forward.stats.unwrap_or_default(), [self.batch, head, row]);
        // SAFETY: a number of the statistics.
        let stats: f64 = unsafe { load(Scalar::F32, self.at[STATS].pointer(), place) };
        let natural = if forward.log2 { stats / std::f64::consts::LOG2_E } else { stats };
        let lowest = f64::from(f32::MIN);
        ((score - if natural < lowest { lowest } else { natural }).exp(), slope)
    }

    /// The gradient of a score, of a row that sums up to `distance`.
    fn of_score(&self, head: i64, row: i64, column: i64, distance: f64) -> f64 {
        let found = self.of_bias(head, row, column, distance);
        found.map_or(0.0, |(x, slope)| if slope == 0.0 { 0.0 } else { x * slope })
    }

    /// The gradient of what is added to a score, and the slope of the score, if there is one.
    fn of_bias(&self, head: i64, row: i64, column: i64, distance: f64) -> Option<(f64, f64)> {
        let (weight, slope) = self.weight(head, row, column);
        let slope = slope.filter(|_| weight != 0.0)?;
        let of_values = self.key_head(1, head);
        let term = |c: i64| self.matrix(DO, head, row, c) * self.matrix(V, of_values, column, c);
        let kept = self.scores.kept([head, row, column]);
        let of_weight =
            if kept == 0.0 { 0.0 } else { kept * (0..self.step.forward.widths[1]).map(term).sum::<f64>() };
        Some((weight * (of_weight - distance), slope))
    }
}

impl Kind for AttendBackward {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { attend_backward(self, at) };
        Ok(())
    }
}
