//! Algorithm descriptors of version 8 written to memory and read back.

use super::unsupported_on;
use crate::capi::types::{cudnnAlgorithmDescriptor_t, cudnnHandle_t, cudnnStatus_t};
use std::ffi::c_void;

/// Bytes that an algorithm takes when it is saved. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetAlgorithmSpaceSize(
    handle: cudnnHandle_t,
    algoDesc: cudnnAlgorithmDescriptor_t,
    algoSpaceSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnGetAlgorithmSpaceSize", handle)
}

/// Saves an algorithm to host memory. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSaveAlgorithm(
    handle: cudnnHandle_t,
    algoDesc: cudnnAlgorithmDescriptor_t,
    algoSpace: *mut c_void,
    algoSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnSaveAlgorithm", handle)
}

/// Restores an algorithm from host memory. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRestoreAlgorithm(
    handle: cudnnHandle_t,
    algoSpace: *mut c_void,
    algoSpaceSizeInBytes: usize,
    algoDesc: cudnnAlgorithmDescriptor_t,
) -> cudnnStatus_t {
    unsupported_on("cudnnRestoreAlgorithm", handle)
}
