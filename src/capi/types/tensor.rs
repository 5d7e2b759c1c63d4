//! Tensors, filters and the calls of the tensor family.

use cudnn_shim_macros::c_enum;

/// The data behind a [`cudnnTensorDescriptor_t`].
pub struct cudnnTensorStruct {
    _opaque: [u8; 0],
}

/// Type, dimensions and strides of a tensor.
pub type cudnnTensorDescriptor_t = *mut cudnnTensorStruct;

/// The data behind a [`cudnnFilterDescriptor_t`].
pub struct cudnnFilterStruct {
    _opaque: [u8; 0],
}

/// Type, format and dimensions of a filter.
#[deprecated]
pub type cudnnFilterDescriptor_t = *mut cudnnFilterStruct;

/// The data behind a [`cudnnTensorTransformDescriptor_t`].
pub struct cudnnTensorTransformStruct {
    _opaque: [u8; 0],
}

/// Padding, folding and destination format of a tensor transform.
#[deprecated]
pub type cudnnTensorTransformDescriptor_t = *mut cudnnTensorTransformStruct;

/// The data behind a [`cudnnOpTensorDescriptor_t`].
pub struct cudnnOpTensorStruct {
    _opaque: [u8; 0],
}

/// Operation, compute type and NaN rule of `cudnnOpTensor`.
#[deprecated]
pub type cudnnOpTensorDescriptor_t = *mut cudnnOpTensorStruct;

/// The data behind a [`cudnnReduceTensorDescriptor_t`].
pub struct cudnnReduceTensorStruct {
    _opaque: [u8; 0],
}

/// Operation, compute type, NaN rule and indices of `cudnnReduceTensor`.
#[deprecated]
pub type cudnnReduceTensorDescriptor_t = *mut cudnnReduceTensorStruct;

/// What one element of a tensor is.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnDataType_t {
    /// 32-bit IEEE float.
    CUDNN_DATA_FLOAT = 0,
    /// 64-bit IEEE float.
    CUDNN_DATA_DOUBLE = 1,
    /// 16-bit IEEE float.
    CUDNN_DATA_HALF = 2,
    /// Signed 8-bit integer.
    CUDNN_DATA_INT8 = 3,
    /// Signed 32-bit integer.
    CUDNN_DATA_INT32 = 4,
    /// Four signed 8-bit integers, neighbours along C.
    #[deprecated]
    CUDNN_DATA_INT8x4 = 5,
    /// Unsigned 8-bit integer.
    CUDNN_DATA_UINT8 = 6,
    /// Four unsigned 8-bit integers, neighbours along C.
    #[deprecated]
    CUDNN_DATA_UINT8x4 = 7,
    /// 32 signed 8-bit integers, neighbours along C.
    #[deprecated]
    CUDNN_DATA_INT8x32 = 8,
    /// bfloat16: the upper half of a 32-bit float.
    CUDNN_DATA_BFLOAT16 = 9,
    /// Signed 64-bit integer.
    CUDNN_DATA_INT64 = 10,
    /// Truth value; one byte in tensors of this library.
    CUDNN_DATA_BOOLEAN = 11,
    /// 8-bit float, 4 exponent and 3 mantissa bits.
    CUDNN_DATA_FP8_E4M3 = 12,
    /// 8-bit float, 5 exponent and 2 mantissa bits.
    CUDNN_DATA_FP8_E5M2 = 13,
    /// Compute type: faster, less exact sums of 8-bit floats.
    CUDNN_DATA_FAST_FLOAT_FOR_FP8 = 14,
    /// 8-bit power of two without a mantissa, for scales.
    CUDNN_DATA_FP8_E8M0 = 15,
    /// 4-bit float, 2 exponent bits and 1 mantissa bit.
    CUDNN_DATA_FP4_E2M1 = 16,
    /// Signed 4-bit integer.
    CUDNN_DATA_INT4 = 17,
    /// Unsigned 4-bit integer.
    CUDNN_DATA_UINT4 = 18,
    /// Unsigned 32-bit integer.
    CUDNN_DATA_UINT32 = 19,
    /// Complex number of two 32-bit floats.
    CUDNN_DATA_COMPLEX_FP32 = 20,
    /// Complex number of two 64-bit floats.
    CUDNN_DATA_COMPLEX_FP64 = 21,
    /// Truth value in one byte.
    CUDNN_DATA_BYTE_BOOLEAN = 22,
    /// 8-bit unsigned float, 5 exponent and 3 mantissa bits.
    CUDNN_DATA_FP8_E5M3 = 23,
}

/// Order in which the dimensions of a packed tensor lie in memory, outermost first.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnTensorFormat_t {
    /// N, C, then the spatial dimensions.
    CUDNN_TENSOR_NCHW = 0,
    /// N, the spatial dimensions, then C.
    CUDNN_TENSOR_NHWC = 1,
    /// As NCHW, with vectors of 4 or 32 channels as elements.
    CUDNN_TENSOR_NCHW_VECT_C = 2,
}

/// What minimum, maximum and clipping make of a NaN.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnNanPropagation_t {
    /// A NaN loses against a number.
    #[deprecated]
    CUDNN_NOT_PROPAGATE_NAN = 0,
    /// A NaN stays a NaN.
    #[deprecated]
    CUDNN_PROPAGATE_NAN = 1,
}

/// Which way a tensor transform folds.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnFoldingDirection_t {
    /// Move blocks of spatial positions into channels.
    CUDNN_TRANSFORM_FOLD = 0,
    /// Move channels back into spatial positions.
    CUDNN_TRANSFORM_UNFOLD = 1,
}

/// What `cudnnOpTensor` does with each pair of elements.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnOpTensorOp_t {
    /// `a + b`
    CUDNN_OP_TENSOR_ADD = 0,
    /// `a * b`
    CUDNN_OP_TENSOR_MUL = 1,
    /// The smaller of a and b.
    CUDNN_OP_TENSOR_MIN = 2,
    /// The larger of a and b.
    CUDNN_OP_TENSOR_MAX = 3,
    /// Square root of a; b is ignored.
    CUDNN_OP_TENSOR_SQRT = 4,
    /// 1 - a; b is ignored.
    CUDNN_OP_TENSOR_NOT = 5,
}

/// How `cudnnReduceTensor` joins the elements that meet in one output element.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnReduceTensorOp_t {
    /// Sum.
    CUDNN_REDUCE_TENSOR_ADD = 0,
    /// Product.
    CUDNN_REDUCE_TENSOR_MUL = 1,
    /// Minimum.
    CUDNN_REDUCE_TENSOR_MIN = 2,
    /// Maximum.
    CUDNN_REDUCE_TENSOR_MAX = 3,
    /// Largest absolute value.
    CUDNN_REDUCE_TENSOR_AMAX = 4,
    /// Arithmetic mean.
    CUDNN_REDUCE_TENSOR_AVG = 5,
    /// Sum of absolute values.
    CUDNN_REDUCE_TENSOR_NORM1 = 6,
    /// Square root of the sum of squares.
    CUDNN_REDUCE_TENSOR_NORM2 = 7,
    /// Product of the elements that are not zero.
    CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS = 8,
}

/// Whether a reduction also tells where its result came from.
#[c_enum]
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnReduceTensorIndices_t {
    /// Values only.
    CUDNN_REDUCE_TENSOR_NO_INDICES = 0,
    /// One index per output, counted through all reduced dimensions.
    CUDNN_REDUCE_TENSOR_FLATTENED_INDICES = 1,
}

/// Width of the indices that a reduction writes.
#[c_enum]
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnIndicesType_t {
    /// Unsigned, 4 bytes each.
    CUDNN_32BIT_INDICES = 0,
    /// Unsigned, 8 bytes each.
    CUDNN_64BIT_INDICES = 1,
    /// Unsigned, 2 bytes each.
    CUDNN_16BIT_INDICES = 2,
    /// Unsigned, 1 byte each.
    CUDNN_8BIT_INDICES = 3,
}
