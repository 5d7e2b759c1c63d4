//! Local response and divisive normalisation.

use super::unsupported_on;
use crate::capi::types::{
    cudnnDivNormMode_t, cudnnHandle_t, cudnnLRNDescriptor_t, cudnnLRNMode_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// `y = alpha * x / (k + a / n * sum(x^2))^b + beta * y` over n channels. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnLRNCrossChannelForward(
    handle: cudnnHandle_t,
    normDesc: cudnnLRNDescriptor_t,
    lrnMode: MaybeUninit<cudnnLRNMode_t>,
    alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    beta: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnLRNCrossChannelForward", handle)
}

/// Divides x by the deviation from given means in a spatial window. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDivisiveNormalizationForward(
    handle: cudnnHandle_t,
    normDesc: cudnnLRNDescriptor_t,
    mode: MaybeUninit<cudnnDivNormMode_t>,
    alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    means: *const c_void,
    temp: *mut c_void,
    temp2: *mut c_void,
    beta: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnDivisiveNormalizationForward", handle)
}

/// Gradient of the local response normalisation. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnLRNCrossChannelBackward(
    handle: cudnnHandle_t,
    normDesc: cudnnLRNDescriptor_t,
    lrnMode: MaybeUninit<cudnnLRNMode_t>,
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
    unsupported_on("cudnnLRNCrossChannelBackward", handle)
}

/// Gradients of the divisive normalisation by x and by the means. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDivisiveNormalizationBackward(
    handle: cudnnHandle_t,
    normDesc: cudnnLRNDescriptor_t,
    mode: MaybeUninit<cudnnDivNormMode_t>,
    alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    means: *const c_void,
    dy: *const c_void,
    temp: *mut c_void,
    temp2: *mut c_void,
    beta: *const c_void,
    dXdMeansDesc: cudnnTensorDescriptor_t,
    dx: *mut c_void,
    dMeans: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnDivisiveNormalizationBackward", handle)
}
