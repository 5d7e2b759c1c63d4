//! The gradients of the convolution.

use super::unsupported_on;
use crate::capi::types::{
    cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t,
    cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t,
    cudnnHandle_t, cudnnStatus_t, cudnnTensorDescriptor_t, cudnnTensorFormat_t,
    cudnnTensorTransformDescriptor_t,
};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// Data gradient algorithms, ranked by measuring them on own buffers. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindConvolutionBackwardDataAlgorithm(
    handle: cudnnHandle_t,
    wDesc: cudnnFilterDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dxDesc: cudnnTensorDescriptor_t,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionBwdDataAlgoPerf_t,
) -> cudnnStatus_t {
    unsupported_on("cudnnFindConvolutionBackwardDataAlgorithm", handle)
}

/// Data gradient algorithms, ranked by measuring them on the caller's buffers. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindConvolutionBackwardDataAlgorithmEx(
    handle: cudnnHandle_t,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void,
    convDesc: cudnnConvolutionDescriptor_t,
    dxDesc: cudnnTensorDescriptor_t,
    dx: *mut c_void,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionBwdDataAlgoPerf_t,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnFindConvolutionBackwardDataAlgorithmEx", handle)
}

/// Data gradient algorithms, ranked by rules. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardDataAlgorithm_v7(
    handle: cudnnHandle_t,
    filterDesc: cudnnFilterDescriptor_t,
    diffDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    gradDesc: cudnnTensorDescriptor_t,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionBwdDataAlgoPerf_t,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetConvolutionBackwardDataAlgorithm_v7", handle)
}

/// Bytes of workspace of a convolution's data gradient. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardDataWorkspaceSize(
    handle: cudnnHandle_t,
    wDesc: cudnnFilterDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dxDesc: cudnnTensorDescriptor_t,
    algo: MaybeUninit<cudnnConvolutionBwdDataAlgo_t>,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetConvolutionBackwardDataWorkspaceSize", handle)
}

/// `dx = alpha * conv_data_gradient(w, dy) + beta * dx`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnConvolutionBackwardData(
    handle: cudnnHandle_t,
    alpha: *const c_void,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void,
    convDesc: cudnnConvolutionDescriptor_t,
    algo: MaybeUninit<cudnnConvolutionBwdDataAlgo_t>,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    beta: *const c_void,
    dxDesc: cudnnTensorDescriptor_t,
    dx: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnConvolutionBackwardData", handle)
}

/// Descriptors that turn a strided data gradient into a folded one without strides. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetFoldedConvBackwardDataDescriptors(
    handle: cudnnHandle_t,
    filterDesc: cudnnFilterDescriptor_t,
    diffDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    gradDesc: cudnnTensorDescriptor_t,
    transformFormat: MaybeUninit<cudnnTensorFormat_t>,
    foldedFilterDesc: cudnnFilterDescriptor_t,
    paddedDiffDesc: cudnnTensorDescriptor_t,
    foldedConvDesc: cudnnConvolutionDescriptor_t,
    foldedGradDesc: cudnnTensorDescriptor_t,
    filterFoldTransDesc: cudnnTensorTransformDescriptor_t,
    diffPadTransDesc: cudnnTensorTransformDescriptor_t,
    gradFoldTransDesc: cudnnTensorTransformDescriptor_t,
    gradUnfoldTransDesc: cudnnTensorTransformDescriptor_t,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetFoldedConvBackwardDataDescriptors", handle)
}

/// Filter gradient algorithms, ranked by measuring them on own buffers. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindConvolutionBackwardFilterAlgorithm(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dwDesc: cudnnFilterDescriptor_t,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionBwdFilterAlgoPerf_t,
) -> cudnnStatus_t {
    unsupported_on("cudnnFindConvolutionBackwardFilterAlgorithm", handle)
}

/// Filter gradient algorithms, ranked by measuring them on the caller's buffers. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindConvolutionBackwardFilterAlgorithmEx(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    y: *const c_void,
    convDesc: cudnnConvolutionDescriptor_t,
    dwDesc: cudnnFilterDescriptor_t,
    dw: *mut c_void,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionBwdFilterAlgoPerf_t,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnFindConvolutionBackwardFilterAlgorithmEx", handle)
}

/// Filter gradient algorithms, ranked by rules. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    handle: cudnnHandle_t,
    srcDesc: cudnnTensorDescriptor_t,
    diffDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    gradDesc: cudnnFilterDescriptor_t,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionBwdFilterAlgoPerf_t,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetConvolutionBackwardFilterAlgorithm_v7", handle)
}

/// Bytes of workspace of a convolution's filter gradient. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardFilterWorkspaceSize(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    gradDesc: cudnnFilterDescriptor_t,
    algo: MaybeUninit<cudnnConvolutionBwdFilterAlgo_t>,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetConvolutionBackwardFilterWorkspaceSize", handle)
}

/// `dw = alpha * conv_filter_gradient(x, dy) + beta * dw`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnConvolutionBackwardFilter(
    handle: cudnnHandle_t,
    alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void,
    convDesc: cudnnConvolutionDescriptor_t,
    algo: MaybeUninit<cudnnConvolutionBwdFilterAlgo_t>,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    beta: *const c_void,
    dwDesc: cudnnFilterDescriptor_t,
    dw: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnConvolutionBackwardFilter", handle)
}
