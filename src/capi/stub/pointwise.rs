//! Element-wise calls: add, set, scale and the two-operand operations.

use super::{unsupported, unsupported_on};
use crate::capi::types::{
    cudnnDataType_t, cudnnHandle_t, cudnnNanPropagation_t, cudnnOpTensorDescriptor_t, cudnnOpTensorOp_t,
    cudnnStatus_t, cudnnTensorDescriptor_t,
};
use std::ffi::c_void;
use std::mem::MaybeUninit;

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

/// Creates the descriptor of a two-operand operation. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateOpTensorDescriptor(
    opTensorDesc: *mut cudnnOpTensorDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnCreateOpTensorDescriptor")
}

/// Sets operation, compute type and NaN rule of `cudnnOpTensor`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetOpTensorDescriptor(
    opTensorDesc: cudnnOpTensorDescriptor_t,
    opTensorOp: MaybeUninit<cudnnOpTensorOp_t>,
    opTensorCompType: MaybeUninit<cudnnDataType_t>,
    opTensorNanOpt: MaybeUninit<cudnnNanPropagation_t>,
) -> cudnnStatus_t {
    unsupported("cudnnSetOpTensorDescriptor")
}

/// Operation, compute type and NaN rule of `cudnnOpTensor`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetOpTensorDescriptor(
    opTensorDesc: cudnnOpTensorDescriptor_t,
    opTensorOp: *mut cudnnOpTensorOp_t,
    opTensorCompType: *mut cudnnDataType_t,
    opTensorNanOpt: *mut cudnnNanPropagation_t,
) -> cudnnStatus_t {
    unsupported("cudnnGetOpTensorDescriptor")
}

/// Destroys the descriptor of a two-operand operation. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyOpTensorDescriptor(
    opTensorDesc: cudnnOpTensorDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnDestroyOpTensorDescriptor")
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
