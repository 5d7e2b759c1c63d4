//! Pooling.

use super::{unsupported, unsupported_on};
use crate::capi::types::{
    cudnnHandle_t, cudnnNanPropagation_t, cudnnPoolingDescriptor_t, cudnnPoolingMode_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// Creates a pooling descriptor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreatePoolingDescriptor(
    poolingDesc: *mut cudnnPoolingDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnCreatePoolingDescriptor")
}

/// Sets mode, window, padding and strides of a 2-D pooling. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetPooling2dDescriptor(
    poolingDesc: cudnnPoolingDescriptor_t,
    mode: MaybeUninit<cudnnPoolingMode_t>,
    maxpoolingNanOpt: MaybeUninit<cudnnNanPropagation_t>,
    windowHeight: c_int,
    windowWidth: c_int,
    verticalPadding: c_int,
    horizontalPadding: c_int,
    verticalStride: c_int,
    horizontalStride: c_int,
) -> cudnnStatus_t {
    unsupported("cudnnSetPooling2dDescriptor")
}

/// Mode, window, padding and strides of a 2-D pooling. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetPooling2dDescriptor(
    poolingDesc: cudnnPoolingDescriptor_t,
    mode: *mut cudnnPoolingMode_t,
    maxpoolingNanOpt: *mut cudnnNanPropagation_t,
    windowHeight: *mut c_int,
    windowWidth: *mut c_int,
    verticalPadding: *mut c_int,
    horizontalPadding: *mut c_int,
    verticalStride: *mut c_int,
    horizontalStride: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetPooling2dDescriptor")
}

/// Sets mode, window, padding and strides of a pooling. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetPoolingNdDescriptor(
    poolingDesc: cudnnPoolingDescriptor_t,
    mode: MaybeUninit<cudnnPoolingMode_t>,
    maxpoolingNanOpt: MaybeUninit<cudnnNanPropagation_t>,
    nbDims: c_int,
    windowDimA: *const c_int,
    paddingA: *const c_int,
    strideA: *const c_int,
) -> cudnnStatus_t {
    unsupported("cudnnSetPoolingNdDescriptor")
}

/// Mode, window, padding and strides of a pooling. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetPoolingNdDescriptor(
    poolingDesc: cudnnPoolingDescriptor_t,
    nbDimsRequested: c_int,
    mode: *mut cudnnPoolingMode_t,
    maxpoolingNanOpt: *mut cudnnNanPropagation_t,
    nbDims: *mut c_int,
    windowDimA: *mut c_int,
    paddingA: *mut c_int,
    strideA: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetPoolingNdDescriptor")
}

/// Output dimensions of a pooling: `1 + (in + 2 * pad - window) / stride` each. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetPoolingNdForwardOutputDim(
    poolingDesc: cudnnPoolingDescriptor_t,
    inputTensorDesc: cudnnTensorDescriptor_t,
    nbDims: c_int,
    outputTensorDimA: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetPoolingNdForwardOutputDim")
}

/// Output dimensions of a 2-D pooling. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetPooling2dForwardOutputDim(
    poolingDesc: cudnnPoolingDescriptor_t,
    inputTensorDesc: cudnnTensorDescriptor_t,
    n: *mut c_int,
    c: *mut c_int,
    h: *mut c_int,
    w: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetPooling2dForwardOutputDim")
}

/// Destroys a pooling descriptor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyPoolingDescriptor(
    poolingDesc: cudnnPoolingDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnDestroyPoolingDescriptor")
}

/// `y = alpha * pool(x) + beta * y`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnPoolingForward(
    handle: cudnnHandle_t,
    poolingDesc: cudnnPoolingDescriptor_t,
    alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    beta: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnPoolingForward", handle)
}

/// `dx = alpha * pool'(x, y, dy) + beta * dx`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnPoolingBackward(
    handle: cudnnHandle_t,
    poolingDesc: cudnnPoolingDescriptor_t,
    alpha: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    beta: *const c_void,
    dxDesc: cudnnTensorDescriptor_t,
    dx: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnPoolingBackward", handle)
}
