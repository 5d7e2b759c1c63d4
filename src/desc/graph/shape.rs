//! Views of tensors, and what joins them.

use super::attribute::rows;
use super::check::Check;
use crate::error::Result;

rows! {
    /// The attributes of OPERATION_CONCAT.
    CONCAT:
    OPERATION_CONCAT_AXIS 1800 [Int64] One;
    OPERATION_CONCAT_INPUT_DESCS 1801 [Descriptor] -> Tensor Any;
    OPERATION_CONCAT_INPLACE_INDEX 1802 [Int64] One;
    OPERATION_CONCAT_OUTPUT_DESC 1803 [Descriptor] -> Tensor One output();
}

rows! {
    /// The attributes of OPERATION_RESHAPE.
    RESHAPE:
    OPERATION_RESHAPE_XDESC 2200 [Descriptor] -> Tensor One;
    OPERATION_RESHAPE_YDESC 2201 [Descriptor] -> Tensor One output();
    OPERATION_RESHAPE_MODE 2202 [ReshapeMode] One;
}

rows! {
    /// The attributes of OPERATION_TRANSPOSE.
    TRANSPOSE:
    OPERATION_TRANSPOSE_XDESC 3200 [Descriptor] -> Tensor One;
    OPERATION_TRANSPOSE_YDESC 3201 [Descriptor] -> Tensor One output();
    OPERATION_TRANSPOSE_PERMUTATION 3202 [Int64] NotNegative mistyped(AttributeType);
}

rows! {
    /// The attributes of OPERATION_SLICE.
    SLICE:
    OPERATION_SLICE_XDESC 3300 [Descriptor] -> Tensor One;
    OPERATION_SLICE_YDESC 3301 [Descriptor] -> Tensor One output();
    OPERATION_SLICE_START_INDICES 3302 [Int64] Positive;
    OPERATION_SLICE_LIMIT_INDICES 3303 [Int64] Positive;
    OPERATION_SLICE_STRIDES 3304 [Int64] Positive;
}

pub(super) fn check_reshape(check: Check<'_>) -> Result<()> {
    let x = check.tensor(OPERATION_RESHAPE_XDESC)?;
    let y = check.tensor(OPERATION_RESHAPE_YDESC)?;
    check.require(x.volume() == y.volume(), OPERATION_RESHAPE_YDESC, "y has as many elements as x")
}

pub(super) fn check_transpose(check: Check<'_>) -> Result<()> {
    let x = check.tensor(OPERATION_TRANSPOSE_XDESC)?;
    let y = check.tensor(OPERATION_TRANSPOSE_YDESC)?;
    let rank = x.rank();
    check.require(y.rank() == rank, OPERATION_TRANSPOSE_YDESC, "y has as many dimensions as x")?;
    check.require(y.data_type == x.data_type, OPERATION_TRANSPOSE_YDESC, "y has the type of x")?;
    let permutation = check.fields.ints(OPERATION_TRANSPOSE_PERMUTATION);
    let mut sorted = permutation.to_vec();
    sorted.sort_unstable();
    let fits = sorted.iter().copied().eq(0..rank as i64);
    check.require(fits, OPERATION_TRANSPOSE_PERMUTATION, "is a permutation of the dimensions")?;
    let permuted = permutation.iter().map(|&axis| x.dims[axis as usize]);
    check.require(
        permuted.eq(y.dims.iter().copied()),
        OPERATION_TRANSPOSE_YDESC,
        "y has the permuted extents of x",
    )
}

pub(super) fn check_slice(check: Check<'_>) -> Result<()> {
    let x = check.tensor(OPERATION_SLICE_XDESC)?;
    let y = check.tensor(OPERATION_SLICE_YDESC)?;
    let rank = x.rank();
    check.require(y.rank() == rank, OPERATION_SLICE_YDESC, "y has as many dimensions as x")?;
    check.require(y.data_type == x.data_type, OPERATION_SLICE_YDESC, "y has the type of x")?;
    let [starts, limits, steps] =
        [OPERATION_SLICE_START_INDICES, OPERATION_SLICE_LIMIT_INDICES, OPERATION_SLICE_STRIDES];
    for attribute in [starts, limits, steps] {
        check.require(
            check.fields.ints(attribute).len() == rank,
            attribute,
            "has one value per dimension",
        )?;
    }
    for axis in 0..rank {
        let at = |attribute| check.fields.ints(attribute)[axis];
        let (start, limit, step) = (at(starts), at(limits), at(steps));
        check.require((0..=limit).contains(&start), starts, "is 0 to the limit")?;
        check.require(limit <= x.dims[axis], limits, "is at most the extent of x")?;
        check.require(step >= 1, steps, "is 1 at least")?;
        let extent = (limit - start + step - 1) / step;
        check.require(y.dims[axis] == extent, OPERATION_SLICE_YDESC, "y has the extents of the slice")?;
    }
    Ok(())
}

pub(super) fn check_concat(check: Check<'_>) -> Result<()> {
    let y = check.tensor(OPERATION_CONCAT_OUTPUT_DESC)?;
    let axis = check.fields.int_or(OPERATION_CONCAT_AXIS, -1);
    let rule = "is a dimension of the output";
    check.require((0..y.rank() as i64).contains(&axis), OPERATION_CONCAT_AXIS, rule)?;
    let inputs = check.fields.links(OPERATION_CONCAT_INPUT_DESCS);
    check.require(!inputs.is_empty(), OPERATION_CONCAT_INPUT_DESCS, "has to be set")?;
    let mut extent: i64 = 0;
    for input in inputs {
        let tensor =
            input.as_ref().filter(|input| input.is_finalised).and_then(|input| input.tensor.as_ref());
        let Some(tensor) = tensor else {
            return Err(check.bad(OPERATION_CONCAT_INPUT_DESCS, "an input is not finalised"));
        };
        let same = tensor.rank() == y.rank()
            && (0..y.rank()).all(|other| other as i64 == axis || tensor.dims[other] == y.dims[other]);
        check.require(same, OPERATION_CONCAT_INPUT_DESCS, "an input has other extents than the output")?;
        extent = extent.saturating_add(tensor.dims[axis as usize]);
    }
    check.require(
        extent == y.dims[axis as usize],
        OPERATION_CONCAT_OUTPUT_DESC,
        "is as long as the inputs together",
    )?;
    let place = check.fields.int_or(OPERATION_CONCAT_INPLACE_INDEX, -1);
    let fits = (-1..inputs.len() as i64).contains(&place);
    check.require(fits, OPERATION_CONCAT_INPLACE_INDEX, "is the number of an input, or -1")
}
