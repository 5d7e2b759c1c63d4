//! CTC loss.

use super::{unsupported, unsupported_on};
use crate::capi::types::{
    cudnnCTCGradMode_t, cudnnCTCLossAlgo_t, cudnnCTCLossDescriptor_t, cudnnDataType_t, cudnnHandle_t,
    cudnnLossNormalizationMode_t, cudnnNanPropagation_t, cudnnStatus_t, cudnnTensorDescriptor_t,
};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// Creates the descriptor of a CTC loss. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateCTCLossDescriptor(
    ctcLossDesc: *mut cudnnCTCLossDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnCreateCTCLossDescriptor")
}

/// Sets the compute type of a CTC loss. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetCTCLossDescriptor(
    ctcLossDesc: cudnnCTCLossDescriptor_t,
    compType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    unsupported("cudnnSetCTCLossDescriptor")
}

/// Sets compute type, normalisation and NaN rule of a CTC loss. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetCTCLossDescriptorEx(
    ctcLossDesc: cudnnCTCLossDescriptor_t,
    compType: MaybeUninit<cudnnDataType_t>,
    normMode: MaybeUninit<cudnnLossNormalizationMode_t>,
    gradMode: MaybeUninit<cudnnNanPropagation_t>,
) -> cudnnStatus_t {
    unsupported("cudnnSetCTCLossDescriptorEx")
}

/// Sets compute type, normalisation, NaN rule and longest label of a CTC loss. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetCTCLossDescriptor_v8(
    ctcLossDesc: cudnnCTCLossDescriptor_t,
    compType: MaybeUninit<cudnnDataType_t>,
    normMode: MaybeUninit<cudnnLossNormalizationMode_t>,
    gradMode: MaybeUninit<cudnnNanPropagation_t>,
    maxLabelLength: c_int,
) -> cudnnStatus_t {
    unsupported("cudnnSetCTCLossDescriptor_v8")
}

/// Sets compute type, normalisation, gradient rule and longest label of a CTC loss. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[cfg(not(feature = "cudnn8"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetCTCLossDescriptor_v9(
    ctcLossDesc: cudnnCTCLossDescriptor_t,
    compType: MaybeUninit<cudnnDataType_t>,
    normMode: MaybeUninit<cudnnLossNormalizationMode_t>,
    ctcGradMode: MaybeUninit<cudnnCTCGradMode_t>,
    maxLabelLength: c_int,
) -> cudnnStatus_t {
    unsupported("cudnnSetCTCLossDescriptor_v9")
}

/// Compute type of a CTC loss. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetCTCLossDescriptor(
    ctcLossDesc: cudnnCTCLossDescriptor_t,
    compType: *mut cudnnDataType_t,
) -> cudnnStatus_t {
    unsupported("cudnnGetCTCLossDescriptor")
}

/// Compute type, normalisation and NaN rule of a CTC loss. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetCTCLossDescriptorEx(
    ctcLossDesc: cudnnCTCLossDescriptor_t,
    compType: *mut cudnnDataType_t,
    normMode: *mut cudnnLossNormalizationMode_t,
    gradMode: *mut cudnnNanPropagation_t,
) -> cudnnStatus_t {
    unsupported("cudnnGetCTCLossDescriptorEx")
}

/// Compute type, normalisation, NaN rule and longest label of a CTC loss. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetCTCLossDescriptor_v8(
    ctcLossDesc: cudnnCTCLossDescriptor_t,
    compType: *mut cudnnDataType_t,
    normMode: *mut cudnnLossNormalizationMode_t,
    gradMode: *mut cudnnNanPropagation_t,
    maxLabelLength: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetCTCLossDescriptor_v8")
}

/// Compute type, normalisation, gradient rule and longest label of a CTC loss. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[cfg(not(feature = "cudnn8"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetCTCLossDescriptor_v9(
    ctcLossDesc: cudnnCTCLossDescriptor_t,
    compType: *mut cudnnDataType_t,
    normMode: *mut cudnnLossNormalizationMode_t,
    ctcGradMode: *mut cudnnCTCGradMode_t,
    maxLabelLength: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetCTCLossDescriptor_v9")
}

/// Destroys the descriptor of a CTC loss. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDestroyCTCLossDescriptor(
    ctcLossDesc: cudnnCTCLossDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnDestroyCTCLossDescriptor")
}

/// `-log p(labels | probs)` of each sequence and its gradient; labels on the host. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCTCLoss(
    handle: cudnnHandle_t,
    probsDesc: cudnnTensorDescriptor_t,
    probs: *const c_void,
    hostLabels: *const c_int,
    hostLabelLengths: *const c_int,
    hostInputLengths: *const c_int,
    costs: *mut c_void,
    gradientsDesc: cudnnTensorDescriptor_t,
    gradients: *mut c_void,
    algo: MaybeUninit<cudnnCTCLossAlgo_t>,
    ctcLossDesc: cudnnCTCLossDescriptor_t,
    workspace: *mut c_void,
    workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnCTCLoss", handle)
}

/// `-log p(labels | probs)` of each sequence and its gradient; labels on the device. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCTCLoss_v8(
    handle: cudnnHandle_t,
    algo: MaybeUninit<cudnnCTCLossAlgo_t>,
    ctcLossDesc: cudnnCTCLossDescriptor_t,
    probsDesc: cudnnTensorDescriptor_t,
    probs: *const c_void,
    labels: *const c_int,
    labelLengths: *const c_int,
    inputLengths: *const c_int,
    costs: *mut c_void,
    gradientsDesc: cudnnTensorDescriptor_t,
    gradients: *mut c_void,
    workSpaceSizeInBytes: usize,
    workspace: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnCTCLoss_v8", handle)
}

/// Bytes of workspace of a CTC loss with labels on the host. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetCTCLossWorkspaceSize(
    handle: cudnnHandle_t,
    probsDesc: cudnnTensorDescriptor_t,
    gradientsDesc: cudnnTensorDescriptor_t,
    labels: *const c_int,
    labelLengths: *const c_int,
    inputLengths: *const c_int,
    algo: MaybeUninit<cudnnCTCLossAlgo_t>,
    ctcLossDesc: cudnnCTCLossDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetCTCLossWorkspaceSize", handle)
}

/// Bytes of workspace of a CTC loss with labels on the device. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetCTCLossWorkspaceSize_v8(
    handle: cudnnHandle_t,
    algo: MaybeUninit<cudnnCTCLossAlgo_t>,
    ctcLossDesc: cudnnCTCLossDescriptor_t,
    probsDesc: cudnnTensorDescriptor_t,
    gradientsDesc: cudnnTensorDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetCTCLossWorkspaceSize_v8", handle)
}
