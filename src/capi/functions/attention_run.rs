//! Multi-head attention: the forward pass and both of its gradients.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use cudnn_shim_macros::entry;

use super::arg;
use super::attention_call::{Call, Pointers, check_is_training};
use super::context;
use super::types::{
    cudnnAttnDescriptor_t, cudnnHandle_t, cudnnSeqDataDescriptor_t, cudnnStatus_t, cudnnWgradMode_t, raw,
};
use crate::desc::DropoutDescriptor;
use crate::error::Error;
use crate::mode::Mode;
use crate::ops::attention::{AttentionPlan, Forward, Weights};

/// `out[t] = drop(Wo * (sum over s of drop(softmax(smScaler * k[s] . q[t])) v[s], of all heads) + bo) + residuals[t]`
///
/// `q = Wq * queries + bq` for every head, and so k and v; what has no projection is the caller's vector, of all heads. Without a
/// projection of the output the heads' vectors lie side by side. Softmax is over the keys `s` from `loWinIdx[t]` on, before
/// `hiWinIdx[t]`, before the end of the sample's keys. Everything between is kept and summed in float (double for DOUBLE).
///
/// Operands
/// - `qDesc`, `kDesc`, `vDesc`, `oDesc`: sequences of FLOAT, DOUBLE, HALF or BFLOAT16, in any order of axes, the same for all.
///   Keys and values have one beam for all beams of the queries. Vectors of `out` have oProjSize entries, or nHeads times those
///   of the values
/// - `residuals`: NULL, or as the queries, with vectors as long as those of `out`; may be the queries
/// - `currIdx`: negative for all time steps, else the only one that is computed and written, with the bits that it has among all
/// - `loWinIdx`, `hiWinIdx`: host memory, an entry of each time step of the queries. Less than 0 is 0, more than there are keys
///   is all of them; INT_MAX is fine. With no key in the window the heads compute zeros
/// - `devSeqLengthsQO`, `devSeqLengthsKV`: lengths of all sequences, samples outermost, in the core's memory. Each counts where it is
///   shorter than that of the descriptor; one below 0 is 0. The CUDA core's kernels read them, in the order of the stream. Rows of
///   `out` behind the end of the queries become zeros
/// - `weights`: as cudnnGetMultiHeadAttnWeights tells; may be NULL if nothing is projected
///
/// Workspace: in inference the size that cudnnGetMultiHeadAttnBuffers tells without a reserve space, in training none. The reserve
/// space, of the size that it tells, makes the call training: dropouts act, which they do nowhere else, and what the gradients need
/// stays there. A probability of 0 draws no mask. A dropout without states draws from its seed, the same masks in every call.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL for anything but residuals, workspace, reserve space, and weights
///   that there are not
/// - BAD_PARAM: weights, workspace or reserve space that are too small; a size and no pointer, a reserve space and no size
/// - BAD_PARAM: sequences that do not fit each other or are larger than the attention allows for; a `currIdx` that is no time step,
///   or in training; residuals of other vectors than `out`
/// - BAD_PARAM: in inference, and in strict mode in training, a dropout of the weights with probability 1
/// - BAD_PARAM: in training a dropout descriptor that was destroyed; data off its element's alignment
/// - NOT_SUPPORTED: sizes beyond 64 bits
///
/// Aliasing: queries, keys, values and residuals may be the same. The CPU core takes an `out` that is any of them, as if all were
/// read first; the CUDA core refuses it with NOT_SUPPORTED. A failing call writes nothing.
///
/// Source: observed on 9.27.0; the formula from NVIDIA's documentation.
///
/// # Safety
/// Every data pointer is NULL or valid for the whole span of its descriptor, arrays for the entries named above, memory for its
/// size; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnMultiHeadAttnForward(
    handle: cudnnHandle_t, attnDesc: cudnnAttnDescriptor_t, currIdx: c_int, loWinIdx: *const c_int,
    hiWinIdx: *const c_int, devSeqLengthsQO: *const c_int, devSeqLengthsKV: *const c_int,
    qDesc: cudnnSeqDataDescriptor_t, queries: *const c_void, residuals: *const c_void,
    kDesc: cudnnSeqDataDescriptor_t, keys: *const c_void, vDesc: cudnnSeqDataDescriptor_t,
    values: *const c_void, oDesc: cudnnSeqDataDescriptor_t, out: *mut c_void, weightSizeInBytes: usize,
    weights: *const c_void, workSpaceSizeInBytes: usize, workSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize, reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnMultiHeadAttnForward", |core| {
        let described = [(qDesc, "qDesc"), (kDesc, "kDesc"), (vDesc, "vDesc"), (oDesc, "oDesc")];
        let call = Call::new(attnDesc, described)?;
        let arrays: [(*const c_int, &str); 4] = [
            (loWinIdx, "loWinIdx"),
            (hiWinIdx, "hiWinIdx"),
            (devSeqLengthsQO, "devSeqLengthsQO"),
            (devSeqLengthsKV, "devSeqLengthsKV"),
        ];
        arrays.into_iter().try_for_each(|(array, name)| arg::required(array, name))?;
        let at = Pointers {
            queries: (queries.cast_mut(), "queries"),
            keys: (keys.cast_mut(), "keys"),
            values: (values.cast_mut(), "values"),
            output: (out, "out"),
            residuals: residuals.cast_mut(),
            lengths: [devSeqLengthsQO, devSeqLengthsKV],
            gradients: [null_mut(); 3],
            weights: (weights.cast_mut(), weightSizeInBytes),
            weight_gradient: null_mut(),
            workspace: (workSpace, workSpaceSizeInBytes),
            reserve: (reserveSpace, reserveSpaceSizeInBytes),
        };
        let is_training = call.check(&[at.queries, at.keys, at.values, at.output], &at)?;
        let drops_all = |desc: DropoutDescriptor| desc.probability() == 1.0;
        // The original looks at the probability before it looks for a reserve space.
        let refuses = !is_training || Mode::current().is_strict();
        if refuses && call.dropouts().is_ok_and(|[of_weights, _]| of_weights.is_some_and(drops_all)) {
            return Err(Error::mismatch(
                "attnDropoutDesc has the probability 1: cuDNN does not drop all weights",
            ));
        }
        let current = (currIdx >= 0).then_some(currIdx);
        let has_residuals = !residuals.is_null();
        let dropouts = if is_training { call.dropouts()? } else { [None; 2] };
        // The descriptors tell how long the arrays are.
        AttentionPlan::check(&call.attention, call.sequences(), current, is_training, has_residuals)?;
        // SAFETY: the arrays of windows have an entry of each time step, those of lengths one of each sequence.
        let (windows, lengths) = unsafe {
            (
                call.windows([loWinIdx, hiWinIdx], current)?,
                call.lengths(core.context, [devSeqLengthsQO, devSeqLengthsKV])?,
            )
        };
        let forward =
            Forward { current, windows, lengths: lengths.get(), dropouts, is_training, has_residuals };
        let plan = AttentionPlan::forward(&call.attention, call.sequences(), &forward)?;
        // SAFETY: data pointers are valid for the spans of their descriptors, memory for its size.
        unsafe { at.run(core, &call.attention, &plan, &dropouts) }
    })
}

/// `dqueries = Wq^T dq`, with `dq = smScaler * sum over s of dscores[s] k[s]`, and so `dkeys` and `dvalues`.
///
/// The gradients of what cudnnMultiHeadAttnForward computed with the same reserve space; they replace what is there. Where queries,
/// keys and values are one tensor, its gradient is the sum of the three. That by residuals is `dout` itself.
///
/// Operands
/// - `dqDesc`, `dkDesc`, `dvDesc`, `doDesc`: as qDesc, kDesc, vDesc and oDesc of the forward pass; of `queries`, `keys` and
///   `values` as well, which are the same as there
/// - `loWinIdx`, `hiWinIdx`, `devSeqLengthsDQDO`, `devSeqLengthsDKDV`, `weights`: as in the forward pass
/// - `dout` is not read behind the end of the queries; rows of the gradients behind the ends of sequences become zeros
///
/// Workspace: none. The reserve space is that of the forward pass, and keeps what cudnnMultiHeadAttnBackwardWeights needs.
///
/// Status, in this order: as cudnnMultiHeadAttnForward, in training; a reserve space of size 0 is too small.
///
/// Aliasing: as cudnnMultiHeadAttnForward; the three gradients must not overlap.
///
/// Source: observed on 9.27.0; the formula is the derivative of the documented one.
///
/// # Safety
/// As cudnnMultiHeadAttnForward.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnMultiHeadAttnBackwardData(
    handle: cudnnHandle_t, attnDesc: cudnnAttnDescriptor_t, loWinIdx: *const c_int, hiWinIdx: *const c_int,
    devSeqLengthsDQDO: *const c_int, devSeqLengthsDKDV: *const c_int, doDesc: cudnnSeqDataDescriptor_t,
    dout: *const c_void, dqDesc: cudnnSeqDataDescriptor_t, dqueries: *mut c_void, queries: *const c_void,
    dkDesc: cudnnSeqDataDescriptor_t, dkeys: *mut c_void, keys: *const c_void,
    dvDesc: cudnnSeqDataDescriptor_t, dvalues: *mut c_void, values: *const c_void, weightSizeInBytes: usize,
    weights: *const c_void, workSpaceSizeInBytes: usize, workSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize, reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnMultiHeadAttnBackwardData", |core| {
        let described = [(dqDesc, "dqDesc"), (dkDesc, "dkDesc"), (dvDesc, "dvDesc"), (doDesc, "doDesc")];
        let call = Call::new(attnDesc, described)?;
        let arrays: [(*const c_int, &str); 4] = [
            (loWinIdx, "loWinIdx"),
            (hiWinIdx, "hiWinIdx"),
            (devSeqLengthsDQDO, "devSeqLengthsDQDO"),
            (devSeqLengthsDKDV, "devSeqLengthsDKDV"),
        ];
        arrays.into_iter().try_for_each(|(array, name)| arg::required(array, name))?;
        let at = Pointers {
            queries: (queries.cast_mut(), "queries"),
            keys: (keys.cast_mut(), "keys"),
            values: (values.cast_mut(), "values"),
            output: (dout.cast_mut(), "dout"),
            residuals: null_mut(),
            lengths: [devSeqLengthsDQDO, devSeqLengthsDKDV],
            gradients: [dqueries, dkeys, dvalues],
            weights: (weights.cast_mut(), weightSizeInBytes),
            weight_gradient: null_mut(),
            workspace: (workSpace, workSpaceSizeInBytes),
            reserve: (reserveSpace, reserveSpaceSizeInBytes),
        };
        let gradients = [(dqueries, "dqueries"), (dkeys, "dkeys"), (dvalues, "dvalues")];
        let data = [&[at.output, at.queries, at.keys, at.values][..], &gradients].concat();
        check_is_training(&at)?;
        call.check(&data, &at)?;
        let dropouts = call.dropouts()?;
        // The descriptors tell how long the arrays are.
        AttentionPlan::check(&call.attention, call.sequences(), None, true, false)?;
        // SAFETY: the arrays of windows have an entry of each time step, those of lengths one of each sequence.
        let (windows, lengths) = unsafe {
            (
                call.windows([loWinIdx, hiWinIdx], None)?,
                call.lengths(core.context, [devSeqLengthsDQDO, devSeqLengthsDKDV])?,
            )
        };
        let plan = AttentionPlan::data(&call.attention, call.sequences(), lengths.get(), &windows, dropouts)?;
        // SAFETY: data pointers are valid for the spans of their descriptors, memory for its size.
        unsafe { at.run(core, &call.attention, &plan, &dropouts) }
    })
}

/// `dWq = sum over all rows of dq * queries^T`, and so the other matrices; a bias has the sum of the gradient by its projection.
///
/// Operands
/// - the sequences, `queries`, `keys`, `values`: as in the forward pass, not read behind the ends that the descriptors tell. There are
///   no arrays of lengths: what is between their ends and those of the descriptors is multiplied by zeros, and must be finite
/// - `dout`: looked at for NULL only, as the gradient by the output is in the reserve space
/// - `weights`: not read
/// - `dweights`: as the weights; `addGrad` ADD adds to what is there, SET does not read it. Sums are in float (double for DOUBLE),
///   and converted once
///
/// Workspace: none. The reserve space is that which cudnnMultiHeadAttnBackwardData has left.
///
/// Status, in this order
/// - BAD_PARAM: as cudnnMultiHeadAttnBackwardData; then an `addGrad` that there is not
/// - NOT_SUPPORTED: sizes beyond 64 bits
///
/// Aliasing: as cudnnMultiHeadAttnForward.
///
/// Source: observed on 9.27.0; the formula is the derivative of the documented one.
///
/// # Safety
/// As cudnnMultiHeadAttnForward.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnMultiHeadAttnBackwardWeights(
    handle: cudnnHandle_t, attnDesc: cudnnAttnDescriptor_t, addGrad: MaybeUninit<cudnnWgradMode_t>,
    qDesc: cudnnSeqDataDescriptor_t, queries: *const c_void, kDesc: cudnnSeqDataDescriptor_t,
    keys: *const c_void, vDesc: cudnnSeqDataDescriptor_t, values: *const c_void,
    doDesc: cudnnSeqDataDescriptor_t, dout: *const c_void, weightSizeInBytes: usize, weights: *const c_void,
    dweights: *mut c_void, workSpaceSizeInBytes: usize, workSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize, reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnMultiHeadAttnBackwardWeights", |core| {
        let described = [(qDesc, "qDesc"), (kDesc, "kDesc"), (vDesc, "vDesc"), (doDesc, "doDesc")];
        let call = Call::new(attnDesc, described)?;
        let at = Pointers {
            queries: (queries.cast_mut(), "queries"),
            keys: (keys.cast_mut(), "keys"),
            values: (values.cast_mut(), "values"),
            output: (dout.cast_mut(), "dout"),
            residuals: null_mut(),
            lengths: [null(); 2],
            gradients: [null_mut(); 3],
            weights: (weights.cast_mut(), weightSizeInBytes),
            weight_gradient: dweights,
            workspace: (workSpace, workSpaceSizeInBytes),
            reserve: (reserveSpace, reserveSpaceSizeInBytes),
        };
        let mut data = vec![at.queries, at.keys, at.values, at.output];
        if Weights::new(&call.attention)?.bytes() > 0 {
            data.push((dweights, "dweights"));
        }
        check_is_training(&at)?;
        call.check(&data, &at)?;
        let is_added = match raw(addGrad) {
            0 => true,
            1 => false,
            other => {
                let rule = "the choices are ADD (0) and SET (1)";
                return Err(Error::argument("addGrad", other.into(), rule));
            }
        };
        let plan = AttentionPlan::weights(&call.attention, call.sequences(), is_added)?;
        // SAFETY: data pointers are valid for the spans of their descriptors, memory for its size.
        unsafe { at.run(core, &call.attention, &plan, &[None; 2]) }
    })
}
