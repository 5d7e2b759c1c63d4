//! Plans of fused operations.

use cudnn_shim_macros::c_enum;

/// The data behind a [`cudnnFusedOpsConstParamPack_t`].
pub struct cudnnFusedOpsConstParamStruct {
    _opaque: [u8; 0],
}

/// Constant parameters of a fused plan.
#[deprecated]
pub type cudnnFusedOpsConstParamPack_t = *mut cudnnFusedOpsConstParamStruct;

/// The data behind a [`cudnnFusedOpsVariantParamPack_t`].
pub struct cudnnFusedOpsVariantParamStruct {
    _opaque: [u8; 0],
}

/// Parameters of a fused plan that may change from run to run.
#[deprecated]
pub type cudnnFusedOpsVariantParamPack_t = *mut cudnnFusedOpsVariantParamStruct;

/// The data behind a [`cudnnFusedOpsPlan_t`].
pub struct cudnnFusedOpsPlanStruct {
    _opaque: [u8; 0],
}

/// A fused plan.
#[deprecated]
pub type cudnnFusedOpsPlan_t = *mut cudnnFusedOpsPlanStruct;

/// Chains of operations that run as one plan.
#[c_enum]
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnFusedOps_t {
    /// Scale, bias, activation, convolution, batch statistics.
    CUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS = 0,
    /// Scale, bias, activation, filter gradient.
    CUDNN_FUSED_SCALE_BIAS_ACTIVATION_WGRAD = 1,
    /// From batch sums to scale and bias, for training.
    CUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING = 2,
    /// From running statistics to scale and bias.
    CUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE = 3,
    /// Convolution, scale, bias, sum, activation.
    CUDNN_FUSED_CONV_SCALE_BIAS_ADD_ACTIVATION = 4,
    /// Scale, bias, sum, activation and its bit mask.
    CUDNN_FUSED_SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK = 5,
    /// Gradients of activation and batch normalisation.
    CUDNN_FUSED_DACTIVATION_FORK_DBATCHNORM = 6,
}

/// Constant parameters of a fused plan: descriptors and pointer placeholders.
#[c_enum]
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnFusedOpsConstParamLabel_t {
    /// Descriptor of x.
    CUDNN_PARAM_XDESC = 0,
    /// Placeholder of the pointer to `x`.
    CUDNN_PARAM_XDATA_PLACEHOLDER = 1,
    /// Mode of batch normalisation.
    CUDNN_PARAM_BN_MODE = 2,
    /// Descriptor of the equivalent scale and bias.
    CUDNN_PARAM_BN_EQSCALEBIAS_DESC = 3,
    /// Placeholder of the pointer to the equivalent scale.
    CUDNN_PARAM_BN_EQSCALE_PLACEHOLDER = 4,
    /// Placeholder of the pointer to the equivalent bias.
    CUDNN_PARAM_BN_EQBIAS_PLACEHOLDER = 5,
    /// Descriptor of the activation.
    CUDNN_PARAM_ACTIVATION_DESC = 6,
    /// Descriptor of the convolution.
    CUDNN_PARAM_CONV_DESC = 7,
    /// Descriptor of w.
    CUDNN_PARAM_WDESC = 8,
    /// Placeholder of the pointer to `w`.
    CUDNN_PARAM_WDATA_PLACEHOLDER = 9,
    /// Descriptor of dw.
    CUDNN_PARAM_DWDESC = 10,
    /// Placeholder of the pointer to `dw`.
    CUDNN_PARAM_DWDATA_PLACEHOLDER = 11,
    /// Descriptor of y.
    CUDNN_PARAM_YDESC = 12,
    /// Placeholder of the pointer to `y`.
    CUDNN_PARAM_YDATA_PLACEHOLDER = 13,
    /// Descriptor of dy.
    CUDNN_PARAM_DYDESC = 14,
    /// Placeholder of the pointer to `dy`.
    CUDNN_PARAM_DYDATA_PLACEHOLDER = 15,
    /// Descriptor of the statistics of y.
    CUDNN_PARAM_YSTATS_DESC = 16,
    /// Placeholder of the pointer to the sum of y.
    CUDNN_PARAM_YSUM_PLACEHOLDER = 17,
    /// Placeholder of the pointer to the sum of squares of y.
    CUDNN_PARAM_YSQSUM_PLACEHOLDER = 18,
    /// Descriptor of scale, bias, mean and variance.
    CUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC = 19,
    /// Placeholder of the pointer to the scale.
    CUDNN_PARAM_BN_SCALE_PLACEHOLDER = 20,
    /// Placeholder of the pointer to the bias.
    CUDNN_PARAM_BN_BIAS_PLACEHOLDER = 21,
    /// Placeholder of the pointer to the saved mean.
    CUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER = 22,
    /// Placeholder of the pointer to the saved inverse deviation.
    CUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER = 23,
    /// Placeholder of the pointer to the running mean.
    CUDNN_PARAM_BN_RUNNING_MEAN_PLACEHOLDER = 24,
    /// Placeholder of the pointer to the running variance.
    CUDNN_PARAM_BN_RUNNING_VAR_PLACEHOLDER = 25,
    /// Descriptor of z.
    CUDNN_PARAM_ZDESC = 26,
    /// Placeholder of the pointer to `z`.
    CUDNN_PARAM_ZDATA_PLACEHOLDER = 27,
    /// Descriptor of the equivalent scale and bias of z.
    CUDNN_PARAM_BN_Z_EQSCALEBIAS_DESC = 28,
    /// Placeholder of the pointer to the equivalent scale of z.
    CUDNN_PARAM_BN_Z_EQSCALE_PLACEHOLDER = 29,
    /// Placeholder of the pointer to the equivalent bias of z.
    CUDNN_PARAM_BN_Z_EQBIAS_PLACEHOLDER = 30,
    /// Descriptor of the activation bit mask.
    CUDNN_PARAM_ACTIVATION_BITMASK_DESC = 31,
    /// Placeholder of the pointer to the activation bit mask.
    CUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER = 32,
    /// Descriptor of dx.
    CUDNN_PARAM_DXDESC = 33,
    /// Placeholder of the pointer to `dx`.
    CUDNN_PARAM_DXDATA_PLACEHOLDER = 34,
    /// Descriptor of dz.
    CUDNN_PARAM_DZDESC = 35,
    /// Placeholder of the pointer to `dz`.
    CUDNN_PARAM_DZDATA_PLACEHOLDER = 36,
    /// Placeholder of the pointer to the gradient of the scale.
    CUDNN_PARAM_BN_DSCALE_PLACEHOLDER = 37,
    /// Placeholder of the pointer to the gradient of the bias.
    CUDNN_PARAM_BN_DBIAS_PLACEHOLDER = 38,
}

/// What is known about a pointer before the plan runs.
#[c_enum]
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnFusedOpsPointerPlaceHolder_t {
    /// It will be NULL.
    CUDNN_PTR_NULL = 0,
    /// It will be aligned for its element type.
    CUDNN_PTR_ELEM_ALIGNED = 1,
    /// It will be aligned to 16 bytes.
    CUDNN_PTR_16B_ALIGNED = 2,
}

/// Parameters of a fused plan that may change from run to run.
#[c_enum]
#[repr(C)]
#[deprecated]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnFusedOpsVariantParamLabel_t {
    /// Pointer to `x`.
    CUDNN_PTR_XDATA = 0,
    /// Pointer to the equivalent scale.
    CUDNN_PTR_BN_EQSCALE = 1,
    /// Pointer to the equivalent bias.
    CUDNN_PTR_BN_EQBIAS = 2,
    /// Pointer to `w`.
    CUDNN_PTR_WDATA = 3,
    /// Pointer to `dw`.
    CUDNN_PTR_DWDATA = 4,
    /// Pointer to `y`.
    CUDNN_PTR_YDATA = 5,
    /// Pointer to `dy`.
    CUDNN_PTR_DYDATA = 6,
    /// Pointer to the sum of y.
    CUDNN_PTR_YSUM = 7,
    /// Pointer to the sum of squares of y.
    CUDNN_PTR_YSQSUM = 8,
    /// Pointer to the workspace.
    CUDNN_PTR_WORKSPACE = 9,
    /// Pointer to the scale.
    CUDNN_PTR_BN_SCALE = 10,
    /// Pointer to the bias.
    CUDNN_PTR_BN_BIAS = 11,
    /// Pointer to the saved mean.
    CUDNN_PTR_BN_SAVED_MEAN = 12,
    /// Pointer to the saved inverse deviation.
    CUDNN_PTR_BN_SAVED_INVSTD = 13,
    /// Pointer to the running mean.
    CUDNN_PTR_BN_RUNNING_MEAN = 14,
    /// Pointer to the running variance.
    CUDNN_PTR_BN_RUNNING_VAR = 15,
    /// Pointer to `z`.
    CUDNN_PTR_ZDATA = 16,
    /// Pointer to the equivalent scale of z.
    CUDNN_PTR_BN_Z_EQSCALE = 17,
    /// Pointer to the equivalent bias of z.
    CUDNN_PTR_BN_Z_EQBIAS = 18,
    /// Pointer to the activation bit mask.
    CUDNN_PTR_ACTIVATION_BITMASK = 19,
    /// Pointer to `dx`.
    CUDNN_PTR_DXDATA = 20,
    /// Pointer to `dz`.
    CUDNN_PTR_DZDATA = 21,
    /// Pointer to the gradient of the scale.
    CUDNN_PTR_BN_DSCALE = 22,
    /// Pointer to the gradient of the bias.
    CUDNN_PTR_BN_DBIAS = 23,
    /// Size of the workspace in bytes, `size_t`.
    CUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES = 100,
    /// Elements behind each batch statistic, `int64_t`.
    CUDNN_SCALAR_INT64_T_BN_ACCUMULATION_COUNT = 101,
    /// Weight of the new statistics in the running ones, `double`.
    CUDNN_SCALAR_DOUBLE_BN_EXP_AVG_FACTOR = 102,
    /// What is added to the variance, `double`.
    CUDNN_SCALAR_DOUBLE_BN_EPSILON = 103,
}
