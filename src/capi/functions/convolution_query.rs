//! Which algorithms there are for a convolution, ranked by rules, and the workspace of each.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, Out, results};
use super::context;
use super::convolution_compute;
use super::convolution_problem::{CRecord, Described, described, store};
use super::types::{
    cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t,
    cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionDescriptor_t, cudnnConvolutionFwdAlgo_t,
    cudnnConvolutionFwdAlgoPerf_t, cudnnFilterDescriptor_t, cudnnHandle_t, cudnnStatus_t,
    cudnnTensorDescriptor_t, raw,
};
use crate::error::{Error, Result};
use crate::exec::NOT_MEASURED;
use crate::mode::Mode;
use crate::ops::convolution::{Algorithm, Direction};

/// The most results that a search for forward algorithms gives: 10.
///
/// Status: BAD_PARAM for a handle that is not alive or if `count` is NULL.
///
/// # Safety
/// `count` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionForwardAlgorithmMaxCount(
    handle: cudnnHandle_t, count: *mut c_int,
) -> cudnnStatus_t {
    // SAFETY: `count` is NULL or valid for one write.
    unsafe { max_count(handle, count, 10) }
}

/// The most results that a search for data gradient algorithms gives: 8.
///
/// Status: BAD_PARAM for a handle that is not alive or if `count` is NULL.
///
/// # Safety
/// `count` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardDataAlgorithmMaxCount(
    handle: cudnnHandle_t, count: *mut c_int,
) -> cudnnStatus_t {
    // SAFETY: `count` is NULL or valid for one write.
    unsafe { max_count(handle, count, 8) }
}

/// The most results that a search for filter gradient algorithms gives: 9.
///
/// Status: BAD_PARAM for a handle that is not alive or if `count` is NULL.
///
/// # Safety
/// `count` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(
    handle: cudnnHandle_t, count: *mut c_int,
) -> cudnnStatus_t {
    // SAFETY: `count` is NULL or valid for one write.
    unsafe { max_count(handle, count, 9) }
}

/// Stores the length of a list of results, which programs allocate: the numbers of 9.27.0.
///
/// # Safety
/// `count` is NULL or valid for one write.
unsafe fn max_count(handle: cudnnHandle_t, count: *mut c_int, number: c_int) -> Result<()> {
    context::check(handle)?;
    results!(new count = number)
}

/// Forward algorithms, ranked by rules.
///
/// One record per algorithm, those that serve first, as many as are there and requested; records behind them stay as
/// they are. `time` is -1, as nothing is measured, `memory` what the workspace query answers. With math types 1 and 2
/// two algorithms appear twice, once with math type 0. Outside strict mode every algorithm serves every problem. All
/// numbers but those of Winograd's algorithms are computed alike here, so that the order is cuDNN's; where these are
/// computed faster, they come first, but neither under FMA math nor in strict mode.
///
/// Operands
/// - descriptors of the problem, as for the call that computes
/// - `returnedAlgoCount`: NULL, or one int
/// - `perfResults`: `requestedAlgoCount` records
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; a negative request; `perfResults` is NULL and something is
///   requested; the problem does not fit (as for the call that computes)
/// - SUCCESS otherwise, also where nothing serves: every record then holds NOT_SUPPORTED
///
/// Aliasing: none. Source: observed on 9.27.0.
///
/// # Safety
/// `returnedAlgoCount` is NULL or valid for one write, `perfResults` NULL or valid for `requestedAlgoCount` writes.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionForwardAlgorithm_v7(
    handle: cudnnHandle_t, srcDesc: cudnnTensorDescriptor_t, filterDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t, destDesc: cudnnTensorDescriptor_t, requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int, perfResults: *mut cudnnConvolutionFwdAlgoPerf_t,
) -> cudnnStatus_t {
    let described = described!(Forward: srcDesc, filterDesc, destDesc, convDesc);
    let list = List { requested: requestedAlgoCount, returned: returnedAlgoCount, results: perfResults };
    // SAFETY: `returnedAlgoCount` is NULL or valid for one write, `perfResults` for `requestedAlgoCount`.
    unsafe { ranked(handle, &described, list) }
}

/// Data gradient algorithms, ranked by rules.
///
/// Operands, Workspace: as cudnnGetConvolutionForwardAlgorithm_v7.
///
/// Status, in this order: as cudnnGetConvolutionForwardAlgorithm_v7.
///
/// Aliasing, Source: as cudnnGetConvolutionForwardAlgorithm_v7.
///
/// # Safety
/// `returnedAlgoCount` is NULL or valid for one write, `perfResults` NULL or valid for `requestedAlgoCount` writes.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardDataAlgorithm_v7(
    handle: cudnnHandle_t, filterDesc: cudnnFilterDescriptor_t, diffDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t, gradDesc: cudnnTensorDescriptor_t, requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int, perfResults: *mut cudnnConvolutionBwdDataAlgoPerf_t,
) -> cudnnStatus_t {
    let described = described!(BackwardData: gradDesc, filterDesc, diffDesc, convDesc);
    let list = List { requested: requestedAlgoCount, returned: returnedAlgoCount, results: perfResults };
    // SAFETY: `returnedAlgoCount` is NULL or valid for one write, `perfResults` for `requestedAlgoCount`.
    unsafe { ranked(handle, &described, list) }
}

/// Filter gradient algorithms, ranked by rules.
///
/// Operands, Workspace: as cudnnGetConvolutionForwardAlgorithm_v7.
///
/// Status, in this order: as cudnnGetConvolutionForwardAlgorithm_v7.
///
/// Aliasing, Source: as cudnnGetConvolutionForwardAlgorithm_v7.
///
/// # Safety
/// `returnedAlgoCount` is NULL or valid for one write, `perfResults` NULL or valid for `requestedAlgoCount` writes.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    handle: cudnnHandle_t, srcDesc: cudnnTensorDescriptor_t, diffDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t, gradDesc: cudnnFilterDescriptor_t, requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int, perfResults: *mut cudnnConvolutionBwdFilterAlgoPerf_t,
) -> cudnnStatus_t {
    let described = described!(BackwardFilter: srcDesc, gradDesc, diffDesc, convDesc);
    let list = List { requested: requestedAlgoCount, returned: returnedAlgoCount, results: perfResults };
    // SAFETY: `returnedAlgoCount` is NULL or valid for one write, `perfResults` for `requestedAlgoCount`.
    unsafe { ranked(handle, &described, list) }
}

/// Where a list of records goes.
struct List<R> {
    requested: c_int,
    returned: *mut c_int,
    results: *mut R,
}

/// # Safety
/// As for the calls above.
unsafe fn ranked<R: CRecord>(handle: cudnnHandle_t, described: &Described, list: List<R>) -> Result<()> {
    context::check(handle)?;
    let problem = described.problem()?;
    if list.requested < 0 {
        return Err(Error::argument("requestedAlgoCount", list.requested.into(), "not negative"));
    }
    if list.requested > 0 {
        arg::required(list.results, "perfResults")?;
    }
    let mut records = context::with(handle, |context| Ok(context.algorithms(&problem)))?;
    convolution_compute::tell_workspace(handle, described, records.iter_mut());
    let records: Vec<_> = records.into_iter().map(|record| (record, NOT_MEASURED)).collect();
    // SAFETY: `results` is not NULL if it is written to, with room for `requested` records, and the count NULL or writable.
    unsafe {
        let count = store(list.results, list.requested, &records);
        arg::set_optional(list.returned, count);
    }
    Ok(())
}

/// Bytes of workspace of a convolution.
///
/// 0 for algorithm 0, which takes none. At least 16 for every other algorithm, as a driver-level allocation of 0 bytes fails,
/// and the same for all of them and for every math type. On a GPU the answer is more where sums are so long, and results so few, that
/// several blocks of threads sum parts of each; without that workspace one block sums them all, which takes longer and may
/// round otherwise. The call takes NULL and less as well; in strict mode with algorithm 0 only.
///
/// Operands
/// - descriptors of the problem, as for the call that computes
/// - `sizeInBytes`: one size
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; `sizeInBytes` is NULL; the problem does not fit
/// - NOT_SUPPORTED: the algorithm is none, or does not compute the problem (as for the call that computes)
///
/// A failing call writes nothing. Source: observed on 9.27.0.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionForwardWorkspaceSize(
    handle: cudnnHandle_t, xDesc: cudnnTensorDescriptor_t, wDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t, yDesc: cudnnTensorDescriptor_t,
    algo: MaybeUninit<cudnnConvolutionFwdAlgo_t>, sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let described = described!(Forward: xDesc, wDesc, yDesc, convDesc);
    // SAFETY: `sizeInBytes` is NULL or valid for one write.
    unsafe { workspace(handle, &described, raw(algo), sizeInBytes) }
}

/// Bytes of workspace of a convolution's data gradient.
///
/// Operands: as cudnnGetConvolutionForwardWorkspaceSize.
///
/// Status, in this order: as cudnnGetConvolutionForwardWorkspaceSize.
///
/// Source: as cudnnGetConvolutionForwardWorkspaceSize.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardDataWorkspaceSize(
    handle: cudnnHandle_t, wDesc: cudnnFilterDescriptor_t, dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t, dxDesc: cudnnTensorDescriptor_t,
    algo: MaybeUninit<cudnnConvolutionBwdDataAlgo_t>, sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let described = described!(BackwardData: dxDesc, wDesc, dyDesc, convDesc);
    // SAFETY: `sizeInBytes` is NULL or valid for one write.
    unsafe { workspace(handle, &described, raw(algo), sizeInBytes) }
}

/// Bytes of workspace of a convolution's filter gradient.
///
/// Operands: as cudnnGetConvolutionForwardWorkspaceSize.
///
/// Status, in this order: as cudnnGetConvolutionForwardWorkspaceSize.
///
/// Source: as cudnnGetConvolutionForwardWorkspaceSize.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionBackwardFilterWorkspaceSize(
    handle: cudnnHandle_t, xDesc: cudnnTensorDescriptor_t, dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t, gradDesc: cudnnFilterDescriptor_t,
    algo: MaybeUninit<cudnnConvolutionBwdFilterAlgo_t>, sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let described = described!(BackwardFilter: xDesc, gradDesc, dyDesc, convDesc);
    // SAFETY: `sizeInBytes` is NULL or valid for one write.
    unsafe { workspace(handle, &described, raw(algo), sizeInBytes) }
}

/// # Safety
/// As for the calls above.
unsafe fn workspace(
    handle: cudnnHandle_t, described: &Described, number: c_int, size: *mut usize,
) -> Result<()> {
    context::check(handle)?;
    // SAFETY: `size` is NULL or valid for one write.
    let size = unsafe { Out::new(size, "sizeInBytes") }?;
    let problem = described.problem()?;
    let algorithm = Algorithm::new(described.direction, number)?;
    algorithm.check(&problem, Mode::current())?;
    let own = context::with(handle, |context| context.convolution_workspace(&problem, algorithm))?;
    size.set(convolution_compute::convolution_workspace(handle, described, own));
    Ok(())
}
