//! Recurrent networks as version 6 ran them, on batches of sequences that may be padded.

use std::ffi::c_void;

use cudnn_shim_macros::entry;

use super::recurrent::Space;
use super::removed_rnn_call::Vectors;
use super::removed_rnn_operands::{DataGradient, Forward, WeightGradient};
use super::types::{
    cudnnFilterDescriptor_t, cudnnHandle_t, cudnnRNNDataDescriptor_t, cudnnRNNDescriptor_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use super::{context, rnn};

/// `y = network(x)` for a batch that may be padded, with the last states hy and cy; cudnnRNNForward with `fwdMode` 0.
///
/// Operands
/// - `x`, `y`: vectors as `xDesc` and `yDesc` say, lengths in any order; behind the end of a sequence x is not read, and y
///   becomes the padding fill of `yDesc` or, without one, stays as it is. NULL x are zeros, a NULL y is not wanted
/// - `hx`, `cx`, `hy`, `cy`: states `[layers * directions, batch, projection or hidden size]` in the order of the batch; NULL hx and cx
///   are zeros, NULL hy and cy are not wanted. A descriptor is looked at where its pointer is given
/// - `w`: cudnnGetRNNParamsSize bytes, read; of `wDesc` only the bytes count
/// - `kDesc` to `queries`: not looked at
///
/// Workspace: cudnnGetRNNWorkspaceSize bytes for as many time steps as the longest sequence has, each of the whole batch; nothing in it matters between calls.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; x and y of different types
/// - NOT_SUPPORTED: a type other than FLOAT, DOUBLE and HALF computed in FLOAT, DOUBLE in DOUBLE, HALF in HALF
/// - BAD_PARAM: descriptors that differ in layout, maxSeqLength or lengths; without padding mode, the batch-major layout and padding;
///   vector sizes that are not the network's
/// - BAD_PARAM: NULL weights, workspace; too small ones; a `wDesc` of fewer bytes than the weights have
/// - BAD_PARAM: descriptors of states whose pointer is given that are NULL, not packed, or of other dims
/// - BAD_PARAM: misaligned data
///
/// Aliasing: as cudnnRNNForward. A failing call writes nothing.
///
/// Source: observed on 8.9.7.
///
/// # Safety
/// Every pointer is NULL or valid for what its descriptor says, the spaces for their sizes; no other thread uses any of
/// them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNForwardInferenceEx(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, xDesc: cudnnRNNDataDescriptor_t, x: *const c_void,
    hxDesc: cudnnTensorDescriptor_t, hx: *const c_void, cxDesc: cudnnTensorDescriptor_t, cx: *const c_void,
    wDesc: cudnnFilterDescriptor_t, w: *const c_void, yDesc: cudnnRNNDataDescriptor_t, y: *mut c_void,
    hyDesc: cudnnTensorDescriptor_t, hy: *mut c_void, cyDesc: cudnnTensorDescriptor_t, cy: *mut c_void,
    kDesc: cudnnRNNDataDescriptor_t, keys: *const c_void, cDesc: cudnnRNNDataDescriptor_t,
    cAttn: *mut c_void, iDesc: cudnnRNNDataDescriptor_t, iAttn: *mut c_void, qDesc: cudnnRNNDataDescriptor_t,
    queries: *mut c_void, workSpace: *mut c_void, workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnRNNForwardInferenceEx", |call| {
        rnn::get(rnnDesc)?;
        let x_vectors = Vectors::of(xDesc, "xDesc")?;
        let y_vectors = Vectors::of(yDesc, "yDesc")?;
        x_vectors.check_type(&y_vectors)?;
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

/// `y = network(x)` for a batch that may be padded, with the last states hy and cy; cudnnRNNForward with `fwdMode` 1.
///
/// Operands
/// - `x`, `y`: vectors as `xDesc` and `yDesc` say, lengths in any order; behind the end of a sequence x is not read, and y
///   becomes the padding fill of `yDesc` or, without one, stays as it is. NULL x are zeros, a NULL y is not wanted
/// - `hx`, `cx`, `hy`, `cy`: states `[layers * directions, batch, projection or hidden size]` in the order of the batch; NULL hx and cx
///   are zeros, NULL hy and cy are not wanted. A descriptor is looked at where its pointer is given
/// - `w`: cudnnGetRNNParamsSize bytes, read; of `wDesc` only the bytes count
/// - `reserveSpace`: cudnnGetRNNTrainingReserveSize bytes, written; the states of the dropout, read and counted up
/// - `kDesc` to `queries`: not looked at
///
/// Workspace: cudnnGetRNNWorkspaceSize bytes for as many time steps as the longest sequence has, each of the whole batch; nothing in it matters between calls.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; x and y of different types
/// - NOT_SUPPORTED: a type other than FLOAT, DOUBLE and HALF computed in FLOAT, DOUBLE in DOUBLE, HALF in HALF
/// - BAD_PARAM: descriptors that differ in layout, maxSeqLength or lengths; without padding mode, the batch-major layout and padding;
///   vector sizes that are not the network's
/// - BAD_PARAM: NULL weights, workspace or reserve space; too small ones; a `wDesc` of fewer bytes than the weights have
/// - BAD_PARAM: descriptors of states whose pointer is given that are NULL, not packed, or of other dims
/// - BAD_PARAM: misaligned data
///
/// Aliasing: as cudnnRNNForward. A failing call writes nothing.
///
/// Source: observed on 8.9.7.
///
/// # Safety
/// Every pointer is NULL or valid for what its descriptor says, the spaces for their sizes; no other thread uses any of
/// them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNForwardTrainingEx(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, xDesc: cudnnRNNDataDescriptor_t, x: *const c_void,
    hxDesc: cudnnTensorDescriptor_t, hx: *const c_void, cxDesc: cudnnTensorDescriptor_t, cx: *const c_void,
    wDesc: cudnnFilterDescriptor_t, w: *const c_void, yDesc: cudnnRNNDataDescriptor_t, y: *mut c_void,
    hyDesc: cudnnTensorDescriptor_t, hy: *mut c_void, cyDesc: cudnnTensorDescriptor_t, cy: *mut c_void,
    kDesc: cudnnRNNDataDescriptor_t, keys: *const c_void, cDesc: cudnnRNNDataDescriptor_t,
    cAttn: *mut c_void, iDesc: cudnnRNNDataDescriptor_t, iAttn: *mut c_void, qDesc: cudnnRNNDataDescriptor_t,
    queries: *mut c_void, workSpace: *mut c_void, workSpaceSizeInBytes: usize, reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnRNNForwardTrainingEx", |call| {
        rnn::get(rnnDesc)?;
        let x_vectors = Vectors::of(xDesc, "xDesc")?;
        let y_vectors = Vectors::of(yDesc, "yDesc")?;
        x_vectors.check_type(&y_vectors)?;
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
/// - `dxDesc`: under CUDNN_SKIP_INPUT vectors of any size, as observed; what is behind the hidden size becomes zeros
/// - `dhy`, `dcy`: gradients by the last states, NULL for zeros; `dhx`, `dcx`: written, NULL if not wanted. Their descriptors are looked at where
///   the pointer is given
/// - `hx`, `cx`: the first states of the forward call; `hxDesc` and `cxDesc` are not looked at
/// - `w`: as in the forward call
/// - `reserveSpace`: as the forward call in training has left it; kept for the gradients of the weights
/// - `dkDesc`, `dkeys`: not looked at
///
/// Workspace: cudnnGetRNNWorkspaceSize bytes for as many time steps as the longest sequence has, each of the whole batch; nothing in it matters between calls.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; y, dy and dx of different types
/// - NOT_SUPPORTED: a type other than FLOAT, DOUBLE and HALF computed in FLOAT, DOUBLE in DOUBLE, HALF in HALF
/// - BAD_PARAM: descriptors that differ in layout, maxSeqLength or lengths; without padding mode, the batch-major layout and padding;
///   vector sizes that are not the network's
/// - BAD_PARAM: NULL weights, workspace or reserve space; too small ones; a `wDesc` of fewer bytes than the weights have
/// - BAD_PARAM: descriptors of states whose pointer is given that are NULL, not packed, or of other dims
/// - BAD_PARAM: misaligned data
///
/// Aliasing: as cudnnRNNBackwardData_v8. A failing call writes nothing.
///
/// Source: observed on 8.9.7.
///
/// # Safety
/// Every pointer is NULL or valid for what its descriptor says, the spaces for their sizes; no other thread uses any of
/// them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNBackwardDataEx(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, yDesc: cudnnRNNDataDescriptor_t, y: *const c_void,
    dyDesc: cudnnRNNDataDescriptor_t, dy: *const c_void, dcDesc: cudnnRNNDataDescriptor_t,
    dcAttn: *const c_void, dhyDesc: cudnnTensorDescriptor_t, dhy: *const c_void,
    dcyDesc: cudnnTensorDescriptor_t, dcy: *const c_void, wDesc: cudnnFilterDescriptor_t, w: *const c_void,
    hxDesc: cudnnTensorDescriptor_t, hx: *const c_void, cxDesc: cudnnTensorDescriptor_t, cx: *const c_void,
    dxDesc: cudnnRNNDataDescriptor_t, dx: *mut c_void, dhxDesc: cudnnTensorDescriptor_t, dhx: *mut c_void,
    dcxDesc: cudnnTensorDescriptor_t, dcx: *mut c_void, dkDesc: cudnnRNNDataDescriptor_t, dkeys: *mut c_void,
    workSpace: *mut c_void, workSpaceSizeInBytes: usize, reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnRNNBackwardDataEx", |call| {
        rnn::get(rnnDesc)?;
        let y_vectors = Vectors::of(yDesc, "yDesc")?;
        let dy_vectors = Vectors::of(dyDesc, "dyDesc")?;
        let dx_vectors = Vectors::of(dxDesc, "dxDesc")?;
        dx_vectors.check_type(&y_vectors)?;
        dx_vectors.check_type(&dy_vectors)?;
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
/// Workspace: cudnnGetRNNWorkspaceSize bytes for as many time steps as the longest sequence has, each of the whole batch; nothing in it matters between calls.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; x and y of different types
/// - NOT_SUPPORTED: a type other than FLOAT, DOUBLE and HALF computed in FLOAT, DOUBLE in DOUBLE, HALF in HALF
/// - BAD_PARAM: descriptors that differ in layout, maxSeqLength or lengths; without padding mode, the batch-major layout and padding;
///   vector sizes that are not the network's
/// - BAD_PARAM: NULL weights, workspace or reserve space; too small ones; a `dwDesc` of fewer bytes than the weights have
/// - BAD_PARAM: descriptors of states whose pointer is given that are NULL, not packed, or of other dims
/// - BAD_PARAM: misaligned data
///
/// Aliasing: as cudnnRNNBackwardWeights_v8. A failing call writes nothing.
///
/// Source: observed on 8.9.7.
///
/// # Safety
/// Every pointer is NULL or valid for what its descriptor says, the spaces for their sizes; no other thread uses any of
/// them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNBackwardWeightsEx(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, xDesc: cudnnRNNDataDescriptor_t, x: *const c_void,
    hxDesc: cudnnTensorDescriptor_t, hx: *const c_void, yDesc: cudnnRNNDataDescriptor_t, y: *const c_void,
    workSpace: *mut c_void, workSpaceSizeInBytes: usize, dwDesc: cudnnFilterDescriptor_t, dw: *mut c_void,
    reserveSpace: *mut c_void, reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnRNNBackwardWeightsEx", |call| {
        rnn::get(rnnDesc)?;
        let x_vectors = Vectors::of(xDesc, "xDesc")?;
        let y_vectors = Vectors::of(yDesc, "yDesc")?;
        x_vectors.check_type(&y_vectors)?;
        let pass = WeightGradient {
            rnn: rnnDesc,
            vectors: (x_vectors, y_vectors),
            x,
            hx: (hxDesc, hx),
            dw: (dwDesc, dw),
            workspace: Space { pointer: workSpace, size: workSpaceSizeInBytes },
            reserve: Space { pointer: reserveSpace, size: reserveSpaceSizeInBytes },
        };
        // SAFETY: data pointers are valid for what their descriptors say, the spaces for their sizes.
        unsafe { pass.serve(handle, y, call) }
    })
}
