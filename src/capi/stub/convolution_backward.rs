//! The gradients of the convolution.

use super::unsupported_on;
use crate::capi::types::{cudnnHandle_t, cudnnStatus_t, cudnnTensorDescriptor_t};
use std::ffi::c_void;

/// `db = alpha * sum(dy) + beta * db` over all dimensions but C. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnConvolutionBackwardBias(
    handle: cudnnHandle_t,
    alpha: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void,
    beta: *const c_void,
    dbDesc: cudnnTensorDescriptor_t,
    db: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnConvolutionBackwardBias", handle)
}
