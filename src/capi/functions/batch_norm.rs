//! Batch normalisation: inference and training, plain and fused.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use cudnn_shim_macros::entry;

use super::arg;
use super::normalise::{ForwardCall, input};
use super::types::{
    cudnnActivationDescriptor_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, cudnnHandle_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use crate::desc::normalization::NormOps;

/// What the calls name the descriptor of parameters and statistics.
const PARAMETERS: &str = "bnScaleBiasMeanVarDesc";

/// `y = alpha * (scale * (x - mean) / sqrt(variance + epsilon) + bias) + beta * y`
///
/// Operands
/// - `x`, `y`: tensors of equal dims and type, each of any layout; 2 to 8 dimensions; FLOAT, DOUBLE, HALF, BFLOAT16, INT8,
///   FP8; on the host for the CPU core, on the device for the CUDA core, like everything but alpha and beta.
/// - `bnScale`, `bnBias`, `estimatedMean`, `estimatedVariance`: tensors of `bnScaleBiasMeanVarDesc`, which is
///   `1 x C x 1 x ...`, or `1 x C x spatial` for PER_ACTIVATION; DOUBLE for DOUBLE, else FLOAT.
/// - `alpha`, `beta`: host `double` for DOUBLE, else `float`; with beta = 0, y is not read.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: an unknown `mode`; a handle or descriptor that is not alive; NULL factors; NULL data, or data off its
///   element's alignment.
/// - NOT_SUPPORTED: other types.
/// - BAD_PARAM: tensors of different dims or types; parameters of other dims or types; a negative epsilon.
/// - NOT_SUPPORTED, in strict mode: more than 65535 images. There, too: 4 and 5 dimensions, no negative strides of x, no FP8,
///   channels of parameters side by side, each at the place of what it belongs to above.
/// - BAD_PARAM: y repeats an address through stride 0.
///
/// Aliasing: x may be y with the same strides. The CPU core takes any other overlap, as if all were read first; the CUDA core
/// refuses it with NOT_SUPPORTED. A failing call writes nothing.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// Pointers to data are NULL or valid for the whole span of their descriptors, `alpha` and `beta` for one read; no other
/// thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnBatchNormalizationForwardInference(
    handle: cudnnHandle_t, mode: MaybeUninit<cudnnBatchNormMode_t>, alpha: *const c_void,
    beta: *const c_void, xDesc: cudnnTensorDescriptor_t, x: *const c_void, yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void, bnScaleBiasMeanVarDesc: cudnnTensorDescriptor_t, bnScale: *const c_void,
    bnBias: *const c_void, estimatedMean: *const c_void, estimatedVariance: *const c_void, epsilon: f64,
) -> cudnnStatus_t {
    let call = ForwardCall {
        function: "cudnnBatchNormalizationForwardInference",
        handle,
        mode: arg::choice(mode, "mode")?,
        ops: NormOps::Plain,
        scaling: [alpha, beta],
        x: input(xDesc, x),
        y: (yDesc, y),
        z: (null_mut(), null_mut()),
        parameters: (PARAMETERS, bnScaleBiasMeanVarDesc),
        numbers: [
            null_mut(),
            null_mut(),
            estimatedMean.cast_mut(),
            estimatedVariance.cast_mut(),
            bnScale.cast_mut(),
            bnBias.cast_mut(),
        ],
        names: ["", "", "estimatedMean", "estimatedVariance", "bnScale", "bnBias"],
        factor: None,
        epsilon,
        activation: null_mut(),
        workspace: (null_mut(), 0),
        reserve: (null_mut(), 0),
    };
    // SAFETY: pointers are NULL or valid for the spans of their descriptors, factors for one read.
    unsafe { call.run() }
}

/// `y = alpha * (scale * (x - mean) / sqrt(variance + epsilon) + bias) + beta * y` with the statistics of the batch.
///
/// Statistics are joined in double in a tree of fixed shape, over the distances from a group's first element, so that nothing
/// cancels; the rest is in float (double for DOUBLE). The same bits on both cores and for any number of threads.
///
/// Operands
/// - `x`, `y`, `bnScale`, `bnBias`, `alpha`, `beta`: as for cudnnBatchNormalizationForwardInference, without INT8.
/// - `resultRunningMean`, `resultRunningVariance`: tensors of `bnScaleBiasMeanVarDesc`, either may be NULL. They become
///   `(1 - factor) * old + factor * new`, where the new variance is the one of `m - 1` degrees of freedom (of `m` if that
///   is 1). A factor of 1 does not read the old ones, 0 leaves them.
/// - `resultSaveMean`, `resultSaveInvVariance`: the same, both or neither: mean and `1 / sqrt(variance + epsilon)` of the
///   batch, for the backward pass.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: an unknown `mode`; a handle or descriptor that is not alive; NULL factors; NULL x, y, bnScale or bnBias; data
///   off its element's alignment.
/// - NOT_SUPPORTED: types other than FLOAT, DOUBLE, HALF, BFLOAT16 and FP8.
/// - BAD_PARAM: one of the saved pair without the other.
/// - BAD_PARAM: tensors of different dims or types; parameters of other dims or types than cudnnDeriveBNTensorDescriptor
///   gives; a negative epsilon. In strict mode, at the same places: 4 and 5 dimensions, no negative strides of x, no FP8,
///   channels of parameters side by side.
/// - BAD_PARAM: y repeats an address through stride 0.
///
/// Aliasing: as cudnnBatchNormalizationForwardInference.
///
/// Source: observed on 9.27.0; the unbiased running variance is what callers of cuDNN measured.
///
/// # Safety
/// As cudnnBatchNormalizationForwardInference.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnBatchNormalizationForwardTraining(
    handle: cudnnHandle_t, mode: MaybeUninit<cudnnBatchNormMode_t>, alpha: *const c_void,
    beta: *const c_void, xDesc: cudnnTensorDescriptor_t, x: *const c_void, yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void, bnScaleBiasMeanVarDesc: cudnnTensorDescriptor_t, bnScale: *const c_void,
    bnBias: *const c_void, exponentialAverageFactor: f64, resultRunningMean: *mut c_void,
    resultRunningVariance: *mut c_void, epsilon: f64, resultSaveMean: *mut c_void,
    resultSaveInvVariance: *mut c_void,
) -> cudnnStatus_t {
    let call = ForwardCall {
        function: "cudnnBatchNormalizationForwardTraining",
        handle,
        mode: arg::choice(mode, "mode")?,
        ops: NormOps::Plain,
        scaling: [alpha, beta],
        x: input(xDesc, x),
        y: (yDesc, y),
        z: (null_mut(), null_mut()),
        parameters: (PARAMETERS, bnScaleBiasMeanVarDesc),
        numbers: [
            resultSaveMean,
            resultSaveInvVariance,
            resultRunningMean,
            resultRunningVariance,
            bnScale.cast_mut(),
            bnBias.cast_mut(),
        ],
        names: FORWARD_NAMES,
        factor: Some(exponentialAverageFactor),
        epsilon,
        activation: null_mut(),
        workspace: (null_mut(), 0),
        reserve: (null_mut(), 0),
    };
    // SAFETY: pointers are NULL or valid for the spans of their descriptors, factors for one read.
    unsafe { call.run() }
}

/// What training calls name the numbers of a forward pass.
const FORWARD_NAMES: [&str; 6] = [
    "resultSaveMean",
    "resultSaveInvVariance",
    "resultRunningMean",
    "resultRunningVariance",
    "bnScale",
    "bnBias",
];

/// `y = alpha * act(scale * (x - mean) / sqrt(variance + epsilon) + bias + z) + beta * y` with the statistics of the batch.
///
/// The training pass of cudnnBatchNormalizationForwardTraining; the activation follows with `bnOps` 1 and 2, z with 2.
///
/// Operands
/// - as cudnnBatchNormalizationForwardTraining, for every mode and layout; with `bnOps` 2, `zData` of the dims and type of
///   x, of any layout.
/// - `activationDesc`: RELU, CLIPPED_RELU or IDENTITY, with `bnOps` 1 and 2.
/// - `reserveSpace`: with `bnOps` 2, at least as many bytes as cudnnGetBatchNormalizationTrainingExReserveSpaceSize says,
///   written: the slope of the activation at every element.
///
/// Workspace: NULL and 0 are fine outside strict mode; with what the size query answers a GPU takes several blocks of threads
/// for a group, with the same result.
///
/// Status, in this order
/// - BAD_PARAM: an unknown `mode` or `bnOps`; then as cudnnBatchNormalizationForwardTraining, also for an activation or z
///   that is needed and not there.
/// - NOT_SUPPORTED, in strict mode: fused passes in a mode other than SPATIAL_PERSISTENT, on tensors that are not packed NHWC,
///   with another activation than RELU (SWISH with `bnOps` 1).
/// - as cudnnBatchNormalizationForwardTraining, from the types on; then the same of z.
/// - NOT_SUPPORTED, in strict mode: a workspace or a reserve space that is too small.
/// - BAD_PARAM: a reserve space that is too small.
///
/// Aliasing: as cudnnBatchNormalizationForwardInference, with z like x.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// As cudnnBatchNormalizationForwardInference; `reserveSpace` is NULL or valid for writes of its bytes.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnBatchNormalizationForwardTrainingEx(
    handle: cudnnHandle_t, mode: MaybeUninit<cudnnBatchNormMode_t>, bnOps: MaybeUninit<cudnnBatchNormOps_t>,
    alpha: *const c_void, beta: *const c_void, xDesc: cudnnTensorDescriptor_t, xData: *const c_void,
    zDesc: cudnnTensorDescriptor_t, zData: *const c_void, yDesc: cudnnTensorDescriptor_t, yData: *mut c_void,
    bnScaleBiasMeanVarDesc: cudnnTensorDescriptor_t, bnScale: *const c_void, bnBias: *const c_void,
    exponentialAverageFactor: f64, resultRunningMean: *mut c_void, resultRunningVariance: *mut c_void,
    epsilon: f64, resultSaveMean: *mut c_void, resultSaveInvVariance: *mut c_void,
    activationDesc: cudnnActivationDescriptor_t, workspace: *mut c_void, workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void, reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    let call = ForwardCall {
        function: "cudnnBatchNormalizationForwardTrainingEx",
        handle,
        mode: arg::choice(mode, "mode")?,
        ops: arg::choice(bnOps, "bnOps")?,
        scaling: [alpha, beta],
        x: input(xDesc, xData),
        y: (yDesc, yData),
        z: input(zDesc, zData),
        parameters: (PARAMETERS, bnScaleBiasMeanVarDesc),
        numbers: [
            resultSaveMean,
            resultSaveInvVariance,
            resultRunningMean,
            resultRunningVariance,
            bnScale.cast_mut(),
            bnBias.cast_mut(),
        ],
        names: FORWARD_NAMES,
        factor: Some(exponentialAverageFactor),
        epsilon,
        activation: activationDesc,
        workspace: (workspace, workSpaceSizeInBytes),
        reserve: (reserveSpace, reserveSpaceSizeInBytes),
    };
    // SAFETY: pointers are NULL or valid for the spans of their descriptors, factors for one read.
    unsafe { call.run() }
}
