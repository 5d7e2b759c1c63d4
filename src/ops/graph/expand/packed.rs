//! Element types that are no scalar types here, in operations that compute: numbers in binary32 are
//! made of them before, and they of numbers after the operation.

use std::sync::Arc;

use super::super::{Graph, Kind, Link, Operation, Packing, Port};
use super::Parts;
use super::blocks::{as_bytes, is_packed};
use crate::dtype::DataType;
use crate::error::Result;

/// Whether an operation has such a tensor, and does not know how it lies.
pub(super) fn is_foreign(operation: &Operation) -> bool {
    !matches!(operation.kind, Kind::Quantize(_) | Kind::Dequantize(_))
        && operation.links().any(|link| is_packed(&link.tensor))
}

/// The graph on tensors of scalar types and on bytes.
///
/// # Errors
/// Not supported: elements of half a byte that do not fill bytes.
pub(super) fn unpacked(graph: &Graph) -> Result<Graph> {
    let mut parts = Parts::of(graph);
    for (at, operation) in graph.operations.iter().enumerate() {
        if !is_foreign(operation) {
            parts.operations.push(operation.clone());
            continue;
        }
        let failed = |error| operation.explained(at, error);
        let mut packs = Vec::new();
        let reads = links(&operation.reads, &mut parts, &mut |parts, packing, bytes, numbers| {
            parts.push(Kind::Unpack(packing), &[(Port::X, bytes)], &[(Port::Y, numbers)]);
        });
        let writes = links(&operation.writes, &mut parts, &mut |_, packing, bytes, numbers| {
            packs.push(Operation::new(Kind::Pack(packing), &[(Port::X, numbers)], &[(Port::Y, bytes)]));
        });
        let (reads, writes) = (reads.map_err(failed)?, writes.map_err(failed)?);
        parts.operations.push(Operation { kind: operation.kind.clone(), reads, writes });
        parts.operations.append(&mut packs);
    }
    Ok(Graph { operations: parts.operations })
}

/// What is to be done for such a tensor: how it lies, its bytes, and the numbers in its place.
type Place<'a> = &'a mut dyn FnMut(&mut Parts, Packing, &Arc<super::Tensor>, &Arc<super::Tensor>);

fn links(links: &[Link], parts: &mut Parts, place: Place<'_>) -> Result<Vec<Link>> {
    let mut own = Vec::with_capacity(links.len());
    for Link { port, tensor } in links {
        let tensor = if is_packed(tensor) {
            let (bytes, packing) = as_bytes(tensor)?;
            let numbers = parts.hidden(DataType::Float, &tensor.dims);
            place(parts, packing, &bytes, &numbers);
            numbers
        } else {
            Arc::clone(tensor)
        };
        own.push(Link { port: *port, tensor });
    }
    Ok(own)
}
