//! Filter descriptors and the filter transform.

use super::{unsupported, unsupported_on};
use crate::capi::types::{
    cudnnDataType_t, cudnnFilterDescriptor_t, cudnnHandle_t, cudnnStatus_t, cudnnTensorFormat_t,
    cudnnTensorTransformDescriptor_t,
};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// Creates a filter descriptor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateFilterDescriptor(
    filterDesc: *mut cudnnFilterDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnCreateFilterDescriptor")
}

/// Sets a packed filter of K x C x H x W. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetFilter4dDescriptor(
    filterDesc: cudnnFilterDescriptor_t,
    dataType: MaybeUninit<cudnnDataType_t>,
    format: MaybeUninit<cudnnTensorFormat_t>,
    k: c_int,
    c: c_int,
    h: c_int,
    w: c_int,
) -> cudnnStatus_t {
    unsupported("cudnnSetFilter4dDescriptor")
}

/// Type, format and dimensions of a 4-D filter. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetFilter4dDescriptor(
    filterDesc: cudnnFilterDescriptor_t,
    dataType: *mut cudnnDataType_t,
    format: *mut cudnnTensorFormat_t,
    k: *mut c_int,
    c: *mut c_int,
    h: *mut c_int,
    w: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetFilter4dDescriptor")
}

/// Sets a packed filter of any rank. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetFilterNdDescriptor(
    filterDesc: cudnnFilterDescriptor_t,
    dataType: MaybeUninit<cudnnDataType_t>,
    format: MaybeUninit<cudnnTensorFormat_t>,
    nbDims: c_int,
    filterDimA: *const c_int,
) -> cudnnStatus_t {
    unsupported("cudnnSetFilterNdDescriptor")
}

/// Type, format and dimensions of a filter. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetFilterNdDescriptor(
    filterDesc: cudnnFilterDescriptor_t,
    nbDimsRequested: c_int,
    dataType: *mut cudnnDataType_t,
    format: *mut cudnnTensorFormat_t,
    nbDims: *mut c_int,
    filterDimA: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetFilterNdDescriptor")
}

/// Bytes that a filter takes. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetFilterSizeInBytes(
    filterDesc: cudnnFilterDescriptor_t,
    size: *mut usize,
) -> cudnnStatus_t {
    unsupported("cudnnGetFilterSizeInBytes")
}

/// `dest = alpha * transform(src) + beta * dest` between two filters. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnTransformFilter(
    handle: cudnnHandle_t,
    transDesc: cudnnTensorTransformDescriptor_t,
    alpha: *const c_void,
    srcDesc: cudnnFilterDescriptor_t,
    srcData: *const c_void,
    beta: *const c_void,
    destDesc: cudnnFilterDescriptor_t,
    destData: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnTransformFilter", handle)
}

/// Destroys a filter descriptor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyFilterDescriptor(filterDesc: cudnnFilterDescriptor_t) -> cudnnStatus_t {
    unsupported("cudnnDestroyFilterDescriptor")
}
