//! Numbers that are computed together: one, or several in step; and what the formulas of
//! [`math`](super::math) need of their type.
//!
//! A formula is a chain of operations, each of which waits for the one before it. A processor that
//! finds only a few such chains among the instructions that it looks at stands idle most of the
//! time; several numbers in step are as many chains, operation by operation beside each other.

use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Sub};

use super::convert::Element;

/// A number, or several, on which each operation is done apart.
pub trait Numbers:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// The type of each number.
    type Each: Math;
    /// What comparisons give.
    type Truth: Copy + BitAnd<Output = Self::Truth> + BitOr<Output = Self::Truth>;

    /// All of them `x`.
    fn all(x: Self::Each) -> Self;
    /// A function of each.
    fn map(self, f: impl Fn(Self::Each) -> Self::Each) -> Self;
    /// A function of each and its counterpart.
    fn zip(self, other: Self, f: impl Fn(Self::Each, Self::Each) -> Self::Each) -> Self;
    /// A comparison of each with its counterpart.
    fn compare(self, other: Self, holds: impl Fn(Self::Each, Self::Each) -> bool) -> Self::Truth;
    /// The one or the other of each.
    fn choose(condition: Self::Truth, yes: Self, no: Self) -> Self;

    /// `self < other`
    #[inline(always)]
    fn less(self, other: Self) -> Self::Truth {
        self.compare(other, |a, b| a < b)
    }
    /// `self <= other`
    #[inline(always)]
    fn less_or_equal(self, other: Self) -> Self::Truth {
        self.compare(other, |a, b| a <= b)
    }
    /// `self == other`
    #[inline(always)]
    fn equal(self, other: Self) -> Self::Truth {
        self.compare(other, |a, b| a == b)
    }
}

/// A floating type with the constants that the functions of this module need.
pub trait Math: Element + PartialOrd + Numbers<Each = Self, Truth = bool> {
    /// 1
    const ONE: Self;
    /// 2
    const TWO: Self;
    /// 1/2
    const HALF: Self;
    /// Plus infinity.
    const INFINITY: Self;
    /// The NaN with every bit set but the sign.
    const NAN: Self;
    /// The least normal number.
    const LEAST_NORMAL: Self;
    /// Below it, x is the nearest number to expm1(x), tanh(x) and log1p(x).
    const TINY: Self;
    /// 1.5 times 2 to the number of mantissa bits: added to a small number it leaves the nearest
    /// integer in the low bits.
    const SHIFTER: Self;
    /// The same and an exponent field: the low bits are that of half the power of two. Even, as
    /// every shifter is: a number between two integers goes to the same one of them by each.
    const HALF_POWER_SHIFTER: Self;
    /// The same for the power over [`LOWERED`](Math::LOWERED): a normal number also where the power
    /// is none.
    const RAISED_SHIFTER: Self;
    /// The power of two that takes the least results of the exponential to where they belong.
    const LOWERED: Self;
    /// 1 / ln2
    const LOG2_E: Self;
    /// ln2 in two parts; the first is so short that its product with any exponent is exact.
    const LN2: [Self; 2];
    /// Beyond these the exponential is 0 and infinity.
    const EXP_RANGE: [Self; 2];
    /// Below it, expm1 is -1.
    const EXPM1_LOW: Self;
    /// q of the exponential.
    const EXP: &'static [Self];
    /// w of the logarithm.
    const LOG: &'static [Self];
    /// c of the error function.
    const ERF: &'static [Self];
    /// g of the error function.
    const ERFC: &'static [Self];
    /// From here on the error function is 1.
    const ERF_HIGH: Self;

    /// The power of two whose exponent field the low bits of `shifted` are.
    fn power_of_two(shifted: Self) -> Self;
    /// `self` times 2 to the integer that `shifted` holds above [`SHIFTER`](Math::SHIFTER), rounded
    /// once, for any integer that the exponential meets.
    fn scaled(self, shifted: Self) -> Self;
    /// The number m in sqrt(1/2)..sqrt(2), and k, of a normal number 2^k m.
    fn parts(self) -> (Self, Self);
    /// The number times 2 to the number of mantissa bits plus 2, and its correction of k, if it is
    /// subnormal.
    fn normal(self) -> (Self, Self);
    /// Whether its sign is set.
    fn is_signed(self) -> bool;
    /// Without its sign.
    fn magnitude(self) -> Self;
    /// With the sign of another number.
    fn signed_as(self, other: Self) -> Self;
}

macro_rules! one_number {
    ($T:ty) => {
        impl Numbers for $T {
            type Each = $T;
            type Truth = bool;
            #[inline(always)]
            fn all(x: $T) -> $T {
                x
            }
            #[inline(always)]
            fn map(self, f: impl Fn($T) -> $T) -> $T {
                f(self)
            }
            #[inline(always)]
            fn zip(self, other: $T, f: impl Fn($T, $T) -> $T) -> $T {
                f(self, other)
            }
            #[inline(always)]
            fn compare(self, other: $T, holds: impl Fn($T, $T) -> bool) -> bool {
                holds(self, other)
            }
            #[inline(always)]
            fn choose(condition: bool, yes: $T, no: $T) -> $T {
                if condition { yes } else { no }
            }
        }
    };
}
one_number!(f32);
one_number!(f64);

/// How many numbers are computed in step where many are: of one, a processor has done the chain
/// before it finds the next; more than these do not fit 16 registers.
pub const IN_STEP: usize = 4;

/// The same of binary32 with the 32 registers of AVX-512: some of these have to leave them for a
/// while, which costs less than waiting.
pub const IN_STEP_WIDE: usize = 8;

/// The same for the least processors of an architecture: where others are the rule, their loops are
/// not worth their bytes.
pub const IN_STEP_PORTABLE: usize = if cfg!(target_arch = "x86_64") { 1 } else { IN_STEP };

/// `N` of something in step.
#[derive(Clone, Copy)]
pub struct Together<T, const N: usize>(pub [T; N]);

impl<T: Copy, const N: usize> Together<T, N> {
    /// A function of each and its counterpart. A plain loop: what calls it is compiled for other
    /// instructions than the functions of the standard library are.
    #[inline(always)]
    fn each<U: Copy, R: Copy>(self, other: Together<U, N>, of: impl Fn(T, U) -> R) -> Together<R, N> {
        let mut results = [of(self.0[0], other.0[0]); N];
        let mut i = 1;
        while i < N {
            results[i] = of(self.0[i], other.0[i]);
            i += 1;
        }
        Together(results)
    }
}

macro_rules! in_step {
    ($($Trait:ident::$function:ident)*) => {$(
        impl<T: Math, const N: usize> $Trait for Together<T, N> {
            type Output = Self;
            #[inline(always)]
            fn $function(self, other: Self) -> Self {
                self.each(other, |a, b| a.$function(b))
            }
        }
    )*};
}
in_step!(Add::add Sub::sub Mul::mul Div::div);

impl<T: Math, const N: usize> Neg for Together<T, N> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        self.each(self, |a, _| -a)
    }
}

impl<const N: usize> BitAnd for Together<bool, N> {
    type Output = Self;
    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        self.each(other, |a, b| a & b)
    }
}

impl<const N: usize> BitOr for Together<bool, N> {
    type Output = Self;
    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        self.each(other, |a, b| a | b)
    }
}

impl<T: Math, const N: usize> Numbers for Together<T, N> {
    type Each = T;
    type Truth = Together<bool, N>;
    #[inline(always)]
    fn all(x: T) -> Self {
        Together([x; N])
    }
    #[inline(always)]
    fn map(self, f: impl Fn(T) -> T) -> Self {
        self.each(self, |a, _| f(a))
    }
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(T, T) -> T) -> Self {
        self.each(other, f)
    }
    #[inline(always)]
    fn compare(self, other: Self, holds: impl Fn(T, T) -> bool) -> Together<bool, N> {
        self.each(other, holds)
    }
    #[inline(always)]
    fn choose(condition: Together<bool, N>, yes: Self, no: Self) -> Self {
        let both = yes.each(no, |yes, no| (yes, no));
        condition.each(both, |condition, (yes, no)| if condition { yes } else { no })
    }
}
