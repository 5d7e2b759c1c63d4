//! The descriptor of a reduction (`ReduceTensor`).

use super::choice::{NanPropagation, choice};
use crate::dtype::DataType;

choice! {
    /// How a reduction joins the elements that meet in one element of the result.
    ReduceOp:
    /// Sum.
    Add,
    /// Product.
    Mul,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Largest absolute value.
    Amax,
    /// Arithmetic mean.
    Avg,
    /// Sum of absolute values.
    Norm1,
    /// Square root of the sum of squares.
    Norm2,
    /// Product of the elements that are not zero.
    MulNoZeros,
}

choice! {
    /// Whether a reduction also tells where its result came from.
    ReduceIndices:
    /// Values only.
    None,
    /// One index per result, counted through all reduced dimensions.
    Flattened,
}

choice! {
    /// The width of an index.
    IndexType:
    /// 4 bytes.
    Bits32,
    /// 8 bytes.
    Bits64,
    /// 2 bytes.
    Bits16,
    /// 1 byte.
    Bits8,
}

/// What a `cudnnReduceTensorDescriptor_t` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReduceDescriptor {
    /// The operation.
    pub op: ReduceOp,
    /// The type that it is computed in, one of [`COMPUTE_TYPES`](Self::COMPUTE_TYPES).
    pub compute_type: DataType,
    /// The NaN rule of minimum and maximum.
    pub nan: NanPropagation,
    /// Whether indices are written; any operation admits both.
    pub indices: ReduceIndices,
    /// How wide they are.
    pub index_type: IndexType,
}

impl ReduceDescriptor {
    /// The types to compute in (observed on 9.27.0).
    pub const COMPUTE_TYPES: &'static [DataType] = &[DataType::Float, DataType::Double, DataType::Half];
}

impl Default for ReduceDescriptor {
    /// A descriptor after creation, whose content the original leaves undefined.
    fn default() -> Self {
        ReduceDescriptor {
            op: ReduceOp::default(),
            compute_type: DataType::Float,
            nan: NanPropagation::default(),
            indices: ReduceIndices::default(),
            index_type: IndexType::default(),
        }
    }
}
