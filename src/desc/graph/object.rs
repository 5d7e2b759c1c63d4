//! What a descriptor holds: values by attribute, other descriptors, and the tensor that they
//! describe.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attribute::Type;
use super::kind::Kind;

/// What one attribute holds.
#[derive(Clone, Debug)]
pub enum Value {
    /// Integers, enumerators and booleans, with the type that they came in.
    Ints(Type, Vec<i64>),
    /// Floating-point numbers, with the type that they came in.
    Reals(Type, Vec<f64>),
    /// Fractions: numerators and denominators.
    Fractions(Vec<(i64, i64)>),
    /// Characters.
    Text(Vec<u8>),
    /// Addresses and handles.
    Pointers(Vec<usize>),
    /// Copies of descriptors.
    Links(Vec<Link>),
    /// Lists of integers.
    Lists(Vec<Vec<i64>>),
}

impl Value {
    /// How many there are.
    pub fn count(&self) -> usize {
        match self {
            Value::Ints(_, values) => values.len(),
            Value::Reals(_, values) => values.len(),
            Value::Fractions(values) => values.len(),
            Value::Text(values) => values.len(),
            Value::Pointers(values) => values.len(),
            Value::Links(values) => values.len(),
            Value::Lists(lists) => lists.len(),
        }
    }
}

/// A descriptor as another one holds it: none where NULL was given. It is a copy: what becomes of
/// the original later does not matter.
pub type Link = Option<Arc<Object>>;

/// What a descriptor held when it was finalised, or when it was given to another one before that.
#[derive(Debug)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// What was set.
    pub fields: Fields,
    /// What it means, if it is a tensor; unchecked before it is finalised.
    pub tensor: Option<Tensor>,
    /// Whether its kind's checks have passed.
    pub is_finalised: bool,
}

/// Values by attribute.
#[derive(Clone, Debug, Default)]
pub struct Fields(BTreeMap<i32, Value>);

impl Fields {
    /// What an attribute holds, if it was set.
    pub fn get(&self, attribute: i32) -> Option<&Value> {
        self.0.get(&attribute)
    }

    /// Sets an attribute.
    pub(super) fn set(&mut self, attribute: i32, value: Value) {
        self.0.insert(attribute, value);
    }

    /// Whether an attribute was set.
    pub fn has(&self, attribute: i32) -> bool {
        self.0.contains_key(&attribute)
    }

    /// All integers of an attribute; none before it is set.
    pub fn ints(&self, attribute: i32) -> &[i64] {
        match self.get(attribute) {
            Some(Value::Ints(_, values)) => values,
            _ => &[],
        }
    }

    /// The integer of an attribute.
    pub fn int(&self, attribute: i32) -> Option<i64> {
        self.ints(attribute).first().copied()
    }

    /// The integer of an attribute, or what it is before it is set.
    pub fn int_or(&self, attribute: i32, default: i64) -> i64 {
        self.int(attribute).unwrap_or(default)
    }

    /// Whether a boolean is set to true.
    pub fn is_set(&self, attribute: i32) -> bool {
        self.int_or(attribute, 0) != 0
    }

    /// The number of an attribute, whichever type it came in.
    pub fn real(&self, attribute: i32) -> Option<f64> {
        match self.get(attribute)? {
            Value::Reals(_, values) => values.first().copied(),
            Value::Ints(_, values) => values.first().map(|&value| value as f64),
            _ => None,
        }
    }

    /// Extents along axes, as fractions: integers have the denominator 1.
    pub fn fractions(&self, attribute: i32) -> Vec<(i64, i64)> {
        match self.get(attribute) {
            Some(Value::Fractions(values)) => values.clone(),
            Some(Value::Ints(_, values)) => values.iter().map(|&value| (value, 1)).collect(),
            _ => Vec::new(),
        }
    }

    /// The characters of a text.
    pub fn text(&self, attribute: i32) -> Option<&[u8]> {
        match self.get(attribute)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The addresses of an attribute; none before it is set.
    pub fn pointers(&self, attribute: i32) -> &[usize] {
        match self.get(attribute) {
            Some(Value::Pointers(values)) => values,
            _ => &[],
        }
    }

    /// The lists of an attribute; none before it is set.
    pub fn lists(&self, attribute: i32) -> &[Vec<i64>] {
        match self.get(attribute) {
            Some(Value::Lists(lists)) => lists,
            _ => &[],
        }
    }

    /// The descriptors of an attribute; none before it is set.
    pub fn links(&self, attribute: i32) -> &[Link] {
        match self.get(attribute) {
            Some(Value::Links(links)) => links,
            _ => &[],
        }
    }

    /// The descriptor of an attribute, finalised or not.
    pub fn object(&self, attribute: i32) -> Option<&Arc<Object>> {
        self.links(attribute).first()?.as_ref()
    }

    /// The tensor of an attribute, finalised or not.
    pub fn tensor(&self, attribute: i32) -> Option<&Tensor> {
        self.object(attribute)?.tensor.as_ref()
    }
}

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
}
