//! Recurrent networks as version 8 described them: the descriptor's parts, sizes, places of weights.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;

use super::context;
use super::guard::{entry_point, stub, stub_on};
use super::rnn;
use super::types::{
    cudnnAlgorithmDescriptor_t, cudnnDataType_t, cudnnDirectionMode_t, cudnnDropoutDescriptor_t,
    cudnnFilterDescriptor_t, cudnnHandle_t, cudnnMathType_t, cudnnNanPropagation_t, cudnnPersistentRNNPlan_t,
    cudnnRNNAlgo_t, cudnnRNNBiasMode_t, cudnnRNNClipMode_t, cudnnRNNDescriptor_t, cudnnRNNInputMode_t,
    cudnnRNNMode_t, cudnnStatus_t, cudnnTensorDescriptor_t, raw,
};

/// Sets whether and between which bounds the LSTM cell state is clipped, and the NaN rule.
///
/// Status: BAD_PARAM for a handle that is not alive; else as cudnnRNNSetClip_v8.
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnRNNSetClip(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    clipMode: MaybeUninit<cudnnRNNClipMode_t>,
    clipNanOpt: MaybeUninit<cudnnNanPropagation_t>,
    lclip: f64,
    rclip: f64,
) -> cudnnStatus_t {
    let (mode, nan) = (raw(clipMode), raw(clipNanOpt));
    entry_point!(cudnnRNNSetClip(handle, rnnDesc, clipMode, clipNanOpt, lclip, rclip), || {
        context::check(handle)?;
        rnn::set_clip(rnnDesc, mode, nan, lclip, rclip)
    })
}

/// Reads mode, NaN rule and bounds of the clipping; NULL outputs are left out.
///
/// Status: BAD_PARAM for a handle or a descriptor that is not alive.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNGetClip(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    clipMode: *mut cudnnRNNClipMode_t,
    clipNanOpt: *mut cudnnNanPropagation_t,
    lclip: *mut f64,
    rclip: *mut f64,
) -> cudnnStatus_t {
    entry_point!(cudnnRNNGetClip(handle, rnnDesc, clipMode, clipNanOpt, lclip, rclip), || {
        context::check(handle)?;
        // SAFETY: as the caller promises, for all of them.
        unsafe { rnn::get_clip(rnnDesc, clipMode, clipNanOpt, lclip, rclip) }
    })
}

/// Sets the sizes, cell and algorithm of a recurrent network. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetRNNDescriptor_v6(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    hiddenSize: c_int,
    numLayers: c_int,
    dropoutDesc: cudnnDropoutDescriptor_t,
    inputMode: MaybeUninit<cudnnRNNInputMode_t>,
    direction: MaybeUninit<cudnnDirectionMode_t>,
    cellMode: MaybeUninit<cudnnRNNMode_t>,
    algo: MaybeUninit<cudnnRNNAlgo_t>,
    mathPrec: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    stub_on!(cudnnSetRNNDescriptor_v6(
        handle,
        rnnDesc,
        hiddenSize,
        numLayers,
        dropoutDesc,
        inputMode,
        direction,
        cellMode,
        algo,
        mathPrec
    ))
}

/// The sizes, cell and algorithm of a recurrent network. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNDescriptor_v6(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    hiddenSize: *mut c_int,
    numLayers: *mut c_int,
    dropoutDesc: *mut cudnnDropoutDescriptor_t,
    inputMode: *mut cudnnRNNInputMode_t,
    direction: *mut cudnnDirectionMode_t,
    cellMode: *mut cudnnRNNMode_t,
    algo: *mut cudnnRNNAlgo_t,
    mathPrec: *mut cudnnDataType_t,
) -> cudnnStatus_t {
    stub_on!(cudnnGetRNNDescriptor_v6(
        handle,
        rnnDesc,
        hiddenSize,
        numLayers,
        dropoutDesc,
        inputMode,
        direction,
        cellMode,
        algo,
        mathPrec
    ))
}

/// Sets which arithmetic units a recurrent network may use. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetRNNMatrixMathType(
    rnnDesc: cudnnRNNDescriptor_t,
    mType: MaybeUninit<cudnnMathType_t>,
) -> cudnnStatus_t {
    stub!(cudnnSetRNNMatrixMathType(rnnDesc, mType))
}

/// Which arithmetic units a recurrent network may use. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNMatrixMathType(
    rnnDesc: cudnnRNNDescriptor_t,
    mType: *mut cudnnMathType_t,
) -> cudnnStatus_t {
    stub!(cudnnGetRNNMatrixMathType(rnnDesc, mType))
}

/// Sets how many bias vectors a recurrent cell has. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetRNNBiasMode(
    rnnDesc: cudnnRNNDescriptor_t,
    biasMode: MaybeUninit<cudnnRNNBiasMode_t>,
) -> cudnnStatus_t {
    stub!(cudnnSetRNNBiasMode(rnnDesc, biasMode))
}

/// How many bias vectors a recurrent cell has. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNBiasMode(
    rnnDesc: cudnnRNNDescriptor_t,
    biasMode: *mut cudnnRNNBiasMode_t,
) -> cudnnStatus_t {
    stub!(cudnnGetRNNBiasMode(rnnDesc, biasMode))
}

/// Sets the sizes that an LSTM projects its outputs to. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetRNNProjectionLayers(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    recProjSize: c_int,
    outProjSize: c_int,
) -> cudnnStatus_t {
    stub_on!(cudnnSetRNNProjectionLayers(handle, rnnDesc, recProjSize, outProjSize))
}

/// The sizes that an LSTM projects its outputs to. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNProjectionLayers(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    recProjSize: *mut c_int,
    outProjSize: *mut c_int,
) -> cudnnStatus_t {
    stub_on!(cudnnGetRNNProjectionLayers(handle, rnnDesc, recProjSize, outProjSize))
}

/// Sets whether sequences lie with padding. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetRNNPaddingMode(
    rnnDesc: cudnnRNNDescriptor_t,
    paddingMode: c_uint,
) -> cudnnStatus_t {
    stub!(cudnnSetRNNPaddingMode(rnnDesc, paddingMode))
}

/// Whether sequences lie with padding. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNPaddingMode(
    rnnDesc: cudnnRNNDescriptor_t,
    paddingMode: *mut c_uint,
) -> cudnnStatus_t {
    stub!(cudnnGetRNNPaddingMode(rnnDesc, paddingMode))
}

/// Creates a plan for a persistent recurrent network and a batch size. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreatePersistentRNNPlan(
    rnnDesc: cudnnRNNDescriptor_t,
    minibatch: c_int,
    dataType: MaybeUninit<cudnnDataType_t>,
    plan: *mut cudnnPersistentRNNPlan_t,
) -> cudnnStatus_t {
    stub!(cudnnCreatePersistentRNNPlan(rnnDesc, minibatch, dataType, plan))
}

/// Destroys a plan for a persistent recurrent network. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyPersistentRNNPlan(plan: cudnnPersistentRNNPlan_t) -> cudnnStatus_t {
    stub!(cudnnDestroyPersistentRNNPlan(plan))
}

/// Gives a plan to a recurrent network. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetPersistentRNNPlan(
    rnnDesc: cudnnRNNDescriptor_t,
    plan: cudnnPersistentRNNPlan_t,
) -> cudnnStatus_t {
    stub!(cudnnSetPersistentRNNPlan(rnnDesc, plan))
}

/// Gives an algorithm to a recurrent network. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetRNNAlgorithmDescriptor(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    algoDesc: cudnnAlgorithmDescriptor_t,
) -> cudnnStatus_t {
    stub_on!(cudnnSetRNNAlgorithmDescriptor(handle, rnnDesc, algoDesc))
}

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
