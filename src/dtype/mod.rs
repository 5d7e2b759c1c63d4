//! Element types: what a descriptor may hold ([`DataType`]) and what one memory cell is
//! ([`Scalar`]).
#![forbid(unsafe_code)]

pub mod angles;
pub mod convert;
pub mod math;
pub mod numbers;
mod rounding;

/// The table of scalar types: variant, name in logs and in lists of problems, bytes, Rust type. The
/// enumeration, the match on a scalar ([`with_element!`](convert)) and that of the kernels
/// (`kernels/scalars.cuh`, which `tests/basics/functions.rs` writes and compares) come from it, in
/// this order.
macro_rules! scalars {
    ([$($then:tt)*] $($arguments:tt)*) => {
        $($then)*! {
            { $($arguments)* }
            /// IEEE 754 binary32.
            F32 "f32" 4 f32;
            /// IEEE 754 binary64.
            F64 "f64" 8 f64;
            /// IEEE 754 binary16.
            F16 "f16" 2 ::half::f16;
            /// bfloat16: the upper half of a binary32.
            Bf16 "bf16" 2 ::half::bf16;
            /// Signed 8-bit integer.
            I8 "s8" 1 i8;
            /// Unsigned 8-bit integer.
            U8 "u8" 1 u8;
            /// Signed 32-bit integer.
            I32 "s32" 4 i32;
            /// Signed 64-bit integer.
            I64 "s64" 8 i64;
            /// One byte; zero is false, every other value is read as true, true is written as 1.
            Bool "bool" 1 $crate::dtype::convert::Bool;
            /// FP8 with 4 exponent bits (OCP E4M3FN: no infinity, one NaN pattern per sign, largest
            /// value 448).
            E4m3 "f8e4m3" 1 $crate::dtype::convert::E4m3;
            /// FP8 with 5 exponent bits (OCP E5M2: infinities and NaNs as in binary16, largest
            /// finite value 57344).
            E5m2 "f8e5m2" 1 $crate::dtype::convert::E5m2;
        }
    };
}
pub(crate) use scalars;

macro_rules! enumeration {
    ({} $($(#[$doc:meta])* $name:ident $shown:literal $size:literal $T:ty;)*) => {
        /// The machine type of one cell of tensor memory. Strides inside the library count these.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Scalar {
            $($(#[$doc])* $name,)*
        }

        impl Scalar {
            /// Every scalar type, for tables and tests.
            pub const ALL: [Scalar; [$($size),*].len()] = [$(Scalar::$name),*];

            /// Size in bytes; also the alignment that a data pointer needs.
            pub const fn size(self) -> usize {
                match self {
                    $(Scalar::$name => $size,)*
                }
            }

            /// The name used in logs and in `problems/problems.txt`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Scalar::$name => $shown,)*
                }
            }
        }

        $(const _: () = assert!(size_of::<$T>() == $size);)*
    };
}
scalars!([enumeration]);

/// The element type of a descriptor. An element is [`lanes`](DataType::lanes) scalars side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// `CUDNN_DATA_FLOAT`
    Float,
    /// `CUDNN_DATA_DOUBLE`
    Double,
    /// `CUDNN_DATA_HALF`
    Half,
    /// `CUDNN_DATA_INT8`
    Int8,
    /// `CUDNN_DATA_INT32`
    Int32,
    /// `CUDNN_DATA_INT8x4`: 4 consecutive channels in one element.
    Int8x4,
    /// `CUDNN_DATA_UINT8`
    Uint8,
    /// `CUDNN_DATA_UINT8x4`: 4 consecutive channels in one element.
    Uint8x4,
    /// `CUDNN_DATA_INT8x32`: 32 consecutive channels in one element.
    Int8x32,
    /// `CUDNN_DATA_BFLOAT16`
    Bfloat16,
    /// `CUDNN_DATA_INT64`
    Int64,
    /// `CUDNN_DATA_BOOLEAN`
    Boolean,
    /// `CUDNN_DATA_FP8_E4M3`
    Fp8E4m3,
    /// `CUDNN_DATA_FP8_E5M2`
    Fp8E5m2,
}

impl DataType {
    /// Every element type, in the order of their numbers in `cudnn.h`.
    pub const ALL: [DataType; 14] = [
        DataType::Float,
        DataType::Double,
        DataType::Half,
        DataType::Int8,
        DataType::Int32,
        DataType::Int8x4,
        DataType::Uint8,
        DataType::Uint8x4,
        DataType::Int8x32,
        DataType::Bfloat16,
        DataType::Int64,
        DataType::Boolean,
        DataType::Fp8E4m3,
        DataType::Fp8E5m2,
    ];

    /// The scalar that one lane holds.
    pub const fn scalar(self) -> Scalar {
        match self {
            DataType::Float => Scalar::F32,
            DataType::Double => Scalar::F64,
            DataType::Half => Scalar::F16,
            DataType::Int8 | DataType::Int8x4 | DataType::Int8x32 => Scalar::I8,
            DataType::Int32 => Scalar::I32,
            DataType::Uint8 | DataType::Uint8x4 => Scalar::U8,
            DataType::Bfloat16 => Scalar::Bf16,
            DataType::Int64 => Scalar::I64,
            DataType::Boolean => Scalar::Bool,
            DataType::Fp8E4m3 => Scalar::E4m3,
            DataType::Fp8E5m2 => Scalar::E5m2,
        }
    }

    /// Scalars per element: 1, 4 or 32.
    pub const fn lanes(self) -> i64 {
        match self {
            DataType::Int8x4 | DataType::Uint8x4 => 4,
            DataType::Int8x32 => 32,
            _ => 1,
        }
    }

    /// Bytes per element.
    pub const fn size(self) -> usize {
        self.scalar().size() * self.lanes() as usize
    }
}
