//! Transposed matrices between operations: products read them where they lie.

use std::sync::Arc;

use super::super::{Graph, Kind, Operation, Pointwise, Port, Reshape, Tensor, mode};
use super::{COLUMNS, ROWS};
use crate::dtype::DataType;
use crate::ops::agree;

/// The graph in which products read matrices as they were before they were transposed, in another
/// type if they were converted on the way.
pub(in super::super) fn straight(mut graph: Graph) -> Graph {
    while let Some(at) = (0..graph.operations.len()).find(|&at| is_transposition(&graph, at)) {
        let operation = graph.operations.remove(at);
        let (Some(x), Some(y)) = (operation.read(Port::X), operation.write(Port::Y)) else { continue };
        let mut own = Arc::clone(x);
        if x.data_type != y.data_type {
            let strides = agree::row_major(&x.dims);
            own = Arc::new(Tensor { dims: x.dims, strides, ..Tensor::clone(y) });
            let identity = Kind::Pointwise(Pointwise::new(mode::IDENTITY));
            graph.operations.insert(at, Operation::new(identity, &[(Port::X, x)], &[(Port::Y, &own)]));
        }
        for reader in &mut graph.operations {
            let Kind::Matmul(of) = &mut reader.kind else { continue };
            for link in reader.reads.iter_mut().filter(|link| link.tensor.uid == y.uid) {
                link.tensor = Arc::clone(&own);
                let factor = usize::from(link.port == Port::B);
                of.transposed[factor] = !of.transposed[factor];
            }
        }
    }
    graph
}

/// Whether an operation transposes matrices that only products read, as factors, and nothing else
/// is done to them.
fn is_transposition(graph: &Graph, at: usize) -> bool {
    let operation = &graph.operations[at];
    let (Some(x), Some(y)) = (operation.read(Port::X), operation.write(Port::Y)) else { return false };
    let swapped = |of: &[i64]| -> Option<[i64; 4]> {
        let mut of = <[i64; 4]>::try_from(of).ok()?;
        of.swap(ROWS, COLUMNS);
        Some(of)
    };
    let is_same = match &operation.kind {
        Kind::Transpose(of) => of.permutation == [0, 1, 3, 2],
        // y's own strides find its elements in x's memory.
        Kind::Reshape(Reshape { logical: false }) => {
            swapped(&y.strides).is_some_and(|strides| strides == x.strides[..])
                && (!x.is_virtual || x.strides == agree::row_major(&x.dims))
        }
        _ => false,
    };
    is_same
        && y.is_virtual
        && plain(x)
        && plain(y)
        && (x.data_type == y.data_type || [x, y].into_iter().all(|of| is_of_numbers(of)))
        && swapped(&y.dims).is_some_and(|dims| dims == x.dims[..])
        && graph.operations.iter().all(|reader| reads_as_factor(reader, y.uid))
}

/// Whether elements are of a type that others of these are converted to by rounding, at most.
fn is_of_numbers(tensor: &Tensor) -> bool {
    let types = [DataType::Float, DataType::Half, DataType::Bfloat16];
    types.iter().any(|&of| tensor.data_type == of.into())
}

fn plain(tensor: &Tensor) -> bool {
    tensor.vector.is_none() && tensor.ragged.is_none() && tensor.reorder == 0
}

fn reads_as_factor(reader: &Operation, uid: i64) -> bool {
    let is_factor = |port| matches!((&reader.kind, port), (Kind::Matmul(_), Port::A | Port::B));
    reader.reads.iter().all(|link| link.tensor.uid != uid || is_factor(link.port))
}
