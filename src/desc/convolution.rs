//! The convolution descriptor and the output dims of a convolution.

use super::choice::{MathType, choice};
use super::filter::FilterDescriptor;
use super::pooling::at_least;
use super::tensor::{CHANNEL, TensorDescriptor};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::layout::Dims;

choice! {
    /// Whether the filter is flipped.
    ConvolutionMode:
    /// Convolution in the mathematical sense: the filter is flipped.
    Convolution,
    /// The filter is applied as it lies.
    CrossCorrelation,
}

choice! {
    /// Whether 8-bit filters and biases are reordered before use. No core of this library does; the
    /// value is kept.
    Reorder:
    /// Where the kernels want it.
    Standard,
    /// The caller has reordered already.
    None,
}

/// What a `cudnnConvolutionDescriptor_t` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvolutionDescriptor {
    /// Padding, strides, dilation, mode and compute type.
    pub geometry: ConvolutionGeometry,
    /// Arithmetic units.
    pub math_type: MathType,
    /// Groups of channels that do not see each other; at least 1.
    pub groups: i32,
    /// Whether filters are reordered.
    pub reorder: Reorder,
}

impl Default for ConvolutionDescriptor {
    fn default() -> Self {
        ConvolutionDescriptor {
            geometry: ConvolutionGeometry::default(),
            math_type: MathType::default(),
            groups: 1,
            reorder: Reorder::default(),
        }
    }
}

/// The part of a convolution descriptor that `SetConvolution2dDescriptor` and `NdDescriptor`
/// replace: no dimensions after creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvolutionGeometry {
    mode: ConvolutionMode,
    compute_type: DataType,
    padding: Dims,
    strides: Dims,
    dilation: Dims,
}

impl Default for ConvolutionGeometry {
    fn default() -> Self {
        ConvolutionGeometry {
            mode: ConvolutionMode::default(),
            compute_type: DataType::Float,
            padding: Dims::EMPTY,
            strides: Dims::EMPTY,
            dilation: Dims::EMPTY,
        }
    }
}

impl ConvolutionGeometry {
    /// The types to compute in (observed on 9.27.0).
    pub const COMPUTE_TYPES: &'static [DataType] =
        &[DataType::Float, DataType::Double, DataType::Half, DataType::Int32];

    /// One padding, filter stride and dilation per spatial dimension, of which there may be none.
    /// Pre: the three have the same rank, at most [`MAX_SPATIAL`](super::pooling::MAX_SPATIAL).
    ///
    /// # Errors
    /// Bad parameter: padding below 0, a stride or dilation below 1 (observed on 9.27.0).
    pub fn new(
        mode: ConvolutionMode, compute_type: DataType, padding: Dims, strides: Dims, dilation: Dims,
    ) -> Result<Self> {
        at_least(0, &padding, "padA")?;
        at_least(1, &strides, "filterStrideA")?;
        at_least(1, &dilation, "dilationA")?;
        Ok(ConvolutionGeometry { mode, compute_type, padding, strides, dilation })
    }

    /// Whether the filter is flipped.
    pub fn mode(&self) -> ConvolutionMode {
        self.mode
    }

    /// The type that products are summed in.
    pub fn compute_type(&self) -> DataType {
        self.compute_type
    }

    /// Zeros in front of and behind each spatial dimension.
    pub fn padding(&self) -> Dims {
        self.padding
    }

    /// Steps of the filter.
    pub fn strides(&self) -> Dims {
        self.strides
    }

    /// Distances of the filter's elements.
    pub fn dilation(&self) -> Dims {
        self.dilation
    }
}

impl ConvolutionDescriptor {
    /// The dims of the output, one after the other: N of the input, K of the filter, then
    /// `1 + (in + 2 * padding - ((filter - 1) * dilation + 1)) / stride`. Each is an error by
    /// itself.
    ///
    /// # Errors
    /// Bad parameter: ranks of input, filter and convolution that do not agree; stored channels of
    /// the input that are not those of the filter times the groups (types and formats do not
    /// matter). As an entry: bad parameter for a filter larger than the padded input, not supported
    /// for an extent beyond 32 bits.
    pub fn output_dims(
        &self, input: &TensorDescriptor, filter: &FilterDescriptor,
    ) -> Result<impl Iterator<Item = Result<i64>>> {
        let (this, dims, kernel) = (self.geometry, input.stored_dims(), filter.stored_dims());
        let spatial = this.padding.rank();
        if spatial == 0 || dims.rank() != spatial + 2 || kernel.rank() != spatial + 2 {
            return Err(Error::mismatch(format!(
                "an input of {} and a filter of {} dimensions under a convolution of {spatial} spatial ones",
                dims.rank(),
                kernel.rank()
            )));
        }
        if dims[CHANNEL] != kernel[CHANNEL] * i64::from(self.groups) {
            return Err(Error::mismatch(format!(
                "an input of {} channels under a filter of {} in {} groups",
                dims[CHANNEL], kernel[CHANNEL], self.groups
            )));
        }
        Ok((0..dims.rank()).map(move |axis| {
            let Some(spatial) = axis.checked_sub(2) else { return Ok([dims[0], kernel[0]][axis]) };
            let (extent, padding) = (dims[axis], this.padding[spatial]);
            let reach = (kernel[axis] - 1) * this.dilation[spatial] + 1;
            let last = extent + 2 * padding - reach;
            if last < 0 {
                return Err(Error::mismatch(format!(
                    "a filter that reaches over {reach} elements of spatial dimension {spatial}, an extent of \
                     {extent} padded by {padding} on both sides"
                )));
            }
            let out = 1 + last / this.strides[spatial];
            if out > i64::from(i32::MAX) {
                return Err(Error::unsupported(format!("an output extent of {out}, beyond 32 bits")));
            }
            Ok(out)
        }))
    }
}
