//! What the operations of a graph have to do with each other: what each reads and writes, in which
//! order they run, and which graphs the original finds no pattern for.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attribute::Row;
use super::check::Check;
use super::kind::Kind;
use super::norm;
use super::object::{Fields, Object};
use super::operation_graph::{OPERATIONGRAPH_MODE, OPERATIONGRAPH_OPS};
use super::pointwise::{self, Operands};
use super::table::attributes;
use crate::error::{ErrorKind, Result};
use crate::mode::Mode;

/// `CUDNN_OPERATIONGRAPH_MODE_NORM_FWD_INFER`, `..._TRAIN` and `CUDNN_OPERATIONGRAPH_MODE_NORM_BWD`
const NORM_MODES: std::ops::RangeInclusive<i64> = 17..=19;

impl Object {
    /// The tensors of an operation: attribute, whether it is a result, and the tensor.
    pub fn ports(&self) -> impl Iterator<Item = (i32, bool, &Arc<Object>)> {
        attributes(self.kind).rows.iter().flat_map(|row| {
            let tensors = self.fields.links(row.number).iter().flatten().filter(|link| link.tensor.is_some());
            tensors.map(|tensor| (row.number, writes(self, row), tensor))
        })
    }
}

/// What an operation reads or writes: the ids of its tensors.
fn ids(operation: &Object, written: bool) -> impl Iterator<Item = i64> {
    let ports = operation.ports().filter(move |&(_, writes, _)| writes == written);
    ports.filter_map(|(_, _, port)| Some(port.tensor.as_ref()?.uid))
}

/// Whether a port is a result; statistics are, where a normalisation does not take them, and y is
/// not where a gradient is computed.
fn writes(operation: &Object, row: &Row) -> bool {
    let statistics = [norm::OPERATION_NORM_FWD_MEAN_DESC, norm::OPERATION_NORM_FWD_INV_VARIANCE_DESC];
    if row.number == pointwise::OPERATION_POINTWISE_YDESC {
        return pointwise::operands(&operation.fields) != Operands::Gradient;
    }
    row.is_output || statistics.contains(&row.number) && writes_statistics(operation)
}

fn writes_statistics(operation: &Object) -> bool {
    operation.fields.int_or(norm::OPERATION_NORM_FWD_PHASE, norm::INFERENCE) != norm::INFERENCE
}

/// The checks of Finalize.
pub(super) fn check(check: Check<'_>) -> Result<()> {
    let attribute = OPERATIONGRAPH_OPS;
    let operations: Vec<&Object> =
        check.fields.links(attribute).iter().flatten().map(|operation| operation.as_ref()).collect();
    check.require(!operations.is_empty(), attribute, "a graph has one operation at least")?;
    let mut producers = BTreeMap::new();
    for (index, operation) in operations.iter().enumerate() {
        for uid in ids(operation, true) {
            let other = producers.insert(uid, index).is_some_and(|other| other != index);
            check.require(!other, attribute, &format!("the tensor {uid} is written twice"))?;
        }
    }
    require_order(check, &operations, &producers)?;
    if Mode::current().is_strict() {
        refuse_as_the_original(check, &operations)?;
    }
    let mode = check.fields.int_or(OPERATIONGRAPH_MODE, -1);
    let norms =
        operations.iter().any(|operation| matches!(operation.kind, Kind::NormForward | Kind::NormBackward));
    let rule = "the graph has no normalisation";
    check.require_or(
        norms || !NORM_MODES.contains(&mode),
        ErrorKind::NotSupportedPattern,
        OPERATIONGRAPH_MODE,
        rule,
    )
}

/// Refuses what the original finds no pattern for when a graph is finalised.
fn refuse_as_the_original(check: Check<'_>, operations: &[&Object]) -> Result<()> {
    for (index, operation) in operations.iter().enumerate() {
        norm::refuse_as_the_original(check, operation)?;
        if operation.kind != Kind::NormForward || !writes_statistics(operation) {
            continue;
        }
        let others =
            || operations.iter().enumerate().filter(|&(other, _)| other != index).map(|(_, other)| other);
        let feeds =
            |other: &&&Object| ids(other, true).any(|uid| ids(operation, false).any(|read| read == uid));
        let rule = "cuDNN normalises in training what the graph is given, not what it makes";
        let first = others().find(feeds).is_none();
        check.require_or(first, ErrorKind::NotSupported, OPERATIONGRAPH_OPS, rule)?;
        let all = |operation: &Object| ids(operation, true).chain(ids(operation, false)).collect::<Vec<_>>();
        let made = ids(operation, true).collect::<Vec<_>>();
        let follows =
            operations.len() == 1 || others().any(|other| all(other).iter().any(|uid| made.contains(uid)));
        let rule = "cuDNN normalises in training together with what uses the result only";
        check.require_or(follows, ErrorKind::NotSupportedPattern, OPERATIONGRAPH_OPS, rule)?;
    }
    Ok(())
}

/// Refuses a graph in which an operation waits for itself: operations whose operands are there are
/// taken away until none is left.
fn require_order(check: Check<'_>, operations: &[&Object], producers: &BTreeMap<i64, usize>) -> Result<()> {
    let mut done = vec![false; operations.len()];
    loop {
        let ready = |index: usize| {
            let mut needed = ids(operations[index], false).filter_map(|uid| producers.get(&uid));
            needed.all(|&producer| done[producer])
        };
        let next: Vec<usize> = (0..operations.len()).filter(|&index| !done[index] && ready(index)).collect();
        if next.is_empty() {
            break;
        }
        next.into_iter().for_each(|index| done[index] = true);
    }
    match done.iter().position(|done| !done) {
        None => Ok(()),
        Some(index) => {
            let name = operations[index].kind.name();
            let rule = format!("[{index}] {name} needs what is made from its own result");
            Err(check.bad(OPERATIONGRAPH_OPS, &rule))
        }
    }
}

/// The mode that a finalised graph reports: the one that was set, or what its operations are.
pub(super) fn mode(fields: &Fields) -> i64 {
    let set = fields.int_or(OPERATIONGRAPH_MODE, -1);
    let operations: Vec<&Object> =
        fields.links(OPERATIONGRAPH_OPS).iter().flatten().map(|operation| operation.as_ref()).collect();
    if set >= 0 {
        return set;
    }
    let alone = operations.len() == 1;
    let of = |operation: &&Object| {
        let phase = operation.fields.int_or(norm::OPERATION_NORM_FWD_PHASE, norm::INFERENCE);
        Some(match operation.kind {
            Kind::ConvolutionForward if alone => 0,
            Kind::ConvolutionBackwardData if alone => 1,
            Kind::ConvolutionBackwardFilter if alone => 2,
            Kind::NormForward if phase == norm::INFERENCE => 17,
            Kind::NormForward => 18,
            Kind::NormBackward => 19,
            Kind::ConvolutionForward | Kind::ConvolutionBackwardData | Kind::ConvolutionBackwardFilter => 20,
            Kind::ResampleForward => 22,
            Kind::ResampleBackward => 23,
            Kind::MatmulOperation => 25,
            Kind::SdpaForward => 28,
            Kind::SdpaBackward => 29,
            _ => return None,
        })
    };
    // A graph of pointwise operations, reductions and others that have no mode of their own.
    operations.iter().find_map(of).unwrap_or(27)
}
