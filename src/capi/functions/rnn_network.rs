//! Recurrent networks on the descriptor of version 9: sizes, places of weights, forward and backward passes.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use super::guard::stub_on;
use super::types::{
    cudnnForwardMode_t, cudnnHandle_t, cudnnRNNDataDescriptor_t, cudnnRNNDescriptor_t, cudnnStatus_t,
    cudnnTensorDescriptor_t, cudnnWgradMode_t,
};

/// Builds the kernels of a persistent recurrent network for one batch size. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBuildRNNDynamic(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    miniBatch: c_int,
) -> cudnnStatus_t {
    stub_on!(cudnnBuildRNNDynamic(handle, rnnDesc, miniBatch))
}

/// Bytes of workspace and reserve space of a recurrent network. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNTempSpaceSizes(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    fwdMode: MaybeUninit<cudnnForwardMode_t>,
    xDesc: cudnnRNNDataDescriptor_t,
    workSpaceSize: *mut usize,
    reserveSpaceSize: *mut usize,
) -> cudnnStatus_t {
    stub_on!(cudnnGetRNNTempSpaceSizes(handle, rnnDesc, fwdMode, xDesc, workSpaceSize, reserveSpaceSize))
}

/// Bytes that all weights of a recurrent network take. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNWeightSpaceSize(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    weightSpaceSize: *mut usize,
) -> cudnnStatus_t {
    stub_on!(cudnnGetRNNWeightSpaceSize(handle, rnnDesc, weightSpaceSize))
}

/// Where one weight matrix and its bias lie in the weight space. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNWeightParams(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    pseudoLayer: i32,
    weightSpaceSize: usize,
    weightSpace: *const c_void,
    linLayerID: i32,
    mDesc: cudnnTensorDescriptor_t,
    mAddr: *mut *mut c_void,
    bDesc: cudnnTensorDescriptor_t,
    bAddr: *mut *mut c_void,
) -> cudnnStatus_t {
    stub_on!(cudnnGetRNNWeightParams(
        handle,
        rnnDesc,
        pseudoLayer,
        weightSpaceSize,
        weightSpace,
        linLayerID,
        mDesc,
        mAddr,
        bDesc,
        bAddr
    ))
}

/// Outputs and last states of a recurrent network. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNForward(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    fwdMode: MaybeUninit<cudnnForwardMode_t>,
    devSeqLengths: *const i32,
    xDesc: cudnnRNNDataDescriptor_t,
    x: *const c_void,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *mut c_void,
    hDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    hy: *mut c_void,
    cDesc: cudnnTensorDescriptor_t,
    cx: *const c_void,
    cy: *mut c_void,
    weightSpaceSize: usize,
    weightSpace: *const c_void,
    workSpaceSize: usize,
    workSpace: *mut c_void,
    reserveSpaceSize: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    stub_on!(cudnnRNNForward(
        handle,
        rnnDesc,
        fwdMode,
        devSeqLengths,
        xDesc,
        x,
        yDesc,
        y,
        hDesc,
        hx,
        hy,
        cDesc,
        cx,
        cy,
        weightSpaceSize,
        weightSpace,
        workSpaceSize,
        workSpace,
        reserveSpaceSize,
        reserveSpace
    ))
}

/// Gradients of a recurrent network by inputs and first states. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNBackwardData_v8(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    devSeqLengths: *const i32,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *const c_void,
    dy: *const c_void,
    xDesc: cudnnRNNDataDescriptor_t,
    dx: *mut c_void,
    hDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    dhy: *const c_void,
    dhx: *mut c_void,
    cDesc: cudnnTensorDescriptor_t,
    cx: *const c_void,
    dcy: *const c_void,
    dcx: *mut c_void,
    weightSpaceSize: usize,
    weightSpace: *const c_void,
    workSpaceSize: usize,
    workSpace: *mut c_void,
    reserveSpaceSize: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    stub_on!(cudnnRNNBackwardData_v8(
        handle,
        rnnDesc,
        devSeqLengths,
        yDesc,
        y,
        dy,
        xDesc,
        dx,
        hDesc,
        hx,
        dhy,
        dhx,
        cDesc,
        cx,
        dcy,
        dcx,
        weightSpaceSize,
        weightSpace,
        workSpaceSize,
        workSpace,
        reserveSpaceSize,
        reserveSpace
    ))
}

/// Gradients of a recurrent network by its weights. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNBackwardWeights_v8(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    addGrad: MaybeUninit<cudnnWgradMode_t>,
    devSeqLengths: *const i32,
    xDesc: cudnnRNNDataDescriptor_t,
    x: *const c_void,
    hDesc: cudnnTensorDescriptor_t,
    hx: *const c_void,
    yDesc: cudnnRNNDataDescriptor_t,
    y: *const c_void,
    weightSpaceSize: usize,
    dweightSpace: *mut c_void,
    workSpaceSize: usize,
    workSpace: *mut c_void,
    reserveSpaceSize: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    stub_on!(cudnnRNNBackwardWeights_v8(
        handle,
        rnnDesc,
        addGrad,
        devSeqLengths,
        xDesc,
        x,
        hDesc,
        hx,
        yDesc,
        y,
        weightSpaceSize,
        dweightSpace,
        workSpaceSize,
        workSpace,
        reserveSpaceSize,
        reserveSpace
    ))
}
