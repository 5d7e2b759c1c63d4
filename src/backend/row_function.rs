//! The arithmetic of [`Rows`](crate::ops::Rows) on one element: what the reference and the CPU
//! kernels compute.
//!
//! Free of branches, so that a loop over it becomes vector code.

use super::formula::Words;
use super::function::Real;
use crate::dtype::math::{exp, exp_below_zero, log};

/// A function of elements and statistics as a type, so that each becomes a loop of its own.
pub(super) trait RowFormula {
    /// Operands that are read.
    const ARITY: usize;
    /// Whether the first statistic is the largest element; else there is none, and it is 0.
    const HAS_PEAK: bool;
    /// Whether the result is computed from the term instead of the operands.
    const FROM_TERM: bool;
    /// What is summed up.
    fn term<N: Words>(x: N, dy: N, peak: N) -> N;
    /// The second statistic, from the sum.
    fn statistic<T: Real>(sum: T) -> T;
    /// The result.
    fn result<N: Words>(x: N, dy: N, term: N, peak: N, statistic: N) -> N;
}

macro_rules! row_formulas {
    ($($name:ident $arity:literal peak $peak:literal from_term $from_term:literal
        |$x:ident, $dy:ident, $m:ident| $term:expr,
        |$sum:ident| $statistic:expr,
        |$t:ident, $s:ident| $result:expr;)*) => {$(
        pub(super) struct $name;
        impl RowFormula for $name {
            const ARITY: usize = $arity;
            const HAS_PEAK: bool = $peak;
            const FROM_TERM: bool = $from_term;
            #[inline(always)]
            fn term<N: Words>($x: N, $dy: N, $m: N) -> N {
                let _ = ($x, $dy, $m);
                $term
            }
            #[inline(always)]
            fn statistic<T: Real>($sum: T) -> T {
                $statistic
            }
            #[inline(always)]
            fn result<N: Words>($x: N, $dy: N, $t: N, $m: N, $s: N) -> N {
                let _ = ($x, $dy, $t, $m);
                $result.map(Real::canonical)
            }
        }
    )*};
}

row_formulas! {
    Softmax 1 peak true from_term true
        |x, dy, m| exp_below_zero(x - m), |sum| T::ONE / sum, |term, s| term * s;
    LogSoftmax 1 peak true from_term false
        |x, dy, m| exp_below_zero(x - m), |sum| log(sum), |term, s| (x - m) - s;
    SoftmaxGradient 2 peak false from_term false
        |x, dy, m| dy * x, |sum| sum, |term, s| x * (dy - s);
    LogSoftmaxGradient 2 peak false from_term false
        |x, dy, m| dy, |sum| sum, |term, s| dy - exp(x) * s;
}

/// Runs `$body` with `$F` bound to the type of a [`RowFunction`](crate::ops::RowFunction).
macro_rules! with_row_function {
    ($function:expr, $F:ident => $body:expr) => {
        $crate::backend::row_function::with_row_function!(@ $function, $F => $body,
            Softmax, LogSoftmax, SoftmaxGradient, LogSoftmaxGradient)
    };
    (@ $function:expr, $F:ident => $body:expr, $($name:ident),*) => {
        match $function {
            $($crate::ops::RowFunction::$name => {
                type $F = $crate::backend::row_function::$name;
                $body
            })*
        }
    };
}
pub(super) use with_row_function;
