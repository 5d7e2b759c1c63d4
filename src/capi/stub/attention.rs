//! Sequence data and multi-head attention.

use super::unsupported_on;
use crate::capi::types::{
    cudnnAttnDescriptor_t, cudnnHandle_t, cudnnMultiHeadAttnWeightKind_t, cudnnSeqDataDescriptor_t,
    cudnnStatus_t, cudnnTensorDescriptor_t, cudnnWgradMode_t, raw,
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
    unsupported_on(
        "cudnnGetMultiHeadAttnBuffers",
        format_args!(
            "handle={handle:p}, attnDesc={attnDesc:p}, weightSizeInBytes={weightSizeInBytes:p}, \
         workSpaceSizeInBytes={workSpaceSizeInBytes:p}, \
         reserveSpaceSizeInBytes={reserveSpaceSizeInBytes:p}"
        ),
        handle,
    )
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
    unsupported_on(
        "cudnnGetMultiHeadAttnWeights",
        format_args!(
            "handle={handle:p}, attnDesc={attnDesc:p}, wKind={}, \
         weightSizeInBytes={weightSizeInBytes}, weights={weights:p}, wDesc={wDesc:p}, \
         wAddr={wAddr:p}",
            raw(wKind)
        ),
        handle,
    )
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
    unsupported_on(
        "cudnnMultiHeadAttnForward",
        format_args!(
            "handle={handle:p}, attnDesc={attnDesc:p}, currIdx={currIdx}, loWinIdx={loWinIdx:p}, \
         hiWinIdx={hiWinIdx:p}, devSeqLengthsQO={devSeqLengthsQO:p}, \
         devSeqLengthsKV={devSeqLengthsKV:p}, qDesc={qDesc:p}, queries={queries:p}, \
         residuals={residuals:p}, kDesc={kDesc:p}, keys={keys:p}, vDesc={vDesc:p}, \
         values={values:p}, oDesc={oDesc:p}, out={out:p}, weightSizeInBytes={weightSizeInBytes}, \
         weights={weights:p}, workSpaceSizeInBytes={workSpaceSizeInBytes}, \
         workSpace={workSpace:p}, reserveSpaceSizeInBytes={reserveSpaceSizeInBytes}, \
         reserveSpace={reserveSpace:p}"
        ),
        handle,
    )
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
    unsupported_on(
        "cudnnMultiHeadAttnBackwardData",
        format_args!(
            "handle={handle:p}, attnDesc={attnDesc:p}, loWinIdx={loWinIdx:p}, hiWinIdx={hiWinIdx:p}, \
         devSeqLengthsDQDO={devSeqLengthsDQDO:p}, devSeqLengthsDKDV={devSeqLengthsDKDV:p}, \
         doDesc={doDesc:p}, dout={dout:p}, dqDesc={dqDesc:p}, dqueries={dqueries:p}, \
         queries={queries:p}, dkDesc={dkDesc:p}, dkeys={dkeys:p}, keys={keys:p}, \
         dvDesc={dvDesc:p}, dvalues={dvalues:p}, values={values:p}, \
         weightSizeInBytes={weightSizeInBytes}, weights={weights:p}, \
         workSpaceSizeInBytes={workSpaceSizeInBytes}, workSpace={workSpace:p}, \
         reserveSpaceSizeInBytes={reserveSpaceSizeInBytes}, reserveSpace={reserveSpace:p}"
        ),
        handle,
    )
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
    unsupported_on(
        "cudnnMultiHeadAttnBackwardWeights",
        format_args!(
            "handle={handle:p}, attnDesc={attnDesc:p}, addGrad={}, qDesc={qDesc:p}, \
         queries={queries:p}, kDesc={kDesc:p}, keys={keys:p}, vDesc={vDesc:p}, \
         values={values:p}, doDesc={doDesc:p}, dout={dout:p}, \
         weightSizeInBytes={weightSizeInBytes}, weights={weights:p}, dweights={dweights:p}, \
         workSpaceSizeInBytes={workSpaceSizeInBytes}, workSpace={workSpace:p}, \
         reserveSpaceSizeInBytes={reserveSpaceSizeInBytes}, reserveSpace={reserveSpace:p}",
            raw(addGrad)
        ),
        handle,
    )
}
