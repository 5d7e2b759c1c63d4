//! The descriptor of a CTC loss, whose setters and getters of four ages share one state.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::beside::twinned;
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{
    cudnnCTCGradMode_t, cudnnCTCLossDescriptor_t, cudnnDataType_t, cudnnLossNormalizationMode_t,
    cudnnNanPropagation_t, cudnnStatus_t, raw,
};
use super::{arg, data_type};
use crate::desc::CtcLossDescriptor;
use crate::dtype::DataType;
use crate::error::{Error, Result};

static CTC_LOSSES: Table<CtcLossDescriptor> = Table::new(Kind::CtcLoss);
twinned!(cudnnCTCLossDescriptor_t, CTC_LOSSES);

/// A copy of what the descriptor holds.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn get(desc: cudnnCTCLossDescriptor_t) -> Result<CtcLossDescriptor> {
    CTC_LOSSES.get(desc.addr(), "ctcLossDesc")
}

/// Replaces the whole state; what an older setter does not have becomes 0.
fn set(
    desc: cudnnCTCLossDescriptor_t, compute_type: MaybeUninit<cudnnDataType_t>, normalization: c_int,
    gradient: c_int, max_label_length: c_int,
) -> Result<()> {
    CTC_LOSSES.replace(desc.addr(), "ctcLossDesc", || {
        let code = raw(compute_type);
        match data_type::known(code) {
            Some(compute_type @ (DataType::Float | DataType::Double)) => {
                Ok(CtcLossDescriptor { compute_type, normalization, gradient, max_label_length })
            }
            _ => {
                Err(Error::unsupported(format!("compType = {code}: CTC loss is computed in FLOAT or DOUBLE")))
            }
        }
    })
}

/// Creates the descriptor of a CTC loss: computed in float, zeros elsewhere.
///
/// Status: BAD_PARAM if `ctcLossDesc` is NULL.
///
/// # Safety
/// `ctcLossDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateCTCLossDescriptor(
    ctcLossDesc: *mut cudnnCTCLossDescriptor_t,
) -> cudnnStatus_t {
    create!(ctcLossDesc, CTC_LOSSES)
}

/// Destroys the descriptor of a CTC loss; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroyCTCLossDescriptor(ctcLossDesc: cudnnCTCLossDescriptor_t) -> cudnnStatus_t {
    destroy!(ctcLossDesc, CTC_LOSSES)
}

/// Sets the compute type of a CTC loss, everything else to 0.
///
/// A failing call changes nothing.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive; NOT_SUPPORTED for every type but FLOAT and
/// DOUBLE.
///
/// Source: observed on 9.27.0.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetCTCLossDescriptor(
    ctcLossDesc: cudnnCTCLossDescriptor_t, compType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    set(ctcLossDesc, compType, 0, 0, 0)
}

/// Sets compute type, normalisation and NaN rule of a CTC loss, the longest label to 0.
///
/// Normalisation and NaN rule are judged when used. A failing call changes nothing.
///
/// Status: as cudnnSetCTCLossDescriptor.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetCTCLossDescriptorEx(
    ctcLossDesc: cudnnCTCLossDescriptor_t, compType: MaybeUninit<cudnnDataType_t>,
    normMode: MaybeUninit<cudnnLossNormalizationMode_t>, gradMode: MaybeUninit<cudnnNanPropagation_t>,
) -> cudnnStatus_t {
    let (norm, grad) = (raw(normMode), raw(gradMode));
    set(ctcLossDesc, compType, norm, grad, 0)
}

/// Sets compute type, normalisation, NaN rule and longest label of a CTC loss.
///
/// All but the type are judged when used. A failing call changes nothing.
///
/// Status: as cudnnSetCTCLossDescriptor.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetCTCLossDescriptor_v8(
    ctcLossDesc: cudnnCTCLossDescriptor_t, compType: MaybeUninit<cudnnDataType_t>,
    normMode: MaybeUninit<cudnnLossNormalizationMode_t>, gradMode: MaybeUninit<cudnnNanPropagation_t>,
    maxLabelLength: c_int,
) -> cudnnStatus_t {
    let (norm, grad) = (raw(normMode), raw(gradMode));
    set(ctcLossDesc, compType, norm, grad, maxLabelLength)
}

/// Sets compute type, normalisation, gradient rule and longest label of a CTC loss.
///
/// All but the type are judged when used. A failing call changes nothing.
///
/// Status: as cudnnSetCTCLossDescriptor.
#[cfg(not(feature = "cudnn8"))]
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetCTCLossDescriptor_v9(
    ctcLossDesc: cudnnCTCLossDescriptor_t, compType: MaybeUninit<cudnnDataType_t>,
    normMode: MaybeUninit<cudnnLossNormalizationMode_t>, ctcGradMode: MaybeUninit<cudnnCTCGradMode_t>,
    maxLabelLength: c_int,
) -> cudnnStatus_t {
    let (norm, grad) = (raw(normMode), raw(ctcGradMode));
    set(ctcLossDesc, compType, norm, grad, maxLabelLength)
}

/// Reads the compute type of a CTC loss; a NULL output is left out.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
///
/// # Safety
/// `compType` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetCTCLossDescriptor(
    ctcLossDesc: cudnnCTCLossDescriptor_t, compType: *mut cudnnDataType_t,
) -> cudnnStatus_t {
    let desc = get(ctcLossDesc)?;
    // SAFETY: `compType` is NULL or valid for one write.
    unsafe { arg::set_optional(compType, data_type::encode(desc.compute_type)) };
    Ok(())
}

/// Reads compute type, normalisation and NaN rule of a CTC loss; NULL outputs are left out.
///
/// The NaN rule is the gradient rule of the newer setter under its older name.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetCTCLossDescriptorEx(
    ctcLossDesc: cudnnCTCLossDescriptor_t, compType: *mut cudnnDataType_t,
    normMode: *mut cudnnLossNormalizationMode_t, gradMode: *mut cudnnNanPropagation_t,
) -> cudnnStatus_t {
    let desc = get(ctcLossDesc)?;
    // SAFETY: every place is NULL or valid for one write.
    unsafe {
        arg::set_optional(compType, data_type::encode(desc.compute_type));
        arg::set_optional_code(normMode, desc.normalization);
        arg::set_optional_code(gradMode, desc.gradient);
    }
    Ok(())
}

/// Reads compute type, normalisation, NaN rule and longest label of a CTC loss; NULL outputs are left out.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetCTCLossDescriptor_v8(
    ctcLossDesc: cudnnCTCLossDescriptor_t, compType: *mut cudnnDataType_t,
    normMode: *mut cudnnLossNormalizationMode_t, gradMode: *mut cudnnNanPropagation_t,
    maxLabelLength: *mut c_int,
) -> cudnnStatus_t {
    let desc = get(ctcLossDesc)?;
    // SAFETY: every place is NULL or valid for one write.
    unsafe {
        arg::set_optional(compType, data_type::encode(desc.compute_type));
        arg::set_optional_code(normMode, desc.normalization);
        arg::set_optional_code(gradMode, desc.gradient);
        arg::set_optional(maxLabelLength, desc.max_label_length);
    }
    Ok(())
}

/// Reads compute type, normalisation, gradient rule and longest label of a CTC loss; NULL outputs are left out.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[cfg(not(feature = "cudnn8"))]
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetCTCLossDescriptor_v9(
    ctcLossDesc: cudnnCTCLossDescriptor_t, compType: *mut cudnnDataType_t,
    normMode: *mut cudnnLossNormalizationMode_t, ctcGradMode: *mut cudnnCTCGradMode_t,
    maxLabelLength: *mut c_int,
) -> cudnnStatus_t {
    let desc = get(ctcLossDesc)?;
    // SAFETY: every place is NULL or valid for one write.
    unsafe {
        arg::set_optional(compType, data_type::encode(desc.compute_type));
        arg::set_optional_code(normMode, desc.normalization);
        arg::set_optional_code(ctcGradMode, desc.gradient);
        arg::set_optional(maxLabelLength, desc.max_label_length);
    }
    Ok(())
}
