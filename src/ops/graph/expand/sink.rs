//! The gradient of a sink of attention, as cudnn-frontend describes it by single operations.
//!
//! Its graph sums `exp(sink - stats) * rows` over batches and queries, where `rows` are the sums of
//! `do * o`. The gradient is minus that, and minus that is what its tests (PyTorch's automatic
//! differentiation) hold the result to. So the graph stands for the gradient.

use super::super::{Graph, Kind, Operation, Pointwise, Port, mode};

/// The places of products whose sum is the gradient of a sink.
pub(super) fn products(graph: &Graph) -> Vec<usize> {
    (0..graph.operations.len()).filter(|&at| is_of_sink(graph, at)).collect()
}

/// The pointwise operation of this mode that writes the virtual tensor `uid`.
fn writer(graph: &Graph, uid: i64, wanted: i32) -> Option<&Operation> {
    let writes = |operation: &&Operation| {
        operation.write(Port::Y).is_some_and(|y| y.uid == uid && y.is_virtual)
            && matches!(&operation.kind, Kind::Pointwise(Pointwise { mode, .. }) if *mode == wanted)
    };
    graph.operations.iter().find(writes)
}

/// The operation that sums to the virtual tensor `uid`, or that sums it.
fn sum(graph: &Graph, port: Port, uid: i64) -> Option<&Operation> {
    let is_sum = |operation: &&Operation| {
        let tensor = if port == Port::Y { operation.write(port) } else { operation.read(port) };
        tensor.is_some_and(|tensor| tensor.uid == uid && tensor.is_virtual)
            && matches!(&operation.kind, Kind::Reduction(of) if of.operator == super::REDUCE_ADD)
    };
    graph.operations.iter().find(is_sum)
}

fn is_of_sink(graph: &Graph, at: usize) -> bool {
    let found = || {
        let product = &graph.operations[at];
        let (x, rows, y) = (product.read(Port::X)?, product.read(Port::B)?, product.write(Port::Y)?);
        writer(graph, y.uid, mode::MUL)?;
        sum(graph, Port::X, y.uid)?;
        // The sums of the gradient times the result.
        let rows = sum(graph, Port::Y, rows.uid)?;
        writer(graph, rows.read(Port::X)?.uid, mode::MUL)?;
        let weight = writer(graph, x.uid, mode::EXP)?;
        let distance = writer(graph, weight.read(Port::X)?.uid, mode::SUB)?;
        let (sink, stats) = (distance.read(Port::X)?, distance.read(Port::B)?);
        // One for each head, and one for each row, from which scores are subtracted too.
        let [1, heads, 1, 1] = *<&[i64; 4]>::try_from(&sink.dims[..]).ok()? else { return None };
        let [_, own, _, 1] = *<&[i64; 4]>::try_from(&stats.dims[..]).ok()? else { return None };
        let is_of_scores = |operation: &Operation| {
            matches!(&operation.kind, Kind::Pointwise(of) if of.mode == mode::SUB)
                && operation.read(Port::B).is_some_and(|b| b.uid == stats.uid)
                && operation.read(Port::X).is_some_and(|x| x.uid != sink.uid)
        };
        (heads == own && graph.operations.iter().any(is_of_scores)).then_some(())
    };
    found().is_some()
}
