//! Activation descriptors: create, set, get, destroy.

use std::mem::MaybeUninit;

use super::arg::{self, Out};
use super::guard::entry;
use super::lifecycle;
use super::slab::{Kind, Table};
use super::types::{
    cudnnActivationDescriptor_t, cudnnActivationMode_t, cudnnNanPropagation_t, cudnnStatus_t, raw,
};
use crate::desc::{ActivationDescriptor, Choice};

static ACTIVATIONS: Table<ActivationDescriptor> = Table::new(Kind::Activation);

/// What a descriptor holds.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn get(
    desc: cudnnActivationDescriptor_t,
    argument: &'static str,
) -> crate::error::Result<ActivationDescriptor> {
    ACTIVATIONS.get(desc.addr(), argument)
}

/// Creates an activation descriptor: sigmoid, and 1 as beta of swish.
///
/// Status: BAD_PARAM if `activationDesc` is NULL.
///
/// # Safety
/// `activationDesc` is NULL or valid for one write.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateActivationDescriptor(
    activationDesc: *mut cudnnActivationDescriptor_t,
) -> cudnnStatus_t {
    let name = "cudnnCreateActivationDescriptor";
    // SAFETY: as the caller promises.
    unsafe { lifecycle::create(name, &ACTIVATIONS, activationDesc, "activationDesc") }
}

/// Destroys an activation descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDestroyActivationDescriptor(
    activationDesc: cudnnActivationDescriptor_t,
) -> cudnnStatus_t {
    lifecycle::destroy("cudnnDestroyActivationDescriptor", &ACTIVATIONS, activationDesc, "activationDesc")
}

/// Sets mode, NaN rule and coefficient of an activation.
///
/// The coefficient, any value, is the ceiling of the clipped ReLU and the alpha of ELU. Beta of swish stays as it
/// is. A failing call changes nothing.
///
/// Status (observed on 9.27.0): BAD_PARAM for a descriptor that is not alive or an unknown mode or NaN rule.
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetActivationDescriptor(
    activationDesc: cudnnActivationDescriptor_t,
    mode: MaybeUninit<cudnnActivationMode_t>,
    reluNanOpt: MaybeUninit<cudnnNanPropagation_t>,
    coef: f64,
) -> cudnnStatus_t {
    let arguments = format_args!(
        "activationDesc={activationDesc:p}, mode={}, reluNanOpt={}, coef={coef}",
        raw(mode),
        raw(reluNanOpt)
    );
    entry("cudnnSetActivationDescriptor", arguments, || {
        ACTIVATIONS.with_mut(activationDesc.addr(), "activationDesc", |desc| {
            *desc = ActivationDescriptor {
                mode: arg::choice(mode, "mode")?,
                nan: arg::choice(reluNanOpt, "reluNanOpt")?,
                coefficient: coef,
                swish_beta: desc.swish_beta,
            };
            Ok(())
        })
    })
}

/// Reads mode, NaN rule and coefficient of an activation.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if any pointer is NULL (nothing is written then).
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetActivationDescriptor(
    activationDesc: cudnnActivationDescriptor_t,
    mode: *mut cudnnActivationMode_t,
    reluNanOpt: *mut cudnnNanPropagation_t,
    coef: *mut f64,
) -> cudnnStatus_t {
    entry("cudnnGetActivationDescriptor", format_args!("activationDesc={activationDesc:p}"), || {
        let desc = ACTIVATIONS.get(activationDesc.addr(), "activationDesc")?;
        // SAFETY: as the caller promises, for all of them.
        let (mode, nan, coefficient) = unsafe {
            (Out::code(mode, "mode")?, Out::code(reluNanOpt, "reluNanOpt")?, Out::new(coef, "coef")?)
        };
        mode.set(desc.mode.code());
        nan.set(desc.nan.code());
        coefficient.set(desc.coefficient);
        Ok(())
    })
}

/// Sets beta of the swish activation to any value.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetActivationDescriptorSwishBeta(
    activationDesc: cudnnActivationDescriptor_t,
    swish_beta: f64,
) -> cudnnStatus_t {
    let arguments = format_args!("activationDesc={activationDesc:p}, swish_beta={swish_beta}");
    entry("cudnnSetActivationDescriptorSwishBeta", arguments, || {
        ACTIVATIONS.with_mut(activationDesc.addr(), "activationDesc", |desc| {
            desc.swish_beta = swish_beta;
            Ok(())
        })
    })
}

/// Reads beta of the swish activation, 1 before it is set.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if `swish_beta` is NULL.
///
/// # Safety
/// `swish_beta` is NULL or valid for one write.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetActivationDescriptorSwishBeta(
    activationDesc: cudnnActivationDescriptor_t,
    swish_beta: *mut f64,
) -> cudnnStatus_t {
    entry("cudnnGetActivationDescriptorSwishBeta", format_args!("activationDesc={activationDesc:p}"), || {
        let desc = ACTIVATIONS.get(activationDesc.addr(), "activationDesc")?;
        // SAFETY: as the caller promises.
        unsafe { Out::new(swish_beta, "swish_beta") }?.set(desc.swish_beta);
        Ok(())
    })
}
