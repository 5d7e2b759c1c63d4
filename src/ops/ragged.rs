//! Ragged: batches that lie where offsets say (the offsets are data), moved into a tensor whose
//! batches are equally far apart, or back.

use std::fmt;

use crate::dtype::Scalar;
use crate::layout::LoopNest;

/// Which way elements go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaggedFunction {
    /// From the batches to the dense tensor, where zeros stand for what a batch does not have;
    /// operands dense, ragged, offsets.
    Load,
    /// From the dense tensor to the batches: what a batch does not have is not written; operands
    /// ragged, dense, offsets.
    Store,
}

/// Batches of several lengths.
///
/// Batch b begins `offsets[b] * multiplier` elements from the pointer of the ragged operand, and
/// ends where the next one begins: it has an element if the loops of a batch reach it before that.
/// The bits of elements are kept.
///
/// How far the ragged operand reaches, only the offsets tell: a plan gives it the span of one
/// element, and who owns the memory vouches for the rest.
#[derive(Clone, Copy, Debug)]
pub struct Ragged {
    /// Which way elements go.
    pub function: RaggedFunction,
    /// The loops of one batch: dense, ragged. Strides are not negative.
    pub nest: LoopNest<2>,
    /// Number of batches; there is one more offset.
    pub batches: i64,
    /// From batch to batch of the dense tensor.
    pub stride: i64,
    /// Elements per unit of an offset.
    pub multiplier: i64,
    /// Type of elements.
    pub scalar: Scalar,
    /// Type of offsets: 32 or 64 bits.
    pub index: Scalar,
}

/// Kind, types and loops in one line, for the log.
impl fmt::Display for Ragged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ragged { function, batches, stride, multiplier, .. } = self;
        let (scalar, index) = (self.scalar.name(), self.index.name());
        write!(
            f,
            "ragged {function:?} {scalar} by {index} * {multiplier}, {batches} batches by {stride} of {}",
            self.nest
        )
    }
}
