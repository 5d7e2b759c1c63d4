//! Activation, softmax, pooling, normalisation, dropout and spatial transformers.

use cudnn_shim_macros::c_enum;

/// The data behind a [`cudnnActivationDescriptor_t`].
pub struct cudnnActivationStruct {
    _opaque: [u8; 0],
}

/// Mode, NaN rule and coefficient of an activation.
#[deprecated]
pub type cudnnActivationDescriptor_t = *mut cudnnActivationStruct;

/// The data behind a [`cudnnPoolingDescriptor_t`].
pub struct cudnnPoolingStruct {
    _opaque: [u8; 0],
}

/// Mode, window, padding and strides of a pooling.
#[deprecated]
pub type cudnnPoolingDescriptor_t = *mut cudnnPoolingStruct;

/// The data behind a [`cudnnLRNDescriptor_t`].
pub struct cudnnLRNStruct {
    _opaque: [u8; 0],
}

/// Window and coefficients of a local response normalisation.
pub type cudnnLRNDescriptor_t = *mut cudnnLRNStruct;

/// The data behind a [`cudnnDropoutDescriptor_t`].
pub struct cudnnDropoutStruct {
    _opaque: [u8; 0],
}

/// Probability and random state of a dropout.
pub type cudnnDropoutDescriptor_t = *mut cudnnDropoutStruct;

/// The data behind a [`cudnnSpatialTransformerDescriptor_t`].
pub struct cudnnSpatialTransformerStruct {
    _opaque: [u8; 0],
}

/// Sampler, type and dimensions of a spatial transformer.
pub type cudnnSpatialTransformerDescriptor_t = *mut cudnnSpatialTransformerStruct;

/// Activation functions.
#[c_enum]
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnActivationMode_t {
    /// `1 / (1 + exp(-x))`
    CUDNN_ACTIVATION_SIGMOID = 0,
    /// `max(x, 0)`
    CUDNN_ACTIVATION_RELU = 1,
    /// `tanh(x)`
    CUDNN_ACTIVATION_TANH = 2,
    /// `min(max(x, 0), coef)`
    CUDNN_ACTIVATION_CLIPPED_RELU = 3,
    /// `x for x > 0, else coef * (exp(x) - 1)`
    CUDNN_ACTIVATION_ELU = 4,
    /// `x`
    CUDNN_ACTIVATION_IDENTITY = 5,
    /// `x / (1 + exp(-beta * x))`
    CUDNN_ACTIVATION_SWISH = 6,
}

/// How softmax guards against overflow.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnSoftmaxAlgorithm_t {
    /// exp(x) / sum(exp(x)) as it stands.
    CUDNN_SOFTMAX_FAST = 0,
    /// The maximum is subtracted first.
    CUDNN_SOFTMAX_ACCURATE = 1,
    /// Logarithm of the softmax.
    CUDNN_SOFTMAX_LOG = 2,
}

/// Over which elements softmax sums.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnSoftmaxMode_t {
    /// Over C, H and W of each N.
    CUDNN_SOFTMAX_MODE_INSTANCE = 0,
    /// Over C of each N, H and W.
    CUDNN_SOFTMAX_MODE_CHANNEL = 1,
}

/// What a pooling window makes of its elements.
#[c_enum]
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnPoolingMode_t {
    /// Maximum.
    CUDNN_POOLING_MAX = 0,
    /// Mean, padding counted as zeros.
    CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING = 1,
    /// Mean of the elements inside the tensor.
    CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING = 2,
    /// Maximum, with a gradient that is the same in every run.
    CUDNN_POOLING_MAX_DETERMINISTIC = 3,
}

/// Which neighbours local response normalisation looks at.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnLRNMode_t {
    /// Neighbours along C.
    CUDNN_LRN_CROSS_CHANNEL_DIM1 = 0,
}

/// Where divisive normalisation takes its means from.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnDivNormMode_t {
    /// The caller supplies them.
    CUDNN_DIVNORM_PRECOMPUTED_MEANS = 0,
}

/// Over which elements batch normalisation takes its statistics.
#[c_enum]
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBatchNormMode_t {
    /// Over N: one mean for each C, H and W.
    CUDNN_BATCHNORM_PER_ACTIVATION = 0,
    /// Over N, H and W: one mean for each C.
    CUDNN_BATCHNORM_SPATIAL = 1,
    /// As spatial, with kernels that keep data on the chip.
    CUDNN_BATCHNORM_SPATIAL_PERSISTENT = 2,
}

/// What follows batch normalisation in the same call.
#[c_enum]
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBatchNormOps_t {
    /// Nothing.
    CUDNN_BATCHNORM_OPS_BN = 0,
    /// An activation.
    CUDNN_BATCHNORM_OPS_BN_ACTIVATION = 1,
    /// The sum with z, then an activation.
    CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION = 2,
}

/// Over which elements a normalisation takes its statistics.
#[c_enum]
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnNormMode_t {
    /// Over N: one mean for each C, H and W.
    CUDNN_NORM_PER_ACTIVATION = 0,
    /// Over N, H and W: one mean for each C.
    CUDNN_NORM_PER_CHANNEL = 1,
}

/// Algorithms of a normalisation.
#[c_enum]
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnNormAlgo_t {
    /// No special demands.
    CUDNN_NORM_ALGO_STANDARD = 0,
    /// Kernels that keep data on the chip.
    CUDNN_NORM_ALGO_PERSIST = 1,
}

/// What follows a normalisation in the same call.
#[c_enum]
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnNormOps_t {
    /// Nothing.
    CUDNN_NORM_OPS_NORM = 0,
    /// An activation.
    CUDNN_NORM_OPS_NORM_ACTIVATION = 1,
    /// The sum with z, then an activation.
    CUDNN_NORM_OPS_NORM_ADD_ACTIVATION = 2,
}

/// How a spatial transformer samples between grid points.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnSamplerType_t {
    /// Linear in both directions.
    CUDNN_SAMPLER_BILINEAR = 0,
}
