//! The packs and plans of fused operations: which parameters an operation has, and what was set.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::{ActivationDescriptor, ConvolutionDescriptor, FilterDescriptor, TensorDescriptor};
use crate::error::{Error, Result};

/// Operations are numbered from 0.
const OPERATIONS: i32 = 7;

/// The constant parameters of each operation (observed on 9.27.0).
const CONSTANTS: [&[RangeInclusive<i32>]; OPERATIONS as usize] = [
    &[0..=9, 12..=13, 16..=18],
    &[0..=7, 10..=11, 14..=15],
    &[2..=5, 16..=25],
    &[2..=5, 19..=21, 24..=25],
    &[0..=1, 3..=4, 6..=9, 12..=13, 26..=30],
    &[0..=6, 12..=13, 26..=32],
    &[0..=2, 6..=6, 14..=15, 19..=23, 31..=38],
];

/// The variant parameters of each operation (observed on 9.27.0).
const VARIANTS: [&[RangeInclusive<i32>]; OPERATIONS as usize] = [
    &[0..=3, 5..=5, 7..=9, 100..=100],
    &[0..=2, 4..=4, 6..=6, 9..=9, 100..=100],
    &[1..=2, 7..=15, 100..=103],
    &[1..=2, 9..=11, 14..=15, 100..=100, 103..=103],
    &[0..=1, 3..=3, 5..=5, 9..=9, 16..=18, 100..=100],
    &[0..=2, 5..=5, 9..=9, 16..=19, 100..=100],
    &[0..=0, 6..=6, 9..=13, 19..=23, 100..=100, 103..=103],
];

/// A fused operation's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FusedOperation(i32);

impl FusedOperation {
    /// The operation of this number.
    ///
    /// # Errors
    /// Bad parameter for any other number than 0 to 6.
    pub fn new(number: i32) -> Result<Self> {
        if (0..OPERATIONS).contains(&number) {
            return Ok(FusedOperation(number));
        }
        Err(Error::argument("ops", number.into(), format!("the operations are 0 to {}", OPERATIONS - 1)))
    }

    /// Its number.
    pub fn number(self) -> i32 {
        self.0
    }

    fn has(self, table: &[&[RangeInclusive<i32>]; OPERATIONS as usize], label: i32) -> Result<()> {
        let known = table[self.0 as usize].iter().any(|labels| labels.contains(&label));
        if known {
            return Ok(());
        }
        Err(Error::argument(
            "paramLabel",
            label.into(),
            format!("operation {} has no such parameter", self.0),
        ))
    }
}

/// A descriptor that was copied into a pack.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "a pack holds a handful")]
pub enum PackedDescriptor {
    /// The descriptor of a tensor.
    Tensor(TensorDescriptor),
    /// The descriptor of a filter.
    Filter(FilterDescriptor),
    /// The descriptor of a convolution.
    Convolution(ConvolutionDescriptor),
    /// The descriptor of an activation.
    Activation(ActivationDescriptor),
}

/// What a constant parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantKind {
    /// A tensor descriptor.
    Tensor,
    /// A filter descriptor.
    Filter,
    /// A convolution descriptor.
    Convolution,
    /// An activation descriptor.
    Activation,
    /// An int: a placeholder or the mode of batch normalisation.
    Number,
}

impl ConstantKind {
    /// What the parameter of this label is.
    pub fn of(label: i32) -> Self {
        match label {
            0 | 3 | 12 | 14 | 16 | 19 | 26 | 28 | 31 | 33 | 35 => ConstantKind::Tensor,
            8 | 10 => ConstantKind::Filter,
            7 => ConstantKind::Convolution,
            6 => ConstantKind::Activation,
            _ => ConstantKind::Number,
        }
    }
}

/// Constant parameters: descriptors, of which a pack keeps copies, and numbers.
#[derive(Clone, Debug)]
pub struct ConstantPack {
    /// The operation.
    pub operation: FusedOperation,
    descriptors: BTreeMap<i32, PackedDescriptor>,
    numbers: BTreeMap<i32, i32>,
}

impl ConstantPack {
    /// Nothing set.
    pub fn new(operation: FusedOperation) -> Self {
        ConstantPack { operation, descriptors: BTreeMap::new(), numbers: BTreeMap::new() }
    }

    /// Refuses a parameter that the operation does not have.
    ///
    /// # Errors
    /// Bad parameter.
    pub fn check(&self, label: i32) -> Result<()> {
        self.operation.has(&CONSTANTS, label)
    }

    /// Refuses what cannot be read: also every parameter of operation 4 (observed on 9.27.0).
    ///
    /// # Errors
    /// Bad parameter.
    pub fn check_get(&self, label: i32) -> Result<()> {
        self.check(label)?;
        if self.operation.number() == 4 {
            return Err(Error::argument("paramLabel", label.into(), "operation 4 cannot be read"));
        }
        Ok(())
    }

    /// Sets or clears a descriptor. Pre: [`check`](Self::check) has passed.
    pub fn set_descriptor(&mut self, label: i32, descriptor: Option<PackedDescriptor>) {
        match descriptor {
            Some(descriptor) => _ = self.descriptors.insert(label, descriptor),
            None => _ = self.descriptors.remove(&label),
        }
    }

    /// Sets a number. Pre: as [`set_descriptor`](Self::set_descriptor).
    pub fn set_number(&mut self, label: i32, number: i32) {
        self.numbers.insert(label, number);
    }

    /// The descriptors that were set, with their labels.
    pub fn descriptors(&self) -> impl Iterator<Item = (i32, &PackedDescriptor)> {
        self.descriptors.iter().map(|(&label, descriptor)| (label, descriptor))
    }

    /// The numbers that were set, with their labels.
    pub fn numbers(&self) -> impl Iterator<Item = (i32, i32)> {
        self.numbers.iter().map(|(&label, &number)| (label, number))
    }

    /// A descriptor, if it was set.
    pub fn descriptor(&self, label: i32) -> Option<&PackedDescriptor> {
        self.descriptors.get(&label)
    }

    /// A number, 0 before it is set.
    pub fn number(&self, label: i32) -> i32 {
        self.numbers.get(&label).copied().unwrap_or(0)
    }

    /// Whether no descriptor was set.
    pub fn is_empty(&self) -> bool {
        self.descriptors.is_empty()
    }

    /// A tensor, if it was set.
    pub fn tensor(&self, label: i32) -> Option<&TensorDescriptor> {
        match self.descriptor(label)? {
            PackedDescriptor::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

/// What a variant parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariantKind {
    /// A data pointer.
    Pointer,
    /// A `size_t`.
    Size,
    /// An `int64_t`.
    Count,
    /// A `double`.
    Real,
}

/// Variant parameters: data pointers as addresses, and scalars by their bits.
#[derive(Clone, Debug)]
pub struct VariantPack {
    /// The operation.
    pub operation: FusedOperation,
    values: BTreeMap<i32, u64>,
}

impl VariantPack {
    /// Nothing set.
    pub fn new(operation: FusedOperation) -> Self {
        VariantPack { operation, values: BTreeMap::new() }
    }

    /// What a parameter is.
    ///
    /// # Errors
    /// Bad parameter for one that the operation does not have.
    pub fn kind(&self, label: i32) -> Result<VariantKind> {
        self.operation.has(&VARIANTS, label)?;
        Ok(match label {
            100 => VariantKind::Size,
            101 => VariantKind::Count,
            102 | 103 => VariantKind::Real,
            _ => VariantKind::Pointer,
        })
    }

    /// Refuses what cannot be read: also every parameter of operation 3 (observed on 9.27.0).
    ///
    /// # Errors
    /// Bad parameter.
    pub fn kind_to_get(&self, label: i32) -> Result<VariantKind> {
        let kind = self.kind(label)?;
        if self.operation.number() == 3 {
            return Err(Error::argument("paramLabel", label.into(), "operation 3 cannot be read"));
        }
        Ok(kind)
    }

    /// Sets a value. Pre: [`kind`](Self::kind) has passed.
    pub fn set(&mut self, label: i32, value: u64) {
        self.values.insert(label, value);
    }

    /// The values that were set, with their labels.
    pub fn values(&self) -> impl Iterator<Item = (i32, u64)> {
        self.values.iter().map(|(&label, &value)| (label, value))
    }

    /// A value, 0 before it is set.
    pub fn value(&self, label: i32) -> u64 {
        self.values.get(&label).copied().unwrap_or(0)
    }
}

/// A plan: the operation, and once it is made, the parameters.
#[derive(Clone, Debug)]
pub struct FusedPlan {
    /// The operation.
    pub operation: FusedOperation,
    /// What the plan was made of.
    pub made: Option<ConstantPack>,
}
