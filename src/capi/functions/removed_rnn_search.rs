//! The searches of version 8 for algorithms of recurrent networks: there is one, and its time is measured.

use std::ffi::{c_int, c_void};

use cudnn_shim_macros::entry;

use super::arg::{self, Out};
use super::recurrent::Space;
use super::removed_rnn_call::Vectors;
use super::removed_rnn_operands::{DataGradient, Forward, WeightGradient};
use super::types::{
    cudnnAlgorithmPerformance_t, cudnnFilterDescriptor_t, cudnnHandle_t, cudnnRNNDescriptor_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use super::{algorithm, context, removed_rnn_beside, removed_rnn_plan, rnn};
use crate::error::{Error, Result};

/// The time of an algorithm that was not measured.
const NOT_MEASURED: f32 = -1.0;

/// Where a search leaves what it finds.
struct Found {
    returned: Out<c_int>,
    /// The first place of the caller's list.
    first: cudnnAlgorithmPerformance_t,
}

impl Found {
    /// # Errors
    /// Bad parameter: NULL, fewer places than one, and a performance that is not alive.
    ///
    /// # Safety
    /// `returned` is NULL or valid for one write, `results` for reads of `requested` handles.
    unsafe fn new(
        requested: c_int, returned: *mut c_int, results: *mut cudnnAlgorithmPerformance_t,
    ) -> Result<Found> {
        // SAFETY: `returned` is NULL or valid for one write.
        let returned = unsafe { Out::new(returned, "returnedAlgoCount") }?;
        arg::required(results, "perfResults")?;
        if requested < 1 {
            return Err(Error::argument("requestedAlgoCount", requested.into(), "at least 1"));
        }
        // SAFETY: not NULL, and there is at least one.
        let first = unsafe { results.read_unaligned() };
        algorithm::check_performance(first, "perfResults")?;
        Ok(Found { returned, first })
    }

    /// Stores the one algorithm with its bytes of workspace and the milliseconds that it takes: those
    /// that `measured` finds, or without a time the workspace of the original, which serves the
    /// network.
    ///
    /// # Errors
    /// Those of `measured`.
    fn store(self, theirs: Option<usize>, measured: impl FnOnce() -> Result<(usize, f32)>) -> Result<()> {
        let (workspace, time) = theirs.map_or_else(measured, |workspace| Ok((workspace, NOT_MEASURED)))?;
        algorithm::set_performance(self.first, "perfResults", time, workspace)?;
        self.returned.set(removed_rnn_plan::ALGORITHMS);
        Ok(())
    }
}

/// The bytes of workspace of the original, if that serves the network. It is not measured: its calls
/// write the caller's results, which a search leaves alone, and there is nothing to choose.
///
/// # Errors
/// Those of the original.
fn beside(handle: cudnnHandle_t, x: &Vectors, desc: cudnnRNNDescriptor_t) -> Result<Option<usize>> {
    let network = removed_rnn_beside::Network::of(handle, desc, x.data, x.size)?;
    network.map(|network| network.spaces(x).map(|[workspace, _]| workspace)).transpose()
}

/// The algorithm of cudnnRNNForwardInference, with the time that it takes on the caller's `x`.
///
/// Operands
/// - as for cudnnRNNForwardInference: read; what that call writes is not touched
/// - `findIntensity`: not looked at, as there is one algorithm
/// - `perfResults`: the first becomes algorithm 0 with its time in milliseconds and its bytes of workspace
///
/// Workspace: as for cudnnRNNForwardInference; what is written goes to memory that the search takes for itself.
///
/// Status, in this order
/// - BAD_PARAM: a handle or performance that is not alive, NULL `returnedAlgoCount` or `perfResults`, a `requestedAlgoCount` below 1
/// - those of cudnnRNNForwardInference
///
/// Aliasing: as for cudnnRNNForwardInference. A failing call writes nothing.
///
/// Source: documentation of 8.9.7.
///
/// # Safety
/// As for cudnnRNNForwardInference; `returnedAlgoCount` is NULL or valid for one write, `perfResults` for reads of `requestedAlgoCount` handles.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindRNNForwardInferenceAlgorithmEx(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, seqLength: c_int,
    xDesc: *const cudnnTensorDescriptor_t, x: *const c_void, hxDesc: cudnnTensorDescriptor_t,
    hx: *const c_void, cxDesc: cudnnTensorDescriptor_t, cx: *const c_void, wDesc: cudnnFilterDescriptor_t,
    w: *const c_void, yDesc: *const cudnnTensorDescriptor_t, y: *mut c_void, hyDesc: cudnnTensorDescriptor_t,
    hy: *mut c_void, cyDesc: cudnnTensorDescriptor_t, cy: *mut c_void, findIntensity: f32,
    requestedAlgoCount: c_int, returnedAlgoCount: *mut c_int, perfResults: *mut cudnnAlgorithmPerformance_t,
    workspace: *mut c_void, workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnFindRNNForwardInferenceAlgorithmEx", |call| {
        rnn::get(rnnDesc)?;
        // SAFETY: arrays of descriptors are NULL or hold `seqLength` of them.
        let found = unsafe { Found::new(requestedAlgoCount, returnedAlgoCount, perfResults) }?;
        // SAFETY: arrays of descriptors are NULL or hold `seqLength` of them.
        let (x_vectors, y_vectors) = unsafe {
            (Vectors::steps(xDesc, seqLength, "xDesc")?, Vectors::steps(yDesc, seqLength, "yDesc")?)
        };
        let pass = Forward {
            rnn: rnnDesc,
            training: false,
            vectors: (x_vectors, y_vectors),
            x,
            y,
            hx: (hxDesc, hx),
            cx: (cxDesc, cx),
            hy: (hyDesc, hy),
            cy: (cyDesc, cy),
            w: (wDesc, w),
            workspace: Space { pointer: workspace, size: workSpaceSizeInBytes },
            reserve: Space { pointer: std::ptr::null_mut(), size: 0 },
        };
        let theirs = beside(handle, &pass.vectors.0, pass.rnn)?;
        found.store(theirs, || {
            // SAFETY: data pointers are valid for what their descriptors say, the spaces for their sizes.
            call.measured(|call| unsafe { pass.run(call) })
        })
    })
}

/// The algorithm of cudnnRNNForwardTraining, with the time that it takes on the caller's `x`.
///
/// Operands
/// - as for cudnnRNNForwardTraining: read; what that call writes is not touched
/// - `findIntensity`: not looked at, as there is one algorithm
/// - `perfResults`: the first becomes algorithm 0 with its time in milliseconds and its bytes of workspace
///
/// Workspace: as for cudnnRNNForwardTraining; what is written goes to memory that the search takes for itself.
///
/// Status, in this order
/// - BAD_PARAM: a handle or performance that is not alive, NULL `returnedAlgoCount` or `perfResults`, a `requestedAlgoCount` below 1
/// - those of cudnnRNNForwardTraining
///
/// Aliasing: as for cudnnRNNForwardTraining. A failing call writes nothing.
///
/// Source: documentation of 8.9.7.
///
/// # Safety
/// As for cudnnRNNForwardTraining; `returnedAlgoCount` is NULL or valid for one write, `perfResults` for reads of `requestedAlgoCount` handles.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindRNNForwardTrainingAlgorithmEx(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, seqLength: c_int,
    xDesc: *const cudnnTensorDescriptor_t, x: *const c_void, hxDesc: cudnnTensorDescriptor_t,
    hx: *const c_void, cxDesc: cudnnTensorDescriptor_t, cx: *const c_void, wDesc: cudnnFilterDescriptor_t,
    w: *const c_void, yDesc: *const cudnnTensorDescriptor_t, y: *mut c_void, hyDesc: cudnnTensorDescriptor_t,
    hy: *mut c_void, cyDesc: cudnnTensorDescriptor_t, cy: *mut c_void, findIntensity: f32,
    requestedAlgoCount: c_int, returnedAlgoCount: *mut c_int, perfResults: *mut cudnnAlgorithmPerformance_t,
    workspace: *mut c_void, workSpaceSizeInBytes: usize, reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnFindRNNForwardTrainingAlgorithmEx", |call| {
        rnn::get(rnnDesc)?;
        // SAFETY: arrays of descriptors are NULL or hold `seqLength` of them.
        let found = unsafe { Found::new(requestedAlgoCount, returnedAlgoCount, perfResults) }?;
        // SAFETY: arrays of descriptors are NULL or hold `seqLength` of them.
        let (x_vectors, y_vectors) = unsafe {
            (Vectors::steps(xDesc, seqLength, "xDesc")?, Vectors::steps(yDesc, seqLength, "yDesc")?)
        };
        let pass = Forward {
            rnn: rnnDesc,
            training: true,
            vectors: (x_vectors, y_vectors),
            x,
            y,
            hx: (hxDesc, hx),
            cx: (cxDesc, cx),
            hy: (hyDesc, hy),
            cy: (cyDesc, cy),
            w: (wDesc, w),
            workspace: Space { pointer: workspace, size: workSpaceSizeInBytes },
            reserve: Space { pointer: reserveSpace, size: reserveSpaceSizeInBytes },
        };
        let theirs = beside(handle, &pass.vectors.0, pass.rnn)?;
        found.store(theirs, || {
            // SAFETY: data pointers are valid for what their descriptors say, the spaces for their sizes.
            call.measured(|call| unsafe { pass.run(call) })
        })
    })
}

/// The algorithm of cudnnRNNBackwardData, with the time that it takes on the caller's `dy`.
///
/// Operands
/// - as for cudnnRNNBackwardData: read; what that call writes is not touched
/// - `findIntensity`: not looked at, as there is one algorithm
/// - `perfResults`: the first becomes algorithm 0 with its time in milliseconds and its bytes of workspace
///
/// Workspace: as for cudnnRNNBackwardData; what is written goes to memory that the search takes for itself.
///
/// Status, in this order
/// - BAD_PARAM: a handle or performance that is not alive, NULL `returnedAlgoCount` or `perfResults`, a `requestedAlgoCount` below 1
/// - those of cudnnRNNBackwardData
///
/// Aliasing: as for cudnnRNNBackwardData. A failing call writes nothing.
///
/// Source: documentation of 8.9.7.
///
/// # Safety
/// As for cudnnRNNBackwardData; `returnedAlgoCount` is NULL or valid for one write, `perfResults` for reads of `requestedAlgoCount` handles.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindRNNBackwardDataAlgorithmEx(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, seqLength: c_int,
    yDesc: *const cudnnTensorDescriptor_t, y: *const c_void, dyDesc: *const cudnnTensorDescriptor_t,
    dy: *const c_void, dhyDesc: cudnnTensorDescriptor_t, dhy: *const c_void,
    dcyDesc: cudnnTensorDescriptor_t, dcy: *const c_void, wDesc: cudnnFilterDescriptor_t, w: *const c_void,
    hxDesc: cudnnTensorDescriptor_t, hx: *const c_void, cxDesc: cudnnTensorDescriptor_t, cx: *const c_void,
    dxDesc: *const cudnnTensorDescriptor_t, dx: *mut c_void, dhxDesc: cudnnTensorDescriptor_t,
    dhx: *mut c_void, dcxDesc: cudnnTensorDescriptor_t, dcx: *mut c_void, findIntensity: f32,
    requestedAlgoCount: c_int, returnedAlgoCount: *mut c_int, perfResults: *mut cudnnAlgorithmPerformance_t,
    workspace: *mut c_void, workSpaceSizeInBytes: usize, reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnFindRNNBackwardDataAlgorithmEx", |call| {
        rnn::get(rnnDesc)?;
        // SAFETY: `returnedAlgoCount` is NULL or valid for one write, `perfResults` holds `requestedAlgoCount` handles.
        let found = unsafe { Found::new(requestedAlgoCount, returnedAlgoCount, perfResults) }?;
        // SAFETY: arrays of descriptors are NULL or hold `seqLength` of them.
        let (y_vectors, dy_vectors, dx_vectors) = unsafe {
            (
                Vectors::steps(yDesc, seqLength, "yDesc")?,
                Vectors::steps(dyDesc, seqLength, "dyDesc")?,
                Vectors::steps(dxDesc, seqLength, "dxDesc")?,
            )
        };
        let pass = DataGradient {
            rnn: rnnDesc,
            vectors: (dx_vectors, [y_vectors, dy_vectors]),
            dy,
            dhy: (dhyDesc, dhy),
            dcy: (dcyDesc, dcy),
            w: (wDesc, w),
            hx,
            cx,
            dx,
            dhx: (dhxDesc, dhx),
            dcx: (dcxDesc, dcx),
            workspace: Space { pointer: workspace, size: workSpaceSizeInBytes },
            reserve: Space { pointer: reserveSpace, size: reserveSpaceSizeInBytes },
        };
        let theirs = beside(handle, &pass.vectors.0, pass.rnn)?;
        found.store(theirs, || {
            // SAFETY: data pointers are valid for what their descriptors say, the spaces for their sizes.
            call.measured(|call| unsafe { pass.run(call) })
        })
    })
}

/// The algorithm of cudnnRNNBackwardWeights, with the time that it takes on the caller's `x`.
///
/// Operands
/// - as for cudnnRNNBackwardWeights: read; what that call writes is not touched
/// - `findIntensity`: not looked at, as there is one algorithm
/// - `perfResults`: the first becomes algorithm 0 with its time in milliseconds and its bytes of workspace
///
/// Workspace: as for cudnnRNNBackwardWeights; what is written goes to memory that the search takes for itself.
///
/// Status, in this order
/// - BAD_PARAM: a handle or performance that is not alive, NULL `returnedAlgoCount` or `perfResults`, a `requestedAlgoCount` below 1
/// - those of cudnnRNNBackwardWeights
///
/// Aliasing: as for cudnnRNNBackwardWeights. A failing call writes nothing.
///
/// Source: documentation of 8.9.7.
///
/// # Safety
/// As for cudnnRNNBackwardWeights; `returnedAlgoCount` is NULL or valid for one write, `perfResults` for reads of `requestedAlgoCount` handles.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFindRNNBackwardWeightsAlgorithmEx(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, seqLength: c_int,
    xDesc: *const cudnnTensorDescriptor_t, x: *const c_void, hxDesc: cudnnTensorDescriptor_t,
    hx: *const c_void, yDesc: *const cudnnTensorDescriptor_t, y: *const c_void, findIntensity: f32,
    requestedAlgoCount: c_int, returnedAlgoCount: *mut c_int, perfResults: *mut cudnnAlgorithmPerformance_t,
    workspace: *const c_void, workSpaceSizeInBytes: usize, dwDesc: cudnnFilterDescriptor_t, dw: *mut c_void,
    reserveSpace: *const c_void, reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnFindRNNBackwardWeightsAlgorithmEx", |call| {
        rnn::get(rnnDesc)?;
        // SAFETY: arrays of descriptors are NULL or hold `seqLength` of them.
        let found = unsafe { Found::new(requestedAlgoCount, returnedAlgoCount, perfResults) }?;
        // SAFETY: arrays of descriptors are NULL or hold `seqLength` of them.
        let (x_vectors, y_vectors) = unsafe {
            (Vectors::steps(xDesc, seqLength, "xDesc")?, Vectors::steps(yDesc, seqLength, "yDesc")?)
        };
        let pass = WeightGradient {
            rnn: rnnDesc,
            vectors: (x_vectors, y_vectors),
            x,
            hx: (hxDesc, hx),
            dw: (dwDesc, dw),
            workspace: Space { pointer: workspace.cast_mut(), size: workSpaceSizeInBytes },
            reserve: Space { pointer: reserveSpace.cast_mut(), size: reserveSpaceSizeInBytes },
        };
        let theirs = beside(handle, &pass.vectors.0, pass.rnn)?;
        found.store(theirs, || {
            // SAFETY: data pointers are valid for what their descriptors say, the spaces for their sizes.
            call.measured(|call| unsafe { pass.run(call) })
        })
    })
}
