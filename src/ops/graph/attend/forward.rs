//! Attention forward: a product that makes scores, its factor, masks, the softmax and the product
//! with the values.

use std::sync::Arc;

use super::super::{Graph, Kind, Operation, Port, Tensor, Type};
use super::finder::{COLUMNS, Finder, are_for_a_step, is_added, is_of_rows};
use super::{Attends, Found};

/// The attention around the softmax at this place, if it is one.
pub(super) fn find(graph: &Graph, softmax: usize, of: Attends) -> Option<Found> {
    let operation = &graph.operations[softmax];
    let Kind::Softmax(settings) = &operation.kind else { return None };
    let (x, y) = (operation.read(Port::X)?, operation.write(Port::Y)?);
    let stats = operation.write(Port::Stats);
    let sink = operation.read(Port::Sink);
    let is_alone = operation.reads.len() == 1 + usize::from(sink.is_some())
        && operation.writes.len() == 1 + usize::from(stats.is_some());
    (is_alone && of.is_for(x)).then_some(())?;
    let mut finder = Finder::new(graph, softmax, settings.log2, of);
    let (q, k) = finder.scores(x)?;
    let (v, o) = finder.values(y, q.data_type)?;
    sink.map_or(Some(()), |sink| finder.take_sink(sink, x))?;
    let fits = are_for_a_step(&[&q, &k, &v, &o], x)
        && [&q, &o].iter().all(|matrix| matrix.dims[COLUMNS] <= of.columns)
        && finder.bend.is_none()
        && finder.draws_alone();
    (fits && stats.is_none_or(|stats| is_of_rows(stats, x))).then_some(())?;
    let mut reads = vec![(Port::Q, &q), (Port::K, &k), (Port::V, &v)];
    reads.extend(finder.reads.iter().map(|(port, tensor)| (*port, tensor)));
    let mut writes = vec![(Port::O, &o)];
    writes.extend(stats.map(|stats| (Port::Stats, stats)));
    let operation = Operation::new(Kind::Attend(finder.of.clone()), &reads, &writes);
    Some(finder.found(vec![operation]))
}

impl Finder<'_> {
    /// Adds the sinks of these scores.
    fn take_sink(&mut self, sink: &Arc<Tensor>, scores: &Tensor) -> Option<()> {
        let is_of_heads = *sink.dims == [1, scores.dims[1], 1, 1];
        (is_of_heads && is_added(sink, &scores.dims) && self.wanted.changed).then_some(())?;
        self.take(Port::Sink, sink)
    }

    /// The values that weights are multiplied by, and the result.
    fn values(&mut self, weights: &Arc<Tensor>, own: Type) -> Option<(Arc<Tensor>, Arc<Tensor>)> {
        let at = self.reader(weights)?;
        let (weights, at) = self.dropped((Arc::clone(weights), at), own)?;
        let ([factor, v, o], is_transposed) = self.product(at, false)?;
        // Weights are multiplied in the type of the matrices.
        (factor.uid == weights.uid && factor.data_type == own).then_some(())?;
        self.of.transposed[1] = is_transposed;
        let v = if is_transposed { Arc::clone(v) } else { self.unpadded(v, Port::LengthKv) };
        Some((v, Arc::clone(o)))
    }
}
