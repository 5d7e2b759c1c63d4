//! Recurrent networks as version 6 described them: the descriptor in parts, each with a call of its own.
//!
//! These calls set and read the descriptor that the calls of version 8 use. A part that is set before
//! cudnnSetRNNDescriptor_v6 is lost when that is called.

use std::ffi::{c_int, c_uint};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, results};
use super::types::{
    cudnnDataType_t, cudnnDirectionMode_t, cudnnDropoutDescriptor_t, cudnnHandle_t, cudnnMathType_t,
    cudnnNanPropagation_t, cudnnRNNAlgo_t, cudnnRNNBiasMode_t, cudnnRNNClipMode_t, cudnnRNNDescriptor_t,
    cudnnRNNInputMode_t, cudnnRNNMode_t, cudnnStatus_t, raw,
};
use super::{context, data_type, dropout, rnn};
use crate::desc::{Choice, RnnDescriptor};
use crate::dtype::DataType;
use crate::error::{Error, Result};

/// Sets whether and between which bounds the LSTM cell state is clipped, and the NaN rule.
///
/// Status: as cudnnRNNSetClip_v8. The handle is not looked at (observed on 8.9.7).
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnRNNSetClip(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, clipMode: MaybeUninit<cudnnRNNClipMode_t>,
    clipNanOpt: MaybeUninit<cudnnNanPropagation_t>, lclip: f64, rclip: f64,
) -> cudnnStatus_t {
    let (mode, nan) = (raw(clipMode), raw(clipNanOpt));
    rnn::set_clip(rnnDesc, mode, nan, lclip, rclip)
}

/// Reads mode, NaN rule and bounds of the clipping; NULL outputs are left out.
///
/// Status: BAD_PARAM for a descriptor that is not alive. The handle is not looked at (observed on 8.9.7).
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNGetClip(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, clipMode: *mut cudnnRNNClipMode_t,
    clipNanOpt: *mut cudnnNanPropagation_t, lclip: *mut f64, rclip: *mut f64,
) -> cudnnStatus_t {
    // SAFETY: every place is NULL or valid for one write.
    unsafe { rnn::get_clip(rnnDesc, clipMode, clipNanOpt, lclip, rclip) }
}

/// The type of sums that a number stands for.
///
/// # Errors
/// Not supported: a type that version 8 knows, and recurrent networks do not compute in. Bad parameter: no such type.
fn compute_type(code: c_int) -> Result<DataType> {
    match code {
        0 => Ok(DataType::Float),
        1 => Ok(DataType::Double),
        2 => Ok(DataType::Half),
        3..=10 => Err(Error::unsupported(format!(
            "mathPrec = {code}: recurrent networks compute in FLOAT, DOUBLE or HALF"
        ))),
        _ => Err(Error::argument("mathPrec", code.into(), "no data type")),
    }
}

/// Sets sizes, cell and algorithm of a recurrent network, and resets what the other calls of version 6 set.
///
/// That is two biases, math type and padding 0, no projection and no clipping.
/// `dropoutDesc` may be NULL. Input size and element type come with the data of each call. A failing call changes nothing.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive, a size or layer count below 1, an unknown
/// enumerator or type; NOT_SUPPORTED for a `mathPrec` other than FLOAT, DOUBLE and HALF.
///
/// Source: observed on 8.9.7.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetRNNDescriptor_v6(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, hiddenSize: c_int, numLayers: c_int,
    dropoutDesc: cudnnDropoutDescriptor_t, inputMode: MaybeUninit<cudnnRNNInputMode_t>,
    direction: MaybeUninit<cudnnDirectionMode_t>, cellMode: MaybeUninit<cudnnRNNMode_t>,
    algo: MaybeUninit<cudnnRNNAlgo_t>, mathPrec: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    context::check(handle)?;
    rnn::change(rnnDesc, |desc| {
        for (argument, size) in [("hiddenSize", hiddenSize), ("numLayers", numLayers)] {
            if size < 1 {
                return Err(Error::argument(argument, size.into(), "at least 1"));
            }
        }
        dropout::check_optional(dropoutDesc, "dropoutDesc")?;
        // Evaluated from top to bottom.
        *desc = RnnDescriptor {
            input: arg::choice(inputMode, "inputMode")?,
            direction: arg::choice(direction, "direction")?,
            cell: arg::choice(cellMode, "cellMode")?,
            algo: arg::choice(algo, "algo")?,
            compute: compute_type(raw(mathPrec))?,
            hidden: hiddenSize,
            projected: hiddenSize,
            layers: numLayers,
            dropout: dropoutDesc.addr(),
            ..RnnDescriptor::default()
        };
        Ok(())
    })
}

/// Reads sizes, cell and algorithm of a recurrent network, whichever call has set them; NULL outputs are left out.
///
/// Status: BAD_PARAM for a handle or descriptor that is not alive.
///
/// Source: observed on 8.9.7; zeros before the network is set.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNDescriptor_v6(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, hiddenSize: *mut c_int, numLayers: *mut c_int,
    dropoutDesc: *mut cudnnDropoutDescriptor_t, inputMode: *mut cudnnRNNInputMode_t,
    direction: *mut cudnnDirectionMode_t, cellMode: *mut cudnnRNNMode_t, algo: *mut cudnnRNNAlgo_t,
    mathPrec: *mut cudnnDataType_t,
) -> cudnnStatus_t {
    context::check(handle)?;
    let desc = rnn::get(rnnDesc)?;
    // SAFETY: every place is NULL or valid for one write.
    unsafe {
        arg::set_optional(hiddenSize, desc.hidden);
        arg::set_optional(numLayers, desc.layers);
        arg::set_optional(dropoutDesc, std::ptr::without_provenance_mut(desc.dropout));
        arg::set_optional_code(inputMode, desc.input.code());
        arg::set_optional_code(direction, desc.direction.code());
        arg::set_optional_code(cellMode, desc.cell.code());
        arg::set_optional_code(algo, desc.algo.code());
        arg::set_optional(mathPrec, data_type::encode(desc.compute));
    }
    Ok(())
}

/// Sets which arithmetic units a recurrent network may use. The value is kept; no core of this library has a choice.
///
/// Status: BAD_PARAM for a descriptor that is not alive, or an unknown enumerator.
///
/// Source: observed on 8.9.7.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetRNNMatrixMathType(
    rnnDesc: cudnnRNNDescriptor_t, mType: MaybeUninit<cudnnMathType_t>,
) -> cudnnStatus_t {
    rnn::change(rnnDesc, |desc| {
        desc.math_type = arg::choice(mType, "mType")?;
        Ok(())
    })
}

/// Which arithmetic units a recurrent network may use.
///
/// Status: BAD_PARAM for a descriptor that is not alive, or if `mType` is NULL.
///
/// # Safety
/// `mType` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNMatrixMathType(
    rnnDesc: cudnnRNNDescriptor_t, mType: *mut cudnnMathType_t,
) -> cudnnStatus_t {
    let desc = rnn::get(rnnDesc)?;
    results!(code mType = desc.math_type.code())
}

/// Sets how many bias vectors a recurrent cell has.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive, or an unknown enumerator; NOT_SUPPORTED for other than two in a
/// network with a persistent algorithm.
///
/// Source: observed on 8.9.7.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetRNNBiasMode(
    rnnDesc: cudnnRNNDescriptor_t, biasMode: MaybeUninit<cudnnRNNBiasMode_t>,
) -> cudnnStatus_t {
    rnn::change(rnnDesc, |desc| desc.set_bias(arg::choice(biasMode, "biasMode")?))
}

/// How many bias vectors a recurrent cell has.
///
/// Status: BAD_PARAM for a descriptor that is not alive, or if `biasMode` is NULL.
///
/// # Safety
/// `biasMode` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNBiasMode(
    rnnDesc: cudnnRNNDescriptor_t, biasMode: *mut cudnnRNNBiasMode_t,
) -> cudnnStatus_t {
    let desc = rnn::get(rnnDesc)?;
    results!(code biasMode = desc.bias.code())
}

/// Sets the size that an LSTM projects its output to; `recProjSize = hiddenSize` is no projection.
///
/// `outProjSize` is 0, as no version projects outputs otherwise; other values that are not negative are ignored.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive, a `recProjSize` below 1 or a negative
/// `outProjSize`; NOT_SUPPORTED for a `recProjSize` above hiddenSize, or below it in anything but an LSTM with the standard
/// algorithm.
///
/// Source: observed on 8.9.7.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetRNNProjectionLayers(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, recProjSize: c_int, outProjSize: c_int,
) -> cudnnStatus_t {
    context::check(handle)?;
    rnn::change(rnnDesc, |desc| {
        if outProjSize < 0 {
            return Err(Error::argument("outProjSize", outProjSize.into(), "0"));
        }
        desc.set_projection(recProjSize)
    })
}

/// The size that an LSTM projects its output to, hiddenSize if it does not, and 0 for `outProjSize`; NULL outputs are left out.
///
/// Status: BAD_PARAM for a handle or descriptor that is not alive.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNProjectionLayers(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, recProjSize: *mut c_int, outProjSize: *mut c_int,
) -> cudnnStatus_t {
    context::check(handle)?;
    let desc = rnn::get(rnnDesc)?;
    // SAFETY: every place is NULL or valid for one write.
    unsafe {
        arg::set_optional(recProjSize, desc.projected);
        arg::set_optional(outProjSize, 0);
    }
    Ok(())
}

/// Sets whether the Ex calls take sequences with padding (1) or without (0).
///
/// Status: BAD_PARAM for a descriptor that is not alive, or another number.
///
/// Source: observed on 8.9.7.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetRNNPaddingMode(
    rnnDesc: cudnnRNNDescriptor_t, paddingMode: c_uint,
) -> cudnnStatus_t {
    rnn::change(rnnDesc, |desc| {
        if paddingMode > 1 {
            return Err(Error::argument("paddingMode", paddingMode.into(), "0, or 1 for padded sequences"));
        }
        desc.flags = paddingMode;
        Ok(())
    })
}

/// Whether the Ex calls take sequences with padding.
///
/// Status: BAD_PARAM for a descriptor that is not alive, or if `paddingMode` is NULL.
///
/// # Safety
/// `paddingMode` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNPaddingMode(
    rnnDesc: cudnnRNNDescriptor_t, paddingMode: *mut c_uint,
) -> cudnnStatus_t {
    let desc = rnn::get(rnnDesc)?;
    results!(new paddingMode = desc.flags)
}
