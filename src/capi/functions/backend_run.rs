//! Execution plans of the graph interface: what they take, and running them.

use std::sync::Arc;

use cudnn_shim_macros::entry;

use super::arg::{self, Out};
#[cfg(not(feature = "cudnn8"))]
use super::types::cudaGraph_t;
use super::types::{cudnnBackendDescriptor_t, cudnnHandle_t, cudnnStatus_t};
use super::{backend_beside, backend_objects, context};
use crate::desc::graph::{Fields, Kind, Object, pack};
use crate::error::{Error, Result};
use crate::exec::{Address, Execution};
use crate::ops::graph::Override;

/// A call that runs a plan: the plan, made, and the pack of its pointers.
struct Call {
    execution: Arc<Execution>,
    pack: Arc<Object>,
}

impl Call {
    /// # Errors
    /// Bad parameter for NULL and for what is not alive; BAD_PARAM_NOT_FINALIZED.
    fn new(
        handle: cudnnHandle_t, plan: cudnnBackendDescriptor_t, pack: cudnnBackendDescriptor_t,
    ) -> Result<Self> {
        context::check(handle)?;
        arg::required(plan, "executionPlan")?;
        arg::required(pack, "variantPack")?;
        let execution = backend_objects::execution(plan, "executionPlan")?;
        Ok(Call { execution, pack: backend_objects::finalised(pack, "variantPack", Kind::VariantPack)? })
    }

    /// The plan under the extents of the pack.
    ///
    /// # Errors
    /// Bad parameter for extents that a tensor cannot have, NOT_SUPPORTED for those that the graph is not computed with.
    fn execution(&self) -> Result<Arc<Execution>> {
        let of = |(uid, dims, strides): (i64, &[i64], &[i64])| Override {
            uid,
            dims: dims.to_vec(),
            strides: strides.to_vec(),
        };
        let overrides: Vec<Override> = pack::overrides(&self.pack.fields).map(of).collect();
        if overrides.is_empty() {
            return Ok(Arc::clone(&self.execution));
        }
        self.execution.overridden(&overrides)
    }
}

/// The pointer of a tensor, the last one if its id was given twice.
fn pointer(pack: &Fields, uid: i64) -> Option<Address> {
    let at = pack.ints(pack::VARIANT_PACK_UNIQUE_IDS).iter().rposition(|&id| id == uid)?;
    let address = pack.pointers(pack::VARIANT_PACK_DATA_POINTERS).get(at)?;
    Some(std::ptr::with_exposed_provenance_mut::<std::ffi::c_void>(*address).into())
}

/// Bytes of workspace that an execution plan takes.
///
/// Operands: `workspaceSizeInBytes` becomes at least 16. The pack is looked at for its state, and for the extents that it overrides.
///
/// Status, in this order: BAD_PARAM for a handle, plan or pack that is not alive and for NULL; BAD_PARAM_NOT_FINALIZED for a plan or
/// a pack that is not finalised, or is something else; BAD_PARAM if `workspaceSizeInBytes` is NULL; BAD_PARAM or NOT_SUPPORTED for
/// extents in the pack that a tensor cannot have, or that the graph is not computed with. Source: observed on 9.27.0, but for extents.
///
/// # Safety
/// `workspaceSizeInBytes` is NULL or valid for one write.
#[cfg(not(feature = "cudnn8"))]
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetExecutionPlanWorkspaceSize(
    handle: cudnnHandle_t, executionPlan: cudnnBackendDescriptor_t, variantPack: cudnnBackendDescriptor_t,
    workspaceSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    // SAFETY: the caller vouches for what the pack and the last argument lead to.
    let theirs = unsafe {
        backend_beside::run(
            "cudnnGetExecutionPlanWorkspaceSize",
            handle,
            executionPlan,
            variantPack,
            workspaceSizeInBytes.cast(),
        )
    };
    if let Some(theirs) = theirs {
        return theirs;
    }
    let call = Call::new(handle, executionPlan, variantPack)?;
    // SAFETY: `workspaceSizeInBytes` is NULL or valid for one write.
    unsafe { Out::new(workspaceSizeInBytes, "workspaceSizeInBytes") }?.set(call.execution()?.workspace());
    Ok(())
}

/// Runs an execution plan: `tensors = graph(tensors)`, its operations one after the other.
///
/// Operands
/// - `executionPlan`: a finalised plan
/// - `variantPack`: a pointer for the id of every tensor that is not virtual; other ids are ignored. A tensor by value has its
///   elements in host memory, on either core; all others lie in the memory of the core
///
/// Workspace: that of the pack, of the bytes that the plan says, of any alignment; it is written, and may be NULL where nothing needs it.
///
/// Status, in this order
/// - BAD_PARAM: a handle, plan or pack that is not alive, NULL
/// - BAD_PARAM_NOT_FINALIZED: a plan or a pack that is not finalised, or is something else
/// - BAD_PARAM, NOT_SUPPORTED: extents in the pack that a tensor cannot have, or that the graph is not computed with
/// - BAD_PARAM: an id that the plan needs and the pack lacks, a NULL pointer, one that is no multiple of its elements, a workspace that is
///   NULL, results that overlap what an operation reads elsewhere
/// - EXECUTION_FAILED: the core failed
///
/// Aliasing: a result may lie where an operand of its operation lies, if they have the same extents and strides.
/// Source: observed on 9.27.0; the formulas of the operations are on the page about graphs.
///
/// # Safety
/// The pointers are valid for the elements of their tensors, and the workspace for its bytes, until the work is done.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendExecute(
    handle: cudnnHandle_t, executionPlan: cudnnBackendDescriptor_t, variantPack: cudnnBackendDescriptor_t,
) -> cudnnStatus_t {
    // SAFETY: the caller vouches for what the pack and the last argument lead to.
    let theirs = unsafe {
        backend_beside::run("cudnnBackendExecute", handle, executionPlan, variantPack, std::ptr::null_mut())
    };
    if let Some(theirs) = theirs {
        return theirs;
    }
    let call = Call::new(handle, executionPlan, variantPack)?;
    let fields = &call.pack.fields;
    let execution = call.execution()?;
    let workspace = fields.pointers(pack::VARIANT_PACK_WORKSPACE).first().copied().unwrap_or(0);
    let workspace = std::ptr::with_exposed_provenance_mut::<std::ffi::c_void>(workspace).into();
    context::compute(handle, "cudnnBackendExecute", |core| {
        // SAFETY: the caller vouches for the pointers of the pack, and for the workspace.
        unsafe { execution.run(core, &|uid| pointer(fields, uid), workspace) }
    })
}

/// Why no CUDA graph is filled.
#[cfg(not(feature = "cudnn8"))]
fn no_cuda_graph() -> Error {
    Error::unsupported("CUDA graphs are not filled: capture a stream in which the plan is executed instead")
}

/// Fills a CUDA graph with the nodes of an execution plan, which no plan here has.
///
/// Status, in this order: BAD_PARAM if `graph` is NULL, for a handle, plan or pack that is not alive and for NULL;
/// BAD_PARAM_NOT_FINALIZED; NOT_SUPPORTED always, as the behaviour notes of the engine say. Source: observed on 9.27.0.
///
/// # Safety
/// No pointer is followed.
#[cfg(not(feature = "cudnn8"))]
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendPopulateCudaGraph(
    handle: cudnnHandle_t, executionPlan: cudnnBackendDescriptor_t, variantPack: cudnnBackendDescriptor_t,
    graph: cudaGraph_t,
) -> cudnnStatus_t {
    // SAFETY: the caller vouches for what the pack and the last argument lead to.
    let theirs = unsafe {
        backend_beside::run("cudnnBackendPopulateCudaGraph", handle, executionPlan, variantPack, graph.cast())
    };
    if let Some(theirs) = theirs {
        return theirs;
    }
    arg::required(graph, "graph")?;
    Call::new(handle, executionPlan, variantPack)?;
    Err(no_cuda_graph())
}

/// Puts new pointers into a CUDA graph made from an execution plan, which there is none of here.
///
/// Status, in this order: BAD_PARAM if `graph` is NULL, for a handle, plan or pack that is not alive and for NULL;
/// BAD_PARAM_NOT_FINALIZED; NOT_SUPPORTED always. Source: observed on 9.27.0.
///
/// # Safety
/// No pointer is followed.
#[cfg(not(feature = "cudnn8"))]
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendUpdateCudaGraph(
    handle: cudnnHandle_t, executionPlan: cudnnBackendDescriptor_t, variantPack: cudnnBackendDescriptor_t,
    graph: cudaGraph_t,
) -> cudnnStatus_t {
    // SAFETY: the caller vouches for what the pack and the last argument lead to.
    let theirs = unsafe {
        backend_beside::run("cudnnBackendUpdateCudaGraph", handle, executionPlan, variantPack, graph.cast())
    };
    if let Some(theirs) = theirs {
        return theirs;
    }
    arg::required(graph, "graph")?;
    Call::new(handle, executionPlan, variantPack)?;
    Err(no_cuda_graph())
}
