//! The step that takes statistics of a group of elements, and then computes a function of each of
//! them.

use std::fmt;

use super::{Compute, Scaling};
use crate::dtype::Scalar;
use crate::layout::LoopNest;

/// What is computed of the elements x (and, of a gradient, dy) of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFunction {
    /// `exp(x - max) / sum of exp(x - max)`
    Softmax,
    /// `(x - max) - log(sum of exp(x - max))`
    LogSoftmax,
    /// `x * (dy - sum of dy * x)`, with x the softmax.
    SoftmaxGradient,
    /// `dy - exp(x) * sum of dy`, with x the logarithm of the softmax.
    LogSoftmaxGradient,
}

impl RowFunction {
    /// How many operands are read.
    pub const fn arity(self) -> usize {
        match self {
            RowFunction::Softmax | RowFunction::LogSoftmax => 1,
            RowFunction::SoftmaxGradient | RowFunction::LogSoftmaxGradient => 2,
        }
    }
}

/// `dst = convert(alpha * function(x, statistics of x's group) + beta * dst)`, for every element of
/// every group.
///
/// # Statistics
/// A function has at most two of them. The first is the largest element, a NaN if there is one; the
/// second is a sum of terms, which may depend on the first, in the tree of
/// [`Reduce`](super::Reduce), whose shape depends on nothing but the number of elements. A group's
/// elements come in the order of the loops over them. Everything is computed in one type, each
/// operation rounded once.
///
/// # What it does not cover
/// Means in the place of the largest element, factors per element, and statistics that are results
/// themselves: what normalisation needs besides. Each is one more value of an enumeration here, and
/// one more branch where `backend/cpu/reduce/rows.rs` takes statistics; the loops over groups and
/// elements stay.
#[derive(Clone, Copy)]
pub struct Rows {
    /// Loops over groups; operand 0 counts scalars of the destination, 1 of x, 2 of dy (not read:
    /// strides of 0).
    pub groups: LoopNest<3>,
    /// Loops over the elements of a group, from its first one.
    pub elements: LoopNest<3>,
    /// Scalar types of the destination and of the operands.
    pub scalars: [Scalar; 3],
    /// The type of intermediate results.
    pub compute: Compute,
    /// What is computed.
    pub function: RowFunction,
    /// Alpha and beta.
    pub scaling: Scaling,
}

/// Types, factors and loops in one line, for the log.
impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rows { groups, elements, scalars: [dst, x, dy], compute, function, scaling } = self;
        write!(f, "rows {function:?} {}", x.name())?;
        if function.arity() == 2 {
            write!(f, ",{}", dy.name())?;
        }
        write!(f, "->{}->{}", compute.scalar().name(), dst.name())?;
        write!(f, " alpha={} beta={} groups {groups} elements {elements}", scaling.alpha, scaling.beta)
    }
}
