//! A graph under other extents: those that a variant pack gives to some tensors, and those that
//! follow for virtual tensors.

use std::collections::HashMap;
use std::sync::Arc;

use super::dag::Dag;
use super::{
    Attention, Convolution, Direction, Graph, Kind, Link, Modifier, Operation, Port, Ragged, Tensor,
};
use crate::error::{Error, Result};
use crate::layout::{Dims, MAX_RANK};
use crate::ops::agree;

/// The extents and strides that a tensor has in one execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Its uid.
    pub uid: i64,
    /// Extents, as many as in the graph.
    pub dims: Vec<i64>,
    /// Strides, one per extent.
    pub strides: Vec<i64>,
}

/// Extents and strides by uid, of those that are not as in the graph.
type Changed = HashMap<i64, (Dims, Dims)>;

impl Graph {
    /// The graph with these extents. Ids that it does not have are ignored, as everywhere in a
    /// pack.
    ///
    /// # Errors
    /// Bad parameter: another number of extents or strides than in the graph, a negative one. Not
    /// supported: a virtual tensor whose extents do not follow from those of other tensors.
    pub fn overridden(&self, overrides: &[Override]) -> Result<Graph> {
        let mut changed = Changed::new();
        for of in overrides {
            let of = &self.in_full(of);
            let fits = |values: &[i64]| values.len() <= MAX_RANK && values.iter().all(|&value| value >= 0);
            if of.dims.len() != of.strides.len() || !fits(&of.dims) || !fits(&of.strides) {
                let (uid, dims, strides) = (of.uid, &of.dims, &of.strides);
                let text =
                    format!("tensor {uid} cannot have the extents {dims:?} and the strides {strides:?}");
                return Err(Error::mismatch(text));
            }
            changed.insert(of.uid, (Dims::new(&of.dims), Dims::new(&of.strides)));
        }
        let links = self.operations.iter().flat_map(Operation::links);
        for tensor in links.map(|link| &link.tensor) {
            if let Some((dims, _)) = changed.get(&tensor.uid)
                && dims.rank() != tensor.dims.rank()
            {
                let (uid, rank) = (tensor.uid, tensor.dims.rank());
                return Err(Error::mismatch(format!(
                    "tensor {uid} has {rank} dimensions, not {}",
                    dims.rank()
                )));
            }
        }
        Ok(Graph { operations: follow(&self.operations, &mut changed)? })
    }
}

impl Graph {
    /// An override in as many dimensions as the tensor has: of packed sequences clients give what
    /// they hold, of tokens, heads and width. Where a batch begins its offsets say, and so tokens
    /// are the rows of every batch.
    fn in_full(&self, of: &Override) -> Override {
        let links = self.operations.iter().flat_map(Operation::links);
        let tensor = links.map(|link| &link.tensor).find(|tensor| tensor.uid == of.uid);
        let Some(tensor) = tensor.filter(|tensor| tensor.ragged.is_some() && tensor.dims.rank() == 4) else {
            return of.clone();
        };
        let &[token, head, column] = &of.strides[..] else { return of.clone() };
        let dims = match of.dims[..] {
            [_, heads, width] => vec![tensor.dims[0], heads, tensor.dims[2], width],
            _ => of.dims.clone(),
        };
        let rows = dims.get(2).copied().unwrap_or(1);
        Override { uid: of.uid, dims, strides: vec![rows.saturating_mul(token), head, token, column] }
    }
}

/// The operations under changed extents, to which those of virtual tensors are added.
fn follow(operations: &[Operation], changed: &mut Changed) -> Result<Vec<Operation>> {
    let graph = Graph { operations: operations.to_vec() };
    for operation in &Dag::new(&graph)?.operations {
        for Link { port, tensor } in &operation.writes {
            if !tensor.is_virtual || changed.contains_key(&tensor.uid) {
                continue;
            }
            let dims = result(operation, *port, tensor, changed)?;
            if dims != tensor.dims {
                changed.insert(tensor.uid, (dims, ordered(&dims, &tensor.strides)));
            }
        }
    }
    operations.iter().map(|operation| under(operation, changed)).collect()
}

/// An operation on tensors of changed extents.
fn under(operation: &Operation, changed: &Changed) -> Result<Operation> {
    let links = |links: &[Link]| {
        let link = |link: &Link| Link { port: link.port, tensor: tensor_under(&link.tensor, changed) };
        links.iter().map(link).collect()
    };
    let inside = |of: &Attention| -> Result<Attention> {
        let Some(modifier) = &of.modifier else { return Ok(of.clone()) };
        let mut changed = changed.clone();
        let (q, k) = (operation.read(Port::Q), operation.read(Port::K));
        if let (Some(q), Some(k)) = (q, k) {
            let (q, k) = (extents(q, &changed), extents(k, &changed));
            if let (&[batch, heads, rows, _], &[_, _, columns, _]) = (&*q, &*k) {
                let dims = Dims::new(&[batch, heads, rows, columns]);
                changed.insert(modifier.input, (dims, agree::row_major(&dims)));
            }
        }
        let operations = follow(&modifier.operations, &mut changed)?;
        Ok(Attention { modifier: Some(Modifier { operations, ..modifier.clone() }), ..of.clone() })
    };
    let kind = match &operation.kind {
        Kind::AttentionForward(of) => Kind::AttentionForward(inside(of)?),
        Kind::AttentionBackward(of) => Kind::AttentionBackward(inside(of)?),
        other => other.clone(),
    };
    Ok(Operation { kind, reads: links(&operation.reads), writes: links(&operation.writes) })
}

fn tensor_under(tensor: &Arc<Tensor>, changed: &Changed) -> Arc<Tensor> {
    let own = match changed.get(&tensor.uid) {
        Some(&(dims, strides)) => Arc::new(Tensor { dims, strides, ..(**tensor).clone() }),
        None => Arc::clone(tensor),
    };
    let Some(Ragged { offset, multiplier }) = &own.ragged else { return own };
    let ragged = Some(Ragged { offset: tensor_under(offset, changed), multiplier: *multiplier });
    Arc::new(Tensor { ragged, ..(*own).clone() })
}

fn extents(tensor: &Tensor, changed: &Changed) -> Dims {
    changed.get(&tensor.uid).map_or(tensor.dims, |&(dims, _)| dims)
}

/// Strides without gaps, in the order of these.
fn ordered(dims: &Dims, strides: &Dims) -> Dims {
    let mut axes: Vec<usize> = (0..dims.rank()).collect();
    let (mut packed, mut step) = (*strides, 1_i64);
    // Of equal strides, which axes of one element have, the outer ones come last.
    axes.sort_by_key(|&axis| (strides[axis], usize::MAX - axis));
    for axis in axes {
        packed[axis] = step;
        step = step.saturating_mul(dims[axis].max(1));
    }
    packed
}

/// The extents of a result.
///
/// # Errors
/// Not supported if they do not follow from those of what is read.
fn result(operation: &Operation, port: Port, tensor: &Tensor, changed: &Changed) -> Result<Dims> {
    let is_same = |link: &Link| extents(&link.tensor, changed) == link.tensor.dims;
    if operation.reads.iter().all(is_same) {
        return Ok(tensor.dims);
    }
    let of = |port: Port| operation.read(port).map(|tensor| extents(tensor, changed));
    let unknown = || {
        Error::unsupported(format!(
            "{}: the extents of {}, the virtual tensor {}, do not follow from those that the pack gives; it has to give these, too",
            operation.kind.name(),
            port.name(),
            tensor.uid
        ))
    };
    match &operation.kind {
        Kind::Pointwise(_) => Ok(broadcast(operation.reads.iter(), tensor, changed)),
        Kind::Matmul(_) => {
            let factors = operation.reads.iter().filter(|link| matches!(link.port, Port::A | Port::B));
            let mut dims = broadcast(factors, tensor, changed);
            let (Some(a), Some(b), rank @ 2..) = (of(Port::A), of(Port::B), dims.rank()) else {
                return Err(unknown());
            };
            dims[rank - 2] = *a.get(rank - 2).ok_or_else(unknown)?;
            dims[rank - 1] = *b.get(rank - 1).ok_or_else(unknown)?;
            Ok(dims)
        }
        // The scales have extents of their own.
        Kind::Dequantize(_) => of(Port::X).ok_or_else(unknown),
        Kind::Convolution(settings) if settings.direction == Direction::Forward => {
            let (Some(x), Some(w)) = (of(Port::X), of(Port::W)) else { return Err(unknown()) };
            convolved(settings, &x, &w).ok_or_else(unknown)
        }
        Kind::Reduction(_)
        | Kind::Softmax(_)
        | Kind::NormForward(_)
        | Kind::NormBackward(_)
        | Kind::GenStats(_)
        | Kind::BandMask(_)
        | Kind::RopeForward(_)
        | Kind::RopeBackward(_) => Ok(along(operation, tensor, changed)),
        _ => Err(unknown()),
    }
}

/// What operands broadcast to; an extent of the result that no operand has stays.
fn broadcast<'a>(links: impl Iterator<Item = &'a Link> + Clone, tensor: &Tensor, changed: &Changed) -> Dims {
    let mut dims = tensor.dims;
    let rank = dims.rank();
    let alike = || links.clone().filter(|link| link.tensor.dims.rank() == rank).map(|link| &*link.tensor);
    for axis in 0..rank {
        let own = alike().map(|operand| operand.dims[axis]);
        let new = alike().map(|operand| extents(operand, changed)[axis]);
        let joined = |a: i64, b: i64| if a == 1 { b } else { a };
        if own.reduce(joined) == Some(dims[axis]) {
            dims[axis] = new.reduce(joined).unwrap_or(dims[axis]);
        }
    }
    dims
}

/// Extents that are those of an operand stay those of it.
fn along(operation: &Operation, tensor: &Tensor, changed: &Changed) -> Dims {
    let mut dims = tensor.dims;
    let rank = dims.rank();
    for link in operation.reads.iter().filter(|link| link.tensor.dims.rank() == rank) {
        let new = extents(&link.tensor, changed);
        for axis in 0..rank {
            let own = link.tensor.dims[axis];
            if own != 1 && own == tensor.dims[axis] && new[axis] != own {
                dims[axis] = new[axis];
            }
        }
    }
    dims
}

/// The extents of a convolution's result.
fn convolved(of: &Convolution, x: &Dims, w: &Dims) -> Option<Dims> {
    let (rank, named) = (x.rank(), of.spatial.strides.rank());
    let first = rank.checked_sub(named).filter(|&first| first >= 2 && w.rank() == rank)?;
    let mut dims = *x;
    dims[1] = w[0];
    for axis in first..rank {
        let at = axis - first;
        let reach = (w[axis] - 1).checked_mul(of.spatial.dilation[at])?;
        let inside = x[axis] + of.spatial.before[at] + of.spatial.after[at] - reach - 1;
        dims[axis] = if inside < 0 { return None } else { inside / of.spatial.strides[at] + 1 };
    }
    Some(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_keep_their_order() {
        let channels_last = Dims::new(&[60, 1, 15, 3]);
        assert_eq!(ordered(&Dims::new(&[2, 3, 2, 5]), &channels_last), Dims::new(&[30, 1, 15, 3]));
        assert_eq!(ordered(&Dims::new(&[2, 1, 3]), &Dims::new(&[4, 4, 1])), Dims::new(&[3, 3, 1]));
    }
}
