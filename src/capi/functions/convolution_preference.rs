//! The choice of a convolution algorithm by preference, as version 7 had it.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::Out;
use super::context;
use super::convolution_problem::Described;
use super::types::{
    CEnum, cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdDataPreference_t,
    cudnnConvolutionBwdFilterAlgo_t, cudnnConvolutionBwdFilterPreference_t, cudnnConvolutionDescriptor_t,
    cudnnConvolutionFwdAlgo_t, cudnnConvolutionFwdPreference_t, cudnnFilterDescriptor_t, cudnnHandle_t,
    cudnnStatus_t, cudnnTensorDescriptor_t, raw,
};
use crate::error::{Error, Result};
use crate::ops::convolution::Direction;

/// The forward algorithm that fits a preference.
///
/// The first algorithm of cudnnGetConvolutionForwardAlgorithm_v7 that serves and whose workspace fits: none for
/// NO_WORKSPACE, any for PREFER_FASTEST, at most `memoryLimitInBytes` for SPECIFY_WORKSPACE_LIMIT. Algorithm 0 makes no use
/// of a workspace and fits every limit, though its workspace query answers 16 as well; so do those of Winograd where that
/// query ranks them first.
///
/// Operands: descriptors of the problem, as for the call that computes; `algo`: one enumerator.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive, `algo` is NULL, an unknown preference, a problem that does not
///   fit
/// - NOT_SUPPORTED: no algorithm serves within the limit
///
/// A failing call writes nothing. Source: NVIDIA's documentation of version 7.
///
/// # Safety
/// `algo` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionForwardAlgorithm(
    handle: cudnnHandle_t, xDesc: cudnnTensorDescriptor_t, wDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t, yDesc: cudnnTensorDescriptor_t,
    preference: MaybeUninit<cudnnConvolutionFwdPreference_t>, memoryLimitInBytes: usize,
    algo: *mut cudnnConvolutionFwdAlgo_t,
) -> cudnnStatus_t {
    let described = Described {
        direction: Direction::Forward,
        convolution: convDesc,
        x: (xDesc, "xDesc"),
        w: (wDesc, "wDesc"),
        y: (yDesc, "yDesc"),
    };
    let wish = Wish { preference: raw(preference), limit: memoryLimitInBytes, algo };
    // SAFETY: `algo` is NULL or valid for one write.
    unsafe { preferred(handle, &described, wish) }
}

/// The data gradient algorithm that fits a preference.
///
/// Operands: as cudnnGetConvolutionForwardAlgorithm.
///
/// Status, in this order: as cudnnGetConvolutionForwardAlgorithm.
///
/// Source: as cudnnGetConvolutionForwardAlgorithm.
///
/// # Safety
/// `algo` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardDataAlgorithm(
    handle: cudnnHandle_t, wDesc: cudnnFilterDescriptor_t, dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t, dxDesc: cudnnTensorDescriptor_t,
    preference: MaybeUninit<cudnnConvolutionBwdDataPreference_t>, memoryLimitInBytes: usize,
    algo: *mut cudnnConvolutionBwdDataAlgo_t,
) -> cudnnStatus_t {
    let described = Described {
        direction: Direction::BackwardData,
        convolution: convDesc,
        x: (dxDesc, "dxDesc"),
        w: (wDesc, "wDesc"),
        y: (dyDesc, "dyDesc"),
    };
    let wish = Wish { preference: raw(preference), limit: memoryLimitInBytes, algo };
    // SAFETY: `algo` is NULL or valid for one write.
    unsafe { preferred(handle, &described, wish) }
}

/// The filter gradient algorithm that fits a preference.
///
/// Operands: as cudnnGetConvolutionForwardAlgorithm.
///
/// Status, in this order: as cudnnGetConvolutionForwardAlgorithm.
///
/// Source: as cudnnGetConvolutionForwardAlgorithm.
///
/// # Safety
/// `algo` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardFilterAlgorithm(
    handle: cudnnHandle_t, xDesc: cudnnTensorDescriptor_t, dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t, dwDesc: cudnnFilterDescriptor_t,
    preference: MaybeUninit<cudnnConvolutionBwdFilterPreference_t>, memoryLimitInBytes: usize,
    algo: *mut cudnnConvolutionBwdFilterAlgo_t,
) -> cudnnStatus_t {
    let described = Described {
        direction: Direction::BackwardFilter,
        convolution: convDesc,
        x: (xDesc, "xDesc"),
        w: (dwDesc, "dwDesc"),
        y: (dyDesc, "dyDesc"),
    };
    let wish = Wish { preference: raw(preference), limit: memoryLimitInBytes, algo };
    // SAFETY: `algo` is NULL or valid for one write.
    unsafe { preferred(handle, &described, wish) }
}

/// What the caller wants, and where the answer goes.
struct Wish<A> {
    preference: c_int,
    limit: usize,
    algo: *mut A,
}

/// # Safety
/// As for the calls above.
unsafe fn preferred<A: CEnum>(handle: cudnnHandle_t, described: &Described, wish: Wish<A>) -> Result<()> {
    context::check(handle)?;
    // SAFETY: `algo` is NULL or valid for one write.
    let algo = unsafe { Out::code(wish.algo, "algo") }?;
    let limit = match wish.preference {
        0 => 0,
        1 => usize::MAX,
        2 => wish.limit,
        other => {
            let rule = "0 no workspace, 1 fastest, 2 workspace limit";
            return Err(Error::argument("preference", other.into(), rule));
        }
    };
    let problem = described.problem()?;
    let algorithm = context::with(handle, |context| context.algorithm_within(&problem, limit))?;
    algo.set(algorithm.number());
    Ok(())
}
