//! Which attribute of an operation is which of its tensors.

use super::Port;
use crate::desc::graph::{
    attention, batch_norm, block_scale, convolution, experts, matmul, norm, pointwise, reduction, resample,
    rng, shape,
};

/// What the tensor of an attribute is to its operation.
pub(super) fn port(attribute: i32) -> Port {
    match attribute {
        convolution::OPERATION_CONVOLUTION_FORWARD_X
        | convolution::OPERATION_CONVOLUTION_BWD_FILTER_X
        | pointwise::OPERATION_POINTWISE_XDESC
        | reduction::OPERATION_REDUCTION_XDESC
        | resample::OPERATION_RESAMPLE_FWD_XDESC
        | resample::OPERATION_RESAMPLE_BWD_XDESC
        | norm::OPERATION_NORM_FWD_XDESC
        | norm::OPERATION_NORM_BWD_XDESC
        | batch_norm::OPERATION_GENSTATS_XDESC
        | batch_norm::OPERATION_BN_BWD_WEIGHTS_X_DESC
        | shape::OPERATION_RESHAPE_XDESC
        | shape::OPERATION_TRANSPOSE_XDESC
        | shape::OPERATION_SLICE_XDESC
        | attention::OPERATION_SOFTMAX_XDESC
        | attention::OPERATION_DIAGONAL_BAND_MASK_XDESC
        | attention::OPERATION_ROPE_FWD_XDESC => Port::X,
        convolution::OPERATION_CONVOLUTION_FORWARD_W | convolution::OPERATION_CONVOLUTION_BWD_DATA_W => {
            Port::W
        }
        convolution::OPERATION_CONVOLUTION_FORWARD_Y
        | pointwise::OPERATION_POINTWISE_YDESC
        | reduction::OPERATION_REDUCTION_YDESC
        | resample::OPERATION_RESAMPLE_FWD_YDESC
        | resample::OPERATION_RESAMPLE_BWD_YDESC
        | norm::OPERATION_NORM_FWD_YDESC
        | shape::OPERATION_RESHAPE_YDESC
        | shape::OPERATION_TRANSPOSE_YDESC
        | shape::OPERATION_SLICE_YDESC
        | shape::OPERATION_CONCAT_OUTPUT_DESC
        | rng::OPERATION_RNG_YDESC
        | attention::OPERATION_SOFTMAX_YDESC
        | attention::OPERATION_DIAGONAL_BAND_MASK_YDESC
        | attention::OPERATION_ROPE_FWD_YDESC => Port::Y,
        convolution::OPERATION_CONVOLUTION_BWD_DATA_DX
        | pointwise::OPERATION_POINTWISE_DXDESC
        | resample::OPERATION_RESAMPLE_BWD_DXDESC
        | norm::OPERATION_NORM_BWD_DXDESC
        | attention::OPERATION_ROPE_BWD_DXDESC => Port::Dx,
        convolution::OPERATION_CONVOLUTION_BWD_DATA_DY
        | convolution::OPERATION_CONVOLUTION_BWD_FILTER_DY
        | pointwise::OPERATION_POINTWISE_DYDESC
        | resample::OPERATION_RESAMPLE_BWD_DYDESC
        | norm::OPERATION_NORM_BWD_DYDESC
        | batch_norm::OPERATION_BN_BWD_WEIGHTS_DY_DESC
        | attention::OPERATION_ROPE_BWD_DYDESC => Port::Dy,
        convolution::OPERATION_CONVOLUTION_BWD_FILTER_DW => Port::Dw,
        pointwise::OPERATION_POINTWISE_BDESC
        | matmul::OPERATION_MATMUL_BDESC
        | attention::OPERATION_DIAGONAL_BAND_MASK_BDESC => Port::B,
        pointwise::OPERATION_POINTWISE_TDESC => Port::T,
        matmul::OPERATION_MATMUL_ADESC => Port::A,
        matmul::OPERATION_MATMUL_CDESC => Port::C,
        matmul::OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC => Port::MOverride,
        matmul::OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC => Port::NOverride,
        matmul::OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC => Port::KOverride,
        reduction::OPERATION_REDUCTION_GROUP_OFFSET_DESC => Port::GroupOffset,
        resample::OPERATION_RESAMPLE_FWD_IDXDESC | resample::OPERATION_RESAMPLE_BWD_IDXDESC => Port::Index,
        norm::OPERATION_NORM_FWD_MEAN_DESC
        | norm::OPERATION_NORM_BWD_MEAN_DESC
        | batch_norm::OPERATION_BN_FINALIZE_SAVED_MEAN_DESC
        | batch_norm::OPERATION_BN_BWD_WEIGHTS_MEAN_DESC => Port::Mean,
        norm::OPERATION_NORM_FWD_INV_VARIANCE_DESC
        | norm::OPERATION_NORM_BWD_INV_VARIANCE_DESC
        | batch_norm::OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC
        | batch_norm::OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC => Port::InverseVariance,
        norm::OPERATION_NORM_FWD_SCALE_DESC
        | norm::OPERATION_NORM_BWD_SCALE_DESC
        | batch_norm::OPERATION_BN_FINALIZE_SCALE_DESC
        | batch_norm::OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC => Port::Scale,
        norm::OPERATION_NORM_FWD_BIAS_DESC | batch_norm::OPERATION_BN_FINALIZE_BIAS_DESC => Port::Bias,
        norm::OPERATION_NORM_FWD_EPSILON_DESC
        | norm::OPERATION_NORM_BWD_EPSILON_DESC
        | batch_norm::OPERATION_BN_FINALIZE_EPSILON_DESC => Port::Epsilon,
        norm::OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC
        | batch_norm::OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC => Port::Factor,
        norm::OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC
        | batch_norm::OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC => Port::RunningMean,
        norm::OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC
        | batch_norm::OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC => Port::RunningVariance,
        norm::OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC
        | batch_norm::OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC => Port::NewRunningMean,
        norm::OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC
        | batch_norm::OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC => Port::NewRunningVariance,
        norm::OPERATION_NORM_FWD_PEER_STAT_DESCS | norm::OPERATION_NORM_BWD_PEER_STAT_DESCS => Port::Peer,
        norm::OPERATION_NORM_BWD_DSCALE_DESC | batch_norm::OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC => {
            Port::Dscale
        }
        norm::OPERATION_NORM_BWD_DBIAS_DESC | batch_norm::OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC => {
            Port::Dbias
        }
        batch_norm::OPERATION_GENSTATS_SUMDESC | batch_norm::OPERATION_BN_FINALIZE_Y_SUM_DESC => Port::Sum,
        batch_norm::OPERATION_GENSTATS_SQSUMDESC | batch_norm::OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC => {
            Port::SquareSum
        }
        batch_norm::OPERATION_BN_FINALIZE_EQ_SCALE_DESC
        | batch_norm::OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC => Port::EqScale,
        batch_norm::OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC => Port::EqXScale,
        batch_norm::OPERATION_BN_FINALIZE_EQ_BIAS_DESC | batch_norm::OPERATION_BN_BWD_WEIGHTS_EQ_BIAS => {
            Port::EqBias
        }
        batch_norm::OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC => Port::Count,
        shape::OPERATION_CONCAT_INPUT_DESCS => Port::Part,
        rng::OPERATION_RNG_SEED => Port::Seed,
        rng::OPERATION_RNG_OFFSET_DESC => Port::Offset,
        attention::OPERATION_SOFTMAX_STATS_DESC => Port::Stats,
        attention::OPERATION_SOFTMAX_MAX_DESC => Port::Max,
        attention::OPERATION_SOFTMAX_SUM_EXP_DESC => Port::SumExp,
        attention::OPERATION_SOFTMAX_SINK_DESC => Port::Sink,
        experts::OPERATION_MOE_GROUPED_MATMUL_TOKEN_DESC
        | experts::OPERATION_MOE_GROUPED_MATMUL_BWD_TOKEN_DESC => Port::X,
        experts::OPERATION_MOE_GROUPED_MATMUL_WEIGHT_DESC => Port::W,
        experts::OPERATION_MOE_GROUPED_MATMUL_FIRST_TOKEN_OFFSET_DESC
        | experts::OPERATION_MOE_GROUPED_MATMUL_BWD_FIRST_TOKEN_OFFSET_DESC => Port::GroupOffset,
        experts::OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC => Port::Y,
        experts::OPERATION_MOE_GROUPED_MATMUL_TOKEN_INDEX_DESC => Port::Index,
        experts::OPERATION_MOE_GROUPED_MATMUL_TOKEN_KS_DESC => Port::Slots,
        experts::OPERATION_MOE_GROUPED_MATMUL_BWD_DWEIGHT_DESC => Port::Dw,
        experts::OPERATION_MOE_GROUPED_MATMUL_BWD_DOUTPUT_DESC => Port::Dy,
        block_scale::OPERATION_BLOCK_SCALE_QUANTIZE_XDESC
        | block_scale::OPERATION_BLOCK_SCALE_DEQUANTIZE_XDESC => Port::X,
        block_scale::OPERATION_BLOCK_SCALE_QUANTIZE_YDESC
        | block_scale::OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC => Port::Y,
        block_scale::OPERATION_BLOCK_SCALE_QUANTIZE_SCALE_DESC
        | block_scale::OPERATION_BLOCK_SCALE_DEQUANTIZE_SCALE_DESC => Port::Scale,
        attention::OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC => Port::X,
        attention::OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC => Port::Table,
        attention::OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC => Port::LengthKv,
        attention::OPERATION_PAGED_CACHE_LOAD_YDESC => Port::Y,
        attention::OPERATION_SDPA_FWD_QDESC | attention::OPERATION_SDPA_BWD_QDESC => Port::Q,
        attention::OPERATION_SDPA_FWD_KDESC | attention::OPERATION_SDPA_BWD_KDESC => Port::K,
        attention::OPERATION_SDPA_FWD_VDESC | attention::OPERATION_SDPA_BWD_VDESC => Port::V,
        attention::OPERATION_SDPA_FWD_ODESC | attention::OPERATION_SDPA_BWD_ODESC => Port::O,
        attention::OPERATION_SDPA_FWD_STATSDESC | attention::OPERATION_SDPA_BWD_STATSDESC => Port::Stats,
        attention::OPERATION_SDPA_FWD_SCALEDESC | attention::OPERATION_SDPA_BWD_SCALEDESC => Port::Scale,
        attention::OPERATION_SDPA_FWD_SEQ_LEN_QDESC | attention::OPERATION_SDPA_BWD_SEQ_LEN_QDESC => {
            Port::LengthQ
        }
        attention::OPERATION_SDPA_FWD_SEQ_LEN_KVDESC | attention::OPERATION_SDPA_BWD_SEQ_LEN_KVDESC => {
            Port::LengthKv
        }
        attention::OPERATION_SDPA_FWD_CU_SEQ_LEN_QDESC => Port::CumulativeQ,
        attention::OPERATION_SDPA_FWD_CU_SEQ_LEN_KVDESC => Port::CumulativeKv,
        attention::OPERATION_SDPA_FWD_BLOCK_MASK_DESC => Port::BlockMask,
        attention::OPERATION_SDPA_FWD_PAGE_TABLE_KDESC => Port::PagesK,
        attention::OPERATION_SDPA_FWD_PAGE_TABLE_VDESC => Port::PagesV,
        attention::OPERATION_SDPA_FWD_DROPOUT_SEED_DESC => Port::Seed,
        attention::OPERATION_SDPA_FWD_DROPOUT_OFFSET_DESC => Port::Offset,
        attention::OPERATION_SDPA_FWD_DROPOUT_RNG_DUMP_DESC => Port::Dump,
        attention::OPERATION_SDPA_FWD_DESCALE_QDESC => Port::DescaleQ,
        attention::OPERATION_SDPA_FWD_DESCALE_KDESC => Port::DescaleK,
        attention::OPERATION_SDPA_FWD_DESCALE_VDESC => Port::DescaleV,
        attention::OPERATION_SDPA_FWD_DESCALE_SDESC => Port::DescaleS,
        attention::OPERATION_SDPA_FWD_SCALE_SDESC => Port::ScaleS,
        attention::OPERATION_SDPA_FWD_SCALE_ODESC => Port::ScaleO,
        attention::OPERATION_SDPA_FWD_AMAX_SDESC => Port::AmaxS,
        attention::OPERATION_SDPA_FWD_AMAX_ODESC => Port::AmaxO,
        attention::OPERATION_SDPA_BWD_DODDESC => Port::Do,
        attention::OPERATION_SDPA_BWD_DQDESC => Port::Dq,
        attention::OPERATION_SDPA_BWD_DKDESC => Port::Dk,
        attention::OPERATION_SDPA_BWD_DVDESC => Port::Dv,
        attention::OPERATION_SDPA_BWD_SINK_DESC => Port::Sink,
        attention::OPERATION_SDPA_BWD_DSINK_DESC => Port::Dsink,
        attention::OPERATION_ROPE_FWD_FREQSDESC | attention::OPERATION_ROPE_BWD_FREQSDESC => {
            Port::Frequencies
        }
        attention::OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_KVDESC => Port::LengthKv,
        attention::OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_QDESC => Port::LengthQ,
        attention::OPERATION_DIAGONAL_BAND_MASK_CU_SEQ_LEN_KVDESC => Port::CumulativeKv,
        attention::OPERATION_DIAGONAL_BAND_MASK_CU_SEQ_LEN_QDESC => Port::CumulativeQ,
        attention::OPERATION_DIAGONAL_BAND_MASK_LEFT_BOUND_DESC => Port::LeftBound,
        attention::OPERATION_DIAGONAL_BAND_MASK_SHIFT_RIGHT_BOUND_DESC => Port::RightBound,
        _ => Port::Other,
    }
}
