//! Causal convolutions with filters as long as the sequence, which the original computes by Fourier transforms.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, operands, results};
use super::causal_conv::{CastConst, aligned, element, named, required, run};
use super::types::{cudaStream_t, cudnnDataType_t, cudnnStatus_t};
use crate::error::{Error, Result};
use crate::exec::Address;
use crate::mode::Mode;
use crate::ops::Plan;
use crate::ops::causal_conv::{Call, CausalPlan, Form, Sizes, WORKSPACE, reserve};

/// What cuDNN's transforms are aligned to.
const ALIGNMENT: usize = 16;

fn call(form: Form, [batch, dim, length, taps]: [c_int; 4], data_type: MaybeUninit<cudnnDataType_t>) -> Call {
    // Which numbers of taps the original takes is a matter of types, which come later.
    let sizes = Sizes { batch, dim, length, taps: ("kernelSize", taps, c_int::MAX), mixer: None };
    Call { form, sizes, data_type: element(data_type), gradient: None }
}

/// Refuses, in strict mode, pointers that cuDNN's transforms do not take.
fn strictly_aligned<const N: usize>(pointers: [(*const c_void, &'static str); N]) -> Result<()> {
    if !Mode::current().is_strict() {
        return Ok(());
    }
    pointers.into_iter().try_for_each(|(pointer, name)| arg::data(pointer, ALIGNMENT, name))
}

/// The parts of a reserve space and of a workspace that are large enough.
fn parts(call: &Call, reserve_space: (*mut c_void, usize), workspace: usize) -> Result<[Address; 2]> {
    let (weight, bytes) = reserve(call, Mode::current())?;
    let sizes =
        [("workspaceSizeInBytes", workspace, WORKSPACE), ("reserveSpaceSizeInBytes", reserve_space.1, bytes)];
    for (name, given, needed) in sizes {
        if given < needed {
            let rule = format!("cudnnLongFFTCausalConv1dGetBufferSizes says {needed}");
            return Err(Error::argument(name, given as i64, rule));
        }
    }
    Ok([reserve_space.0.into(), reserve_space.0.wrapping_byte_add(weight).into()])
}

/// `y[t] = sum over j of weight[j] x[t - j]` for each channel: **the tap of the newest position comes first**, unlike in cudnnCausalConv1dForward.
///
/// Sums are in `float`, for DOUBLE in `double`, by ascending positions: the same bits on both cores. From 512 taps on the CPU core transforms
/// blocks of a sequence, in `double` for every type, which is off by what the largest products of the sequence are; a sequence or a
/// filter with a number that is none is summed all the same. The bits depend neither on threads nor on the batch. Stream and core as in cudnnCausalConv1dForward.
///
/// Operands
/// - `x`, `y`: `[batch, dim, seqLen]`; `weight`: `[dim, kernelSize]`: tensors of one type, packed; on the host for the CPU core, aligned or not; on the
///   device for the CUDA core, aligned to an element.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a NULL pointer other than the stream; in strict mode pointers off 16 bytes; `batch`, `dim`, `seqLen` or `kernelSize` below 1.
/// - NOT_SUPPORTED: `dataType` other than FLOAT, DOUBLE, HALF and BFLOAT16.
/// - NOT_SUPPORTED, in strict mode: `kernelSize` that is no power of two from 128 to 16384 (DOUBLE: 4096), `seqLen` that is no multiple of it.
/// - NOT_INITIALIZED: no core, as of cudnnCreate.
///
/// Aliasing: the CPU core takes operands that overlap what is written, as if all were read first; the CUDA core refuses them with
/// NOT_SUPPORTED. Two results that overlap are BAD_PARAM. A failing call writes nothing.
///
/// Source: checks and their order observed on 9.27.0; formulas as its documentation.
///
/// # Safety
/// Every pointer is NULL or valid for reads of its tensor, those of results for writes; no other thread writes any of them
/// meanwhile. `stream` is alive.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnFFTCausalConv1dForward(
    stream: cudaStream_t, x: *const c_void, weight: *const c_void, y: *mut c_void, batch: c_int, dim: c_int,
    seqLen: c_int, kernelSize: c_int, dataType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    required(named!(x, weight, y))?;
    strictly_aligned(named!(x, weight, y))?;
    let call = call(Form::Fourier, [batch, dim, seqLen, kernelSize], dataType);
    let plan = CausalPlan::forward(&call, Mode::current())?;
    let at = operands![y, x, weight];
    // SAFETY: every pointer is NULL or valid for its tensor, results for writes; `stream` is alive.
    unsafe { run("cudnnFFTCausalConv1dForward", stream, &plan, at) }
}

/// `dx[s] = sum over j of weight[j] dy[s + j]`, and `dweight[j]` is the sum of `dy[t] x[t - j]` over all sequences.
///
/// Both are overwritten. Arithmetic as in cudnnFFTCausalConv1dForward; sums over a batch are taken in 32 lanes that are joined in a fixed order, or, of
/// transforms, sequence by sequence.
///
/// Operands
/// - `x`, `weight`: as forward; `dy`, `dx`: as y; `dweight`: as weight, of the type of the data.
///
/// Workspace: none.
///
/// Status, in this order: as cudnnFFTCausalConv1dForward.
///
/// Aliasing: the CPU core takes operands that overlap what is written, as if all were read first; the CUDA core refuses them with
/// NOT_SUPPORTED. Two results that overlap are BAD_PARAM. A failing call writes nothing.
///
/// Source: checks and their order observed on 9.27.0; formulas are the derivatives; that dweight is overwritten, as its documentation says.
///
/// # Safety
/// Every pointer is NULL or valid for reads of its tensor, those of results for writes; no other thread writes any of them
/// meanwhile. `stream` is alive.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnFFTCausalConv1dBackward(
    stream: cudaStream_t, x: *const c_void, weight: *const c_void, dy: *const c_void, dx: *mut c_void,
    dweight: *mut c_void, batch: c_int, dim: c_int, seqLen: c_int, kernelSize: c_int,
    dataType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    required(named!(x, weight, dy, dx, dweight))?;
    strictly_aligned(named!(x, weight, dy, dx, dweight))?;
    let call = call(Form::Fourier, [batch, dim, seqLen, kernelSize], dataType);
    let plan = CausalPlan::backward(&call, Mode::current())?;
    let at = operands![dx, dweight, x, weight, dy];
    // SAFETY: every pointer is NULL or valid for its tensor, results for writes; `stream` is alive.
    unsafe { run("cudnnFFTCausalConv1dBackward", stream, &plan, at) }
}

/// `workspaceSizeInBytes` and `reserveSpaceSizeInBytes` of the long causal convolution: what its forward and backward calls are given.
///
/// The reserve space holds x and weight for the backward call; the workspace is not used. Neither size is 0. No device is needed.
///
/// Operands
/// - `workspaceSizeInBytes`, `reserveSpaceSizeInBytes`: results, on the host.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a NULL pointer; `batch`, `dim`, `seqLen` or `kernelSize` below 1.
/// - NOT_SUPPORTED: `dataType` other than FLOAT, DOUBLE, HALF and BFLOAT16.
/// - NOT_SUPPORTED, in strict mode: `kernelSize` that is not `seqLen`, or no power of two from 4096 to 16777216 (DOUBLE: 8388608).
///
/// Aliasing: none. A failing call writes nothing.
///
/// Source: checks observed on 9.27.0; the sizes are this library's own.
///
/// # Safety
/// Both pointers are NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnLongFFTCausalConv1dGetBufferSizes(
    batch: c_int, dim: c_int, seqLen: c_int, kernelSize: c_int, dataType: MaybeUninit<cudnnDataType_t>,
    workspaceSizeInBytes: *mut usize, reserveSpaceSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let call = call(Form::Long, [batch, dim, seqLen, kernelSize], dataType);
    results!(
        new workspaceSizeInBytes = WORKSPACE,
        new reserveSpaceSizeInBytes = reserve(&call, Mode::current())?.1,
    )
}

/// `y[t] = sum over j of weight[j] x[t - j]` for each channel, as cudnnFFTCausalConv1dForward; keeps x and weight for the backward call.
///
/// Arithmetic, stream and core as there.
///
/// Operands
/// - `x`, `y`: `[batch, dim, seqLen]`; `weight`: `[dim, kernelSize]`: tensors of one type, packed, aligned to an element; on the host for
///   the CPU core, on the device for the CUDA core.
/// - `reserveSpace`: written; goes to the backward call as it is. `workspace`: not touched.
///
/// Workspace: both sizes are at least those that cudnnLongFFTCausalConv1dGetBufferSizes says.
///
/// Status, in this order
/// - BAD_PARAM: a NULL pointer other than the stream; in strict mode pointers off 16 bytes; `batch`, `dim`, `seqLen` or `kernelSize` below 1.
/// - NOT_SUPPORTED: `dataType` other than FLOAT, DOUBLE, HALF and BFLOAT16.
/// - NOT_SUPPORTED, in strict mode: `kernelSize` that is not `seqLen`, or no power of two from 4096 to 16777216 (DOUBLE: 8388608).
/// - BAD_PARAM: a size that is too small; pointers off their elements' alignment.
/// - NOT_INITIALIZED: no core, as of cudnnCreate.
///
/// Aliasing: the CPU core takes operands that overlap what is written, as if all were read first; the CUDA core refuses them with
/// NOT_SUPPORTED. Two results that overlap are BAD_PARAM. A failing call writes nothing.
///
/// Source: checks and their order observed on 9.27.0, those of sizes as its documentation says; formulas likewise.
///
/// # Safety
/// Every pointer is NULL or valid for reads of its tensor, those of results for writes; no other thread writes any of them
/// meanwhile. `stream` is alive.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnLongFFTCausalConv1dForward(
    stream: cudaStream_t, x: *const c_void, weight: *const c_void, y: *mut c_void, batch: c_int, dim: c_int,
    seqLen: c_int, kernelSize: c_int, dataType: MaybeUninit<cudnnDataType_t>, workspace: *mut c_void,
    workspaceSizeInBytes: usize, reserveSpace: *mut c_void, reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    required(named!(x, weight, y, workspace, reserveSpace))?;
    strictly_aligned(named!(x, weight, y, workspace, reserveSpace))?;
    let call = call(Form::Long, [batch, dim, seqLen, kernelSize], dataType);
    let plan = CausalPlan::forward(&call, Mode::current())?;
    let [kept, of_weight] = parts(&call, (reserveSpace, reserveSpaceSizeInBytes), workspaceSizeInBytes)?;
    let at = operands![y, reserveSpace = kept, reserveSpace = of_weight, x, weight];
    aligned(plan.operands(), &at)?;
    // SAFETY: every pointer is NULL or valid for its tensor, results for writes; `stream` is alive.
    unsafe { run("cudnnLongFFTCausalConv1dForward", stream, &plan, at) }
}

/// `dx[s] = sum over j of weight[j] dy[s + j]`, and `dweight[j]` is the sum of `dy[t] x[t - j]`, with x and weight as the forward call kept them.
///
/// Both are overwritten. Arithmetic as in cudnnFFTCausalConv1dBackward.
///
/// Operands
/// - `dy`, `dx`: `[batch, dim, seqLen]`; `dweight`: `[dim, kernelSize]`: of the type of the data.
/// - `reserveSpace`: what cudnnLongFFTCausalConv1dForward left there; only read. `workspace`: not touched.
///
/// Workspace: as in the forward call.
///
/// Status, in this order: as cudnnLongFFTCausalConv1dForward.
///
/// Aliasing: the CPU core takes operands that overlap what is written, as if all were read first; the CUDA core refuses them with
/// NOT_SUPPORTED. Two results that overlap are BAD_PARAM. A failing call writes nothing.
///
/// Source: checks and their order observed on 9.27.0; formulas are the derivatives.
///
/// # Safety
/// Every pointer is NULL or valid for reads of its tensor, those of results for writes; no other thread writes any of them
/// meanwhile. `stream` is alive.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnLongFFTCausalConv1dBackward(
    stream: cudaStream_t, dy: *const c_void, dx: *mut c_void, dweight: *mut c_void, batch: c_int, dim: c_int,
    seqLen: c_int, kernelSize: c_int, dataType: MaybeUninit<cudnnDataType_t>, workspace: *mut c_void,
    workspaceSizeInBytes: usize, reserveSpace: *mut c_void, reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    required(named!(dy, dx, dweight, workspace, reserveSpace))?;
    strictly_aligned(named!(dy, dx, dweight, workspace, reserveSpace))?;
    let call = call(Form::Long, [batch, dim, seqLen, kernelSize], dataType);
    let plan = CausalPlan::backward(&call, Mode::current())?;
    let [kept, of_weight] = parts(&call, (reserveSpace, reserveSpaceSizeInBytes), workspaceSizeInBytes)?;
    let at = operands![dx, dweight, reserveSpace = kept, reserveSpace = of_weight, dy];
    aligned(plan.operands(), &at)?;
    // SAFETY: every pointer is NULL or valid for its tensor, results for writes; `stream` is alive.
    unsafe { run("cudnnLongFFTCausalConv1dBackward", stream, &plan, at) }
}
