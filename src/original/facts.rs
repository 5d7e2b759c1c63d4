//! What the descriptors of a call have in common: what cases of the route ask for, and what tells
//! one problem from another.

use super::cases::{AVERAGES, NCHW, NHWC};
use super::type_code::type_code;
use crate::desc::{
    Choice, ConvolutionDescriptor, FilterDescriptor, Format, PoolingDescriptor, PoolingMode,
    ReduceDescriptor, TensorDescriptor,
};
use crate::mode::Mode;

/// What is known of a descriptor, or of all descriptors of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// A bit for the number of each element type.
    pub types: u32,
    /// The traits that all of them have, of those of `cases.rs`.
    pub traits: u8,
    /// Tells the content of descriptors from another's; 0 for those that no size depends on.
    pub fingerprint: u64,
}

impl Facts {
    /// Of no descriptor: every trait.
    pub const NONE: Facts = Facts { types: 0, traits: NCHW | NHWC | AVERAGES, fingerprint: 0 };

    /// Of these and one more.
    pub fn and(self, other: Facts) -> Facts {
        Facts {
            types: self.types | other.types,
            traits: self.traits & other.traits,
            fingerprint: self.fingerprint,
        }
    }
}

/// FNV-1a of numbers.
fn fingerprint(numbers: impl IntoIterator<Item = i64>) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    let mix = |hash: u64, number: i64| (hash ^ number as u64).wrapping_mul(PRIME).rotate_left(29);
    numbers.into_iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Of a tensor: its type, and the orders of dimensions that its strides are packed in. Where an
/// extent is 1 its stride does not count.
pub(super) fn of_tensor(tensor: &TensorDescriptor) -> Facts {
    let code = type_code(tensor.data_type());
    let (dims, strides) = (tensor.dims(), tensor.strides());
    let is_packed = |format| {
        TensorDescriptor::with_format(tensor.data_type(), format, dims.rank() as i64, &dims, Mode::Extended)
            .is_ok_and(|packed| {
                let packed = packed.strides();
                (0..dims.rank()).all(|axis| dims[axis] == 1 || packed[axis] == strides[axis])
            })
    };
    let mut traits = AVERAGES;
    if tensor.vector().is_none() {
        for (order, format) in [(NCHW, Format::Nchw), (NHWC, Format::Nhwc)] {
            traits |= if is_packed(format) { order } else { 0 };
        }
    }
    let numbers = [i64::from(code), tensor.vector().unwrap_or(0)];
    let numbers = numbers.into_iter().chain(dims.iter().copied()).chain(strides.iter().copied());
    Facts { types: 1 << code, traits, fingerprint: fingerprint(numbers) }
}

/// Of a filter: what tells it from others.
pub(super) fn of_filter(filter: &FilterDescriptor) -> Facts {
    let code = type_code(filter.data_type());
    let numbers = [i64::from(code), i64::from(filter.format().code())];
    Facts {
        fingerprint: fingerprint(numbers.into_iter().chain(filter.dims().iter().copied())),
        ..Facts::NONE
    }
}

/// Of a convolution: what tells it from others.
pub(super) fn of_convolution(convolution: &ConvolutionDescriptor) -> Facts {
    let geometry = &convolution.geometry;
    let numbers = [
        i64::from(geometry.mode().code()),
        i64::from(type_code(geometry.compute_type())),
        i64::from(convolution.groups),
        i64::from(convolution.math_type.code()),
        i64::from(convolution.reorder.code()),
    ];
    let spatial = [geometry.padding(), geometry.strides(), geometry.dilation()];
    let spatial = spatial.iter().flat_map(|values| values.iter().copied());
    Facts { fingerprint: fingerprint(numbers.into_iter().chain(spatial)), ..Facts::NONE }
}

/// Of a reduction: what tells it from others.
pub(super) fn of_reduction(reduction: &ReduceDescriptor) -> Facts {
    let numbers = [reduction.op.code(), type_code(reduction.compute_type), reduction.indices.code()];
    Facts { fingerprint: fingerprint(numbers.map(i64::from)), ..Facts::NONE }
}

/// Of a pooling: whether it averages.
pub(super) fn of_pooling(pooling: &PoolingDescriptor) -> Facts {
    let averages = !matches!(pooling.mode(), PoolingMode::Max | PoolingMode::MaxDeterministic);
    let lacks = if averages { 0 } else { AVERAGES };
    Facts { traits: Facts::NONE.traits & !lacks, ..Facts::NONE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType;

    fn tensor(format: Format, dims: &[i64]) -> TensorDescriptor {
        TensorDescriptor::with_format(DataType::Float, format, dims.len() as i64, dims, Mode::Extended)
            .expect("valid")
    }

    #[test]
    fn orders_are_those_that_every_tensor_has() {
        let order = |tensor: &TensorDescriptor| of_tensor(tensor).traits & (NCHW | NHWC);
        let (planes, pixels) = (tensor(Format::Nchw, &[2, 3, 4, 5]), tensor(Format::Nhwc, &[2, 3, 4, 5]));
        assert_eq!([order(&planes), order(&pixels)], [NCHW, NHWC]);
        // One of both, as parameters of a normalisation are.
        assert_eq!(order(&tensor(Format::Nchw, &[1, 3, 1, 1])), NCHW | NHWC);
        let apart = TensorDescriptor::with_strides(
            DataType::Float,
            4,
            &[2, 3, 4, 5],
            &[120, 40, 10, 2],
            Mode::Extended,
        );
        assert_eq!(order(&apart.expect("valid")), 0);
        assert_eq!(of_tensor(&planes).and(of_tensor(&pixels)).traits & (NCHW | NHWC), 0);
        assert_eq!(of_tensor(&planes).types, 1);
    }

    #[test]
    fn fingerprints_tell_contents_apart() {
        let fingerprints: Vec<u64> = [[2, 3, 4, 5], [3, 2, 4, 5], [2, 3, 5, 4]]
            .iter()
            .flat_map(|dims| {
                [Format::Nchw, Format::Nhwc].map(|format| of_tensor(&tensor(format, dims)).fingerprint)
            })
            .collect();
        for (i, fingerprint) in fingerprints.iter().enumerate() {
            assert!(!fingerprints[i + 1..].contains(fingerprint));
        }
        assert_eq!(fingerprints[0], of_tensor(&tensor(Format::Nchw, &[2, 3, 4, 5])).fingerprint);
    }
}
