//! Algorithms of recurrent networks as version 8 chose them: plans of persistent ones, descriptors, and how many there are.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{Out, results};
use super::lifecycle::destroy;
use super::slab::{Kind, Table};
use super::types::{
    cudnnAlgorithmDescriptor_t, cudnnDataType_t, cudnnHandle_t, cudnnPersistentRNNPlan_t,
    cudnnRNNDescriptor_t, cudnnStatus_t, raw,
};
use super::{algorithm, context, rnn};
use crate::error::Error;

/// Algorithms of a recurrent network: no core has a choice.
pub(super) const ALGORITHMS: c_int = 1;

/// A plan holds nothing that a core needs.
static PLANS: Table<()> = Table::new(Kind::PersistentPlan);

/// Creates a plan for a persistent network and a batch size.
///
/// It is a handle that programs need: no core of this library builds kernels for a batch size. cuDNN compiles them with the
/// runtime compiler of CUDA.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive, or if `plan` is NULL; BAD_PARAM for a `minibatch`
/// below 1, NOT_SUPPORTED for types other than FLOAT, DOUBLE and HALF (`*plan` is NULL then).
///
/// Source: observed on 8.9.7, which also refuses machines without that compiler.
///
/// # Safety
/// `plan` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreatePersistentRNNPlan(
    rnnDesc: cudnnRNNDescriptor_t, minibatch: c_int, dataType: MaybeUninit<cudnnDataType_t>,
    plan: *mut cudnnPersistentRNNPlan_t,
) -> cudnnStatus_t {
    rnn::get(rnnDesc)?;
    // SAFETY: `plan` is NULL or valid for one write.
    let out = unsafe { Out::new(plan, "plan") }?;
    out.set(std::ptr::null_mut());
    if minibatch < 1 {
        return Err(Error::argument("minibatch", minibatch.into(), "at least 1"));
    }
    if !(0..=2).contains(&raw(dataType)) {
        let text = format!("dataType = {}: persistent plans are of FLOAT, DOUBLE or HALF", raw(dataType));
        return Err(Error::unsupported(text));
    }
    out.set(std::ptr::without_provenance_mut(PLANS.insert(())?));
    Ok(())
}

/// Destroys a plan for a persistent network; NULL is fine.
///
/// Status: BAD_PARAM for a plan that is not alive.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDestroyPersistentRNNPlan(plan: cudnnPersistentRNNPlan_t) -> cudnnStatus_t {
    destroy!(plan, PLANS)
}

/// Gives a plan to a network. The network computes the same without one.
///
/// Status: BAD_PARAM for a descriptor or a plan that is not alive.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetPersistentRNNPlan(
    rnnDesc: cudnnRNNDescriptor_t, plan: cudnnPersistentRNNPlan_t,
) -> cudnnStatus_t {
    rnn::get(rnnDesc)?;
    PLANS.get(plan.addr(), "plan")
}

/// Gives an algorithm to a network.
///
/// No core of this library has a choice: the network keeps the one that it was set with, which cudnnGetRNNDescriptor_v6 reads.
///
/// Status: BAD_PARAM for a handle or descriptor that is not alive.
///
/// Source: observed on 8.9.7.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetRNNAlgorithmDescriptor(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, algoDesc: cudnnAlgorithmDescriptor_t,
) -> cudnnStatus_t {
    context::check(handle)?;
    rnn::get(rnnDesc)?;
    algorithm::check(algoDesc)
}

/// The most results that a search for algorithms of inference gives: 1.
///
/// Status: BAD_PARAM for a descriptor that is not alive, or if `count` is NULL. The handle is not looked at.
///
/// Source: observed on 8.9.7, which says more.
///
/// # Safety
/// `count` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNForwardInferenceAlgorithmMaxCount(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, count: *mut c_int,
) -> cudnnStatus_t {
    rnn::get(rnnDesc)?;
    results!(new count = ALGORITHMS)
}

/// The most results that a search for algorithms of training gives: 1.
///
/// Status: BAD_PARAM for a descriptor that is not alive, or if `count` is NULL. The handle is not looked at.
///
/// Source: observed on 8.9.7, which says more.
///
/// # Safety
/// `count` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNForwardTrainingAlgorithmMaxCount(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, count: *mut c_int,
) -> cudnnStatus_t {
    rnn::get(rnnDesc)?;
    results!(new count = ALGORITHMS)
}

/// The most results that a search for algorithms of gradients by the data gives: 1.
///
/// Status: BAD_PARAM for a descriptor that is not alive, or if `count` is NULL. The handle is not looked at.
///
/// Source: observed on 8.9.7, which says more.
///
/// # Safety
/// `count` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNBackwardDataAlgorithmMaxCount(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, count: *mut c_int,
) -> cudnnStatus_t {
    rnn::get(rnnDesc)?;
    results!(new count = ALGORITHMS)
}

/// The most results that a search for algorithms of gradients by the weights gives: 1.
///
/// Status: BAD_PARAM for a descriptor that is not alive, or if `count` is NULL. The handle is not looked at.
///
/// Source: observed on 8.9.7, which says more.
///
/// # Safety
/// `count` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNBackwardWeightsAlgorithmMaxCount(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, count: *mut c_int,
) -> cudnnStatus_t {
    rnn::get(rnnDesc)?;
    results!(new count = ALGORITHMS)
}
