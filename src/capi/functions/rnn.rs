//! Descriptors of recurrent networks: create, set, get, clip, destroy.

use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::beside::{Side, twinned};
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{
    cudnnDataType_t, cudnnDirectionMode_t, cudnnDropoutDescriptor_t, cudnnMathType_t, cudnnNanPropagation_t,
    cudnnRNNAlgo_t, cudnnRNNBiasMode_t, cudnnRNNClipMode_t, cudnnRNNDescriptor_t, cudnnRNNInputMode_t,
    cudnnRNNMode_t, cudnnStatus_t, raw,
};
use super::{arg, data_type, dropout};
use crate::desc::rnn::{RnnSizes, TypePair};
use crate::desc::{Choice, NanPropagation, RnnClip, RnnDescriptor, RnnNetwork};
use crate::error::{Error, Result};

static RNNS: Table<RnnDescriptor> = Table::new(Kind::Rnn);
twinned!(cudnnRNNDescriptor_t, RNNS, owned);

/// A copy of the descriptor behind a handle.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn get(desc: cudnnRNNDescriptor_t) -> Result<RnnDescriptor> {
    RNNS.get(desc.addr(), "rnnDesc")
}

/// A descriptor that holds this, for calls that need one of their own.
///
/// # Errors
/// Without memory for it.
pub(super) fn insert(desc: RnnDescriptor) -> Result<cudnnRNNDescriptor_t> {
    RNNS.insert(desc).map(std::ptr::without_provenance_mut)
}

/// Takes such a descriptor away.
pub(super) fn remove(desc: cudnnRNNDescriptor_t) {
    // It is alive.
    let _ = RNNS.remove(desc.addr(), "rnnDesc");
}

/// Whether the original can serve calls with this descriptor.
pub(super) fn has_twin(desc: cudnnRNNDescriptor_t, side: &Side) -> bool {
    side.can_pass(&RNNS, desc.addr())
}

/// Changes the descriptor behind a handle. A body that fails has changed nothing.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive; else those of `body`.
pub(super) fn change(
    desc: cudnnRNNDescriptor_t, body: impl FnOnce(&mut RnnDescriptor) -> Result<()>,
) -> Result<()> {
    RNNS.with_mut(desc.addr(), "rnnDesc", body)
}

/// Creates the descriptor of a recurrent network: no network, no clipping.
///
/// Status: BAD_PARAM if `rnnDesc` is NULL.
///
/// # Safety
/// `rnnDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateRNNDescriptor(rnnDesc: *mut cudnnRNNDescriptor_t) -> cudnnStatus_t {
    create!(rnnDesc, RNNS)
}

/// Destroys the descriptor of a recurrent network; NULL is fine. The dropout descriptor stays the caller's.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroyRNNDescriptor(rnnDesc: cudnnRNNDescriptor_t) -> cudnnStatus_t {
    destroy!(rnnDesc, RNNS)
}

/// Sets cell, sizes, directions and types of a recurrent network, and resets its clipping to none.
///
/// The calls of version 6 see and change the same descriptor.
///
/// `dropoutDesc` may be NULL. A failing call changes nothing.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive, an unknown enumerator, a size or layer count
/// below 1, or `auxFlags` above 1; NOT_SUPPORTED for types other than FLOAT, HALF and BFLOAT16 computed in FLOAT, HALF
/// in HALF and DOUBLE in DOUBLE, for a `projSize` above `hiddenSize`, or below it in anything but an LSTM with the
/// standard algorithm; NOT_SUPPORTED for another algorithm without two biases, linear input, and FLOAT or HALF computed
/// in FLOAT.
///
/// Source: observed on 9.27.0.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetRNNDescriptor_v8(
    rnnDesc: cudnnRNNDescriptor_t, algo: MaybeUninit<cudnnRNNAlgo_t>, cellMode: MaybeUninit<cudnnRNNMode_t>,
    biasMode: MaybeUninit<cudnnRNNBiasMode_t>, dirMode: MaybeUninit<cudnnDirectionMode_t>,
    inputMode: MaybeUninit<cudnnRNNInputMode_t>, dataType: MaybeUninit<cudnnDataType_t>,
    mathPrec: MaybeUninit<cudnnDataType_t>, mathType: MaybeUninit<cudnnMathType_t>, inputSize: i32,
    hiddenSize: i32, projSize: i32, numLayers: i32, dropoutDesc: cudnnDropoutDescriptor_t, auxFlags: u32,
) -> cudnnStatus_t {
    let types = (raw(dataType), raw(mathPrec));
    RNNS.replace(rnnDesc.addr(), "rnnDesc", || {
        if auxFlags > 1 {
            return Err(Error::argument("auxFlags", auxFlags.into(), "0, or 1 for padded sequences"));
        }
        dropout::check_optional(dropoutDesc, "dropoutDesc")?;
        let sizes = RnnSizes { input: inputSize, hidden: hiddenSize, projected: projSize, layers: numLayers };
        // Evaluated from top to bottom: the types, which are not supported rather than wrong, come last.
        let network = RnnNetwork {
            algo: arg::choice(algo, "algo")?,
            cell: arg::choice(cellMode, "cellMode")?,
            bias: arg::choice(biasMode, "biasMode")?,
            direction: arg::choice(dirMode, "dirMode")?,
            input: arg::choice(inputMode, "inputMode")?,
            math_type: arg::choice(mathType, "mathType")?,
            dropout: dropoutDesc.addr(),
            flags: auxFlags,
            sizes: sizes.checked()?,
            types: TypePair::new(data_type::known(types.0), data_type::known(types.1))?,
        };
        network.check_support()?;
        Ok(RnnDescriptor::from(network))
    })
}

/// The network behind a handle, for calls that learn its types and input size from nothing else.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive; not initialized for one that was never set, or by version 6.
pub(super) fn network(desc: cudnnRNNDescriptor_t) -> Result<RnnNetwork> {
    let text =
        "rnnDesc was never set, or by cudnnSetRNNDescriptor_v6, which tells no types and no input size";
    get(desc)?.network().ok_or(Error::NotInitialized(text.into()))
}

/// Reads cell, sizes, directions and types of a recurrent network; NULL outputs are left out.
///
/// Status: BAD_PARAM for a descriptor that is not alive; NOT_INITIALIZED for one that was never set, or that
/// cudnnSetRNNDescriptor_v6 has set last (observed on 9.27.0 and 8.9.7).
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNDescriptor_v8(
    rnnDesc: cudnnRNNDescriptor_t, algo: *mut cudnnRNNAlgo_t, cellMode: *mut cudnnRNNMode_t,
    biasMode: *mut cudnnRNNBiasMode_t, dirMode: *mut cudnnDirectionMode_t,
    inputMode: *mut cudnnRNNInputMode_t, dataType: *mut cudnnDataType_t, mathPrec: *mut cudnnDataType_t,
    mathType: *mut cudnnMathType_t, inputSize: *mut i32, hiddenSize: *mut i32, projSize: *mut i32,
    numLayers: *mut i32, dropoutDesc: *mut cudnnDropoutDescriptor_t, auxFlags: *mut u32,
) -> cudnnStatus_t {
    let network = network(rnnDesc)?;
    // SAFETY: every place is NULL or valid for one write.
    unsafe {
        arg::set_optional_code(algo, network.algo.code());
        arg::set_optional_code(cellMode, network.cell.code());
        arg::set_optional_code(biasMode, network.bias.code());
        arg::set_optional_code(dirMode, network.direction.code());
        arg::set_optional_code(inputMode, network.input.code());
        arg::set_optional(dataType, data_type::encode(network.types.data));
        arg::set_optional(mathPrec, data_type::encode(network.types.compute));
        arg::set_optional_code(mathType, network.math_type.code());
        arg::set_optional(inputSize, network.sizes.input);
        arg::set_optional(hiddenSize, network.sizes.hidden);
        arg::set_optional(projSize, network.sizes.projected);
        arg::set_optional(numLayers, network.sizes.layers);
        arg::set_optional(dropoutDesc, std::ptr::without_provenance_mut(network.dropout));
        arg::set_optional(auxFlags, network.flags);
    }
    Ok(())
}

/// Sets whether and between which bounds the LSTM cell state is clipped, and the NaN rule.
///
/// Works before the network is set, and does not judge mode and NaN rule. A failing call changes nothing.
///
/// Status: BAD_PARAM for a descriptor that is not alive, or bounds that are NaN or reversed, also if the mode is none.
///
/// Source: observed on 9.27.0.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnRNNSetClip_v8(
    rnnDesc: cudnnRNNDescriptor_t, clipMode: MaybeUninit<cudnnRNNClipMode_t>,
    clipNanOpt: MaybeUninit<cudnnNanPropagation_t>, lclip: f64, rclip: f64,
) -> cudnnStatus_t {
    let (mode, nan) = (raw(clipMode), raw(clipNanOpt));
    set_clip(rnnDesc, mode, nan, lclip, rclip)
}

/// The work of every call that sets clipping with a NaN rule.
pub(crate) fn set_clip(
    rnnDesc: cudnnRNNDescriptor_t, mode: i32, nan: i32, lclip: f64, rclip: f64,
) -> Result<()> {
    RNNS.with_mut(rnnDesc.addr(), "rnnDesc", |desc| {
        desc.clip = RnnClip::new(mode, nan, lclip, rclip)?;
        Ok(())
    })
}

/// Sets whether and between which bounds the LSTM cell state is clipped; a NaN stays a NaN.
///
/// For cudnnRNNGetClip_v8 the NaN rule is PROPAGATE from then on (observed on 9.27.0).
///
/// Status: as cudnnRNNSetClip_v8.
#[cfg(not(feature = "cudnn8"))]
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnRNNSetClip_v9(
    rnnDesc: cudnnRNNDescriptor_t, clipMode: MaybeUninit<cudnnRNNClipMode_t>, lclip: f64, rclip: f64,
) -> cudnnStatus_t {
    let mode = raw(clipMode);
    RNNS.with_mut(rnnDesc.addr(), "rnnDesc", |desc| {
        desc.clip = RnnClip::new(mode, NanPropagation::Keep.code(), lclip, rclip)?;
        Ok(())
    })
}

/// Reads mode, NaN rule and bounds of the clipping; NULL outputs are left out.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNGetClip_v8(
    rnnDesc: cudnnRNNDescriptor_t, clipMode: *mut cudnnRNNClipMode_t, clipNanOpt: *mut cudnnNanPropagation_t,
    lclip: *mut f64, rclip: *mut f64,
) -> cudnnStatus_t {
    // SAFETY: every place is NULL or valid for one write.
    unsafe { get_clip(rnnDesc, clipMode, clipNanOpt, lclip, rclip) }
}

/// The work of every call that reads clipping with its NaN rule.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
pub(crate) unsafe fn get_clip(
    rnnDesc: cudnnRNNDescriptor_t, clipMode: *mut cudnnRNNClipMode_t, clipNanOpt: *mut cudnnNanPropagation_t,
    lclip: *mut f64, rclip: *mut f64,
) -> Result<()> {
    let clip = get(rnnDesc)?.clip;
    // SAFETY: every place is NULL or valid for one write.
    unsafe {
        arg::set_optional_code(clipMode, clip.mode);
        arg::set_optional_code(clipNanOpt, clip.nan);
        arg::set_optional(lclip, clip.lower());
        arg::set_optional(rclip, clip.upper());
    }
    Ok(())
}

/// Reads mode and bounds of the clipping; NULL outputs are left out.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[cfg(not(feature = "cudnn8"))]
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNGetClip_v9(
    rnnDesc: cudnnRNNDescriptor_t, clipMode: *mut cudnnRNNClipMode_t, lclip: *mut f64, rclip: *mut f64,
) -> cudnnStatus_t {
    let clip = get(rnnDesc)?.clip;
    // SAFETY: every place is NULL or valid for one write.
    unsafe {
        arg::set_optional_code(clipMode, clip.mode);
        arg::set_optional(lclip, clip.lower());
        arg::set_optional(rclip, clip.upper());
    }
    Ok(())
}
