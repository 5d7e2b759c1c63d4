//! What is added to the scores of attention: a tensor of the caller's, or a slope of each head
//! times the distance of key and query (ALiBi), as cudnn-frontend makes it of indices.

use std::sync::Arc;

use super::super::{Kind, Port, Tensor, mode};
use super::finder::{COLUMNS, Finder, HEADS, ROWS, is_added, is_double};
use crate::dtype::DataType;
use crate::layout::Dims;

impl Finder<'_> {
    /// What the sum at a place is of, beside a bias or slopes of scores of these extents, which
    /// become a part of the attention.
    pub fn added(&mut self, at: usize, dims: &Dims) -> Option<Arc<Tensor>> {
        let operation = &self.graph.operations[at];
        let (x, b) = (operation.read(Port::X)?, operation.read(Port::B)?);
        for (scores, other) in [(x, b), (b, x)] {
            if let Some((slopes, members)) = self.leaning(other, at, dims) {
                (!self.has(Port::Slopes)).then_some(())?;
                self.take(Port::Slopes, &slopes)?;
                self.members.extend(&members);
                // Indices are made by operations that say by the scores which there are.
                self.aside.extend(members);
                return Some(Arc::clone(scores));
            }
        }
        let (scores, bias) = if x.is_virtual { (x, b) } else { (b, x) };
        (is_added(bias, dims) && !self.has(Port::Bias)).then_some(())?;
        self.take(Port::Bias, bias)?;
        Some(Arc::clone(scores))
    }

    /// The slopes by which a sum's operand grows from key to key, and the operations that make it,
    /// if it is such a one.
    fn leaning(&self, added: &Tensor, sum: usize, dims: &Dims) -> Option<(Arc<Tensor>, Vec<usize>)> {
        let graph = self.graph;
        let pointwise = |at: usize, wanted: i32| match &graph.operations[at].kind {
            Kind::Pointwise(of) if of.mode == wanted && of.alpha == [1.0; 2] => Some(of),
            _ => None,
        };
        let product = self.writer_for(added, sum)?;
        let operation = &graph.operations[product];
        let is_plain = !is_double(pointwise(product, mode::MUL)?.math);
        (is_plain && added.data_type == DataType::Float.into()).then_some(())?;
        let (x, b) = (operation.read(Port::X)?, operation.read(Port::B)?);
        let (distance, slopes) = if x.is_virtual { (x, b) } else { (b, x) };
        (*slopes.dims == [1, dims[HEADS], 1, 1] && is_added(slopes, dims)).then_some(())?;
        let difference = self.writer_for(distance, product)?;
        pointwise(difference, mode::SUB)?;
        let mut members = vec![product, difference];
        // Of these types all differences are exact.
        let is_exact = |x: &Tensor| {
            [DataType::Int32, DataType::Int64, DataType::Float].iter().any(|&of| x.data_type == of.into())
        };
        is_exact(distance).then_some(())?;
        for (port, axis) in [(Port::X, COLUMNS), (Port::B, ROWS)] {
            let index = graph.operations[difference].read(port)?;
            let at = self.writer_for(index, difference)?;
            let is_whole = index.dims.rank() == dims.rank() && index.dims[axis] == dims[axis];
            let is_of_axis = pointwise(at, mode::GEN_INDEX)?.axis == Some(axis as i64);
            (is_exact(index) && is_whole && is_of_axis).then_some(())?;
            members.push(at);
        }
        Some((Arc::clone(slopes), members))
    }
}
