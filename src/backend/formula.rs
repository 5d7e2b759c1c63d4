//! The words of the formulas in `ops/function.rs`, as the CPU computes them; `kernels/formula.cuh` has their twins.
//!
//! Free of branches, so that a loop over a formula becomes vector code.

pub(super) use crate::dtype::math::{erf, exp, expm1, log, sigmoid, softplus, tanh};

use super::real::{Real, maximum, minimum};

/// The zero that leaves every number it is added to as it is.
#[inline(always)]
pub(super) fn nothing<T: Real>() -> T {
    T::ZERO.negative()
}

/// 0 of the type of `x`.
#[inline(always)]
pub(super) fn zero<T: Real>(_: T) -> T {
    T::ZERO
}

/// 1 of the type of `x`.
#[inline(always)]
pub(super) fn one<T: Real>(_: T) -> T {
    T::ONE
}

#[inline(always)]
pub(super) fn choose<T: Real>(condition: bool, yes: T, no: T) -> T {
    if condition { yes } else { no }
}

/// `x`, but for numbers above `bound`, which become it.
#[inline(always)]
pub(super) fn below<T: Real>(x: T, bound: T) -> T {
    choose(x > bound, bound, x)
}

#[inline(always)]
pub(super) fn root<T: Real>(x: T) -> T {
    x.root()
}

#[inline(always)]
pub(super) fn least_number<T: Real>(x: T, y: T) -> T {
    minimum::<T, false>(x, y)
}

#[inline(always)]
pub(super) fn least_or_nan<T: Real>(x: T, y: T) -> T {
    minimum::<T, true>(x, y)
}

#[inline(always)]
pub(super) fn greatest_number<T: Real>(x: T, y: T) -> T {
    maximum::<T, false>(x, y)
}

#[inline(always)]
pub(super) fn greatest_or_nan<T: Real>(x: T, y: T) -> T {
    maximum::<T, true>(x, y)
}

/// The derivative of `x s` with `s` the sigmoid of `b x`.
#[inline(always)]
pub(super) fn swish_slope<T: Real>(x: T, b: T, s: T) -> T {
    s + b * x * (s * (T::ONE - s))
}
