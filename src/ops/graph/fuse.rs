//! What follows a product, computed before it is stored: sums with other tensors, and an
//! activation.
//!
//! A product whose result only one operation reads takes up to two sums and an activation that
//! follow each other. The bits are those of the single operations: these round to FLOAT between
//! them, and so does the epilogue of a product after each of its terms. A result of HALF or
//! BFLOAT16 between them would be rounded once more, and stays a tensor of its own.

use std::sync::Arc;

use super::dag::Dag;
use super::lower;
use super::{Direction, Fused, Graph, Kind, Operation, Pointwise, Port, Tensor, Type, mode};
use crate::dtype::DataType;
use crate::ops::activation::Activation;

/// Which operations are computed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fusion {
    /// None.
    None,
    /// Products with what the epilogue of any core computes.
    Products,
    /// Products with all that the epilogue of the CPU core computes.
    All,
}

/// The graph in which products are one with what follows them; `None` if nothing does.
pub(super) fn fused(graph: &Graph, fusion: Fusion) -> Option<Graph> {
    if fusion == Fusion::None {
        return None;
    }
    let mut operations: Vec<Operation> = Dag::new(graph).ok()?.operations.into_iter().cloned().collect();
    let (mut at, mut fuses) = (0, false);
    while at < operations.len() {
        if let Some((operation, followers)) = with_followers(&operations, at, fusion) {
            fuses = true;
            // Followers come later.
            operations[at] = operation;
            followers.iter().rev().for_each(|&place| drop(operations.remove(place)));
        }
        at += 1;
    }
    fuses.then_some(Graph { operations })
}

/// A product with those that follow it, and their places in ascending order; `None` if none does.
fn with_followers(operations: &[Operation], at: usize, fusion: Fusion) -> Option<(Operation, Vec<usize>)> {
    let product = &operations[at];
    let port = match &product.kind {
        Kind::Matmul(_) if product.reads.len() == 2 => Port::C,
        Kind::Convolution(of) if of.direction == Direction::Forward && of.beta == 0.0 => Port::Y,
        _ => return None,
    };
    if lower::is_wide(product) || !product.reads.iter().all(|link| is_single(&link.tensor)) {
        return None;
    }
    let mut result = Arc::clone(product.write(port)?);
    let dims = result.dims;
    let (mut terms, mut activation, mut places) = (Vec::new(), None, Vec::new());
    while activation.is_none() && result.is_virtual && result.data_type == DataType::Float.into() {
        let Some(place) = only_reader(operations, result.uid) else { break };
        let follower = &operations[place];
        let Kind::Pointwise(of) = &follower.kind else { break };
        let Some(y) = follower.write(Port::Y).filter(|y| y.dims == dims && is_single(y)) else { break };
        if lower::is_wide(follower) {
            break;
        }
        if let Some(term) = term(follower, of, &result).filter(|term| terms.len() < 2 && is_single(term)) {
            terms.push(Arc::clone(term));
        } else if let Some(function) = activation_of(follower, of, fusion) {
            activation = Some(function);
        } else {
            break;
        }
        result = Arc::clone(y);
        places.push(place);
    }
    if places.is_empty() {
        return None;
    }
    let mut reads: Vec<(Port, &Arc<Tensor>)> =
        product.reads.iter().map(|link| (link.port, &link.tensor)).collect();
    // The epilogue adds them in this order.
    let ports = if terms.len() == 2 { &[Port::Residual, Port::Bias][..] } else { &[Port::Bias] };
    reads.extend(ports.iter().copied().zip(&terms));
    let kind = Kind::Fused(Box::new(Fused { product: product.kind.clone(), activation }));
    Some((Operation::new(kind, &reads, &[(port, &result)]), places))
}

/// Whether binary32 holds every element.
fn is_single(tensor: &Tensor) -> bool {
    let types = [DataType::Float, DataType::Half, DataType::Bfloat16];
    tensor.vector.is_none() && types.iter().any(|&of| tensor.data_type == Type::from(of))
}

/// The one operation that reads a tensor, as one operand.
fn only_reader(operations: &[Operation], uid: i64) -> Option<usize> {
    let reads = |operation: &Operation| operation.reads.iter().filter(|link| link.tensor.uid == uid).count();
    let mut readers = (0..operations.len()).filter(|&at| reads(&operations[at]) > 0);
    let first = readers.next()?;
    (readers.next().is_none() && reads(&operations[first]) == 1).then_some(first)
}

/// What a sum adds to a result: a tensor of as many dimensions, each of which it has whole or
/// repeats.
fn term<'a>(operation: &'a Operation, of: &Pointwise, result: &Tensor) -> Option<&'a Arc<Tensor>> {
    if of.mode != mode::ADD || of.alpha != [1.0; 2] {
        return None;
    }
    let other = &operation.reads.iter().find(|link| link.tensor.uid != result.uid)?.tensor;
    let (own, whole) = (&other.dims, &result.dims);
    let repeats = own.rank() == whole.rank() && own.iter().zip(whole.iter()).all(|(&a, &b)| a == b || a == 1);
    repeats.then_some(other)
}

/// The activation that an operation is, if an epilogue computes it.
fn activation_of(operation: &Operation, of: &Pointwise, fusion: Fusion) -> Option<Activation> {
    let (function, parameter) = lower::activation(of)?;
    // The CUDA core has no others in its epilogue.
    let is_known = fusion == Fusion::All || function.row().slope.is_some();
    let is_plain = operation.reads.len() == 1 && of.alpha[0] == 1.0;
    (is_known && is_plain).then_some(Activation { function, parameter })
}
