//! The step that computes a function element by element.

use std::fmt;

use super::Compute;
use super::function::Function;
use crate::dtype::Scalar;
use crate::layout::LoopNest;

/// Factors of operands or of the result, and of the old destination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// Factors of the first two operands, or the first one of the result, as the function's row has
    /// it. Further operands have none.
    pub alpha: [f64; 2],
    /// Factor of the old destination, which is not read if this is 0.
    pub beta: f64,
}

impl Factors {
    /// The result as it is.
    pub const NONE: Factors = Factors { alpha: [1.0, 1.0], beta: 0.0 };
}

/// `dst = convert(function(alpha1 * a, alpha2 * b, ...) + beta * dst)`, or with
/// `alpha1 * function(a, b, ...)`, for every offset tuple of the nest (operand 0 dst, 1 a, 2 b,
/// ...; operands that are not read have stride 0).
///
/// Every operand is converted to the computation type, each operation rounds there once, and the
/// result is converted by the table of [`dtype::convert`](crate::dtype::convert).
#[derive(Clone, Copy)]
pub struct Map<const N: usize = 3> {
    /// Offsets in scalars of each operand's own type; canonical.
    pub nest: LoopNest<N>,
    /// Scalar types of the destination and of the operands.
    pub scalars: [Scalar; N],
    /// The type of intermediate results.
    pub compute: Compute,
    /// What is computed.
    pub function: Function,
    /// Its parameter, if it has one.
    pub parameter: f64,
    /// The factors; those of operands that are not read do not matter.
    pub factors: Factors,
}

/// Types, factors and loops in one line, for the log.
impl<const N: usize> fmt::Display for Map<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Map { nest, scalars, compute, function, parameter, factors: Factors { alpha, beta } } = self;
        write!(f, "map {function:?} ")?;
        let mut separator = "";
        // Types that are all the same are named once.
        let read = &scalars[1..=function.arity().max(1)];
        let named = if read.iter().all(|scalar| *scalar == read[0]) { &read[..1] } else { read };
        for scalar in named {
            write!(f, "{separator}{}", scalar.name())?;
            separator = ",";
        }
        write!(f, "->{}->{}", compute.scalar().name(), scalars[0].name())?;
        for name in function.row().parameters {
            write!(f, " {name}={parameter}")?;
        }
        write!(f, " alpha={alpha:?} beta={beta} {nest}")
    }
}
