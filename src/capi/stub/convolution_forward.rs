//! The forward convolution.

use super::unsupported_on;
use crate::capi::types::{
    cudnnActivationDescriptor_t, cudnnConvolutionDescriptor_t, cudnnConvolutionFwdAlgo_t,
    cudnnConvolutionFwdAlgoPerf_t, cudnnFilterDescriptor_t, cudnnHandle_t, cudnnReorderType_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// Forward algorithms, ranked by rules. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionForwardAlgorithm_v7(
    handle: cudnnHandle_t,
    srcDesc: cudnnTensorDescriptor_t,
    filterDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    destDesc: cudnnTensorDescriptor_t,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionFwdAlgoPerf_t,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetConvolutionForwardAlgorithm_v7", handle)
}

/// Forward algorithms, ranked by measuring them on own buffers. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindConvolutionForwardAlgorithm(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    wDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionFwdAlgoPerf_t,
) -> cudnnStatus_t {
    unsupported_on("cudnnFindConvolutionForwardAlgorithm", handle)
}

/// Forward algorithms, ranked by measuring them on the caller's buffers. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindConvolutionForwardAlgorithmEx(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    convDesc: cudnnConvolutionDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionFwdAlgoPerf_t,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnFindConvolutionForwardAlgorithmEx", handle)
}

/// Reorders an 8-bit filter and its bias for vectors of 32 channels. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnReorderFilterAndBias(
    handle: cudnnHandle_t,
    filterDesc: cudnnFilterDescriptor_t,
    reorderType: MaybeUninit<cudnnReorderType_t>,
    filterData: *const c_void,
    reorderedFilterData: *mut c_void,
    reorderBias: c_int,
    biasData: *const c_void,
    reorderedBiasData: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnReorderFilterAndBias", handle)
}

/// Bytes of workspace of a forward convolution. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionForwardWorkspaceSize(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    wDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    algo: MaybeUninit<cudnnConvolutionFwdAlgo_t>,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetConvolutionForwardWorkspaceSize", handle)
}

/// `y = alpha * conv(x, w) + beta * y`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnConvolutionForward(
    handle: cudnnHandle_t,
    alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    convDesc: cudnnConvolutionDescriptor_t,
    algo: MaybeUninit<cudnnConvolutionFwdAlgo_t>,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    beta: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnConvolutionForward", handle)
}

/// `y = f(alpha1 * conv(x, w) + alpha2 * z + bias)`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnConvolutionBiasActivationForward(
    handle: cudnnHandle_t,
    alpha1: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    convDesc: cudnnConvolutionDescriptor_t,
    algo: MaybeUninit<cudnnConvolutionFwdAlgo_t>,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    alpha2: *const c_void,
    zDesc: cudnnTensorDescriptor_t,
    z: *const c_void,
    biasDesc: cudnnTensorDescriptor_t,
    bias: *const c_void,
    activationDesc: cudnnActivationDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnConvolutionBiasActivationForward", handle)
}
