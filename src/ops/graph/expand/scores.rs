//! The scores of attention: what both directions compute first, and the graph that changes them.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::{Kind, Link, Modifier, Operation, Padding, Port, Tensor, Type, mode};
use super::Parts;
use crate::dtype::DataType;
use crate::error::{Error, Result};

/// The dimensions of heads, of rows of a tensor and of its columns.
pub(super) const HEADS: usize = 1;
pub(super) const ROWS: usize = 2;
pub(super) const COLUMNS: usize = 3;

/// A tensor that attention needs.
///
/// # Errors
/// Not supported if it is missing, or has other than four dimensions.
pub(super) fn operand(operation: &Operation, port: Port) -> Result<&Arc<Tensor>> {
    let tensor = operation.read(port).or_else(|| operation.write(port));
    let tensor = tensor.ok_or_else(|| Error::unsupported(format!("attention without {}", port.name())))?;
    if tensor.dims.rank() != COLUMNS + 1 {
        return Err(Error::unsupported(format!("{} of {}", port.name(), tensor.dims)));
    }
    Ok(tensor)
}

/// Refuses what nothing computes.
///
/// # Errors
/// Not supported, with the tensor.
pub(super) fn refuse(operation: &Operation, ports: &[Port]) -> Result<()> {
    match operation.links().find(|link| ports.contains(&link.port)) {
        Some(link) => Err(Error::unsupported(format!("attention with {}", link.port.name()))),
        None => Ok(()),
    }
}

/// What attention is made of.
pub(super) struct Scores {
    /// The type of what lies between.
    pub between: Type,
    /// The scaled scores of `[batch, heads of queries, queries, keys]`, changed and masked.
    pub changed: Arc<Tensor>,
    /// The operations of the graph that changes them, with the uids that they have here.
    pub modifier: Vec<Operation>,
    /// What that graph was given, and what it made.
    pub ends: [Arc<Tensor>; 2],
}

/// `scale * q k^T`, changed, and minus infinity beyond the lengths.
///
/// # Errors
/// Not supported, with the reason.
pub(super) fn scores(
    operation: &Operation, modifier: Option<&Modifier>, [q, k]: [&Arc<Tensor>; 2], parts: &mut Parts,
) -> Result<Scores> {
    let is_wide = q.data_type == DataType::Double.into();
    let between = if is_wide { DataType::Double } else { DataType::Float }.into();
    let dims = [q.dims[0], q.dims[HEADS], q.dims[ROWS], k.dims[ROWS]];
    let mut scores = parts.hidden(between, &dims);
    parts.matmul([q, k], [false, true], &scores);
    for port in [Port::Scale, Port::DescaleQ, Port::DescaleK] {
        if let Some(factor) = operation.read(port) {
            scores = parts.product(&scores, factor);
        }
    }
    let (inner, changed) = match modifier {
        Some(modifier) => placed(modifier, &scores, parts)?,
        None => (Vec::new(), Arc::clone(&scores)),
    };
    if *changed.dims != dims {
        return Err(Error::unsupported(format!(
            "scores of {} where {} are needed",
            changed.dims, scores.dims
        )));
    }
    let ends = [scores, Arc::clone(&changed)];
    let lengths = [operation.read(Port::LengthQ), operation.read(Port::LengthKv)];
    let changed =
        parts.padded(&changed, lengths, Padding { rows: ROWS, columns: COLUMNS, value: f64::NEG_INFINITY });
    Ok(Scores { between, changed, modifier: inner, ends })
}

/// The operations of a graph inside of another one, in an order in which each comes after what it
/// reads, and what they make of a tensor.
fn placed(
    modifier: &Modifier, input: &Arc<Tensor>, parts: &mut Parts,
) -> Result<(Vec<Operation>, Arc<Tensor>)> {
    let mut known = HashMap::from([(modifier.input, Arc::clone(input))]);
    let mut waiting: Vec<&Operation> = modifier.operations.iter().collect();
    let mut done = Vec::new();
    let written = |uid: i64, of: &[&Operation]| {
        of.iter().any(|operation| operation.writes.iter().any(|link| link.tensor.uid == uid))
    };
    while !waiting.is_empty() {
        let ready =
            |operation: &&Operation| operation.reads.iter().all(|link| !written(link.tensor.uid, &waiting));
        let next = waiting.iter().position(ready);
        let operation =
            waiting.remove(next.ok_or_else(|| Error::unsupported("scores that wait for themselves"))?);
        let mut own = |link: &Link, makes: bool| {
            let tensor = match known.get(&link.tensor.uid) {
                Some(tensor) => Arc::clone(tensor),
                // What is virtual there gets a uid of its own here.
                None if makes && link.tensor.is_virtual => {
                    parts.hidden(link.tensor.data_type, &link.tensor.dims)
                }
                None => Arc::clone(&link.tensor),
            };
            known.insert(link.tensor.uid, Arc::clone(&tensor));
            Link { port: link.port, tensor }
        };
        let reads = operation.reads.iter().map(|link| own(link, false)).collect();
        let writes = operation.writes.iter().map(|link| own(link, true)).collect();
        done.push(Operation { kind: operation.kind.clone(), reads, writes });
    }
    parts.operations.extend(done.iter().cloned());
    let output = known.remove(&modifier.output);
    Ok((done, output.ok_or_else(|| Error::unsupported("a graph of scores that does not make its result"))?))
}

/// The sum of two gradients of one tensor.
pub(super) fn sum(parts: &mut Parts, a: Option<Arc<Tensor>>, b: Arc<Tensor>) -> Arc<Tensor> {
    match a {
        Some(a) => parts.binary(mode::ADD, [1.0; 2], [&a, &b]),
        None => b,
    }
}

/// Whether an operation is one that a graph inside of attention may have.
pub(super) const fn is_of_scores(kind: &Kind) -> bool {
    matches!(kind, Kind::Pointwise(_) | Kind::BandMask(_))
}
