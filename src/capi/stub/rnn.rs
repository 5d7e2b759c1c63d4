//! Recurrent networks.

use super::{unsupported, unsupported_on};
use crate::capi::types::{
    cudnnDataType_t, cudnnDirectionMode_t, cudnnDropoutDescriptor_t, cudnnForwardMode_t, cudnnHandle_t,
    cudnnMathType_t, cudnnNanPropagation_t, cudnnRNNAlgo_t, cudnnRNNBiasMode_t, cudnnRNNClipMode_t,
    cudnnRNNDataDescriptor_t, cudnnRNNDataLayout_t, cudnnRNNDescriptor_t, cudnnRNNInputMode_t,
    cudnnRNNMode_t, cudnnStatus_t, cudnnTensorDescriptor_t, cudnnWgradMode_t,
};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// Creates the descriptor of a recurrent network. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateRNNDescriptor(rnnDesc: *mut cudnnRNNDescriptor_t) -> cudnnStatus_t {
    unsupported("cudnnCreateRNNDescriptor")
}

/// Destroys the descriptor of a recurrent network. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDestroyRNNDescriptor(rnnDesc: cudnnRNNDescriptor_t) -> cudnnStatus_t {
    unsupported("cudnnDestroyRNNDescriptor")
}

/// Sets cell, sizes, directions and types of a recurrent network. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetRNNDescriptor_v8(
    rnnDesc: cudnnRNNDescriptor_t,
    algo: MaybeUninit<cudnnRNNAlgo_t>,
    cellMode: MaybeUninit<cudnnRNNMode_t>,
    biasMode: MaybeUninit<cudnnRNNBiasMode_t>,
    dirMode: MaybeUninit<cudnnDirectionMode_t>,
    inputMode: MaybeUninit<cudnnRNNInputMode_t>,
    dataType: MaybeUninit<cudnnDataType_t>,
    mathPrec: MaybeUninit<cudnnDataType_t>,
    mathType: MaybeUninit<cudnnMathType_t>,
    inputSize: i32,
    hiddenSize: i32,
    projSize: i32,
    numLayers: i32,
    dropoutDesc: cudnnDropoutDescriptor_t,
    auxFlags: u32,
) -> cudnnStatus_t {
    unsupported("cudnnSetRNNDescriptor_v8")
}

/// Cell, sizes, directions and types of a recurrent network. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNDescriptor_v8(
    rnnDesc: cudnnRNNDescriptor_t,
    algo: *mut cudnnRNNAlgo_t,
    cellMode: *mut cudnnRNNMode_t,
    biasMode: *mut cudnnRNNBiasMode_t,
    dirMode: *mut cudnnDirectionMode_t,
    inputMode: *mut cudnnRNNInputMode_t,
    dataType: *mut cudnnDataType_t,
    mathPrec: *mut cudnnDataType_t,
    mathType: *mut cudnnMathType_t,
    inputSize: *mut i32,
    hiddenSize: *mut i32,
    projSize: *mut i32,
    numLayers: *mut i32,
    dropoutDesc: *mut cudnnDropoutDescriptor_t,
    auxFlags: *mut u32,
) -> cudnnStatus_t {
    unsupported("cudnnGetRNNDescriptor_v8")
}

/// Sets the clipping of the LSTM cell state and its NaN rule. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNSetClip_v8(
    rnnDesc: cudnnRNNDescriptor_t,
    clipMode: MaybeUninit<cudnnRNNClipMode_t>,
    clipNanOpt: MaybeUninit<cudnnNanPropagation_t>,
    lclip: f64,
    rclip: f64,
) -> cudnnStatus_t {
    unsupported("cudnnRNNSetClip_v8")
}

/// Sets the clipping of the LSTM cell state. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[cfg(not(feature = "cudnn8"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNSetClip_v9(
    rnnDesc: cudnnRNNDescriptor_t,
    clipMode: MaybeUninit<cudnnRNNClipMode_t>,
    lclip: f64,
    rclip: f64,
) -> cudnnStatus_t {
    unsupported("cudnnRNNSetClip_v9")
}

/// Clipping of the LSTM cell state and its NaN rule. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNGetClip_v8(
    rnnDesc: cudnnRNNDescriptor_t,
    clipMode: *mut cudnnRNNClipMode_t,
    clipNanOpt: *mut cudnnNanPropagation_t,
    lclip: *mut f64,
    rclip: *mut f64,
) -> cudnnStatus_t {
    unsupported("cudnnRNNGetClip_v8")
}

/// Clipping of the LSTM cell state. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[cfg(not(feature = "cudnn8"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNGetClip_v9(
    rnnDesc: cudnnRNNDescriptor_t,
    clipMode: *mut cudnnRNNClipMode_t,
    lclip: *mut f64,
    rclip: *mut f64,
) -> cudnnStatus_t {
    unsupported("cudnnRNNGetClip_v9")
}

/// Builds the kernels of a persistent recurrent network for one batch size. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBuildRNNDynamic(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    miniBatch: c_int,
) -> cudnnStatus_t {
    unsupported_on("cudnnBuildRNNDynamic", handle)
}

/// Bytes of workspace and reserve space of a recurrent network. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNTempSpaceSizes(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    fwdMode: MaybeUninit<cudnnForwardMode_t>,
    xDesc: cudnnRNNDataDescriptor_t,
    workSpaceSize: *mut usize,
    reserveSpaceSize: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetRNNTempSpaceSizes", handle)
}

/// Bytes that all weights of a recurrent network take. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNWeightSpaceSize(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    weightSpaceSize: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetRNNWeightSpaceSize", handle)
}

/// Where one weight matrix and its bias lie in the weight space. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNWeightParams(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    pseudoLayer: i32,
    weightSpaceSize: usize,
    weightSpace: *const c_void,
    linLayerID: i32,
    mDesc: cudnnTensorDescriptor_t,
    mAddr: *mut *mut c_void,
    bDesc: cudnnTensorDescriptor_t,
    bAddr: *mut *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetRNNWeightParams", handle)
}

/// Creates the descriptor of a batch of sequences. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateRNNDataDescriptor(
    rnnDataDesc: *mut cudnnRNNDataDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnCreateRNNDataDescriptor")
}

/// Destroys the descriptor of a batch of sequences. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDestroyRNNDataDescriptor(
    rnnDataDesc: cudnnRNNDataDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnDestroyRNNDataDescriptor")
}

/// Sets type, layout and lengths of a batch of sequences. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetRNNDataDescriptor(
    rnnDataDesc: cudnnRNNDataDescriptor_t,
    dataType: MaybeUninit<cudnnDataType_t>,
    layout: MaybeUninit<cudnnRNNDataLayout_t>,
    maxSeqLength: c_int,
    batchSize: c_int,
    vectorSize: c_int,
    seqLengthArray: *const c_int,
    paddingFill: *mut c_void,
) -> cudnnStatus_t {
    unsupported("cudnnSetRNNDataDescriptor")
}

/// Type, layout and lengths of a batch of sequences. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNDataDescriptor(
    rnnDataDesc: cudnnRNNDataDescriptor_t,
    dataType: *mut cudnnDataType_t,
    layout: *mut cudnnRNNDataLayout_t,
    maxSeqLength: *mut c_int,
    batchSize: *mut c_int,
    vectorSize: *mut c_int,
    arrayLengthRequested: c_int,
    seqLengthArray: *mut c_int,
    paddingFill: *mut c_void,
) -> cudnnStatus_t {
    unsupported("cudnnGetRNNDataDescriptor")
}

/// Outputs and last states of a recurrent network. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNForward(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    fwdMode: MaybeUninit<cudnnForwardMode_t>,
    devSeqLengths: *const i32,
    xDesc: cudnnRNNDataDescriptor_t,
    x: *const c_void,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *mut c_void,
    hDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    hy: *mut c_void,
    cDesc: cudnnTensorDescriptor_t,
    cx: *const c_void,
    cy: *mut c_void,
    weightSpaceSize: usize,
    weightSpace: *const c_void,
    workSpaceSize: usize,
    workSpace: *mut c_void,
    reserveSpaceSize: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnRNNForward", handle)
}

/// Gradients of a recurrent network by inputs and first states. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNBackwardData_v8(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    devSeqLengths: *const i32,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *const c_void,
    dy: *const c_void,
    xDesc: cudnnRNNDataDescriptor_t,
    dx: *mut c_void,
    hDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    dhy: *const c_void,
    dhx: *mut c_void,
    cDesc: cudnnTensorDescriptor_t,
    cx: *const c_void,
    dcy: *const c_void,
    dcx: *mut c_void,
    weightSpaceSize: usize,
    weightSpace: *const c_void,
    workSpaceSize: usize,
    workSpace: *mut c_void,
    reserveSpaceSize: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnRNNBackwardData_v8", handle)
}

/// Gradients of a recurrent network by its weights. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNBackwardWeights_v8(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    addGrad: MaybeUninit<cudnnWgradMode_t>,
    devSeqLengths: *const i32,
    xDesc: cudnnRNNDataDescriptor_t,
    x: *const c_void,
    hDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *const c_void,
    weightSpaceSize: usize,
    dweightSpace: *mut c_void,
    workSpaceSize: usize,
    workSpace: *mut c_void,
    reserveSpaceSize: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnRNNBackwardWeights_v8", handle)
}
