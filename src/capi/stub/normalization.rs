//! Normalisation with a choice of algorithm.

use super::unsupported_on_groups;
use crate::capi::types::{
    cudnnActivationDescriptor_t, cudnnHandle_t, cudnnNormAlgo_t, cudnnNormMode_t, cudnnNormOps_t,
    cudnnStatus_t, cudnnTensorDescriptor_t,
};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// Normalises x by given statistics, with a sum and an activation behind it. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnNormalizationForwardInference(
    handle: cudnnHandle_t,
    mode: MaybeUninit<cudnnNormMode_t>,
    normOps: MaybeUninit<cudnnNormOps_t>,
    algo: MaybeUninit<cudnnNormAlgo_t>,
    alpha: *const c_void,
    beta: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    normScaleBiasDesc: cudnnTensorDescriptor_t,
    normScale: *const c_void,
    normBias: *const c_void,
    normMeanVarDesc: cudnnTensorDescriptor_t,
    estimatedMean: *const c_void,
    estimatedVariance: *const c_void,
    zDesc: cudnnTensorDescriptor_t,
    z: *const c_void,
    activationDesc: cudnnActivationDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
    epsilon: f64,
    groupCnt: c_int,
) -> cudnnStatus_t {
    unsupported_on_groups("cudnnNormalizationForwardInference", handle, groupCnt)
}

/// Bytes of workspace of the training forward pass. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetNormalizationForwardTrainingWorkspaceSize(
    handle: cudnnHandle_t,
    mode: MaybeUninit<cudnnNormMode_t>,
    normOps: MaybeUninit<cudnnNormOps_t>,
    algo: MaybeUninit<cudnnNormAlgo_t>,
    xDesc: cudnnTensorDescriptor_t,
    zDesc: cudnnTensorDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    normScaleBiasDesc: cudnnTensorDescriptor_t,
    activationDesc: cudnnActivationDescriptor_t,
    normMeanVarDesc: cudnnTensorDescriptor_t,
    sizeInBytes: *mut usize,
    groupCnt: c_int,
) -> cudnnStatus_t {
    unsupported_on_groups("cudnnGetNormalizationForwardTrainingWorkspaceSize", handle, groupCnt)
}

/// Bytes of workspace of the backward pass. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetNormalizationBackwardWorkspaceSize(
    handle: cudnnHandle_t,
    mode: MaybeUninit<cudnnNormMode_t>,
    normOps: MaybeUninit<cudnnNormOps_t>,
    algo: MaybeUninit<cudnnNormAlgo_t>,
    xDesc: cudnnTensorDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    dzDesc: cudnnTensorDescriptor_t,
    dxDesc: cudnnTensorDescriptor_t,
    dNormScaleBiasDesc: cudnnTensorDescriptor_t,
    activationDesc: cudnnActivationDescriptor_t,
    normMeanVarDesc: cudnnTensorDescriptor_t,
    sizeInBytes: *mut usize,
    groupCnt: c_int,
) -> cudnnStatus_t {
    unsupported_on_groups("cudnnGetNormalizationBackwardWorkspaceSize", handle, groupCnt)
}

/// Bytes that normalisation keeps between forward and backward. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetNormalizationTrainingReserveSpaceSize(
    handle: cudnnHandle_t,
    mode: MaybeUninit<cudnnNormMode_t>,
    normOps: MaybeUninit<cudnnNormOps_t>,
    algo: MaybeUninit<cudnnNormAlgo_t>,
    activationDesc: cudnnActivationDescriptor_t,
    xDesc: cudnnTensorDescriptor_t,
    sizeInBytes: *mut usize,
    groupCnt: c_int,
) -> cudnnStatus_t {
    unsupported_on_groups("cudnnGetNormalizationTrainingReserveSpaceSize", handle, groupCnt)
}

/// Normalises x by the statistics of its batch and updates the running ones. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnNormalizationForwardTraining(
    handle: cudnnHandle_t,
    mode: MaybeUninit<cudnnNormMode_t>,
    normOps: MaybeUninit<cudnnNormOps_t>,
    algo: MaybeUninit<cudnnNormAlgo_t>,
    alpha: *const c_void,
    beta: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    xData: *const c_void,
    normScaleBiasDesc: cudnnTensorDescriptor_t,
    normScale: *const c_void,
    normBias: *const c_void,
    exponentialAverageFactor: f64,
    normMeanVarDesc: cudnnTensorDescriptor_t,
    resultRunningMean: *mut c_void,
    resultRunningVariance: *mut c_void,
    epsilon: f64,
    resultSaveMean: *mut c_void,
    resultSaveInvVariance: *mut c_void,
    activationDesc: cudnnActivationDescriptor_t,
    zDesc: cudnnTensorDescriptor_t,
    zData: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    yData: *mut c_void,
    workspace: *mut c_void,
    workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
    groupCnt: c_int,
) -> cudnnStatus_t {
    unsupported_on_groups("cudnnNormalizationForwardTraining", handle, groupCnt)
}

/// Gradients of a normalisation by x, scale, bias and z. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnNormalizationBackward(
    handle: cudnnHandle_t,
    mode: MaybeUninit<cudnnNormMode_t>,
    normOps: MaybeUninit<cudnnNormOps_t>,
    algo: MaybeUninit<cudnnNormAlgo_t>,
    alphaDataDiff: *const c_void,
    betaDataDiff: *const c_void,
    alphaParamDiff: *const c_void,
    betaParamDiff: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    xData: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    yData: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    dyData: *const c_void,
    dzDesc: cudnnTensorDescriptor_t,
    dzData: *mut c_void,
    dxDesc: cudnnTensorDescriptor_t,
    dxData: *mut c_void,
    dNormScaleBiasDesc: cudnnTensorDescriptor_t,
    normScaleData: *const c_void,
    normBiasData: *const c_void,
    dNormScaleData: *mut c_void,
    dNormBiasData: *mut c_void,
    epsilon: f64,
    normMeanVarDesc: cudnnTensorDescriptor_t,
    savedMean: *const c_void,
    savedInvVariance: *const c_void,
    activationDesc: cudnnActivationDescriptor_t,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
    groupCnt: c_int,
) -> cudnnStatus_t {
    unsupported_on_groups("cudnnNormalizationBackward", handle, groupCnt)
}
