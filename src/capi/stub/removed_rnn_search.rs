//! Searches of version 8 for the algorithm of a recurrent network.

use super::unsupported_on;
use crate::capi::types::{
    cudnnAlgorithmPerformance_t, cudnnFilterDescriptor_t, cudnnHandle_t, cudnnRNNDescriptor_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use std::ffi::{c_int, c_void};

/// The most results that a search for inference algorithms gives. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNForwardInferenceAlgorithmMaxCount(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    count: *mut c_int,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnGetRNNForwardInferenceAlgorithmMaxCount",
        format_args!("handle={handle:p}, rnnDesc={rnnDesc:p}, count={count:p}"),
        handle,
    )
}

/// Inference algorithms, ranked by measuring them. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindRNNForwardInferenceAlgorithmEx(
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
    findIntensity: f32,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnAlgorithmPerformance_t,
    workspace: *mut c_void,
    workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnFindRNNForwardInferenceAlgorithmEx",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, seqLength={seqLength}, xDesc={xDesc:p}, \
         x={x:p}, hxDesc={hxDesc:p}, hx={hx:p}, cxDesc={cxDesc:p}, cx={cx:p}, wDesc={wDesc:p}, \
         w={w:p}, yDesc={yDesc:p}, y={y:p}, hyDesc={hyDesc:p}, hy={hy:p}, cyDesc={cyDesc:p}, \
         cy={cy:p}, findIntensity={findIntensity}, requestedAlgoCount={requestedAlgoCount}, \
         returnedAlgoCount={returnedAlgoCount:p}, perfResults={perfResults:p}, \
         workspace={workspace:p}, workSpaceSizeInBytes={workSpaceSizeInBytes}"
        ),
        handle,
    )
}

/// The most results that a search for training algorithms gives. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNForwardTrainingAlgorithmMaxCount(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    count: *mut c_int,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnGetRNNForwardTrainingAlgorithmMaxCount",
        format_args!("handle={handle:p}, rnnDesc={rnnDesc:p}, count={count:p}"),
        handle,
    )
}

/// Training algorithms, ranked by measuring them. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindRNNForwardTrainingAlgorithmEx(
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
    findIntensity: f32,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnAlgorithmPerformance_t,
    workspace: *mut c_void,
    workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnFindRNNForwardTrainingAlgorithmEx",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, seqLength={seqLength}, xDesc={xDesc:p}, \
         x={x:p}, hxDesc={hxDesc:p}, hx={hx:p}, cxDesc={cxDesc:p}, cx={cx:p}, wDesc={wDesc:p}, \
         w={w:p}, yDesc={yDesc:p}, y={y:p}, hyDesc={hyDesc:p}, hy={hy:p}, cyDesc={cyDesc:p}, \
         cy={cy:p}, findIntensity={findIntensity}, requestedAlgoCount={requestedAlgoCount}, \
         returnedAlgoCount={returnedAlgoCount:p}, perfResults={perfResults:p}, \
         workspace={workspace:p}, workSpaceSizeInBytes={workSpaceSizeInBytes}, \
         reserveSpace={reserveSpace:p}, reserveSpaceSizeInBytes={reserveSpaceSizeInBytes}"
        ),
        handle,
    )
}

/// The most results that a search for data gradient algorithms of recurrent networks gives. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNBackwardDataAlgorithmMaxCount(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    count: *mut c_int,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnGetRNNBackwardDataAlgorithmMaxCount",
        format_args!("handle={handle:p}, rnnDesc={rnnDesc:p}, count={count:p}"),
        handle,
    )
}

/// Data gradient algorithms of recurrent networks, ranked by measuring them. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindRNNBackwardDataAlgorithmEx(
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
    findIntensity: f32,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnAlgorithmPerformance_t,
    workspace: *mut c_void,
    workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnFindRNNBackwardDataAlgorithmEx",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, seqLength={seqLength}, yDesc={yDesc:p}, \
         y={y:p}, dyDesc={dyDesc:p}, dy={dy:p}, dhyDesc={dhyDesc:p}, dhy={dhy:p}, \
         dcyDesc={dcyDesc:p}, dcy={dcy:p}, wDesc={wDesc:p}, w={w:p}, hxDesc={hxDesc:p}, \
         hx={hx:p}, cxDesc={cxDesc:p}, cx={cx:p}, dxDesc={dxDesc:p}, dx={dx:p}, \
         dhxDesc={dhxDesc:p}, dhx={dhx:p}, dcxDesc={dcxDesc:p}, dcx={dcx:p}, \
         findIntensity={findIntensity}, requestedAlgoCount={requestedAlgoCount}, \
         returnedAlgoCount={returnedAlgoCount:p}, perfResults={perfResults:p}, \
         workspace={workspace:p}, workSpaceSizeInBytes={workSpaceSizeInBytes}, \
         reserveSpace={reserveSpace:p}, reserveSpaceSizeInBytes={reserveSpaceSizeInBytes}"
        ),
        handle,
    )
}

/// The most results that a search for weight gradient algorithms gives. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNBackwardWeightsAlgorithmMaxCount(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    count: *mut c_int,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnGetRNNBackwardWeightsAlgorithmMaxCount",
        format_args!("handle={handle:p}, rnnDesc={rnnDesc:p}, count={count:p}"),
        handle,
    )
}

/// Weight gradient algorithms of recurrent networks, ranked by measuring them. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindRNNBackwardWeightsAlgorithmEx(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    seqLength: c_int,
    xDesc: *const cudnnTensorDescriptor_t,
    x: *const c_void,
    hxDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    yDesc: *const cudnnTensorDescriptor_t,
    y: *const c_void,
    findIntensity: f32,
    requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnAlgorithmPerformance_t,
    workspace: *const c_void,
    workSpaceSizeInBytes: usize,
    dwDesc: cudnnFilterDescriptor_t,
    dw: *mut c_void,
    reserveSpace: *const c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnFindRNNBackwardWeightsAlgorithmEx",
        format_args!(
            "handle={handle:p}, rnnDesc={rnnDesc:p}, seqLength={seqLength}, xDesc={xDesc:p}, \
         x={x:p}, hxDesc={hxDesc:p}, hx={hx:p}, yDesc={yDesc:p}, y={y:p}, \
         findIntensity={findIntensity}, requestedAlgoCount={requestedAlgoCount}, \
         returnedAlgoCount={returnedAlgoCount:p}, perfResults={perfResults:p}, \
         workspace={workspace:p}, workSpaceSizeInBytes={workSpaceSizeInBytes}, \
         dwDesc={dwDesc:p}, dw={dw:p}, reserveSpace={reserveSpace:p}, \
         reserveSpaceSizeInBytes={reserveSpaceSizeInBytes}"
        ),
        handle,
    )
}
