//! Recurrent networks as version 8 described them: the descriptor's parts, sizes, places of weights.

use super::{unsupported, unsupported_on};
use crate::capi::types::{
    cudnnAlgorithmDescriptor_t, cudnnDataType_t, cudnnDirectionMode_t, cudnnDropoutDescriptor_t,
    cudnnFilterDescriptor_t, cudnnHandle_t, cudnnMathType_t, cudnnPersistentRNNPlan_t, cudnnRNNAlgo_t,
    cudnnRNNBiasMode_t, cudnnRNNDescriptor_t, cudnnRNNInputMode_t, cudnnRNNMode_t, cudnnStatus_t,
    cudnnTensorDescriptor_t, raw,
};
use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;

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
    unsupported_on(
        "cudnnSetRNNDescriptor_v6",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, hiddenSize={hiddenSize}, numLayers={numLayers}, \
         dropoutDesc={dropoutDesc:p}, inputMode={}, direction={}, cellMode={}, algo={}, \
         mathPrec={}",
            raw(inputMode),
            raw(direction),
            raw(cellMode),
            raw(algo),
            raw(mathPrec)
        ),
        handle,
    )
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
    unsupported_on(
        "cudnnGetRNNDescriptor_v6",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, hiddenSize={hiddenSize:p}, \
         numLayers={numLayers:p}, dropoutDesc={dropoutDesc:p}, inputMode={inputMode:p}, \
         direction={direction:p}, cellMode={cellMode:p}, algo={algo:p}, mathPrec={mathPrec:p}"
        ),
        handle,
    )
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
    unsupported("cudnnSetRNNMatrixMathType", format_args!("rnnDesc={rnnDesc:p}, mType={}", raw(mType)))
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
    unsupported("cudnnGetRNNMatrixMathType", format_args!("rnnDesc={rnnDesc:p}, mType={mType:p}"))
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
    unsupported("cudnnSetRNNBiasMode", format_args!("rnnDesc={rnnDesc:p}, biasMode={}", raw(biasMode)))
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
    unsupported("cudnnGetRNNBiasMode", format_args!("rnnDesc={rnnDesc:p}, biasMode={biasMode:p}"))
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
    unsupported_on(
        "cudnnSetRNNProjectionLayers",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, recProjSize={recProjSize}, \
         outProjSize={outProjSize}"
        ),
        handle,
    )
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
    unsupported_on(
        "cudnnGetRNNProjectionLayers",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, recProjSize={recProjSize:p}, \
         outProjSize={outProjSize:p}"
        ),
        handle,
    )
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
    unsupported("cudnnSetRNNPaddingMode", format_args!("rnnDesc={rnnDesc:p}, paddingMode={paddingMode}"))
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
    unsupported("cudnnGetRNNPaddingMode", format_args!("rnnDesc={rnnDesc:p}, paddingMode={paddingMode:p}"))
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
    unsupported(
        "cudnnCreatePersistentRNNPlan",
        format_args!("rnnDesc={rnnDesc:p}, minibatch={minibatch}, dataType={}, plan={plan:p}", raw(dataType)),
    )
}

/// Destroys a plan for a persistent recurrent network. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyPersistentRNNPlan(plan: cudnnPersistentRNNPlan_t) -> cudnnStatus_t {
    unsupported("cudnnDestroyPersistentRNNPlan", format_args!("plan={plan:p}"))
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
    unsupported("cudnnSetPersistentRNNPlan", format_args!("rnnDesc={rnnDesc:p}, plan={plan:p}"))
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
    unsupported_on(
        "cudnnSetRNNAlgorithmDescriptor",
        format_args!("handle={handle:p}, rnnDesc={rnnDesc:p}, algoDesc={algoDesc:p}"),
        handle,
    )
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
    unsupported_on(
        "cudnnGetRNNWorkspaceSize",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, seqLength={seqLength}, xDesc={xDesc:p}, \
         sizeInBytes={sizeInBytes:p}"
        ),
        handle,
    )
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
    unsupported_on(
        "cudnnGetRNNTrainingReserveSize",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, seqLength={seqLength}, xDesc={xDesc:p}, \
         sizeInBytes={sizeInBytes:p}"
        ),
        handle,
    )
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
    unsupported_on(
        "cudnnGetRNNParamsSize",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, xDesc={xDesc:p}, sizeInBytes={sizeInBytes:p}, \
         dataType={}",
            raw(dataType)
        ),
        handle,
    )
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
    unsupported_on(
        "cudnnGetRNNLinLayerMatrixParams",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, pseudoLayer={pseudoLayer}, xDesc={xDesc:p}, \
         wDesc={wDesc:p}, w={w:p}, linLayerID={linLayerID}, linLayerMatDesc={linLayerMatDesc:p}, \
         linLayerMat={linLayerMat:p}"
        ),
        handle,
    )
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
    unsupported_on(
        "cudnnGetRNNLinLayerBiasParams",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, pseudoLayer={pseudoLayer}, xDesc={xDesc:p}, \
         wDesc={wDesc:p}, w={w:p}, linLayerID={linLayerID}, \
         linLayerBiasDesc={linLayerBiasDesc:p}, linLayerBias={linLayerBias:p}"
        ),
        handle,
    )
}
