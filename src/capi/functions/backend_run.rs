//! Execution plans of the graph interface.

use super::guard::stub_on;
#[cfg(not(feature = "cudnn8"))]
use super::types::cudaGraph_t;
use super::types::{cudnnBackendDescriptor_t, cudnnHandle_t, cudnnStatus_t};

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
