//! Types of elements and of computations, by the numbers that programs pass.

use std::ffi::c_void;

use half::{bf16, f16};

use super::status::{Failure, Outcome, required};

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// binary32.
    F32,
    /// binary64.
    F64,
    /// binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// Signed byte.
    I8,
    /// 32-bit integer.
    I32,
}

impl Kind {
    /// Of a `cudaDataType`.
    ///
    /// # Errors
    /// Not supported for types that this library does not compute with, such as complex ones;
    /// invalid value for numbers that are none.
    pub fn decode(number: i32, argument: &str) -> Outcome<Kind> {
        Ok(match number {
            0 => Kind::F32,
            1 => Kind::F64,
            2 => Kind::F16,
            3 => Kind::I8,
            10 => Kind::I32,
            14 => Kind::Bf16,
            4..=33 => {
                return Err(Failure::unsupported(format!(
                    "{argument} is {number}: real types of 16, 32 and 64 bits, CUDA_R_8I and CUDA_R_32I are computed with"
                )));
            }
            _ => return Err(Failure::invalid(format!("{argument} is {number}, no cudaDataType"))),
        })
    }

    /// The number that `libcudnn` has for it.
    pub const fn number(self) -> i32 {
        match self {
            Kind::F32 => 0,
            Kind::F64 => 1,
            Kind::F16 => 2,
            Kind::I8 => 3,
            Kind::I32 => 4,
            Kind::Bf16 => 9,
        }
    }

    /// Bytes.
    pub const fn size(self) -> usize {
        match self {
            Kind::F64 => 8,
            Kind::F32 | Kind::I32 => 4,
            Kind::F16 | Kind::Bf16 => 2,
            Kind::I8 => 1,
        }
    }

    /// Reads one element.
    ///
    /// # Errors
    /// Invalid value for NULL.
    ///
    /// # Safety
    /// `pointer` is NULL or valid for one read.
    pub unsafe fn read(self, pointer: *const c_void, argument: &str) -> Outcome<f64> {
        required(pointer, argument)?;
        // SAFETY: not NULL, and the caller vouches for an element of this type, which may lie
        // anywhere.
        Ok(unsafe {
            match self {
                Kind::F32 => f64::from(pointer.cast::<f32>().read_unaligned()),
                Kind::F64 => pointer.cast::<f64>().read_unaligned(),
                Kind::F16 => pointer.cast::<f16>().read_unaligned().to_f64(),
                Kind::Bf16 => pointer.cast::<bf16>().read_unaligned().to_f64(),
                Kind::I8 => f64::from(pointer.cast::<i8>().read_unaligned()),
                Kind::I32 => f64::from(pointer.cast::<i32>().read_unaligned()),
            }
        })
    }
}

/// A type that vectors have. What is computed of them is computed in binary64, and rounded once.
pub trait Element: Copy + Send + Sync + 'static {
    /// As `f64`, exactly.
    fn wide(self) -> f64;
    /// Rounded once.
    fn narrow(value: f64) -> Self;
}

impl Element for f64 {
    fn wide(self) -> f64 {
        self
    }
    fn narrow(value: f64) -> Self {
        value
    }
}

macro_rules! narrow_elements {
    ($($T:ident: $wide:expr, $narrow:expr;)*) => {$(
        impl Element for $T {
            fn wide(self) -> f64 {
                let wide: fn($T) -> f64 = $wide;
                wide(self)
            }
            fn narrow(value: f64) -> Self {
                let narrow: fn(f64) -> $T = $narrow;
                narrow(value)
            }
        }
    )*};
}

narrow_elements! {
    f32: f64::from, |value| value as f32;
    f16: f16::to_f64, f16::from_f64;
    bf16: bf16::to_f64, bf16::from_f64;
}

/// Calls a generic function with the type of a [`Kind`] that vectors have, else returns a failure.
macro_rules! typed {
    ($kind:expr, $argument:expr, $T:ident => $body:expr) => {
        match $kind {
            $crate::blas::kind::Kind::F32 => {
                type $T = f32;
                $body
            }
            $crate::blas::kind::Kind::F64 => {
                type $T = f64;
                $body
            }
            $crate::blas::kind::Kind::F16 => {
                type $T = half::f16;
                $body
            }
            $crate::blas::kind::Kind::Bf16 => {
                type $T = half::bf16;
                $body
            }
            other => Err($crate::blas::status::Failure::unsupported(format!(
                "{} is {other:?}: vectors are of floating types",
                $argument
            ))),
        }
    };
}
pub(crate) use typed;
