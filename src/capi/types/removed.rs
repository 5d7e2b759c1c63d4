//! Types that version 9, or version 8 before it, no longer has.

use std::ffi::c_uint;
use std::mem::MaybeUninit;

use cudnn_shim_macros::c_enum;

use super::convolution::{
    cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdFilterAlgo_t, cudnnConvolutionFwdAlgo_t,
};
use super::sequence::{cudnnCTCLossAlgo_t, cudnnRNNAlgo_t};

/// How version 7 chose a forward algorithm.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnConvolutionFwdPreference_t {
    /// One that needs no workspace.
    CUDNN_CONVOLUTION_FWD_NO_WORKSPACE = 0,
    /// The fastest, whatever workspace it needs.
    CUDNN_CONVOLUTION_FWD_PREFER_FASTEST = 1,
    /// The fastest whose workspace fits the given limit.
    CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT = 2,
}

/// How version 7 chose a filter gradient algorithm.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnConvolutionBwdFilterPreference_t {
    /// One that needs no workspace.
    CUDNN_CONVOLUTION_BWD_FILTER_NO_WORKSPACE = 0,
    /// The fastest, whatever workspace it needs.
    CUDNN_CONVOLUTION_BWD_FILTER_PREFER_FASTEST = 1,
    /// The fastest whose workspace fits the given limit.
    CUDNN_CONVOLUTION_BWD_FILTER_SPECIFY_WORKSPACE_LIMIT = 2,
}

/// How version 7 chose a data gradient algorithm.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnConvolutionBwdDataPreference_t {
    /// One that needs no workspace.
    CUDNN_CONVOLUTION_BWD_DATA_NO_WORKSPACE = 0,
    /// The fastest, whatever workspace it needs.
    CUDNN_CONVOLUTION_BWD_DATA_PREFER_FASTEST = 1,
    /// The fastest whose workspace fits the given limit.
    CUDNN_CONVOLUTION_BWD_DATA_SPECIFY_WORKSPACE_LIMIT = 2,
}

/// The data behind a [`cudnnAlgorithmDescriptor_t`].
pub struct cudnnAlgorithmStruct {
    _opaque: [u8; 0],
}

/// An algorithm of any kind of call.
pub type cudnnAlgorithmDescriptor_t = *mut cudnnAlgorithmStruct;

/// The data behind a [`cudnnAlgorithmPerformance_t`].
pub struct cudnnAlgorithmPerformanceStruct {
    _opaque: [u8; 0],
}

/// What a search found out about an algorithm.
pub type cudnnAlgorithmPerformance_t = *mut cudnnAlgorithmPerformanceStruct;

/// The algorithm, under the type of the call that it is for.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Algorithm {
    /// Forward convolution.
    pub convFwdAlgo: MaybeUninit<cudnnConvolutionFwdAlgo_t>,
    /// Filter gradient of a convolution.
    pub convBwdFilterAlgo: MaybeUninit<cudnnConvolutionBwdFilterAlgo_t>,
    /// Data gradient of a convolution.
    pub convBwdDataAlgo: MaybeUninit<cudnnConvolutionBwdDataAlgo_t>,
    /// Recurrent network.
    pub RNNAlgo: MaybeUninit<cudnnRNNAlgo_t>,
    /// CTC loss.
    pub CTCLossAlgo: MaybeUninit<cudnnCTCLossAlgo_t>,
}

/// An algorithm of any kind of call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudnnAlgorithmUnionStruct {
    /// The algorithm.
    pub algo: Algorithm,
}

/// An algorithm of any kind of call.
pub type cudnnAlgorithm_t = cudnnAlgorithmUnionStruct;

/// The data behind a [`cudnnPersistentRNNPlan_t`].
pub struct cudnnPersistentRNNPlan {
    _opaque: [u8; 0],
}

/// A persistent recurrent network, prepared for one batch size.
pub type cudnnPersistentRNNPlan_t = *mut cudnnPersistentRNNPlan;

/// `CUDNN_RNN_PADDED_IO_DISABLED` or `CUDNN_RNN_PADDED_IO_ENABLED`.
pub type cudnnRNNPaddingMode_t = c_uint;

/// `CUDNN_ATTN_QUERYMAP_ALL_TO_ONE` or `CUDNN_ATTN_QUERYMAP_ONE_TO_ONE`.
pub type cudnnAttnQueryMap_t = c_uint;
