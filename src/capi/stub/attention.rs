//! Sequence data and multi-head attention.

use super::stub_on;
use crate::capi::types::{
    cudnnAttnDescriptor_t, cudnnHandle_t, cudnnMultiHeadAttnWeightKind_t, cudnnSeqDataDescriptor_t,
    cudnnStatus_t, cudnnTensorDescriptor_t, cudnnWgradMode_t,
};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

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
    stub_on!(cudnnGetMultiHeadAttnBuffers(
        handle,
        attnDesc,
        weightSizeInBytes,
        workSpaceSizeInBytes,
        reserveSpaceSizeInBytes
    ))
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
    stub_on!(cudnnGetMultiHeadAttnWeights(handle, attnDesc, wKind, weightSizeInBytes, weights, wDesc, wAddr))
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
    stub_on!(cudnnMultiHeadAttnForward(
        handle,
        attnDesc,
        currIdx,
        loWinIdx,
        hiWinIdx,
        devSeqLengthsQO,
        devSeqLengthsKV,
        qDesc,
        queries,
        residuals,
        kDesc,
        keys,
        vDesc,
        values,
        oDesc,
        out,
        weightSizeInBytes,
        weights,
        workSpaceSizeInBytes,
        workSpace,
        reserveSpaceSizeInBytes,
        reserveSpace
    ))
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
    stub_on!(cudnnMultiHeadAttnBackwardData(
        handle,
        attnDesc,
        loWinIdx,
        hiWinIdx,
        devSeqLengthsDQDO,
        devSeqLengthsDKDV,
        doDesc,
        dout,
        dqDesc,
        dqueries,
        queries,
        dkDesc,
        dkeys,
        keys,
        dvDesc,
        dvalues,
        values,
        weightSizeInBytes,
        weights,
        workSpaceSizeInBytes,
        workSpace,
        reserveSpaceSizeInBytes,
        reserveSpace
    ))
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
    stub_on!(cudnnMultiHeadAttnBackwardWeights(
        handle,
        attnDesc,
        addGrad,
        qDesc,
        queries,
        kDesc,
        keys,
        vDesc,
        values,
        doDesc,
        dout,
        weightSizeInBytes,
        weights,
        dweights,
        workSpaceSizeInBytes,
        workSpace,
        reserveSpaceSizeInBytes,
        reserveSpace
    ))
}
