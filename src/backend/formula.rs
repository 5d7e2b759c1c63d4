//! The words of the formulas in `ops/function.rs`, as the CPU computes them; `kernels/formula.cuh` has their twins.
//!
//! Free of branches, so that a loop over a formula becomes vector code.

pub(super) use crate::dtype::math::{erf, exp, expm1, log, sigmoid, softplus, tanh};

use super::real::{Real, maximum, minimum};
use crate::dtype::convert::Element;
use crate::dtype::math::Math;
use crate::dtype::numbers::Numbers;

/// What formulas are about: a number, or several in step.
pub(super) trait Words: Numbers<Each: Real> {}
impl<N: Numbers<Each: Real>> Words for N {}

/// The zero that leaves every number it is added to as it is.
#[inline(always)]
pub(super) fn nothing<N: Words>() -> N {
    -N::all(N::Each::ZERO)
}

/// 0 of the type of `x`.
#[inline(always)]
pub(super) fn zero<N: Words>(_: N) -> N {
    N::all(N::Each::ZERO)
}

/// 1 of the type of `x`.
#[inline(always)]
pub(super) fn one<N: Words>(_: N) -> N {
    N::all(N::Each::ONE)
}

/// `x <= y`
#[inline(always)]
pub(super) fn less_or_equal<N: Words>(x: N, y: N) -> N::Truth {
    x.less_or_equal(y)
}

/// `x > y`
#[inline(always)]
pub(super) fn greater<N: Words>(x: N, y: N) -> N::Truth {
    y.less(x)
}

#[inline(always)]
pub(super) fn choose<N: Words>(condition: N::Truth, yes: N, no: N) -> N {
    N::choose(condition, yes, no)
}

/// `x`, but for numbers above `bound`, which become it.
#[inline(always)]
pub(super) fn below<N: Words>(x: N, bound: N) -> N {
    choose(greater(x, bound), bound, x)
}

#[inline(always)]
pub(super) fn root<N: Words>(x: N) -> N {
    x.map(Real::root)
}

#[inline(always)]
pub(super) fn least_number<N: Words>(x: N, y: N) -> N {
    x.zip(y, minimum::<N::Each, false>)
}

#[inline(always)]
pub(super) fn least_or_nan<N: Words>(x: N, y: N) -> N {
    x.zip(y, minimum::<N::Each, true>)
}

#[inline(always)]
pub(super) fn greatest_number<N: Words>(x: N, y: N) -> N {
    x.zip(y, maximum::<N::Each, false>)
}

#[inline(always)]
pub(super) fn greatest_or_nan<N: Words>(x: N, y: N) -> N {
    x.zip(y, maximum::<N::Each, true>)
}

/// The derivative of `x s` with `s` the sigmoid of `b x`.
#[inline(always)]
pub(super) fn swish_slope<N: Words>(x: N, b: N, s: N) -> N {
    s + b * x * (s * (one(s) - s))
}

/// The derivative of the sigmoid, from its result.
#[inline(always)]
pub(super) fn gate_slope<N: Words>(s: N) -> N {
    s * (one(s) - s)
}

/// The derivative of the hyperbolic tangent, from its result.
#[inline(always)]
pub(super) fn tanh_slope<N: Words>(t: N) -> N {
    one(t) - t * t
}
