//! Which operations of a graph are a region: all that read or write tensors of scores, if tiles of
//! these can be computed by themselves.

use std::collections::HashMap;

use super::super::{Kind, Operation, Port, Tensor, Type, mode};
use super::along::{Along, Part, along};
use super::{COLUMNS, ROWS, Tiles};
use crate::dtype::DataType;

/// A region of a graph.
pub(super) struct Found {
    /// Batches, heads, rows and columns of the scores.
    pub extents: [i64; 4],
    /// The places of its operations.
    pub members: Vec<usize>,
    /// The uids of its tensors of scores.
    pub scores: Vec<i64>,
}

/// The first region, if there is one.
pub(super) fn find(operations: &[Operation], tiles: Tiles) -> Option<Found> {
    operations.iter().find_map(|operation| {
        let scores = operation.write(Port::C).filter(|scores| scores.is_virtual)?;
        let extents = <[i64; 4]>::try_from(&scores.dims[..]).ok()?;
        let [_, _, rows, columns] = extents;
        let is_worth = rows.checked_mul(columns).is_none_or(|count| count >= tiles.least);
        // Indices are exact in binary32.
        let fits = extents.iter().all(|&extent| 0 < extent && extent < 1 << 24);
        (is_worth && fits).then(|| grown(operations, scores.uid, extents)).flatten()
    })
}

/// The region around a tensor of scores.
fn grown(operations: &[Operation], first: i64, extents: [i64; 4]) -> Option<Found> {
    let mut scores = vec![first];
    let mut at = 0;
    while let Some(&uid) = scores.get(at) {
        at += 1;
        for operation in operations.iter().filter(|operation| touches(operation, &[uid])) {
            if matches!(operation.kind, Kind::Matmul(_)) {
                continue;
            }
            for link in operation.links() {
                let tensor = &link.tensor;
                let is_scores = tensor.is_virtual && tensor.dims[..] == extents;
                if is_scores && !scores.contains(&tensor.uid) {
                    scores.push(tensor.uid);
                }
            }
        }
    }
    let members: Vec<usize> = (0..operations.len()).filter(|&at| touches(&operations[at], &scores)).collect();
    let own = || members.iter().map(|&at| &operations[at]);
    let parts: Vec<Part> = own().map(|operation| part(operation, &scores)).collect::<Option<_>>()?;
    // Other products in a row have sums of their own, in their own order.
    let is_attention = |operation: &Operation| match &operation.kind {
        Kind::Softmax(_) | Kind::Weights => true,
        Kind::Pointwise(of) => of.mode == mode::EXP,
        _ => false,
    };
    own().any(is_attention).then_some(())?;
    let has_sums = parts.iter().any(|part| matches!(part, Part::OverColumns | Part::OverRows));
    let is_written =
        |uid: &i64| own().any(|operation| operation.writes.iter().any(|link| link.tensor.uid == *uid));
    (has_sums && scores.iter().all(is_written)).then_some(())?;
    // A tensor has one place in all operations.
    let mut places: HashMap<i64, Vec<Along>> = HashMap::new();
    for (operation, &part) in own().zip(&parts) {
        for link in operation.links() {
            let found = along(operation, part, link.port, &link.tensor, &extents)?;
            if places.entry(link.tensor.uid).or_insert_with(|| found.clone()) != &found {
                return None;
            }
        }
    }
    is_linear_after_softmax(&own().collect::<Vec<_>>(), &parts).then_some(())?;
    Some(Found { extents, members, scores })
}

fn touches(operation: &Operation, uids: &[i64]) -> bool {
    operation.links().any(|link| uids.contains(&link.tensor.uid))
}

/// What an operation is to the scores; `None` if tiles cannot be computed by themselves.
pub(super) fn part(operation: &Operation, scores: &[i64]) -> Option<Part> {
    let is_scores = |tensor: &Tensor| scores.contains(&tensor.uid);
    let reads = |port| operation.read(port).is_some_and(|tensor| is_scores(tensor));
    let numbers = |tensor: &Tensor| {
        let wanted = [DataType::Float, DataType::Half, DataType::Bfloat16, DataType::Double];
        wanted.iter().any(|&data_type| tensor.data_type == Type::from(data_type))
    };
    match &operation.kind {
        Kind::Matmul(of) => {
            let makes = is_scores(operation.write(Port::C)?);
            let is_plain = operation.reads.len() == 2 && operation.links().all(|link| numbers(&link.tensor));
            match (makes, reads(Port::A), reads(Port::B)) {
                _ if !is_plain => None,
                (true, false, false) => Some(Part::Scores),
                (false, true, false) if of.transposed[0] => Some(Part::OverRows),
                (false, true, false) => Some(Part::OverColumns),
                _ => None,
            }
        }
        Kind::Softmax(_) => (reads(Port::X) && is_scores(operation.write(Port::Y)?)).then_some(Part::Softmax),
        Kind::Pointwise(of) => {
            let knows_index =
                of.mode != mode::GEN_INDEX || [Some(ROWS as i64), Some(COLUMNS as i64)].contains(&of.axis);
            (operation.writes.len() == 1 && knows_index).then_some(Part::Elements)
        }
        Kind::BandMask(_) => {
            let ends = [Port::CumulativeQ, Port::CumulativeKv];
            ends.iter().all(|&port| operation.read(port).is_none()).then_some(Part::Elements)
        }
        Kind::Padding(of) => ([of.rows, of.columns] == [ROWS, COLUMNS]).then_some(Part::Elements),
        Kind::Weights => Some(Part::Elements),
        _ => None,
    }
}

/// Whether there is one softmax at most, whose weights are multiplied by numbers alone before they
/// are summed over columns: then the sums can be divided in the end.
fn is_linear_after_softmax(operations: &[&Operation], parts: &[Part]) -> bool {
    let mut weights: Vec<i64> = Vec::new();
    let has_softmax = parts.contains(&Part::Softmax);
    for (operation, part) in operations.iter().zip(parts) {
        let reads: Vec<Port> = operation
            .reads
            .iter()
            .filter(|link| weights.contains(&link.tensor.uid))
            .map(|link| link.port)
            .collect();
        let is_kept = match (part, &operation.kind) {
            (Part::Softmax, Kind::Softmax(_)) => {
                weights.extend(operation.write(Port::Y).map(|y| y.uid));
                weights.len() == 1
            }
            _ if reads.is_empty() => !has_softmax || !matches!(part, Part::OverRows | Part::OverColumns),
            (Part::OverColumns, _) => true,
            (Part::Elements, Kind::Pointwise(of)) => {
                weights.extend(operation.write(Port::Y).map(|y| y.uid));
                // What is written for the caller would not be divided.
                let is_inside = operation.writes.iter().all(|link| link.tensor.is_virtual);
                is_inside
                    && match of.mode {
                        mode::MUL => reads.len() == 1,
                        mode::IDENTITY => true,
                        _ => false,
                    }
            }
            _ => false,
        };
        if !is_kept {
            return false;
        }
    }
    true
}
