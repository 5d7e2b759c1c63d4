//! The spatial transformer descriptor. Its dims are judged when a call uses them (observed on
//! 9.27.0).

use crate::dtype::DataType;
use crate::layout::Dims;

/// What a `cudnnSpatialTransformerDescriptor_t` holds. The only sampler is bilinear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpatialTransformerDescriptor {
    /// The element type: float, double or half.
    pub data_type: DataType,
    /// The number of dims as the caller gave it.
    pub rank: i32,
    /// The output's dims, as many as fit.
    pub dims: Dims,
}

impl Default for SpatialTransformerDescriptor {
    fn default() -> Self {
        SpatialTransformerDescriptor { data_type: DataType::Float, rank: 0, dims: Dims::EMPTY }
    }
}
