//! Causal one-dimensional convolutions of few taps.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, operands};
use super::types::{cudaStream_t, cudnnCausalConv1dActivation_t, cudnnDataType_t, cudnnStatus_t, raw};
use super::{context, data_type};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::exec::Bound;
use crate::mode::Mode;
use crate::ops::causal_conv::{Call, CausalPlan, Form, Sizes};
use crate::ops::{Operand, Plan};

/// Refuses NULL for any of these.
pub(super) fn required<const N: usize>(pointers: [(*const c_void, &'static str); N]) -> Result<()> {
    pointers.into_iter().try_for_each(|(pointer, name)| arg::required(pointer, name))
}

/// A pointer with its name in the C call: `named!(x)`.
macro_rules! named {
    ($($pointer:ident),* $(,)?) => {
        [$(($pointer.cast_const_void(), stringify!($pointer))),*]
    };
}
pub(super) use named;

/// Pointers of C, whether or not the call may write there.
pub(super) trait CastConst {
    fn cast_const_void(self) -> *const c_void;
}

impl CastConst for *const c_void {
    fn cast_const_void(self) -> *const c_void {
        self
    }
}

impl CastConst for *mut c_void {
    fn cast_const_void(self) -> *const c_void {
        self
    }
}

/// The element type of this argument, none for a number that names no type.
pub(super) fn element(code: MaybeUninit<cudnnDataType_t>) -> Option<DataType> {
    data_type::known(raw(code))
}

/// Refuses pointers off the alignment of their operands' elements.
///
/// # Errors
/// Bad parameter.
pub(super) fn aligned(operands: &[Operand], at: &[Bound]) -> Result<()> {
    for (operand, (_, at)) in operands.iter().zip(at) {
        arg::data(at.pointer().cast_const().cast(), operand.scalar.size(), operand.name)?;
    }
    Ok(())
}

/// Runs a plan on the core of a stream. The CPU core takes any alignment.
///
/// # Safety
/// The pointers are valid for the spans of the plan's operands.
pub(super) unsafe fn run<const N: usize>(
    name: &'static str, stream: cudaStream_t, plan: &CausalPlan, operands: [Bound; N],
) -> Result<()> {
    context::compute_on_stream(stream, name, |call| {
        if call.context.is_cuda() {
            aligned(plan.operands(), &operands)?;
        }
        // SAFETY: the caller vouches for the spans; steps of this kind take any alignment on the CPU.
        unsafe { call.run(plan, operands) }
    })
}

/// The direct form with this order of axes.
fn direct(channels_inside: bool, activation: MaybeUninit<cudnnCausalConv1dActivation_t>) -> Result<Form> {
    match raw(activation) {
        silu @ 0..=1 => Ok(Form::Direct { channels_inside, silu: silu == 1 }),
        other => Err(Error::argument("activation", other.into(), "0 identity, 1 SiLU")),
    }
}

/// Sizes of a direct form with this order of axes, and what cuDNN takes.
fn sizes(channels_inside: bool, [batch, dim, length, taps]: [c_int; 4]) -> Sizes {
    let most = if channels_inside { 128 } else { 256 };
    Sizes { batch, dim, length, taps: ("kernelSize", taps, most), mixer: None }
}

/// `y[t] = act(bias + sum over k of weight[k] x[t - (K - 1) + k])` for each channel: a sequence never looks ahead.
///
/// Taps before the sequence are left out. `activation` 0 is the identity, 1 is SiLU: `v / (1 + exp(-v))`. Sums are in `float`, for DOUBLE
/// in `double`, by ascending positions, and the result is rounded once: the same bits for any number of threads and on both cores.
///
/// The stream names the core's context, as there is no handle: `CUDNN_SHIM_BACKEND` chooses the core as cudnnCreate would, at the first such
/// call of a process. The CPU core has finished when the call returns.
///
/// Operands
/// - `x`, `y`: `[batch, dim, seqLen]`; `weight`: `[dim, kernelSize]`, the tap of the oldest position first; `bias`: `[dim]`:
///   tensors of one type, packed; on the host for the CPU core, aligned or not; on the
///   device for the CUDA core, aligned to an element.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a NULL pointer other than the stream; an unknown `activation`; `batch`, `dim`, `seqLen` or `kernelSize` below 1; in
///   strict mode `kernelSize` outside 2 to 256.
/// - NOT_SUPPORTED: `dataType` other than FLOAT, DOUBLE, HALF and BFLOAT16.
/// - NOT_INITIALIZED: no core, as of cudnnCreate.
///
/// Aliasing: the CPU core takes operands that overlap what is written, as if all were read first; the CUDA core refuses them with
/// NOT_SUPPORTED. Two results that overlap are BAD_PARAM. A failing call writes nothing.
///
/// Source: checks and their order observed on 9.27.0; formulas as its header and documentation.
///
/// # Safety
/// Every pointer is NULL or valid for reads of its tensor, those of results for writes; no other thread writes any of them
/// meanwhile. `stream` is alive.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCausalConv1dForward(
    stream: cudaStream_t, x: *const c_void, weight: *const c_void, bias: *const c_void, y: *mut c_void,
    batch: c_int, dim: c_int, seqLen: c_int, kernelSize: c_int, dataType: MaybeUninit<cudnnDataType_t>,
    activation: MaybeUninit<cudnnCausalConv1dActivation_t>,
) -> cudnnStatus_t {
    required(named!(x, weight, bias, y))?;
    let call = Call {
        form: direct(false, activation)?,
        sizes: sizes(false, [batch, dim, seqLen, kernelSize]),
        data_type: element(dataType),
        gradient: None,
    };
    let plan = CausalPlan::forward(&call, Mode::current())?;
    // SAFETY: every pointer is NULL or valid for its tensor, results for writes; `stream` is alive.
    unsafe { run("cudnnCausalConv1dForward", stream, &plan, operands![y, x, weight, bias]) }
}

/// `dx[s] = sum over k of weight[k] g[s + (K - 1) - k]` with `g = dy act'(v)`, v what cudnnCausalConv1dForward activates.
///
/// `dweight[k] += sum of g[t] x[t - (K - 1) + k]` and `dbias += sum of g` over all sequences: **both are added to what is there**, dx is
/// overwritten. v is computed anew. Arithmetic as forward; sums over a batch are taken in 32 lanes that are joined in a fixed order.
///
/// Operands
/// - `x`, `weight`, `bias`: as forward; `dy`, `dx`: as y.
/// - `dweight`, `dbias`: as weight and bias, of type `dwDataType`.
///
/// Workspace: none.
///
/// Status, in this order: as cudnnCausalConv1dForward, then
/// - NOT_SUPPORTED: `dwDataType` other than DOUBLE with DOUBLE, else FLOAT.
///
/// Aliasing: the CPU core takes operands that overlap what is written, as if all were read first; the CUDA core refuses them with
/// NOT_SUPPORTED. Two results that overlap are BAD_PARAM. A failing call writes nothing.
///
/// Source: checks and their order observed on 9.27.0; formulas are the derivatives; that gradients of weights are added, as its
/// documentation says.
///
/// # Safety
/// Every pointer is NULL or valid for reads of its tensor, those of results for writes; no other thread writes any of them
/// meanwhile. `stream` is alive.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCausalConv1dBackward(
    stream: cudaStream_t, x: *const c_void, weight: *const c_void, bias: *const c_void, dy: *const c_void,
    dx: *mut c_void, dweight: *mut c_void, dbias: *mut c_void, batch: c_int, dim: c_int, seqLen: c_int,
    kernelSize: c_int, dataType: MaybeUninit<cudnnDataType_t>, dwDataType: MaybeUninit<cudnnDataType_t>,
    activation: MaybeUninit<cudnnCausalConv1dActivation_t>,
) -> cudnnStatus_t {
    required(named!(x, weight, bias, dy, dx, dweight, dbias))?;
    let call = Call {
        form: direct(false, activation)?,
        sizes: sizes(false, [batch, dim, seqLen, kernelSize]),
        data_type: element(dataType),
        gradient: Some(element(dwDataType)),
    };
    let plan = CausalPlan::backward(&call, Mode::current())?;
    let at = operands![dx, dweight, dbias, x, weight, bias, dy];
    // SAFETY: every pointer is NULL or valid for its tensor, results for writes; `stream` is alive.
    unsafe { run("cudnnCausalConv1dBackward", stream, &plan, at) }
}

/// `y[t] = act(bias + sum over k of weight[k] x[t - (K - 1) + k])` for each channel: a sequence never looks ahead.
///
/// Taps before the sequence are left out. `activation` 0 is the identity, 1 is SiLU: `v / (1 + exp(-v))`. Sums are in `float`, for DOUBLE
/// in `double`, by ascending positions, and the result is rounded once: the same bits for any number of threads and on both cores.
///
/// The stream names the core's context, as there is no handle: `CUDNN_SHIM_BACKEND` chooses the core as cudnnCreate would, at the first such
/// call of a process. The CPU core has finished when the call returns.
///
/// Operands
/// - `x`, `y`: `[batch, seqLen, dim]`; `weight`: `[kernelSize, dim]`, the tap of the oldest position first; `bias`: `[dim]`:
///   tensors of one type, packed; on the host for the CPU core, aligned or not; on the
///   device for the CUDA core, aligned to an element.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a NULL pointer other than the stream; an unknown `activation`; `batch`, `dim`, `seqLen` or `kernelSize` below 1; in
///   strict mode `kernelSize` outside 2 to 128.
/// - NOT_SUPPORTED: `dataType` other than FLOAT, DOUBLE, HALF and BFLOAT16.
/// - NOT_INITIALIZED: no core, as of cudnnCreate.
///
/// Aliasing: the CPU core takes operands that overlap what is written, as if all were read first; the CUDA core refuses them with
/// NOT_SUPPORTED. Two results that overlap are BAD_PARAM. A failing call writes nothing.
///
/// Source: checks and their order observed on 9.27.0; formulas as its header and documentation.
///
/// # Safety
/// Every pointer is NULL or valid for reads of its tensor, those of results for writes; no other thread writes any of them
/// meanwhile. `stream` is alive.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCausalConv1dNwhForward(
    stream: cudaStream_t, x: *const c_void, weight: *const c_void, bias: *const c_void, y: *mut c_void,
    batch: c_int, dim: c_int, seqLen: c_int, kernelSize: c_int, dataType: MaybeUninit<cudnnDataType_t>,
    activation: MaybeUninit<cudnnCausalConv1dActivation_t>,
) -> cudnnStatus_t {
    required(named!(x, weight, bias, y))?;
    let call = Call {
        form: direct(true, activation)?,
        sizes: sizes(true, [batch, dim, seqLen, kernelSize]),
        data_type: element(dataType),
        gradient: None,
    };
    let plan = CausalPlan::forward(&call, Mode::current())?;
    // SAFETY: every pointer is NULL or valid for its tensor, results for writes; `stream` is alive.
    unsafe { run("cudnnCausalConv1dNwhForward", stream, &plan, operands![y, x, weight, bias]) }
}

/// `dx[s] = sum over k of weight[k] g[s + (K - 1) - k]` with `g = dy act'(v)`, v what cudnnCausalConv1dNwhForward activates.
///
/// `dweight[k] += sum of g[t] x[t - (K - 1) + k]` and `dbias += sum of g` over all sequences: **both are added to what is there**, dx is
/// overwritten. v is computed anew. Arithmetic as forward; sums over a batch are taken in 32 lanes that are joined in a fixed order.
///
/// Operands
/// - `x`, `weight`, `bias`: as forward; `dy`, `dx`: as y.
/// - `dweight`, `dbias`: as weight and bias, of type `dwDataType`.
///
/// Workspace: none.
///
/// Status, in this order: as cudnnCausalConv1dNwhForward, then
/// - NOT_SUPPORTED: `dwDataType` other than DOUBLE with DOUBLE, else FLOAT.
///
/// Aliasing: the CPU core takes operands that overlap what is written, as if all were read first; the CUDA core refuses them with
/// NOT_SUPPORTED. Two results that overlap are BAD_PARAM. A failing call writes nothing.
///
/// Source: checks and their order observed on 9.27.0; formulas are the derivatives; that gradients of weights are added, as its
/// documentation says.
///
/// # Safety
/// Every pointer is NULL or valid for reads of its tensor, those of results for writes; no other thread writes any of them
/// meanwhile. `stream` is alive.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCausalConv1dNwhBackward(
    stream: cudaStream_t, x: *const c_void, weight: *const c_void, bias: *const c_void, dy: *const c_void,
    dx: *mut c_void, dweight: *mut c_void, dbias: *mut c_void, batch: c_int, dim: c_int, seqLen: c_int,
    kernelSize: c_int, dataType: MaybeUninit<cudnnDataType_t>, dwDataType: MaybeUninit<cudnnDataType_t>,
    activation: MaybeUninit<cudnnCausalConv1dActivation_t>,
) -> cudnnStatus_t {
    required(named!(x, weight, bias, dy, dx, dweight, dbias))?;
    let call = Call {
        form: direct(true, activation)?,
        sizes: sizes(true, [batch, dim, seqLen, kernelSize]),
        data_type: element(dataType),
        gradient: Some(element(dwDataType)),
    };
    let plan = CausalPlan::backward(&call, Mode::current())?;
    let at = operands![dx, dweight, dbias, x, weight, bias, dy];
    // SAFETY: every pointer is NULL or valid for its tensor, results for writes; `stream` is alive.
    unsafe { run("cudnnCausalConv1dNwhBackward", stream, &plan, at) }
}
