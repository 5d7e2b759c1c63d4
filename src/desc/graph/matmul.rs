//! Products of matrices.

use super::attribute::rows;
use super::check::Check;
use crate::error::{ErrorKind, Result};

rows! {
    /// The attributes of MATMUL.
    SETTINGS:
    MATMUL_COMP_TYPE 1500 [DataType] One;
    MATMUL_PADDING_VALUE 1503 [Int64 Float Double Int32] One;
}

rows! {
    /// The attributes of OPERATION_MATMUL. The original does not look at the number of descriptors.
    OPERATION:
    OPERATION_MATMUL_ADESC 1520 [Descriptor] -> Tensor Any;
    OPERATION_MATMUL_BDESC 1521 [Descriptor] -> Tensor Any;
    OPERATION_MATMUL_CDESC 1522 [Descriptor] -> Tensor Any output();
    OPERATION_MATMUL_DESC 1523 [Descriptor] -> Matmul Any;
    OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT 1524 [Int64] One = 1;
    OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC 1525 [Descriptor] -> Tensor Any;
    OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC 1526 [Descriptor] -> Tensor Any;
    OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC 1527 [Descriptor] -> Tensor Any;
}

/// Ranks, then M, N and K, then the batches. Types, strides and vectors are for the engines.
pub(super) fn check(check: Check<'_>) -> Result<()> {
    let [a, b, c] = [OPERATION_MATMUL_ADESC, OPERATION_MATMUL_BDESC, OPERATION_MATMUL_CDESC];
    let (da, db, dc) = (check.dims(a), check.dims(b), check.dims(c));
    let rank = da.len();
    let rule = "the three tensors have as many dimensions as each other";
    check.require_or(db.len() == rank, ErrorKind::NotSupported, b, rule)?;
    check.require_or(dc.len() == rank, ErrorKind::NotSupported, c, rule)?;
    check.require(rank >= 2, a, "a matrix has two dimensions at least")?;
    let (row, column) = (rank - 2, rank - 1);
    check.require(db[row] == da[column], b, "B has as many rows as A has columns")?;
    check.require(dc[row] == da[row], c, "C has as many rows as A")?;
    check.require(dc[column] == db[column], c, "C has as many columns as B")?;
    for axis in 0..row {
        let (small, large) = (da[axis].min(db[axis]), da[axis].max(db[axis]));
        let fits = small == large || small > 0 && large % small == 0;
        check.require(fits, b, "one batch of A and B is a multiple of the other")?;
        check.require(dc[axis] == large, c, "the batch of C is the larger one of A and B")?;
    }
    let count = check.fields.int_or(OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT, 1);
    let single = rank < 3 || [da, db, dc].iter().all(|dims| dims[0] == 1);
    let rule = "is 1, or more where the first extent of all tensors is 1";
    check.require(count == 1 || count > 1 && single, OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT, rule)
}
