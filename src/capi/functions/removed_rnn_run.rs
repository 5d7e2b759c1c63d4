//! Recurrent networks as version 6 ran them, on one tensor descriptor per time step.

use std::ffi::{c_int, c_void};

use cudnn_shim_macros::entry;

use super::recurrent::Space;
use super::removed_rnn_call::Vectors;
use super::removed_rnn_operands::{DataGradient, Forward, WeightGradient};
use super::types::{
    cudnnFilterDescriptor_t, cudnnHandle_t, cudnnRNNDescriptor_t, cudnnStatus_t, cudnnTensorDescriptor_t,
};
use super::{context, rnn};

/// `y = network(x)`, with the last states hy and cy; cudnnRNNForward with `fwdMode` 0.
///
/// Operands
/// - `x`, `y`: vectors, time step by time step without padding; `xDesc[t]` is `[batch, inputSize, 1]` and `yDesc[t]` `[batch, directions *
///   projection or hidden size, 1]`. Sequences are sorted by falling length, so that the batch never increases: the packed layout of
///   cudnnSetRNNDataDescriptor. NULL x are zeros, a NULL y is not wanted
/// - `hx`, `cx`, `hy`, `cy`: states `[layers * directions, batch, projection or hidden size]` in the order of the batch; NULL hx and cx
///   are zeros, NULL hy and cy are not wanted. A descriptor is looked at where its pointer is given
/// - `w`: cudnnGetRNNParamsSize bytes, read; of `wDesc` only the bytes count
///
/// Workspace: cudnnGetRNNWorkspaceSize bytes; nothing in it matters between calls.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive, a `seqLength` below 1, a NULL array
/// - NOT_SUPPORTED: a type other than FLOAT, DOUBLE and HALF computed in FLOAT, DOUBLE in DOUBLE, HALF in HALF
/// - BAD_PARAM: descriptors of time steps that are not packed, of different types or vector sizes, or whose batch increases or is not the
///   same for all data; vector sizes that are not the network's
/// - BAD_PARAM: NULL weights, workspace; too small ones; a `wDesc` of fewer bytes than the weights have
/// - BAD_PARAM: descriptors of states whose pointer is given that are NULL, not packed, or of other dims
/// - BAD_PARAM: misaligned data
///
/// Aliasing: as cudnnRNNForward. A failing call writes nothing.
///
/// Source: observed on 8.9.7.
///
/// # Safety
/// Every pointer is NULL or valid for what its descriptor says, arrays for `seqLength` descriptors, the spaces for their sizes; no other thread uses any of
/// them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNForwardInference(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, seqLength: c_int,
    xDesc: *const cudnnTensorDescriptor_t, x: *const c_void, hxDesc: cudnnTensorDescriptor_t,
    hx: *const c_void, cxDesc: cudnnTensorDescriptor_t, cx: *const c_void, wDesc: cudnnFilterDescriptor_t,
    w: *const c_void, yDesc: *const cudnnTensorDescriptor_t, y: *mut c_void, hyDesc: cudnnTensorDescriptor_t,
    hy: *mut c_void, cyDesc: cudnnTensorDescriptor_t, cy: *mut c_void, workSpace: *mut c_void,
    workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnRNNForwardInference", |call| {
        rnn::get(rnnDesc)?;
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
            workspace: Space { pointer: workSpace, size: workSpaceSizeInBytes },
            reserve: Space { pointer: std::ptr::null_mut(), size: 0 },
        };
        // SAFETY: data pointers are valid for what their descriptors say, the spaces for their sizes.
        unsafe { pass.serve(handle, call) }
    })
}

/// `y = network(x)`, with the last states hy and cy; cudnnRNNForward with `fwdMode` 1.
///
/// Operands
/// - `x`, `y`: vectors, time step by time step without padding; `xDesc[t]` is `[batch, inputSize, 1]` and `yDesc[t]` `[batch, directions *
///   projection or hidden size, 1]`. Sequences are sorted by falling length, so that the batch never increases: the packed layout of
///   cudnnSetRNNDataDescriptor. NULL x are zeros, a NULL y is not wanted
/// - `hx`, `cx`, `hy`, `cy`: states `[layers * directions, batch, projection or hidden size]` in the order of the batch; NULL hx and cx
///   are zeros, NULL hy and cy are not wanted. A descriptor is looked at where its pointer is given
/// - `w`: cudnnGetRNNParamsSize bytes, read; of `wDesc` only the bytes count
/// - `reserveSpace`: cudnnGetRNNTrainingReserveSize bytes, written; the states of the dropout, read and counted up
///
/// Workspace: cudnnGetRNNWorkspaceSize bytes; nothing in it matters between calls.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive, a `seqLength` below 1, a NULL array
/// - NOT_SUPPORTED: a type other than FLOAT, DOUBLE and HALF computed in FLOAT, DOUBLE in DOUBLE, HALF in HALF
/// - BAD_PARAM: descriptors of time steps that are not packed, of different types or vector sizes, or whose batch increases or is not the
///   same for all data; vector sizes that are not the network's
/// - BAD_PARAM: NULL weights, workspace or reserve space; too small ones; a `wDesc` of fewer bytes than the weights have
/// - BAD_PARAM: descriptors of states whose pointer is given that are NULL, not packed, or of other dims
/// - BAD_PARAM: misaligned data
///
/// Aliasing: as cudnnRNNForward. A failing call writes nothing.
///
/// Source: observed on 8.9.7.
///
/// # Safety
/// Every pointer is NULL or valid for what its descriptor says, arrays for `seqLength` descriptors, the spaces for their sizes; no other thread uses any of
/// them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNForwardTraining(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, seqLength: c_int,
    xDesc: *const cudnnTensorDescriptor_t, x: *const c_void, hxDesc: cudnnTensorDescriptor_t,
    hx: *const c_void, cxDesc: cudnnTensorDescriptor_t, cx: *const c_void, wDesc: cudnnFilterDescriptor_t,
    w: *const c_void, yDesc: *const cudnnTensorDescriptor_t, y: *mut c_void, hyDesc: cudnnTensorDescriptor_t,
    hy: *mut c_void, cyDesc: cudnnTensorDescriptor_t, cy: *mut c_void, workSpace: *mut c_void,
    workSpaceSizeInBytes: usize, reserveSpace: *mut c_void, reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnRNNForwardTraining", |call| {
        rnn::get(rnnDesc)?;
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
            workspace: Space { pointer: workSpace, size: workSpaceSizeInBytes },
            reserve: Space { pointer: reserveSpace, size: reserveSpaceSizeInBytes },
        };
        // SAFETY: data pointers are valid for what their descriptors say, the spaces for their sizes.
        unsafe { pass.serve(handle, call) }
    })
}

/// `dx`, `dhx`, `dcx`: gradients of a recurrent network by its inputs and first states, from those by its outputs and last states.
///
/// The formulas are those of cudnnRNNBackwardData_v8, and so are the bits.
///
/// Operands
/// - `y`, `dy`: outputs and their gradients, laid out as in the forward call; `dx`: written. NULL dy are zeros
/// - `dhy`, `dcy`: gradients by the last states, NULL for zeros; `dhx`, `dcx`: written, NULL if not wanted. Their descriptors are looked at where
///   the pointer is given
/// - `hx`, `cx`: the first states of the forward call; `hxDesc` and `cxDesc` are not looked at
/// - `w`: as in the forward call
/// - `reserveSpace`: as the forward call in training has left it; kept for the gradients of the weights
///
/// Workspace: cudnnGetRNNWorkspaceSize bytes; nothing in it matters between calls.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive, a `seqLength` below 1, a NULL array
/// - NOT_SUPPORTED: a type other than FLOAT, DOUBLE and HALF computed in FLOAT, DOUBLE in DOUBLE, HALF in HALF
/// - BAD_PARAM: descriptors of time steps that are not packed, of different types or vector sizes, or whose batch increases or is not the
///   same for all data; vector sizes that are not the network's
/// - BAD_PARAM: NULL weights, workspace or reserve space; too small ones; a `wDesc` of fewer bytes than the weights have
/// - BAD_PARAM: descriptors of states whose pointer is given that are NULL, not packed, or of other dims
/// - BAD_PARAM: misaligned data
///
/// Aliasing: as cudnnRNNBackwardData_v8. A failing call writes nothing.
///
/// Source: observed on 8.9.7.
///
/// # Safety
/// Every pointer is NULL or valid for what its descriptor says, arrays for `seqLength` descriptors, the spaces for their sizes; no other thread uses any of
/// them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNBackwardData(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, seqLength: c_int,
    yDesc: *const cudnnTensorDescriptor_t, y: *const c_void, dyDesc: *const cudnnTensorDescriptor_t,
    dy: *const c_void, dhyDesc: cudnnTensorDescriptor_t, dhy: *const c_void,
    dcyDesc: cudnnTensorDescriptor_t, dcy: *const c_void, wDesc: cudnnFilterDescriptor_t, w: *const c_void,
    hxDesc: cudnnTensorDescriptor_t, hx: *const c_void, cxDesc: cudnnTensorDescriptor_t, cx: *const c_void,
    dxDesc: *const cudnnTensorDescriptor_t, dx: *mut c_void, dhxDesc: cudnnTensorDescriptor_t,
    dhx: *mut c_void, dcxDesc: cudnnTensorDescriptor_t, dcx: *mut c_void, workSpace: *mut c_void,
    workSpaceSizeInBytes: usize, reserveSpace: *mut c_void, reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnRNNBackwardData", |call| {
        rnn::get(rnnDesc)?;
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
            workspace: Space { pointer: workSpace, size: workSpaceSizeInBytes },
            reserve: Space { pointer: reserveSpace, size: reserveSpaceSizeInBytes },
        };
        // SAFETY: data pointers are valid for what their descriptors say, the spaces for their sizes.
        unsafe { pass.serve(handle, y, call) }
    })
}

/// Gradients of a recurrent network by its weights, added to what is in `dw`.
///
/// Comes behind the gradients of the data, on the same reserve space. The bits are those of cudnnRNNBackwardWeights_v8.
///
/// Operands
/// - `x`, `hx`, `y`: of the forward call; a NULL hx is zeros, and `hxDesc` is looked at where hx is given
/// - `dw`: cudnnGetRNNParamsSize bytes, read and written; of `dwDesc` only the bytes count
/// - `reserveSpace`: as the gradients of the data have left it
///
/// Workspace: cudnnGetRNNWorkspaceSize bytes; nothing in it matters between calls.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive, a `seqLength` below 1, a NULL array
/// - NOT_SUPPORTED: a type other than FLOAT, DOUBLE and HALF computed in FLOAT, DOUBLE in DOUBLE, HALF in HALF
/// - BAD_PARAM: descriptors of time steps that are not packed, of different types or vector sizes, or whose batch increases or is not the
///   same for all data; vector sizes that are not the network's
/// - BAD_PARAM: NULL weights, workspace or reserve space; too small ones; a `dwDesc` of fewer bytes than the weights have
/// - BAD_PARAM: descriptors of states whose pointer is given that are NULL, not packed, or of other dims
/// - BAD_PARAM: misaligned data
///
/// Aliasing: as cudnnRNNBackwardWeights_v8. A failing call writes nothing.
///
/// Source: observed on 8.9.7.
///
/// # Safety
/// Every pointer is NULL or valid for what its descriptor says, arrays for `seqLength` descriptors, the spaces for their sizes; no other thread uses any of
/// them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNBackwardWeights(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, seqLength: c_int,
    xDesc: *const cudnnTensorDescriptor_t, x: *const c_void, hxDesc: cudnnTensorDescriptor_t,
    hx: *const c_void, yDesc: *const cudnnTensorDescriptor_t, y: *const c_void, workSpace: *const c_void,
    workSpaceSizeInBytes: usize, dwDesc: cudnnFilterDescriptor_t, dw: *mut c_void,
    reserveSpace: *const c_void, reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnRNNBackwardWeights", |call| {
        rnn::get(rnnDesc)?;
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
            workspace: Space { pointer: workSpace.cast_mut(), size: workSpaceSizeInBytes },
            reserve: Space { pointer: reserveSpace.cast_mut(), size: reserveSpaceSizeInBytes },
        };
        // SAFETY: data pointers are valid for what their descriptors say, the spaces for their sizes.
        unsafe { pass.serve(handle, y, call) }
    })
}
