//! The forward convolution.

use super::unsupported_on;
use crate::capi::types::{
    cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t, cudnnHandle_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use std::ffi::c_void;

/// Writes each window of x as one column of a matrix. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnIm2Col(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    wDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    colBuffer: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnIm2Col", handle)
}
