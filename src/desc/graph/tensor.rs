//! Tensors of the graph interface.

use std::sync::Arc;

use super::attribute::rows;
use super::check::Check;
use super::defaults;
use super::fields::{Fields, Object};
use crate::error::{ErrorKind, Result};

rows! {
    /// The attributes of TENSOR.
    ROWS:
    TENSOR_BYTE_ALIGNMENT 900 [Int64] One unreadable(Unsupported);
    TENSOR_DATA_TYPE 901 [DataType] One;
    TENSOR_DIMENSIONS 902 [Int64] Positive;
    TENSOR_STRIDES 903 [Int64] Positive;
    TENSOR_VECTOR_COUNT 904 [Int64] One;
    TENSOR_VECTORIZED_DIMENSION 905 [Int64] One;
    TENSOR_UNIQUE_ID 906 [Int64] One;
    TENSOR_IS_VIRTUAL 907 [Boolean] One;
    TENSOR_IS_BY_VALUE 908 [Boolean] One;
    TENSOR_REORDERING_MODE 909 [TensorReorderingMode] One unreadable(AttributeType);
    TENSOR_CONSTANT_VALUE 910 [Pointer] One mistyped(BadParam) unreadable(BadParam);
    TENSOR_RAGGED_OFFSET_DESC 913 [Descriptor] -> Tensor NotNegative;
    TENSOR_RAGGED_OFFSET_MULTIPLIER 914 [Int64] One;
}

/// Most dimensions of a tensor.
pub const MOST_DIMS: usize = 8;

/// A tensor as it was described.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// What names it in its graph.
    pub uid: i64,
    /// `cudnnDataType_t`
    pub data_type: i32,
    /// Extents, outermost dimension first.
    pub dims: Vec<i64>,
    /// Strides in elements.
    pub strides: Vec<i64>,
    /// What its pointer is a multiple of, in bytes.
    pub alignment: i64,
    /// Whether it has no memory of the caller's.
    pub is_virtual: bool,
    /// Whether its pointer is host memory, read when the graph runs.
    pub by_value: bool,
    /// The bytes of its element, if that is the same whenever the graph runs.
    pub constant: Option<Vec<u8>>,
    /// Elements of a vector: 1, 4 or 32.
    pub vector_count: i64,
    /// The dimension that the vectors are along.
    pub vector_dimension: i64,
    /// `cudnnBackendTensorReordering_t`
    pub reordering: i64,
    /// Where its batches begin, if they are ragged.
    pub ragged_offset: Option<Arc<Object>>,
    /// Elements per unit of an offset.
    pub ragged_multiplier: i64,
}

impl Tensor {
    /// What these values describe, unchecked.
    pub(super) fn of(fields: &Fields) -> Self {
        let int = |attribute| fields.int_or(attribute, defaults::integer(attribute));
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

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The extent of a dimension in elements, of which vectors hold several.
    pub fn elements(&self, axis: usize) -> i64 {
        let along = self.vector_count > 1 && self.vector_dimension == axis as i64;
        self.dims[axis].saturating_mul(if along { self.vector_count } else { 1 })
    }

    /// The extents in elements.
    pub fn shape(&self) -> Vec<i64> {
        (0..self.rank()).map(|axis| self.elements(axis)).collect()
    }

    /// Number of elements.
    pub fn volume(&self) -> i64 {
        self.shape().into_iter().fold(1, i64::saturating_mul)
    }

    /// Whether extents are equal, and strides where they matter.
    pub(super) fn lies_as(&self, other: &Tensor) -> bool {
        let strides = self.strides.iter().zip(&other.strides).zip(&self.dims);
        self.dims == other.dims
            && strides.fold(true, |same, ((one, other), &dim)| same && (dim == 1 || one == other))
    }

    /// Whether the descriptors say the same but for the id.
    pub(super) fn is_like(&self, other: &Tensor) -> bool {
        let plain =
            |tensor: &Tensor| (tensor.data_type, tensor.alignment, tensor.is_virtual, tensor.by_value);
        let vector = |tensor: &Tensor| (tensor.vector_count, tensor.vector_dimension, tensor.reordering);
        self.lies_as(other) && plain(self) == plain(other) && vector(self) == vector(other)
    }

    /// Whether no two elements lie at one place.
    pub fn is_distinct(&self) -> bool {
        let mut end = 1;
        self.by_stride().all(|(stride, dim)| {
            let fits = stride >= end;
            end = stride.saturating_mul(dim);
            fits
        })
    }

    /// Whether the elements lie side by side, in whatever order of the dimensions.
    pub fn is_packed(&self) -> bool {
        let mut end = 1;
        self.by_stride().all(|(stride, dim)| {
            let fits = stride == end;
            end = stride.saturating_mul(dim);
            fits
        })
    }

    /// Strides and extents of the dimensions of more than one element, innermost first.
    fn by_stride(&self) -> impl Iterator<Item = (i64, i64)> {
        let pairs = self.strides.iter().copied().zip(self.dims.iter().copied());
        let mut axes: Vec<_> = pairs.filter(|&(_, dim)| dim != 1).collect();
        axes.sort_unstable();
        axes.into_iter()
    }

    /// Bytes of an element for the alignment; types below a byte count as one.
    fn element_size(&self) -> i64 {
        element_size(self.data_type)
    }
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
    element_size(fields.int_or(TENSOR_DATA_TYPE, defaults::integer(TENSOR_DATA_TYPE)) as i32) as usize
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
    let (alignment, size) = (tensor.alignment, tensor.element_size());
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
