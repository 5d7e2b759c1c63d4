//! What changes the scores of a head on their way to the softmax.

use super::loops::{Loops, Scores};
use super::matrix::{MOST_KEYS, Matrix, Types};
use super::problem::Problem;
use crate::ops::attend::Attend;

/// The changes of the scores of a head: what limits them, and what is added then.
pub struct Change {
    /// The inner factor and the outer one.
    cap: Option<[f32; 2]>,
    /// A row for each query, a column for each key.
    bias: Option<Matrix>,
    /// What a score grows by for each key behind its query.
    slope: Option<f32>,
    /// The batch and the head.
    head: [i64; 2],
    loops: Loops,
}

impl Change {
    /// # Safety
    /// The operands are those of the step.
    pub unsafe fn of(problem: &Problem<'_>, head: [i64; 2]) -> Change {
        let cap = problem.step.cap.map(|cap| {
            // SAFETY: the operands are those of the step.
            let [inner, outer] =
                [Attend::INNER, Attend::OUTER].map(|operand| unsafe { problem.number(operand, 0, 1.0) });
            [if cap.divides { 1.0 / inner } else { inner } as f32, outer as f32]
        });
        let bias = problem.step.bias.map(|(scalar, strides)| {
            let types = Types::of(scalar, problem.machine.isa);
            Matrix::new(problem.at[Attend::BIAS], strides, problem.step.extents[3], types)
        });
        let slope = problem.step.slopes.map(|(_, step)| {
            // SAFETY: the operands are those of the step.
            unsafe { problem.number(Attend::SLOPES, head[1] * step, 0.0) as f32 }
        });
        Change { cap, bias, slope, head, loops: problem.level.loops }
    }

    /// Changes the first `columns` of some scores, and leaves the slopes of the cap, if there is
    /// one and a place for them. The place is that of the first row and of the first key.
    ///
    /// # Safety
    /// The operands are those of the step, which has such a place; the scores are readable and
    /// writable, and there is room for as many slopes.
    pub unsafe fn apply(&self, scores: Scores, columns: usize, place: (i64, i64), slopes: *mut f32) {
        if let Some(cap) = self.cap {
            // SAFETY: the scores are writable, and there is room for the slopes.
            unsafe {
                for row in (0..scores.rows).map(|row| scores.row(row)) {
                    row.add(columns).write_bytes(0, scores.columns - columns);
                }
                (self.loops.limit)(scores, cap, slopes);
            }
        }
        if let Some(bias) = &self.bias {
            // SAFETY: the operands and the scores are as above.
            unsafe { self.add(bias, scores, columns, place) };
        }
        if let Some(slope) = self.slope {
            for (row, number) in (0..scores.rows).zip(place.0..) {
                // SAFETY: the columns of a row.
                unsafe { (self.loops.lean)(scores.row(row), columns, (place.1 - number) as f32, slope) };
            }
        }
    }

    /// Multiplies gradients of changed scores by the slopes that were left.
    ///
    /// # Safety
    /// They are readable and writable, and so are as many slopes if there is a cap.
    pub unsafe fn bend(&self, gradients: Scores, slopes: *const f32) {
        if self.cap.is_some() {
            // SAFETY: the slopes are there.
            unsafe { (self.loops.join)(gradients, slopes) };
        }
    }

    /// Adds the bias.
    ///
    /// # Safety
    /// As for [`apply`](Change::apply).
    unsafe fn add(&self, bias: &Matrix, scores: Scores, columns: usize, (first, key): (i64, i64)) {
        let ([batch, head], tile) = (self.head, bias.part(key, columns));
        let mut cells = [0.0; MOST_KEYS];
        for (row, number) in (0..scores.rows).zip(first..) {
            let place = [batch, head, number];
            let added = match tile.in_place(place) {
                Some((at, _)) => at,
                None => {
                    if row == 0 || !tile.repeats_rows() {
                        // SAFETY: the cells have room for the columns of a row.
                        unsafe { tile.load(place, 1, cells.as_mut_ptr(), columns) };
                    }
                    cells.as_ptr()
                }
            };
            // SAFETY: the columns of a row.
            unsafe { (self.loops.add)(scores.row(row), added, columns) };
        }
    }
}
