//! What was set: values by attribute, and what they mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attribute::Type;
use super::kind::Kind;
use super::tensor::Tensor;

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
