//! The order of virtual tensors in memory: that of the caller's tensors which they are computed
//! with.
//!
//! cudnn-frontend gives virtual tensors strides of its own, channels innermost mostly, whatever the
//! order of the tensors around them. Where only operations read and write one that find elements by
//! their indices, nobody sees its strides, and it is packed in the order of those.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Graph, Kind, Operation, Tensor};
use crate::layout::Dims;

/// The graph with its virtual tensors in that order.
pub(super) fn arranged(graph: Cow<'_, Graph>) -> Cow<'_, Graph> {
    let changed = strides(&graph);
    if changed.is_empty() {
        return graph;
    }
    let mut graph = graph.into_owned();
    for operation in &mut graph.operations {
        for link in operation.reads.iter_mut().chain(&mut operation.writes) {
            if let Some(&strides) = changed.get(&link.tensor.uid) {
                link.tensor = Arc::new(Tensor { strides, ..(*link.tensor).clone() });
            }
        }
    }
    Cow::Owned(graph)
}

/// The new strides, by uid, of virtual tensors that lie in another order.
fn strides(graph: &Graph) -> HashMap<i64, Dims> {
    // Tensors of operations that look at memory, and those that are described in several ways.
    let mut fixed: HashSet<i64> = HashSet::new();
    let mut tensors: HashMap<i64, &Tensor> = HashMap::new();
    for operation in &graph.operations {
        for link in operation.links() {
            let tensor = &*link.tensor;
            let known = *tensors.entry(tensor.uid).or_insert(tensor);
            let is_same = known.dims == tensor.dims && known.strides == tensor.strides;
            if !is_same || !is_by_index(operation) || !is_plain(tensor) {
                fixed.insert(tensor.uid);
            }
        }
    }
    let mut free: Vec<&Tensor> =
        tensors.values().copied().filter(|of| of.is_virtual && !fixed.contains(&of.uid)).collect();
    free.sort_unstable_by_key(|tensor| tensor.uid);
    if free.is_empty() {
        return HashMap::new();
    }
    // From results backwards, then from operands on: what the caller reads counts first.
    let mut known: HashMap<i64, Dims> = HashMap::new();
    for tensor in tensors.values().filter(|tensor| !tensor.is_virtual && is_plain(tensor)) {
        if tensor.dims.iter().zip(tensor.strides.iter()).all(|(&dim, &stride)| dim <= 1 || stride > 0) {
            known.insert(tensor.uid, tensor.strides);
        }
    }
    for backwards in [true, false] {
        while spread(graph, &free, &mut known, backwards) {}
    }
    let own = |tensor: &&Tensor| {
        let strides = packed_as(&tensor.dims, known.get(&tensor.uid)?);
        (strides != tensor.strides).then_some((tensor.uid, strides))
    };
    free.iter().filter_map(own).collect()
}

/// Gives free tensors the order of tensors of their dims that are written, or read, where they are
/// read, or written, element by element; whether there was one.
fn spread(graph: &Graph, free: &[&Tensor], known: &mut HashMap<i64, Dims>, backwards: bool) -> bool {
    let before = known.len();
    for operation in graph.operations.iter().filter(|operation| is_by_element(operation)) {
        let (from, to) = match backwards {
            true => (&operation.writes, &operation.reads),
            false => (&operation.reads, &operation.writes),
        };
        for link in to.iter().filter(|link| free.iter().any(|tensor| tensor.uid == link.tensor.uid)) {
            let tensor = &link.tensor;
            let found = from
                .iter()
                .find_map(|of| known.get(&of.tensor.uid).filter(|_| of.tensor.dims == tensor.dims))
                .copied();
            if let Some(strides) = found {
                known.entry(tensor.uid).or_insert(strides);
            }
        }
    }
    known.len() > before
}

/// Packed strides in the order of others.
fn packed_as(dims: &Dims, order: &Dims) -> Dims {
    let mut axes: Vec<usize> = (0..dims.rank()).collect();
    // Dimensions of one element may have any stride.
    axes.sort_by_key(|&axis| (dims[axis] == 1, Reverse(order[axis])));
    let (mut strides, mut next) = (Dims::filled(dims.rank(), 1), 1);
    for axis in axes.into_iter().rev() {
        strides[axis] = next;
        next *= dims[axis].max(1);
    }
    strides
}

/// Whether an operation finds elements by their indices, wherever they lie.
fn is_by_index(operation: &Operation) -> bool {
    is_by_element(operation)
        || matches!(
            operation.kind,
            Kind::Matmul(_) | Kind::Convolution(_) | Kind::Reduction(_) | Kind::GenStats(_)
        )
}

/// Whether each element of a result is made of those in its place.
fn is_by_element(operation: &Operation) -> bool {
    let of = &operation.kind;
    matches!(of, Kind::Pointwise(_) | Kind::NormForward(_) | Kind::NormBackward(_) | Kind::Softmax(_))
}

/// Whether the elements of a tensor lie where its strides say, one by one.
fn is_plain(tensor: &Tensor) -> bool {
    tensor.vector.is_none()
        && tensor.reorder == 0
        && tensor.ragged.is_none()
        && tensor.dims.rank() == tensor.strides.rank()
}
