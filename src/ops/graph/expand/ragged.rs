//! Tensors whose batches lie where offsets say: loaded into dense tensors before the operations
//! that read them, and stored after the operations that write them.

use std::sync::Arc;

use super::super::{Graph, Kind, Link, Operation, Port, Ragged, Reshape, Tensor, Transpose};
use super::Parts;
use crate::error::{Error, Result};

/// Whether an operation has such a tensor.
pub(super) fn is_ragged(operation: &Operation) -> bool {
    operation.links().any(|link| link.tensor.ragged.is_some())
}

/// The graph on dense tensors alone.
///
/// # Errors
/// Not supported: such a tensor seen in other strides than its own.
pub(super) fn dense(graph: &Graph) -> Result<Graph> {
    let mut parts = Parts::of(graph);
    for (at, operation) in graph.operations.iter().enumerate() {
        let kind = kind(operation).map_err(|error| operation.explained(at, error))?;
        let mut stores = Vec::new();
        let reads = links(&operation.reads, &mut parts, &mut |parts, tensor, ragged, dense| {
            let kind = Kind::RaggedLoad { multiplier: ragged.multiplier };
            parts.push(kind, &[(Port::X, tensor), (Port::Offset, &ragged.offset)], &[(Port::Y, dense)]);
        });
        let writes = links(&operation.writes, &mut parts, &mut |_, tensor, ragged, dense| {
            let kind = Kind::RaggedStore { multiplier: ragged.multiplier };
            stores.push(Operation::new(
                kind,
                &[(Port::X, dense), (Port::Offset, &ragged.offset)],
                &[(Port::Y, tensor)],
            ));
        });
        parts.operations.push(Operation { kind, reads, writes });
        parts.operations.append(&mut stores);
    }
    Ok(Graph { operations: parts.operations })
}

/// What an operation computes on dense tensors: where strides say how y lies in x, they are those
/// of ragged memory, and the dense tensor has others.
fn kind(operation: &Operation) -> Result<Kind> {
    let (Kind::Reshape(Reshape { logical: false }), Some(x), Some(y)) =
        (&operation.kind, operation.read(Port::X), operation.write(Port::Y))
    else {
        return Ok(operation.kind.clone());
    };
    if !is_ragged(operation) {
        return Ok(operation.kind.clone());
    }
    let mut left: Vec<usize> = (0..x.dims.rank()).collect();
    let mut permutation = Vec::with_capacity(left.len());
    for (dim, stride) in y.dims.iter().zip(y.strides.iter()) {
        let place = left.iter().position(|&axis| x.dims[axis] == *dim && x.strides[axis] == *stride);
        let place =
            place.ok_or_else(|| Error::unsupported("a ragged tensor in other strides than its own"))?;
        permutation.push(left.remove(place) as i64);
    }
    match left.is_empty() {
        true => Ok(Kind::Transpose(Transpose { permutation })),
        false => Err(Error::unsupported("a ragged tensor in fewer dimensions than its own")),
    }
}

/// What is to be done for a ragged tensor, which comes without its offsets, and the dense one in
/// its place.
type Place<'a> = &'a mut dyn FnMut(&mut Parts, &Arc<Tensor>, &Ragged, &Arc<Tensor>);

fn links(links: &[Link], parts: &mut Parts, place: Place<'_>) -> Vec<Link> {
    let mut own = Vec::with_capacity(links.len());
    for Link { port, tensor } in links {
        let tensor = match &tensor.ragged {
            None => Arc::clone(tensor),
            Some(ragged) => {
                let plain = Arc::new(Tensor { ragged: None, ..(**tensor).clone() });
                if tensor.is_virtual {
                    // It has no memory in which batches could lie anywhere.
                    plain
                } else {
                    let dense = parts.hidden(tensor.data_type, &tensor.dims);
                    place(parts, &plain, ragged, &dense);
                    dense
                }
            }
        };
        own.push(Link { port: *port, tensor });
    }
    own
}
