//! Tensors whose batches lie where offsets say: loaded into dense ones before the operations that read them, stored behind those that write
//! them.

use std::sync::Arc;

use super::super::{Graph, Kind, Link, Operation, Port, Ragged, Tensor};
use super::Parts;

/// Whether an operation has such a tensor.
pub(super) fn is_ragged(operation: &Operation) -> bool {
    operation.links().any(|link| link.tensor.ragged.is_some())
}

/// The graph on dense tensors alone.
pub(super) fn dense(graph: &Graph) -> Graph {
    let mut parts = Parts::of(graph);
    for operation in &graph.operations {
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
        parts.operations.push(Operation { kind: operation.kind.clone(), reads, writes });
        parts.operations.append(&mut stores);
    }
    Graph { operations: parts.operations }
}

/// What is to be done for a ragged tensor, which comes without its offsets, and the dense one in its place.
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
