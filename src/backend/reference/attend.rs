//! The obvious loops of attention: every row by its definition, in binary64.

use super::random::is_kept;
use super::{Kind, load, store};
use crate::backend::Address;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::Scaling;
use crate::ops::attend::{Attend, Kept, Side};

/// Runs `step`; `at` are its operands as [`Attend`] lists them.
///
/// # Safety
/// Every element of o and the statistics is writable, every element of the other operands readable;
/// all are aligned.
pub unsafe fn attend(step: &Attend, at: &[Address]) {
    let [batch, heads, rows, keys] = step.extents;
    let mut weights = vec![0.0; keys as usize];
    for batch in 0..batch {
        for head in 0..heads {
            for row in 0..rows {
                // SAFETY: the row is one of the step's.
                unsafe { attend_row(step, at, [batch, head, row], &mut weights) };
            }
        }
    }
}

/// The number of an operand that is one, or has one for each batch; 0 without it.
///
/// # Safety
/// It is readable and aligned, if the step touches it.
unsafe fn number(step: &Attend, at: &[Address], operand: usize, offset: i64) -> f64 {
    match step.touches()[operand] {
        // SAFETY: the step touches it.
        true => unsafe { load(step.scalars()[operand], at[operand].pointer(), offset) },
        false => 0.0,
    }
}

/// Where an element lies, in elements.
pub(super) fn offset<const N: usize>(strides: [i64; N], index: [i64; N]) -> i64 {
    strides.iter().zip(index).map(|(stride, index)| stride * index).sum()
}

/// What the scores of a batch are made with.
pub(super) struct Scores<'a> {
    step: &'a Attend,
    at: &'a [Address],
    batch: i64,
    scale: f64,
    fill: f64,
    queries: f64,
    keys: f64,
    right: f64,
    left: f64,
    /// The inner and the outer number of the cap.
    cap: [f64; 2],
}

impl<'a> Scores<'a> {
    /// # Safety
    /// As for [`attend`], as long as they are used.
    pub unsafe fn of(step: &'a Attend, at: &'a [Address], batch: i64) -> Self {
        let of_batch = |k: usize| step.lengths[k].map_or(0, |(_, stride)| stride * batch);
        // SAFETY: the numbers are there if the step touches them.
        let [scale, fill, queries, keys, right, left, inner, outer] = unsafe {
            [
                number(step, at, 5, 0),
                number(step, at, 6, 0),
                number(step, at, 7, of_batch(0)),
                number(step, at, 8, of_batch(1)),
                number(step, at, 9, 0),
                number(step, at, 10, 0),
                number(step, at, Attend::INNER, 0),
                number(step, at, Attend::OUTER, 0),
            ]
        };
        let scale = if step.scale.is_some() { scale } else { 1.0 };
        let fill = if step.fill.is_some() { fill } else { f64::NEG_INFINITY };
        Scores { step, at, batch, scale, fill, queries, keys, right, left, cap: [inner, outer] }
    }

    /// What products are multiplied by.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The score of a query and a key of a head whose product this is, and how much it grows with
    /// that times the factor, if the query sees the key.
    pub fn of_pair(
        &self, [head, row, column]: [i64; 3], product: impl FnOnce() -> f64,
    ) -> (f64, Option<f64>) {
        let step = self.step;
        let counts = |index: i64, length: usize, end: f64| {
            !step.padded || step.lengths[length].is_none() || (index as f64) < end
        };
        let sees = |side: Option<Side>, near: f64, far: f64, bound: f64, moved: f64| {
            let Some(side) = side else { return true };
            let near = near + bound + if side.moves { moved } else { 0.0 };
            if side.strict { near > far } else { near >= far }
        };
        if !counts(row, 0, self.queries) || !counts(column, 1, self.keys) {
            return (f64::NEG_INFINITY, None);
        }
        let (near, far) = (row as f64, column as f64);
        let is_seen = sees(step.right, near, far, self.right, self.keys - self.queries)
            && sees(step.left, far, near, self.left, self.queries - self.keys);
        if !is_seen {
            return (self.fill, None);
        }
        let (capped, slope) = self.capped(self.scale * product());
        let added = self.bias([self.batch, head, row, column]) + self.lean(head) * (far - near);
        (capped + added, Some(slope))
    }

    /// What the cap makes of a number, and its slope there.
    fn capped(&self, x: f64) -> (f64, f64) {
        let Some(cap) = self.step.cap else { return (x, 1.0) };
        let [inner, outer] = self.cap;
        let inner = if cap.divides { 1.0 / inner } else { inner };
        let y = (inner * x).tanh();
        (outer * y, outer * inner * (1.0 - y * y))
    }

    /// The score of the sink of a head, if there is one.
    pub fn sink(&self, head: i64) -> Option<f64> {
        let (_, step) = self.step.sink?;
        // SAFETY: the number of the head.
        Some(unsafe { number(self.step, self.at, Attend::SINK, head * step) })
    }

    /// The factor of dropout, if there is one.
    pub fn factor(&self) -> f64 {
        let factor = self.step.dropout.map(|of| of.factor);
        // SAFETY: the step touches the factor.
        factor.map_or(1.0, |scalar| unsafe { load(scalar, self.at[Attend::FACTOR].pointer(), 0) })
    }

    /// What dropout multiplies a weight by.
    pub fn kept(&self, [head, row, column]: [i64; 3]) -> f64 {
        let Some(dropout) = self.step.dropout else { return 1.0 };
        let (place, at) = ([self.batch, head, row, column], self.at[Attend::KEPT].pointer());
        let own = match dropout.kept {
            // SAFETY: a number of a weight.
            Kept::Given(scalar, strides) => unsafe { load(scalar, at, offset(strides, place)) },
            Kept::Drawn(threshold) => {
                let [_, heads, rows, keys] = self.step.extents;
                let number = offset([heads * rows * keys, rows * keys, keys, 1], place) as u64;
                // SAFETY: two words of 64 bits.
                let states = unsafe { at.cast::<[u64; 2]>().read_unaligned() };
                f64::from(u8::from(is_kept(states, threshold, number)))
            }
        };
        own * self.factor()
    }

    /// What is added to the scores of a head for each key behind the query.
    fn lean(&self, head: i64) -> f64 {
        let step = self.step.slopes.map_or(0, |(_, step)| step);
        // SAFETY: the number of the head.
        unsafe { number(self.step, self.at, Attend::SLOPES, head * step) }
    }

    /// What is added to a score.
    fn bias(&self, place: [i64; 4]) -> f64 {
        let Some((scalar, strides)) = self.step.bias else { return 0.0 };
        // SAFETY: an element of the bias.
        unsafe { load(scalar, self.at[Attend::BIAS].pointer(), offset(strides, place)) }
    }
}

/// One row; `weights` has a place for each key.
///
/// # Safety
/// As for [`attend`].
pub unsafe fn attend_row(step: &Attend, at: &[Address], [batch, head, row]: [i64; 3], weights: &mut [f64]) {
    let [o, q, k, v] = step.strides;
    let own = head / (step.extents[1] / step.heads[0]);
    let of_values = head / (step.extents[1] / step.heads[1]);
    // SAFETY: an element of a matrix of the step.
    let element = |operand: usize, strides: [i64; 4], index: [i64; 4]| unsafe {
        load::<f64>(step.scalar, at[operand].pointer(), offset(strides, index))
    };
    // SAFETY: the operands are those of the step.
    let scores = unsafe { Scores::of(step, at, batch) };
    for (column, weight) in (0..).zip(&mut *weights) {
        let product = |c: i64| element(2, q, [batch, head, row, c]) * element(3, k, [batch, own, column, c]);
        (*weight, _) = scores.of_pair([head, row, column], || (0..step.widths[0]).map(product).sum());
    }
    let sink = scores.sink(head);
    let lowest = f64::from(f32::MIN).max(sink.unwrap_or(f64::NEG_INFINITY));
    let largest = weights.iter().fold(lowest, |a, &b| if a > b || a.is_nan() { a } else { b });
    weights.iter_mut().for_each(|weight| *weight = (*weight - largest).exp());
    let total = weights.iter().sum::<f64>() + sink.map_or(0.0, |sink| (sink - largest).exp());
    for (column, weight) in (0..).zip(&mut *weights).filter(|(_, weight)| **weight != 0.0) {
        let kept = scores.kept([head, row, column]);
        *weight = if kept == 0.0 { 0.0 } else { *weight * kept };
    }
    for c in 0..step.widths[1] {
        let seen = (0..).zip(&*weights).filter(|(_, weight)| **weight != 0.0);
        let sum: f64 =
            seen.map(|(column, weight)| weight * element(4, v, [batch, of_values, column, c])).sum();
        let y = if total == 0.0 { 0.0 } else { sum / total };
        // SAFETY: an element of o.
        unsafe {
            store(step.scalar, at[0].pointer(), offset(o, [batch, head, row, c]), y, Scaling::MOVE);
        }
    }
    if let Some(strides) = step.stats {
        let natural = total.ln() + largest;
        let y = if step.log2 { natural * std::f64::consts::LOG2_E } else { natural };
        // SAFETY: a number of the statistics.
        unsafe {
            store(Scalar::F32, at[1].pointer(), offset(strides, [batch, head, row]), y, Scaling::MOVE);
        }
    }
}

impl Kind for Attend {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { attend(self, at) };
        Ok(())
    }
}
