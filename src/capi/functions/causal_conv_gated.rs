//! Gated pairs of causal convolutions: a projection of three sequences, and a mixer.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::operands;
use super::causal_conv::{CastConst, element, named, required, run};
use super::types::{cudaStream_t, cudnnDataType_t, cudnnStatus_t};
use crate::dtype::DataType;
use crate::mode::Mode;
use crate::ops::causal_conv::{Call, CausalPlan, Form, Sizes};

/// The call with these sizes: batch, channels, positions, taps of the projections and of the mixer.
fn call(
    [batch, dim, length, projection, mixer]: [c_int; 5], data_type: Option<DataType>,
    gradient: Option<Option<DataType>>,
) -> Call {
    let taps = ("kernelSizeProj", projection, 32);
    let mixer = Some(("kernelSizeMixer", mixer, 256));
    Call { form: Form::Gated, sizes: Sizes { batch, dim, length, taps, mixer }, data_type, gradient }
}

/// `yGated = y p[0]` with `y = causal(p[1] p[2], weightsMixer) + skipBias p[1] p[2]` and `p[q] = causal(x[q], weightsProj[q])`.
///
/// `causal(x, w)[t] = sum over k of w[k] x[t - (K - 1) + k]` as in cudnnCausalConv1dForward: the block of Hyena networks. What lies between
/// is not rounded to the type of the data. Arithmetic, stream and core as there.
///
/// Operands
/// - `x`: `[batch, dim, 3, seqLen]`; `weightsProj`: `[dim, 3, kernelSizeProj]`; `weightsMixer`: `[dim, kernelSizeMixer]`; `skipBias`:
///   `[dim]`; `y`, `yGated`: `[batch, dim, seqLen]`: tensors of one type, packed; on the host for the CPU core, aligned or not; on the
///   device for the CUDA core, aligned to an element.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a NULL pointer other than the stream; `batch`, `dim`, `seqLen` or a number of taps below 1; in strict mode
///   `kernelSizeProj` outside 2 to 32 and `kernelSizeMixer` outside 2 to 256.
/// - NOT_SUPPORTED: `dataType` other than FLOAT, DOUBLE, HALF and BFLOAT16.
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
pub unsafe extern "C" fn cudnnB2BCausalConv1dForward(
    stream: cudaStream_t, x: *const c_void, weightsProj: *const c_void, weightsMixer: *const c_void,
    skipBias: *const c_void, y: *mut c_void, yGated: *mut c_void, batch: c_int, dim: c_int, seqLen: c_int,
    kernelSizeProj: c_int, kernelSizeMixer: c_int, dataType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    required(named!(x, weightsProj, weightsMixer, skipBias, y, yGated))?;
    let sizes = [batch, dim, seqLen, kernelSizeProj, kernelSizeMixer];
    let plan = CausalPlan::forward(&call(sizes, element(dataType), None), Mode::current())?;
    let at = operands![y, yGated, x, weightsProj, weightsMixer, skipBias];
    // SAFETY: every pointer is NULL or valid for its tensor, results for writes; `stream` is alive.
    unsafe { run("cudnnB2BCausalConv1dForward", stream, &plan, at) }
}

/// `dx[q] = transposed(dp[q], weightsProj[q])`, where `dp` are the gradients of what cudnnB2BCausalConv1dForward projects.
///
/// `dy` is the gradient of yGated and `y` its result: with `d = dy p[0]` and `du = transposed(d, weightsMixer) + skipBias d`,
/// `dp[0] = dy y`, `dp[1] = du p[2]`, `dp[2] = du p[1]`, where `transposed(g, w)[s] = sum over k of w[k] g[s + (K - 1) - k]`.
/// The gradients of both weights and `dskipBias += sum of d p[1] p[2]` **are added to what is there**, dx is overwritten. All of p is
/// computed anew. Arithmetic as in cudnnCausalConv1dBackward.
///
/// Operands
/// - `x`, `weightsProj`, `weightsMixer`, `skipBias`, `y`: as forward; `dy`: as y; `dx`: as x.
/// - `dweightsProj`, `dweightsMixer`, `dskipBias`: as what they are the gradients of, of type `dwDataType`.
///
/// Workspace: none.
///
/// Status, in this order: as cudnnB2BCausalConv1dForward, then
/// - NOT_SUPPORTED: `dwDataType` other than DOUBLE with DOUBLE, else FLOAT.
///
/// Aliasing: the CPU core takes operands that overlap what is written, as if all were read first; the CUDA core refuses them with
/// NOT_SUPPORTED. Two results that overlap are BAD_PARAM. A failing call writes nothing.
///
/// Source: checks and their order observed on 9.27.0; formulas are the derivatives; that gradients of weights are added is
/// inferred from cudnnCausalConv1dBackward.
///
/// # Safety
/// Every pointer is NULL or valid for reads of its tensor, those of results for writes; no other thread writes any of them
/// meanwhile. `stream` is alive.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnB2BCausalConv1dBackward(
    stream: cudaStream_t, x: *const c_void, weightsProj: *const c_void, weightsMixer: *const c_void,
    skipBias: *const c_void, y: *const c_void, dy: *const c_void, dx: *mut c_void, dweightsProj: *mut c_void,
    dweightsMixer: *mut c_void, dskipBias: *mut c_void, batch: c_int, dim: c_int, seqLen: c_int,
    kernelSizeProj: c_int, kernelSizeMixer: c_int, dataType: MaybeUninit<cudnnDataType_t>,
    dwDataType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    required(named!(x, weightsProj, weightsMixer, skipBias, y, dy))?;
    required(named!(dx, dweightsProj, dweightsMixer, dskipBias))?;
    let sizes = [batch, dim, seqLen, kernelSizeProj, kernelSizeMixer];
    let call = call(sizes, element(dataType), Some(element(dwDataType)));
    let plan = CausalPlan::backward(&call, Mode::current())?;
    let at =
        operands![dx, dweightsProj, dweightsMixer, dskipBias, x, weightsProj, weightsMixer, skipBias, y, dy];
    // SAFETY: every pointer is NULL or valid for its tensor, results for writes; `stream` is alive.
    unsafe { run("cudnnB2BCausalConv1dBackward", stream, &plan, at) }
}
