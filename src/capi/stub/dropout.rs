//! Dropout.

use super::{unsupported, unsupported_on};
use crate::capi::types::{cudnnDropoutDescriptor_t, cudnnHandle_t, cudnnStatus_t, cudnnTensorDescriptor_t};
use std::ffi::{c_ulonglong, c_void};

/// Creates a dropout descriptor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateDropoutDescriptor(
    dropoutDesc: *mut cudnnDropoutDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnCreateDropoutDescriptor")
}

/// Destroys a dropout descriptor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDestroyDropoutDescriptor(
    dropoutDesc: cudnnDropoutDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnDestroyDropoutDescriptor")
}

/// Bytes of the random states that dropout takes. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDropoutGetStatesSize(
    handle: cudnnHandle_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnDropoutGetStatesSize", handle)
}

/// Bytes that dropout keeps between forward and backward. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDropoutGetReserveSpaceSize(
    xdesc: cudnnTensorDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported("cudnnDropoutGetReserveSpaceSize")
}

/// Sets the probability and seeds the random states. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetDropoutDescriptor(
    dropoutDesc: cudnnDropoutDescriptor_t,
    handle: cudnnHandle_t,
    dropout: f32,
    states: *mut c_void,
    stateSizeInBytes: usize,
    seed: c_ulonglong,
) -> cudnnStatus_t {
    unsupported_on("cudnnSetDropoutDescriptor", handle)
}

/// Sets the probability and takes random states that are seeded already. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRestoreDropoutDescriptor(
    dropoutDesc: cudnnDropoutDescriptor_t,
    handle: cudnnHandle_t,
    dropout: f32,
    states: *mut c_void,
    stateSizeInBytes: usize,
    seed: c_ulonglong,
) -> cudnnStatus_t {
    unsupported_on("cudnnRestoreDropoutDescriptor", handle)
}

/// Probability, random states and seed of a dropout. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetDropoutDescriptor(
    dropoutDesc: cudnnDropoutDescriptor_t,
    handle: cudnnHandle_t,
    dropout: *mut f32,
    states: *mut *mut c_void,
    seed: *mut c_ulonglong,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetDropoutDescriptor", handle)
}

/// `y = mask * x / (1 - p)` with a random mask that is zero with probability p. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDropoutForward(
    handle: cudnnHandle_t,
    dropoutDesc: cudnnDropoutDescriptor_t,
    xdesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    ydesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnDropoutForward", handle)
}

/// `dx = mask * dy / (1 - p)` with the mask of the forward pass. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDropoutBackward(
    handle: cudnnHandle_t,
    dropoutDesc: cudnnDropoutDescriptor_t,
    dydesc: cudnnTensorDescriptor_t,
    dy: *const c_void,
    dxdesc: cudnnTensorDescriptor_t,
    dx: *mut c_void,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnDropoutBackward", handle)
}
