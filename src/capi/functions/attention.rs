//! Multi-head attention: the descriptor, its sizes and its weights.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::Out;
use super::beside::twinned;
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{
    cudnnAttnDescriptor_t, cudnnDataType_t, cudnnDropoutDescriptor_t, cudnnHandle_t, cudnnMathType_t,
    cudnnMultiHeadAttnWeightKind_t, cudnnStatus_t, cudnnTensorDescriptor_t, raw,
};
use super::{arg, context, data_type, dropout, tensor};
use crate::desc::rnn::TypePair;
use crate::desc::{AttentionDescriptor, Choice, TensorDescriptor};
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::ops::attention::{Extents, PROJECTIONS, Weights};

static ATTENTIONS: Table<AttentionDescriptor> = Table::new(Kind::Attention);
twinned!(cudnnAttnDescriptor_t, ATTENTIONS, owned);

/// Creates the descriptor of a multi-head attention: zeros.
///
/// Status: BAD_PARAM if `attnDesc` is NULL.
///
/// # Safety
/// `attnDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateAttnDescriptor(attnDesc: *mut cudnnAttnDescriptor_t) -> cudnnStatus_t {
    create!(attnDesc, ATTENTIONS)
}

/// Destroys the descriptor of a multi-head attention; NULL is fine. Dropout descriptors stay the caller's.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDestroyAttnDescriptor(attnDesc: cudnnAttnDescriptor_t) -> cudnnStatus_t {
    destroy!(attnDesc, ATTENTIONS)
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
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetAttnDescriptor(
    attnDesc: cudnnAttnDescriptor_t, attnMode: c_uint, nHeads: c_int, smScaler: f64,
    dataType: MaybeUninit<cudnnDataType_t>, computePrec: MaybeUninit<cudnnDataType_t>,
    mathType: MaybeUninit<cudnnMathType_t>, attnDropoutDesc: cudnnDropoutDescriptor_t,
    postDropoutDesc: cudnnDropoutDescriptor_t, qSize: c_int, kSize: c_int, vSize: c_int, qProjSize: c_int,
    kProjSize: c_int, vProjSize: c_int, oProjSize: c_int, qoMaxSeqLength: c_int, kvMaxSeqLength: c_int,
    maxBatchSize: c_int, maxBeamSize: c_int,
) -> cudnnStatus_t {
    ATTENTIONS.replace(attnDesc.addr(), "attnDesc", || {
        let data = data_type::one_of(AttentionDescriptor::TYPES, dataType, "dataType")?;
        let compute = data_type::one_of(AttentionDescriptor::COMPUTE_TYPES, computePrec, "computePrec")?;
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

/// Reads heads, sizes and types of a multi-head attention; NULL outputs are left out.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetAttnDescriptor(
    attnDesc: cudnnAttnDescriptor_t, attnMode: *mut c_uint, nHeads: *mut c_int, smScaler: *mut f64,
    dataType: *mut cudnnDataType_t, computePrec: *mut cudnnDataType_t, mathType: *mut cudnnMathType_t,
    attnDropoutDesc: *mut cudnnDropoutDescriptor_t, postDropoutDesc: *mut cudnnDropoutDescriptor_t,
    qSize: *mut c_int, kSize: *mut c_int, vSize: *mut c_int, qProjSize: *mut c_int, kProjSize: *mut c_int,
    vProjSize: *mut c_int, oProjSize: *mut c_int, qoMaxSeqLength: *mut c_int, kvMaxSeqLength: *mut c_int,
    maxBatchSize: *mut c_int, maxBeamSize: *mut c_int,
) -> cudnnStatus_t {
    let attention = ATTENTIONS.get(attnDesc.addr(), "attnDesc")?;
    let [q, k, v] = attention.sizes;
    let [q_projected, k_projected, v_projected, o_projected] = attention.projected;
    let [queries, keys] = attention.max_lengths;
    // SAFETY: every place is NULL or valid for one write.
    unsafe {
        arg::set_optional(attnMode, attention.mode);
        arg::set_optional(smScaler, attention.softmax_scale);
        arg::set_optional(dataType, data_type::encode(attention.types.data));
        arg::set_optional(computePrec, data_type::encode(attention.types.compute));
        arg::set_optional_code(mathType, attention.math_type.code());
        arg::set_optional(attnDropoutDesc, std::ptr::without_provenance_mut(attention.attention_dropout));
        arg::set_optional(postDropoutDesc, std::ptr::without_provenance_mut(attention.output_dropout));
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

/// A copy of what a descriptor holds.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(super) fn get(attnDesc: cudnnAttnDescriptor_t) -> Result<AttentionDescriptor> {
    ATTENTIONS.get(attnDesc.addr(), "attnDesc")
}

/// Bytes of weights, workspace and reserve space of a multi-head attention.
///
/// With a place for the reserve space these are the sizes of training: everything lies in the reserve space, and the workspace
/// is 0, as cuDNN has it. Without one they are those of inference. They serve every call that the descriptor allows for,
/// whatever the core, and no dropout changes them. The weights are 0 bytes where nothing is projected.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive or if `weightSizeInBytes` is NULL;
/// NOT_SUPPORTED for sizes beyond 64 bits. Without a place for the workspace only the weights are told.
///
/// Source: observed on 9.27.0; the sizes of weights are cuDNN's, the others are ours.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetMultiHeadAttnBuffers(
    handle: cudnnHandle_t, attnDesc: cudnnAttnDescriptor_t, weightSizeInBytes: *mut usize,
    workSpaceSizeInBytes: *mut usize, reserveSpaceSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    context::check(handle)?;
    let attention = get(attnDesc)?;
    // SAFETY: `weightSizeInBytes` is NULL or valid for one write.
    let weights = unsafe { Out::new(weightSizeInBytes, "weightSizeInBytes") }?;
    let is_training = !reserveSpaceSizeInBytes.is_null();
    let memory = Extents::largest(&attention)?.bytes(is_training)?;
    weights.set(Weights::new(&attention)?.bytes());
    if !workSpaceSizeInBytes.is_null() {
        // SAFETY: every place is NULL or valid for one write.
        unsafe {
            arg::set_optional(workSpaceSizeInBytes, if is_training { 0 } else { memory });
            arg::set_optional(reserveSpaceSizeInBytes, memory);
        }
    }
    Ok(())
}

/// Where one group of weights lies in the weight buffer: its descriptor and its address.
///
/// Matrices of queries, keys and values are `[heads, projected, size]` with strides `[projected, 1, heads * projected]`:
/// column-major over all heads. That of the output is `[heads, oProjSize, entries]` with strides `[oProjSize * entries, 1,
/// oProjSize]`. Biases are `[heads, projected, 1]`, that of the output `[1, oProjSize, 1]`. For a group that is not there the
/// address is NULL, and the descriptor becomes one that was never set. `weights` may be anything, NULL aside: it is not read.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive, a kind that there is not, NULL, fewer
/// bytes than cudnnGetMultiHeadAttnBuffers tells; NOT_SUPPORTED for sizes beyond 64 bits.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `wAddr` is NULL or valid for one write; `weights` is not followed.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetMultiHeadAttnWeights(
    handle: cudnnHandle_t, attnDesc: cudnnAttnDescriptor_t,
    wKind: MaybeUninit<cudnnMultiHeadAttnWeightKind_t>, weightSizeInBytes: usize, weights: *const c_void,
    wDesc: cudnnTensorDescriptor_t, wAddr: *mut *mut c_void,
) -> cudnnStatus_t {
    context::check(handle)?;
    let attention = get(attnDesc)?;
    let kind = usize::try_from(raw(wKind)).ok().filter(|&kind| kind < 2 * PROJECTIONS);
    let kind = kind.ok_or_else(|| Error::argument("wKind", raw(wKind).into(), "the choices are 0 to 7"))?;
    arg::required(weights, "weights")?;
    // SAFETY: `wAddr` is NULL or valid for one write.
    let place = unsafe { Out::new(wAddr, "wAddr") }?;
    let space = Weights::new(&attention)?;
    check_weight_size(&space, weightSizeInBytes)?;
    let data_type = attention.types.data;
    let Some(start) = space.start(kind) else {
        tensor::put(wDesc, "wDesc", TensorDescriptor::default())?;
        place.set(std::ptr::null_mut());
        return Ok(());
    };
    let [dims, strides] = space.layout(kind);
    let group = TensorDescriptor::with_strides(data_type, 3, &dims, &strides, Mode::current())?;
    tensor::put(wDesc, "wDesc", group)?;
    place.set(weights.cast_mut().wrapping_byte_add(start as usize * data_type.size()));
    Ok(())
}

/// Refuses a weight buffer that is too small.
pub(super) fn check_weight_size(weights: &Weights, given: usize) -> Result<()> {
    let needed = weights.bytes();
    if given < needed {
        let rule = format!("the weights of attnDesc take {needed} bytes");
        return Err(Error::argument("weightSizeInBytes", given as i64, rule));
    }
    Ok(())
}
