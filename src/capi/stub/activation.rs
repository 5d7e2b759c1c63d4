//! Activations.

use super::{unsupported, unsupported_on};
use crate::capi::types::{
    cudnnActivationDescriptor_t, cudnnActivationMode_t, cudnnHandle_t, cudnnNanPropagation_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Creates an activation descriptor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateActivationDescriptor(
    activationDesc: *mut cudnnActivationDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnCreateActivationDescriptor")
}

/// Sets mode, NaN rule and coefficient of an activation. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetActivationDescriptor(
    activationDesc: cudnnActivationDescriptor_t,
    mode: MaybeUninit<cudnnActivationMode_t>,
    reluNanOpt: MaybeUninit<cudnnNanPropagation_t>,
    coef: f64,
) -> cudnnStatus_t {
    unsupported("cudnnSetActivationDescriptor")
}

/// Mode, NaN rule and coefficient of an activation. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetActivationDescriptor(
    activationDesc: cudnnActivationDescriptor_t,
    mode: *mut cudnnActivationMode_t,
    reluNanOpt: *mut cudnnNanPropagation_t,
    coef: *mut f64,
) -> cudnnStatus_t {
    unsupported("cudnnGetActivationDescriptor")
}

/// Sets beta of the swish activation. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetActivationDescriptorSwishBeta(
    activationDesc: cudnnActivationDescriptor_t,
    swish_beta: f64,
) -> cudnnStatus_t {
    unsupported("cudnnSetActivationDescriptorSwishBeta")
}

/// Beta of the swish activation. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetActivationDescriptorSwishBeta(
    activationDesc: cudnnActivationDescriptor_t,
    swish_beta: *mut f64,
) -> cudnnStatus_t {
    unsupported("cudnnGetActivationDescriptorSwishBeta")
}

/// Destroys an activation descriptor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyActivationDescriptor(
    activationDesc: cudnnActivationDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnDestroyActivationDescriptor")
}

/// `y = alpha * f(x) + beta * y`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnActivationForward(
    handle: cudnnHandle_t,
    activationDesc: cudnnActivationDescriptor_t,
    alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    beta: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnActivationForward", handle)
}

/// `dx = alpha * f'(x, y) * dy + beta * dx`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnActivationBackward(
    handle: cudnnHandle_t,
    activationDesc: cudnnActivationDescriptor_t,
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
    unsupported_on("cudnnActivationBackward", handle)
}
