//! Convolution descriptors.

use super::unsupported;
use crate::capi::types::{
    cudnnConvolutionDescriptor_t, cudnnConvolutionMode_t, cudnnDataType_t, cudnnFilterDescriptor_t,
    cudnnMathType_t, cudnnReorderType_t, cudnnStatus_t, cudnnTensorDescriptor_t,
};
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Creates a convolution descriptor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateConvolutionDescriptor(
    convDesc: *mut cudnnConvolutionDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnCreateConvolutionDescriptor")
}

/// Destroys a convolution descriptor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyConvolutionDescriptor(
    convDesc: cudnnConvolutionDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnDestroyConvolutionDescriptor")
}

/// Sets which arithmetic units a convolution may use. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetConvolutionMathType(
    convDesc: cudnnConvolutionDescriptor_t,
    mathType: MaybeUninit<cudnnMathType_t>,
) -> cudnnStatus_t {
    unsupported("cudnnSetConvolutionMathType")
}

/// Which arithmetic units a convolution may use. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionMathType(
    convDesc: cudnnConvolutionDescriptor_t,
    mathType: *mut cudnnMathType_t,
) -> cudnnStatus_t {
    unsupported("cudnnGetConvolutionMathType")
}

/// Sets the number of channel groups of a convolution. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetConvolutionGroupCount(
    convDesc: cudnnConvolutionDescriptor_t,
    groupCount: c_int,
) -> cudnnStatus_t {
    unsupported("cudnnSetConvolutionGroupCount")
}

/// Number of channel groups of a convolution. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionGroupCount(
    convDesc: cudnnConvolutionDescriptor_t,
    groupCount: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetConvolutionGroupCount")
}

/// Sets whether 8-bit filters are reordered before use. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetConvolutionReorderType(
    convDesc: cudnnConvolutionDescriptor_t,
    reorderType: MaybeUninit<cudnnReorderType_t>,
) -> cudnnStatus_t {
    unsupported("cudnnSetConvolutionReorderType")
}

/// Whether 8-bit filters are reordered before use. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionReorderType(
    convDesc: cudnnConvolutionDescriptor_t,
    reorderType: *mut cudnnReorderType_t,
) -> cudnnStatus_t {
    unsupported("cudnnGetConvolutionReorderType")
}

/// Sets padding, strides, dilation, mode and compute type of a 2-D convolution. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetConvolution2dDescriptor(
    convDesc: cudnnConvolutionDescriptor_t,
    pad_h: c_int,
    pad_w: c_int,
    u: c_int,
    v: c_int,
    dilation_h: c_int,
    dilation_w: c_int,
    mode: MaybeUninit<cudnnConvolutionMode_t>,
    computeType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    unsupported("cudnnSetConvolution2dDescriptor")
}

/// Padding, strides, dilation, mode and compute type of a 2-D convolution. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolution2dDescriptor(
    convDesc: cudnnConvolutionDescriptor_t,
    pad_h: *mut c_int,
    pad_w: *mut c_int,
    u: *mut c_int,
    v: *mut c_int,
    dilation_h: *mut c_int,
    dilation_w: *mut c_int,
    mode: *mut cudnnConvolutionMode_t,
    computeType: *mut cudnnDataType_t,
) -> cudnnStatus_t {
    unsupported("cudnnGetConvolution2dDescriptor")
}

/// Sets padding, strides, dilation, mode and compute type of a convolution. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetConvolutionNdDescriptor(
    convDesc: cudnnConvolutionDescriptor_t,
    arrayLength: c_int,
    padA: *const c_int,
    filterStrideA: *const c_int,
    dilationA: *const c_int,
    mode: MaybeUninit<cudnnConvolutionMode_t>,
    computeType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    unsupported("cudnnSetConvolutionNdDescriptor")
}

/// Padding, strides, dilation, mode and compute type of a convolution. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionNdDescriptor(
    convDesc: cudnnConvolutionDescriptor_t,
    arrayLengthRequested: c_int,
    arrayLength: *mut c_int,
    padA: *mut c_int,
    strideA: *mut c_int,
    dilationA: *mut c_int,
    mode: *mut cudnnConvolutionMode_t,
    computeType: *mut cudnnDataType_t,
) -> cudnnStatus_t {
    unsupported("cudnnGetConvolutionNdDescriptor")
}

/// Output dimensions of a 2-D convolution. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolution2dForwardOutputDim(
    convDesc: cudnnConvolutionDescriptor_t,
    inputTensorDesc: cudnnTensorDescriptor_t,
    filterDesc: cudnnFilterDescriptor_t,
    n: *mut c_int,
    c: *mut c_int,
    h: *mut c_int,
    w: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetConvolution2dForwardOutputDim")
}

/// Output dimensions: `1 + (in + 2 * pad - (dilation * (k - 1) + 1)) / stride` each. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionNdForwardOutputDim(
    convDesc: cudnnConvolutionDescriptor_t,
    inputTensorDesc: cudnnTensorDescriptor_t,
    filterDesc: cudnnFilterDescriptor_t,
    nbDims: c_int,
    tensorOuputDimA: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetConvolutionNdForwardOutputDim")
}
