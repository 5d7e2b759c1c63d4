//! Dropout.

use super::unsupported_on;
use crate::capi::types::{cudnnDropoutDescriptor_t, cudnnHandle_t, cudnnStatus_t, cudnnTensorDescriptor_t};
use std::ffi::c_void;

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
