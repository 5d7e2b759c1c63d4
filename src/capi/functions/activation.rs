//! Activations: their descriptors, and the two calls.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, operands, results};
use super::beside::twinned;
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{
    cudnnActivationDescriptor_t, cudnnActivationMode_t, cudnnHandle_t, cudnnNanPropagation_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use super::{beside_graph, context, tensor, transform};
use crate::desc::{ActivationDescriptor, Choice};
use crate::error::Result;
use crate::mode::Mode;
use crate::ops::ActivationPlan;
use crate::ops::activation::{Saved, saved};
use crate::original::Legacy;

static ACTIVATIONS: Table<ActivationDescriptor> = Table::new(Kind::Activation);
twinned!(cudnnActivationDescriptor_t, ACTIVATIONS);

/// A copy of the descriptor behind a handle.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn get(desc: cudnnActivationDescriptor_t, argument: &'static str) -> Result<ActivationDescriptor> {
    ACTIVATIONS.get(desc.addr(), argument)
}

/// Replaces what a descriptor holds.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn put(
    desc: cudnnActivationDescriptor_t, argument: &'static str, value: ActivationDescriptor,
) -> Result<()> {
    ACTIVATIONS.replace(desc.addr(), argument, || Ok(value))
}

/// Creates an activation descriptor: sigmoid, and 1 as beta of swish.
///
/// Status: BAD_PARAM if `activationDesc` is NULL.
///
/// # Safety
/// `activationDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateActivationDescriptor(
    activationDesc: *mut cudnnActivationDescriptor_t,
) -> cudnnStatus_t {
    create!(activationDesc, ACTIVATIONS)
}

/// Destroys an activation descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDestroyActivationDescriptor(
    activationDesc: cudnnActivationDescriptor_t,
) -> cudnnStatus_t {
    destroy!(activationDesc, ACTIVATIONS)
}

/// Sets mode, NaN rule and coefficient of an activation.
///
/// The coefficient, any value, is the ceiling of the clipped ReLU and the alpha of ELU. Beta of swish stays as it
/// is. A failing call changes nothing.
///
/// Status: BAD_PARAM for a descriptor that is not alive or an unknown mode or NaN rule.
///
/// Source: observed on 9.27.0.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetActivationDescriptor(
    activationDesc: cudnnActivationDescriptor_t, mode: MaybeUninit<cudnnActivationMode_t>,
    reluNanOpt: MaybeUninit<cudnnNanPropagation_t>, coef: f64,
) -> cudnnStatus_t {
    ACTIVATIONS.with_mut(activationDesc.addr(), "activationDesc", |desc| {
        *desc = ActivationDescriptor {
            mode: arg::choice(mode, "mode")?,
            nan: arg::choice(reluNanOpt, "reluNanOpt")?,
            coefficient: coef,
            swish_beta: desc.swish_beta,
        };
        Ok(())
    })
}

/// Reads mode, NaN rule and coefficient of an activation.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if any pointer is NULL (nothing is written then).
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetActivationDescriptor(
    activationDesc: cudnnActivationDescriptor_t, mode: *mut cudnnActivationMode_t,
    reluNanOpt: *mut cudnnNanPropagation_t, coef: *mut f64,
) -> cudnnStatus_t {
    let desc = ACTIVATIONS.get(activationDesc.addr(), "activationDesc")?;
    results! {
        code mode = desc.mode.code(),
        code reluNanOpt = desc.nan.code(),
        new coef = desc.coefficient,
    }
}

/// Sets beta of the swish activation to any value.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetActivationDescriptorSwishBeta(
    activationDesc: cudnnActivationDescriptor_t, swish_beta: f64,
) -> cudnnStatus_t {
    ACTIVATIONS.with_mut(activationDesc.addr(), "activationDesc", |desc| {
        desc.swish_beta = swish_beta;
        Ok(())
    })
}

/// Reads beta of the swish activation, 1 before it is set.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if `swish_beta` is NULL.
///
/// # Safety
/// `swish_beta` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetActivationDescriptorSwishBeta(
    activationDesc: cudnnActivationDescriptor_t, swish_beta: *mut f64,
) -> cudnnStatus_t {
    let desc = ACTIVATIONS.get(activationDesc.addr(), "activationDesc")?;
    results!(new swish_beta = desc.swish_beta)
}

/// `y = alpha * f(x) + beta * y`, element by element.
///
/// With c the coefficient and b the beta of swish, f is: SIGMOID `1 / (1 + exp(-x))`; RELU `max(x, 0)`; TANH; CLIPPED_RELU
/// `min(max(x, 0), c)`; ELU `x` above 0, else `c (exp(x) - 1)`; IDENTITY `x`; SWISH `x / (1 + exp(-b x))`. A NaN gives a
/// NaN, but for the two ReLUs with CUDNN_NOT_PROPAGATE_NAN, of which it is 0.
///
/// Computed in `float`, for DOUBLE, INT32 and INT64 in `double`; exp and tanh are within 2 units in the last place, with the
/// same bits on both cores. The result is rounded once, to nearest even; integers saturate.
///
/// Operands
/// - `alpha`, `beta`: on the host, `double` if y is DOUBLE, else `float`. With beta = 0, y is not read.
/// - `x`, `y`: tensors of one type and the same dims, of any rank from 2 to 8, any strides and layouts each; on the host
///   for the CPU core, on the device for the CUDA core; aligned to one element.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL factors; NULL data, or data off its element's alignment.
/// - BAD_PARAM: ranks that differ; in strict mode 2 dimensions.
/// - BAD_PARAM: x = y with different strides; dims or types that differ; in strict mode IDENTITY.
/// - NOT_SUPPORTED, in strict mode: strides of 0 and below; types other than FLOAT, DOUBLE, HALF, BFLOAT16 and INT8; 3 and 6
///   to 8 dimensions with gaps or with strides that differ.
/// - NOT_SUPPORTED: NCHW_VECT_C of a type of one channel. BAD_PARAM: y repeats an address through stride 0.
///
/// Aliasing: x may be y with the same strides. The CPU core takes any other overlap, as if all of x were read first; the CUDA
/// core refuses it with NOT_SUPPORTED. A failing call writes nothing.
///
/// Source: checks and their order observed on 9.27.0; formulas from the vendor's documentation of the modes.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; `x` is NULL or valid for reads of the whole span of `xDesc`, `y` for
/// reads and writes of that of `yDesc`; no other thread writes either meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnActivationForward(
    handle: cudnnHandle_t, activationDesc: cudnnActivationDescriptor_t, alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t, x: *const c_void, beta: *const c_void, yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
) -> cudnnStatus_t {
    let desc = || get(activationDesc, "activationDesc");
    let make = |desc, tensors, factors| Legacy::Activation { desc, tensors, factors };
    let (pair, scaling) = ([(xDesc, x.cast_mut()), (yDesc, y)], [alpha, beta]);
    // SAFETY: the caller vouches for the spans of the descriptors, and for the factors.
    let theirs =
        unsafe { beside_graph::run_pair(handle, "cudnnActivationForward", desc, make, pair, scaling) };
    if let Some(theirs) = theirs {
        return theirs;
    }
    context::compute(handle, "cudnnActivationForward", |call| {
        let activation = ACTIVATIONS.get(activationDesc.addr(), "activationDesc")?;
        let (from, to) = (tensor::get(xDesc, "xDesc")?, tensor::get(yDesc, "yDesc")?);
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, to.data_type()) }?;
        tensor::data(x, &from, "x")?;
        tensor::data(y, &to, "y")?;
        let in_place = x.addr() == y.addr();
        let plan = ActivationPlan::forward(&activation, [&from, &to], scaling, in_place, Mode::current())?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands![y, x]) }
    })
}

/// `dx = alpha * f'(x) * dy + beta * dx`, element by element.
///
/// SIGMOID `y (1 - y)`, TANH `1 - y y` and ELU (1 above 0, else `y + c`) are computed from y; RELU (1 above 0, else 0),
/// CLIPPED_RELU (1 between 0 and c, else 0) and SWISH `s + b x s (1 - s)`, where s is `1 / (1 + exp(-b x))`, from x;
/// IDENTITY from neither. Where the gradient of a ReLU is 0, dy does not matter, even if it is a NaN.
///
/// Operands
/// - `alpha`, `beta`: on the host, `double` if dx is DOUBLE, else `float`. With beta = 0, dx is not read.
/// - `dy`, `dx`, and `y` or `x`, whichever the function is computed from: tensors of the same dims, of any rank from 2 to
///   8, any types, strides and layouts each; memory as in cudnnActivationForward. The other one of `y` and `x` and its
///   descriptor may be NULL; strict mode looks at the descriptor where there are not 4 or 5 dimensions.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL factors; NULL data, or data off its element's alignment.
/// - BAD_PARAM: ranks that differ; in strict mode 2 dimensions.
/// - BAD_PARAM: dx = dy with different strides; in strict mode IDENTITY.
/// - NOT_SUPPORTED: dims that differ; in strict mode types and strides that differ, types other than FLOAT, DOUBLE, HALF and
///   BFLOAT16, strides of 0 and below, 3 and 6 to 8 dimensions with gaps.
/// - NOT_SUPPORTED: NCHW_VECT_C of a type of one channel. BAD_PARAM: dx repeats an address through stride 0.
///
/// Aliasing: dx may be dy, x or y with the same strides. The CPU core takes any other overlap, as if all were read first; the
/// CUDA core refuses it with NOT_SUPPORTED. A failing call writes nothing.
///
/// Source: checks, their order, and what is read observed on 9.27.0; formulas are the derivatives.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; the operands are NULL or valid for reads of the whole spans of their
/// descriptors, `dx` for reads and writes; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnActivationBackward(
    handle: cudnnHandle_t, activationDesc: cudnnActivationDescriptor_t, alpha: *const c_void,
    yDesc: cudnnTensorDescriptor_t, y: *const c_void, dyDesc: cudnnTensorDescriptor_t, dy: *const c_void,
    xDesc: cudnnTensorDescriptor_t, x: *const c_void, beta: *const c_void, dxDesc: cudnnTensorDescriptor_t,
    dx: *mut c_void,
) -> cudnnStatus_t {
    // From x, of which the functions' gradients are known too where these calls take y.
    let legacy = || {
        let desc = ACTIVATIONS.get(activationDesc.addr(), "activationDesc")?;
        let (kept, gradient) = (tensor::get(xDesc, "xDesc")?, tensor::get(dyDesc, "dyDesc")?);
        let to = tensor::get(dxDesc, "dxDesc")?;
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, to.data_type()) }?;
        let tensors = [kept, gradient, to];
        Ok(Legacy::ActivationGradient { desc, tensors, factors: beside_graph::factors(scaling) })
    };
    let data = [x.cast_mut(), dy.cast_mut(), dx];
    // SAFETY: the caller vouches for the spans of the descriptors.
    let theirs = unsafe { beside_graph::run_alone(handle, "cudnnActivationBackward", legacy, &data) };
    if let Some(theirs) = theirs {
        return theirs;
    }
    context::compute(handle, "cudnnActivationBackward", |call| {
        let activation = ACTIVATIONS.get(activationDesc.addr(), "activationDesc")?;
        let (from, unused) = match saved(activation.mode) {
            Saved::Argument => ((xDesc, "xDesc", x, "x"), (yDesc, y, "y")),
            Saved::Result => ((yDesc, "yDesc", y, "y"), (xDesc, x, "x")),
        };
        let other = tensor::get(unused.0, "the other descriptor").ok();
        let kept = tensor::get(from.0, from.1)?;
        let (gradient, to) = (tensor::get(dyDesc, "dyDesc")?, tensor::get(dxDesc, "dxDesc")?);
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, to.data_type()) }?;
        tensor::data(from.2, &kept, from.3)?;
        tensor::data(dy, &gradient, "dy")?;
        tensor::data(dx, &to, "dx")?;
        let in_place = dx.addr() == dy.addr();
        let tensors = [&kept, &gradient, &to];
        let mode = Mode::current();
        let plan = ActivationPlan::backward(&activation, tensors, other.as_ref(), scaling, in_place, mode)?;
        let [dx, dy] = operands![dx, dy];
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors, which are the
        // plan's; the last one is not followed.
        unsafe { call.run(&plan, [dx, dy, (from.3, from.2.into()), (unused.2, unused.1.into())]) }
    })
}
