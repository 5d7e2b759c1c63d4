//! What limits the scores of attention, `outer tanh(inner x)` or `outer tanh(x / inner)`, and its
//! derivative on the way back.

use std::sync::Arc;

use super::super::{Kind, Operation, Pointwise, Port, Tensor, mode};
use super::finder::{Finder, is_double, scaled};
use crate::dtype::DataType;
use crate::layout::Dims;

/// Whether an operation is the derivative of the hyperbolic tangent, by this tensor.
fn is_derivative(operation: &Operation, port: Port, tensor: &Tensor) -> bool {
    let is_of =
        |of: &Pointwise| of.mode == mode::TANH_BACKWARD && of.alpha == [1.0; 2] && !is_double(of.math);
    matches!(&operation.kind, Kind::Pointwise(of) if is_of(of))
        && operation.read(port).is_some_and(|own| own.uid == tensor.uid)
        && operation.read(Port::Dy).is_some_and(|dy| dy.uid != tensor.uid)
}

impl<'a> Finder<'a> {
    /// The operation that makes this of the hyperbolic tangent of something.
    pub fn tanh(&self, y: &Tensor) -> Option<usize> {
        let is_tanh = |of: &Pointwise| of.mode == mode::TANH && of.alpha[0] == 1.0 && !is_double(of.math);
        let kind = |at: &usize| &self.graph.operations[*at].kind;
        self.writer(y.uid).filter(|at| matches!(kind(at), Kind::Pointwise(of) if is_tanh(of)))
    }

    /// What is limited where the operation at a place multiplies what `tanh` makes: the operand of
    /// that over a number, or times a number.
    pub fn limited(&mut self, at: usize, y: &Arc<Tensor>, tanh: usize, dims: &Dims) -> Option<Arc<Tensor>> {
        let graph = self.graph;
        let x = graph.operations[tanh].read(Port::X)?;
        let is_whole = |of: &Arc<Tensor>| of.dims == *dims && of.data_type == DataType::Float.into();
        (self.wanted.changed && is_whole(x) && is_whole(y)).then_some(())?;
        // On the way back the derivative reads one of both, too.
        for (tensor, reader, port) in [(y, at, Port::Y), (x, tanh, Port::X)] {
            let mut others = self.readers(tensor);
            let own = others.iter().position(|&other| other == reader)?;
            others.remove(own);
            match others[..] {
                [] => {}
                [other] if self.bend.is_none() && is_derivative(&graph.operations[other], port, tensor) => {
                    self.bend = Some(other);
                }
                _ => return None,
            }
        }
        let inner = self.writer(x.uid)?;
        let operation = &graph.operations[inner];
        let Kind::Pointwise(of) = &operation.kind else { return None };
        self.of.divides = of.mode == mode::DIV;
        let is_plain =
            [mode::MUL, mode::DIV].contains(&of.mode) && of.alpha == [1.0; 2] && !is_double(of.math);
        is_plain.then_some(())?;
        let (x, number) = scaled(operation)?;
        // A number over scores is something else.
        let is_quotient = operation.read(Port::B)?.uid == number.uid;
        (is_quotient || !self.of.divides).then_some(())?;
        self.take(Port::Inner, number)?;
        self.members.extend([tanh, inner]);
        Some(Arc::clone(x))
    }

    /// The gradients of the tangent, of its operand, and of scores before the cap, from that of
    /// scores behind it.
    pub fn bent(&mut self, of_scores: &Arc<Tensor>, outer: &Tensor) -> Option<[&'a Arc<Tensor>; 3]> {
        let at = self.reader(of_scores)?;
        let [_, dy] = self.product_with(outer, at)?;
        let at = self.reader(dy).filter(|at| self.bend == Some(*at))?;
        let operation = &self.graph.operations[at];
        (operation.read(Port::Dy)?.uid == dy.uid && operation.reads.len() == 2).then_some(())?;
        self.members.push(at);
        let dx = operation.write(Port::Dx)?;
        let (inner, at) = (self.known(Port::Inner)?, self.reader(dx)?);
        let y = match self.of.divides {
            true => {
                let [x, b, y] = self.pointwise(at, mode::DIV, [1.0; 2])?;
                ([x.uid, b.uid] == [dx.uid, inner.uid]).then_some(y)?
            }
            false => self.product_with(&inner, at)?[1],
        };
        Some([dy, dx, y])
    }
}
