//! Normalization: the calls of batch normalisation under other names, with the choice of an algorithm.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use cudnn_shim_macros::entry;

use super::arg::{self};
use super::normalise::{BackwardCall, ForwardCall, input};
use super::tensor;
use super::types::{
    cudnnActivationDescriptor_t, cudnnHandle_t, cudnnNormAlgo_t, cudnnNormMode_t, cudnnNormOps_t,
    cudnnStatus_t, cudnnTensorDescriptor_t, raw,
};
use crate::desc::Choice;
use crate::desc::normalization::{BatchNormMode, NormOps};
use crate::error::{Error, Result};
use crate::mode::Mode;

/// Refuses groups, of which there is one.
pub(super) fn check_groups(count: c_int) -> Result<()> {
    if count == 1 {
        return Ok(());
    }
    Err(Error::unsupported(format!("groupCnt = {count}: there is 1 group")))
}

/// Refuses parameters and statistics of different tensors.
pub(super) fn check_equal(
    (name, parameters): (&'static str, cudnnTensorDescriptor_t), statistics: cudnnTensorDescriptor_t,
) -> Result<()> {
    let (x, y) = (tensor::get(parameters, name)?, tensor::get(statistics, "normMeanVarDesc")?);
    if x.data_type() == y.data_type() && x.dims() == y.dims() && x.strides() == y.strides() {
        return Ok(());
    }
    Err(Error::mismatch(format!("{name} and normMeanVarDesc must have the same type, dims and strides")))
}

/// The groups that mode and algorithm ask for: PERSIST is the mode SPATIAL_PERSISTENT of batch normalisation. Outside strict
/// mode any algorithm serves either mode.
pub(super) fn groups(
    mode: MaybeUninit<cudnnNormMode_t>, algo: MaybeUninit<cudnnNormAlgo_t>,
) -> Result<BatchNormMode> {
    match (raw(mode), raw(algo)) {
        (0, 0) => Ok(BatchNormMode::PerActivation),
        (0, 1) if !Mode::current().is_strict() => Ok(BatchNormMode::PerActivation),
        (1, 0) => Ok(BatchNormMode::Spatial),
        (1, 1) => Ok(BatchNormMode::SpatialPersistent),
        (mode, algo) => Err(Error::unsupported(format!("mode = {mode} with algo = {algo}"))),
    }
}

/// `y = alpha * act(normScale * (x - mean) / sqrt(variance + epsilon) + normBias + z) + beta * y`
///
/// Operands
/// - as cudnnBatchNormalizationForwardInference, PER_ACTIVATION or PER_CHANNEL.
/// - `normOps`: 0 without z and activation, 1 without z; RELU, CLIPPED_RELU or IDENTITY (outside strict mode).
///
/// Workspace: none.
///
/// Status, in this order
/// - NOT_SUPPORTED: a `groupCnt` other than 1; an unknown `normOps` (in strict mode any but 0).
/// - BAD_PARAM: descriptors of parameters and of statistics that differ.
/// - NOT_SUPPORTED: an unknown mode or algorithm (in strict mode also PER_ACTIVATION with PERSIST).
/// - then as cudnnBatchNormalizationForwardInference.
///
/// Aliasing: as cudnnBatchNormalizationForwardInference, with z like x.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// As cudnnBatchNormalizationForwardInference.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnNormalizationForwardInference(
    handle: cudnnHandle_t, mode: MaybeUninit<cudnnNormMode_t>, normOps: MaybeUninit<cudnnNormOps_t>,
    algo: MaybeUninit<cudnnNormAlgo_t>, alpha: *const c_void, beta: *const c_void,
    xDesc: cudnnTensorDescriptor_t, x: *const c_void, normScaleBiasDesc: cudnnTensorDescriptor_t,
    normScale: *const c_void, normBias: *const c_void, normMeanVarDesc: cudnnTensorDescriptor_t,
    estimatedMean: *const c_void, estimatedVariance: *const c_void, zDesc: cudnnTensorDescriptor_t,
    z: *const c_void, activationDesc: cudnnActivationDescriptor_t, yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void, epsilon: f64, groupCnt: c_int,
) -> cudnnStatus_t {
    check_groups(groupCnt)?;
    let is_known = NormOps::from_code(raw(normOps)).is_some();
    if raw(normOps) != 0 && (Mode::current().is_strict() || !is_known) {
        let text = format!("normOps = {} at inference: 0, outside strict mode also 1 and 2", raw(normOps));
        return Err(Error::unsupported(text));
    }
    let ops = arg::choice::<NormOps, _>(normOps, "normOps")?;
    check_equal(("normScaleBiasDesc", normScaleBiasDesc), normMeanVarDesc)?;
    let call = ForwardCall {
        function: "cudnnNormalizationForwardInference",
        handle,
        mode: groups(mode, algo)?,
        ops,
        scaling: [alpha, beta],
        x: input(xDesc, x),
        y: (yDesc, y),
        z: input(zDesc, z),
        parameters: ("normScaleBiasDesc", normScaleBiasDesc),
        numbers: [
            null_mut(),
            null_mut(),
            estimatedMean.cast_mut(),
            estimatedVariance.cast_mut(),
            normScale.cast_mut(),
            normBias.cast_mut(),
        ],
        names: ["", "", "estimatedMean", "estimatedVariance", "normScale", "normBias"],
        factor: None,
        epsilon,
        activation: activationDesc,
        workspace: (null_mut(), usize::MAX),
        reserve: (null_mut(), 0),
    };
    // SAFETY: pointers are NULL or valid for the spans of their descriptors, factors for one read.
    unsafe { call.run() }
}

/// `y = alpha * act(normScale * (x - mean) / sqrt(variance + epsilon) + normBias + z) + beta * y`, statistics of the batch.
///
/// Operands
/// - as cudnnBatchNormalizationForwardTrainingEx, PER_ACTIVATION or PER_CHANNEL; `normMeanVarDesc` describes running and saved
///   statistics.
///
/// Workspace: NULL and 0 are fine outside strict mode; with what the size query answers a GPU takes several blocks of threads
/// for a group, with the same result.
///
/// Status, in this order
/// - NOT_SUPPORTED: a `groupCnt` other than 1. BAD_PARAM: an unknown `normOps`; descriptors of parameters and of statistics
///   that differ.
/// - NOT_SUPPORTED: an unknown mode or algorithm (in strict mode also PER_ACTIVATION with PERSIST).
/// - then as cudnnBatchNormalizationForwardTrainingEx.
///
/// Aliasing: as cudnnBatchNormalizationForwardTrainingEx.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// As cudnnBatchNormalizationForwardTrainingEx.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnNormalizationForwardTraining(
    handle: cudnnHandle_t, mode: MaybeUninit<cudnnNormMode_t>, normOps: MaybeUninit<cudnnNormOps_t>,
    algo: MaybeUninit<cudnnNormAlgo_t>, alpha: *const c_void, beta: *const c_void,
    xDesc: cudnnTensorDescriptor_t, xData: *const c_void, normScaleBiasDesc: cudnnTensorDescriptor_t,
    normScale: *const c_void, normBias: *const c_void, exponentialAverageFactor: f64,
    normMeanVarDesc: cudnnTensorDescriptor_t, resultRunningMean: *mut c_void,
    resultRunningVariance: *mut c_void, epsilon: f64, resultSaveMean: *mut c_void,
    resultSaveInvVariance: *mut c_void, activationDesc: cudnnActivationDescriptor_t,
    zDesc: cudnnTensorDescriptor_t, zData: *const c_void, yDesc: cudnnTensorDescriptor_t, yData: *mut c_void,
    workspace: *mut c_void, workSpaceSizeInBytes: usize, reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize, groupCnt: c_int,
) -> cudnnStatus_t {
    check_groups(groupCnt)?;
    let ops = arg::choice::<NormOps, _>(normOps, "normOps")?;
    check_equal(("normScaleBiasDesc", normScaleBiasDesc), normMeanVarDesc)?;
    let call = ForwardCall {
        function: "cudnnNormalizationForwardTraining",
        handle,
        mode: groups(mode, algo)?,
        ops,
        scaling: [alpha, beta],
        x: input(xDesc, xData),
        y: (yDesc, yData),
        z: input(zDesc, zData),
        parameters: ("normScaleBiasDesc", normScaleBiasDesc),
        numbers: [
            resultSaveMean,
            resultSaveInvVariance,
            resultRunningMean,
            resultRunningVariance,
            normScale.cast_mut(),
            normBias.cast_mut(),
        ],
        names: [
            "resultSaveMean",
            "resultSaveInvVariance",
            "resultRunningMean",
            "resultRunningVariance",
            "normScale",
            "normBias",
        ],
        factor: Some(exponentialAverageFactor),
        epsilon,
        activation: activationDesc,
        workspace: (workspace, workSpaceSizeInBytes),
        reserve: (reserveSpace, reserveSpaceSizeInBytes),
    };
    // SAFETY: pointers are NULL or valid for the spans of their descriptors, factors for one read.
    unsafe { call.run() }
}

/// `dx`, and `dz`, `dScale`, `dBias`, of cudnnNormalizationForwardTraining: as cudnnBatchNormalizationBackwardEx.
///
/// Operands
/// - as cudnnBatchNormalizationBackwardEx, PER_ACTIVATION or PER_CHANNEL; `normMeanVarDesc` describes the saved pair.
///
/// Workspace: NULL and 0 are fine outside strict mode; with what the size query answers a GPU takes several blocks of threads
/// for a group, with the same result.
///
/// Status, in this order
/// - NOT_SUPPORTED: a `groupCnt` other than 1. BAD_PARAM: an unknown `normOps`; descriptors of parameters and of statistics
///   that differ.
/// - NOT_SUPPORTED: an unknown mode or algorithm (in strict mode also PER_ACTIVATION with PERSIST).
/// - then as cudnnBatchNormalizationBackwardEx.
///
/// Aliasing: as cudnnBatchNormalizationBackward.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// As cudnnBatchNormalizationBackwardEx.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnNormalizationBackward(
    handle: cudnnHandle_t, mode: MaybeUninit<cudnnNormMode_t>, normOps: MaybeUninit<cudnnNormOps_t>,
    algo: MaybeUninit<cudnnNormAlgo_t>, alphaDataDiff: *const c_void, betaDataDiff: *const c_void,
    alphaParamDiff: *const c_void, betaParamDiff: *const c_void, xDesc: cudnnTensorDescriptor_t,
    xData: *const c_void, yDesc: cudnnTensorDescriptor_t, yData: *const c_void,
    dyDesc: cudnnTensorDescriptor_t, dyData: *const c_void, dzDesc: cudnnTensorDescriptor_t,
    dzData: *mut c_void, dxDesc: cudnnTensorDescriptor_t, dxData: *mut c_void,
    dNormScaleBiasDesc: cudnnTensorDescriptor_t, normScaleData: *const c_void, normBiasData: *const c_void,
    dNormScaleData: *mut c_void, dNormBiasData: *mut c_void, epsilon: f64,
    normMeanVarDesc: cudnnTensorDescriptor_t, savedMean: *const c_void, savedInvVariance: *const c_void,
    activationDesc: cudnnActivationDescriptor_t, workSpace: *mut c_void, workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void, reserveSpaceSizeInBytes: usize, groupCnt: c_int,
) -> cudnnStatus_t {
    check_groups(groupCnt)?;
    let ops = arg::choice::<NormOps, _>(normOps, "normOps")?;
    check_equal(("dNormScaleBiasDesc", dNormScaleBiasDesc), normMeanVarDesc)?;
    let call = BackwardCall {
        function: "cudnnNormalizationBackward",
        handle,
        mode: groups(mode, algo)?,
        ops,
        scaling: [alphaDataDiff, betaDataDiff],
        parameter_scaling: [alphaParamDiff, betaParamDiff],
        x: input(xDesc, xData),
        dy: input(dyDesc, dyData),
        dx: (dxDesc, dxData),
        dz: (dzDesc, dzData),
        parameters: ("dNormScaleBiasDesc", dNormScaleBiasDesc),
        numbers: [
            dNormScaleData,
            dNormBiasData,
            normScaleData.cast_mut(),
            normBiasData.cast_mut(),
            savedMean.cast_mut(),
            savedInvVariance.cast_mut(),
        ],
        names: [
            "dNormScaleData",
            "dNormBiasData",
            "normScaleData",
            "normBiasData",
            "savedMean",
            "savedInvVariance",
        ],
        epsilon,
        activation: activationDesc,
        workspace: (workSpace, workSpaceSizeInBytes),
        reserve: (reserveSpace, reserveSpaceSizeInBytes),
    };
    // SAFETY: pointers are NULL or valid for the spans of their descriptors, factors for one read.
    unsafe { call.run() }
}
