//! Products of matrices per expert.

use super::attribute::rows;
use super::check::Check;
use crate::error::Result;

rows! {
    /// The attributes of OPERATION_MOE_GROUPED_MATMUL.
    FORWARD:
    OPERATION_MOE_GROUPED_MATMUL_MODE 2900 [MoeGroupedMatmulMode] One;
    OPERATION_MOE_GROUPED_MATMUL_MATH_PREC 2901 [DataType] One;
    OPERATION_MOE_GROUPED_MATMUL_TOKEN_DESC 2902 [Descriptor] -> Tensor Positive;
    OPERATION_MOE_GROUPED_MATMUL_WEIGHT_DESC 2903 [Descriptor] -> Tensor Positive;
    OPERATION_MOE_GROUPED_MATMUL_FIRST_TOKEN_OFFSET_DESC 2904 [Descriptor] -> Tensor Positive;
    OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC 2905 [Descriptor] -> Tensor Positive output();
    OPERATION_MOE_GROUPED_MATMUL_TOKEN_INDEX_DESC 2906 [Descriptor] -> Tensor Positive;
    OPERATION_MOE_GROUPED_MATMUL_TOKEN_KS_DESC 2907 [Descriptor] -> Tensor Positive;
    OPERATION_MOE_GROUPED_MATMUL_TOP_K 2908 [Int32] One;
}

rows! {
    /// The attributes of OPERATION_MOE_GROUPED_MATMUL_BWD.
    BACKWARD:
    OPERATION_MOE_GROUPED_MATMUL_BWD_MATH_PREC 2951 [DataType] One;
    OPERATION_MOE_GROUPED_MATMUL_BWD_TOKEN_DESC 2952 [Descriptor] -> Tensor Positive;
    OPERATION_MOE_GROUPED_MATMUL_BWD_DWEIGHT_DESC 2953 [Descriptor] -> Tensor Positive output();
    OPERATION_MOE_GROUPED_MATMUL_BWD_FIRST_TOKEN_OFFSET_DESC 2954 [Descriptor] -> Tensor Positive;
    OPERATION_MOE_GROUPED_MATMUL_BWD_DOUTPUT_DESC 2955 [Descriptor] -> Tensor Positive;
}

pub(super) fn check(check: Check<'_>) -> Result<()> {
    let [token, weight, offset, output] = [
        OPERATION_MOE_GROUPED_MATMUL_TOKEN_DESC,
        OPERATION_MOE_GROUPED_MATMUL_WEIGHT_DESC,
        OPERATION_MOE_GROUPED_MATMUL_FIRST_TOKEN_OFFSET_DESC,
        OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC,
    ];
    for port in [token, weight, offset, output] {
        check.require(check.dims(port).len() == 3, port, "has to be set, with three dimensions")?;
    }
    let (dt, dw) = (check.dims(token), check.dims(weight));
    check.require(dt[2] == dw[1], weight, "has as many rows as the tokens have columns")?;
    check.require(check.dims(offset) == [dw[0], 1, 1], offset, "has one number per expert")?;
    let index = check.dims(OPERATION_MOE_GROUPED_MATMUL_TOKEN_INDEX_DESC);
    if !index.is_empty() {
        let fits = index.len() == 3 && index[0] == dt[0];
        check.require(fits, OPERATION_MOE_GROUPED_MATMUL_TOKEN_INDEX_DESC, "has the batch of the tokens")?;
    }
    let rows = index.get(1).copied().unwrap_or(dt[1]);
    check.require(check.dims(output) == [dt[0], rows, dw[2]], output, "is the product of tokens and weights")
}

pub(super) fn check_backward(check: Check<'_>) -> Result<()> {
    let [token, dweight, offset, doutput] = [
        OPERATION_MOE_GROUPED_MATMUL_BWD_TOKEN_DESC,
        OPERATION_MOE_GROUPED_MATMUL_BWD_DWEIGHT_DESC,
        OPERATION_MOE_GROUPED_MATMUL_BWD_FIRST_TOKEN_OFFSET_DESC,
        OPERATION_MOE_GROUPED_MATMUL_BWD_DOUTPUT_DESC,
    ];
    for port in [token, dweight, offset, doutput] {
        check.require(check.dims(port).len() == 3, port, "has to be set, with three dimensions")?;
    }
    let (dt, dw) = (check.dims(token), check.dims(dweight));
    check.require(dt[2] == dw[1], dweight, "has as many rows as the tokens have columns")?;
    check.require(check.dims(offset) == [dw[0], 1, 1], offset, "has one number per expert")?;
    check.require(
        check.dims(doutput) == [dt[0], dt[1], dw[2]],
        doutput,
        "is the product of tokens and weights",
    )
}
