//! Recurrent networks as version 8 ran them, on one tensor descriptor per step.

use std::ffi::{c_int, c_void};

use super::guard::stub_on;
use super::types::{
    cudnnFilterDescriptor_t, cudnnHandle_t, cudnnRNNDescriptor_t, cudnnStatus_t, cudnnTensorDescriptor_t,
};

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
    stub_on!(cudnnRNNForwardInference(
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
        workSpace,
        workSpaceSizeInBytes
    ))
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
    stub_on!(cudnnRNNForwardTraining(
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
        workSpace,
        workSpaceSizeInBytes,
        reserveSpace,
        reserveSpaceSizeInBytes
    ))
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
    stub_on!(cudnnRNNBackwardData(
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
        workSpace,
        workSpaceSizeInBytes,
        reserveSpace,
        reserveSpaceSizeInBytes
    ))
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
    stub_on!(cudnnRNNBackwardWeights(
        handle,
        rnnDesc,
        seqLength,
        xDesc,
        x,
        hxDesc,
        hx,
        yDesc,
        y,
        workSpace,
        workSpaceSizeInBytes,
        dwDesc,
        dw,
        reserveSpace,
        reserveSpaceSizeInBytes
    ))
}
