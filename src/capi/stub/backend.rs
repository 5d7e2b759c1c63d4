//! The graph API.

use super::{unsupported, unsupported_on};
use crate::capi::types::{
    cudaGraph_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, cudnnBackendDescriptor_t,
    cudnnBackendDescriptorType_t, cudnnHandle_t, cudnnStatus_t, raw,
};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Creates an object of the graph API. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendCreateDescriptor(
    descriptorType: MaybeUninit<cudnnBackendDescriptorType_t>,
    descriptor: *mut cudnnBackendDescriptor_t,
) -> cudnnStatus_t {
    unsupported(
        "cudnnBackendCreateDescriptor",
        format_args!("descriptorType={}, descriptor={descriptor:p}", raw(descriptorType)),
    )
}

/// Destroys an object of the graph API. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendDestroyDescriptor(
    descriptor: cudnnBackendDescriptor_t,
) -> cudnnStatus_t {
    unsupported("cudnnBackendDestroyDescriptor", format_args!("descriptor={descriptor:p}"))
}

/// Resets an object of the graph API. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnBackendInitialize(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t {
    unsupported("cudnnBackendInitialize", format_args!("descriptor={descriptor:p}"))
}

/// Checks an object of the graph API and closes it for changes. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendFinalize(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t {
    unsupported("cudnnBackendFinalize", format_args!("descriptor={descriptor:p}"))
}

/// Sets one attribute of an object of the graph API. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendSetAttribute(
    descriptor: cudnnBackendDescriptor_t,
    attributeName: MaybeUninit<cudnnBackendAttributeName_t>,
    attributeType: MaybeUninit<cudnnBackendAttributeType_t>,
    elementCount: i64,
    arrayOfElements: *const c_void,
) -> cudnnStatus_t {
    unsupported(
        "cudnnBackendSetAttribute",
        format_args!(
            "descriptor={descriptor:p}, attributeName={}, attributeType={}, \
         elementCount={elementCount}, arrayOfElements={arrayOfElements:p}",
            raw(attributeName),
            raw(attributeType)
        ),
    )
}

/// One attribute of an object of the graph API. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendGetAttribute(
    descriptor: cudnnBackendDescriptor_t,
    attributeName: MaybeUninit<cudnnBackendAttributeName_t>,
    attributeType: MaybeUninit<cudnnBackendAttributeType_t>,
    requestedElementCount: i64,
    elementCount: *mut i64,
    arrayOfElements: *mut c_void,
) -> cudnnStatus_t {
    unsupported(
        "cudnnBackendGetAttribute",
        format_args!(
            "descriptor={descriptor:p}, attributeName={}, attributeType={}, \
         requestedElementCount={requestedElementCount}, elementCount={elementCount:p}, \
         arrayOfElements={arrayOfElements:p}",
            raw(attributeName),
            raw(attributeType)
        ),
    )
}

/// Bytes of workspace that an execution plan takes. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[cfg(not(feature = "cudnn8"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetExecutionPlanWorkspaceSize(
    handle: cudnnHandle_t,
    executionPlan: cudnnBackendDescriptor_t,
    variantPack: cudnnBackendDescriptor_t,
    workspaceSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnGetExecutionPlanWorkspaceSize",
        format_args!(
            "handle={handle:p}, executionPlan={executionPlan:p}, variantPack={variantPack:p}, \
         workspaceSizeInBytes={workspaceSizeInBytes:p}"
        ),
        handle,
    )
}

/// Runs an execution plan. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendExecute(
    handle: cudnnHandle_t,
    executionPlan: cudnnBackendDescriptor_t,
    variantPack: cudnnBackendDescriptor_t,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnBackendExecute",
        format_args!("handle={handle:p}, executionPlan={executionPlan:p}, variantPack={variantPack:p}"),
        handle,
    )
}

/// Fills a CUDA graph with the nodes of an execution plan. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[cfg(not(feature = "cudnn8"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendPopulateCudaGraph(
    handle: cudnnHandle_t,
    executionPlan: cudnnBackendDescriptor_t,
    variantPack: cudnnBackendDescriptor_t,
    graph: cudaGraph_t,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnBackendPopulateCudaGraph",
        format_args!(
            "handle={handle:p}, executionPlan={executionPlan:p}, variantPack={variantPack:p}, \
         graph={graph:p}"
        ),
        handle,
    )
}

/// Puts new pointers into a CUDA graph made from an execution plan. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[cfg(not(feature = "cudnn8"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendUpdateCudaGraph(
    handle: cudnnHandle_t,
    executionPlan: cudnnBackendDescriptor_t,
    variantPack: cudnnBackendDescriptor_t,
    graph: cudaGraph_t,
) -> cudnnStatus_t {
    unsupported_on(
        "cudnnBackendUpdateCudaGraph",
        format_args!(
            "handle={handle:p}, executionPlan={executionPlan:p}, variantPack={variantPack:p}, \
         graph={graph:p}"
        ),
        handle,
    )
}
