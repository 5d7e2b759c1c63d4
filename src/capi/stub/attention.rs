//! Sequence data and multi-head attention.

use super::{unsupported, unsupported_on};
use crate::capi::types::{
    cudnnAttnDescriptor_t, cudnnDataType_t, cudnnDropoutDescriptor_t, cudnnHandle_t, cudnnMathType_t,
    cudnnMultiHeadAttnWeightKind_t, cudnnSeqDataAxis_t, cudnnSeqDataDescriptor_t, cudnnStatus_t,
    cudnnTensorDescriptor_t, cudnnWgradMode_t,
};
use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;

/// Creates the descriptor of sequence data. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateSeqDataDescriptor(
    seqDataDesc: *mut cudnnSeqDataDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnCreateSeqDataDescriptor")
}

/// Destroys the descriptor of sequence data. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroySeqDataDescriptor(
    seqDataDesc: cudnnSeqDataDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnDestroySeqDataDescriptor")
}

/// Sets type, axes and lengths of sequence data. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetSeqDataDescriptor(
    seqDataDesc: cudnnSeqDataDescriptor_t,
    dataType: MaybeUninit<cudnnDataType_t>,
    nbDims: c_int,
    dimA: *const c_int,
    axes: *const MaybeUninit<cudnnSeqDataAxis_t>,
    seqLengthArraySize: usize,
    seqLengthArray: *const c_int,
    paddingFill: *mut c_void,
) -> cudnnStatus_t {
    unsupported("cudnnSetSeqDataDescriptor")
}

/// Type, axes and lengths of sequence data. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetSeqDataDescriptor(
    seqDataDesc: cudnnSeqDataDescriptor_t,
    dataType: *mut cudnnDataType_t,
    nbDims: *mut c_int,
    nbDimsRequested: c_int,
    dimA: *mut c_int,
    axes: *mut cudnnSeqDataAxis_t,
    seqLengthArraySize: *mut usize,
    seqLengthSizeRequested: usize,
    seqLengthArray: *mut c_int,
    paddingFill: *mut c_void,
) -> cudnnStatus_t {
    unsupported("cudnnGetSeqDataDescriptor")
}

/// Creates the descriptor of a multi-head attention. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateAttnDescriptor(attnDesc: *mut cudnnAttnDescriptor_t) -> cudnnStatus_t {
    unsupported("cudnnCreateAttnDescriptor")
}

/// Destroys the descriptor of a multi-head attention. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyAttnDescriptor(attnDesc: cudnnAttnDescriptor_t) -> cudnnStatus_t {
    unsupported("cudnnDestroyAttnDescriptor")
}

/// Sets heads, sizes and types of a multi-head attention. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetAttnDescriptor(
    attnDesc: cudnnAttnDescriptor_t,
    attnMode: c_uint,
    nHeads: c_int,
    smScaler: f64,
    dataType: MaybeUninit<cudnnDataType_t>,
    computePrec: MaybeUninit<cudnnDataType_t>,
    mathType: MaybeUninit<cudnnMathType_t>,
    attnDropoutDesc: cudnnDropoutDescriptor_t,
    postDropoutDesc: cudnnDropoutDescriptor_t,
    qSize: c_int,
    kSize: c_int,
    vSize: c_int,
    qProjSize: c_int,
    kProjSize: c_int,
    vProjSize: c_int,
    oProjSize: c_int,
    qoMaxSeqLength: c_int,
    kvMaxSeqLength: c_int,
    maxBatchSize: c_int,
    maxBeamSize: c_int,
) -> cudnnStatus_t {
    unsupported("cudnnSetAttnDescriptor")
}

/// Heads, sizes and types of a multi-head attention. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetAttnDescriptor(
    attnDesc: cudnnAttnDescriptor_t,
    attnMode: *mut c_uint,
    nHeads: *mut c_int,
    smScaler: *mut f64,
    dataType: *mut cudnnDataType_t,
    computePrec: *mut cudnnDataType_t,
    mathType: *mut cudnnMathType_t,
    attnDropoutDesc: *mut cudnnDropoutDescriptor_t,
    postDropoutDesc: *mut cudnnDropoutDescriptor_t,
    qSize: *mut c_int,
    kSize: *mut c_int,
    vSize: *mut c_int,
    qProjSize: *mut c_int,
    kProjSize: *mut c_int,
    vProjSize: *mut c_int,
    oProjSize: *mut c_int,
    qoMaxSeqLength: *mut c_int,
    kvMaxSeqLength: *mut c_int,
    maxBatchSize: *mut c_int,
    maxBeamSize: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetAttnDescriptor")
}

/// Bytes of weights, workspace and reserve space of a multi-head attention. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetMultiHeadAttnBuffers(
    handle: cudnnHandle_t,
    attnDesc: cudnnAttnDescriptor_t,
    weightSizeInBytes: *mut usize,
    workSpaceSizeInBytes: *mut usize,
    reserveSpaceSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetMultiHeadAttnBuffers", handle)
}

/// Where one group of weights lies in the weight buffer. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetMultiHeadAttnWeights(
    handle: cudnnHandle_t,
    attnDesc: cudnnAttnDescriptor_t,
    wKind: MaybeUninit<cudnnMultiHeadAttnWeightKind_t>,
    weightSizeInBytes: usize,
    weights: *const c_void,
    wDesc: cudnnTensorDescriptor_t,
    wAddr: *mut *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetMultiHeadAttnWeights", handle)
}

/// `out = sum over heads of W_o * softmax(scale * Q K^T) V`, with residuals. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnMultiHeadAttnForward(
    handle: cudnnHandle_t,
    attnDesc: cudnnAttnDescriptor_t,
    currIdx: c_int,
    loWinIdx: *const c_int,
    hiWinIdx: *const c_int,
    devSeqLengthsQO: *const c_int,
    devSeqLengthsKV: *const c_int,
    qDesc: cudnnSeqDataDescriptor_t,
    queries: *const c_void,
    residuals: *const c_void,
    kDesc: cudnnSeqDataDescriptor_t,
    keys: *const c_void,
    vDesc: cudnnSeqDataDescriptor_t,
    values: *const c_void,
    oDesc: cudnnSeqDataDescriptor_t,
    out: *mut c_void,
    weightSizeInBytes: usize,
    weights: *const c_void,
    workSpaceSizeInBytes: usize,
    workSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnMultiHeadAttnForward", handle)
}

/// Gradients of multi-head attention by queries, keys and values. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnMultiHeadAttnBackwardData(
    handle: cudnnHandle_t,
    attnDesc: cudnnAttnDescriptor_t,
    loWinIdx: *const c_int,
    hiWinIdx: *const c_int,
    devSeqLengthsDQDO: *const c_int,
    devSeqLengthsDKDV: *const c_int,
    doDesc: cudnnSeqDataDescriptor_t,
    dout: *const c_void,
    dqDesc: cudnnSeqDataDescriptor_t,
    dqueries: *mut c_void,
    queries: *const c_void,
    dkDesc: cudnnSeqDataDescriptor_t,
    dkeys: *mut c_void,
    keys: *const c_void,
    dvDesc: cudnnSeqDataDescriptor_t,
    dvalues: *mut c_void,
    values: *const c_void,
    weightSizeInBytes: usize,
    weights: *const c_void,
    workSpaceSizeInBytes: usize,
    workSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnMultiHeadAttnBackwardData", handle)
}

/// Gradients of multi-head attention by its weights. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnMultiHeadAttnBackwardWeights(
    handle: cudnnHandle_t,
    attnDesc: cudnnAttnDescriptor_t,
    addGrad: MaybeUninit<cudnnWgradMode_t>,
    qDesc: cudnnSeqDataDescriptor_t,
    queries: *const c_void,
    kDesc: cudnnSeqDataDescriptor_t,
    keys: *const c_void,
    vDesc: cudnnSeqDataDescriptor_t,
    values: *const c_void,
    doDesc: cudnnSeqDataDescriptor_t,
    dout: *const c_void,
    weightSizeInBytes: usize,
    weights: *const c_void,
    dweights: *mut c_void,
    workSpaceSizeInBytes: usize,
    workSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnMultiHeadAttnBackwardWeights", handle)
}
