//! Signals between kernels, and matrices of a band.

use super::attribute::rows;
use super::check::Check;
use super::kind::Kind;
use crate::error::{ErrorKind, Result};

rows! {
    /// The attributes of OPERATION_SIGNAL.
    SIGNAL:
    OPERATION_SIGNAL_MODE 1900 [SignalMode] One mistyped(AttributeType);
    OPERATION_SIGNAL_FLAGDESC 1901 [Descriptor] -> Tensor Any;
    OPERATION_SIGNAL_VALUE 1902 [Int64] One mistyped(AttributeType);
    OPERATION_SIGNAL_XDESC 1903 [Descriptor] -> Tensor Any;
    OPERATION_SIGNAL_YDESC 1904 [Descriptor] -> Tensor Any output();
}

rows! {
    /// The attributes of OPERATION_EXPAND_BAND_MATRIX.
    EXPAND:
    OPERATION_EXPAND_BAND_MATRIX_XDESC 2250 [Descriptor] -> Tensor One;
    OPERATION_EXPAND_BAND_MATRIX_YDESC 2251 [Descriptor] -> Tensor One output();
    OPERATION_EXPAND_BAND_MATRIX_LOWER_BANDWIDTH 2252 [Int64] One mistyped(AttributeType);
    OPERATION_EXPAND_BAND_MATRIX_UPPER_BANDWIDTH 2253 [Int64] One mistyped(AttributeType);
    OPERATION_EXPAND_BAND_MATRIX_AXIS 2254 [Int64] One mistyped(AttributeType);
    OPERATION_EXPAND_BAND_MATRIX_PAD_VALUE 2255 [Float] One mistyped(AttributeType);
    OPERATION_EXPAND_BAND_MATRIX_KV_TOKEN_OFFSET_DESC 2256 [Descriptor] -> Tensor One;
    OPERATION_EXPAND_BAND_MATRIX_SPECULATIVE_MASK_DESC 2257 [Descriptor] -> Tensor One;
}

rows! {
    /// The attributes of OPERATION_CONTRACT_BAND_MATRIX.
    CONTRACT:
    OPERATION_CONTRACT_BAND_MATRIX_XDESC 2270 [Descriptor] -> Tensor One;
    OPERATION_CONTRACT_BAND_MATRIX_YDESC 2271 [Descriptor] -> Tensor One output();
    OPERATION_CONTRACT_BAND_MATRIX_LOWER_BANDWIDTH 2272 [Int64] One mistyped(AttributeType);
    OPERATION_CONTRACT_BAND_MATRIX_UPPER_BANDWIDTH 2273 [Int64] One mistyped(AttributeType);
    OPERATION_CONTRACT_BAND_MATRIX_AXIS 2274 [Int64] One mistyped(AttributeType);
    OPERATION_CONTRACT_BAND_MATRIX_PAD_VALUE 2275 [Float] One mistyped(AttributeType);
    OPERATION_CONTRACT_BAND_MAX_TOKEN_VALUE 2276 [Int64] One mistyped(AttributeType);
}

/// A matrix and its band: the wide one has the rows that the narrow one has diagonals of.
pub(super) fn check_band(check: Check<'_>) -> Result<()> {
    let [x, y, narrow, lower, upper, along] = match check.kind {
        Kind::ExpandBandMatrix => [
            OPERATION_EXPAND_BAND_MATRIX_XDESC,
            OPERATION_EXPAND_BAND_MATRIX_YDESC,
            OPERATION_EXPAND_BAND_MATRIX_XDESC,
            OPERATION_EXPAND_BAND_MATRIX_LOWER_BANDWIDTH,
            OPERATION_EXPAND_BAND_MATRIX_UPPER_BANDWIDTH,
            OPERATION_EXPAND_BAND_MATRIX_AXIS,
        ],
        _ => [
            OPERATION_CONTRACT_BAND_MATRIX_XDESC,
            OPERATION_CONTRACT_BAND_MATRIX_YDESC,
            OPERATION_CONTRACT_BAND_MATRIX_YDESC,
            OPERATION_CONTRACT_BAND_MATRIX_LOWER_BANDWIDTH,
            OPERATION_CONTRACT_BAND_MATRIX_UPPER_BANDWIDTH,
            OPERATION_CONTRACT_BAND_MATRIX_AXIS,
        ],
    };
    let (dx, dy) = (&check.tensor(x)?.dims, &check.tensor(y)?.dims);
    check.require(dx.len() == dy.len(), y, "y has as many dimensions as x")?;
    let bands = [lower, upper].map(|attribute| check.fields.int_or(attribute, 0));
    for (attribute, width) in [lower, upper].into_iter().zip(bands) {
        check.require((0..1 << 31).contains(&width), attribute, "a bandwidth is not negative")?;
    }
    let axis = check.fields.int_or(along, 0);
    check.require((0..dx.len() as i64).contains(&axis), along, "is a dimension of the tensors")?;
    let others = dx.iter().zip(dy).enumerate().all(|(other, (x, y))| other as i64 == axis || x == y);
    check.require_or(others, ErrorKind::ShapeMismatch, y, "y has the extents of x but along the axis")?;
    let extent = check.dims(narrow)[axis as usize];
    let rule = "has one entry per diagonal: both bandwidths and one more";
    check.require_or(extent == bands[0] + bands[1] + 1, ErrorKind::ShapeMismatch, narrow, rule)
}
