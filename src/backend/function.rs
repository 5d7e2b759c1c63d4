//! The arithmetic of functions and reductions on one pair of numbers: what the reference and every kernel compute.
//!
//! Free of branches, so that a loop over it becomes vector code.

use std::ops::{Add, Div, Mul, Sub};

use crate::dtype::convert::Element;
use crate::ops::Reduction;

/// A floating type to compute in: binary32 or binary64.
pub(super) trait Real:
    Element + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    const ONE: Self;
    const INFINITY: Self;
    const NAN: Self;
    /// What every number intersects with to itself.
    const ALL_BITS: Self;
    fn root(self) -> Self;
    fn magnitude(self) -> Self;
    fn negative(self) -> Self;
    /// The number whose bits are set in either.
    fn union(self, other: Self) -> Self;
    /// The number whose bits are set in both.
    fn intersection(self, other: Self) -> Self;

    /// The one NaN of the type for every NaN, everything else as it is. Decided on the bits: which NaN a root is, is
    /// left open, and compilers have taken that as leave to drop a comparison of numbers.
    fn canonical(self) -> Self;

    #[inline(always)]
    #[allow(clippy::eq_op, reason = "only a NaN differs from itself")]
    fn is_nan(self) -> bool {
        self != self
    }
}

macro_rules! real {
    ($T:ty) => {
        impl Real for $T {
            const ONE: Self = 1.0;
            const INFINITY: Self = <$T>::INFINITY;
            const NAN: Self = <$T>::from_bits(!0 >> 1);
            const ALL_BITS: Self = <$T>::from_bits(!0);
            #[inline(always)]
            fn canonical(self) -> Self {
                let magnitude = <$T>::to_bits(self) & (!0 >> 1);
                if magnitude > <$T>::to_bits(<$T>::INFINITY) { <Self as Real>::NAN } else { self }
            }
            #[inline(always)]
            fn root(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn negative(self) -> Self {
                -self
            }
            #[inline(always)]
            fn union(self, other: Self) -> Self {
                <$T>::from_bits(<$T>::to_bits(self) | <$T>::to_bits(other))
            }
            #[inline(always)]
            fn intersection(self, other: Self) -> Self {
                <$T>::from_bits(<$T>::to_bits(self) & <$T>::to_bits(other))
            }
        }
    };
}
real!(f32);
real!(f64);

/// Runs `$body` with `$T` bound to the type of a [`Compute`](crate::ops::Compute).
macro_rules! with_real {
    ($compute:expr, $T:ident => $body:expr) => {
        match $compute {
            $crate::ops::Compute::Single => {
                type $T = f32;
                $body
            }
            $crate::ops::Compute::Double => {
                type $T = f64;
                $body
            }
        }
    };
}
pub(super) use with_real;

/// The smaller number, the negative one of two zeros.
#[inline(always)]
pub(super) fn minimum<T: Real, const PROPAGATE: bool>(a: T, b: T) -> T {
    let smaller = of_nans::<T, PROPAGATE>(a, b, if a < b { a } else { b });
    // Equal numbers have equal bits, but for zeros, of which the union is the negative one.
    smaller.union(if a == b { a } else { T::ZERO })
}

/// The larger number, the positive one of two zeros.
#[inline(always)]
pub(super) fn maximum<T: Real, const PROPAGATE: bool>(a: T, b: T) -> T {
    let larger = of_nans::<T, PROPAGATE>(a, b, if a > b { a } else { b });
    larger.intersection(if a == b { a } else { T::ALL_BITS })
}

/// What a comparison chose, which is `b` if either is a NaN, unless the rule wants the other one.
#[inline(always)]
fn of_nans<T: Real, const PROPAGATE: bool>(a: T, b: T, chosen: T) -> T {
    let wants_a = if PROPAGATE { a.is_nan() } else { b.is_nan() };
    if wants_a { a } else { chosen }
}

/// A function of two operands as a type, so that each becomes a loop of its own.
pub(super) trait Map2 {
    /// How many operands are read.
    const ARITY: usize;
    fn apply<T: Real>(x: T, y: T) -> T;
}

macro_rules! functions {
    ($($name:ident $arity:literal |$x:ident, $y:ident| $body:expr;)*) => {$(
        pub(super) struct $name;
        impl Map2 for $name {
            const ARITY: usize = $arity;
            #[inline(always)]
            fn apply<T: Real>($x: T, $y: T) -> T {
                $body
            }
        }
    )*};
}

functions! {
    Plus 2 |x, y| x + y;
    Times 2 |x, y| x * y;
    MinOfNumbers 2 |x, y| minimum::<T, false>(x, y);
    MinOrNan 2 |x, y| minimum::<T, true>(x, y);
    MaxOfNumbers 2 |x, y| maximum::<T, false>(x, y);
    MaxOrNan 2 |x, y| maximum::<T, true>(x, y);
    Root 1 |x, _y| x.root();
    Complement 1 |x, _y| T::ONE - x;
    First 1 |x, _y| x;
    // The zero that leaves every number it is added to as it is.
    Nothing 0 |_x, _y| T::ZERO.negative();
}

/// Runs `$body` with `$F` bound to the type of a [`Function`](crate::ops::op::Function).
macro_rules! with_function {
    ($function:expr, $F:ident => $body:expr) => {
        $crate::backend::function::with_function!(@ $function, $F => $body,
            Add => Plus, Mul => Times, Min(NanRule::Ignore) => MinOfNumbers, Min(NanRule::Propagate) => MinOrNan,
            Max(NanRule::Ignore) => MaxOfNumbers, Max(NanRule::Propagate) => MaxOrNan, Sqrt => Root,
            Not => Complement, First => First, Nothing => Nothing)
    };
    (@ $function:expr, $F:ident => $body:expr, $($variant:ident $(($rule:path))? => $name:ident),*) => {
        match $function {
            $($crate::ops::op::Function::$variant $(($rule))? => {
                type $F = $crate::backend::function::$name;
                $body
            })*
        }
    };
}
pub(super) use with_function;

/// `function(alpha1 * a, alpha2 * b)`, and `+ beta * old` where there is an old value: with every NaN the same.
#[inline(always)]
pub(super) fn element<T: Real, F: Map2, const ADD: bool>(a: T, b: T, old: T, [p, q, beta]: [T; 3]) -> T {
    let r = F::apply(p * a, q * b);
    if ADD {
        (r + beta * old).canonical()
    } else if F::ARITY == 0 {
        T::ZERO
    } else {
        r.canonical()
    }
}

/// A reduction as a type: what an element counts as, how two are joined, and what joins without effect.
pub(super) trait Fold {
    /// Whether the order of joins makes no difference to any bit of the result.
    const ANY_ORDER: bool;
    fn map<T: Real>(x: T) -> T;
    fn join<T: Real>(x: T, y: T) -> T;
    fn identity<T: Real>() -> T;
}

macro_rules! folds {
    ($($name:ident $any:literal |$x:ident| $map:expr, |$a:ident, $b:ident| $join:expr, $identity:expr;)*) => {$(
        pub(super) struct $name;
        impl Fold for $name {
            const ANY_ORDER: bool = $any;
            #[inline(always)]
            fn map<T: Real>($x: T) -> T {
                $map
            }
            #[inline(always)]
            fn join<T: Real>($a: T, $b: T) -> T {
                $join
            }
            #[inline(always)]
            fn identity<T: Real>() -> T {
                $identity
            }
        }
    )*};
}

folds! {
    Sum false |x| x, |a, b| a + b, T::ZERO.negative();
    AbsSum false |x| x.magnitude(), |a, b| a + b, T::ZERO.negative();
    SquareSum false |x| x * x, |a, b| a + b, T::ZERO.negative();
    Product false |x| x, |a, b| a * b, T::ONE;
    ProductNoZeros false |x| if x == T::ZERO { T::ONE } else { x }, |a, b| a * b, T::ONE;
    LeastNumber true |x| x, |a, b| minimum::<T, false>(a, b), T::NAN;
    LeastOrNan true |x| x, |a, b| minimum::<T, true>(a, b), T::INFINITY;
    GreatestNumber true |x| x, |a, b| maximum::<T, false>(a, b), T::NAN;
    GreatestOrNan true |x| x, |a, b| maximum::<T, true>(a, b), T::INFINITY.negative();
    AbsGreatestNumber true |x| x.magnitude(), |a, b| maximum::<T, false>(a, b), T::NAN;
    AbsGreatestOrNan true |x| x.magnitude(), |a, b| maximum::<T, true>(a, b), T::INFINITY.negative();
}

/// Runs `$body` with `$F` bound to the type of a [`Reduction`].
macro_rules! with_fold {
    ($reduction:expr, $F:ident => $body:expr) => {
        $crate::backend::function::with_fold!(@ $reduction, $F => $body,
            Add => Sum, Avg => Sum, Norm1 => AbsSum, Norm2 => SquareSum, Mul => Product,
            MulNoZeros => ProductNoZeros, Min(NanRule::Ignore) => LeastNumber,
            Min(NanRule::Propagate) => LeastOrNan, Max(NanRule::Ignore) => GreatestNumber,
            Max(NanRule::Propagate) => GreatestOrNan, Amax(NanRule::Ignore) => AbsGreatestNumber,
            Amax(NanRule::Propagate) => AbsGreatestOrNan)
    };
    (@ $reduction:expr, $F:ident => $body:expr, $($variant:ident $(($rule:path))? => $name:ident),*) => {
        match $reduction {
            $($crate::ops::Reduction::$variant $(($rule))? => {
                type $F = $crate::backend::function::$name;
                $body
            })*
        }
    };
}
pub(super) use with_fold;

/// The result from what joining `count` elements left, with every NaN the same.
#[inline(always)]
pub(super) fn finish<T: Real>(reduction: Reduction, joined: T, count: i64) -> T {
    match reduction {
        Reduction::Avg => joined / T::from_i64(count),
        Reduction::Norm2 => joined.root(),
        _ => joined,
    }
    .canonical()
}

/// Whether an element is one that a selecting reduction has selected, given its result.
#[inline(always)]
pub(super) fn is_selected<T: Real>(mapped: T, result: T) -> bool {
    mapped == result || (mapped.is_nan() && result.is_nan())
}

/// The factors as numbers of the computation type.
pub(super) fn factors<T: Real>(factors: crate::ops::op::Factors) -> [T; 3] {
    let [p, q] = factors.alpha;
    [p, q, factors.beta].map(T::from_f64)
}
