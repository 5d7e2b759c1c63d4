//! The graph API: the names of all attributes, by object.

use cudnn_shim_macros::c_enum;

/// Names of the attributes of backend descriptors.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnBackendAttributeName_t {
    /// Pointwise: mode.
    CUDNN_ATTR_POINTWISE_MODE = 0,
    /// Pointwise: math precision.
    CUDNN_ATTR_POINTWISE_MATH_PREC = 1,
    /// Pointwise: NaN propagation.
    #[deprecated]
    CUDNN_ATTR_POINTWISE_NAN_PROPAGATION = 2,
    /// Pointwise: ReLU lower clip.
    CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP = 3,
    /// Pointwise: ReLU upper clip.
    CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP = 4,
    /// Pointwise: ReLU lower clip slope.
    CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE = 5,
    /// Pointwise: ELU alpha.
    CUDNN_ATTR_POINTWISE_ELU_ALPHA = 6,
    /// Pointwise: softplus beta.
    CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA = 7,
    /// Pointwise: swish beta.
    CUDNN_ATTR_POINTWISE_SWISH_BETA = 8,
    /// Pointwise: axis.
    CUDNN_ATTR_POINTWISE_AXIS = 9,
    /// Convolution: compute type.
    CUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100,
    /// Convolution: convolution mode.
    CUDNN_ATTR_CONVOLUTION_CONV_MODE = 101,
    /// Convolution: dilations.
    CUDNN_ATTR_CONVOLUTION_DILATIONS = 102,
    /// Convolution: filter strides.
    CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 103,
    /// Convolution: post paddings.
    CUDNN_ATTR_CONVOLUTION_POST_PADDINGS = 104,
    /// Convolution: pre paddings.
    CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 105,
    /// Convolution: spatial dimensions.
    CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS = 106,
    /// Engine heuristic: mode.
    CUDNN_ATTR_ENGINEHEUR_MODE = 200,
    /// Engine heuristic: operation graph.
    CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
    /// Engine heuristic: results.
    CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,
    /// Engine heuristic: multiprocessor count target.
    CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET = 203,
    /// Engine heuristic: device properties.
    CUDNN_ATTR_ENGINEHEUR_DEVICEPROP = 204,
    /// Engine heuristic: shared memory limit.
    CUDNN_ATTR_ENGINEHEUR_SHARED_MEMORY_LIMIT = 205,
    /// Engine configuration: engine.
    CUDNN_ATTR_ENGINECFG_ENGINE = 300,
    /// Engine configuration: intermediate information.
    CUDNN_ATTR_ENGINECFG_INTERMEDIATE_INFO = 301,
    /// Engine configuration: knob choices.
    CUDNN_ATTR_ENGINECFG_KNOB_CHOICES = 302,
    /// Engine configuration: workspace size.
    CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE = 303,
    /// Engine configuration: shared memory used.
    CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED = 304,
    /// Execution plan: handle.
    #[deprecated]
    CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
    /// Execution plan: engine config.
    CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
    /// Execution plan: workspace size.
    CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
    /// Execution plan: computed intermediate ids.
    CUDNN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS = 403,
    /// Execution plan: run only intermediate ids.
    CUDNN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS = 404,
    /// Execution plan: JSON form.
    CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION = 405,
    /// Execution plan: kernel cache.
    CUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE = 406,
    /// Execution plan: device properties.
    CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP = 407,
    /// Intermediate information: unique id.
    CUDNN_ATTR_INTERMEDIATE_INFO_UNIQUE_ID = 500,
    /// Intermediate information: size.
    CUDNN_ATTR_INTERMEDIATE_INFO_SIZE = 501,
    /// Intermediate information: dependent data ids.
    CUDNN_ATTR_INTERMEDIATE_INFO_DEPENDENT_DATA_UIDS = 502,
    /// Intermediate information: dependent attributes.
    CUDNN_ATTR_INTERMEDIATE_INFO_DEPENDENT_ATTRIBUTES = 503,
    /// Knob choice: knob type.
    CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE = 600,
    /// Knob choice: knob value.
    CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE = 601,
    /// Convolution forward operation: alpha.
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700,
    /// Convolution forward operation: beta.
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA = 701,
    /// Convolution forward operation: convolution descriptor.
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC = 702,
    /// Convolution forward operation: w.
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W = 703,
    /// Convolution forward operation: x.
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X = 704,
    /// Convolution forward operation: y.
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y = 705,
    /// Convolution backward data operation: alpha.
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA = 706,
    /// Convolution backward data operation: beta.
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA = 707,
    /// Convolution backward data operation: convolution descriptor.
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC = 708,
    /// Convolution backward data operation: w.
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W = 709,
    /// Convolution backward data operation: dx.
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX = 710,
    /// Convolution backward data operation: dy.
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY = 711,
    /// Convolution backward filter operation: alpha.
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA = 712,
    /// Convolution backward filter operation: beta.
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA = 713,
    /// Convolution backward filter operation: convolution descriptor.
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC = 714,
    /// Convolution backward filter operation: dw.
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW = 715,
    /// Convolution backward filter operation: x.
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X = 716,
    /// Convolution backward filter operation: dy.
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY = 717,
    /// Pointwise operation: pointwise descriptor.
    CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR = 750,
    /// Pointwise operation: descriptor of x.
    CUDNN_ATTR_OPERATION_POINTWISE_XDESC = 751,
    /// Pointwise operation: descriptor of b.
    CUDNN_ATTR_OPERATION_POINTWISE_BDESC = 752,
    /// Pointwise operation: descriptor of y.
    CUDNN_ATTR_OPERATION_POINTWISE_YDESC = 753,
    /// Pointwise operation: alpha1.
    CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1 = 754,
    /// Pointwise operation: alpha2.
    CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2 = 755,
    /// Pointwise operation: descriptor of dx.
    CUDNN_ATTR_OPERATION_POINTWISE_DXDESC = 756,
    /// Pointwise operation: descriptor of dy.
    CUDNN_ATTR_OPERATION_POINTWISE_DYDESC = 757,
    /// Pointwise operation: descriptor of t.
    CUDNN_ATTR_OPERATION_POINTWISE_TDESC = 758,
    /// Statistics operation: mode.
    CUDNN_ATTR_OPERATION_GENSTATS_MODE = 770,
    /// Statistics operation: math precision.
    CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC = 771,
    /// Statistics operation: descriptor of x.
    CUDNN_ATTR_OPERATION_GENSTATS_XDESC = 772,
    /// Statistics operation: descriptor of the sum.
    CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC = 773,
    /// Statistics operation: descriptor of the sum of squares.
    CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC = 774,
    /// Batch-norm finalize operation: stats mode.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE = 780,
    /// Batch-norm finalize operation: math precision.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC = 781,
    /// Batch-norm finalize operation: y sum descriptor.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC = 782,
    /// Batch-norm finalize operation: y squared sum descriptor.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC = 783,
    /// Batch-norm finalize operation: scale descriptor.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC = 784,
    /// Batch-norm finalize operation: bias descriptor.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC = 785,
    /// Batch-norm finalize operation: previous running mean descriptor.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC = 786,
    /// Batch-norm finalize operation: previous running variance descriptor.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC = 787,
    /// Batch-norm finalize operation: updated running mean descriptor.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC = 788,
    /// Batch-norm finalize operation: updated running variance descriptor.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC = 789,
    /// Batch-norm finalize operation: saved mean descriptor.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC = 790,
    /// Batch-norm finalize operation: saved inverse deviation descriptor.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC = 791,
    /// Batch-norm finalize operation: equivalent scale descriptor.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC = 792,
    /// Batch-norm finalize operation: equivalent bias descriptor.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC = 793,
    /// Batch-norm finalize operation: accumulation count descriptor.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC = 794,
    /// Batch-norm finalize operation: epsilon descriptor.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC = 795,
    /// Batch-norm finalize operation: exponential average factor descriptor.
    CUDNN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC = 796,
    /// Operation graph: handle.
    #[deprecated]
    CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800,
    /// Operation graph: operations.
    CUDNN_ATTR_OPERATIONGRAPH_OPS = 801,
    /// Operation graph: engine global count.
    CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT = 802,
    /// Operation graph: is dynamic shape enabled.
    CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED = 803,
    /// Operation graph: is same topology.
    CUDNN_ATTR_OPERATIONGRAPH_IS_SAME_TOPOLOGY = 804,
    /// Operation graph: is override shape enabled.
    CUDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED = 805,
    /// Operation graph: mode.
    CUDNN_ATTR_OPERATIONGRAPH_MODE = 806,
    /// Tensor: byte alignment.
    CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
    /// Tensor: data type.
    CUDNN_ATTR_TENSOR_DATA_TYPE = 901,
    /// Tensor: dimensions.
    CUDNN_ATTR_TENSOR_DIMENSIONS = 902,
    /// Tensor: strides.
    CUDNN_ATTR_TENSOR_STRIDES = 903,
    /// Tensor: vector count.
    CUDNN_ATTR_TENSOR_VECTOR_COUNT = 904,
    /// Tensor: vectorized dimension.
    CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION = 905,
    /// Tensor: unique id.
    CUDNN_ATTR_TENSOR_UNIQUE_ID = 906,
    /// Tensor: is virtual.
    CUDNN_ATTR_TENSOR_IS_VIRTUAL = 907,
    /// Tensor: is by value.
    CUDNN_ATTR_TENSOR_IS_BY_VALUE = 908,
    /// Tensor: reordering mode.
    CUDNN_ATTR_TENSOR_REORDERING_MODE = 909,
    /// Tensor: constant value.
    CUDNN_ATTR_TENSOR_CONSTANT_VALUE = 910,
    /// Tensor: ragged offset descriptor.
    CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC = 913,
    /// Tensor: ragged offset multiplier.
    CUDNN_ATTR_TENSOR_RAGGED_OFFSET_MULTIPLIER = 914,
    /// Variant pack: unique ids.
    CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
    /// Variant pack: data pointers.
    CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001,
    /// Variant pack: intermediates.
    CUDNN_ATTR_VARIANT_PACK_INTERMEDIATES = 1002,
    /// Variant pack: workspace.
    CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
    /// Variant pack: override unique ids.
    CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS = 1010,
    /// Variant pack: override shapes.
    CUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES = 1011,
    /// Variant pack: override strides.
    CUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES = 1012,
    /// Layout information: tensor id.
    CUDNN_ATTR_LAYOUT_INFO_TENSOR_UID = 1100,
    /// Layout information: types.
    CUDNN_ATTR_LAYOUT_INFO_TYPES = 1101,
    /// Knob information: type.
    CUDNN_ATTR_KNOB_INFO_TYPE = 1200,
    /// Knob information: maximum value.
    CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE = 1201,
    /// Knob information: minimum value.
    CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE = 1202,
    /// Knob information: stride.
    CUDNN_ATTR_KNOB_INFO_STRIDE = 1203,
    /// Engine: operation graph.
    CUDNN_ATTR_ENGINE_OPERATION_GRAPH = 1300,
    /// Engine: global index.
    CUDNN_ATTR_ENGINE_GLOBAL_INDEX = 1301,
    /// Engine: knob information.
    CUDNN_ATTR_ENGINE_KNOB_INFO = 1302,
    /// Engine: numerical note.
    CUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303,
    /// Engine: layout information.
    CUDNN_ATTR_ENGINE_LAYOUT_INFO = 1304,
    /// Engine: behavior note.
    CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE = 1305,
    /// Engine: multiprocessor count target.
    CUDNN_ATTR_ENGINE_SM_COUNT_TARGET = 1306,
    /// Engine: device properties.
    CUDNN_ATTR_ENGINE_DEVICEPROP = 1307,
    /// Engine: disable cluster cooperative.
    CUDNN_ATTR_ENGINE_DISABLE_CLUSTER_COOPERATIVE = 1308,
    /// Engine: shared memory limit.
    CUDNN_ATTR_ENGINE_SHARED_MEMORY_LIMIT = 1309,
    /// Matrix product: compute type.
    CUDNN_ATTR_MATMUL_COMP_TYPE = 1500,
    /// Matrix product: padding value.
    CUDNN_ATTR_MATMUL_PADDING_VALUE = 1503,
    /// Matrix product operation: descriptor of A.
    CUDNN_ATTR_OPERATION_MATMUL_ADESC = 1520,
    /// Matrix product operation: descriptor of b.
    CUDNN_ATTR_OPERATION_MATMUL_BDESC = 1521,
    /// Matrix product operation: descriptor of C.
    CUDNN_ATTR_OPERATION_MATMUL_CDESC = 1522,
    /// Matrix product operation: descriptor.
    CUDNN_ATTR_OPERATION_MATMUL_DESC = 1523,
    /// Matrix product operation: irregularly strided batch count.
    #[deprecated]
    CUDNN_ATTR_OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT = 1524,
    /// Matrix product operation: GEMM M override descriptor.
    CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC = 1525,
    /// Matrix product operation: GEMM N override descriptor.
    CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC = 1526,
    /// Matrix product operation: GEMM K override descriptor.
    CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC = 1527,
    /// Reduction: operator.
    CUDNN_ATTR_REDUCTION_OPERATOR = 1600,
    /// Reduction: compute type.
    CUDNN_ATTR_REDUCTION_COMP_TYPE = 1601,
    /// Reduction: is deterministic.
    CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC = 1602,
    /// Reduction operation: descriptor of x.
    CUDNN_ATTR_OPERATION_REDUCTION_XDESC = 1610,
    /// Reduction operation: descriptor of y.
    CUDNN_ATTR_OPERATION_REDUCTION_YDESC = 1611,
    /// Reduction operation: descriptor.
    CUDNN_ATTR_OPERATION_REDUCTION_DESC = 1612,
    /// Reduction operation: group offset descriptor.
    CUDNN_ATTR_OPERATION_REDUCTION_GROUP_OFFSET_DESC = 1613,
    /// Batch-norm backward weights operation: math precision.
    CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC = 1620,
    /// Batch-norm backward weights operation: mean descriptor.
    CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC = 1621,
    /// Batch-norm backward weights operation: inverse deviation descriptor.
    CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC = 1622,
    /// Batch-norm backward weights operation: batch-norm scale descriptor.
    CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC = 1623,
    /// Batch-norm backward weights operation: x descriptor.
    CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC = 1624,
    /// Batch-norm backward weights operation: dy descriptor.
    CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC = 1625,
    /// Batch-norm backward weights operation: gradient of batch-norm scale descriptor.
    CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC = 1626,
    /// Batch-norm backward weights operation: gradient of batch-norm bias descriptor.
    CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC = 1627,
    /// Batch-norm backward weights operation: equivalent dy scale descriptor.
    CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC = 1628,
    /// Batch-norm backward weights operation: equivalent x scale descriptor.
    CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC = 1629,
    /// Batch-norm backward weights operation: equivalent bias.
    CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS = 1630,
    /// Reduction operation: dimensions.
    CUDNN_ATTR_OPERATION_REDUCTION_DIMS = 1640,
    /// Reduction operation: init values.
    CUDNN_ATTR_OPERATION_REDUCTION_INIT_VALUES = 1641,
    /// Reduction operation: subgraph.
    CUDNN_ATTR_OPERATION_REDUCTION_SUBGRAPH = 1642,
    /// Reduction operation: subgraph accumulator ids.
    CUDNN_ATTR_OPERATION_REDUCTION_SUBGRAPH_ACCUMULATOR_UIDS = 1643,
    /// Reduction operation: subgraph current ids.
    CUDNN_ATTR_OPERATION_REDUCTION_SUBGRAPH_CURRENT_UIDS = 1644,
    /// Reduction operation: subgraph output ids.
    CUDNN_ATTR_OPERATION_REDUCTION_SUBGRAPH_OUTPUT_UIDS = 1645,
    /// Reduction operation: subgraph compute types.
    CUDNN_ATTR_OPERATION_REDUCTION_SUBGRAPH_COMPUTE_TYPES = 1646,
    /// Resample: mode.
    CUDNN_ATTR_RESAMPLE_MODE = 1700,
    /// Resample: compute type.
    CUDNN_ATTR_RESAMPLE_COMP_TYPE = 1701,
    /// Resample: spatial dimensions.
    CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS = 1702,
    /// Resample: post paddings.
    CUDNN_ATTR_RESAMPLE_POST_PADDINGS = 1703,
    /// Resample: pre paddings.
    CUDNN_ATTR_RESAMPLE_PRE_PADDINGS = 1704,
    /// Resample: strides.
    CUDNN_ATTR_RESAMPLE_STRIDES = 1705,
    /// Resample: window dimensions.
    CUDNN_ATTR_RESAMPLE_WINDOW_DIMS = 1706,
    /// Resample: NaN propagation.
    CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION = 1707,
    /// Resample: padding mode.
    CUDNN_ATTR_RESAMPLE_PADDING_MODE = 1708,
    /// Resample forward operation: descriptor of x.
    CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC = 1710,
    /// Resample forward operation: descriptor of y.
    CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC = 1711,
    /// Resample forward operation: descriptor of the indices.
    CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC = 1712,
    /// Resample forward operation: alpha.
    #[deprecated]
    CUDNN_ATTR_OPERATION_RESAMPLE_FWD_ALPHA = 1713,
    /// Resample forward operation: beta.
    #[deprecated]
    CUDNN_ATTR_OPERATION_RESAMPLE_FWD_BETA = 1714,
    /// Resample forward operation: descriptor.
    CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC = 1716,
    /// Resample backward operation: descriptor of dx.
    CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC = 1720,
    /// Resample backward operation: descriptor of dy.
    CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC = 1721,
    /// Resample backward operation: descriptor of the indices.
    CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC = 1722,
    /// Resample backward operation: alpha.
    #[deprecated]
    CUDNN_ATTR_OPERATION_RESAMPLE_BWD_ALPHA = 1723,
    /// Resample backward operation: beta.
    #[deprecated]
    CUDNN_ATTR_OPERATION_RESAMPLE_BWD_BETA = 1724,
    /// Resample backward operation: descriptor.
    CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC = 1725,
    /// Resample backward operation: descriptor of x.
    CUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC = 1726,
    /// Resample backward operation: descriptor of y.
    CUDNN_ATTR_OPERATION_RESAMPLE_BWD_YDESC = 1727,
    /// Concat operation: axis.
    CUDNN_ATTR_OPERATION_CONCAT_AXIS = 1800,
    /// Concat operation: input descriptors.
    CUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS = 1801,
    /// Concat operation: inplace index.
    CUDNN_ATTR_OPERATION_CONCAT_INPLACE_INDEX = 1802,
    /// Concat operation: output descriptor.
    CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC = 1803,
    /// Signal operation: mode.
    CUDNN_ATTR_OPERATION_SIGNAL_MODE = 1900,
    /// Signal operation: descriptor of the flag.
    CUDNN_ATTR_OPERATION_SIGNAL_FLAGDESC = 1901,
    /// Signal operation: value.
    CUDNN_ATTR_OPERATION_SIGNAL_VALUE = 1902,
    /// Signal operation: descriptor of x.
    CUDNN_ATTR_OPERATION_SIGNAL_XDESC = 1903,
    /// Signal operation: descriptor of y.
    CUDNN_ATTR_OPERATION_SIGNAL_YDESC = 1904,
    /// Paged cache load operation: container descriptor.
    CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC = 1950,
    /// Paged cache load operation: descriptor of y.
    CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_YDESC = 1951,
    /// Paged cache load operation: sequence descriptor.
    CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC = 1952,
    /// Paged cache load operation: page table descriptor.
    CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC = 1953,
    /// Norm forward operation: mode.
    CUDNN_ATTR_OPERATION_NORM_FWD_MODE = 2000,
    /// Norm forward operation: phase.
    CUDNN_ATTR_OPERATION_NORM_FWD_PHASE = 2001,
    /// Norm forward operation: descriptor of x.
    CUDNN_ATTR_OPERATION_NORM_FWD_XDESC = 2002,
    /// Norm forward operation: mean descriptor.
    CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC = 2003,
    /// Norm forward operation: inverse variance descriptor.
    CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC = 2004,
    /// Norm forward operation: scale descriptor.
    CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC = 2005,
    /// Norm forward operation: bias descriptor.
    CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC = 2006,
    /// Norm forward operation: epsilon descriptor.
    CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC = 2007,
    /// Norm forward operation: exponential average factor descriptor.
    CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC = 2008,
    /// Norm forward operation: input running mean descriptor.
    CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC = 2009,
    /// Norm forward operation: input running variance descriptor.
    CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC = 2010,
    /// Norm forward operation: output running mean descriptor.
    CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC = 2011,
    /// Norm forward operation: output running variance descriptor.
    CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC = 2012,
    /// Norm forward operation: descriptor of y.
    CUDNN_ATTR_OPERATION_NORM_FWD_YDESC = 2013,
    /// Norm forward operation: peer statistics descriptors.
    CUDNN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS = 2014,
    /// Norm backward operation: mode.
    CUDNN_ATTR_OPERATION_NORM_BWD_MODE = 2100,
    /// Norm backward operation: descriptor of x.
    CUDNN_ATTR_OPERATION_NORM_BWD_XDESC = 2101,
    /// Norm backward operation: mean descriptor.
    CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC = 2102,
    /// Norm backward operation: inverse variance descriptor.
    CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC = 2103,
    /// Norm backward operation: descriptor of dy.
    CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC = 2104,
    /// Norm backward operation: scale descriptor.
    CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC = 2105,
    /// Norm backward operation: epsilon descriptor.
    CUDNN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC = 2106,
    /// Norm backward operation: scale gradient descriptor.
    CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC = 2107,
    /// Norm backward operation: bias gradient descriptor.
    CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC = 2108,
    /// Norm backward operation: descriptor of dx.
    CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC = 2109,
    /// Norm backward operation: peer statistics descriptors.
    CUDNN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS = 2110,
    /// Reshape operation: descriptor of x.
    CUDNN_ATTR_OPERATION_RESHAPE_XDESC = 2200,
    /// Reshape operation: descriptor of y.
    CUDNN_ATTR_OPERATION_RESHAPE_YDESC = 2201,
    /// Reshape operation: mode.
    CUDNN_ATTR_OPERATION_RESHAPE_MODE = 2202,
    /// Transpose operation: descriptor of x.
    CUDNN_ATTR_OPERATION_TRANSPOSE_XDESC = 3200,
    /// Transpose operation: descriptor of y.
    CUDNN_ATTR_OPERATION_TRANSPOSE_YDESC = 3201,
    /// Transpose operation: permutation.
    CUDNN_ATTR_OPERATION_TRANSPOSE_PERMUTATION = 3202,
    /// Slice operation: descriptor of x.
    CUDNN_ATTR_OPERATION_SLICE_XDESC = 3300,
    /// Slice operation: descriptor of y.
    CUDNN_ATTR_OPERATION_SLICE_YDESC = 3301,
    /// Slice operation: start indices.
    CUDNN_ATTR_OPERATION_SLICE_START_INDICES = 3302,
    /// Slice operation: limit indices.
    CUDNN_ATTR_OPERATION_SLICE_LIMIT_INDICES = 3303,
    /// Slice operation: strides.
    CUDNN_ATTR_OPERATION_SLICE_STRIDES = 3304,
    /// Rotary embedding forward operation: descriptor of x.
    CUDNN_ATTR_OPERATION_ROPE_FWD_XDESC = 3400,
    /// Rotary embedding forward operation: descriptor of y.
    CUDNN_ATTR_OPERATION_ROPE_FWD_YDESC = 3401,
    /// Rotary embedding forward operation: descriptor of the frequencies.
    CUDNN_ATTR_OPERATION_ROPE_FWD_FREQSDESC = 3402,
    /// Rotary embedding forward operation: output scale.
    CUDNN_ATTR_OPERATION_ROPE_FWD_OUTPUT_SCALE = 3403,
    /// Rotary embedding forward operation: rotary embedding dim.
    CUDNN_ATTR_OPERATION_ROPE_FWD_ROPE_DIM = 3404,
    /// Rotary embedding backward operation: descriptor of dy.
    CUDNN_ATTR_OPERATION_ROPE_BWD_DYDESC = 3410,
    /// Rotary embedding backward operation: descriptor of dx.
    CUDNN_ATTR_OPERATION_ROPE_BWD_DXDESC = 3411,
    /// Rotary embedding backward operation: descriptor of the frequencies.
    CUDNN_ATTR_OPERATION_ROPE_BWD_FREQSDESC = 3412,
    /// Rotary embedding backward operation: output scale.
    CUDNN_ATTR_OPERATION_ROPE_BWD_OUTPUT_SCALE = 3413,
    /// Rotary embedding backward operation: rotary embedding dim.
    CUDNN_ATTR_OPERATION_ROPE_BWD_ROPE_DIM = 3414,
    /// Expand band matrix operation: descriptor of x.
    CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_XDESC = 2250,
    /// Expand band matrix operation: descriptor of y.
    CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_YDESC = 2251,
    /// Expand band matrix operation: lower bandwidth.
    CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_LOWER_BANDWIDTH = 2252,
    /// Expand band matrix operation: upper bandwidth.
    CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_UPPER_BANDWIDTH = 2253,
    /// Expand band matrix operation: axis.
    CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_AXIS = 2254,
    /// Expand band matrix operation: pad value.
    CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_PAD_VALUE = 2255,
    /// Expand band matrix operation: key/value token offset descriptor.
    CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_KV_TOKEN_OFFSET_DESC = 2256,
    /// Expand band matrix operation: speculative mask descriptor.
    CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_SPECULATIVE_MASK_DESC = 2257,
    /// Contract band matrix operation: descriptor of x.
    CUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_XDESC = 2270,
    /// Contract band matrix operation: descriptor of y.
    CUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_YDESC = 2271,
    /// Contract band matrix operation: lower bandwidth.
    CUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_LOWER_BANDWIDTH = 2272,
    /// Contract band matrix operation: upper bandwidth.
    CUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_UPPER_BANDWIDTH = 2273,
    /// Contract band matrix operation: axis.
    CUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_AXIS = 2274,
    /// Contract band matrix operation: pad value.
    CUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_PAD_VALUE = 2275,
    /// Contract band operation: max token value.
    CUDNN_ATTR_OPERATION_CONTRACT_BAND_MAX_TOKEN_VALUE = 2276,
    /// Random numbers: distribution.
    CUDNN_ATTR_RNG_DISTRIBUTION = 2300,
    /// Random numbers: normal distribution mean.
    CUDNN_ATTR_RNG_NORMAL_DIST_MEAN = 2301,
    /// Random numbers: normal distribution standard deviation.
    CUDNN_ATTR_RNG_NORMAL_DIST_STANDARD_DEVIATION = 2302,
    /// Random numbers: uniform distribution maximum.
    CUDNN_ATTR_RNG_UNIFORM_DIST_MAXIMUM = 2303,
    /// Random numbers: uniform distribution minimum.
    CUDNN_ATTR_RNG_UNIFORM_DIST_MINIMUM = 2304,
    /// Random numbers: bernoulli distribution probability.
    CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY = 2305,
    /// Random numbers operation: descriptor of y.
    CUDNN_ATTR_OPERATION_RNG_YDESC = 2310,
    /// Random numbers operation: seed.
    CUDNN_ATTR_OPERATION_RNG_SEED = 2311,
    /// Random numbers operation: descriptor.
    CUDNN_ATTR_OPERATION_RNG_DESC = 2312,
    /// Random numbers operation: offset descriptor.
    CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC = 2313,
    /// Kernel cache: operation graph.
    CUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH = 2400,
    /// Kernel cache: is engine configuration kernel cached.
    CUDNN_ATTR_KERNEL_CACHE_IS_ENGINECFG_KERNEL_CACHED = 2401,
    /// Kernel cache: JSON form.
    CUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION = 2402,
    /// Kernel cache: revision.
    CUDNN_ATTR_KERNEL_CACHE_REVISION = 2403,
    /// Kernel cache: entry count.
    CUDNN_ATTR_KERNEL_CACHE_ENTRY_COUNT = 2404,
    /// Block scale quantize operation: descriptor of x.
    CUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_XDESC = 2500,
    /// Block scale quantize operation: descriptor of y.
    CUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_YDESC = 2501,
    /// Block scale quantize operation: scale descriptor.
    CUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_SCALE_DESC = 2502,
    /// Block scale quantize operation: math precision.
    CUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_MATH_PREC = 2503,
    /// Block scale quantize operation: block size.
    CUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_BLOCK_SIZE = 2504,
    /// Block scale dequantize operation: descriptor of x.
    CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_XDESC = 2600,
    /// Block scale dequantize operation: scale descriptor.
    CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_SCALE_DESC = 2601,
    /// Block scale dequantize operation: descriptor of y.
    CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC = 2602,
    /// Block scale dequantize operation: math precision.
    CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_MATH_PREC = 2603,
    /// Block scale dequantize operation: block size.
    CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE = 2604,
    /// Block scale dequantize operation: negated scale.
    CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_NEG_SCALE = 2605,
    /// Device properties: device id.
    CUDNN_ATTR_DEVICEPROP_DEVICE_ID = 2700,
    /// Device properties: handle.
    CUDNN_ATTR_DEVICEPROP_HANDLE = 2701,
    /// Device properties: JSON form.
    CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION = 2702,
    /// Attention forward operation: descriptor of Q.
    CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC = 2800,
    /// Attention forward operation: descriptor of K.
    CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC = 2801,
    /// Attention forward operation: descriptor of V.
    CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC = 2802,
    /// Attention forward operation: descriptor of O.
    CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC = 2803,
    /// Attention forward operation: descriptor of the statistics.
    CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC = 2804,
    /// Attention forward operation: descriptor of the scale.
    CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC = 2805,
    /// Attention forward operation: block mask descriptor.
    CUDNN_ATTR_OPERATION_SDPA_FWD_BLOCK_MASK_DESC = 2806,
    /// Attention forward operation: page table descriptor of K.
    CUDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_KDESC = 2807,
    /// Attention forward operation: page table descriptor of V.
    CUDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_VDESC = 2808,
    /// Attention forward operation: sequence length descriptor of Q.
    CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC = 2809,
    /// Attention forward operation: sequence length descriptor of K and V.
    CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC = 2810,
    /// Attention forward operation: subgraph.
    CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH = 2811,
    /// Attention forward operation: subgraph input id.
    CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID = 2812,
    /// Attention forward operation: subgraph output id.
    CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID = 2813,
    /// Attention forward operation: softmax descriptor.
    CUDNN_ATTR_OPERATION_SDPA_FWD_SOFTMAX_DESC = 2814,
    /// Attention forward operation: dropout seed descriptor.
    CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_SEED_DESC = 2815,
    /// Attention forward operation: dropout offset descriptor.
    CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_OFFSET_DESC = 2816,
    /// Attention forward operation: dropout random numbers dump descriptor.
    CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_RNG_DUMP_DESC = 2817,
    /// Attention forward operation: dropout probability.
    CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_PROBABILITY = 2818,
    /// Attention forward operation: unfuse multiply-add.
    CUDNN_ATTR_OPERATION_SDPA_FWD_UNFUSE_FMA = 2819,
    /// Attention forward operation: cumulative sequence length descriptor of Q.
    CUDNN_ATTR_OPERATION_SDPA_FWD_CU_SEQ_LEN_QDESC = 2820,
    /// Attention forward operation: cumulative sequence length descriptor of K and V.
    CUDNN_ATTR_OPERATION_SDPA_FWD_CU_SEQ_LEN_KVDESC = 2821,
    /// Attention forward operation: descale descriptor of Q.
    CUDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_QDESC = 2822,
    /// Attention forward operation: descale descriptor of K.
    CUDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_KDESC = 2823,
    /// Attention forward operation: descale descriptor of V.
    CUDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_VDESC = 2824,
    /// Attention forward operation: descale descriptor of S.
    CUDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_SDESC = 2825,
    /// Attention forward operation: scale descriptor of S.
    CUDNN_ATTR_OPERATION_SDPA_FWD_SCALE_SDESC = 2826,
    /// Attention forward operation: scale descriptor of O.
    CUDNN_ATTR_OPERATION_SDPA_FWD_SCALE_ODESC = 2827,
    /// Attention forward operation: largest magnitude descriptor of S.
    CUDNN_ATTR_OPERATION_SDPA_FWD_AMAX_SDESC = 2828,
    /// Attention forward operation: largest magnitude descriptor of O.
    CUDNN_ATTR_OPERATION_SDPA_FWD_AMAX_ODESC = 2829,
    /// Attention backward operation: descriptor of Q.
    CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC = 2851,
    /// Attention backward operation: descriptor of K.
    CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC = 2852,
    /// Attention backward operation: descriptor of V.
    CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC = 2853,
    /// Attention backward operation: descriptor of O.
    CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC = 2854,
    /// Attention backward operation: descriptor of the statistics.
    CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC = 2855,
    /// Attention backward operation: descriptor of the scale.
    CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC = 2856,
    /// Attention backward operation: sequence length descriptor of Q.
    CUDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_QDESC = 2857,
    /// Attention backward operation: sequence length descriptor of K and V.
    CUDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_KVDESC = 2858,
    /// Attention backward operation: descriptor of dQ.
    CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC = 2859,
    /// Attention backward operation: descriptor of dK.
    CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC = 2860,
    /// Attention backward operation: descriptor of dV.
    CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC = 2861,
    /// Attention backward operation: descriptor of dO.
    CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC = 2862,
    /// Attention backward operation: sink descriptor.
    CUDNN_ATTR_OPERATION_SDPA_BWD_SINK_DESC = 2863,
    /// Attention backward operation: sink gradient descriptor.
    CUDNN_ATTR_OPERATION_SDPA_BWD_DSINK_DESC = 2864,
    /// Attention backward operation: max total sequence length Q.
    CUDNN_ATTR_OPERATION_SDPA_BWD_MAX_TOTAL_SEQ_LEN_Q = 2865,
    /// Attention backward operation: max total sequence length key/value.
    CUDNN_ATTR_OPERATION_SDPA_BWD_MAX_TOTAL_SEQ_LEN_KV = 2866,
    /// Attention backward operation: subgraph.
    CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH = 2867,
    /// Attention backward operation: subgraph input id.
    CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH_INPUT_UID = 2868,
    /// Attention backward operation: subgraph output id.
    CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH_OUTPUT_UID = 2869,
    /// Mixture-of-experts grouped matrix product operation: mode.
    CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MODE = 2900,
    /// Mixture-of-experts grouped matrix product operation: math precision.
    CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MATH_PREC = 2901,
    /// Mixture-of-experts grouped matrix product operation: token descriptor.
    CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_DESC = 2902,
    /// Mixture-of-experts grouped matrix product operation: weight descriptor.
    CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_WEIGHT_DESC = 2903,
    /// Mixture-of-experts grouped matrix product operation: first token offset descriptor.
    CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_FIRST_TOKEN_OFFSET_DESC = 2904,
    /// Mixture-of-experts grouped matrix product operation: output descriptor.
    CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC = 2905,
    /// Mixture-of-experts grouped matrix product operation: token index descriptor.
    CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_INDEX_DESC = 2906,
    /// Mixture-of-experts grouped matrix product operation: token counts descriptor.
    CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_KS_DESC = 2907,
    /// Mixture-of-experts grouped matrix product operation: top K.
    CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOP_K = 2908,
    /// Mixture-of-experts grouped matrix product backward operation: math precision.
    CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_MATH_PREC = 2951,
    /// Mixture-of-experts grouped matrix product backward operation: token descriptor.
    CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_TOKEN_DESC = 2952,
    /// Mixture-of-experts grouped matrix product backward operation: weight gradient descriptor.
    CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_DWEIGHT_DESC = 2953,
    /// Mixture-of-experts grouped matrix product backward operation: first token offset descriptor.
    CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_FIRST_TOKEN_OFFSET_DESC = 2954,
    /// Mixture-of-experts grouped matrix product backward operation: output gradient descriptor.
    CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_DOUTPUT_DESC = 2955,
    /// Diagonal band mask operation: descriptor of x.
    CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_XDESC = 3000,
    /// Diagonal band mask operation: sequence length descriptor of K and V.
    CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_KVDESC = 3001,
    /// Diagonal band mask operation: sequence length descriptor of Q.
    CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_QDESC = 3002,
    /// Diagonal band mask operation: left bound descriptor.
    CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_LEFT_BOUND_DESC = 3003,
    /// Diagonal band mask operation: shift right bound descriptor.
    CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SHIFT_RIGHT_BOUND_DESC = 3004,
    /// Diagonal band mask operation: descriptor of b.
    CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_BDESC = 3005,
    /// Diagonal band mask operation: descriptor of y.
    CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_YDESC = 3006,
    /// Diagonal band mask operation: comparison mode.
    CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_COMPARISON_MODE = 3007,
    /// Diagonal band mask operation: cumulative sequence length descriptor of K and V.
    CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_CU_SEQ_LEN_KVDESC = 3008,
    /// Diagonal band mask operation: cumulative sequence length descriptor of Q.
    CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_CU_SEQ_LEN_QDESC = 3009,
    /// Softmax operation: descriptor of x.
    CUDNN_ATTR_OPERATION_SOFTMAX_XDESC = 3100,
    /// Softmax operation: descriptor of y.
    CUDNN_ATTR_OPERATION_SOFTMAX_YDESC = 3101,
    /// Softmax operation: stats descriptor.
    CUDNN_ATTR_OPERATION_SOFTMAX_STATS_DESC = 3102,
    /// Softmax operation: max descriptor.
    CUDNN_ATTR_OPERATION_SOFTMAX_MAX_DESC = 3103,
    /// Softmax operation: sum exponential descriptor.
    CUDNN_ATTR_OPERATION_SOFTMAX_SUM_EXP_DESC = 3104,
    /// Softmax operation: sink descriptor.
    CUDNN_ATTR_OPERATION_SOFTMAX_SINK_DESC = 3105,
    /// Softmax operation: stats log2.
    CUDNN_ATTR_OPERATION_SOFTMAX_STATS_LOG2 = 3106,
}
