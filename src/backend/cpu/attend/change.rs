//! What changes the scores of a head on their way to the softmax.

use super::loops::Scores;
use super::matrix::{MOST_KEYS, Matrix, Types};
use super::problem::Problem;
use crate::ops::attend::Attend;

/// The changes of the scores of a head: the bias that is added to them.
pub struct Change {
    /// A row for each query, a column for each key.
    bias: Option<Matrix>,
    /// The batch and the head.
    head: [i64; 2],
    add: unsafe fn(*mut f32, *const f32, usize),
}

impl Change {
    pub fn of(problem: &Problem<'_>, head: [i64; 2]) -> Change {
        let bias = problem.step.bias.map(|(scalar, strides)| {
            let types = Types::of(scalar, problem.machine.isa);
            Matrix::new(problem.at[Attend::BIAS], strides, problem.step.extents[3], types)
        });
        Change { bias, head, add: problem.level.loops.add }
    }

    /// Changes the first `columns` of some scores. The place is that of the first row and of the
    /// first key.
    ///
    /// # Safety
    /// The operands are those of the step, which has such a place; the scores are readable and
    /// writable.
    pub unsafe fn apply(&self, scores: Scores, columns: usize, (first, key): (i64, i64)) {
        let Some(bias) = &self.bias else { return };
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
            unsafe { (self.add)(scores.row(row), added, columns) };
        }
    }
}
