//! The gradients of batch normalisation, and what its extended calls ask for in buffers.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use cudnn_shim_macros::entry;

use super::arg::{self, Out, results};
use super::normalise::{BackwardCall, follows, fused, input};
use super::types::{
    cudnnActivationDescriptor_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, cudnnHandle_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use super::{context, tensor};
use crate::desc::normalization::{BatchNormMode, NormOps};
use crate::mode::Mode;
use crate::ops::batch_norm::{Parameters, Query, training_reserve_size};

/// What the calls name the descriptor of gradients and statistics.
const GRADIENTS: &str = "dBnScaleBiasDesc";

/// `dx = scale * inverse * (dy - dBias / m - (x - mean) * inverse * dScale / m)`, with m elements in a group.
///
/// `dBias = sum(dy)`, `dScale = sum(dy * (x - mean)) * inverse`. Arithmetic as cudnnBatchNormalizationForwardTraining.
///
/// Operands
/// - `x`, `dy`, `dx`: tensors of equal dims and type, each of any layout.
/// - `bnScale`, `dBnScaleResult`, `dBnBiasResult`, `savedMean`, `savedInvVariance`: tensors of `dBnScaleBiasDesc`. The
///   saved pair may be NULL, both or neither: then it is computed again, to the same bits.
/// - `alphaDataDiff`, `betaDataDiff`: factors of dx and of the old dx; `alphaParamDiff`, `betaParamDiff`: those of both
///   other gradients. Host `double` for DOUBLE, else `float`; what has beta = 0 is not read.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: an unknown `mode`; a handle or descriptor that is not alive; NULL factors; NULL x, dy, dx, bnScale or a NULL
///   gradient of a parameter; data off its element's alignment.
/// - NOT_SUPPORTED: types other than FLOAT, DOUBLE, HALF, BFLOAT16 and FP8.
/// - BAD_PARAM: one of the saved pair without the other.
/// - BAD_PARAM: tensors of different dims or types; parameters of other dims or types than cudnnDeriveBNTensorDescriptor
///   gives; a negative epsilon. In strict mode, at the same places: 4 and 5 dimensions, no negative strides of x, no FP8,
///   channels of parameters side by side.
/// - BAD_PARAM: dx repeats an address through stride 0.
///
/// Aliasing: dx may be dy or x where the strides are equal. The CPU core takes any other overlap, as if all were read first;
/// the CUDA core refuses it with NOT_SUPPORTED. A failing call writes nothing.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// Pointers to data are NULL or valid for the whole span of their descriptors, factors for one read; no other thread
/// writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnBatchNormalizationBackward(
    handle: cudnnHandle_t, mode: MaybeUninit<cudnnBatchNormMode_t>, alphaDataDiff: *const c_void,
    betaDataDiff: *const c_void, alphaParamDiff: *const c_void, betaParamDiff: *const c_void,
    xDesc: cudnnTensorDescriptor_t, x: *const c_void, dyDesc: cudnnTensorDescriptor_t, dy: *const c_void,
    dxDesc: cudnnTensorDescriptor_t, dx: *mut c_void, dBnScaleBiasDesc: cudnnTensorDescriptor_t,
    bnScale: *const c_void, dBnScaleResult: *mut c_void, dBnBiasResult: *mut c_void, epsilon: f64,
    savedMean: *const c_void, savedInvVariance: *const c_void,
) -> cudnnStatus_t {
    let call = BackwardCall {
        function: "cudnnBatchNormalizationBackward",
        handle,
        mode: arg::choice(mode, "mode")?,
        ops: NormOps::Plain,
        scaling: [alphaDataDiff, betaDataDiff],
        parameter_scaling: [alphaParamDiff, betaParamDiff],
        x: input(xDesc, x),
        dy: input(dyDesc, dy),
        dx: (dxDesc, dx),
        dz: (null_mut(), null_mut()),
        parameters: (GRADIENTS, dBnScaleBiasDesc),
        numbers: [
            dBnScaleResult,
            dBnBiasResult,
            bnScale.cast_mut(),
            null_mut(),
            savedMean.cast_mut(),
            savedInvVariance.cast_mut(),
        ],
        names: ["dBnScaleResult", "dBnBiasResult", "bnScale", "", "savedMean", "savedInvVariance"],
        epsilon,
        activation: null_mut(),
        workspace: (null_mut(), 0),
        reserve: (null_mut(), 0),
    };
    // SAFETY: pointers are NULL or valid for the spans of their descriptors, factors for one read.
    unsafe { call.run() }
}

/// `dx` of cudnnBatchNormalizationBackward, where dy is first multiplied by the slope of the activation.
///
/// With `bnOps` 2 that product is `dz`. Where nothing was added the slope is computed again from x, for which `bnBiasData` is
/// needed; else it comes from the reserve space.
///
/// Operands
/// - as cudnnBatchNormalizationBackward; y is not looked at.
/// - `activationDesc`, `reserveSpace`: as cudnnBatchNormalizationForwardTrainingEx had them, read. `bnBiasData`: with
///   `bnOps` 1. `dzData`: with `bnOps` 2, of the dims and type of x, of any layout.
///
/// Workspace: NULL and 0 are fine outside strict mode; with what the size query answers a GPU takes several blocks of threads
/// for a group, with the same result.
///
/// Status, in this order
/// - BAD_PARAM: an unknown `mode` or `bnOps`; then as cudnnBatchNormalizationBackward, also for an activation or dz that is
///   needed and not there.
/// - NOT_SUPPORTED, in strict mode: fused passes in a mode other than SPATIAL_PERSISTENT, on tensors that are not packed NHWC,
///   with another activation than RELU.
/// - as cudnnBatchNormalizationBackward, from the types on; then the same of dz.
/// - BAD_PARAM: a bias that is needed and not there.
/// - NOT_SUPPORTED, in strict mode: a workspace or a reserve space that is too small.
/// - BAD_PARAM: a reserve space that is too small.
///
/// Aliasing: as cudnnBatchNormalizationBackward.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// As cudnnBatchNormalizationBackward; `reserveSpace` is NULL or valid for reads of its bytes.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnBatchNormalizationBackwardEx(
    handle: cudnnHandle_t, mode: MaybeUninit<cudnnBatchNormMode_t>, bnOps: MaybeUninit<cudnnBatchNormOps_t>,
    alphaDataDiff: *const c_void, betaDataDiff: *const c_void, alphaParamDiff: *const c_void,
    betaParamDiff: *const c_void, xDesc: cudnnTensorDescriptor_t, xData: *const c_void,
    yDesc: cudnnTensorDescriptor_t, yData: *const c_void, dyDesc: cudnnTensorDescriptor_t,
    dyData: *const c_void, dzDesc: cudnnTensorDescriptor_t, dzData: *mut c_void,
    dxDesc: cudnnTensorDescriptor_t, dxData: *mut c_void, dBnScaleBiasDesc: cudnnTensorDescriptor_t,
    bnScaleData: *const c_void, bnBiasData: *const c_void, dBnScaleData: *mut c_void,
    dBnBiasData: *mut c_void, epsilon: f64, savedMean: *const c_void, savedInvVariance: *const c_void,
    activationDesc: cudnnActivationDescriptor_t, workSpace: *mut c_void, workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void, reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    let call = BackwardCall {
        function: "cudnnBatchNormalizationBackwardEx",
        handle,
        mode: arg::choice(mode, "mode")?,
        ops: arg::choice(bnOps, "bnOps")?,
        scaling: [alphaDataDiff, betaDataDiff],
        parameter_scaling: [alphaParamDiff, betaParamDiff],
        x: input(xDesc, xData),
        dy: input(dyDesc, dyData),
        dx: (dxDesc, dxData),
        dz: (dzDesc, dzData),
        parameters: (GRADIENTS, dBnScaleBiasDesc),
        numbers: [
            dBnScaleData,
            dBnBiasData,
            bnScaleData.cast_mut(),
            bnBiasData.cast_mut(),
            savedMean.cast_mut(),
            savedInvVariance.cast_mut(),
        ],
        names: ["dBnScaleData", "dBnBiasData", "bnScaleData", "bnBiasData", "savedMean", "savedInvVariance"],
        epsilon,
        activation: activationDesc,
        workspace: (workSpace, workSpaceSizeInBytes),
        reserve: (reserveSpace, reserveSpaceSizeInBytes),
    };
    // SAFETY: pointers are NULL or valid for the spans of their descriptors, factors for one read.
    unsafe { call.run() }
}

/// Bytes of workspace of cudnnBatchNormalizationForwardTrainingEx, at least 16: room for the sums of parts of long groups.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive, a NULL `sizeInBytes`, an unknown `mode`;
/// NOT_SUPPORTED and BAD_PARAM as the call itself for types and tensors; then, for mode SPATIAL_PERSISTENT, BAD_PARAM for
/// an unknown `bnOps` and descriptors that are needed and not there; in strict mode NOT_SUPPORTED for what cuDNN
/// does not fuse. Source: observed on 9.27.0.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    handle: cudnnHandle_t, mode: MaybeUninit<cudnnBatchNormMode_t>, bnOps: MaybeUninit<cudnnBatchNormOps_t>,
    xDesc: cudnnTensorDescriptor_t, zDesc: cudnnTensorDescriptor_t, yDesc: cudnnTensorDescriptor_t,
    bnScaleBiasMeanVarDesc: cudnnTensorDescriptor_t, activationDesc: cudnnActivationDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    context::check(handle)?;
    let (x, y) = (tensor::get(xDesc, "xDesc")?, tensor::get(yDesc, "yDesc")?);
    let parameters = tensor::get(bnScaleBiasMeanVarDesc, "bnScaleBiasMeanVarDesc")?;
    // SAFETY: `sizeInBytes` is NULL or valid for one write.
    let size = unsafe { Out::new(sizeInBytes, "sizeInBytes") }?;
    let mut query = Query {
        mode: arg::choice(mode, "mode")?,
        x: &x,
        others: &[("yDesc", &y)],
        added: None,
        parameters: Parameters { name: "bnScaleBiasMeanVarDesc", tensor: &parameters },
        forward: true,
    };
    query.check(Mode::current())?;
    let (mut follows, mut z) = (None, None);
    if query.mode == BatchNormMode::SpatialPersistent {
        (follows, z) = fused(arg::choice(bnOps, "bnOps")?, activationDesc, ("zDesc", zDesc))?;
    }
    query.added = z.as_ref().map(|z| ("zDesc", z));
    size.set(query.workspace_size(follows.as_ref(), Mode::current())?);
    Ok(())
}

/// Bytes of workspace of cudnnBatchNormalizationBackwardEx, at least 16: room for the sums of parts of long groups.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive, a NULL `sizeInBytes`, an unknown
/// `bnOps`, descriptors that are needed and not there, an unknown `mode`; NOT_SUPPORTED and BAD_PARAM as the call itself
/// for types and tensors; in strict mode NOT_SUPPORTED for what cuDNN does not fuse. Source: observed on 9.27.0.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    handle: cudnnHandle_t, mode: MaybeUninit<cudnnBatchNormMode_t>, bnOps: MaybeUninit<cudnnBatchNormOps_t>,
    xDesc: cudnnTensorDescriptor_t, yDesc: cudnnTensorDescriptor_t, dyDesc: cudnnTensorDescriptor_t,
    dzDesc: cudnnTensorDescriptor_t, dxDesc: cudnnTensorDescriptor_t,
    dBnScaleBiasDesc: cudnnTensorDescriptor_t, activationDesc: cudnnActivationDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    context::check(handle)?;
    let (x, dy) = (tensor::get(xDesc, "xDesc")?, tensor::get(dyDesc, "dyDesc")?);
    let (dx, parameters) = (tensor::get(dxDesc, "dxDesc")?, tensor::get(dBnScaleBiasDesc, GRADIENTS)?);
    // SAFETY: `sizeInBytes` is NULL or valid for one write.
    let size = unsafe { Out::new(sizeInBytes, "sizeInBytes") }?;
    let (follows, dz) = fused(arg::choice(bnOps, "bnOps")?, activationDesc, ("dzDesc", dzDesc))?;
    let query = Query {
        mode: arg::choice(mode, "mode")?,
        x: &x,
        others: &[("dxDesc", &dx), ("dyDesc", &dy)],
        added: dz.as_ref().map(|dz| ("dzDesc", dz)),
        parameters: Parameters { name: GRADIENTS, tensor: &parameters },
        forward: false,
    };
    query.check(Mode::current())?;
    size.set(query.workspace_size(follows.as_ref(), Mode::current())?);
    Ok(())
}

/// Bytes that the extended passes keep between forward and backward.
///
/// The slopes of the activation with `bnOps` 2 (a byte for each element after RELU and CLIPPED_RELU, else a number), 16
/// otherwise.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive, a NULL `sizeInBytes`, an unknown `mode`
/// or `bnOps`, an activation that is needed and not there; in strict mode NOT_SUPPORTED for what cuDNN does not
/// fuse. Source: observed on 9.27.0.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    handle: cudnnHandle_t, mode: MaybeUninit<cudnnBatchNormMode_t>, bnOps: MaybeUninit<cudnnBatchNormOps_t>,
    activationDesc: cudnnActivationDescriptor_t, xDesc: cudnnTensorDescriptor_t, sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    context::check(handle)?;
    let x = tensor::get(xDesc, "xDesc")?;
    results! {
        new sizeInBytes = {
            let mode = arg::choice(mode, "mode")?;
            let follows = follows(arg::choice(bnOps, "bnOps")?, activationDesc)?;
            training_reserve_size(mode, &x, follows.as_ref(), Mode::current())?
        },
    }
}
