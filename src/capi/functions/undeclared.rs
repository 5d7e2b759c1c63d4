//! Calls that the original exports without declaring them in a header.
//!
//! Their parameters are not public. Declared without any, they ignore whatever a caller passes.

use cudnn_shim_macros::entry;

use super::types::cudnnStatus_t;
use crate::error::Error;

/// What these answer; no memory is touched.
const NOT_BUILT: &str = "not built, as its row in MATRIX.md says";

/// A switch for tests of cuDNN. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetBackdoor() -> cudnnStatus_t {
    Err(Error::unsupported(NOT_BUILT))
}

/// Sets a switch for tests of cuDNN. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetBackdoor() -> cudnnStatus_t {
    Err(Error::unsupported(NOT_BUILT))
}

/// Sets a switch for tests of cuDNN. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetBackdoorEx() -> cudnnStatus_t {
    Err(Error::unsupported(NOT_BUILT))
}

/// Where a recurrent network keeps its dropout masks. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNDropoutLocationsInternal() -> cudnnStatus_t {
    Err(Error::unsupported(NOT_BUILT))
}
