//! Of which dimensions an operation needs all, and which may be cut into blocks.

use super::super::{Kind, Norm, Operation, Port, Tensor, Type, lower, mode};
use crate::layout::Dims;

/// The extents of what operations compute, and which dimensions they need whole.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    /// Extents of the largest tensor.
    pub extents: Dims,
    /// Whether a block has all of a dimension.
    pub whole: Vec<bool>,
    /// The uids of results that are sums over all blocks.
    pub sums: Vec<i64>,
}

impl Shape {
    /// Elements of the dimensions that are whole.
    pub fn row(&self) -> i64 {
        self.extents.iter().zip(&self.whole).filter(|(_, whole)| **whole).map(|(&extent, _)| extent).product()
    }

    /// Whether blocks write elements of their own of a tensor.
    pub fn is_apart(&self, tensor: &Tensor) -> bool {
        let (dims, extents) = (&tensor.dims, &self.extents);
        dims.rank() == extents.rank()
            && (0..extents.rank()).all(|axis| self.whole[axis] || dims[axis] == extents[axis])
    }

    /// Whether all blocks have the same elements of a tensor.
    pub fn is_of_no_block(&self, tensor: &Tensor) -> bool {
        let (dims, rank) = (&tensor.dims, self.extents.rank());
        dims.rank() == rank && (0..rank).all(|axis| self.whole[axis] || dims[axis] == 1)
    }

    /// The shape of operations of both: where one has 1 and the other one more, that dimension is
    /// whole. `None` if they do not fit.
    pub fn with(&self, other: &Shape) -> Option<Shape> {
        let mut both = self.clone();
        if self.extents.rank() != other.extents.rank() {
            return None;
        }
        for axis in 0..self.extents.rank() {
            let (one, two) = (self.extents[axis], other.extents[axis]);
            if one != two && one != 1 && two != 1 {
                return None;
            }
            both.extents[axis] = one.max(two);
            both.whole[axis] |= other.whole[axis] || one != two;
        }
        both.sums.extend(&other.sums);
        Some(both)
    }
}

/// The shape of an operation that computes each block of its results of the same blocks of its
/// operands; `None` if it does not.
pub(super) fn local(operation: &Operation) -> Option<Shape> {
    let main = match &operation.kind {
        Kind::Pointwise(_) => operation.write(Port::Y).or_else(|| operation.write(Port::Dx))?,
        Kind::Reduction(_) if operation.reads.len() == 1 => operation.read(Port::X)?,
        Kind::NormForward(_) | Kind::NormBackward(_) | Kind::Softmax(_) => operation.read(Port::X)?,
        _ => return None,
    };
    let extents = main.dims;
    let mut whole = vec![false; extents.rank()];
    match &operation.kind {
        Kind::Pointwise(of) if of.mode == mode::GEN_INDEX => {
            *usize::try_from(of.axis?).ok().and_then(|axis| whole.get_mut(axis))? = true;
        }
        Kind::NormForward(of) | Kind::NormBackward(of) => joined(of, operation, &extents, &mut whole)?,
        Kind::Softmax(_) => *whole.last_mut()? = true,
        _ => {}
    }
    for link in operation.links() {
        let tensor = &link.tensor;
        if !is_plain(tensor) {
            return None;
        }
        if tensor.dims.iter().all(|&dim| dim == 1) && tensor.dims.rank() != extents.rank() {
            continue;
        }
        if tensor.dims.rank() != extents.rank() {
            return None;
        }
        for (axis, (&own, &extent)) in tensor.dims.iter().zip(extents.iter()).enumerate() {
            if own != extent && (own != 1 || matches!(operation.kind, Kind::Reduction(_))) {
                whole[axis] = true;
            }
        }
    }
    let mut shape = Shape { extents, whole, sums: Vec::new() };
    for link in &operation.writes {
        if shape.is_apart(&link.tensor) {
            continue;
        }
        let is_sum = matches!(link.port, Port::Dscale | Port::Dbias) && shape.is_of_no_block(&link.tensor);
        is_sum.then(|| shape.sums.push(link.tensor.uid))?;
    }
    Some(shape)
}

/// Whether the elements of a tensor lie where its strides say, one by one.
fn is_plain(tensor: &Tensor) -> bool {
    let is_known = matches!(tensor.data_type, Type::Known(data_type) if data_type.lanes() == 1);
    is_known
        && tensor.vector.is_none()
        && tensor.reorder == 0
        && tensor.ragged.is_none()
        && tensor.dims.iter().all(|&dim| dim > 0)
}

/// Marks the dimensions that a normalisation joins; `None` where its statistics are more than those
/// of its rows.
fn joined(of: &Norm, operation: &Operation, extents: &Dims, whole: &mut [bool]) -> Option<()> {
    if operation.read(Port::Peer).is_some() {
        return None;
    }
    let of_rows = |port| operation.read(port).or_else(|| operation.write(port));
    let told = of_rows(Port::InverseVariance).or_else(|| of_rows(Port::Mean));
    let statistics = match told {
        Some(told) => told.dims,
        None => lower::statistics(of, extents, operation.read(Port::Scale).map(|scale| &scale.dims)).ok()?,
    };
    if statistics.rank() != extents.rank() {
        return None;
    }
    for (axis, whole) in whole.iter_mut().enumerate() {
        *whole |= statistics[axis] != extents[axis];
    }
    Some(())
}
