//! Plain arithmetic of both types, the numbers that are tried, and how near a result must be.

use std::ops::{Add, Div, Mul, Neg, Sub};

use cudnn::dtype::Scalar;
use cudnn::layout::{Axis, LoopNest};
use cudnn::ops::Compute;
use half::{bf16, f16};

/// What binary32 and binary64 have in common: the plain operations of the language.
pub trait Plain:
    Copy
    + PartialOrd
    + std::fmt::Debug
    + Neg<Output = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    const COMPUTE: Compute;
    const SCALAR: Scalar;
    const EPSILON: f64;
    const TINY: f64;
    const GREATEST: f64;
    /// Bits of the one NaN: all but the sign.
    const NAN_BITS: u64;
    fn of(x: f64) -> Self;
    fn wide(self) -> f64;
    fn bits(self) -> u64;
    fn root(self) -> Self;
    fn is_negative(self) -> bool;
    fn is_missing(self) -> bool {
        self.wide().is_nan()
    }
}

macro_rules! plain {
    ($T:ident, $compute:ident, $scalar:ident) => {
        impl Plain for $T {
            const COMPUTE: Compute = Compute::$compute;
            const SCALAR: Scalar = Scalar::$scalar;
            const EPSILON: f64 = $T::EPSILON as f64;
            const TINY: f64 = $T::from_bits(1) as f64;
            const GREATEST: f64 = $T::MAX as f64;
            const NAN_BITS: u64 = $T::from_bits(!0 >> 1).to_bits() as u64;
            fn of(x: f64) -> Self {
                x as $T
            }
            fn wide(self) -> f64 {
                self.into()
            }
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
            fn root(self) -> Self {
                self.sqrt()
            }
            fn is_negative(self) -> bool {
                self.is_sign_negative()
            }
        }
    };
}
plain!(f32, Single, F32);
plain!(f64, Double, F64);

/// Numbers where formulas go wrong, and some others.
pub fn grid<T: Plain>() -> Vec<f64> {
    let (tiny, greatest) = (T::TINY, T::GREATEST);
    let normal = tiny / T::EPSILON;
    let mut grid = vec![0.0, 1.0, 0.5, 0.3, 3.0, 7.25, 20.0, 60.0, 87.0, 95.0, 102.0, 700.0, 1e-3, 1e-10];
    grid.extend([tiny, 3.0 * tiny, normal - tiny, normal, greatest, greatest / 3.0, f64::INFINITY]);
    let opposite: Vec<f64> = grid.iter().map(|x| -x).collect();
    grid.extend(opposite);
    grid.extend([f64::NAN, -f64::NAN, 1.0 - T::EPSILON, 1.0 + T::EPSILON]);
    grid
}

/// Elements of one type, and the numbers that they are.
pub struct Column {
    words: Vec<u64>,
    pub numbers: Vec<f64>,
}

impl Column {
    pub fn of(scalar: Scalar, wanted: &[f64]) -> Column {
        let mut bytes: Vec<u8> = Vec::new();
        let mut numbers = Vec::new();
        for &x in wanted {
            let (element, number) = match scalar {
                Scalar::F64 => (x.to_le_bytes().to_vec(), x),
                Scalar::F32 => ((x as f32).to_le_bytes().to_vec(), (x as f32).into()),
                Scalar::F16 => (f16::from_f64(x).to_le_bytes().to_vec(), f16::from_f64(x).into()),
                Scalar::Bf16 => (bf16::from_f64(x).to_le_bytes().to_vec(), bf16::from_f64(x).into()),
                Scalar::I8 => ((x as i8).to_le_bytes().to_vec(), (x as i8).into()),
                other => panic!("no elements of {other:?} here"),
            };
            bytes.extend(element);
            numbers.push(number);
        }
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        Column { words: words.collect(), numbers }
    }

    pub fn ptr(&self) -> *mut u8 {
        self.words.as_ptr().cast_mut().cast()
    }
}

pub fn line<const N: usize>(extent: usize) -> LoopNest<N> {
    LoopNest::new(&[Axis { extent: extent as i64, strides: [1; N] }], [0; N])
}

pub fn is_less<T: Plain>(x: T, y: T) -> bool {
    x < y || x == y && x.is_negative()
}

pub fn is_more<T: Plain>(x: T, y: T) -> bool {
    x > y || x == y && !x.is_negative()
}

/// Whether a result is the expected one, the one NaN for any; or, unless `off` is 0, as near as
/// that. What is infinite may be at the end of the range.
pub fn is_near<T: Plain>(got: T, want: T, off: f64) -> bool {
    if want.is_missing() {
        return got.bits() == T::NAN_BITS;
    }
    let (a, b) = (got.wide(), want.wide());
    let at_the_end = |x: f64| x.abs() >= T::GREATEST * (1.0 - 64.0 * T::EPSILON);
    got.bits() == want.bits()
        || off > 0.0 && ((a - b).abs() <= off || at_the_end(a) && at_the_end(b) && a.signum() == b.signum())
}

/// A sum without the roundings of its type: in twice binary64.
pub fn long_sum(terms: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut rest) = (-0.0_f64, 0.0);
    for x in terms {
        let next = sum + x;
        let back = next - sum;
        let lost = (sum - (next - back)) + (x - back);
        rest += if next.is_finite() { lost } else { 0.0 };
        sum = next;
    }
    // Zeros keep their sign.
    if rest == 0.0 { sum } else { sum + rest }
}
