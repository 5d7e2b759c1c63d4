//! Searches of version 8 for the algorithm of a recurrent network.

use std::ffi::{c_int, c_void};

use super::guard::stub_on;
use super::types::{
    cudnnAlgorithmPerformance_t, cudnnFilterDescriptor_t, cudnnHandle_t, cudnnRNNDescriptor_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};

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
    stub_on!(cudnnGetRNNForwardInferenceAlgorithmMaxCount(handle, rnnDesc, count))
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
    stub_on!(cudnnFindRNNForwardInferenceAlgorithmEx(
        handle,
        rnnDesc,
        seqLength,
        xDesc,
        x,
        hxDesc,
        hx,
        cxDesc,
        cx,
        wDesc,
        w,
        yDesc,
        y,
        hyDesc,
        hy,
        cyDesc,
        cy,
        findIntensity,
        requestedAlgoCount,
        returnedAlgoCount,
        perfResults,
        workspace,
        workSpaceSizeInBytes
    ))
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
    stub_on!(cudnnGetRNNForwardTrainingAlgorithmMaxCount(handle, rnnDesc, count))
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
    stub_on!(cudnnFindRNNForwardTrainingAlgorithmEx(
        handle,
        rnnDesc,
        seqLength,
        xDesc,
        x,
        hxDesc,
        hx,
        cxDesc,
        cx,
        wDesc,
        w,
        yDesc,
        y,
        hyDesc,
        hy,
        cyDesc,
        cy,
        findIntensity,
        requestedAlgoCount,
        returnedAlgoCount,
        perfResults,
        workspace,
        workSpaceSizeInBytes,
        reserveSpace,
        reserveSpaceSizeInBytes
    ))
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
    stub_on!(cudnnGetRNNBackwardDataAlgorithmMaxCount(handle, rnnDesc, count))
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
    stub_on!(cudnnFindRNNBackwardDataAlgorithmEx(
        handle,
        rnnDesc,
        seqLength,
        yDesc,
        y,
        dyDesc,
        dy,
        dhyDesc,
        dhy,
        dcyDesc,
        dcy,
        wDesc,
        w,
        hxDesc,
        hx,
        cxDesc,
        cx,
        dxDesc,
        dx,
        dhxDesc,
        dhx,
        dcxDesc,
        dcx,
        findIntensity,
        requestedAlgoCount,
        returnedAlgoCount,
        perfResults,
        workspace,
        workSpaceSizeInBytes,
        reserveSpace,
        reserveSpaceSizeInBytes
    ))
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
    stub_on!(cudnnGetRNNBackwardWeightsAlgorithmMaxCount(handle, rnnDesc, count))
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
    stub_on!(cudnnFindRNNBackwardWeightsAlgorithmEx(
        handle,
        rnnDesc,
        seqLength,
        xDesc,
        x,
        hxDesc,
        hx,
        yDesc,
        y,
        findIntensity,
        requestedAlgoCount,
        returnedAlgoCount,
        perfResults,
        workspace,
        workSpaceSizeInBytes,
        dwDesc,
        dw,
        reserveSpace,
        reserveSpaceSizeInBytes
    ))
}
