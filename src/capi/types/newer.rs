//! Causal convolutions and graph neural networks.

use super::tensor::cudnnDataType_t;
use std::ffi::c_void;
use std::mem::MaybeUninit;

use cudnn_shim_macros::c_enum;

/// Activation after a causal convolution.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnCausalConv1dActivation_t {
    /// None.
    CUDNN_CAUSAL_CONV1D_ACTIVATION_IDENTITY = 0,
    /// `x / (1 + exp(-x))`
    CUDNN_CAUSAL_CONV1D_ACTIVATION_SILU = 1,
}

/// How a graph node joins the features of its neighbours.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnGnnAggOp_t {
    /// Sum.
    CUDNN_GNN_AGG_SUM = 0,
    /// Mean.
    CUDNN_GNN_AGG_MEAN = 1,
    /// Maximum.
    CUDNN_GNN_AGG_MAX = 2,
    /// Minimum.
    CUDNN_GNN_AGG_MIN = 3,
}

/// A bipartite graph in compressed columns, with the maps back to its list of edges.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudnnGnnCscGraph_t {
    /// Where the edges of each destination node start; `nDstNodes + 1` entries of `idxType`.
    pub cscOffsets: *const c_void,
    /// Source node of each edge; `nIndices` entries of `idxType`.
    pub cscIndices: *const c_void,
    /// Position in the list of edges of each compressed entry, or NULL.
    pub mapCscToCoo: *const c_void,
    /// Position in the list of edges of each entry of the reversed graph, or NULL.
    pub mapRevToCoo: *const c_void,
    /// Number of source nodes.
    pub nSrcNodes: i64,
    /// Number of destination nodes.
    pub nDstNodes: i64,
    /// Number of edges.
    pub nIndices: i64,
    /// Type of all indices: 32-bit or 64-bit integers.
    pub idxType: MaybeUninit<cudnnDataType_t>,
}
