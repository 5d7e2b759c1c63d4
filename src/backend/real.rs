//! The floating types that are computed in, and the smaller and the larger of two numbers.

use std::ops::Add;

use crate::dtype::numbers::Math;

/// A floating type to compute in: binary32 or binary64.
pub(super) trait Real: Math {
    /// What every number intersects with to itself.
    const ALL_BITS: Self;
    /// An integer as wide as the type.
    type Key: Copy + Ord + From<i32> + Add<Output = Self::Key>;
    /// The least integer.
    const LEAST: Self::Key;
    /// The square root, canonical. Decided on the bits: which NaN a root is, is left open, and
    /// compilers have taken that as leave to drop a comparison of numbers.
    fn root(self) -> Self;
    fn negative(self) -> Self;
    /// The number whose bits are set in either.
    fn union(self, other: Self) -> Self;
    /// The number whose bits are set in both.
    fn intersection(self, other: Self) -> Self;

    /// The one NaN of the type for every NaN, everything else as it is.
    fn canonical(self) -> Self;

    /// An integer in the order of numbers, -0 below +0, with every NaN above all of them or below.
    /// Integers are compared in one instruction, where a comparison of numbers must ask for NaNs
    /// and for zeros.
    fn key<const NANS_ABOVE: bool>(self) -> Self::Key;

    /// The number of a key.
    fn of_key<const NANS_ABOVE: bool>(key: Self::Key) -> Self;

    #[inline(always)]
    #[allow(clippy::eq_op, reason = "only a NaN differs from itself")]
    fn is_nan(self) -> bool {
        self != self
    }
}

macro_rules! real {
    ($T:ty, $Key:ty) => {
        impl Real for $T {
            type Key = $Key;
            const LEAST: $Key = <$Key>::MIN;
            const ALL_BITS: Self = <$T>::from_bits(!0);
            #[inline(always)]
            fn canonical(self) -> Self {
                if Real::is_nan(self) { <Self as Math>::NAN } else { self }
            }
            #[inline(always)]
            fn root(self) -> Self {
                let root = self.sqrt();
                let magnitude = <$T>::to_bits(root) & (!0 >> 1);
                if magnitude > <$T>::to_bits(<$T>::INFINITY) { <Self as Math>::NAN } else { root }
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
            #[inline(always)]
            fn key<const NANS_ABOVE: bool>(self) -> $Key {
                // Sign and magnitude become two's complement: the NaNs of either sign are the keys
                // at either end.
                let bits = <$T>::to_bits(self) as $Key;
                let ordered = (bits & <$Key>::MAX) ^ (bits >> (<$Key>::BITS - 1));
                // Turned around by their number, those of one end come to the other.
                let nans = <$Key>::MAX - <$T>::INFINITY.to_bits() as $Key;
                if NANS_ABOVE { ordered.wrapping_sub(nans) } else { ordered.wrapping_add(nans) }
            }
            #[inline(always)]
            fn of_key<const NANS_ABOVE: bool>(key: $Key) -> Self {
                let nans = <$Key>::MAX - <$T>::INFINITY.to_bits() as $Key;
                let ordered = if NANS_ABOVE { key.wrapping_add(nans) } else { key.wrapping_sub(nans) };
                let negative = ordered >> (<$Key>::BITS - 1);
                <$T>::from_bits(((ordered ^ negative) | (negative & <$Key>::MIN)) as _)
            }
        }
    };
}
real!(f32, i32);
real!(f64, i64);

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
