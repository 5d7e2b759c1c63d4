//! Descriptors of the parameters and statistics of a normalisation.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::types::{cudnnBatchNormMode_t, cudnnNormMode_t, cudnnStatus_t, cudnnTensorDescriptor_t};
use super::{arg, tensor};
use crate::desc::normalization::{BatchNormMode, NormMode, parameters};
use crate::error::Error;
use crate::mode::Mode;

/// Sets a descriptor to the tensor of scale, bias, mean or variance of a batch normalisation of x.
///
/// Packed NCHW: `1 x C x spatial` per activation, `1 x C x 1 x ...` spatial; C as stored. HALF, BFLOAT16 and INT8
/// become FLOAT, other types stay. The two descriptors may be the same.
///
/// Status: BAD_PARAM for a descriptor that is not alive, an unknown mode, or an x that was never set.
///
/// Source: observed on 9.27.0.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDeriveBNTensorDescriptor(
    derivedBnDesc: cudnnTensorDescriptor_t, xDesc: cudnnTensorDescriptor_t,
    mode: MaybeUninit<cudnnBatchNormMode_t>,
) -> cudnnStatus_t {
    let x = tensor::get(xDesc, "xDesc")?;
    let per_activation = arg::choice::<BatchNormMode, _>(mode, "mode")? == BatchNormMode::PerActivation;
    tensor::put(derivedBnDesc, "derivedBnDesc", parameters(&x, per_activation, Mode::current())?)
}

/// Sets two descriptors to the tensor of scale and bias, and of mean and variance, of a normalisation of x.
///
/// Both get the same content, which is that of cudnnDeriveBNTensorDescriptor.
///
/// Status, in this order: NOT_SUPPORTED if `groupCnt` is not 1; BAD_PARAM for a descriptor that is not alive, an
/// unknown mode, or an x that was never set. If only `derivedNormMeanVarDesc` is bad, the other one is set all the
/// same.
///
/// Source: observed on 9.27.0.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDeriveNormTensorDescriptor(
    derivedNormScaleBiasDesc: cudnnTensorDescriptor_t, derivedNormMeanVarDesc: cudnnTensorDescriptor_t,
    xDesc: cudnnTensorDescriptor_t, mode: MaybeUninit<cudnnNormMode_t>, groupCnt: c_int,
) -> cudnnStatus_t {
    if groupCnt != 1 {
        return Err(Error::unsupported(format!("groupCnt = {groupCnt}: there is 1 group")));
    }
    let x = tensor::get(xDesc, "xDesc")?;
    let per_activation = arg::choice::<NormMode, _>(mode, "mode")? == NormMode::PerActivation;
    let derived = parameters(&x, per_activation, Mode::current())?;
    tensor::put(derivedNormScaleBiasDesc, "derivedNormScaleBiasDesc", derived)?;
    tensor::put(derivedNormMeanVarDesc, "derivedNormMeanVarDesc", derived)
}
