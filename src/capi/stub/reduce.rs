//! Reductions.

use super::{unsupported, unsupported_on};
use crate::capi::types::{
    cudnnDataType_t, cudnnHandle_t, cudnnIndicesType_t, cudnnNanPropagation_t, cudnnReduceTensorDescriptor_t,
    cudnnReduceTensorIndices_t, cudnnReduceTensorOp_t, cudnnStatus_t, cudnnTensorDescriptor_t,
};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Creates the descriptor of a reduction. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateReduceTensorDescriptor(
    reduceTensorDesc: *mut cudnnReduceTensorDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnCreateReduceTensorDescriptor")
}

/// Sets operation, compute type, NaN rule and indices of a reduction. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetReduceTensorDescriptor(
    reduceTensorDesc: cudnnReduceTensorDescriptor_t,
    reduceTensorOp: MaybeUninit<cudnnReduceTensorOp_t>,
    reduceTensorCompType: MaybeUninit<cudnnDataType_t>,
    reduceTensorNanOpt: MaybeUninit<cudnnNanPropagation_t>,
    reduceTensorIndices: MaybeUninit<cudnnReduceTensorIndices_t>,
    reduceTensorIndicesType: MaybeUninit<cudnnIndicesType_t>,
) -> cudnnStatus_t {
    unsupported("cudnnSetReduceTensorDescriptor")
}

/// Operation, compute type, NaN rule and indices of a reduction. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetReduceTensorDescriptor(
    reduceTensorDesc: cudnnReduceTensorDescriptor_t,
    reduceTensorOp: *mut cudnnReduceTensorOp_t,
    reduceTensorCompType: *mut cudnnDataType_t,
    reduceTensorNanOpt: *mut cudnnNanPropagation_t,
    reduceTensorIndices: *mut cudnnReduceTensorIndices_t,
    reduceTensorIndicesType: *mut cudnnIndicesType_t,
) -> cudnnStatus_t {
    unsupported("cudnnGetReduceTensorDescriptor")
}

/// Destroys the descriptor of a reduction. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyReduceTensorDescriptor(
    reduceTensorDesc: cudnnReduceTensorDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnDestroyReduceTensorDescriptor")
}

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
