//! The numbers of element types.

use std::ffi::c_int;

use crate::dtype::DataType;

/// The number of an element type.
pub(super) fn type_code(data_type: DataType) -> c_int {
    DataType::ALL.iter().position(|&known| known == data_type).map_or(-1, |code| code as c_int)
}

/// The element type of a number.
pub(super) fn type_of(code: c_int) -> Option<DataType> {
    DataType::ALL.get(usize::try_from(code).ok()?).copied()
}
