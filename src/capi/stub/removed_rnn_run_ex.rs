//! Recurrent networks as version 8 ran them, on padded batches of sequences.

use super::unsupported_on;
use crate::capi::types::{
    cudnnFilterDescriptor_t, cudnnHandle_t, cudnnRNNDataDescriptor_t, cudnnRNNDescriptor_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use std::ffi::c_void;

/// The outputs of a recurrent network on a padded batch. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNForwardInferenceEx(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    xDesc: cudnnRNNDataDescriptor_t,
    x: *const c_void,
    hxDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    cxDesc: cudnnTensorDescriptor_t,
    cx: *const c_void,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *mut c_void,
    hyDesc: cudnnTensorDescriptor_t,
    hy: *mut c_void,
    cyDesc: cudnnTensorDescriptor_t,
    cy: *mut c_void,
    kDesc: cudnnRNNDataDescriptor_t,
    keys: *const c_void,
    cDesc: cudnnRNNDataDescriptor_t,
    cAttn: *mut c_void,
    iDesc: cudnnRNNDataDescriptor_t,
    iAttn: *mut c_void,
    qDesc: cudnnRNNDataDescriptor_t,
    queries: *mut c_void,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnRNNForwardInferenceEx",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, xDesc={xDesc:p}, x={x:p}, hxDesc={hxDesc:p}, \
         hx={hx:p}, cxDesc={cxDesc:p}, cx={cx:p}, wDesc={wDesc:p}, w={w:p}, yDesc={yDesc:p}, \
         y={y:p}, hyDesc={hyDesc:p}, hy={hy:p}, cyDesc={cyDesc:p}, cy={cy:p}, kDesc={kDesc:p}, \
         keys={keys:p}, cDesc={cDesc:p}, cAttn={cAttn:p}, iDesc={iDesc:p}, iAttn={iAttn:p}, \
         qDesc={qDesc:p}, queries={queries:p}, workSpace={workSpace:p}, \
         workSpaceSizeInBytes={workSpaceSizeInBytes}"
        ),
        handle,
    )
}

/// The outputs of a recurrent network on a padded batch, and what its backward pass needs. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNForwardTrainingEx(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    xDesc: cudnnRNNDataDescriptor_t,
    x: *const c_void,
    hxDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    cxDesc: cudnnTensorDescriptor_t,
    cx: *const c_void,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *mut c_void,
    hyDesc: cudnnTensorDescriptor_t,
    hy: *mut c_void,
    cyDesc: cudnnTensorDescriptor_t,
    cy: *mut c_void,
    kDesc: cudnnRNNDataDescriptor_t,
    keys: *const c_void,
    cDesc: cudnnRNNDataDescriptor_t,
    cAttn: *mut c_void,
    iDesc: cudnnRNNDataDescriptor_t,
    iAttn: *mut c_void,
    qDesc: cudnnRNNDataDescriptor_t,
    queries: *mut c_void,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnRNNForwardTrainingEx",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, xDesc={xDesc:p}, x={x:p}, hxDesc={hxDesc:p}, \
         hx={hx:p}, cxDesc={cxDesc:p}, cx={cx:p}, wDesc={wDesc:p}, w={w:p}, yDesc={yDesc:p}, \
         y={y:p}, hyDesc={hyDesc:p}, hy={hy:p}, cyDesc={cyDesc:p}, cy={cy:p}, kDesc={kDesc:p}, \
         keys={keys:p}, cDesc={cDesc:p}, cAttn={cAttn:p}, iDesc={iDesc:p}, iAttn={iAttn:p}, \
         qDesc={qDesc:p}, queries={queries:p}, workSpace={workSpace:p}, \
         workSpaceSizeInBytes={workSpaceSizeInBytes}, reserveSpace={reserveSpace:p}, \
         reserveSpaceSizeInBytes={reserveSpaceSizeInBytes}"
        ),
        handle,
    )
}

/// Gradients of a recurrent network on a padded batch by its inputs and states. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNBackwardDataEx(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *const c_void,
    dyDesc: cudnnRNNDataDescriptor_t,
    dy: *const c_void,
    dcDesc: cudnnRNNDataDescriptor_t,
    dcAttn: *const c_void,
    dhyDesc: cudnnTensorDescriptor_t,
    dhy: *const c_void,
    dcyDesc: cudnnTensorDescriptor_t,
    dcy: *const c_void,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    hxDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    cxDesc: cudnnTensorDescriptor_t,
    cx: *const c_void,
    dxDesc: cudnnRNNDataDescriptor_t,
    dx: *mut c_void,
    dhxDesc: cudnnTensorDescriptor_t,
    dhx: *mut c_void,
    dcxDesc: cudnnTensorDescriptor_t,
    dcx: *mut c_void,
    dkDesc: cudnnRNNDataDescriptor_t,
    dkeys: *mut c_void,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnRNNBackwardDataEx",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, yDesc={yDesc:p}, y={y:p}, dyDesc={dyDesc:p}, \
         dy={dy:p}, dcDesc={dcDesc:p}, dcAttn={dcAttn:p}, dhyDesc={dhyDesc:p}, dhy={dhy:p}, \
         dcyDesc={dcyDesc:p}, dcy={dcy:p}, wDesc={wDesc:p}, w={w:p}, hxDesc={hxDesc:p}, \
         hx={hx:p}, cxDesc={cxDesc:p}, cx={cx:p}, dxDesc={dxDesc:p}, dx={dx:p}, \
         dhxDesc={dhxDesc:p}, dhx={dhx:p}, dcxDesc={dcxDesc:p}, dcx={dcx:p}, dkDesc={dkDesc:p}, \
         dkeys={dkeys:p}, workSpace={workSpace:p}, workSpaceSizeInBytes={workSpaceSizeInBytes}, \
         reserveSpace={reserveSpace:p}, reserveSpaceSizeInBytes={reserveSpaceSizeInBytes}"
        ),
        handle,
    )
}

/// Gradients of a recurrent network on a padded batch by its weights. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNBackwardWeightsEx(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    xDesc: cudnnRNNDataDescriptor_t,
    x: *const c_void,
    hxDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *const c_void,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    dwDesc: cudnnFilterDescriptor_t,
    dw: *mut c_void,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnRNNBackwardWeightsEx",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, xDesc={xDesc:p}, x={x:p}, hxDesc={hxDesc:p}, \
         hx={hx:p}, yDesc={yDesc:p}, y={y:p}, workSpace={workSpace:p}, \
         workSpaceSizeInBytes={workSpaceSizeInBytes}, dwDesc={dwDesc:p}, dw={dw:p}, \
         reserveSpace={reserveSpace:p}, reserveSpaceSizeInBytes={reserveSpaceSizeInBytes}"
        ),
        handle,
    )
}
