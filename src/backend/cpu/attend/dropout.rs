//! What dropout multiplies weights by, tile by tile.

use super::loops::{Loops, Scores};
use super::matrix::{MOST_KEYS, Matrix, Types};
use super::problem::Problem;
use crate::backend::cpu::random::{MOST_RUN, Run};
use crate::ops::attend::{self, Attend};

const _: () = assert!(MOST_KEYS <= MOST_RUN, "a row of a tile is drawn at once");

/// The numbers of the weights of a head.
pub struct Dropout {
    kept: Kept,
    factor: f32,
    /// The batch and the head.
    head: [i64; 2],
    loops: Loops,
}

enum Kept {
    /// A row for each query, a column for each key.
    Given(Matrix),
    /// What draws them, the number of the head's first weight, and weights of a row.
    Drawn(Run, i64, i64),
}

impl Dropout {
    /// # Safety
    /// The operands are those of the step.
    pub unsafe fn of(problem: &Problem<'_>, [batch, head]: [i64; 2]) -> Option<Dropout> {
        let (attend::Dropout { kept, .. }, isa) = (problem.step.dropout?, problem.machine.isa);
        let ([_, heads, rows, keys], at) = (problem.step.extents, problem.at[Attend::KEPT]);
        let kept = match kept {
            attend::Kept::Given(scalar, strides) => {
                Kept::Given(Matrix::new(at, strides, keys, Types::of(scalar, isa)))
            }
            attend::Kept::Drawn(threshold) => {
                // SAFETY: a seed and the number of the call.
                let states = unsafe { at.pointer().cast::<[u64; 2]>().read_unaligned() };
                Kept::Drawn(Run::new(states, threshold, isa), (batch * heads + head) * rows * keys, keys)
            }
        };
        // SAFETY: the step has a factor.
        let factor = unsafe { problem.number(Attend::FACTOR, 0, 1.0) } as f32;
        Some(Dropout { kept, factor, head: [batch, head], loops: problem.level.loops })
    }

    /// What the first `columns` weights of these rows are multiplied by, and zeros behind them, as
    /// far apart. The place is that of the first row and of the first key.
    ///
    /// # Safety
    /// The operands are those of the step, which has such a place, and there is room for as many
    /// numbers as for the weights, up to the pitch of the last row.
    pub unsafe fn numbers(&self, weights: Scores, columns: usize, place: (i64, i64), to: *mut f32) {
        let ((first, key), [batch, head]) = (place, self.head);
        let Scores { rows, pitch, .. } = weights;
        // SAFETY: rows of the numbers of the head, and room for them.
        unsafe {
            match &self.kept {
                Kept::Given(numbers) => {
                    numbers.part(key, columns).load([batch, head, first], rows, to, pitch);
                    (self.loops.multiply)(to, rows * pitch, self.factor);
                }
                Kept::Drawn(run, begin, keys) => {
                    for (row, number) in (0..rows).zip(first..) {
                        let (to, at) = (to.add(row * pitch), begin + number * keys + key);
                        run.factors(at as u64, columns, self.factor, to);
                        to.add(columns).write_bytes(0, weights.columns - columns);
                    }
                }
            }
        }
    }
}
