//! Recurrent networks as version 8 sized them: bytes of weights, workspace and reserve space, places of weights.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use super::guard::stub_on;
use super::types::{
    cudnnDataType_t, cudnnFilterDescriptor_t, cudnnHandle_t, cudnnRNNDescriptor_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};

/// Bytes of workspace for sequences of descriptors, one per step. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNWorkspaceSize(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    seqLength: c_int,
    xDesc: *const cudnnTensorDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    stub_on!(cudnnGetRNNWorkspaceSize(handle, rnnDesc, seqLength, xDesc, sizeInBytes))
}

/// Bytes that the forward pass keeps for the backward pass. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNTrainingReserveSize(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    seqLength: c_int,
    xDesc: *const cudnnTensorDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    stub_on!(cudnnGetRNNTrainingReserveSize(handle, rnnDesc, seqLength, xDesc, sizeInBytes))
}

/// Bytes of all weights and biases. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNParamsSize(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    xDesc: cudnnTensorDescriptor_t,
    sizeInBytes: *mut usize,
    dataType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    stub_on!(cudnnGetRNNParamsSize(handle, rnnDesc, xDesc, sizeInBytes, dataType))
}

/// Where one weight matrix lies, and its shape. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNLinLayerMatrixParams(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    pseudoLayer: c_int,
    xDesc: cudnnTensorDescriptor_t,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    linLayerID: c_int,
    linLayerMatDesc: cudnnFilterDescriptor_t,
    linLayerMat: *mut *mut c_void,
) -> cudnnStatus_t {
    stub_on!(cudnnGetRNNLinLayerMatrixParams(
        handle,
        rnnDesc,
        pseudoLayer,
        xDesc,
        wDesc,
        w,
        linLayerID,
        linLayerMatDesc,
        linLayerMat
    ))
}

/// Where one bias vector lies, and its shape. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNLinLayerBiasParams(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    pseudoLayer: c_int,
    xDesc: cudnnTensorDescriptor_t,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    linLayerID: c_int,
    linLayerBiasDesc: cudnnFilterDescriptor_t,
    linLayerBias: *mut *mut c_void,
) -> cudnnStatus_t {
    stub_on!(cudnnGetRNNLinLayerBiasParams(
        handle,
        rnnDesc,
        pseudoLayer,
        xDesc,
        wDesc,
        w,
        linLayerID,
        linLayerBiasDesc,
        linLayerBias
    ))
}
