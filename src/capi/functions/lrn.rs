//! Descriptors of local response and divisive normalisation: create, set, get, destroy.

use std::ffi::{c_uint, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, operands};
use super::beside::twinned;
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{
    cudnnDivNormMode_t, cudnnHandle_t, cudnnLRNDescriptor_t, cudnnLRNMode_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use super::{context, tensor, transform};
use crate::desc::LrnDescriptor;
use crate::mode::Mode;
use crate::ops::{Scaling, response};

static LRNS: Table<LrnDescriptor> = Table::new(Kind::Lrn);
twinned!(cudnnLRNDescriptor_t, LRNS);

/// Creates the descriptor of a local response normalisation: n 5, alpha 1e-4, beta 0.75, k 2.
///
/// Status: BAD_PARAM if `normDesc` is NULL.
///
/// # Safety
/// `normDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateLRNDescriptor(normDesc: *mut cudnnLRNDescriptor_t) -> cudnnStatus_t {
    create!(normDesc, LRNS)
}

/// Destroys the descriptor of a local response normalisation; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroyLRNDescriptor(lrnDesc: cudnnLRNDescriptor_t) -> cudnnStatus_t {
    destroy!(lrnDesc, LRNS)
}

/// Sets window and coefficients of a local response normalisation.
///
/// `y = x / (k + alpha / n * sum x^2)^beta` over n neighbours. A failing call changes nothing.
///
/// Status: BAD_PARAM for a descriptor that is not alive, n outside 1 to 16, beta below 0.01, or k below 1e-5; NaN
/// passes.
///
/// Source: observed on 9.27.0.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetLRNDescriptor(
    normDesc: cudnnLRNDescriptor_t, lrnN: c_uint, lrnAlpha: f64, lrnBeta: f64, lrnK: f64,
) -> cudnnStatus_t {
    LRNS.replace(normDesc.addr(), "normDesc", || LrnDescriptor::new(lrnN, lrnAlpha, lrnBeta, lrnK))
}

/// Reads window and coefficients of a local response normalisation.
///
/// A NULL output is left out.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetLRNDescriptor(
    normDesc: cudnnLRNDescriptor_t, lrnN: *mut c_uint, lrnAlpha: *mut f64, lrnBeta: *mut f64, lrnK: *mut f64,
) -> cudnnStatus_t {
    let lrn = LRNS.get(normDesc.addr(), "normDesc")?;
    // SAFETY: every place is NULL or valid for one write.
    unsafe {
        arg::set_optional(lrnN, lrn.n());
        arg::set_optional(lrnAlpha, lrn.alpha());
        arg::set_optional(lrnBeta, lrn.beta());
        arg::set_optional(lrnK, lrn.k());
    }
    Ok(())
}

/// `y = alpha * x * (k + lrnAlpha / n * sum x^2)^-lrnBeta + beta * y` over n neighbouring channels.
///
/// The channels of c are those from `c - (n - 1) / 2` (rounded down) on, n of them, as far as there are; n below the
/// fraction line does not change at the edges. Computed in float, in double for DOUBLE and the wide integers; powers
/// of 1/2, 3/4 and 1 by roots and quotients, others by the exponential of a logarithm.
///
/// Operands
/// - `x`: 3 to 8 dimensions, any type, strides and layout; device memory on the CUDA core.
/// - `y`: dims and type of x, its own strides and layout. With beta = 0 it is never read.
/// - `lrnMode`: not looked at. `alpha`, `beta`: host `double` if y is DOUBLE, else `float`.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a tensor descriptor that is not alive; NULL data, or data off its element's alignment.
/// - BAD_PARAM: x of less than 3 dimensions; ranks that differ.
/// - NOT_SUPPORTED, in strict mode: other types than FLOAT, DOUBLE, HALF and INT8; negative strides.
/// - BAD_PARAM: dims or types that differ; in strict mode, of more than 4 dimensions, spatial ones with gaps.
/// - NOT_SUPPORTED, in strict mode: N above 65535. NOT_SUPPORTED: NCHW_VECT_C of a type of one channel.
/// - BAD_PARAM: y repeats an address through stride 0; a handle or `normDesc` that is not alive; NULL factors.
///
/// Aliasing: x and y may overlap on the CPU core, as if all of x were read first; the CUDA core refuses it with
/// NOT_SUPPORTED.
///
/// Source: statuses observed on 9.27.0; the formula of the vendor's documentation.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; data pointers that are not ignored are NULL or valid for reads of
/// the whole span of their descriptors, destinations for writes as well; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnLRNCrossChannelForward(
    handle: cudnnHandle_t, normDesc: cudnnLRNDescriptor_t, lrnMode: MaybeUninit<cudnnLRNMode_t>,
    alpha: *const c_void, xDesc: cudnnTensorDescriptor_t, x: *const c_void, beta: *const c_void,
    yDesc: cudnnTensorDescriptor_t, y: *mut c_void,
) -> cudnnStatus_t {
    let (from, to) = (tensor::get(xDesc, "xDesc")?, tensor::get(yDesc, "yDesc")?);
    tensor::data(x, &from, "x")?;
    tensor::data(y, &to, "y")?;
    // SAFETY: both factors are NULL or one readable number of their type.
    let scaling = unsafe { transform::scaling(alpha, beta, to.data_type()) };
    let desc = LRNS.get(normDesc.addr(), "normDesc");
    let plan = |desc, scaling| response::cross_channel(&desc, &from, &to, scaling, Mode::current());
    // What the original refuses of the tensors comes before all else.
    plan(desc.clone().unwrap_or_default(), scaling.clone().unwrap_or(Scaling::MOVE))?;
    context::compute(handle, "cudnnLRNCrossChannelForward", |call| {
        let plan = plan(desc?, scaling?)?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands![y, x]) }
    })
}

/// `dx = alpha * (dy * s^-b - 2 * b * lrnAlpha / n * x * sum dy' * x' * s'^(-b - 1)) + beta * dx`
///
/// The gradient of cudnnLRNCrossChannelForward: s is `k + lrnAlpha / n * sum x^2` of a channel, b is lrnBeta, and the sum goes
/// over the channels whose windows hold this one.
///
/// Operands
/// - `y` and its descriptor: ignored, NULL included; sums are computed anew.
/// - `dy`, `x`: 3 to 8 dimensions of equal dims, any type, strides and layout each; device memory on the CUDA core.
/// - `dx`: the same dims. With beta = 0 it is never read.
/// - `lrnMode`: not looked at. `alpha`, `beta`: host `double` if dx is DOUBLE, else `float`.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a tensor descriptor that is not alive; NULL data, or data off its element's alignment.
/// - BAD_PARAM: x of less than 3 dimensions.
/// - NOT_SUPPORTED, in strict mode: other types than FLOAT, DOUBLE and HALF; negative strides.
/// - NOT_SUPPORTED: dims that differ; in strict mode types that differ and, of more than 4 dimensions, spatial ones with
///   gaps. NOT_SUPPORTED: NCHW_VECT_C of a type of one channel.
/// - BAD_PARAM: dx repeats an address through stride 0; a handle or `normDesc` that is not alive; NULL factors.
///
/// Aliasing: dx may overlap x and dy on the CPU core, as if both were read first; the CUDA core refuses it with
/// NOT_SUPPORTED.
///
/// Source: statuses observed on 9.27.0.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; data pointers that are not ignored are NULL or valid for reads of
/// the whole span of their descriptors, destinations for writes as well; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnLRNCrossChannelBackward(
    handle: cudnnHandle_t, normDesc: cudnnLRNDescriptor_t, lrnMode: MaybeUninit<cudnnLRNMode_t>,
    alpha: *const c_void, yDesc: cudnnTensorDescriptor_t, y: *const c_void, dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void, xDesc: cudnnTensorDescriptor_t, x: *const c_void, beta: *const c_void,
    dxDesc: cudnnTensorDescriptor_t, dx: *mut c_void,
) -> cudnnStatus_t {
    let (out, from) = (tensor::get(dyDesc, "dyDesc")?, tensor::get(xDesc, "xDesc")?);
    let to = tensor::get(dxDesc, "dxDesc")?;
    tensor::data(dy, &out, "dy")?;
    tensor::data(x, &from, "x")?;
    tensor::data(dx, &to, "dx")?;
    // SAFETY: both factors are NULL or one readable number of their type.
    let scaling = unsafe { transform::scaling(alpha, beta, to.data_type()) };
    let desc = LRNS.get(normDesc.addr(), "normDesc");
    let plan =
        |desc, scaling| response::cross_channel_gradient(&desc, &out, &from, &to, scaling, Mode::current());
    // What the original refuses of the tensors comes before all else.
    plan(desc.clone().unwrap_or_default(), scaling.clone().unwrap_or(Scaling::MOVE))?;
    context::compute(handle, "cudnnLRNCrossChannelBackward", |call| {
        let plan = plan(desc?, scaling?)?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands![dx, x, dy]) }
    })
}

/// `y = alpha * x * (k + lrnAlpha / n^d * sum (x' - m)^2)^-lrnBeta + beta * y` over a window.
///
/// The window has n neighbours along each of the d spatial dimensions; m is the mean at the output.
/// The window of a position begins `(n - 1) / 2` (rounded down) in front of it; neighbours beyond the edge are left out.
/// Computed as cudnnLRNCrossChannelForward is.
///
/// Operands
/// - `x`, `means`: 3 to 5 dimensions, any type, strides and layout; device memory on the CUDA core. `means` has the
///   descriptor of x; NULL stands for zeros.
/// - `temp`, `temp2`: not touched, but not NULL.
/// - `y`: dims and type of x, its own strides and layout. With beta = 0 it is never read.
/// - `mode`: not looked at. `alpha`, `beta`: host `double` if y is DOUBLE, else `float`.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; a NULL pointer, or data off its element's alignment.
/// - BAD_PARAM: other than 3 to 5 dimensions, in strict mode than 4 and 5; dims or types that differ; a negative stride.
/// - NOT_SUPPORTED, in strict mode: other types than FLOAT, DOUBLE and HALF; strides that differ.
/// - NOT_SUPPORTED: NCHW_VECT_C of a type of one channel. BAD_PARAM: y repeats an address through stride 0.
///
/// Aliasing: as for cudnnLRNCrossChannelForward.
///
/// Source: statuses and, of a GPU, the formula observed on 9.27.0.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; data pointers that are not ignored are NULL or valid for reads of
/// the whole span of their descriptors, destinations for writes as well; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDivisiveNormalizationForward(
    handle: cudnnHandle_t, normDesc: cudnnLRNDescriptor_t, mode: MaybeUninit<cudnnDivNormMode_t>,
    alpha: *const c_void, xDesc: cudnnTensorDescriptor_t, x: *const c_void, means: *const c_void,
    temp: *mut c_void, temp2: *mut c_void, beta: *const c_void, yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnDivisiveNormalizationForward", |call| {
        let desc = LRNS.get(normDesc.addr(), "normDesc")?;
        let (from, to) = (tensor::get(xDesc, "xDesc")?, tensor::get(yDesc, "yDesc")?);
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, to.data_type()) }?;
        tensor::data(x, &from, "x")?;
        if !means.is_null() {
            tensor::data(means, &from, "means")?;
        }
        arg::required(temp, "temp")?;
        arg::required(temp2, "temp2")?;
        tensor::data(y, &to, "y")?;
        let plan = response::divisive(&desc, &from, &to, !means.is_null(), scaling, Mode::current())?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands![y, x, means]) }
    })
}

/// `dx`, `dMeans`: the gradients of cudnnDivisiveNormalizationForward, exact for even n as well.
///
/// Operands
/// - `x`, `means`, `dy`: as for the forward call, all of them with the descriptor of x; `means` may be NULL.
/// - `temp`, `temp2`: not touched, but not NULL.
/// - `dx`, `dMeans`: dims and type of x, strides and layout of their own descriptor; `dMeans` may be NULL. Both are blended
///   by alpha and beta; with beta = 0 they are never read.
/// - `mode`: not looked at. `alpha`, `beta`: host `double` if dx is DOUBLE, else `float`.
///
/// Workspace: none.
///
/// Status, in this order: as cudnnDivisiveNormalizationForward, with dx in the place of y; BAD_PARAM if dx and dMeans overlap.
///
/// Aliasing: dx and dMeans may overlap what is read on the CPU core, as if all of it were read first; the CUDA core
/// refuses it with NOT_SUPPORTED.
///
/// Source: statuses observed on 9.27.0.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; data pointers that are not ignored are NULL or valid for reads of
/// the whole span of their descriptors, destinations for writes as well; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDivisiveNormalizationBackward(
    handle: cudnnHandle_t, normDesc: cudnnLRNDescriptor_t, mode: MaybeUninit<cudnnDivNormMode_t>,
    alpha: *const c_void, xDesc: cudnnTensorDescriptor_t, x: *const c_void, means: *const c_void,
    dy: *const c_void, temp: *mut c_void, temp2: *mut c_void, beta: *const c_void,
    dXdMeansDesc: cudnnTensorDescriptor_t, dx: *mut c_void, dMeans: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnDivisiveNormalizationBackward", |call| {
        let desc = LRNS.get(normDesc.addr(), "normDesc")?;
        let (from, to) = (tensor::get(xDesc, "xDesc")?, tensor::get(dXdMeansDesc, "dXdMeansDesc")?);
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, to.data_type()) }?;
        tensor::data(x, &from, "x")?;
        tensor::data(dy, &from, "dy")?;
        if !means.is_null() {
            tensor::data(means, &from, "means")?;
        }
        arg::required(temp, "temp")?;
        arg::required(temp2, "temp2")?;
        tensor::data(dx, &to, "dx")?;
        if !dMeans.is_null() {
            tensor::data(dMeans, &to, "dMeans")?;
        }
        let (given, wanted) = (!means.is_null(), !dMeans.is_null());
        let plan = response::divisive_gradient(&desc, &from, &to, given, wanted, scaling, Mode::current())?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands![dx, dMeans, x, dy, means]) }
    })
}
