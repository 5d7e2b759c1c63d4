//! Recurrent networks as version 8 ran them, on one tensor descriptor per step.

use super::unsupported_on;
use crate::capi::types::{
    cudnnFilterDescriptor_t, cudnnHandle_t, cudnnRNNDescriptor_t, cudnnStatus_t, cudnnTensorDescriptor_t,
};
use std::ffi::{c_int, c_void};

/// The outputs of a recurrent network. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNForwardInference(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    seqLength: c_int,
    xDesc: *const cudnnTensorDescriptor_t,
    x: *const c_void,
    hxDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    cxDesc: cudnnTensorDescriptor_t,
    cx: *const c_void,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    yDesc: *const cudnnTensorDescriptor_t,
    y: *mut c_void,
    hyDesc: cudnnTensorDescriptor_t,
    hy: *mut c_void,
    cyDesc: cudnnTensorDescriptor_t,
    cy: *mut c_void,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnRNNForwardInference",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, seqLength={seqLength}, xDesc={xDesc:p}, \
         x={x:p}, hxDesc={hxDesc:p}, hx={hx:p}, cxDesc={cxDesc:p}, cx={cx:p}, wDesc={wDesc:p}, \
         w={w:p}, yDesc={yDesc:p}, y={y:p}, hyDesc={hyDesc:p}, hy={hy:p}, cyDesc={cyDesc:p}, \
         cy={cy:p}, workSpace={workSpace:p}, workSpaceSizeInBytes={workSpaceSizeInBytes}"
        ),
        handle,
    )
}

/// The outputs of a recurrent network, and what its backward pass needs. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNForwardTraining(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    seqLength: c_int,
    xDesc: *const cudnnTensorDescriptor_t,
    x: *const c_void,
    hxDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    cxDesc: cudnnTensorDescriptor_t,
    cx: *const c_void,
    wDesc: cudnnFilterDescriptor_t,
    w: *const c_void,
    yDesc: *const cudnnTensorDescriptor_t,
    y: *mut c_void,
    hyDesc: cudnnTensorDescriptor_t,
    hy: *mut c_void,
    cyDesc: cudnnTensorDescriptor_t,
    cy: *mut c_void,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnRNNForwardTraining",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, seqLength={seqLength}, xDesc={xDesc:p}, \
         x={x:p}, hxDesc={hxDesc:p}, hx={hx:p}, cxDesc={cxDesc:p}, cx={cx:p}, wDesc={wDesc:p}, \
         w={w:p}, yDesc={yDesc:p}, y={y:p}, hyDesc={hyDesc:p}, hy={hy:p}, cyDesc={cyDesc:p}, \
         cy={cy:p}, workSpace={workSpace:p}, workSpaceSizeInBytes={workSpaceSizeInBytes}, \
         reserveSpace={reserveSpace:p}, reserveSpaceSizeInBytes={reserveSpaceSizeInBytes}"
        ),
        handle,
    )
}

/// Gradients of a recurrent network by its inputs and states. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNBackwardData(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    seqLength: c_int,
    yDesc: *const cudnnTensorDescriptor_t,
    y: *const c_void,
    dyDesc: *const cudnnTensorDescriptor_t,
    dy: *const c_void,
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
    dxDesc: *const cudnnTensorDescriptor_t,
    dx: *mut c_void,
    dhxDesc: cudnnTensorDescriptor_t,
    dhx: *mut c_void,
    dcxDesc: cudnnTensorDescriptor_t,
    dcx: *mut c_void,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnRNNBackwardData",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, seqLength={seqLength}, yDesc={yDesc:p}, \
         y={y:p}, dyDesc={dyDesc:p}, dy={dy:p}, dhyDesc={dhyDesc:p}, dhy={dhy:p}, \
         dcyDesc={dcyDesc:p}, dcy={dcy:p}, wDesc={wDesc:p}, w={w:p}, hxDesc={hxDesc:p}, \
         hx={hx:p}, cxDesc={cxDesc:p}, cx={cx:p}, dxDesc={dxDesc:p}, dx={dx:p}, \
         dhxDesc={dhxDesc:p}, dhx={dhx:p}, dcxDesc={dcxDesc:p}, dcx={dcx:p}, \
         workSpace={workSpace:p}, workSpaceSizeInBytes={workSpaceSizeInBytes}, \
         reserveSpace={reserveSpace:p}, reserveSpaceSizeInBytes={reserveSpaceSizeInBytes}"
        ),
        handle,
    )
}

/// Gradients of a recurrent network by its weights, added to what is there. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNBackwardWeights(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    seqLength: c_int,
    xDesc: *const cudnnTensorDescriptor_t,
    x: *const c_void,
    hxDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    yDesc: *const cudnnTensorDescriptor_t,
    y: *const c_void,
    workSpace: *const c_void,
    workSpaceSizeInBytes: usize,
    dwDesc: cudnnFilterDescriptor_t,
    dw: *mut c_void,
    reserveSpace: *const c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnRNNBackwardWeights",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, seqLength={seqLength}, xDesc={xDesc:p}, \
         x={x:p}, hxDesc={hxDesc:p}, hx={hx:p}, yDesc={yDesc:p}, y={y:p}, \
         workSpace={workSpace:p}, workSpaceSizeInBytes={workSpaceSizeInBytes}, \
         dwDesc={dwDesc:p}, dw={dw:p}, reserveSpace={reserveSpace:p}, \
         reserveSpaceSizeInBytes={reserveSpaceSizeInBytes}"
        ),
        handle,
    )
}
