//! Batch normalisation.

use super::unsupported_on;
use crate::capi::types::{
    cudnnActivationDescriptor_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, cudnnHandle_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// `y = alpha * (scale * (x - mean) / sqrt(var + epsilon) + bias) + beta * y`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnBatchNormalizationForwardInference(
    handle: cudnnHandle_t,
    mode: MaybeUninit<cudnnBatchNormMode_t>,
    alpha: *const c_void,
    beta: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
    bnScaleBiasMeanVarDesc: cudnnTensorDescriptor_t,
    bnScale: *const c_void,
    bnBias: *const c_void,
    estimatedMean: *const c_void,
    estimatedVariance: *const c_void,
    epsilon: f64,
) -> cudnnStatus_t {
    unsupported_on("cudnnBatchNormalizationForwardInference", handle)
}

/// Bytes of workspace of the extended training forward pass. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    handle: cudnnHandle_t,
    mode: MaybeUninit<cudnnBatchNormMode_t>,
    bnOps: MaybeUninit<cudnnBatchNormOps_t>,
    xDesc: cudnnTensorDescriptor_t,
    zDesc: cudnnTensorDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    bnScaleBiasMeanVarDesc: cudnnTensorDescriptor_t,
    activationDesc: cudnnActivationDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize", handle)
}

/// Bytes of workspace of the extended backward pass. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    handle: cudnnHandle_t,
    mode: MaybeUninit<cudnnBatchNormMode_t>,
    bnOps: MaybeUninit<cudnnBatchNormOps_t>,
    xDesc: cudnnTensorDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    dzDesc: cudnnTensorDescriptor_t,
    dxDesc: cudnnTensorDescriptor_t,
    dBnScaleBiasDesc: cudnnTensorDescriptor_t,
    activationDesc: cudnnActivationDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetBatchNormalizationBackwardExWorkspaceSize", handle)
}

/// Bytes that the extended passes keep between forward and backward. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    handle: cudnnHandle_t,
    mode: MaybeUninit<cudnnBatchNormMode_t>,
    bnOps: MaybeUninit<cudnnBatchNormOps_t>,
    activationDesc: cudnnActivationDescriptor_t,
    xDesc: cudnnTensorDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetBatchNormalizationTrainingExReserveSpaceSize", handle)
}

/// Normalises x by the statistics of its batch and updates the running ones. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnBatchNormalizationForwardTraining(
    handle: cudnnHandle_t,
    mode: MaybeUninit<cudnnBatchNormMode_t>,
    alpha: *const c_void,
    beta: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
    bnScaleBiasMeanVarDesc: cudnnTensorDescriptor_t,
    bnScale: *const c_void,
    bnBias: *const c_void,
    exponentialAverageFactor: f64,
    resultRunningMean: *mut c_void,
    resultRunningVariance: *mut c_void,
    epsilon: f64,
    resultSaveMean: *mut c_void,
    resultSaveInvVariance: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnBatchNormalizationForwardTraining", handle)
}

/// Training forward pass with a sum and an activation behind it. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnBatchNormalizationForwardTrainingEx(
    handle: cudnnHandle_t,
    mode: MaybeUninit<cudnnBatchNormMode_t>,
    bnOps: MaybeUninit<cudnnBatchNormOps_t>,
    alpha: *const c_void,
    beta: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    xData: *const c_void,
    zDesc: cudnnTensorDescriptor_t,
    zData: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    yData: *mut c_void,
    bnScaleBiasMeanVarDesc: cudnnTensorDescriptor_t,
    bnScale: *const c_void,
    bnBias: *const c_void,
    exponentialAverageFactor: f64,
    resultRunningMean: *mut c_void,
    resultRunningVariance: *mut c_void,
    epsilon: f64,
    resultSaveMean: *mut c_void,
    resultSaveInvVariance: *mut c_void,
    activationDesc: cudnnActivationDescriptor_t,
    workspace: *mut c_void,
    workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnBatchNormalizationForwardTrainingEx", handle)
}

/// Gradients of batch normalisation by x, scale and bias. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnBatchNormalizationBackward(
    handle: cudnnHandle_t,
    mode: MaybeUninit<cudnnBatchNormMode_t>,
    alphaDataDiff: *const c_void,
    betaDataDiff: *const c_void,
    alphaParamDiff: *const c_void,
    betaParamDiff: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void,
    dxDesc: cudnnTensorDescriptor_t,
    dx: *mut c_void,
    dBnScaleBiasDesc: cudnnTensorDescriptor_t,
    bnScale: *const c_void,
    dBnScaleResult: *mut c_void,
    dBnBiasResult: *mut c_void,
    epsilon: f64,
    savedMean: *const c_void,
    savedInvVariance: *const c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnBatchNormalizationBackward", handle)
}

/// Gradients of batch normalisation with a sum and an activation behind it. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnBatchNormalizationBackwardEx(
    handle: cudnnHandle_t,
    mode: MaybeUninit<cudnnBatchNormMode_t>,
    bnOps: MaybeUninit<cudnnBatchNormOps_t>,
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
    dBnScaleBiasDesc: cudnnTensorDescriptor_t,
    bnScaleData: *const c_void,
    bnBiasData: *const c_void,
    dBnScaleData: *mut c_void,
    dBnBiasData: *mut c_void,
    epsilon: f64,
    savedMean: *const c_void,
    savedInvVariance: *const c_void,
    activationDesc: cudnnActivationDescriptor_t,
    workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnBatchNormalizationBackwardEx", handle)
}
