//! The arithmetic of functions and reductions on one pair of numbers: what the reference and every
//! kernel compute.
//!
//! Free of branches, so that a loop over it becomes vector code.

use super::formula::*;
pub(super) use super::real::{Real, maximum, minimum, with_real};
use crate::ops::Reduction;
use crate::ops::function::{MOST_OPERANDS, Scaled, functions};
use crate::ops::map::Factors;

/// A function of the table as a type, so that each becomes a loop of its own.
pub(super) trait Formula {
    /// How many operands are read.
    const ARITY: usize;
    /// What the factors scale.
    const SCALED: Scaled;
    /// Whether it is a long chain of operations, each of which waits for the one before it.
    const IS_LONG: bool;
    /// Whether it may follow another operation.
    const HAS_SLOPE: bool;
    fn apply<N: Words>(operands: [N; MOST_OPERANDS], parameter: N) -> N;
    /// The result and the slope there, which is 1 where the table has none.
    fn with_slope<N: Words>(operands: [N; MOST_OPERANDS], parameter: N) -> (N, N);
}

macro_rules! formulas {
    ($($(#[$doc:meta])* $name:ident ($($x:ident),*) [$($p:ident),*] $scaled:ident
        => $formula:expr $(, slope($y:ident) $slope:expr)?;)*) => {
        /// The functions of the table.
        pub(super) mod formulas {
            $($(#[$doc])* pub(in crate::backend) struct $name;)*
        }
        $(impl Formula for formulas::$name {
            const ARITY: usize = { let names: &[&str] = &[$(stringify!($x)),*]; names.len() };
            const SCALED: Scaled = formulas!(@ $scaled);
            const IS_LONG: bool = formulas!(@long $scaled);
            #[inline(always)]
            fn apply<N: Words>(operands: [N; MOST_OPERANDS], parameter: N) -> N {
                let [$($x,)* ..] = operands;
                let [$($p,)* ..] = [parameter];
                $formula
            }
            const HAS_SLOPE: bool = { let slopes: &[&str] = &[$(stringify!($slope))?]; !slopes.is_empty() };
            #[inline(always)]
            fn with_slope<N: Words>(operands: [N; MOST_OPERANDS], parameter: N) -> (N, N) {
                let [$($x,)* ..] = operands;
                let [$($p,)* ..] = [parameter];
                formulas!(@slope $formula $(, $y $slope)?)
            }
        })*

        /// What an activation makes of a number, and its slope there.
        #[inline(always)]
        pub(super) fn activated<N: Words>(function: crate::ops::function::Function, x: N, parameter: N) -> (N, N) {
            let operands = [x; MOST_OPERANDS];
            match function {
                $(crate::ops::function::Function::$name if formulas::$name::HAS_SLOPE => {
                    formulas::$name::with_slope(operands, parameter)
                })*
                _ => (x, one(x)),
            }
        }

        /// What is done with the type of a function.
        pub(super) trait WithFormula {
            type Output;
            fn with<F: Formula>(self) -> Self::Output;
        }

        /// Hands the type of a function over.
        pub(super) fn with_function<W: WithFormula>(function: crate::ops::function::Function, then: W) -> W::Output {
            match function {
                $(crate::ops::function::Function::$name => then.with::<formulas::$name>(),)*
            }
        }
    };
    (@ operands) => { Scaled::Operands };
    (@ result) => { Scaled::Result };
    (@ elementary) => { Scaled::Result };
    (@slope $formula:expr) => {{
        let result = $formula;
        (result, one(result))
    }};
    (@slope $formula:expr, $y:ident $slope:expr) => {{
        let $y = $formula;
        ($y, $slope)
    }};
    (@long elementary) => { true };
    (@long $other:ident) => { false };
}
functions!(formulas);

/// The factors and the parameter of a step, as numbers of the computation type.
#[derive(Clone, Copy)]
pub(super) struct Constants<T> {
    pub alpha: [T; 2],
    pub beta: T,
    pub parameter: T,
}

impl<T: Real> Constants<T> {
    pub fn new(factors: Factors, parameter: f64) -> Self {
        Constants {
            alpha: factors.alpha.map(T::from_f64),
            beta: T::from_f64(factors.beta),
            parameter: T::from_f64(parameter),
        }
    }
}

/// `function(alpha1 * a, alpha2 * b, ...)` or `alpha1 * function(a, b, ...)`: with every NaN the
/// same, as any sum with it will be.
#[inline(always)]
pub(super) fn computed<N: Words, F: Formula>(
    mut operands: [N; MOST_OPERANDS], with: Constants<N::Each>,
) -> N {
    let parameter = N::all(with.parameter);
    let alpha = with.alpha.map(N::all);
    match F::SCALED {
        Scaled::Operands => {
            operands[0] = alpha[0] * operands[0];
            operands[1] = alpha[1] * operands[1];
            F::apply(operands, parameter)
        }
        Scaled::Result => alpha[0] * F::apply(operands, parameter),
    }
    .map(Real::canonical)
}

/// What was computed, `+ beta * old`.
#[inline(always)]
pub(super) fn blended<T: Real>(computed: T, old: T, beta: T) -> T {
    (computed + beta * old).canonical()
}

/// What becomes of a computed number where no old one is added to it.
#[inline(always)]
pub(super) fn alone<T: Real, F: Formula>(computed: T) -> T {
    if F::ARITY == 0 { T::ZERO } else { computed }
}

/// A reduction as a type: what an element counts as, how two are joined, and what joins without
/// effect.
pub(super) trait Fold {
    /// What many elements are joined to: a number or its key, whichever is faster to join. The
    /// results are the same.
    type Lane<T: Real>: Copy;
    fn map<T: Real>(x: T) -> T;
    fn join<T: Real>(x: T, y: T) -> T;
    fn identity<T: Real>() -> T;
    /// A number as a lane.
    fn lane<T: Real>(x: T) -> Self::Lane<T>;
    /// The lane joined with what an element counts as.
    fn add<T: Real>(lane: Self::Lane<T>, x: T) -> Self::Lane<T>;
    /// Two lanes joined.
    fn unite<T: Real>(a: Self::Lane<T>, b: Self::Lane<T>) -> Self::Lane<T>;
    /// A lane as a number.
    fn number<T: Real>(lane: Self::Lane<T>) -> T;
}

macro_rules! folds {
    ($($name:ident $lane:tt |$x:ident| $map:expr, |$a:ident, $b:ident| $join:expr, $identity:expr;)*) => {$(
        pub(super) struct $name;
        impl Fold for $name {
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
            folds!(@lane $lane);
        }
    )*};
    (@lane number) => {
        type Lane<T: Real> = T;
        #[inline(always)]
        fn lane<T: Real>(x: T) -> T {
            x
        }
        #[inline(always)]
        fn add<T: Real>(lane: T, x: T) -> T {
            Self::join(lane, Self::map(x))
        }
        #[inline(always)]
        fn unite<T: Real>(a: T, b: T) -> T {
            Self::join(a, b)
        }
        #[inline(always)]
        fn number<T: Real>(lane: T) -> T {
            lane
        }
    };
    (@lane ($select:ident, $nans_above:literal)) => {
        type Lane<T: Real> = T::Key;
        #[inline(always)]
        fn lane<T: Real>(x: T) -> T::Key {
            x.key::<$nans_above>()
        }
        #[inline(always)]
        fn add<T: Real>(lane: T::Key, x: T) -> T::Key {
            lane.$select(Self::map(x).key::<$nans_above>())
        }
        #[inline(always)]
        fn unite<T: Real>(a: T::Key, b: T::Key) -> T::Key {
            a.$select(b)
        }
        #[inline(always)]
        fn number<T: Real>(lane: T::Key) -> T {
            T::of_key::<$nans_above>(lane)
        }
    };
}

folds! {
    Sum number |x| x, |a, b| a + b, T::ZERO.negative();
    AbsSum number |x| x.magnitude(), |a, b| a + b, T::ZERO.negative();
    SquareSum number |x| x * x, |a, b| a + b, T::ZERO.negative();
    Product number |x| x, |a, b| a * b, T::ONE;
    ProductNoZeros number |x| if x == T::ZERO { T::ONE } else { x }, |a, b| a * b, T::ONE;
    LeastNumber (min, true) |x| x, |a, b| minimum::<T, false>(a, b), T::NAN;
    LeastOrNan (min, false) |x| x, |a, b| minimum::<T, true>(a, b), T::INFINITY;
    GreatestNumber (max, false) |x| x, |a, b| maximum::<T, false>(a, b), T::NAN;
    GreatestOrNan (max, true) |x| x, |a, b| maximum::<T, true>(a, b), T::INFINITY.negative();
    AbsGreatestNumber (max, false) |x| x.magnitude(), |a, b| maximum::<T, false>(a, b), T::NAN;
    AbsGreatestOrNan (max, true) |x| x.magnitude(), |a, b| maximum::<T, true>(a, b), T::INFINITY.negative();
}

/// Runs `$body` with `$F` bound to the type of a [`Reduction`]'s combiner, which has its name.
macro_rules! with_fold {
    ($reduction:expr, $F:ident => $body:expr) => {
        $crate::ops::reduction::combiners!([$crate::backend::function::match_combiner] $reduction, $F => $body)
    };
}
pub(super) use with_fold;

/// What [`with_fold!`] makes of the table of combiners.
macro_rules! match_combiner {
    (
        { $reduction:expr, $F:ident => $body:expr }
        $($(#[$doc:meta])* $name:ident: $($of:ident $(($rule:path))?),+;)*
    ) => {
        match $reduction {
            $($($crate::ops::Reduction::$of $(($rule))?)|+ => {
                type $F = $crate::backend::function::$name;
                $body
            })*
        }
    };
}
pub(super) use match_combiner;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::NanRule;

    /// Joins pairs of numbers through lanes and by the definition.
    fn lanes_join_as_numbers<T: Real, F: Fold>(numbers: &[T]) {
        for &a in numbers {
            for &b in numbers {
                let lane = F::add(F::lane(a), b);
                let other = F::unite::<T>(F::lane(a), F::lane(F::map(b)));
                let want = F::join(a, F::map(b)).canonical().to_bits();
                for lane in [lane, other] {
                    let got = F::number::<T>(lane).canonical().to_bits();
                    assert!(got == want, "{:x?} with {:x?}", a.to_bits(), b.to_bits());
                }
            }
            let lane = F::number::<T>(F::lane(a));
            assert!(lane.to_bits() == a.to_bits(), "{:x?} comes back", a.to_bits());
        }
    }

    #[test]
    fn keys_select_what_comparisons_select() {
        let single = [
            0,
            1,
            0x7f_ffff,
            0x80_0000,
            0x3f80_0000,
            0x7f7f_ffff,
            0x7f80_0000,
            0x7f80_0001,
            0x7fc0_0000,
            !0 >> 1,
        ];
        let single: Vec<f32> =
            single.iter().flat_map(|&bits: &u32| [bits, bits | 1 << 31]).map(f32::from_bits).collect();
        let double = [
            0,
            1,
            1 << 52,
            0x3ff0 << 48,
            (0x7ff0 << 48) - 1,
            0x7ff0 << 48,
            (0x7ff0 << 48) + 1,
            0x7ff8 << 48,
            !0 >> 1,
        ];
        let double: Vec<f64> =
            double.iter().flat_map(|&bits: &u64| [bits, bits | 1 << 63]).map(f64::from_bits).collect();
        for nan in [NanRule::Ignore, NanRule::Propagate] {
            for reduction in [Reduction::Min(nan), Reduction::Max(nan), Reduction::Amax(nan), Reduction::Add]
            {
                with_fold!(reduction, F => {
                    lanes_join_as_numbers::<f32, F>(&single);
                    lanes_join_as_numbers::<f64, F>(&double);
                });
            }
        }
    }
}
