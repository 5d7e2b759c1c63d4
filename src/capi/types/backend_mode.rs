//! The graph API: what its operations can be told to do.

use cudnn_shim_macros::c_enum;

/// What a pointwise operation of the graph API does with each element.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnPointwiseMode_t {
    /// `x + b`
    CUDNN_POINTWISE_ADD = 0,
    /// `x + b * b`
    CUDNN_POINTWISE_ADD_SQUARE = 5,
    /// `x / b`
    CUDNN_POINTWISE_DIV = 6,
    /// Maximum of x and b.
    CUDNN_POINTWISE_MAX = 3,
    /// Minimum of x and b.
    CUDNN_POINTWISE_MIN = 2,
    /// Remainder of x / b with the sign of x.
    CUDNN_POINTWISE_MOD = 7,
    /// `x * b`
    CUDNN_POINTWISE_MUL = 1,
    /// x to the power of b.
    CUDNN_POINTWISE_POW = 8,
    /// `x - b`
    CUDNN_POINTWISE_SUB = 9,
    /// Absolute value of x.
    CUDNN_POINTWISE_ABS = 10,
    /// x rounded up.
    CUDNN_POINTWISE_CEIL = 11,
    /// `cos(x)`
    CUDNN_POINTWISE_COS = 12,
    /// `exp(x)`
    CUDNN_POINTWISE_EXP = 13,
    /// x rounded down.
    CUDNN_POINTWISE_FLOOR = 14,
    /// Natural logarithm of x.
    CUDNN_POINTWISE_LOG = 15,
    /// `-x`
    CUDNN_POINTWISE_NEG = 16,
    /// `1 / sqrt(x)`
    CUDNN_POINTWISE_RSQRT = 17,
    /// `sin(x)`
    CUDNN_POINTWISE_SIN = 18,
    /// `sqrt(x)`
    CUDNN_POINTWISE_SQRT = 4,
    /// `tan(x)`
    CUDNN_POINTWISE_TAN = 19,
    /// Error function of x.
    CUDNN_POINTWISE_ERF = 20,
    /// `x`
    CUDNN_POINTWISE_IDENTITY = 21,
    /// `1 / x`
    CUDNN_POINTWISE_RECIPROCAL = 22,
    /// Angle of the point (b, x).
    CUDNN_POINTWISE_ATAN2 = 23,
    /// Remainder of x / b with the sign of b.
    CUDNN_POINTWISE_FLOOR_MOD = 24,
    /// ReLU of x.
    CUDNN_POINTWISE_RELU_FWD = 100,
    /// Tanh of x.
    CUDNN_POINTWISE_TANH_FWD = 101,
    /// The sigmoid of x.
    CUDNN_POINTWISE_SIGMOID_FWD = 102,
    /// ELU of x.
    CUDNN_POINTWISE_ELU_FWD = 103,
    /// GELU of x.
    CUDNN_POINTWISE_GELU_FWD = 104,
    /// Softplus of x.
    CUDNN_POINTWISE_SOFTPLUS_FWD = 105,
    /// Swish of x.
    CUDNN_POINTWISE_SWISH_FWD = 106,
    /// The tanh approximation of GELU of x.
    CUDNN_POINTWISE_GELU_APPROX_TANH_FWD = 107,
    /// Gradient of ReLU.
    CUDNN_POINTWISE_RELU_BWD = 200,
    /// Gradient of tanh.
    CUDNN_POINTWISE_TANH_BWD = 201,
    /// Gradient of the sigmoid.
    CUDNN_POINTWISE_SIGMOID_BWD = 202,
    /// Gradient of ELU.
    CUDNN_POINTWISE_ELU_BWD = 203,
    /// Gradient of GELU.
    CUDNN_POINTWISE_GELU_BWD = 204,
    /// Gradient of softplus.
    CUDNN_POINTWISE_SOFTPLUS_BWD = 205,
    /// Gradient of swish.
    CUDNN_POINTWISE_SWISH_BWD = 206,
    /// Gradient of the tanh approximation of GELU.
    CUDNN_POINTWISE_GELU_APPROX_TANH_BWD = 207,
    /// `x == b`
    CUDNN_POINTWISE_CMP_EQ = 300,
    /// `x != b`
    CUDNN_POINTWISE_CMP_NEQ = 301,
    /// `x > b`
    CUDNN_POINTWISE_CMP_GT = 302,
    /// `x >= b`
    CUDNN_POINTWISE_CMP_GE = 303,
    /// `x < b`
    CUDNN_POINTWISE_CMP_LT = 304,
    /// `x <= b`
    CUDNN_POINTWISE_CMP_LE = 305,
    /// Both x and b.
    CUDNN_POINTWISE_LOGICAL_AND = 400,
    /// x or b, or both.
    CUDNN_POINTWISE_LOGICAL_OR = 401,
    /// Not x.
    CUDNN_POINTWISE_LOGICAL_NOT = 402,
    /// Index along an axis.
    CUDNN_POINTWISE_GEN_INDEX = 501,
    /// x where t is true, else b.
    CUDNN_POINTWISE_BINARY_SELECT = 601,
}

/// How a resample operation of the graph API joins its window.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnResampleMode_t {
    /// The nearest element.
    CUDNN_RESAMPLE_NEAREST = 0,
    /// Linear interpolation in both directions.
    CUDNN_RESAMPLE_BILINEAR = 1,
    /// Mean.
    CUDNN_RESAMPLE_AVGPOOL = 2,
    /// Mean of the elements inside the tensor.
    CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING = 4,
    /// Maximum.
    CUDNN_RESAMPLE_MAXPOOL = 3,
}

/// Mean, padding counted as zeros: the same as `CUDNN_RESAMPLE_AVGPOOL`.
pub const CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING: cudnnResampleMode_t =
    cudnnResampleMode_t::CUDNN_RESAMPLE_AVGPOOL;

/// What a signal operation does with its flag.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnSignalMode_t {
    /// Store the value.
    CUDNN_SIGNAL_SET = 0,
    /// Wait until the flag has the value.
    CUDNN_SIGNAL_WAIT = 1,
}

/// Which statistics a statistics operation gathers.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnGenStatsMode_t {
    /// Sum and sum of squares for each channel.
    CUDNN_GENSTATS_SUM_SQSUM = 0,
}

/// What batch statistics are turned into.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBnFinalizeStatsMode_t {
    /// Scale, bias and new running statistics.
    CUDNN_BN_FINALIZE_STATISTICS_TRAINING = 0,
    /// Scale and bias from the running statistics.
    CUDNN_BN_FINALIZE_STATISTICS_INFERENCE = 1,
}

/// Distributions of random numbers.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnRngDistribution_t {
    /// One with a given probability, else zero.
    CUDNN_RNG_DISTRIBUTION_BERNOULLI = 0,
    /// Uniform over an interval.
    CUDNN_RNG_DISTRIBUTION_UNIFORM = 1,
    /// Normal with given mean and deviation.
    CUDNN_RNG_DISTRIBUTION_NORMAL = 2,
}

/// How tokens reach their experts in a grouped matrix product.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnMoeGroupedMatmulMode_t {
    /// Tokens lie in expert order already.
    CUDNN_MOE_GROUPED_MATMUL_MODE_NONE = 0,
    /// Tokens are gathered before the product.
    CUDNN_MOE_GROUPED_MATMUL_MODE_GATHER = 1,
    /// Results are scattered after the product.
    CUDNN_MOE_GROUPED_MATMUL_MODE_SCATTER = 2,
}

/// What lies outside the tensor in a resample operation.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnPaddingMode_t {
    /// Zeros.
    CUDNN_ZERO_PAD = 0,
    /// Negative infinity.
    CUDNN_NEG_INF_PAD = 1,
    /// The nearest element inside.
    CUDNN_EDGE_VAL_PAD = 2,
}

/// Normalisations of the graph API.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBackendNormMode_t {
    /// Layer normalisation.
    CUDNN_LAYER_NORM = 0,
    /// Instance normalisation.
    CUDNN_INSTANCE_NORM = 1,
    /// Batch normalisation.
    CUDNN_BATCH_NORM = 2,
    /// Group normalisation.
    CUDNN_GROUP_NORM = 3,
    /// Division by the root mean square.
    CUDNN_RMS_NORM = 4,
    /// Layer normalisation with scale and bias for each sample.
    CUDNN_ADA_LAYER_NORM = 5,
}

/// What a forward normalisation is for.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBackendNormFwdPhase_t {
    /// Results only.
    CUDNN_NORM_FWD_INFERENCE = 0,
    /// Results and statistics.
    CUDNN_NORM_FWD_TRAINING = 1,
}

/// What a reshape operation may do.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBackendReshapeMode_t {
    /// Give the same memory another shape.
    CUDNN_RESHAPE_VIEW_ONLY = 0,
    /// Keep the logical order of elements, moving them where needed.
    CUDNN_RESHAPE_LOGICAL = 1,
}

/// The pattern that an operation graph is promised to follow.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBackendOperationGraphMode_t {
    /// No promise: the library looks for a pattern.
    CUDNN_OPERATIONGRAPH_MODE_AUTO = -1,
    /// Convolution forward.
    CUDNN_OPERATIONGRAPH_MODE_CONV_FORWARD = 0,
    /// Convolution backward data.
    CUDNN_OPERATIONGRAPH_MODE_CONV_BWD_DATA = 1,
    /// Convolution backward filter.
    CUDNN_OPERATIONGRAPH_MODE_CONV_BWD_FILTER = 2,
    /// Norm forward infer.
    CUDNN_OPERATIONGRAPH_MODE_NORM_FWD_INFER = 17,
    /// Norm forward train.
    CUDNN_OPERATIONGRAPH_MODE_NORM_FWD_TRAIN = 18,
    /// Norm backward.
    CUDNN_OPERATIONGRAPH_MODE_NORM_BWD = 19,
    /// Generic convolution fusion.
    CUDNN_OPERATIONGRAPH_MODE_GENERIC_CONV_FUSION = 20,
    /// Resample forward.
    CUDNN_OPERATIONGRAPH_MODE_RESAMPLE_FWD = 22,
    /// Resample backward.
    CUDNN_OPERATIONGRAPH_MODE_RESAMPLE_BWD = 23,
    /// Blas matrix product.
    CUDNN_OPERATIONGRAPH_MODE_BLAS_MATMUL = 25,
    /// Generic matrix product fusion.
    CUDNN_OPERATIONGRAPH_MODE_GENERIC_MATMUL_FUSION = 26,
    /// Generic pointwise fusion.
    CUDNN_OPERATIONGRAPH_MODE_GENERIC_POINTWISE_FUSION = 27,
    /// Attention forward.
    CUDNN_OPERATIONGRAPH_MODE_SDPA_FWD = 28,
    /// Attention backward.
    CUDNN_OPERATIONGRAPH_MODE_SDPA_BWD = 29,
    /// Unified attention forward.
    CUDNN_OPERATIONGRAPH_MODE_UNIFIED_SDPA_FWD = 30,
    /// Unified attention backward.
    CUDNN_OPERATIONGRAPH_MODE_UNIFIED_SDPA_BWD = 31,
}

/// A rational number.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct cudnnFractionStruct {
    /// Above the line.
    pub numerator: i64,
    /// Below the line.
    pub denominator: i64,
}

/// A rational number.
pub type cudnnFraction_t = cudnnFractionStruct;
