//! What multiplies the weights of attention before the values: random numbers or the caller's, and
//! one number for all.

use std::sync::Arc;

use super::super::expand::BERNOULLI;
use super::super::{Dropped, Kind, Operation, Port, Rng, Tensor, Type, mode};
use super::backward::Use;
use super::finder::{Finder, is_added, is_double, is_one};
use crate::dtype::DataType;

/// What an operation multiplies a tensor by, element by element.
fn other_factor<'a>(operation: &'a Operation, x: &Tensor) -> Option<&'a Arc<Tensor>> {
    let factors = [operation.read(Port::X)?, operation.read(Port::B)?];
    match factors.map(|factor| factor.uid == x.uid) {
        [true, false] => Some(factors[1]),
        [false, true] => Some(factors[0]),
        _ => None,
    }
}

impl<'a> Finder<'a> {
    /// Whether an operation multiplies weights by what is not made of other scores.
    pub fn drops(&self, (weights, at): &Use) -> bool {
        let operation = &self.graph.operations[*at];
        let is_product = matches!(&operation.kind, Kind::Pointwise(of) if of.mode == mode::MUL);
        let is_own = |other: &Arc<Tensor>| is_one(other) || !other.is_virtual || self.draws(other).is_some();
        is_product && other_factor(operation, weights).is_some_and(is_own)
    }

    /// The operation that draws such numbers.
    fn draws(&self, numbers: &Tensor) -> Option<usize> {
        let is_drawn = |kind: &Kind| matches!(kind, Kind::Rng(of) if of.distribution == BERNOULLI);
        self.writer(numbers.uid).filter(|&at| is_drawn(&self.graph.operations[at].kind))
    }

    /// What weights become before they are multiplied by a matrix, and where: what multiplies them,
    /// and what rounds them to a type, becomes a part of the attention.
    pub fn dropped(&mut self, mut weights: Use, own: Type) -> Option<Use> {
        loop {
            let (x, at) = &weights;
            let is_rounded = x.data_type == own || x.data_type == DataType::Float.into();
            let y = match &self.graph.operations[*at].kind {
                _ if !is_rounded => return None,
                Kind::Pointwise(of) if of.mode == mode::IDENTITY => {
                    self.pointwise(*at, mode::IDENTITY, [1.0; 2])?[2]
                }
                Kind::Pointwise(of) if of.mode == mode::MUL => {
                    let (x, at) = (Arc::clone(x), *at);
                    self.multiplied(&x, at)?
                }
                _ => break,
            };
            (y.dims == x.dims).then_some(())?;
            weights = (Arc::clone(y), self.reader(y)?);
        }
        // One number alone is no dropout.
        (self.of.dropout.is_some() == self.kept.is_some()).then_some(weights)
    }

    /// What the product of weights with a tensor at this place is, if that is a part of dropout.
    fn multiplied(&mut self, weights: &Tensor, at: usize) -> Option<&'a Arc<Tensor>> {
        let operation = &self.graph.operations[at];
        let Kind::Pointwise(of) = &operation.kind else { return None };
        let (other, factor) = (other_factor(operation, weights)?, of.alpha[0] * of.alpha[1]);
        (self.wanted.changed && !is_double(of.math) && !is_double(other.data_type)).then_some(())?;
        let mut dropout = self.of.dropout.take().unwrap_or(Dropped { drawn: None, factor: 1.0 });
        if is_one(other) {
            self.known(Port::KeptFactor).is_none().then_some(())?;
            self.take(Port::KeptFactor, other)?;
        } else {
            self.kept.is_none().then_some(())?;
            dropout.drawn = match self.draws(other).filter(|_| other.is_virtual) {
                Some(drawn) => Some(self.take_numbers(drawn, weights)?),
                None => {
                    is_added(other, &weights.dims).then_some(())?;
                    self.take(Port::Kept, other)?;
                    None
                }
            };
            self.kept = Some(Arc::clone(other));
        }
        dropout.factor *= factor;
        (dropout.factor == 1.0 || self.known(Port::KeptFactor).is_none()).then_some(())?;
        self.of.dropout = Some(dropout);
        self.members.push(at);
        operation.write(Port::Y)
    }

    /// Draws the random numbers of these weights, as the operation at a place does.
    fn take_numbers(&mut self, at: usize, weights: &Tensor) -> Option<Rng> {
        let operation = &self.graph.operations[at];
        let Kind::Rng(of) = &operation.kind else { return None };
        (operation.write(Port::Y)?.dims == weights.dims).then_some(())?;
        for port in [Port::Seed, Port::Offset] {
            operation.read(port).map_or(Some(()), |number| self.take(port, number))?;
        }
        self.members.push(at);
        Some(of.clone())
    }

    /// Whether nothing else reads random numbers that the attention draws itself.
    pub fn draws_alone(&self) -> bool {
        let readers = self.kept.as_ref().map_or(Vec::new(), |kept| self.readers(kept));
        readers.iter().all(|reader| self.members.contains(reader))
    }
}
