//! What kernels see of the operands of a contraction: where both factors are, and the products of
//! the batch.

use super::points::{Loops, OperandOffsets};
use super::source::Source;

/// The factors of a contraction, and where those of every product of the batch begin.
pub struct View<'a> {
    pub a: Source<'a>,
    pub b: Source<'a>,
    pub batch: Loops,
    /// Where the first product begins in every operand.
    pub origin: [i64; 5],
}

impl View<'_> {
    /// Where a product of the batch begins in every operand.
    pub fn product(&self, number: usize) -> OperandOffsets {
        self.batch.point(number).with_origin(&self.origin)
    }
}
