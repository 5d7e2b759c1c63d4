//! The graph API.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use super::guard::{stub, stub_on};
use super::types::{
    cudaGraph_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, cudnnBackendDescriptor_t,
    cudnnBackendDescriptorType_t, cudnnHandle_t, cudnnStatus_t,
};

/// Creates an object of the graph API. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendCreateDescriptor(
    descriptorType: MaybeUninit<cudnnBackendDescriptorType_t>,
    descriptor: *mut cudnnBackendDescriptor_t,
) -> cudnnStatus_t {
    stub!(cudnnBackendCreateDescriptor(descriptorType, descriptor))
}

/// Destroys an object of the graph API. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendDestroyDescriptor(
    descriptor: cudnnBackendDescriptor_t,
) -> cudnnStatus_t {
    stub!(cudnnBackendDestroyDescriptor(descriptor))
}

/// Resets an object of the graph API. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnBackendInitialize(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t {
    stub!(cudnnBackendInitialize(descriptor))
}

/// Checks an object of the graph API and closes it for changes. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendFinalize(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t {
    stub!(cudnnBackendFinalize(descriptor))
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
    stub!(cudnnBackendSetAttribute(descriptor, attributeName, attributeType, elementCount, arrayOfElements))
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
    stub!(cudnnBackendGetAttribute(
        descriptor,
        attributeName,
        attributeType,
        requestedElementCount,
        elementCount,
        arrayOfElements
    ))
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
    stub_on!(cudnnGetExecutionPlanWorkspaceSize(handle, executionPlan, variantPack, workspaceSizeInBytes))
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
    stub_on!(cudnnBackendExecute(handle, executionPlan, variantPack))
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
    stub_on!(cudnnBackendPopulateCudaGraph(handle, executionPlan, variantPack, graph))
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
    stub_on!(cudnnBackendUpdateCudaGraph(handle, executionPlan, variantPack, graph))
}
