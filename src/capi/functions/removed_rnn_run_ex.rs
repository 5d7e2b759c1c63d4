//! Recurrent networks as version 8 ran them, on padded batches of sequences.

use std::ffi::c_void;

use super::guard::stub_on;
use super::types::{
    cudnnFilterDescriptor_t, cudnnHandle_t, cudnnRNNDataDescriptor_t, cudnnRNNDescriptor_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};

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
    stub_on!(cudnnRNNForwardInferenceEx(
        handle,
        rnnDesc,
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
        kDesc,
        keys,
        cDesc,
        cAttn,
        iDesc,
        iAttn,
        qDesc,
        queries,
        workSpace,
        workSpaceSizeInBytes
    ))
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
    stub_on!(cudnnRNNForwardTrainingEx(
        handle,
        rnnDesc,
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
        kDesc,
        keys,
        cDesc,
        cAttn,
        iDesc,
        iAttn,
        qDesc,
        queries,
        workSpace,
        workSpaceSizeInBytes,
        reserveSpace,
        reserveSpaceSizeInBytes
    ))
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
    stub_on!(cudnnRNNBackwardDataEx(
        handle,
        rnnDesc,
        yDesc,
        y,
        dyDesc,
        dy,
        dcDesc,
        dcAttn,
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
        dkDesc,
        dkeys,
        workSpace,
        workSpaceSizeInBytes,
        reserveSpace,
        reserveSpaceSizeInBytes
    ))
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
    stub_on!(cudnnRNNBackwardWeightsEx(
        handle,
        rnnDesc,
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
