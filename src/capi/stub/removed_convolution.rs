//! The choice of a convolution algorithm by preference, as version 7 had it.

use super::unsupported_on;
use crate::capi::types::{
    cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdDataPreference_t, cudnnConvolutionBwdFilterAlgo_t,
    cudnnConvolutionBwdFilterPreference_t, cudnnConvolutionDescriptor_t, cudnnConvolutionFwdAlgo_t,
    cudnnConvolutionFwdPreference_t, cudnnFilterDescriptor_t, cudnnHandle_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use std::mem::MaybeUninit;

/// The forward algorithm that fits a preference. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionForwardAlgorithm(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    wDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    preference: MaybeUninit<cudnnConvolutionFwdPreference_t>,
    memoryLimitInBytes: usize,
    algo: *mut cudnnConvolutionFwdAlgo_t,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetConvolutionForwardAlgorithm", handle)
}

/// The data gradient algorithm that fits a preference. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardDataAlgorithm(
    handle: cudnnHandle_t,
    wDesc: cudnnFilterDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dxDesc: cudnnTensorDescriptor_t,
    preference: MaybeUninit<cudnnConvolutionBwdDataPreference_t>,
    memoryLimitInBytes: usize,
    algo: *mut cudnnConvolutionBwdDataAlgo_t,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetConvolutionBackwardDataAlgorithm", handle)
}

/// The filter gradient algorithm that fits a preference. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardFilterAlgorithm(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dwDesc: cudnnFilterDescriptor_t,
    preference: MaybeUninit<cudnnConvolutionBwdFilterPreference_t>,
    memoryLimitInBytes: usize,
    algo: *mut cudnnConvolutionBwdFilterAlgo_t,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetConvolutionBackwardFilterAlgorithm", handle)
}
