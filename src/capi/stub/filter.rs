//! Filter descriptors and the filter transform.

use super::unsupported_on;
use crate::capi::types::{
    cudnnFilterDescriptor_t, cudnnHandle_t, cudnnStatus_t, cudnnTensorTransformDescriptor_t,
};
use std::ffi::c_void;

/// `dest = alpha * transform(src) + beta * dest` between two filters. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnTransformFilter(
    handle: cudnnHandle_t,
    transDesc: cudnnTensorTransformDescriptor_t,
    alpha: *const c_void,
    srcDesc: cudnnFilterDescriptor_t,
    srcData: *const c_void,
    beta: *const c_void,
    destDesc: cudnnFilterDescriptor_t,
    destData: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnTransformFilter", handle)
}
