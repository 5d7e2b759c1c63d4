//! Graph neural networks.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, operands};
use super::causal_conv::{aligned, element};
use super::context;
use super::types::{cudaStream_t, cudnnDataType_t, cudnnGnnAggOp_t, cudnnGnnCscGraph_t, cudnnStatus_t, raw};
use crate::error::{Error, Result};
use crate::exec::Bound;
use crate::ops::Plan;
use crate::ops::gnn::{AggregatePlan, Call};

/// The graph behind the pointer.
///
/// # Errors
/// Bad parameter for NULL, and for a graph without offsets, or without the indices that it counts.
///
/// # Safety
/// The pointer is NULL or valid for one read.
unsafe fn read(graph: *const cudnnGnnCscGraph_t) -> Result<cudnnGnnCscGraph_t> {
    arg::required(graph, "graph")?;
    // SAFETY: `graph` is not NULL, and so readable.
    let graph = unsafe { graph.read_unaligned() };
    arg::required(graph.cscOffsets, "graph->cscOffsets")?;
    if graph.nIndices > 0 {
        arg::required(graph.cscIndices, "graph->cscIndices")?;
    }
    Ok(graph)
}

/// Refuses features without a pointer, and a pointer without features.
fn features(pointer: *const c_void, name: &'static str, columns: c_int) -> Result<()> {
    if columns > 0 {
        return arg::required(pointer, name);
    }
    if !pointer.is_null() {
        return Err(Error::mismatch(format!("{name} is not NULL, and has {columns} columns")));
    }
    Ok(())
}

/// Refuses a choice without a place for what is chosen.
fn positions(pointer: *const c_void, join: MaybeUninit<cudnnGnnAggOp_t>) -> Result<()> {
    // Maximum and minimum.
    if (2..=3).contains(&raw(join)) { arg::required(pointer, "outPositions") } else { Ok(()) }
}

fn call(
    graph: &cudnnGnnCscGraph_t, columns: [c_int; 3], data_type: MaybeUninit<cudnnDataType_t>,
    join: MaybeUninit<cudnnGnnAggOp_t>,
) -> Call {
    Call {
        graph: [graph.nSrcNodes, graph.nDstNodes, graph.nIndices],
        columns,
        types: [element(data_type), element(graph.idxType)],
        join: raw(join),
        mapped: !graph.mapCscToCoo.is_null(),
    }
}

/// Runs a plan on the core of a stream; the graph comes last among the operands.
///
/// # Safety
/// The pointers are valid for the spans of the plan's operands.
unsafe fn run(
    name: &'static str, stream: cudaStream_t, plan: &AggregatePlan, data: [Bound; 5],
    graph: &cudnnGnnCscGraph_t,
) -> Result<()> {
    let [a, b, c, d, e] = data;
    let cudnnGnnCscGraph_t { cscOffsets, cscIndices, mapCscToCoo, .. } = *graph;
    let [offsets, indices, map] = operands![cscOffsets, cscIndices, mapCscToCoo];
    let operands = [a, b, c, d, e, offsets, indices, map];
    for (operand, place) in plan.operands().iter().zip(operands).filter(|(operand, _)| operand.is_touched()) {
        aligned(&[*operand], &[place])?;
    }
    context::compute_on_stream(stream, name, |call| {
        // SAFETY: the pointers are valid for the spans of the plan's operands, and aligned.
        unsafe { call.run(plan, operands) }
    })
}

/// `output[v] = [join of nodeFeatures[indices[e]] | join of edgeFeatures[map[e]] | concatFeatures[v]]`, over the edges e of target v.
///
/// `aggOp`: SUM; MEAN, which divides by the number of edges; MAX and MIN, where the first of equals counts and a NaN comes before every
/// number. The edges of v are `cscOffsets[v]` to `cscOffsets[v + 1]`; without a map, edge e has row e. A target without edges has
/// zeros. Sums are in `float`, by ascending edges, and rounded once: the same bits for any number of threads and on both cores.
///
/// The stream names the core's context, as there is no handle: see cudnnCausalConv1dForward. Whether a graph leads out of its features is looked
/// at on the CPU core; the CUDA core leaves such edges out.
///
/// Operands
/// - `graph`: on the host; what it points to, and all below, on the host for the CPU core, on the device for the CUDA core, aligned
///   to an element. `mapRevToCoo` is not read.
/// - `nodeFeatures`: `[nSrcNodes, nodeFeatDim]`; `edgeFeatures`: `[nIndices, edgeFeatDim]`; `concatFeatures`: `[nDstNodes, concatFeatDim]`;
///   `output`: `[nDstNodes, nodeFeatDim + edgeFeatDim + concatFeatDim]`. Features of 0 columns are NULL.
/// - `outPositions`: `[nDstNodes, nodeFeatDim + edgeFeatDim]` of `idxType`, the edge that was chosen, for the backward call; written for MAX
///   and MIN alone, else it may be NULL.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: `graph`, its offsets, its indices if it has edges, or `output` NULL; features with columns and NULL, or without and not
///   NULL; MAX or MIN without `outPositions`.
/// - BAD_PARAM: a negative size; `nodeFeatDim` and `edgeFeatDim` both 0; `idxType` other than INT32 and INT64; an unknown `aggOp`.
/// - NOT_SUPPORTED: `dataType` other than FLOAT, HALF and BFLOAT16.
/// - BAD_PARAM: data off its element's alignment.
/// - NOT_INITIALIZED: no core, as of cudnnCreate.
/// - BAD_PARAM, on the CPU core: offsets that decrease or exceed `nIndices`, indices outside of the sources, a map outside of the edges.
///
/// Aliasing: the CPU core takes operands that overlap what is written, as if all were read first; the CUDA core refuses them with
/// NOT_SUPPORTED. Two results that overlap are BAD_PARAM. A failing call writes nothing.
///
/// Source: its header and documentation; what they leave open - equals, NaNs, targets without edges - inferred. Nothing was observed.
///
/// # Safety
/// `graph` is NULL or valid for one read; every pointer in it and beside it is NULL or valid for reads of its array, `output` and
/// `outPositions` for writes; no other thread writes any of them meanwhile. `stream` is alive.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGnnAggSimpleForward(
    stream: cudaStream_t, graph: *const cudnnGnnCscGraph_t, nodeFeatures: *const c_void,
    edgeFeatures: *const c_void, concatFeatures: *const c_void, output: *mut c_void,
    outPositions: *mut c_void, nodeFeatDim: c_int, edgeFeatDim: c_int, concatFeatDim: c_int,
    dataType: MaybeUninit<cudnnDataType_t>, aggOp: MaybeUninit<cudnnGnnAggOp_t>,
) -> cudnnStatus_t {
    // SAFETY: `graph` is NULL or readable.
    let graph = unsafe { read(graph) }?;
    arg::required(output, "output")?;
    features(nodeFeatures, "nodeFeatures", nodeFeatDim)?;
    features(edgeFeatures, "edgeFeatures", edgeFeatDim)?;
    features(concatFeatures, "concatFeatures", concatFeatDim)?;
    positions(outPositions, aggOp)?;
    let columns = [nodeFeatDim, edgeFeatDim, concatFeatDim];
    let plan = AggregatePlan::forward(&call(&graph, columns, dataType, aggOp))?;
    let data = operands![output, outPositions, nodeFeatures, edgeFeatures, concatFeatures];
    // SAFETY: every pointer is NULL or valid for its array, results for writes; `stream` is alive.
    unsafe { run("cudnnGnnAggSimpleForward", stream, &plan, data, &graph) }
}

/// `gradNodeFeatures[indices[e]] += share of gradOutput[v]` for each edge e of target v, likewise `gradEdgeFeatures[map[e]]`; a copy for the rest.
///
/// The share is all of it for SUM, divided by the number of edges for MEAN, and all of it to the edge that was chosen for MAX and MIN.
/// **Gradients of nodes and edges are added to what is there**, which is zeros as a rule; those of concatenated features are
/// copied. Sums are in `float`, by ascending edges, and rounded once; a source without edges is left as it is. Stream and core as in
/// cudnnGnnAggSimpleForward.
///
/// Operands
/// - `graph`: as forward; `gradOutput`: as output; the other gradients: as what they are the gradients of. Those of 0 columns are NULL.
/// - `outPositions`: what the forward call left there, for MAX and MIN.
///
/// Workspace: none; the CPU core sorts the edges in memory of its own.
///
/// Status, in this order: as cudnnGnnAggSimpleForward, with `gradOutput` for `output`; then
/// - BAD_PARAM, on the CPU core: a map that gives two edges one row, if there are edge features.
///
/// Aliasing: as cudnnGnnAggSimpleForward. A failing call writes nothing.
///
/// Source: as cudnnGnnAggSimpleForward.
///
/// # Safety
/// `graph` is NULL or valid for one read; every pointer in it and beside it is NULL or valid for reads of its array, gradients of
/// features for writes; no other thread writes any of them meanwhile. `stream` is alive.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGnnAggSimpleBackward(
    stream: cudaStream_t, graph: *const cudnnGnnCscGraph_t, gradOutput: *const c_void,
    outPositions: *const c_void, gradNodeFeatures: *mut c_void, gradEdgeFeatures: *mut c_void,
    gradConcatFeatures: *mut c_void, nodeFeatDim: c_int, edgeFeatDim: c_int, concatFeatDim: c_int,
    dataType: MaybeUninit<cudnnDataType_t>, aggOp: MaybeUninit<cudnnGnnAggOp_t>,
) -> cudnnStatus_t {
    // SAFETY: `graph` is NULL or readable.
    let graph = unsafe { read(graph) }?;
    arg::required(gradOutput, "gradOutput")?;
    features(gradNodeFeatures, "gradNodeFeatures", nodeFeatDim)?;
    features(gradEdgeFeatures, "gradEdgeFeatures", edgeFeatDim)?;
    features(gradConcatFeatures, "gradConcatFeatures", concatFeatDim)?;
    positions(outPositions, aggOp)?;
    let columns = [nodeFeatDim, edgeFeatDim, concatFeatDim];
    let plan = AggregatePlan::backward(&call(&graph, columns, dataType, aggOp))?;
    let data = operands![gradNodeFeatures, gradEdgeFeatures, gradConcatFeatures, gradOutput, outPositions];
    // SAFETY: every pointer is NULL or valid for its array, results for writes; `stream` is alive.
    unsafe { run("cudnnGnnAggSimpleBackward", stream, &plan, data, &graph) }
}
