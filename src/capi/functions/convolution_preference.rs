//! The choice of a convolution algorithm by preference, as version 7 had it.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::Out;
use super::convolution_problem::{Described, described};
use super::convolution_query::{
    cudnnGetConvolutionBackwardDataAlgorithm_v7, cudnnGetConvolutionBackwardFilterAlgorithm_v7,
    cudnnGetConvolutionForwardAlgorithm_v7,
};
use super::types::{
    CEnum, cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdDataPreference_t,
    cudnnConvolutionBwdFilterAlgo_t, cudnnConvolutionBwdFilterPreference_t, cudnnConvolutionDescriptor_t,
    cudnnConvolutionFwdAlgo_t, cudnnConvolutionFwdPreference_t, cudnnFilterDescriptor_t, cudnnHandle_t,
    cudnnStatus_t, cudnnTensorDescriptor_t, raw,
};
use super::{beside, context, guard};
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
    let described = described!(Forward: xDesc, wDesc, yDesc, convDesc);
    let wish = Wish { preference: raw(preference), limit: memoryLimitInBytes, algo };
    if is_original(handle) {
        // SAFETY: `algo` is NULL or valid for one write, and rows have the form of the results.
        return unsafe {
            by_query(&wish, |count, returned, rows| {
                cudnnGetConvolutionForwardAlgorithm_v7(
                    handle,
                    xDesc,
                    wDesc,
                    convDesc,
                    yDesc,
                    count,
                    returned,
                    rows.cast(),
                )
            })
        };
    }
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
    let described = described!(BackwardData: dxDesc, wDesc, dyDesc, convDesc);
    let wish = Wish { preference: raw(preference), limit: memoryLimitInBytes, algo };
    if is_original(handle) {
        // SAFETY: `algo` is NULL or valid for one write, and rows have the form of the results.
        return unsafe {
            by_query(&wish, |count, returned, rows| {
                cudnnGetConvolutionBackwardDataAlgorithm_v7(
                    handle,
                    wDesc,
                    dyDesc,
                    convDesc,
                    dxDesc,
                    count,
                    returned,
                    rows.cast(),
                )
            })
        };
    }
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
    let described = described!(BackwardFilter: xDesc, dwDesc, dyDesc, convDesc);
    let wish = Wish { preference: raw(preference), limit: memoryLimitInBytes, algo };
    if is_original(handle) {
        // SAFETY: `algo` is NULL or valid for one write, and rows have the form of the results.
        return unsafe {
            by_query(&wish, |count, returned, rows| {
                cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                    handle,
                    xDesc,
                    dyDesc,
                    convDesc,
                    dwDesc,
                    count,
                    returned,
                    rows.cast(),
                )
            })
        };
    }
    // SAFETY: `algo` is NULL or valid for one write.
    unsafe { preferred(handle, &described, wish) }
}

/// What the caller wants, and where the answer goes.
struct Wish<A> {
    preference: c_int,
    limit: usize,
    algo: *mut A,
}

impl<A> Wish<A> {
    /// The bytes of workspace that are allowed.
    ///
    /// # Errors
    /// Bad parameter for an unknown preference.
    fn most(&self) -> Result<usize> {
        match self.preference {
            0 => Ok(0),
            1 => Ok(usize::MAX),
            2 => Ok(self.limit),
            other => {
                let rule = "0 no workspace, 1 fastest, 2 workspace limit";
                Err(Error::argument("preference", other.into(), rule))
            }
        }
    }
}

/// What the queries of version 7 tell of an algorithm, with numbers for enumerators.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Row {
    algo: c_int,
    status: c_int,
    time: f32,
    memory: usize,
    determinism: c_int,
    math_type: c_int,
    reserved: [c_int; 3],
}

/// Whether the original chooses the algorithms of convolutions.
fn is_original(handle: cudnnHandle_t) -> bool {
    beside::side(handle, "cudnnGetConvolutionForwardAlgorithm_v7").is_some()
}

/// Algorithms that are asked for: more than there are.
const MOST: usize = 16;

/// The first algorithm that fits of those that the original's query offers.
///
/// # Safety
/// `algo` is NULL or valid for one write; `query` writes at most as many rows as it is asked for.
unsafe fn by_query<A: CEnum>(
    wish: &Wish<A>, query: impl FnOnce(c_int, *mut c_int, *mut Row) -> cudnnStatus_t,
) -> Result<()> {
    // SAFETY: `algo` is NULL or valid for one write.
    let algo = unsafe { Out::code(wish.algo, "algo") }?;
    let most = wish.most()?;
    let (mut rows, mut count) = ([Row::default(); MOST], 0);
    guard::outcome(query(MOST as c_int, &raw mut count, rows.as_mut_ptr()))?;
    let offered = &rows[..usize::try_from(count).unwrap_or(0).min(MOST)];
    match offered.iter().find(|row| row.status == 0 && row.memory <= most) {
        Some(row) => {
            algo.set(row.algo);
            Ok(())
        }
        None => Err(Error::unsupported(format!("no algorithm of the original needs at most {most} bytes"))),
    }
}

/// # Safety
/// As for the calls above.
unsafe fn preferred<A: CEnum>(handle: cudnnHandle_t, described: &Described, wish: Wish<A>) -> Result<()> {
    context::check(handle)?;
    // SAFETY: `algo` is NULL or valid for one write.
    let algo = unsafe { Out::code(wish.algo, "algo") }?;
    let limit = wish.most()?;
    let problem = described.problem()?;
    let algorithm = context::with(handle, |context| context.algorithm_within(&problem, limit))?;
    algo.set(algorithm.number());
    Ok(())
}
