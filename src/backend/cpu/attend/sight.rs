//! Which keys a query sees.

use std::ops::Range;

use super::loops::Scores;
use super::problem::Problem;
use crate::ops::attend::Side;

/// Beyond all indices, and far from the ends of their type.
const FAR: f64 = (1_u64 << 40) as f64;

/// What the queries of a batch see.
#[derive(Clone, Copy)]
pub struct Sight {
    /// Queries and keys beyond which nothing counts.
    pub queries: i64,
    pub keys: i64,
    /// The last and the first key that a row sees, from its own number on.
    right: i64,
    left: i64,
    /// What products are multiplied by.
    pub scale: f32,
    /// What stands outside of the band.
    pub fill: f32,
}

/// The whole number that bounds an index, if there is one.
fn index(x: f64, without: f64) -> i64 {
    if x.is_nan() { without as i64 } else { x.clamp(-FAR, FAR) as i64 }
}

impl Sight {
    /// # Safety
    /// The operands are those of the step.
    pub unsafe fn of(problem: &Problem<'_>, batch: i64) -> Sight {
        let step = problem.step;
        // SAFETY: the operands are those of the step.
        let number =
            |operand: usize, offset: i64, without: f64| unsafe { problem.number(operand, offset, without) };
        let lengths = [0, 1].map(|k| {
            let stride = step.lengths[k].map_or(0, |(_, stride)| stride);
            number(7 + k, stride * batch, 0.0)
        });
        let [_, _, rows, keys] = step.extents;
        // A length need not be a whole number: it bounds an index.
        let within = |extent: i64, k: usize| match step.padded && step.lengths[k].is_some() {
            true => index(lengths[k].ceil(), 0.0).clamp(0, extent),
            false => extent,
        };
        let moved = lengths[1] - lengths[0];
        let by = |side: Side| if side.moves { moved } else { 0.0 };
        let right = step.right.map_or(FAR, |side| {
            let x = number(9, 0, 0.0) + by(side);
            if side.strict { x.ceil() - 1.0 } else { x.floor() }
        });
        let left = step.left.map_or(-FAR, |side| {
            let x = by(side) - number(10, 0, 0.0);
            if side.strict { x.floor() + 1.0 } else { x.ceil() }
        });
        Sight {
            queries: within(rows, 0),
            keys: within(keys, 1),
            right: index(right, -FAR),
            left: index(left, FAR),
            scale: number(5, 0, 1.0) as f32,
            fill: number(6, 0, f64::NEG_INFINITY) as f32,
        }
    }

    /// Whether what stands outside of the band counts.
    pub fn has_fill(&self) -> bool {
        self.fill != f32::NEG_INFINITY
    }

    /// The keys that a row sees.
    pub fn of_row(&self, row: i64) -> Range<i64> {
        if row >= self.queries {
            return 0..0;
        }
        let begin = row.saturating_add(self.left).clamp(0, self.keys);
        begin..row.saturating_add(self.right).saturating_add(1).clamp(begin, self.keys)
    }

    /// The keys that count for any of these rows: none between them does not.
    pub fn of_rows(&self, rows: Range<i64>) -> Range<i64> {
        let last = rows.end.min(self.queries) - 1;
        if last < rows.start {
            return 0..0;
        }
        if self.has_fill() {
            return 0..self.keys;
        }
        let (first, last) = (self.of_row(rows.start), self.of_row(last));
        // Both ends grow with the row.
        first.start..last.end.max(first.start)
    }

    /// What rows do not see becomes `fill`, and what is behind the columns minus infinity. The
    /// place is that of the first row and of the first key.
    ///
    /// # Safety
    /// The scores are writable.
    pub unsafe fn mask(&self, scores: Scores, columns: usize, (row, key): (i64, i64), fill: f32) {
        let set = |row: usize, begin: usize, end: usize, to: f32| {
            // SAFETY: a part of a row.
            (begin..end).for_each(|at| unsafe { scores.row(row).add(at).write(to) });
        };
        if columns < scores.columns {
            (0..scores.rows).for_each(|row| set(row, columns, scores.columns, f32::NEG_INFINITY));
        }
        // Both ends of what a row sees grow with the row.
        let last = self.of_row(row + scores.rows as i64 - 1);
        if last.start <= key && self.of_row(row).end >= key + columns as i64 {
            return;
        }
        for number in 0..scores.rows {
            let seen = self.of_row(row + number as i64);
            let within = |at: i64| (at - key).clamp(0, columns as i64) as usize;
            let (begin, end) = (within(seen.start), within(seen.end));
            set(number, 0, begin, fill);
            set(number, end.max(begin), columns, fill);
        }
    }
}
