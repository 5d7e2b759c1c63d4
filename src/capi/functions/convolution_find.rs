//! Algorithms for a convolution, ranked by measuring them.

use std::ffi::{c_int, c_void};

use cudnn_shim_macros::entry;

use super::arg::{self, Out};
use super::context;
use super::convolution_compute;
use super::convolution_problem::{CRecord, Described, described, store};
use super::types::{
    cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionDescriptor_t,
    cudnnConvolutionFwdAlgoPerf_t, cudnnFilterDescriptor_t, cudnnHandle_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use crate::error::{Error, Result};
use crate::exec::Workspace;
use crate::ops::convolution::Direction;

/// Forward algorithms for `y = conv(x, w)`, ranked by measuring them on memory of the library's own.
///
/// The records of cudnnGetConvolutionForwardAlgorithm_v7 with the milliseconds that a call takes, the shortest first. Numbers
/// that are computed alike share one measurement, the best of up to three runs: on a GPU, where long sums are cut, all but 0; on
/// the CPU core all, or all but those of Winograd's algorithms where these are computed with fewer products. Under FMA math and in
/// strict mode the latter are listed behind the others, however fast. `time` is -1 where nothing was measured, for want of
/// memory.
///
/// Operands
/// - descriptors of the problem, as for the call that computes
/// - `returnedAlgoCount`: one int; `perfResults`: `requestedAlgoCount` records
///
/// Workspace: none. As much memory as the three operands take is allocated for the duration of the call, on the device for
/// the CUDA core, where the call waits for the handle's stream.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive, a NULL pointer, a request below 1, a problem that does not fit
/// - SUCCESS otherwise, also where nothing serves: every record then holds the status of the call that computes
///
/// Aliasing: none.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `returnedAlgoCount` is NULL or valid for one write, `perfResults` NULL or valid for `requestedAlgoCount` writes.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindConvolutionForwardAlgorithm(
    handle: cudnnHandle_t, xDesc: cudnnTensorDescriptor_t, wDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t, yDesc: cudnnTensorDescriptor_t, requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int, perfResults: *mut cudnnConvolutionFwdAlgoPerf_t,
) -> cudnnStatus_t {
    let described = described!(Forward: xDesc, wDesc, yDesc, convDesc);
    let search = Search {
        data: None,
        workspace: (std::ptr::null_mut(), 0),
        requested: requestedAlgoCount,
        returned: returnedAlgoCount,
        results: perfResults,
    };
    // SAFETY: `returnedAlgoCount` is NULL or valid for one write, `perfResults` for `requestedAlgoCount`.
    unsafe { measured("cudnnFindConvolutionForwardAlgorithm", handle, &described, search) }
}

/// Forward algorithms, ranked by measuring them on the caller's `x` and `w`.
///
/// As cudnnFindConvolutionForwardAlgorithm, on `x` and `w`. `y` is not touched: what is measured goes to memory of the
/// library's own. In strict mode an algorithm that needs more workspace than is given is listed with BAD_PARAM.
///
/// Operands
/// - `x`, `w`, `y` and their descriptors: as cudnnConvolutionForward
/// - `perfResults`: room for `requestedAlgoCount` records; `returnedAlgoCount`: how many were written
///
/// Workspace: what the algorithms may use; NULL and 0 are fine.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; a NULL pointer, of results first, then of data; a request below 1
/// - then as cudnnConvolutionForward finds of the descriptors; what only one algorithm lacks is the status in its record
/// - BAD_PARAM_MISALIGNED_POINTER: x, w or y
///
/// Aliasing: nothing of the caller's is written but the records and their number.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// As for cudnnFindConvolutionForwardAlgorithm and for cudnnConvolutionForward.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindConvolutionForwardAlgorithmEx(
    handle: cudnnHandle_t, xDesc: cudnnTensorDescriptor_t, x: *const c_void, wDesc: cudnnFilterDescriptor_t,
    w: *const c_void, convDesc: cudnnConvolutionDescriptor_t, yDesc: cudnnTensorDescriptor_t, y: *mut c_void,
    requestedAlgoCount: c_int, returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionFwdAlgoPerf_t, workSpace: *mut c_void, workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    let described = described!(Forward: xDesc, wDesc, yDesc, convDesc);
    let search = Search {
        data: Some([(y, "y"), (x.cast_mut(), "x"), (w.cast_mut(), "w")]),
        workspace: (workSpace, workSpaceSizeInBytes),
        requested: requestedAlgoCount,
        returned: returnedAlgoCount,
        results: perfResults,
    };
    // SAFETY: `returnedAlgoCount` and `perfResults` have room or are NULL; data is valid for its descriptors' spans.
    unsafe { measured("cudnnFindConvolutionForwardAlgorithmEx", handle, &described, search) }
}

/// Algorithms for the `dx` of a convolution, ranked by measuring them on memory of the library's own.
///
/// Operands: as cudnnFindConvolutionForwardAlgorithm.
///
/// Workspace: as cudnnFindConvolutionForwardAlgorithm.
///
/// Status, in this order: as cudnnFindConvolutionForwardAlgorithm.
///
/// Aliasing: as cudnnFindConvolutionForwardAlgorithm.
///
/// Source: as cudnnFindConvolutionForwardAlgorithm.
///
/// # Safety
/// As for cudnnFindConvolutionForwardAlgorithm.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindConvolutionBackwardDataAlgorithm(
    handle: cudnnHandle_t, wDesc: cudnnFilterDescriptor_t, dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t, dxDesc: cudnnTensorDescriptor_t, requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int, perfResults: *mut cudnnConvolutionBwdDataAlgoPerf_t,
) -> cudnnStatus_t {
    let described = described!(BackwardData: dxDesc, wDesc, dyDesc, convDesc);
    let search = Search {
        data: None,
        workspace: (std::ptr::null_mut(), 0),
        requested: requestedAlgoCount,
        returned: returnedAlgoCount,
        results: perfResults,
    };
    // SAFETY: `returnedAlgoCount` is NULL or valid for one write, `perfResults` for `requestedAlgoCount`.
    unsafe { measured("cudnnFindConvolutionBackwardDataAlgorithm", handle, &described, search) }
}

/// Data gradient algorithms, ranked by measuring them on the caller's `dy` and `w`.
///
/// Operands
/// - as cudnnFindConvolutionForwardAlgorithmEx, of cudnnConvolutionBackwardData; `dx` is not touched
///
/// Workspace: as cudnnFindConvolutionForwardAlgorithmEx.
///
/// Status, in this order: as cudnnFindConvolutionForwardAlgorithmEx.
///
/// Aliasing: as cudnnFindConvolutionForwardAlgorithmEx.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// As for cudnnFindConvolutionForwardAlgorithm and for cudnnConvolutionBackwardData.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindConvolutionBackwardDataAlgorithmEx(
    handle: cudnnHandle_t, wDesc: cudnnFilterDescriptor_t, w: *const c_void, dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void, convDesc: cudnnConvolutionDescriptor_t, dxDesc: cudnnTensorDescriptor_t,
    dx: *mut c_void, requestedAlgoCount: c_int, returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionBwdDataAlgoPerf_t, workSpace: *mut c_void, workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    let described = described!(BackwardData: dxDesc, wDesc, dyDesc, convDesc);
    let search = Search {
        data: Some([(dx, "dx"), (dy.cast_mut(), "dy"), (w.cast_mut(), "w")]),
        workspace: (workSpace, workSpaceSizeInBytes),
        requested: requestedAlgoCount,
        returned: returnedAlgoCount,
        results: perfResults,
    };
    // SAFETY: `returnedAlgoCount` and `perfResults` have room or are NULL; data is valid for its descriptors' spans.
    unsafe { measured("cudnnFindConvolutionBackwardDataAlgorithmEx", handle, &described, search) }
}

/// Algorithms for the `dw` of a convolution, ranked by measuring them on memory of the library's own.
///
/// Operands: as cudnnFindConvolutionForwardAlgorithm.
///
/// Workspace: as cudnnFindConvolutionForwardAlgorithm.
///
/// Status, in this order: as cudnnFindConvolutionForwardAlgorithm.
///
/// Aliasing: as cudnnFindConvolutionForwardAlgorithm.
///
/// Source: as cudnnFindConvolutionForwardAlgorithm.
///
/// # Safety
/// As for cudnnFindConvolutionForwardAlgorithm.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindConvolutionBackwardFilterAlgorithm(
    handle: cudnnHandle_t, xDesc: cudnnTensorDescriptor_t, dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t, dwDesc: cudnnFilterDescriptor_t, requestedAlgoCount: c_int,
    returnedAlgoCount: *mut c_int, perfResults: *mut cudnnConvolutionBwdFilterAlgoPerf_t,
) -> cudnnStatus_t {
    let described = described!(BackwardFilter: xDesc, dwDesc, dyDesc, convDesc);
    let search = Search {
        data: None,
        workspace: (std::ptr::null_mut(), 0),
        requested: requestedAlgoCount,
        returned: returnedAlgoCount,
        results: perfResults,
    };
    // SAFETY: `returnedAlgoCount` is NULL or valid for one write, `perfResults` for `requestedAlgoCount`.
    unsafe { measured("cudnnFindConvolutionBackwardFilterAlgorithm", handle, &described, search) }
}

/// Filter gradient algorithms, ranked by measuring them on the caller's `x` and `dy`.
///
/// Operands
/// - as cudnnFindConvolutionForwardAlgorithmEx, of cudnnConvolutionBackwardFilter; `dw` is not touched
///
/// Workspace: as cudnnFindConvolutionForwardAlgorithmEx.
///
/// Status, in this order: as cudnnFindConvolutionForwardAlgorithmEx.
///
/// Aliasing: as cudnnFindConvolutionForwardAlgorithmEx.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// As for cudnnFindConvolutionForwardAlgorithm and for cudnnConvolutionBackwardFilter.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindConvolutionBackwardFilterAlgorithmEx(
    handle: cudnnHandle_t, xDesc: cudnnTensorDescriptor_t, x: *const c_void, dyDesc: cudnnTensorDescriptor_t,
    y: *const c_void, convDesc: cudnnConvolutionDescriptor_t, dwDesc: cudnnFilterDescriptor_t,
    dw: *mut c_void, requestedAlgoCount: c_int, returnedAlgoCount: *mut c_int,
    perfResults: *mut cudnnConvolutionBwdFilterAlgoPerf_t, workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    let described = described!(BackwardFilter: xDesc, dwDesc, dyDesc, convDesc);
    let search = Search {
        data: Some([(dw, "dw"), (x.cast_mut(), "x"), (y.cast_mut(), "y")]),
        workspace: (workSpace, workSpaceSizeInBytes),
        requested: requestedAlgoCount,
        returned: returnedAlgoCount,
        results: perfResults,
    };
    // SAFETY: `returnedAlgoCount` and `perfResults` have room or are NULL; data is valid for its descriptors' spans.
    unsafe { measured("cudnnFindConvolutionBackwardFilterAlgorithmEx", handle, &described, search) }
}

/// What is measured, and where the records go.
struct Search<R> {
    /// The caller's operands with their names, the destination first.
    data: Option<[(*mut c_void, &'static str); 3]>,
    workspace: (*mut c_void, usize),
    requested: c_int,
    returned: *mut c_int,
    results: *mut R,
}

/// Measures what the numbers of an algorithm do, and stores the records, the shortest time first.
///
/// # Safety
/// As for the calls above.
unsafe fn measured<R: CRecord>(
    name: &'static str, handle: cudnnHandle_t, described: &Described, search: Search<R>,
) -> Result<()> {
    context::compute(handle, name, |call| {
        let alive = described.alive()?;
        // SAFETY: `returnedAlgoCount` is NULL or valid for one write.
        let returned = unsafe { Out::new(search.returned, "returnedAlgoCount") }?;
        arg::required(search.results, "perfResults")?;
        for (pointer, name) in search.data.iter().flatten() {
            arg::required(*pointer, name)?;
        }
        if search.requested < 1 {
            let rule = "at least 1";
            return Err(Error::argument("requestedAlgoCount", search.requested.into(), rule));
        }
        let problem = alive.problem()?;
        let (at, bytes) = search.workspace;
        let operands = search.data.map(|data| data.map(|(pointer, name)| (name, pointer.into())));
        // SAFETY: the caller vouches for the operands and the workspace.
        let mut records = unsafe { call.search(&problem, operands, Workspace { at: at.into(), bytes }) }?;
        convolution_compute::tell_workspace(handle, described, records.iter_mut().map(|(record, _)| record));
        // SAFETY: not NULL, and the caller vouches for as many records as are requested.
        returned.set(unsafe { store(search.results, search.requested, &records) });
        Ok(())
    })
}
