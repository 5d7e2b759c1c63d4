//! Softmax.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, operands};
use super::types::{
    cudnnHandle_t, cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t, cudnnStatus_t, cudnnTensorDescriptor_t,
};
use super::{context, tensor, transform};
use crate::mode::Mode;
use crate::ops::{SoftmaxPlan, softmax::Choices};

/// `y = alpha * softmax(x) + beta * y`, where softmax is `exp(x - m) / sum of exp(x - m)` with m the largest of a group.
///
/// A group is all of one N (INSTANCE), or the channels at one place of one N (CHANNEL). FAST and ACCURATE are the same
/// here: the largest element is subtracted in both, so that nothing overflows. LOG is `(x - m) - log(sum of exp(x - m))`.
/// A group with a NaN or with plus infinity becomes NaN, and so does one of minus infinities alone; else minus infinity
/// becomes 0, or minus infinity for LOG.
///
/// Computed in `float`, for DOUBLE, INT32 and INT64 in `double`. Sums have one fixed order, whatever the threads or the
/// core, so results are the same bits always. The result is rounded once, to nearest even; integers saturate.
///
/// Operands
/// - `alpha`, `beta`: on the host, `double` if y is DOUBLE, else `float`. With beta = 0, y is not read.
/// - `x`, `y`: tensors of one type and the same dims, of any rank from 2 to 8, any strides each; on the host for the CPU
///   core, on the device for the CUDA core; aligned to one element.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL factors; NULL data, or data off its element's alignment.
/// - BAD_PARAM: ranks that differ; in strict mode 2 dimensions.
/// - NOT_SUPPORTED, in strict mode: strides of 0 and below.
/// - BAD_PARAM: dims or types that differ; an unknown `algo` or `mode`.
/// - NOT_SUPPORTED, in strict mode: types other than FLOAT, DOUBLE, HALF, BFLOAT16 and INT8; 3 and 6 to 8 dimensions with
///   gaps or strides that differ.
/// - BAD_PARAM: y repeats an address through stride 0.
/// - NOT_SUPPORTED: channels in blocks (NCHW_VECT_C, INT8x4 and the like).
///
/// Aliasing: x may be y with the same strides. The CPU core takes any other overlap, as if all of x were read first; the CUDA
/// core refuses it with NOT_SUPPORTED. A failing call writes nothing.
///
/// Source: checks and their order observed on 9.27.0; infinities as PyTorch has them.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; `x` is NULL or valid for reads of the whole span of `xDesc`, `y` for
/// reads and writes of that of `yDesc`; no other thread writes either meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSoftmaxForward(
    handle: cudnnHandle_t, algo: MaybeUninit<cudnnSoftmaxAlgorithm_t>, mode: MaybeUninit<cudnnSoftmaxMode_t>,
    alpha: *const c_void, xDesc: cudnnTensorDescriptor_t, x: *const c_void, beta: *const c_void,
    yDesc: cudnnTensorDescriptor_t, y: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnSoftmaxForward", |call| {
        let (from, to) = (tensor::get(xDesc, "xDesc")?, tensor::get(yDesc, "yDesc")?);
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, to.data_type()) }?;
        tensor::data(x, &from, "x")?;
        tensor::data(y, &to, "y")?;
        let plan = SoftmaxPlan::forward(choices(algo, mode), [&from, &to], scaling, Mode::current())?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands![y, x]) }
    })
}

/// `dx = alpha * softmax'(y, dy) + beta * dx`, where y is the result of the forward call.
///
/// FAST and ACCURATE: `y (dy - sum of dy y)`; LOG: `dy - exp(y) (sum of dy)`; the sums over each group.
///
/// Operands
/// - `alpha`, `beta`: on the host, `double` if dx is DOUBLE, else `float`. With beta = 0, dx is not read.
/// - `y`, `dy`, `dx`: tensors of one type and the same dims, of any rank from 2 to 8, any strides each; memory and
///   arithmetic as in cudnnSoftmaxForward.
///
/// Workspace: none.
///
/// Status, in this order: as cudnnSoftmaxForward, with dx for y. In strict mode also
/// - BAD_PARAM: y and dy of different strides, before an unknown `algo` or `mode`.
/// - NOT_SUPPORTED: INT8.
///
/// Aliasing: dx may be dy or y with the same strides. The CPU core takes any other overlap, as if all were read first; the
/// CUDA core refuses it with NOT_SUPPORTED. A failing call writes nothing.
///
/// Source: checks and their order observed on 9.27.0; formulas are the derivatives.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; `y` and `dy` are NULL or valid for reads of the whole spans of their
/// descriptors, `dx` for reads and writes; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSoftmaxBackward(
    handle: cudnnHandle_t, algo: MaybeUninit<cudnnSoftmaxAlgorithm_t>, mode: MaybeUninit<cudnnSoftmaxMode_t>,
    alpha: *const c_void, yDesc: cudnnTensorDescriptor_t, y: *const c_void, dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void, beta: *const c_void, dxDesc: cudnnTensorDescriptor_t, dx: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnSoftmaxBackward", |call| {
        let result = tensor::get(yDesc, "yDesc")?;
        let (gradient, to) = (tensor::get(dyDesc, "dyDesc")?, tensor::get(dxDesc, "dxDesc")?);
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, to.data_type()) }?;
        tensor::data(y, &result, "y")?;
        tensor::data(dy, &gradient, "dy")?;
        tensor::data(dx, &to, "dx")?;
        let tensors = [&result, &gradient, &to];
        let plan = SoftmaxPlan::backward(choices(algo, mode), tensors, scaling, Mode::current())?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands![dx, y, dy]) }
    })
}

fn choices(algo: MaybeUninit<cudnnSoftmaxAlgorithm_t>, mode: MaybeUninit<cudnnSoftmaxMode_t>) -> Choices {
    Choices { algorithm: arg::choice(algo, "algo"), mode: arg::choice(mode, "mode") }
}
