//! The pieces of batch normalisation around a convolution.

use super::attribute::rows;
use super::check::Check;
use crate::error::Result;

rows! {
    /// The attributes of OPERATION_GEN_STATS.
    GEN_STATS:
    OPERATION_GENSTATS_MODE 770 [GenstatsMode] One;
    OPERATION_GENSTATS_MATH_PREC 771 [DataType] One;
    OPERATION_GENSTATS_XDESC 772 [Descriptor] -> Tensor One;
    OPERATION_GENSTATS_SUMDESC 773 [Descriptor] -> Tensor One output();
    OPERATION_GENSTATS_SQSUMDESC 774 [Descriptor] -> Tensor One output();
}

rows! {
    /// The attributes of OPERATION_BN_FINALIZE_STATISTICS.
    FINALIZE:
    OPERATION_BN_FINALIZE_STATS_MODE 780 [BnFinalizeStatsMode] One;
    OPERATION_BN_FINALIZE_MATH_PREC 781 [DataType] One;
    OPERATION_BN_FINALIZE_Y_SUM_DESC 782 [Descriptor] -> Tensor One;
    OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC 783 [Descriptor] -> Tensor One;
    OPERATION_BN_FINALIZE_SCALE_DESC 784 [Descriptor] -> Tensor One;
    OPERATION_BN_FINALIZE_BIAS_DESC 785 [Descriptor] -> Tensor One;
    OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC 786 [Descriptor] -> Tensor One;
    OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC 787 [Descriptor] -> Tensor One;
    OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC 788 [Descriptor] -> Tensor One output();
    OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC 789 [Descriptor] -> Tensor One output();
    OPERATION_BN_FINALIZE_SAVED_MEAN_DESC 790 [Descriptor] -> Tensor One output();
    OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC 791 [Descriptor] -> Tensor One output();
    OPERATION_BN_FINALIZE_EQ_SCALE_DESC 792 [Descriptor] -> Tensor One output();
    OPERATION_BN_FINALIZE_EQ_BIAS_DESC 793 [Descriptor] -> Tensor One output();
    OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC 794 [Descriptor] -> Tensor One;
    OPERATION_BN_FINALIZE_EPSILON_DESC 795 [Descriptor] -> Tensor One;
    OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC 796 [Descriptor] -> Tensor One;
}

rows! {
    /// The attributes of OPERATION_BN_BWD_WEIGHTS.
    BACKWARD_WEIGHTS:
    OPERATION_BN_BWD_WEIGHTS_MATH_PREC 1620 [DataType] One;
    OPERATION_BN_BWD_WEIGHTS_MEAN_DESC 1621 [Descriptor] -> Tensor One;
    OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC 1622 [Descriptor] -> Tensor One;
    OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC 1623 [Descriptor] -> Tensor One;
    OPERATION_BN_BWD_WEIGHTS_X_DESC 1624 [Descriptor] -> Tensor One;
    OPERATION_BN_BWD_WEIGHTS_DY_DESC 1625 [Descriptor] -> Tensor One;
    OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC 1626 [Descriptor] -> Tensor One output();
    OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC 1627 [Descriptor] -> Tensor One output();
    OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC 1628 [Descriptor] -> Tensor One output();
    OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC 1629 [Descriptor] -> Tensor One output();
    OPERATION_BN_BWD_WEIGHTS_EQ_BIAS 1630 [Descriptor] -> Tensor One output();
}

/// The tensors of one number per channel.
const CHANNELS: &[i32] = &[
    OPERATION_BN_FINALIZE_Y_SUM_DESC,
    OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC,
    OPERATION_BN_FINALIZE_SCALE_DESC,
    OPERATION_BN_FINALIZE_BIAS_DESC,
    OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC,
    OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC,
    OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC,
    OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC,
    OPERATION_BN_FINALIZE_SAVED_MEAN_DESC,
    OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC,
    OPERATION_BN_FINALIZE_EQ_SCALE_DESC,
    OPERATION_BN_FINALIZE_EQ_BIAS_DESC,
];

pub(super) fn check_finalize(check: Check<'_>) -> Result<()> {
    let mut tensors = CHANNELS.iter().filter_map(|&port| Some((port, check.any_tensor(port)?)));
    let Some((_, first)) = tensors.next() else {
        return Err(check.bad(OPERATION_BN_FINALIZE_Y_SUM_DESC, "has to be set"));
    };
    for (port, tensor) in tensors {
        check.require(tensor.is_like(first), port, "the tensors of channels are described as each other")?;
    }
    let epsilon = check.any_tensor(OPERATION_BN_FINALIZE_EPSILON_DESC);
    let fits = epsilon.is_none_or(|epsilon| [0, 1, 2].contains(&epsilon.data_type));
    check.require(fits, OPERATION_BN_FINALIZE_EPSILON_DESC, "is FLOAT, DOUBLE or HALF")
}

pub(super) fn check_backward_weights(_check: Check<'_>) -> Result<()> {
    Ok(())
}
