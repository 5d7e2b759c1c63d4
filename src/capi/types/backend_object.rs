//! The graph API: its objects, the types of their attributes, and the settings of engines.

use std::ffi::c_void;

use cudnn_shim_macros::c_enum;

/// An object of the graph API, of any kind.
pub type cudnnBackendDescriptor_t = *mut c_void;

/// Type of the elements of an attribute.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBackendAttributeType_t {
    /// `cudnnHandle_t`.
    CUDNN_TYPE_HANDLE = 0,
    /// `cudnnDataType_t`.
    CUDNN_TYPE_DATA_TYPE = 1,
    /// `bool`.
    CUDNN_TYPE_BOOLEAN = 2,
    /// `int64_t`.
    CUDNN_TYPE_INT64 = 3,
    /// `float`.
    CUDNN_TYPE_FLOAT = 4,
    /// `double`.
    CUDNN_TYPE_DOUBLE = 5,
    /// `void *`.
    CUDNN_TYPE_VOID_PTR = 6,
    /// `cudnnConvolutionMode_t`.
    CUDNN_TYPE_CONVOLUTION_MODE = 7,
    /// `cudnnBackendHeurMode_t`.
    CUDNN_TYPE_HEUR_MODE = 8,
    /// `cudnnBackendKnobType_t`.
    CUDNN_TYPE_KNOB_TYPE = 9,
    /// `cudnnNanPropagation_t`.
    #[deprecated]
    CUDNN_TYPE_NAN_PROPOGATION = 10,
    /// `cudnnBackendNumericalNote_t`.
    CUDNN_TYPE_NUMERICAL_NOTE = 11,
    /// `cudnnBackendLayoutType_t`.
    CUDNN_TYPE_LAYOUT_TYPE = 12,
    /// `cudnnBackendAttributeName_t`.
    CUDNN_TYPE_ATTRIB_NAME = 13,
    /// `cudnnPointwiseMode_t`.
    CUDNN_TYPE_POINTWISE_MODE = 14,
    /// `cudnnBackendDescriptor_t`.
    CUDNN_TYPE_BACKEND_DESCRIPTOR = 15,
    /// `cudnnGenStatsMode_t`.
    CUDNN_TYPE_GENSTATS_MODE = 16,
    /// `cudnnBnFinalizeStatsMode_t`.
    CUDNN_TYPE_BN_FINALIZE_STATS_MODE = 17,
    /// `cudnnReduceTensorOp_t`.
    CUDNN_TYPE_REDUCTION_OPERATOR_TYPE = 18,
    /// `cudnnBackendBehaviorNote_t`.
    CUDNN_TYPE_BEHAVIOR_NOTE = 19,
    /// `cudnnBackendTensorReordering_t`.
    CUDNN_TYPE_TENSOR_REORDERING_MODE = 20,
    /// `cudnnResampleMode_t`.
    CUDNN_TYPE_RESAMPLE_MODE = 21,
    /// `cudnnPaddingMode_t`.
    CUDNN_TYPE_PADDING_MODE = 22,
    /// `int32_t`.
    CUDNN_TYPE_INT32 = 23,
    /// `char`.
    CUDNN_TYPE_CHAR = 24,
    /// `cudnnSignalMode_t`.
    CUDNN_TYPE_SIGNAL_MODE = 25,
    /// `cudnnFraction_t`.
    CUDNN_TYPE_FRACTION = 26,
    /// `cudnnBackendNormMode_t`.
    CUDNN_TYPE_NORM_MODE = 27,
    /// `cudnnBackendNormFwdPhase_t`.
    CUDNN_TYPE_NORM_FWD_PHASE = 28,
    /// `cudnnRngDistribution_t`.
    CUDNN_TYPE_RNG_DISTRIBUTION = 29,
    /// `cudnnMoeGroupedMatmulMode_t`.
    CUDNN_TYPE_MOE_GROUPED_MATMUL_MODE = 30,
    /// `cudnnBackendReshapeMode_t`.
    CUDNN_TYPE_RESHAPE_MODE = 31,
    /// `cudnnBackendOperationGraphMode_t`.
    CUDNN_TYPE_OPERATIONGRAPH_MODE = 32,
}

/// Kinds of backend descriptors.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBackendDescriptorType_t {
    /// Pointwise.
    CUDNN_BACKEND_POINTWISE_DESCRIPTOR = 0,
    /// Convolution.
    CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR = 1,
    /// Engine.
    CUDNN_BACKEND_ENGINE_DESCRIPTOR = 2,
    /// Engine configuration.
    CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
    /// Engine heuristic.
    CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
    /// Execution plan.
    CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
    /// Intermediate information.
    CUDNN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR = 6,
    /// Knob choice.
    CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR = 7,
    /// Knob information.
    CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR = 8,
    /// Layout information.
    CUDNN_BACKEND_LAYOUT_INFO_DESCRIPTOR = 9,
    /// Convolution forward operation.
    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10,
    /// Convolution backward filter operation.
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR = 11,
    /// Convolution backward data operation.
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR = 12,
    /// Pointwise operation.
    CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 13,
    /// Gen stats operation.
    CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR = 14,
    /// Operation graph.
    CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
    /// Variant pack.
    CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16,
    /// Tensor.
    CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17,
    /// Matrix product.
    CUDNN_BACKEND_MATMUL_DESCRIPTOR = 18,
    /// Matrix product operation.
    CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR = 19,
    /// Batch-norm finalize statistics operation.
    CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR = 20,
    /// Reduction.
    CUDNN_BACKEND_REDUCTION_DESCRIPTOR = 21,
    /// Reduction operation.
    CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR = 22,
    /// Batch-norm backward weights operation.
    CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR = 23,
    /// Resample.
    CUDNN_BACKEND_RESAMPLE_DESCRIPTOR = 24,
    /// Resample forward operation.
    CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR = 25,
    /// Resample backward operation.
    CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR = 26,
    /// Concat operation.
    CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR = 27,
    /// Signal operation.
    CUDNN_BACKEND_OPERATION_SIGNAL_DESCRIPTOR = 28,
    /// Norm forward operation.
    CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR = 29,
    /// Norm backward operation.
    CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR = 30,
    /// Reshape operation.
    CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR = 31,
    /// Random numbers.
    CUDNN_BACKEND_RNG_DESCRIPTOR = 32,
    /// Random numbers operation.
    CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR = 33,
    /// Kernel cache.
    CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR = 34,
    /// Paged cache load operation.
    CUDNN_BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR = 35,
    /// Block scale quantize operation.
    CUDNN_BACKEND_OPERATION_BLOCK_SCALE_QUANTIZE_DESCRIPTOR = 36,
    /// Block scale dequantize operation.
    CUDNN_BACKEND_OPERATION_BLOCK_SCALE_DEQUANTIZE_DESCRIPTOR = 37,
    /// Device properties.
    CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR = 38,
    /// Expand band matrix operation.
    CUDNN_BACKEND_OPERATION_EXPAND_BAND_MATRIX_DESCRIPTOR = 39,
    /// Contract band matrix operation.
    CUDNN_BACKEND_OPERATION_CONTRACT_BAND_MATRIX_DESCRIPTOR = 40,
    /// Attention forward operation.
    CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR = 41,
    /// Mixture-of-experts grouped matrix product operation.
    CUDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_DESCRIPTOR = 42,
    /// Attention backward operation.
    CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR = 43,
    /// Diagonal band mask operation.
    CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR = 44,
    /// Softmax operation.
    CUDNN_BACKEND_OPERATION_SOFTMAX_DESCRIPTOR = 45,
    /// Transpose operation.
    CUDNN_BACKEND_OPERATION_TRANSPOSE_DESCRIPTOR = 46,
    /// Slice operation.
    CUDNN_BACKEND_OPERATION_SLICE_DESCRIPTOR = 47,
    /// Mixture-of-experts grouped matrix product backward operation.
    CUDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_BWD_DESCRIPTOR = 48,
    /// Rotary embedding forward operation.
    CUDNN_BACKEND_OPERATION_ROPE_FWD_DESCRIPTOR = 49,
    /// Rotary embedding backward operation.
    CUDNN_BACKEND_OPERATION_ROPE_BWD_DESCRIPTOR = 50,
}

/// What an engine does to the precision of its results.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBackendNumericalNote_t {
    /// Uses tensor cores.
    CUDNN_NUMERICAL_NOTE_TENSOR_CORE = 0,
    /// Rounds its inputs to a smaller type.
    CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS = 1,
    /// Sums in a smaller type.
    CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION = 2,
    /// Uses Fourier transforms.
    CUDNN_NUMERICAL_NOTE_FFT = 3,
    /// The last bits may differ from run to run.
    CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC = 4,
    /// Uses Winograd's minimal filtering.
    CUDNN_NUMERICAL_NOTE_WINOGRAD = 5,
    /// Winograd with tiles of 4 x 4.
    CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 = 6,
    /// Winograd with tiles of 6 x 6.
    CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 = 7,
    /// Winograd with tiles of 13 x 13.
    CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13 = 8,
    /// Keeps every NaN.
    CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP = 9,
    /// Number of notes.
    CUDNN_NUMERICAL_NOTE_TYPE_COUNT = 10,
}

/// What an engine demands from its surroundings.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBackendBehaviorNote_t {
    /// Compiles kernels at run time.
    CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION = 0,
    /// Wants its 8-bit filter reordered.
    CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER = 1,
    /// Wants its bias reordered.
    CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER = 2,
    /// Can fill a CUDA graph by itself.
    CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API = 3,
    /// Needs cuBLASLt.
    CUDNN_BEHAVIOR_NOTE_CUBLASLT_DEPENDENCY = 4,
    /// Number of notes.
    CUDNN_BEHAVIOR_NOTE_TYPE_COUNT = 5,
}

/// Settings of an engine.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBackendKnobType_t {
    /// Parts that the sum over K is cut into.
    #[deprecated]
    CUDNN_KNOB_TYPE_SPLIT_K = 0,
    /// Swizzle.
    CUDNN_KNOB_TYPE_SWIZZLE = 1,
    /// Tile size.
    CUDNN_KNOB_TYPE_TILE_SIZE = 2,
    /// Loads through textures.
    #[deprecated]
    CUDNN_KNOB_TYPE_USE_TEX = 3,
    /// Edge.
    CUDNN_KNOB_TYPE_EDGE = 4,
    /// Block along K.
    #[deprecated]
    CUDNN_KNOB_TYPE_KBLOCK = 5,
    /// Width of loads of A.
    #[deprecated]
    CUDNN_KNOB_TYPE_LDGA = 6,
    /// Width of loads of B.
    #[deprecated]
    CUDNN_KNOB_TYPE_LDGB = 7,
    /// Chunk along K.
    #[deprecated]
    CUDNN_KNOB_TYPE_CHUNK_K = 8,
    /// Parts along H.
    #[deprecated]
    CUDNN_KNOB_TYPE_SPLIT_H = 9,
    /// Winograd tile.
    #[deprecated]
    CUDNN_KNOB_TYPE_WINO_TILE = 10,
    /// Multiply.
    CUDNN_KNOB_TYPE_MULTIPLY = 11,
    /// Buffer for the parts of a split sum over K.
    CUDNN_KNOB_TYPE_SPLIT_K_BUF = 12,
    /// Tile size along K.
    CUDNN_KNOB_TYPE_TILEK = 13,
    /// Stages of the load pipeline.
    CUDNN_KNOB_TYPE_STAGES = 14,
    /// Reduction mode.
    CUDNN_KNOB_TYPE_REDUCTION_MODE = 15,
    /// Mode of the split sum over K.
    #[deprecated]
    CUDNN_KNOB_TYPE_CTA_SPLIT_K_MODE = 16,
    /// Slices of the sum over K.
    CUDNN_KNOB_TYPE_SPLIT_K_SLC = 17,
    /// How indices are computed.
    CUDNN_KNOB_TYPE_IDX_MODE = 18,
    /// Sliced.
    #[deprecated]
    CUDNN_KNOB_TYPE_SLICED = 19,
    /// Parts along R and S.
    #[deprecated]
    CUDNN_KNOB_TYPE_SPLIT_RS = 20,
    /// Single buffering.
    #[deprecated]
    CUDNN_KNOB_TYPE_SINGLEBUFFER = 21,
    /// Width of loads of C.
    #[deprecated]
    CUDNN_KNOB_TYPE_LDGC = 22,
    /// Special filter sizes.
    CUDNN_KNOB_TYPE_SPECFILT = 23,
    /// Kernel variant.
    CUDNN_KNOB_TYPE_KERNEL_CFG = 24,
    /// Workspace.
    CUDNN_KNOB_TYPE_WORKSPACE = 25,
    /// Blocks in a cluster.
    #[deprecated]
    CUDNN_KNOB_TYPE_TILE_CGA = 26,
    /// Blocks in a cluster along M.
    CUDNN_KNOB_TYPE_TILE_CGA_M = 27,
    /// Blocks in a cluster along N.
    CUDNN_KNOB_TYPE_TILE_CGA_N = 28,
    /// Block size.
    CUDNN_KNOB_TYPE_BLOCK_SIZE = 29,
    /// Occupancy.
    CUDNN_KNOB_TYPE_OCCUPANCY = 30,
    /// Array size per thread.
    CUDNN_KNOB_TYPE_ARRAY_SIZE_PER_THREAD = 31,
    /// Channels for each block.
    #[deprecated]
    CUDNN_KNOB_TYPE_NUM_C_PER_BLOCK = 32,
    /// Parts along the columns.
    CUDNN_KNOB_TYPE_SPLIT_COLS = 33,
    /// Tile rows.
    CUDNN_KNOB_TYPE_TILE_ROWS = 34,
    /// Tile columns.
    CUDNN_KNOB_TYPE_TILE_COLS = 35,
    /// Load size.
    CUDNN_KNOB_TYPE_LOAD_SIZE = 36,
    /// Number of blocks.
    CUDNN_KNOB_TYPE_CTA_COUNT = 37,
    /// Stream-K scheduling.
    CUDNN_KNOB_TYPE_STREAM_K = 38,
    /// Slices along P.
    CUDNN_KNOB_TYPE_SPLIT_P_SLC = 39,
    /// Tile size along M.
    CUDNN_KNOB_TYPE_TILE_M = 40,
    /// Tile size along N.
    CUDNN_KNOB_TYPE_TILE_N = 41,
    /// Roles of warps.
    CUDNN_KNOB_TYPE_WARP_SPEC_CFG = 42,
    /// Exchange of A and B.
    CUDNN_KNOB_TYPE_SWAP_AB = 43,
    /// Bulk loads of inputs.
    CUDNN_KNOB_TYPE_INPUT_TMA_ENABLE = 44,
    /// Bulk stores of outputs.
    CUDNN_KNOB_TYPE_OUTPUT_TMA_ENABLE = 45,
    /// Number of settings.
    CUDNN_KNOB_TYPE_COUNTS = 46,
}

/// Layouts that an engine likes best.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBackendLayoutType_t {
    /// NCHW.
    CUDNN_LAYOUT_TYPE_PREFERRED_NCHW = 0,
    /// NHWC.
    CUDNN_LAYOUT_TYPE_PREFERRED_NHWC = 1,
    /// Channels padded to a multiple of 4.
    CUDNN_LAYOUT_TYPE_PREFERRED_PAD4CK = 2,
    /// Channels padded to a multiple of 8.
    CUDNN_LAYOUT_TYPE_PREFERRED_PAD8CK = 3,
    /// Number of layouts.
    CUDNN_LAYOUT_TYPE_COUNT = 4,
}

/// How candidate engines are ranked.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBackendHeurMode_t {
    /// At once, by simple rules.
    CUDNN_HEUR_MODE_INSTANT = 0,
    /// By the slower, more exact model.
    CUDNN_HEUR_MODE_B = 1,
    /// Engines that serve where the best do not.
    CUDNN_HEUR_MODE_FALLBACK = 2,
    /// By the fast model.
    CUDNN_HEUR_MODE_A = 3,
    /// Number of modes.
    CUDNN_HEUR_MODES_COUNT = 4,
}

/// Special orders in which a tensor's elements may lie.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBackendTensorReordering_t {
    /// As the strides say.
    CUDNN_TENSOR_REORDERING_NONE = 0,
    /// The order of 8-bit filters in vectors of 32.
    CUDNN_TENSOR_REORDERING_INT8x32 = 1,
    /// The order of 16-bit tiles of 16.
    CUDNN_TENSOR_REORDERING_F16x16 = 2,
    /// The order of 8-bit scales in tiles of 128 x 4.
    CUDNN_TENSOR_REORDERING_F8_128x4 = 3,
}
