//! Reductions.

use super::unsupported_on;
use crate::capi::types::{
    cudnnHandle_t, cudnnReduceTensorDescriptor_t, cudnnStatus_t, cudnnTensorDescriptor_t,
};
use std::ffi::c_void;

/// Bytes that the indices of a reduction take. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetReductionIndicesSize(
    handle: cudnnHandle_t,
    reduceTensorDesc: cudnnReduceTensorDescriptor_t,
    aDesc: cudnnTensorDescriptor_t,
    cDesc: cudnnTensorDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetReductionIndicesSize", handle)
}

/// Bytes of workspace that a reduction takes. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetReductionWorkspaceSize(
    handle: cudnnHandle_t,
    reduceTensorDesc: cudnnReduceTensorDescriptor_t,
    aDesc: cudnnTensorDescriptor_t,
    cDesc: cudnnTensorDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetReductionWorkspaceSize", handle)
}

/// `C = alpha * reduce(A) + beta * C` over the dimensions where C has extent 1. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnReduceTensor(
    handle: cudnnHandle_t,
    reduceTensorDesc: cudnnReduceTensorDescriptor_t,
    indices: *mut c_void,
    indicesSizeInBytes: usize,
    workspace: *mut c_void,
    workspaceSizeInBytes: usize,
    alpha: *const c_void,
    aDesc: cudnnTensorDescriptor_t,
    A: *const c_void,
    beta: *const c_void,
    cDesc: cudnnTensorDescriptor_t,
    C: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnReduceTensor", handle)
}
