//! The gradient of the graph that changes the scores of attention, from its end to its begin.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::{BandMask, Kind, Operation, Pointwise, Port, Tensor, mode};
use super::Parts;
use super::scores::{Scores, is_of_scores, sum};
use crate::dtype::DataType;
use crate::error::{Error, Result};

/// The gradient of the scores from that of what the graph makes of them.
///
/// # Errors
/// Not supported: operations on the way that are other than sums, differences, products, quotients
/// of scores, hyperbolic tangents, selections and bands.
pub(super) fn gradient_of_scores(
    scores: &Scores, of_output: Arc<Tensor>, parts: &mut Parts,
) -> Result<Arc<Tensor>> {
    let [input, output] = &scores.ends;
    // What depends on the scores.
    let mut moving = HashSet::from([input.uid]);
    for operation in &scores.modifier {
        if operation.reads.iter().any(|link| moving.contains(&link.tensor.uid)) {
            moving.extend(operation.writes.iter().map(|link| link.tensor.uid));
        }
    }
    let mut gradients = HashMap::from([(output.uid, of_output)]);
    for operation in scores.modifier.iter().rev() {
        let y = operation.write(Port::Y).or_else(|| operation.write(Port::Dx));
        let Some(dy) = y.and_then(|y| gradients.remove(&y.uid)) else { continue };
        for link in operation.reads.iter().filter(|link| moving.contains(&link.tensor.uid)) {
            let own = if link.tensor.dims == dy.dims && is_of_scores(&operation.kind) {
                gradient_of(operation, link.port, &dy, parts)
            } else {
                None
            };
            let own = own.ok_or_else(|| {
                Error::unsupported(format!(
                    "the gradient of {:?} by {} in the graph of scores",
                    operation.kind,
                    link.port.name()
                ))
            })?;
            let whole = sum(parts, gradients.remove(&link.tensor.uid), own);
            gradients.insert(link.tensor.uid, whole);
        }
    }
    gradients.remove(&input.uid).ok_or_else(|| Error::unsupported("a graph of scores that does not use them"))
}

/// The gradient of one operand of an operation; `None` if there is no formula here.
fn gradient_of(
    operation: &Operation, port: Port, dy: &Arc<Tensor>, parts: &mut Parts,
) -> Option<Arc<Tensor>> {
    let of = match &operation.kind {
        Kind::Pointwise(of) => of,
        Kind::BandMask(of) if port == Port::X => return Some(inside(of, operation, dy, parts)),
        _ => return None,
    };
    let [first, second] = of.alpha;
    let (other, own) = if port == Port::X { (Port::B, first) } else { (Port::X, second) };
    Some(match (of.mode, port) {
        (mode::ADD, Port::X | Port::B) => scaled(parts, dy, own),
        (mode::SUB, Port::X) => scaled(parts, dy, own),
        (mode::SUB, Port::B) => scaled(parts, dy, -own),
        (mode::IDENTITY, Port::X) => scaled(parts, dy, own),
        (mode::NEG, Port::X) => scaled(parts, dy, -own),
        (mode::MUL, Port::X | Port::B) => {
            parts.binary(mode::MUL, [first * second, 1.0], [dy, operation.read(other)?])
        }
        (mode::DIV, Port::X) => parts.binary(mode::DIV, of.alpha, [dy, operation.read(Port::B)?]),
        (mode::TANH, Port::X) if first == 1.0 => {
            let dx = parts.hidden(dy.data_type, &dy.dims);
            let kind = Kind::Pointwise(Pointwise::new(mode::TANH_BACKWARD));
            parts.push(kind, &[(Port::Dy, dy), (Port::Y, operation.write(Port::Y)?)], &[(Port::Dx, &dx)]);
            dx
        }
        (mode::SELECT, Port::X | Port::B) => {
            // 1 where the other operand is taken, and once more the other way about: any number but
            // 0 is true.
            let mut flags = Arc::clone(operation.read(Port::T)?);
            for _ in 0..if port == Port::X { 2 } else { 1 } {
                let y = parts.hidden(DataType::Boolean, &flags.dims);
                parts.pointwise(mode::NOT, [1.0; 2], &[(Port::X, &flags)], &y);
                flags = y;
            }
            let kept = parts.product(dy, &flags);
            scaled(parts, &kept, own)
        }
        _ => return None,
    })
}

fn scaled(parts: &mut Parts, x: &Arc<Tensor>, factor: f64) -> Arc<Tensor> {
    if factor == 1.0 {
        return Arc::clone(x);
    }
    let y = parts.hidden(x.data_type, &x.dims);
    parts.pointwise(mode::IDENTITY, [factor, 1.0], &[(Port::X, x)], &y);
    y
}

/// The same band, with zeros outside of it.
fn inside(of: &BandMask, operation: &Operation, dy: &Arc<Tensor>, parts: &mut Parts) -> Arc<Tensor> {
    let dx = parts.hidden(dy.data_type, &dy.dims);
    let bounds = operation.reads.iter().filter(|link| !matches!(link.port, Port::X | Port::B));
    let reads: Vec<(Port, &Arc<Tensor>)> =
        [(Port::X, dy)].into_iter().chain(bounds.map(|link| (link.port, &link.tensor))).collect();
    parts.push(Kind::BandMask(of.clone()), &reads, &[(Port::Y, &dx)]);
    dx
}
