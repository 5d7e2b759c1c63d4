//! The descriptor of a two-operand operation (`OpTensor`).

use super::choice::{NanPropagation, choice};
use crate::dtype::DataType;

choice! {
    /// What `OpTensor` does with each pair of elements.
    OpTensorOp:
    /// `a + b`
    Add,
    /// `a * b`
    Mul,
    /// The smaller of a and b.
    Min,
    /// The larger of a and b.
    Max,
    /// Square root of a.
    Sqrt,
    /// `1 - a`
    Not,
}

/// What a `cudnnOpTensorDescriptor_t` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpTensorDescriptor {
    /// The operation.
    pub op: OpTensorOp,
    /// The type that it is computed in, one of [`COMPUTE_TYPES`](Self::COMPUTE_TYPES).
    pub compute_type: DataType,
    /// The NaN rule of minimum and maximum.
    pub nan: NanPropagation,
}

impl OpTensorDescriptor {
    /// The types to compute in (observed on 9.27.0).
    pub const COMPUTE_TYPES: &'static [DataType] =
        &[DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16];
}

impl Default for OpTensorDescriptor {
    /// A descriptor after creation, whose content the original leaves undefined.
    fn default() -> Self {
        OpTensorDescriptor {
            op: OpTensorOp::default(),
            compute_type: DataType::Float,
            nan: NanPropagation::default(),
        }
    }
}
