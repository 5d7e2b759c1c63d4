//! Convolutions: modes, algorithms and what a search for the best one reports.

use super::status::cudnnStatus_t;
use std::ffi::c_int;

use cudnn_shim_macros::c_enum;

/// The data behind a [`cudnnConvolutionDescriptor_t`].
pub struct cudnnConvolutionStruct {
    _opaque: [u8; 0],
}

/// Padding, strides, dilation, mode and types of a convolution.
#[deprecated]
pub type cudnnConvolutionDescriptor_t = *mut cudnnConvolutionStruct;

/// Which arithmetic units a call may use.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnMathType_t {
    /// Whatever keeps the precision of the types.
    CUDNN_DEFAULT_MATH = 0,
    /// Tensor cores are allowed.
    CUDNN_TENSOR_OP_MATH = 1,
    /// Tensor cores are allowed, also by rounding the inputs.
    CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2,
    /// Only fused multiply-add units.
    CUDNN_FMA_MATH = 3,
}

/// Whether an algorithm gives the same bits in every run.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnDeterminism_t {
    /// The last bits may differ from run to run.
    CUDNN_NON_DETERMINISTIC = 0,
    /// Every run gives the same bits.
    CUDNN_DETERMINISTIC = 1,
}

/// Whether the filter is flipped.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnConvolutionMode_t {
    /// Convolution in the mathematical sense: the filter is flipped.
    CUDNN_CONVOLUTION = 0,
    /// The filter is applied as it lies.
    CUDNN_CROSS_CORRELATION = 1,
}

/// Whether 8-bit filters and biases are reordered before use.
#[c_enum]
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnReorderType_t {
    /// Reorder where the kernels want it.
    CUDNN_DEFAULT_REORDER = 0,
    /// The caller has reordered already.
    CUDNN_NO_REORDER = 1,
}

/// Algorithms of the forward convolution.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnConvolutionFwdAlgo_t {
    /// Matrix product over a matrix that is never written out.
    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM = 0,
    /// The same with indices computed ahead, in the workspace.
    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1,
    /// Matrix product over a matrix in the workspace.
    CUDNN_CONVOLUTION_FWD_ALGO_GEMM = 2,
    /// The defining sum.
    CUDNN_CONVOLUTION_FWD_ALGO_DIRECT = 3,
    /// Products of Fourier transforms.
    CUDNN_CONVOLUTION_FWD_ALGO_FFT = 4,
    /// Products of Fourier transforms, tile by tile.
    CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING = 5,
    /// Winograd's minimal filtering.
    CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD = 6,
    /// Winograd's minimal filtering in separate steps.
    CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED = 7,
    /// Number of algorithms.
    CUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8,
}

/// Algorithms of the convolution's filter gradient.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnConvolutionBwdFilterAlgo_t {
    /// Sums in any order.
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 = 0,
    /// Sums in a fixed order.
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 = 1,
    /// Products of Fourier transforms.
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT = 2,
    /// Sums in any order, with indices computed ahead.
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3 = 3,
    /// Winograd's minimal filtering.
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD = 4,
    /// Winograd's minimal filtering in separate steps.
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED = 5,
    /// Products of Fourier transforms, tile by tile.
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING = 6,
    /// Number of algorithms.
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT = 7,
}

/// Algorithms of the convolution's data gradient.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnConvolutionBwdDataAlgo_t {
    /// Sums in any order.
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 = 0,
    /// Sums in a fixed order.
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1,
    /// Products of Fourier transforms.
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT = 2,
    /// Products of Fourier transforms, tile by tile.
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING = 3,
    /// Winograd's minimal filtering.
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD = 4,
    /// Winograd's minimal filtering in separate steps.
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED = 5,
    /// Number of algorithms.
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT = 6,
}

/// How one algorithm of the forward convolution did.
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug)]
pub struct cudnnConvolutionFwdAlgoPerfStruct {
    /// The algorithm.
    pub algo: cudnnConvolutionFwdAlgo_t,
    /// Whether it serves, and why not.
    pub status: cudnnStatus_t,
    /// Milliseconds, or -1 where nothing was measured.
    pub time: f32,
    /// Workspace in bytes.
    pub memory: usize,
    /// Whether every run gives the same bits.
    pub determinism: cudnnDeterminism_t,
    /// Arithmetic that it uses.
    pub mathType: cudnnMathType_t,
    /// Zeros.
    pub reserved: [c_int; 3],
}

/// How one algorithm of the forward convolution did.
#[deprecated]
pub type cudnnConvolutionFwdAlgoPerf_t = cudnnConvolutionFwdAlgoPerfStruct;

/// How one algorithm of the convolution's data gradient did.
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug)]
pub struct cudnnConvolutionBwdDataAlgoPerfStruct {
    /// The algorithm.
    pub algo: cudnnConvolutionBwdDataAlgo_t,
    /// Whether it serves, and why not.
    pub status: cudnnStatus_t,
    /// Milliseconds, or -1 where nothing was measured.
    pub time: f32,
    /// Workspace in bytes.
    pub memory: usize,
    /// Whether every run gives the same bits.
    pub determinism: cudnnDeterminism_t,
    /// Arithmetic that it uses.
    pub mathType: cudnnMathType_t,
    /// Zeros.
    pub reserved: [c_int; 3],
}

/// How one algorithm of the convolution's data gradient did.
#[deprecated]
pub type cudnnConvolutionBwdDataAlgoPerf_t = cudnnConvolutionBwdDataAlgoPerfStruct;

/// How one algorithm of the convolution's filter gradient did.
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug)]
pub struct cudnnConvolutionBwdFilterAlgoPerfStruct {
    /// The algorithm.
    pub algo: cudnnConvolutionBwdFilterAlgo_t,
    /// Whether it serves, and why not.
    pub status: cudnnStatus_t,
    /// Milliseconds, or -1 where nothing was measured.
    pub time: f32,
    /// Workspace in bytes.
    pub memory: usize,
    /// Whether every run gives the same bits.
    pub determinism: cudnnDeterminism_t,
    /// Arithmetic that it uses.
    pub mathType: cudnnMathType_t,
    /// Zeros.
    pub reserved: [c_int; 3],
}

/// How one algorithm of the convolution's filter gradient did.
#[deprecated]
pub type cudnnConvolutionBwdFilterAlgoPerf_t = cudnnConvolutionBwdFilterAlgoPerfStruct;
