//! Graph neural networks.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use super::guard::stub;
use super::types::{cudaStream_t, cudnnDataType_t, cudnnGnnAggOp_t, cudnnGnnCscGraph_t, cudnnStatus_t};

/// Joins the features of each node's neighbours by sum, mean, maximum or minimum. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGnnAggSimpleForward(
    stream: cudaStream_t,
    graph: *const cudnnGnnCscGraph_t,
    nodeFeatures: *const c_void,
    edgeFeatures: *const c_void,
    concatFeatures: *const c_void,
    output: *mut c_void,
    outPositions: *mut c_void,
    nodeFeatDim: c_int,
    edgeFeatDim: c_int,
    concatFeatDim: c_int,
    dataType: MaybeUninit<cudnnDataType_t>,
    aggOp: MaybeUninit<cudnnGnnAggOp_t>,
) -> cudnnStatus_t {
    stub!(cudnnGnnAggSimpleForward(
        stream,
        graph,
        nodeFeatures,
        edgeFeatures,
        concatFeatures,
        output,
        outPositions,
        nodeFeatDim,
        edgeFeatDim,
        concatFeatDim,
        dataType,
        aggOp
    ))
}

/// Gradients of joining the neighbours' features. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGnnAggSimpleBackward(
    stream: cudaStream_t,
    graph: *const cudnnGnnCscGraph_t,
    gradOutput: *const c_void,
    outPositions: *const c_void,
    gradNodeFeatures: *mut c_void,
    gradEdgeFeatures: *mut c_void,
    gradConcatFeatures: *mut c_void,
    nodeFeatDim: c_int,
    edgeFeatDim: c_int,
    concatFeatDim: c_int,
    dataType: MaybeUninit<cudnnDataType_t>,
    aggOp: MaybeUninit<cudnnGnnAggOp_t>,
) -> cudnnStatus_t {
    stub!(cudnnGnnAggSimpleBackward(
        stream,
        graph,
        gradOutput,
        outPositions,
        gradNodeFeatures,
        gradEdgeFeatures,
        gradConcatFeatures,
        nodeFeatDim,
        edgeFeatDim,
        concatFeatDim,
        dataType,
        aggOp
    ))
}
