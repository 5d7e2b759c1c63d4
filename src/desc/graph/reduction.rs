//! Reductions.

use super::attribute::rows;
use super::check::Check;
use crate::error::{ErrorKind, Result};

rows! {
    /// The attributes of REDUCTION.
    SETTINGS:
    REDUCTION_OPERATOR 1600 [ReductionOperatorType] One;
    REDUCTION_COMP_TYPE 1601 [DataType] One;
    REDUCTION_IS_DETERMINISTIC 1602 [Boolean] One;
}

rows! {
    /// The attributes of OPERATION_REDUCTION.
    OPERATION:
    OPERATION_REDUCTION_XDESC 1610 [Descriptor] -> Tensor One;
    OPERATION_REDUCTION_YDESC 1611 [Descriptor] -> Tensor One output();
    OPERATION_REDUCTION_DESC 1612 [Descriptor] -> Reduction Any;
    OPERATION_REDUCTION_GROUP_OFFSET_DESC 1613 [Descriptor] -> Tensor Any;
    OPERATION_REDUCTION_DIMS 1640 [Int64] Any read_only();
    OPERATION_REDUCTION_INIT_VALUES 1641 [Int64] Any read_only();
    OPERATION_REDUCTION_SUBGRAPH 1642 [Descriptor] -> Tensor Any read_only();
    OPERATION_REDUCTION_SUBGRAPH_ACCUMULATOR_UIDS 1643 [Int64] Any read_only();
    OPERATION_REDUCTION_SUBGRAPH_CURRENT_UIDS 1644 [Int64] Any read_only();
    OPERATION_REDUCTION_SUBGRAPH_OUTPUT_UIDS 1645 [Int64] Any read_only();
    OPERATION_REDUCTION_SUBGRAPH_COMPUTE_TYPES 1646 [DataType] Any read_only();
}

/// The operators that the original does: ADD, MUL, MIN, MAX, AMAX; AVG, NORM1, NORM2, MUL_NO_ZEROS
/// it does not.
pub(super) fn check_settings(check: Check<'_>) -> Result<()> {
    let operator = check.fields.int_or(REDUCTION_OPERATOR, 0);
    check.require((0..=8).contains(&operator), REDUCTION_OPERATOR, "the operators are 0 to 8")?;
    let rule = "the graph interface has 0 to 4 (ADD, MUL, MIN, MAX, AMAX)";
    check.require_or(operator <= 4, ErrorKind::NotSupported, REDUCTION_OPERATOR, rule)
}

pub(super) fn check(check: Check<'_>) -> Result<()> {
    let x = check.tensor(OPERATION_REDUCTION_XDESC)?;
    let y = check.tensor(OPERATION_REDUCTION_YDESC)?;
    check.require(x.rank() == y.rank(), OPERATION_REDUCTION_YDESC, "y has as many dimensions as x")?;
    // Of group offsets y has an element for each group, whatever rows there are.
    let has_groups = check.fields.object(OPERATION_REDUCTION_GROUP_OFFSET_DESC).is_some();
    let fits = x.shape().iter().zip(y.shape()).all(|(&x, y)| x == y || y > 0 && x % y == 0);
    check.require(fits || has_groups, OPERATION_REDUCTION_YDESC, "every extent of y divides that of x")
}
