//! The sizes that Normalization asks of its callers.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, Out, results};
use super::norm::{check_equal, check_groups, groups};
use super::normalise::{follows, fused};
use super::types::{
    cudnnActivationDescriptor_t, cudnnHandle_t, cudnnNormAlgo_t, cudnnNormMode_t, cudnnNormOps_t,
    cudnnStatus_t, cudnnTensorDescriptor_t,
};
use super::{context, tensor};
use crate::desc::normalization::{BatchNormMode, NormOps};
use crate::mode::Mode;
use crate::ops::batch_norm::{Parameters, Query, training_reserve_size};

/// Bytes of workspace of cudnnNormalizationForwardTraining, at least 16: room for the sums of parts of long groups.
///
/// Status, in this order: NOT_SUPPORTED if `groupCnt` is not 1; BAD_PARAM for an unknown `normOps`, and if
/// the descriptors of parameters and of statistics differ; NOT_SUPPORTED for an unknown mode or algorithm (in strict mode
/// also PER_ACTIVATION with PERSIST); then as cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetNormalizationForwardTrainingWorkspaceSize(
    handle: cudnnHandle_t, mode: MaybeUninit<cudnnNormMode_t>, normOps: MaybeUninit<cudnnNormOps_t>,
    algo: MaybeUninit<cudnnNormAlgo_t>, xDesc: cudnnTensorDescriptor_t, zDesc: cudnnTensorDescriptor_t,
    yDesc: cudnnTensorDescriptor_t, normScaleBiasDesc: cudnnTensorDescriptor_t,
    activationDesc: cudnnActivationDescriptor_t, normMeanVarDesc: cudnnTensorDescriptor_t,
    sizeInBytes: *mut usize, groupCnt: c_int,
) -> cudnnStatus_t {
    check_groups(groupCnt)?;
    let ops = arg::choice::<NormOps, _>(normOps, "normOps")?;
    check_equal(("normScaleBiasDesc", normScaleBiasDesc), normMeanVarDesc)?;
    let mode = groups(mode, algo)?;
    context::check(handle)?;
    let (x, y) = (tensor::get(xDesc, "xDesc")?, tensor::get(yDesc, "yDesc")?);
    let parameters = tensor::get(normScaleBiasDesc, "normScaleBiasDesc")?;
    // SAFETY: `sizeInBytes` is NULL or valid for one write.
    let size = unsafe { Out::new(sizeInBytes, "sizeInBytes") }?;
    let mut query = Query {
        mode,
        x: &x,
        others: &[("yDesc", &y)],
        added: None,
        parameters: Parameters { name: "normScaleBiasDesc", tensor: &parameters },
        forward: true,
    };
    query.check(Mode::current())?;
    let (mut follows, mut z) = (None, None);
    if mode == BatchNormMode::SpatialPersistent {
        (follows, z) = fused(ops, activationDesc, ("zDesc", zDesc))?;
    }
    query.added = z.as_ref().map(|z| ("zDesc", z));
    size.set(query.workspace_size(follows.as_ref(), Mode::current())?);
    Ok(())
}

/// Bytes of workspace of cudnnNormalizationBackward, at least 16: room for the sums of parts of long groups.
///
/// Status, in this order: NOT_SUPPORTED if `groupCnt` is not 1; BAD_PARAM for an unknown `normOps`, and if
/// the descriptors of parameters and of statistics differ; NOT_SUPPORTED for an unknown mode or algorithm (in strict mode
/// also PER_ACTIVATION with PERSIST); then as cudnnGetBatchNormalizationBackwardExWorkspaceSize.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetNormalizationBackwardWorkspaceSize(
    handle: cudnnHandle_t, mode: MaybeUninit<cudnnNormMode_t>, normOps: MaybeUninit<cudnnNormOps_t>,
    algo: MaybeUninit<cudnnNormAlgo_t>, xDesc: cudnnTensorDescriptor_t, yDesc: cudnnTensorDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t, dzDesc: cudnnTensorDescriptor_t, dxDesc: cudnnTensorDescriptor_t,
    dNormScaleBiasDesc: cudnnTensorDescriptor_t, activationDesc: cudnnActivationDescriptor_t,
    normMeanVarDesc: cudnnTensorDescriptor_t, sizeInBytes: *mut usize, groupCnt: c_int,
) -> cudnnStatus_t {
    check_groups(groupCnt)?;
    let ops = arg::choice::<NormOps, _>(normOps, "normOps")?;
    check_equal(("dNormScaleBiasDesc", dNormScaleBiasDesc), normMeanVarDesc)?;
    let mode = groups(mode, algo)?;
    context::check(handle)?;
    let (x, dy) = (tensor::get(xDesc, "xDesc")?, tensor::get(dyDesc, "dyDesc")?);
    let dx = tensor::get(dxDesc, "dxDesc")?;
    let parameters = tensor::get(dNormScaleBiasDesc, "dNormScaleBiasDesc")?;
    // SAFETY: `sizeInBytes` is NULL or valid for one write.
    let size = unsafe { Out::new(sizeInBytes, "sizeInBytes") }?;
    let (follows, dz) = fused(ops, activationDesc, ("dzDesc", dzDesc))?;
    let query = Query {
        mode,
        x: &x,
        others: &[("dxDesc", &dx), ("dyDesc", &dy)],
        added: dz.as_ref().map(|dz| ("dzDesc", dz)),
        parameters: Parameters { name: "dNormScaleBiasDesc", tensor: &parameters },
        forward: false,
    };
    query.check(Mode::current())?;
    size.set(query.workspace_size(follows.as_ref(), Mode::current())?);
    Ok(())
}

/// Bytes that cudnnNormalizationForwardTraining leaves for cudnnNormalizationBackward.
///
/// As cudnnGetBatchNormalizationTrainingExReserveSpaceSize tells.
///
/// Status, in this order: NOT_SUPPORTED if `groupCnt` is not 1; BAD_PARAM for an unknown `normOps`; NOT_SUPPORTED for an
/// unknown mode or algorithm (in strict mode also PER_ACTIVATION with PERSIST); then as there. Source: observed on 9.27.0.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetNormalizationTrainingReserveSpaceSize(
    handle: cudnnHandle_t, mode: MaybeUninit<cudnnNormMode_t>, normOps: MaybeUninit<cudnnNormOps_t>,
    algo: MaybeUninit<cudnnNormAlgo_t>, activationDesc: cudnnActivationDescriptor_t,
    xDesc: cudnnTensorDescriptor_t, sizeInBytes: *mut usize, groupCnt: c_int,
) -> cudnnStatus_t {
    check_groups(groupCnt)?;
    let ops = arg::choice::<NormOps, _>(normOps, "normOps")?;
    let mode = groups(mode, algo)?;
    context::check(handle)?;
    let x = tensor::get(xDesc, "xDesc")?;
    results! {
        new sizeInBytes = {
            let follows = follows(ops, activationDesc)?;
            training_reserve_size(mode, &x, follows.as_ref(), Mode::current())?
        },
    }
}
