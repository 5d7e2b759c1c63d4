//! The one table of conversions between scalar types, and the arithmetic of alpha and beta.
//!
//! # Moves
//! Same type, `alpha == 1` and `beta == 0`: the bits are kept, NaN payloads and odd `Bool` bytes
//! included.
//!
//! # Conversions
//! | from \ to  | F64      | F32, F16, Bf16            | E4m3, E5m2                      | integers                 | Bool     |
//! |------------|----------|---------------------------|---------------------------------|--------------------------|----------|
//! | any float  | exact    | nearest even, overflow ±∞ | nearest even, clipped to finite | half to even, saturating | `x != 0` |
//! | I32        | exact    | nearest even, overflow ±∞ | nearest even, clipped to finite | saturating               | `x != 0` |
//! | I64        | nearest  | nearest even, overflow ±∞ | nearest even, clipped to finite | saturating               | `x != 0` |
//! | I8, U8     | exact    | exact                     | nearest even, clipped to finite | saturating               | `x != 0` |
//! | Bool       | 0 or 1   | 0 or 1                    | 0 or 1                          | 0 or 1                   | (a move) |
//!
//! - Every conversion rounds once; where it goes through a wider type, that step is exact or rounds
//!   to odd, which leaves the final rounding to nearest even as it would be from the exact value.
//! - Infinities become ±∞ where the type has them, the largest finite value in FP8, the end of the
//!   range in an integer. The sign of zero survives between float types.
//! - NaN becomes 0 in an integer, true in a `Bool`, and otherwise the one NaN of the destination:
//!   all bits set but the sign (`0x7fff`, `0x7fffffff`, `0x7f`, ...). That is what the conversion
//!   instructions of PTX write, and one blend away from what x86 writes, so that both cores can
//!   agree to the last bit.
//!
//! # Scaling
//! `convert(alpha * x + beta * y)`: in binary32 when both types are among F32, F16, Bf16, I8, U8,
//! Bool, E4m3 and E5m2 (all exact in binary32), else in binary64. Both products and the sum are
//! rounded, each once, never fused. `beta == 0` leaves `y` unread and adds nothing, so `-0.0`
//! survives. The wide result is then converted by the table above (NaN included: the payload that
//! an addition keeps differs between processors).

use super::Scalar;
use super::rounding::{
    bf16_from_f32, canonical_f32, canonical_f64, decode, encode, int_from_f64, round_to_odd, short_from_f32,
    sticky_f64,
};
use half::{bf16, f16};

/// A `Bool` cell: zero is false, any other byte is read as true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bool(pub u8);

/// An FP8 cell with 4 exponent bits (OCP E4M3FN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct E4m3(pub u8);

/// An FP8 cell with 5 exponent bits (OCP E5M2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct E5m2(pub u8);

/// The family a scalar belongs to; it decides by which wide type a conversion goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// F32, F16, Bf16, E4m3, E5m2: exact in binary32.
    Float,
    /// F64.
    Double,
    /// I8, U8, Bool: exact in binary32.
    Byte,
    /// I32: exact in binary64.
    Int,
    /// I64: exact in itself only.
    Long,
}

impl Class {
    /// Whether `i64` holds every value.
    pub const fn is_integer(self) -> bool {
        matches!(self, Class::Byte | Class::Int | Class::Long)
    }

    /// Whether binary32 holds every value.
    pub const fn fits_f32(self) -> bool {
        matches!(self, Class::Float | Class::Byte)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// One cell of tensor memory. Every bit pattern is a valid value of each implementing type.
pub trait Element: Copy + Send + Sync + sealed::Sealed + 'static {
    /// The type this is.
    const SCALAR: Scalar;
    /// Its family.
    const CLASS: Class;
    /// The all-zero cell.
    const ZERO: Self;

    /// The bits, zero-extended.
    fn to_bits(self) -> u64;
    /// The low bits of `bits`.
    fn from_bits(bits: u64) -> Self;
    /// The value; exact when [`Class::fits_f32`], else rounded to nearest even.
    fn to_f32(self) -> f32;
    /// The value; exact but for I64, which is rounded to nearest even.
    fn to_f64(self) -> f64;
    /// The value when [`Class::is_integer`], else rounded as the table says.
    fn to_i64(self) -> i64;
    /// Converts by the table.
    fn from_f32(x: f32) -> Self;
    /// Converts by the table.
    fn from_f64(x: f64) -> Self;
    /// Converts by the table.
    fn from_i64(x: i64) -> Self;
}

/// `x` as a `D`: the table of this module, a move when the types agree.
#[inline(always)]
pub fn convert<S: Element, D: Element>(x: S) -> D {
    if S::SCALAR as u8 == D::SCALAR as u8 {
        D::from_bits(x.to_bits())
    } else if matches!(S::CLASS, Class::Long) || (S::CLASS.is_integer() && D::CLASS.is_integer()) {
        D::from_i64(x.to_i64())
    } else if S::CLASS.fits_f32() {
        D::from_f32(x.to_f32())
    } else {
        D::from_f64(x.to_f64())
    }
}

/// Whether `alpha * x + beta * y` of these types is computed in binary64.
pub const fn computes_in_f64(src: Class, dst: Class) -> bool {
    !(src.fits_f32() && dst.fits_f32())
}

/// `convert(alpha * x)`.
#[inline(always)]
pub fn scale<S: Element, D: Element>(alpha: f64, x: S) -> D {
    if computes_in_f64(S::CLASS, D::CLASS) {
        D::from_f64(alpha * x.to_f64())
    } else {
        D::from_f32(alpha as f32 * x.to_f32())
    }
}

/// `convert(alpha * x + beta * y)`.
#[inline(always)]
pub fn blend<S: Element, D: Element>(alpha: f64, x: S, beta: f64, y: D) -> D {
    if computes_in_f64(S::CLASS, D::CLASS) {
        D::from_f64(alpha * x.to_f64() + beta * y.to_f64())
    } else {
        D::from_f32(alpha as f32 * x.to_f32() + beta as f32 * y.to_f32())
    }
}

/// Runs `$body` with `$T` bound to the [`Element`] type of a [`Scalar`]: how a run-time type
/// becomes a compile-time one wherever all of them are possible.
macro_rules! with_element {
    ($scalar:expr, $T:ident => $body:expr) => {
        $crate::dtype::scalars!([$crate::dtype::convert::match_element] $scalar, $T => $body)
    };
}
pub(crate) use with_element;

/// What [`with_element!`] makes of the table of scalar types.
macro_rules! match_element {
    (
        { $scalar:expr, $T:ident => $body:expr }
        $($(#[$doc:meta])* $name:ident $shown:literal $size:literal $element:ty;)*
    ) => {
        match $scalar {
            $($crate::dtype::Scalar::$name => {
                type $T = $element;
                $body
            })*
        }
    };
}
pub(crate) use match_element;

/// Implements [`Element`] for a float type that binary32 holds: `$decode` turns its bits into the
/// value, `$encode` a binary32 into a cell.
macro_rules! narrow_float {
    ($T:ty, $scalar:ident, $cell:expr, |$this:ident| $bits:expr, |$b:ident| $decode:expr, |$x:ident| $encode:expr) => {
        impl sealed::Sealed for $T {}
        impl Element for $T {
            const SCALAR: Scalar = Scalar::$scalar;
            const CLASS: Class = Class::Float;
            const ZERO: Self = $cell(0);

            #[inline(always)]
            fn to_bits(self) -> u64 {
                let $this = self;
                u64::from($bits)
            }
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                $cell(bits as _)
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                let $b = Element::to_bits(self) as u32;
                $decode
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(Element::to_f32(self))
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                Element::to_f32(self).round_ties_even() as i64
            }
            #[inline(always)]
            fn from_f32($x: f32) -> Self {
                $encode
            }
            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                <Self as Element>::from_f32(round_to_odd(x))
            }
            #[inline(always)]
            fn from_i64(x: i64) -> Self {
                <Self as Element>::from_f64(sticky_f64(x))
            }
        }
    };
}

narrow_float!(f16, F16, f16::from_bits, |x| x.to_bits(), |b| decode::<5, 10, true>(b), |x| f16::from_bits(
    encode::<5, 10>(x, 0x7c00) as u16
));
narrow_float!(bf16, Bf16, bf16::from_bits, |x| x.to_bits(), |b| f32::from_bits(b << 16), |x| bf16_from_f32(
    x
));
narrow_float!(
    E4m3,
    E4m3,
    E4m3,
    |x| x.0,
    |b| if b & 0x7f == 0x7f { f32::NAN } else { decode::<4, 3, false>(b) },
    |x| E4m3(encode::<4, 3>(x, 0x7e) as u8)
);
narrow_float!(
    E5m2,
    E5m2,
    E5m2,
    |x| x.0,
    |b| decode::<5, 2, true>(b),
    |x| E5m2(encode::<5, 2>(x, 0x7b) as u8)
);

/// Implements [`Element`] for an integer type; `$class` decides what is exact.
macro_rules! integer {
    ($T:ty, $scalar:ident, $class:ident, $unsigned:ty, |$x:ident| $from_f32:expr, |$y:ident| $from_f64:expr) => {
        impl sealed::Sealed for $T {}
        impl Element for $T {
            const SCALAR: Scalar = Scalar::$scalar;
            const CLASS: Class = Class::$class;
            const ZERO: Self = 0;

            #[inline(always)]
            fn to_bits(self) -> u64 {
                u64::from(self as $unsigned)
            }
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bits as $T
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn from_f32($x: f32) -> Self {
                $from_f32
            }
            #[inline(always)]
            fn from_f64($y: f64) -> Self {
                $from_f64
            }
            #[inline(always)]
            fn from_i64(x: i64) -> Self {
                x.clamp(<$T>::MIN as i64, <$T>::MAX as i64) as $T
            }
        }
    };
}

const I32_MIN: f64 = i32::MIN as f64;
const I32_MAX: f64 = i32::MAX as f64;

integer!(i8, I8, Byte, u8, |x| short_from_f32(x, -128.0, 127.0) as i8, |y| int_from_f64(y, -128.0, 127.0)
    as i8);
integer!(u8, U8, Byte, u8, |x| short_from_f32(x, 0.0, 255.0) as u8, |y| int_from_f64(y, 0.0, 255.0) as u8);
integer!(i32, I32, Int, u32, |x| int_from_f64(f64::from(x), I32_MIN, I32_MAX), |y| int_from_f64(
    y, I32_MIN, I32_MAX
));
integer!(i64, I64, Long, u64, |x| x.round_ties_even() as i64, |y| y.round_ties_even() as i64);

impl sealed::Sealed for Bool {}
impl Element for Bool {
    const SCALAR: Scalar = Scalar::Bool;
    const CLASS: Class = Class::Byte;
    const ZERO: Self = Bool(0);

    #[inline(always)]
    fn to_bits(self) -> u64 {
        u64::from(self.0)
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        Bool(bits as u8)
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from(u8::from(self.0 != 0))
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(u8::from(self.0 != 0))
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        i64::from(self.0 != 0)
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        Bool(u8::from(x != 0.0))
    }
    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        Bool(u8::from(x != 0.0))
    }
    #[inline(always)]
    fn from_i64(x: i64) -> Self {
        Bool(u8::from(x != 0))
    }
}

impl sealed::Sealed for f32 {}
impl Element for f32 {
    const SCALAR: Scalar = Scalar::F32;
    const CLASS: Class = Class::Float;
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn to_bits(self) -> u64 {
        u64::from(f32::to_bits(self))
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        f32::from_bits(bits as u32)
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self.round_ties_even() as i64
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        canonical_f32(x)
    }
    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        canonical_f32(x as f32)
    }
    #[inline(always)]
    fn from_i64(x: i64) -> Self {
        x as f32
    }
}

impl sealed::Sealed for f64 {}
impl Element for f64 {
    const SCALAR: Scalar = Scalar::F64;
    const CLASS: Class = Class::Double;
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn to_bits(self) -> u64 {
        f64::to_bits(self)
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        f64::from_bits(bits)
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self.round_ties_even() as i64
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        canonical_f64(f64::from(x))
    }
    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        canonical_f64(x)
    }
    #[inline(always)]
    fn from_i64(x: i64) -> Self {
        x as f64
    }
}
