//! Calls whose own module is on its way.

use super::{unsupported, unsupported_on};
use crate::capi::types::{
    cudaStream_t, cudnnCallback_t, cudnnDataType_t, cudnnErrQueryMode_t, cudnnFoldingDirection_t,
    cudnnHandle_t, cudnnRuntimeTag_t, cudnnStatus_t, cudnnTensorDescriptor_t, cudnnTensorFormat_t,
    cudnnTensorTransformDescriptor_t, libraryPropertyType,
};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;

/// `CUDNN_VERSION` of the library. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetVersion() -> usize {
    0
}

/// The newest device that the interface knows. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetMaxDeviceVersion() -> usize {
    0
}

/// Version of the CUDA runtime that the library works with. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetCudartVersion() -> usize {
    0
}

/// Name of a status; a static string. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetErrorString(status: MaybeUninit<cudnnStatus_t>) -> *const c_char {
    c"".as_ptr()
}

/// Text of the thread's last error, cut to `max_size` bytes with the terminating zero. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetLastErrorString(message: *mut c_char, max_size: usize) {}

/// Tells whether a kernel has reported an error. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnQueryRuntimeError(
    handle: cudnnHandle_t,
    rstatus: *mut cudnnStatus_t,
    mode: MaybeUninit<cudnnErrQueryMode_t>,
    tag: *mut cudnnRuntimeTag_t,
) -> cudnnStatus_t {
    unsupported_on("cudnnQueryRuntimeError", handle)
}

/// One part of the library's version. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetProperty(
    r#type: MaybeUninit<libraryPropertyType>,
    value: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetProperty")
}

/// Creates a library context. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreate(handle: *mut cudnnHandle_t) -> cudnnStatus_t {
    unsupported("cudnnCreate")
}

/// Destroys a library context. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDestroy(handle: cudnnHandle_t) -> cudnnStatus_t {
    unsupported_on("cudnnDestroy", handle)
}

/// Sets the stream that a context works on. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetStream(handle: cudnnHandle_t, streamId: cudaStream_t) -> cudnnStatus_t {
    unsupported_on("cudnnSetStream", handle)
}

/// The stream that a context works on. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetStream(handle: cudnnHandle_t, streamId: *mut cudaStream_t) -> cudnnStatus_t {
    unsupported_on("cudnnGetStream", handle)
}

/// Sets the function that receives log messages, and which of them. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetCallback(
    mask: c_uint,
    udata: *mut c_void,
    fptr: cudnnCallback_t,
) -> cudnnStatus_t {
    unsupported("cudnnSetCallback")
}

/// The function that receives log messages, and which of them. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetCallback(
    mask: *mut c_uint,
    udata: *mut *mut c_void,
    fptr: *mut cudnnCallback_t,
) -> cudnnStatus_t {
    unsupported("cudnnGetCallback")
}

/// Checks that the library's parts fit each other. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGraphVersionCheck() -> cudnnStatus_t {
    unsupported("cudnnGraphVersionCheck")
}

/// Creates a tensor descriptor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateTensorDescriptor(
    tensorDesc: *mut cudnnTensorDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnCreateTensorDescriptor")
}

/// Sets a packed 4-D tensor in one of the named formats. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetTensor4dDescriptor(
    tensorDesc: cudnnTensorDescriptor_t,
    format: MaybeUninit<cudnnTensorFormat_t>,
    dataType: MaybeUninit<cudnnDataType_t>,
    n: c_int,
    c: c_int,
    h: c_int,
    w: c_int,
) -> cudnnStatus_t {
    unsupported("cudnnSetTensor4dDescriptor")
}

/// Sets a 4-D tensor with explicit strides. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetTensor4dDescriptorEx(
    tensorDesc: cudnnTensorDescriptor_t,
    dataType: MaybeUninit<cudnnDataType_t>,
    n: c_int,
    c: c_int,
    h: c_int,
    w: c_int,
    nStride: c_int,
    cStride: c_int,
    hStride: c_int,
    wStride: c_int,
) -> cudnnStatus_t {
    unsupported("cudnnSetTensor4dDescriptorEx")
}

/// Type, dimensions and strides of a 4-D tensor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetTensor4dDescriptor(
    tensorDesc: cudnnTensorDescriptor_t,
    dataType: *mut cudnnDataType_t,
    n: *mut c_int,
    c: *mut c_int,
    h: *mut c_int,
    w: *mut c_int,
    nStride: *mut c_int,
    cStride: *mut c_int,
    hStride: *mut c_int,
    wStride: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetTensor4dDescriptor")
}

/// Sets a tensor with explicit strides. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetTensorNdDescriptor(
    tensorDesc: cudnnTensorDescriptor_t,
    dataType: MaybeUninit<cudnnDataType_t>,
    nbDims: c_int,
    dimA: *const c_int,
    strideA: *const c_int,
) -> cudnnStatus_t {
    unsupported("cudnnSetTensorNdDescriptor")
}

/// Sets a packed tensor in one of the named formats. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetTensorNdDescriptorEx(
    tensorDesc: cudnnTensorDescriptor_t,
    format: MaybeUninit<cudnnTensorFormat_t>,
    dataType: MaybeUninit<cudnnDataType_t>,
    nbDims: c_int,
    dimA: *const c_int,
) -> cudnnStatus_t {
    unsupported("cudnnSetTensorNdDescriptorEx")
}

/// Type, dimensions and strides of a tensor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetTensorNdDescriptor(
    tensorDesc: cudnnTensorDescriptor_t,
    nbDimsRequested: c_int,
    dataType: *mut cudnnDataType_t,
    nbDims: *mut c_int,
    dimA: *mut c_int,
    strideA: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetTensorNdDescriptor")
}

/// Bytes from the first to the last element of a tensor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetTensorSizeInBytes(
    tensorDesc: cudnnTensorDescriptor_t,
    size: *mut usize,
) -> cudnnStatus_t {
    unsupported("cudnnGetTensorSizeInBytes")
}

/// Destroys a tensor descriptor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDestroyTensorDescriptor(tensorDesc: cudnnTensorDescriptor_t) -> cudnnStatus_t {
    unsupported("cudnnDestroyTensorDescriptor")
}

/// Derives the destination tensor of a transform. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnInitTransformDest(
    transformDesc: cudnnTensorTransformDescriptor_t,
    srcDesc: cudnnTensorDescriptor_t,
    destDesc: cudnnTensorDescriptor_t,
    destSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported("cudnnInitTransformDest")
}

/// Creates a tensor transform descriptor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateTensorTransformDescriptor(
    transformDesc: *mut cudnnTensorTransformDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnCreateTensorTransformDescriptor")
}

/// Sets padding, folding and destination format of a transform. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetTensorTransformDescriptor(
    transformDesc: cudnnTensorTransformDescriptor_t,
    nbDims: u32,
    destFormat: MaybeUninit<cudnnTensorFormat_t>,
    padBeforeA: *const i32,
    padAfterA: *const i32,
    foldA: *const u32,
    direction: MaybeUninit<cudnnFoldingDirection_t>,
) -> cudnnStatus_t {
    unsupported("cudnnSetTensorTransformDescriptor")
}

/// Padding, folding and destination format of a transform. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetTensorTransformDescriptor(
    transformDesc: cudnnTensorTransformDescriptor_t,
    nbDimsRequested: u32,
    destFormat: *mut cudnnTensorFormat_t,
    padBeforeA: *mut i32,
    padAfterA: *mut i32,
    foldA: *mut u32,
    direction: *mut cudnnFoldingDirection_t,
) -> cudnnStatus_t {
    unsupported("cudnnGetTensorTransformDescriptor")
}

/// Destroys a tensor transform descriptor. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyTensorTransformDescriptor(
    transformDesc: cudnnTensorTransformDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnDestroyTensorTransformDescriptor")
}

/// `y = alpha * x + beta * y` between two layouts of one shape. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnTransformTensor(
    handle: cudnnHandle_t,
    alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    beta: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnTransformTensor", handle)
}

/// `dest = alpha * transform(src) + beta * dest` with padding and folding. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnTransformTensorEx(
    handle: cudnnHandle_t,
    transDesc: cudnnTensorTransformDescriptor_t,
    alpha: *const c_void,
    srcDesc: cudnnTensorDescriptor_t,
    srcData: *const c_void,
    beta: *const c_void,
    destDesc: cudnnTensorDescriptor_t,
    destData: *mut c_void,
) -> cudnnStatus_t {
    unsupported_on("cudnnTransformTensorEx", handle)
}

/// Checks that the library's parts fit each other. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnOpsVersionCheck() -> cudnnStatus_t {
    unsupported("cudnnOpsVersionCheck")
}

/// Checks that the library's parts fit each other. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnAdvVersionCheck() -> cudnnStatus_t {
    unsupported("cudnnAdvVersionCheck")
}

/// Checks that the library's parts fit each other. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCnnVersionCheck() -> cudnnStatus_t {
    unsupported("cudnnCnnVersionCheck")
}

/// Checks that the library's parts fit each other. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSubquadraticOpsVersionCheck() -> cudnnStatus_t {
    unsupported("cudnnSubquadraticOpsVersionCheck")
}
