//! The gradients of attention: the weights once more, from their statistics, and what
//! `expand/attention.rs` makes of them.

use std::sync::Arc;

use super::super::{Graph, Kind, Operation, Port, Tensor, mode};
use super::finder::{COLUMNS, Finder, are_for_a_step, is_of_rows};
use crate::dtype::DataType;
use crate::ops::attend::Attend;

/// The gradients around the weights at this place, if they are some: the places of their
/// operations, and the operation that they are.
pub(super) fn find(graph: &Graph, weights: usize, least: i64) -> Option<(Vec<usize>, Operation)> {
    let operation = &graph.operations[weights];
    let (x, stats) = (operation.read(Port::X)?, operation.read(Port::Stats)?);
    let y = operation.write(Port::Y)?;
    Finder::is_long(x, least).then_some(())?;
    let mut finder = Finder::new(graph, weights, false);
    let (queries, keys) = finder.scores(x)?;
    (!finder.of.transposed[0] && y.data_type == x.data_type).then_some(())?;
    let is_narrow = queries.data_type != DataType::Float.into();
    let (of_values, distances) = finder.readers_of_weights(y)?;
    let (factor, at) = finder.rounded(y, of_values, is_narrow)?;
    let [first, gradient, dv] = finder.product(at, [true, false])?;
    (first.uid == factor.uid).then_some(())?;
    let (per_score, values, results) = finder.gradients_of_scores(y, distances, gradient)?;
    let [dq, dk] = finder.products_of_scores(&per_score, is_narrow, &queries, &keys)?;
    let [q, o, own] = [&queries, &results, gradient].map(|x| finder.unpadded(x, Port::LengthQ));
    let stats = finder.unpadded(stats, Port::LengthQ);
    let [k, v] = [&keys, &values].map(|x| finder.unpadded(x, Port::LengthKv));
    let (dk, dv) = (finder.shared(&dk, &k)?, finder.shared(dv, &v)?);
    let fits = are_for_a_step(&[&q, &k, &v, &o, &own, &dq, &dk, &dv], x)
        && [(&dq, &q), (&dk, &k), (&dv, &v), (&own, &o)].iter().all(|(a, b)| a.dims == b.dims)
        && q.dims[COLUMNS] <= Attend::MOST_COLUMNS
        && o.dims[COLUMNS] <= Attend::MOST_COLUMNS;
    (fits && is_of_rows(&stats, x)).then_some(())?;
    let mut reads = vec![
        (Port::Q, &q),
        (Port::K, &k),
        (Port::V, &v),
        (Port::O, &o),
        (Port::Do, &own),
        (Port::Stats, &stats),
    ];
    reads.extend(finder.reads.iter().map(|(port, tensor)| (*port, tensor)));
    let writes = [(Port::Dq, &dq), (Port::Dk, &dk), (Port::Dv, &dv)];
    let operation = Operation::new(Kind::AttendBackward(finder.of.clone()), &reads, &writes);
    Some((finder.members, operation))
}

impl<'a> Finder<'a> {
    /// The operation on the way to the gradient of the values, and the product with distances.
    fn readers_of_weights(&self, weights: &Tensor) -> Option<(usize, usize)> {
        let [first, second] = self.readers(weights)[..] else { return None };
        let is_product = |at: usize| {
            let kind = &self.graph.operations[at].kind;
            matches!(kind, Kind::Pointwise(of) if of.mode == mode::MUL)
        };
        match [first, second].map(is_product) {
            [false, true] => Some((first, second)),
            [true, false] => Some((second, first)),
            _ => None,
        }
    }

    /// Scores as a matrix is multiplied by them, and the operation that does: this one, or the one
    /// behind it, where it rounds them to the type of the matrices.
    fn rounded(&mut self, x: &Arc<Tensor>, reader: usize, is_narrow: bool) -> Option<(Arc<Tensor>, usize)> {
        if !is_narrow {
            return Some((Arc::clone(x), reader));
        }
        let [_, _, y] = self.pointwise(reader, mode::IDENTITY, [1.0; 2])?;
        Some((Arc::clone(y), self.reader(y)?))
    }

    /// `weights (gradient values^T - sum of gradient * results)`, through the bands and the factor;
    /// and the values and the results.
    fn gradients_of_scores(
        &mut self, weights: &Arc<Tensor>, at: usize, gradient: &Arc<Tensor>,
    ) -> Option<(Arc<Tensor>, Arc<Tensor>, Arc<Tensor>)> {
        let [first, distance, per_weight] = self.pointwise(at, mode::MUL, [1.0; 2])?;
        (first.uid == weights.uid).then_some(())?;
        let difference = self.writer_for(distance, at)?;
        let [product, row_sums, _] = self.pointwise(difference, mode::ADD, [1.0, -1.0])?;
        let of_product = self.writer_for(product, difference)?;
        let [own, values, _] = self.product(of_product, [false, true])?;
        let of_sums = self.writer_for(row_sums, difference)?;
        let [products, _] = self.sum(of_sums)?;
        let of_products = self.writer_for(products, of_sums)?;
        let [other, results, _] = self.pointwise(of_products, mode::MUL, [1.0; 2])?;
        let is_same = own.uid == gradient.uid && other.uid == gradient.uid && is_of_rows(row_sums, weights);
        is_same.then_some(())?;
        // The same bands that scores went through, from the last one to the first.
        let mut per_score = per_weight;
        let graph = self.graph;
        let members: Vec<&Operation> = self.members.iter().map(|&at| &graph.operations[at]).collect();
        for band in members.into_iter().filter(|member| matches!(member.kind, Kind::BandMask(_))) {
            let at = self.reader(per_score)?;
            let operation = &graph.operations[at];
            let others = |operation: &'a Operation| {
                let is_other = |port: Port| !matches!(port, Port::X | Port::B);
                let links = operation.reads.iter().filter(move |link| is_other(link.port));
                links.map(|link| (link.port, link.tensor.uid))
            };
            let is_same = operation.kind == band.kind
                && operation.read(Port::B).is_none()
                && others(operation).eq(others(band));
            is_same.then_some(())?;
            self.members.push(at);
            per_score = operation.write(Port::Y)?;
        }
        if let Some((_, scale)) = self.reads.iter().find(|(port, _)| *port == Port::Scale) {
            let scale = scale.uid;
            let at = self.reader(per_score)?;
            let [_, factor, y] = self.pointwise(at, mode::MUL, [1.0; 2])?;
            (factor.uid == scale).then_some(())?;
            per_score = y;
        }
        Some((Arc::clone(per_score), Arc::clone(values), Arc::clone(results)))
    }

    /// The products of the gradients of scores with keys and with queries.
    fn products_of_scores(
        &mut self, per_score: &Arc<Tensor>, is_narrow: bool, queries: &Tensor, keys: &Tensor,
    ) -> Option<[Arc<Tensor>; 2]> {
        let mut factor = Arc::clone(per_score);
        if is_narrow {
            let at = self.reader(per_score)?;
            let [_, _, y] = self.pointwise(at, mode::IDENTITY, [1.0; 2])?;
            factor = Arc::clone(y);
        }
        let [first, second] = self.readers(&factor)[..] else { return None };
        let is_transposed = |at: usize| {
            let kind = &self.graph.operations[at].kind;
            matches!(kind, Kind::Matmul(of) if of.transposed == [true, false])
        };
        let (of_keys, of_queries) = if is_transposed(first) { (second, first) } else { (first, second) };
        let [own, k, dq] = self.product(of_keys, [false; 2])?;
        let [other, q, dk] = self.product(of_queries, [true, false])?;
        let is_same = [own.uid, other.uid] == [factor.uid; 2] && [q.uid, k.uid] == [queries.uid, keys.uid];
        is_same.then(|| [Arc::clone(dq), Arc::clone(dk)])
    }

    /// The gradient of a matrix, of whose heads this is that of each head of queries.
    fn shared(&mut self, of_queries: &Arc<Tensor>, matrix: &Tensor) -> Option<Arc<Tensor>> {
        if of_queries.dims == matrix.dims {
            return Some(Arc::clone(of_queries));
        }
        let [_, joined] = self.sum(self.reader(of_queries)?)?;
        Some(Arc::clone(joined))
    }
}
