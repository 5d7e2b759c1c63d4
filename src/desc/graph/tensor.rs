//! Tensors of the graph interface.

use super::attribute::rows;
use super::check::Check;
use super::object::{Fields, Tensor};
use crate::error::{ErrorKind, Result};

rows! {
    /// The attributes of TENSOR.
    ROWS:
    TENSOR_BYTE_ALIGNMENT 900 [Int64] One unreadable(Unsupported);
    TENSOR_DATA_TYPE 901 [DataType] One;
    TENSOR_DIMENSIONS 902 [Int64] Positive;
    TENSOR_STRIDES 903 [Int64] Positive;
    TENSOR_VECTOR_COUNT 904 [Int64] One = 1;
    TENSOR_VECTORIZED_DIMENSION 905 [Int64] One = -1;
    TENSOR_UNIQUE_ID 906 [Int64] One = -1;
    TENSOR_IS_VIRTUAL 907 [Boolean] One;
    TENSOR_IS_BY_VALUE 908 [Boolean] One;
    TENSOR_REORDERING_MODE 909 [TensorReorderingMode] One unreadable(AttributeType);
    TENSOR_CONSTANT_VALUE 910 [Pointer] One mistyped(BadParam) unreadable(BadParam);
    TENSOR_RAGGED_OFFSET_DESC 913 [Descriptor] -> Tensor NotNegative;
    TENSOR_RAGGED_OFFSET_MULTIPLIER 914 [Int64] One = 1;
}

/// Most dimensions of a tensor.
pub const MOST_DIMS: usize = 8;

impl Tensor {
    /// What these values describe, unchecked.
    pub(super) fn of(fields: &Fields) -> Self {
        let int = |attribute| integer(fields, attribute);
        Tensor {
            uid: int(TENSOR_UNIQUE_ID),
            data_type: int(TENSOR_DATA_TYPE) as i32,
            dims: fields.ints(TENSOR_DIMENSIONS).to_vec(),
            strides: fields.ints(TENSOR_STRIDES).to_vec(),
            alignment: int(TENSOR_BYTE_ALIGNMENT),
            is_virtual: fields.is_set(TENSOR_IS_VIRTUAL),
            by_value: fields.is_set(TENSOR_IS_BY_VALUE),
            constant: fields.text(TENSOR_CONSTANT_VALUE).map(<[u8]>::to_vec),
            vector_count: int(TENSOR_VECTOR_COUNT),
            vector_dimension: int(TENSOR_VECTORIZED_DIMENSION),
            reordering: int(TENSOR_REORDERING_MODE),
            ragged_offset: fields.object(TENSOR_RAGGED_OFFSET_DESC).cloned(),
            ragged_multiplier: int(TENSOR_RAGGED_OFFSET_MULTIPLIER),
        }
    }
}

/// The integer of an attribute, set or not.
fn integer(fields: &Fields, attribute: i32) -> i64 {
    let row = ROWS.iter().find(|row| row.number == attribute);
    fields.int_or(attribute, row.map_or(0, |row| row.default))
}

/// Bytes of an element of a type; types below a byte count as one.
fn element_size(data_type: i32) -> i64 {
    match data_type {
        1 | 10 | 20 | 21 => 8,
        0 | 4 => 4,
        2 | 9 => 2,
        _ => 1,
    }
}

/// Bytes of the value that the address of a constant leads to, of the type that is set so far.
pub(super) fn constant_size(fields: &Fields) -> usize {
    element_size(integer(fields, TENSOR_DATA_TYPE) as i32) as usize
}

/// The checks of Finalize.
pub(super) fn check(check: Check<'_>, tensor: &Tensor) -> Result<()> {
    let rank = tensor.rank();
    check.require((1..=MOST_DIMS).contains(&rank), TENSOR_DIMENSIONS, "a tensor has 1 to 8 dimensions")?;
    check.require(
        tensor.strides.len() == rank,
        TENSOR_STRIDES,
        "a tensor has as many strides as dimensions",
    )?;
    check.require(tensor.dims.iter().all(|&dim| dim >= 0), TENSOR_DIMENSIONS, "extents are not negative")?;
    check.require(
        tensor.strides.iter().all(|&stride| stride >= 0),
        TENSOR_STRIDES,
        "strides are not negative",
    )?;
    check.require(
        tensor.data_type != 14,
        TENSOR_DATA_TYPE,
        "FAST_FLOAT_FOR_FP8 is a type of arithmetic only",
    )?;
    let scalar = tensor.dims.iter().filter(|&&dim| dim > 1).count() <= 1;
    check.require(
        !tensor.by_value || scalar,
        TENSOR_IS_BY_VALUE,
        "one dimension at most has more than one element",
    )?;
    let rule = "vectors are CUDNN_ATTR_TENSOR_VECTOR_COUNT on their scalar type";
    check.require_or(
        ![5, 7, 8].contains(&tensor.data_type),
        ErrorKind::NotSupported,
        TENSOR_DATA_TYPE,
        rule,
    )?;
    check.require((0..=23).contains(&tensor.data_type), TENSOR_DATA_TYPE, "the types are 0 to 23")?;
    let bytes = [3, 6].contains(&tensor.data_type);
    let vectors = !bytes || [1, 4, 32].contains(&tensor.vector_count);
    check.require_or(
        vectors,
        ErrorKind::NotSupported,
        TENSOR_VECTOR_COUNT,
        "a vector of bytes has 1, 4 or 32",
    )?;
    // Bytes are aligned without being told to.
    let (alignment, size) = (tensor.alignment, element_size(tensor.data_type));
    let aligned = alignment % size == 0 && alignment >= i64::from(size > 1);
    check.require(
        aligned,
        TENSOR_BYTE_ALIGNMENT,
        "has to be set, to a multiple of the bytes of an element",
    )?;
    if let Some(constant) = &tensor.constant {
        let rule = "is one element, of the data type that was set before it, of a tensor that is not virtual";
        let fits = constant.len() as i64 == size && tensor.volume() == 1 && !tensor.is_virtual;
        check.require(fits, TENSOR_CONSTANT_VALUE, rule)?;
    }
    if tensor.ragged_offset.is_some() {
        check.tensor(TENSOR_RAGGED_OFFSET_DESC)?;
        check.require(tensor.ragged_multiplier > 0, TENSOR_RAGGED_OFFSET_MULTIPLIER, "is positive")?;
    }
    Ok(())
}
