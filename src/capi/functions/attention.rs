//! Multi-head attention: the descriptor, its sizes and its runs.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;

use super::guard::{entry_point, stub_on};
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{
    cudnnAttnDescriptor_t, cudnnDataType_t, cudnnDropoutDescriptor_t, cudnnHandle_t, cudnnMathType_t,
    cudnnMultiHeadAttnWeightKind_t, cudnnSeqDataDescriptor_t, cudnnStatus_t, cudnnTensorDescriptor_t,
    cudnnWgradMode_t,
};
use super::{arg, data_type, dropout};
use crate::desc::rnn::TypePair;
use crate::desc::{AttentionDescriptor, Choice};

static ATTENTIONS: Table<AttentionDescriptor> = Table::new(Kind::Attention);

/// Creates the descriptor of a multi-head attention: zeros.
///
/// Status: BAD_PARAM if `attnDesc` is NULL.
///
/// # Safety
/// `attnDesc` is NULL or valid for one write.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateAttnDescriptor(attnDesc: *mut cudnnAttnDescriptor_t) -> cudnnStatus_t {
    create!(cudnnCreateAttnDescriptor(attnDesc), ATTENTIONS)
}

/// Destroys the descriptor of a multi-head attention; NULL is fine. Dropout descriptors stay the caller's.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDestroyAttnDescriptor(attnDesc: cudnnAttnDescriptor_t) -> cudnnStatus_t {
    destroy!(cudnnDestroyAttnDescriptor(attnDesc), ATTENTIONS)
}

/// Sets heads, sizes and types of a multi-head attention.
///
/// A projection size of 0 means no projection; the dropout descriptors may be NULL. A failing call changes nothing.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive, mode bits beyond 0 and 1, an unknown type or
/// math type, a negative `smScaler`, a projection below 0 or any other count below 1; NOT_SUPPORTED for types other
/// than FLOAT, HALF and BFLOAT16 computed in FLOAT, HALF in HALF and DOUBLE in DOUBLE; BAD_PARAM if queries and keys
/// differ in size after projection; NOT_SUPPORTED for mode bit 0 with a beam above 1.
///
/// Source: observed on 9.27.0.
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetAttnDescriptor(
    attnDesc: cudnnAttnDescriptor_t,
    attnMode: c_uint,
    nHeads: c_int,
    smScaler: f64,
    dataType: MaybeUninit<cudnnDataType_t>,
    computePrec: MaybeUninit<cudnnDataType_t>,
    mathType: MaybeUninit<cudnnMathType_t>,
    attnDropoutDesc: cudnnDropoutDescriptor_t,
    postDropoutDesc: cudnnDropoutDescriptor_t,
    qSize: c_int,
    kSize: c_int,
    vSize: c_int,
    qProjSize: c_int,
    kProjSize: c_int,
    vProjSize: c_int,
    oProjSize: c_int,
    qoMaxSeqLength: c_int,
    kvMaxSeqLength: c_int,
    maxBatchSize: c_int,
    maxBeamSize: c_int,
) -> cudnnStatus_t {
    entry_point!(
        cudnnSetAttnDescriptor(
            attnDesc,
            attnMode,
            nHeads,
            smScaler,
            dataType,
            computePrec,
            mathType,
            attnDropoutDesc,
            postDropoutDesc,
            qSize,
            kSize,
            vSize,
            qProjSize,
            kProjSize,
            vProjSize,
            oProjSize,
            qoMaxSeqLength,
            kvMaxSeqLength,
            maxBatchSize,
            maxBeamSize
        ),
        || {
            ATTENTIONS.replace(attnDesc.addr(), "attnDesc", || {
                let data = data_type::one_of(AttentionDescriptor::TYPES, dataType, "dataType")?;
                let compute =
                    data_type::one_of(AttentionDescriptor::COMPUTE_TYPES, computePrec, "computePrec")?;
                dropout::check_optional(attnDropoutDesc, "attnDropoutDesc")?;
                dropout::check_optional(postDropoutDesc, "postDropoutDesc")?;
                let attention = AttentionDescriptor {
                    mode: attnMode,
                    heads: nHeads,
                    softmax_scale: smScaler,
                    types: TypePair { data, compute },
                    math_type: arg::choice(mathType, "mathType")?,
                    attention_dropout: attnDropoutDesc.addr(),
                    output_dropout: postDropoutDesc.addr(),
                    sizes: [qSize, kSize, vSize],
                    projected: [qProjSize, kProjSize, vProjSize, oProjSize],
                    max_lengths: [qoMaxSeqLength, kvMaxSeqLength],
                    max_batch: maxBatchSize,
                    max_beam: maxBeamSize,
                };
                attention.check_ranges()?;
                attention.check_agreement()?;
                Ok(attention)
            })
        }
    )
}

/// Reads heads, sizes and types of a multi-head attention; NULL outputs are left out.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetAttnDescriptor(
    attnDesc: cudnnAttnDescriptor_t,
    attnMode: *mut c_uint,
    nHeads: *mut c_int,
    smScaler: *mut f64,
    dataType: *mut cudnnDataType_t,
    computePrec: *mut cudnnDataType_t,
    mathType: *mut cudnnMathType_t,
    attnDropoutDesc: *mut cudnnDropoutDescriptor_t,
    postDropoutDesc: *mut cudnnDropoutDescriptor_t,
    qSize: *mut c_int,
    kSize: *mut c_int,
    vSize: *mut c_int,
    qProjSize: *mut c_int,
    kProjSize: *mut c_int,
    vProjSize: *mut c_int,
    oProjSize: *mut c_int,
    qoMaxSeqLength: *mut c_int,
    kvMaxSeqLength: *mut c_int,
    maxBatchSize: *mut c_int,
    maxBeamSize: *mut c_int,
) -> cudnnStatus_t {
    entry_point!(
        cudnnGetAttnDescriptor(
            attnDesc,
            attnMode,
            nHeads,
            smScaler,
            dataType,
            computePrec,
            mathType,
            attnDropoutDesc,
            postDropoutDesc,
            qSize,
            kSize,
            vSize,
            qProjSize,
            kProjSize,
            vProjSize,
            oProjSize,
            qoMaxSeqLength,
            kvMaxSeqLength,
            maxBatchSize,
            maxBeamSize
        ),
        || {
            let attention = ATTENTIONS.get(attnDesc.addr(), "attnDesc")?;
            let [q, k, v] = attention.sizes;
            let [q_projected, k_projected, v_projected, o_projected] = attention.projected;
            let [queries, keys] = attention.max_lengths;
            // SAFETY: as the caller promises, for all of them.
            unsafe {
                arg::set_optional(attnMode, attention.mode);
                arg::set_optional(smScaler, attention.softmax_scale);
                arg::set_optional(dataType, data_type::encode(attention.types.data));
                arg::set_optional(computePrec, data_type::encode(attention.types.compute));
                arg::set_optional_code(mathType, attention.math_type.code());
                arg::set_optional(
                    attnDropoutDesc,
                    std::ptr::without_provenance_mut(attention.attention_dropout),
                );
                arg::set_optional(
                    postDropoutDesc,
                    std::ptr::without_provenance_mut(attention.output_dropout),
                );
                for (place, value) in [
                    (nHeads, attention.heads),
                    (qSize, q),
                    (kSize, k),
                    (vSize, v),
                    (qProjSize, q_projected),
                    (kProjSize, k_projected),
                    (vProjSize, v_projected),
                    (oProjSize, o_projected),
                    (qoMaxSeqLength, queries),
                    (kvMaxSeqLength, keys),
                    (maxBatchSize, attention.max_batch),
                    (maxBeamSize, attention.max_beam),
                ] {
                    arg::set_optional(place, value);
                }
            }
            Ok(())
        }
    )
}

/// Bytes of weights, workspace and reserve space of a multi-head attention. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetMultiHeadAttnBuffers(
    handle: cudnnHandle_t,
    attnDesc: cudnnAttnDescriptor_t,
    weightSizeInBytes: *mut usize,
    workSpaceSizeInBytes: *mut usize,
    reserveSpaceSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    stub_on!(cudnnGetMultiHeadAttnBuffers(
        handle,
        attnDesc,
        weightSizeInBytes,
        workSpaceSizeInBytes,
        reserveSpaceSizeInBytes
    ))
}

/// Where one group of weights lies in the weight buffer. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetMultiHeadAttnWeights(
    handle: cudnnHandle_t,
    attnDesc: cudnnAttnDescriptor_t,
    wKind: MaybeUninit<cudnnMultiHeadAttnWeightKind_t>,
    weightSizeInBytes: usize,
    weights: *const c_void,
    wDesc: cudnnTensorDescriptor_t,
    wAddr: *mut *mut c_void,
) -> cudnnStatus_t {
    stub_on!(cudnnGetMultiHeadAttnWeights(handle, attnDesc, wKind, weightSizeInBytes, weights, wDesc, wAddr))
}

/// `out = sum over heads of W_o * softmax(scale * Q K^T) V`, with residuals. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnMultiHeadAttnForward(
    handle: cudnnHandle_t,
    attnDesc: cudnnAttnDescriptor_t,
    currIdx: c_int,
    loWinIdx: *const c_int,
    hiWinIdx: *const c_int,
    devSeqLengthsQO: *const c_int,
    devSeqLengthsKV: *const c_int,
    qDesc: cudnnSeqDataDescriptor_t,
    queries: *const c_void,
    residuals: *const c_void,
    kDesc: cudnnSeqDataDescriptor_t,
    keys: *const c_void,
    vDesc: cudnnSeqDataDescriptor_t,
    values: *const c_void,
    oDesc: cudnnSeqDataDescriptor_t,
    out: *mut c_void,
    weightSizeInBytes: usize,
    weights: *const c_void,
    workSpaceSizeInBytes: usize,
    workSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    stub_on!(cudnnMultiHeadAttnForward(
        handle,
        attnDesc,
        currIdx,
        loWinIdx,
        hiWinIdx,
        devSeqLengthsQO,
        devSeqLengthsKV,
        qDesc,
        queries,
        residuals,
        kDesc,
        keys,
        vDesc,
        values,
        oDesc,
        out,
        weightSizeInBytes,
        weights,
        workSpaceSizeInBytes,
        workSpace,
        reserveSpaceSizeInBytes,
        reserveSpace
    ))
}

/// Gradients of multi-head attention by queries, keys and values. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnMultiHeadAttnBackwardData(
    handle: cudnnHandle_t,
    attnDesc: cudnnAttnDescriptor_t,
    loWinIdx: *const c_int,
    hiWinIdx: *const c_int,
    devSeqLengthsDQDO: *const c_int,
    devSeqLengthsDKDV: *const c_int,
    doDesc: cudnnSeqDataDescriptor_t,
    dout: *const c_void,
    dqDesc: cudnnSeqDataDescriptor_t,
    dqueries: *mut c_void,
    queries: *const c_void,
    dkDesc: cudnnSeqDataDescriptor_t,
    dkeys: *mut c_void,
    keys: *const c_void,
    dvDesc: cudnnSeqDataDescriptor_t,
    dvalues: *mut c_void,
    values: *const c_void,
    weightSizeInBytes: usize,
    weights: *const c_void,
    workSpaceSizeInBytes: usize,
    workSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    stub_on!(cudnnMultiHeadAttnBackwardData(
        handle,
        attnDesc,
        loWinIdx,
        hiWinIdx,
        devSeqLengthsDQDO,
        devSeqLengthsDKDV,
        doDesc,
        dout,
        dqDesc,
        dqueries,
        queries,
        dkDesc,
        dkeys,
        keys,
        dvDesc,
        dvalues,
        values,
        weightSizeInBytes,
        weights,
        workSpaceSizeInBytes,
        workSpace,
        reserveSpaceSizeInBytes,
        reserveSpace
    ))
}

/// Gradients of multi-head attention by its weights. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnMultiHeadAttnBackwardWeights(
    handle: cudnnHandle_t,
    attnDesc: cudnnAttnDescriptor_t,
    addGrad: MaybeUninit<cudnnWgradMode_t>,
    qDesc: cudnnSeqDataDescriptor_t,
    queries: *const c_void,
    kDesc: cudnnSeqDataDescriptor_t,
    keys: *const c_void,
    vDesc: cudnnSeqDataDescriptor_t,
    values: *const c_void,
    doDesc: cudnnSeqDataDescriptor_t,
    dout: *const c_void,
    weightSizeInBytes: usize,
    weights: *const c_void,
    dweights: *mut c_void,
    workSpaceSizeInBytes: usize,
    workSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    stub_on!(cudnnMultiHeadAttnBackwardWeights(
        handle,
        attnDesc,
        addGrad,
        qDesc,
        queries,
        kDesc,
        keys,
        vDesc,
        values,
        doDesc,
        dout,
        weightSizeInBytes,
        weights,
        dweights,
        workSpaceSizeInBytes,
        workSpace,
        reserveSpaceSizeInBytes,
        reserveSpace
    ))
}
