//! Powers with a negative exponent, as types, so that each exponent that roots reach becomes a loop
//! of its own.

use super::function::Real;
use crate::dtype::math;

/// A negative power.
pub(super) trait InversePower {
    /// `s^-beta`
    fn of<T: Real>(s: T, beta: T) -> T;
}

macro_rules! inverse_powers {
    ($($(#[$doc:meta])* $name:ident |$s:ident, $beta:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name;
        impl InversePower for $name {
            #[inline(always)]
            fn of<T: Real>($s: T, $beta: T) -> T {
                let _ = $beta;
                $body
            }
        }
    )*};
}

inverse_powers! {
    /// 1/2
    OfHalf |s, beta| T::ONE / s.root();
    /// 3/4
    OfThreeQuarters |s, beta| T::ONE / (s.root() * s.root().root());
    /// 1
    OfOne |s, beta| T::ONE / s;
    /// Any other one.
    OfAny |s, beta| math::exp(math::log(s) * -beta);
}

/// Runs `$body` with `$P` bound to the type of an exponent.
macro_rules! with_inverse_power {
    ($beta:expr, $P:ident => $body:expr) => {
        if $beta == 0.75 {
            type $P = $crate::backend::inverse_power::OfThreeQuarters;
            $body
        } else if $beta == 0.5 {
            type $P = $crate::backend::inverse_power::OfHalf;
            $body
        } else if $beta == 1.0 {
            type $P = $crate::backend::inverse_power::OfOne;
            $body
        } else {
            type $P = $crate::backend::inverse_power::OfAny;
            $body
        }
    };
}
pub(super) use with_inverse_power;

/// `s^-beta`
pub(super) fn inverse_power<T: Real>(s: T, beta: f64) -> T {
    with_inverse_power!(beta, P => P::of(s, T::from_f64(beta)))
}
