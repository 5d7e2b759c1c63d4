//! Calls that the original exports without declaring them in a header.
//!
//! Their parameters are not public. Declared without any, they ignore whatever a caller passes.

use super::guard::stub;
use super::types::cudnnStatus_t;

/// A switch for tests of the original. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetBackdoor() -> cudnnStatus_t {
    stub!(cudnnGetBackdoor())
}

/// Sets a switch for tests of the original. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetBackdoor() -> cudnnStatus_t {
    stub!(cudnnSetBackdoor())
}

/// Sets a switch for tests of the original. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetBackdoorEx() -> cudnnStatus_t {
    stub!(cudnnSetBackdoorEx())
}

/// Where a recurrent network keeps its dropout masks. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNDropoutLocationsInternal() -> cudnnStatus_t {
    stub!(cudnnGetRNNDropoutLocationsInternal())
}
