//! CTC loss.

use super::stub_on;
use crate::capi::types::{
    cudnnCTCLossAlgo_t, cudnnCTCLossDescriptor_t, cudnnHandle_t, cudnnStatus_t, cudnnTensorDescriptor_t,
};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

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
    stub_on!(cudnnCTCLoss(
        handle,
        probsDesc,
        probs,
        hostLabels,
        hostLabelLengths,
        hostInputLengths,
        costs,
        gradientsDesc,
        gradients,
        algo,
        ctcLossDesc,
        workspace,
        workSpaceSizeInBytes
    ))
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
    stub_on!(cudnnCTCLoss_v8(
        handle,
        algo,
        ctcLossDesc,
        probsDesc,
        probs,
        labels,
        labelLengths,
        inputLengths,
        costs,
        gradientsDesc,
        gradients,
        workSpaceSizeInBytes,
        workspace
    ))
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
    stub_on!(cudnnGetCTCLossWorkspaceSize(
        handle,
        probsDesc,
        gradientsDesc,
        labels,
        labelLengths,
        inputLengths,
        algo,
        ctcLossDesc,
        sizeInBytes
    ))
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
    stub_on!(cudnnGetCTCLossWorkspaceSize_v8(
        handle,
        algo,
        ctcLossDesc,
        probsDesc,
        gradientsDesc,
        sizeInBytes
    ))
}
