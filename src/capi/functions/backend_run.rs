//! Execution plans of the graph interface.

use std::sync::Arc;

use super::arg::{self, Out};
use super::backend::finalised;
use super::context;
use super::guard::entry_point;
use super::types::{cudaGraph_t, cudnnBackendDescriptor_t, cudnnHandle_t, cudnnStatus_t};
use crate::desc::graph::{Kind, Object};
use crate::error::{Error, Result};

/// The plan and the pack of a call that runs one.
///
/// # Errors
/// Bad parameter for NULL and for what is not alive; BAD_PARAM_NOT_FINALIZED.
fn plan_and_pack(
    handle: cudnnHandle_t,
    plan: cudnnBackendDescriptor_t,
    pack: cudnnBackendDescriptor_t,
) -> Result<(Arc<Object>, Arc<Object>)> {
    context::check(handle)?;
    for (pointer, argument) in [(plan, "executionPlan"), (pack, "variantPack")] {
        arg::required(pointer, argument)?;
    }
    let plan = finalised(plan, "executionPlan", Kind::ExecutionPlan)?;
    Ok((plan, finalised(pack, "variantPack", Kind::VariantPack)?))
}

/// Bytes of workspace that an execution plan takes. No plan is made yet.
///
/// Status, in this order: BAD_PARAM for a handle, plan or pack that is not alive and for NULL; BAD_PARAM_NOT_FINALIZED; NOT_SUPPORTED,
/// as nothing is made that could run.
///
/// # Safety
/// `workspaceSizeInBytes` is NULL or valid for one write.
#[cfg(not(feature = "cudnn8"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetExecutionPlanWorkspaceSize(
    handle: cudnnHandle_t,
    executionPlan: cudnnBackendDescriptor_t,
    variantPack: cudnnBackendDescriptor_t,
    workspaceSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    entry_point!(
        cudnnGetExecutionPlanWorkspaceSize(handle, executionPlan, variantPack, workspaceSizeInBytes),
        || {
            plan_and_pack(handle, executionPlan, variantPack)?;
            // SAFETY: as the caller promises.
            let _ = unsafe { Out::new(workspaceSizeInBytes, "workspaceSizeInBytes") }?;
            Err(not_built())
        }
    )
}

/// What runs a plan is not built yet.
fn not_built() -> Error {
    Error::unsupported("graphs are described and checked, but not computed yet")
}

/// Runs an execution plan. No plan is made yet.
///
/// Status, in this order: BAD_PARAM for a handle, plan or pack that is not alive and for NULL; BAD_PARAM_NOT_FINALIZED; NOT_SUPPORTED,
/// as nothing is made that could run.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendExecute(
    handle: cudnnHandle_t,
    executionPlan: cudnnBackendDescriptor_t,
    variantPack: cudnnBackendDescriptor_t,
) -> cudnnStatus_t {
    entry_point!(cudnnBackendExecute(handle, executionPlan, variantPack), || {
        plan_and_pack(handle, executionPlan, variantPack)?;
        Err(not_built())
    })
}

/// Fills a CUDA graph with the nodes of an execution plan. Not built yet.
///
/// Status, in this order: BAD_PARAM if `graph` is NULL, for a handle, plan or pack that is not alive and for NULL;
/// BAD_PARAM_NOT_FINALIZED; NOT_SUPPORTED.
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
    entry_point!(cudnnBackendPopulateCudaGraph(handle, executionPlan, variantPack, graph), || {
        arg::required(graph, "graph")?;
        plan_and_pack(handle, executionPlan, variantPack)?;
        Err(Error::unsupported("CUDA graphs are not filled; capture a stream in which the plan is executed instead"))
    })
}

/// Puts new pointers into a CUDA graph made from an execution plan. Not built yet.
///
/// Status, in this order: BAD_PARAM if `graph` is NULL, for a handle, plan or pack that is not alive and for NULL;
/// BAD_PARAM_NOT_FINALIZED; NOT_SUPPORTED.
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
    entry_point!(cudnnBackendUpdateCudaGraph(handle, executionPlan, variantPack, graph), || {
        arg::required(graph, "graph")?;
        plan_and_pack(handle, executionPlan, variantPack)?;
        Err(Error::unsupported("CUDA graphs are not filled; capture a stream in which the plan is executed instead"))
    })
}
