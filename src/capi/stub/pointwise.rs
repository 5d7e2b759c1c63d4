//! Element-wise calls: add, set, scale and the two-operand operations.

use super::unsupported_on;
use crate::capi::types::{cudnnHandle_t, cudnnOpTensorDescriptor_t, cudnnStatus_t, cudnnTensorDescriptor_t};
use std::ffi::c_void;

/// `C = alpha * A + beta * C`; dimensions of A are those of C or 1. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnAddTensor(
    handle: cudnnHandle_t,
    alpha: *const c_void,
    aDesc: cudnnTensorDescriptor_t,
    A: *const c_void,
    beta: *const c_void,
    cDesc: cudnnTensorDescriptor_t,
    C: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnAddTensor", handle)
}

/// `C = op(alpha1 * A, alpha2 * B) + beta * C`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnOpTensor(
    handle: cudnnHandle_t,
    opTensorDesc: cudnnOpTensorDescriptor_t,
    alpha1: *const c_void,
    aDesc: cudnnTensorDescriptor_t,
    A: *const c_void,
    alpha2: *const c_void,
    bDesc: cudnnTensorDescriptor_t,
    B: *const c_void,
    beta: *const c_void,
    cDesc: cudnnTensorDescriptor_t,
    C: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnOpTensor", handle)
}

/// Sets every element of y to one value. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetTensor(
    handle: cudnnHandle_t,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
    valuePtr: *const c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnSetTensor", handle)
}

/// `y = alpha * y`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnScaleTensor(
    handle: cudnnHandle_t,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
    alpha: *const c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnScaleTensor", handle)
}
