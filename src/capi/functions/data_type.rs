//! Element types by the numbers that C programs know them by.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use super::types::{cudnnDataType_t, raw};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::mode::Mode;

/// The element types that cuDNN's tensors hold; the others are an extension.
const ORIGINAL: i32 = 9;

/// The element type of this number, if the library has it.
pub(crate) fn known(code: c_int) -> Option<DataType> {
    Some(match code {
        0 => DataType::Float,
        1 => DataType::Double,
        2 => DataType::Half,
        3 => DataType::Int8,
        4 => DataType::Int32,
        5 => DataType::Int8x4,
        6 => DataType::Uint8,
        7 => DataType::Uint8x4,
        8 => DataType::Int8x32,
        9 => DataType::Bfloat16,
        10 => DataType::Int64,
        11 => DataType::Boolean,
        12 => DataType::Fp8E4m3,
        13 => DataType::Fp8E5m2,
        _ => return None,
    })
}

/// The element type that a tensor or filter is to hold.
///
/// # Errors
/// Bad parameter for a type that the library does not have and, in strict mode, that cuDNN's tensors lack.
pub(crate) fn decode(code: MaybeUninit<cudnnDataType_t>, mode: Mode) -> Result<DataType> {
    let code = raw(code);
    known(code).filter(|_| code <= ORIGINAL || !mode.is_strict()).ok_or_else(|| {
        let rule =
            if mode.is_strict() { "strict mode knows types 0 to 9" } else { "a tensor holds types 0 to 13" };
        Error::argument("dataType", code.into(), rule)
    })
}

/// The element type of a call that takes only some.
///
/// # Errors
/// Bad parameter for every other.
pub(crate) fn one_of(
    accepted: &[DataType], code: MaybeUninit<cudnnDataType_t>, argument: &'static str,
) -> Result<DataType> {
    let code = raw(code);
    known(code)
        .filter(|data_type| accepted.contains(data_type))
        .ok_or_else(|| Error::argument(argument, code.into(), format!("the types here are {accepted:?}")))
}

/// The number by which C programs know an element type.
pub(crate) fn encode(data_type: DataType) -> cudnnDataType_t {
    match data_type {
        DataType::Float => cudnnDataType_t::CUDNN_DATA_FLOAT,
        DataType::Double => cudnnDataType_t::CUDNN_DATA_DOUBLE,
        DataType::Half => cudnnDataType_t::CUDNN_DATA_HALF,
        DataType::Int8 => cudnnDataType_t::CUDNN_DATA_INT8,
        DataType::Int32 => cudnnDataType_t::CUDNN_DATA_INT32,
        DataType::Int8x4 => cudnnDataType_t::CUDNN_DATA_INT8x4,
        DataType::Uint8 => cudnnDataType_t::CUDNN_DATA_UINT8,
        DataType::Uint8x4 => cudnnDataType_t::CUDNN_DATA_UINT8x4,
        DataType::Int8x32 => cudnnDataType_t::CUDNN_DATA_INT8x32,
        DataType::Bfloat16 => cudnnDataType_t::CUDNN_DATA_BFLOAT16,
        DataType::Int64 => cudnnDataType_t::CUDNN_DATA_INT64,
        DataType::Boolean => cudnnDataType_t::CUDNN_DATA_BOOLEAN,
        DataType::Fp8E4m3 => cudnnDataType_t::CUDNN_DATA_FP8_E4M3,
        DataType::Fp8E5m2 => cudnnDataType_t::CUDNN_DATA_FP8_E5M2,
    }
}
