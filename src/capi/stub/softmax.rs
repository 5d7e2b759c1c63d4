//! Softmax.

use super::unsupported_on;
use crate::capi::types::{
    cudnnHandle_t, cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t, cudnnStatus_t, cudnnTensorDescriptor_t,
};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// `y = alpha * softmax(x) + beta * y`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSoftmaxForward(
    handle: cudnnHandle_t,
    algo: MaybeUninit<cudnnSoftmaxAlgorithm_t>,
    mode: MaybeUninit<cudnnSoftmaxMode_t>,
    alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    beta: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnSoftmaxForward", handle)
}

/// `dx = alpha * softmax'(y, dy) + beta * dx`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSoftmaxBackward(
    handle: cudnnHandle_t,
    algo: MaybeUninit<cudnnSoftmaxAlgorithm_t>,
    mode: MaybeUninit<cudnnSoftmaxMode_t>,
    alpha: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void,
    beta: *const c_void,
    dxDesc: cudnnTensorDescriptor_t,
    dx: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnSoftmaxBackward", handle)
}
