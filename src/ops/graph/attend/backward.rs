//! The gradients of attention: the weights once more, from their statistics, and what
//! `expand/attention.rs` makes of them, or cudnn-frontend, which describes all of it by single
//! operations (`scaled_dot_product_flash_attention.h`).
//!
//! The frontend subtracts statistics before its masks, and has none on the way back: where minus
//! infinity stands outside of a band, weights are 0 there, and so are gradients of scores. It keeps
//! sums of rows, and those of dq in FLOAT, in memory of its own, which it hands over like results;
//! they are written, though the step does not read them.

use std::sync::Arc;

use super::super::{Graph, Kind, Operation, Pointwise, Port, Tensor, Type, mode};
use super::finder::{COLUMNS, Finder, ROWS, are_for_a_step, is_double, is_of_rows, is_one, plain};
use super::{Attends, Found, Number};
use crate::dtype::DataType;

/// A tensor of scores as an operation at a place reads it.
pub(super) type Use = (Arc<Tensor>, usize);

/// The gradients around the weights at this place, if they are some.
pub(super) fn find(graph: &Graph, weights: usize, of: Attends) -> Option<Found> {
    let operation = &graph.operations[weights];
    let (x, y) = (operation.read(Port::X)?, operation.write(Port::Y)?);
    of.is_for(x).then_some(())?;
    let mut finder = Finder::new(graph, weights, false, of);
    finder.stats = operation.read(Port::Stats).cloned();
    if finder.stats.is_none() {
        finder.pointwise(weights, mode::EXP, [1.0; 2])?;
        finder.is_difference = true;
    }
    let (queries, keys) = finder.scores(x)?;
    let stats = finder.stats.clone()?;
    let is_transposed = std::mem::take(&mut finder.of.transposed[0]);
    let keys = finder.upright(&keys, is_transposed)?;
    (y.data_type == x.data_type && y.dims == x.dims).then_some(())?;
    let own_type = queries.data_type;
    let is_product = |finder: &Finder<'_>, of: &Use| {
        matches!(graph.operations[of.1].kind, Kind::Matmul(_)) || finder.drops(of)
    };
    let [of_values, (_, distances)] = finder.two_uses(y, own_type, is_product)?;
    let (factor, of_values) = finder.dropped(of_values, own_type)?;
    let ([first, gradient, dv], false) = finder.product(of_values, true)? else { return None };
    (first.uid == factor.uid).then_some(())?;
    let (per_score, values, results) = finder.gradients_of_scores(y, distances, gradient)?;
    let [dq, dk] = finder.products_of_scores(&per_score, own_type, &queries, &keys)?;
    let [q, o, own] = [&queries, &results, gradient].map(|x| finder.unpadded(x, Port::LengthQ));
    let stats = finder.unpadded(&stats, Port::LengthQ);
    let [k, v] = [&keys, &values].map(|x| finder.unpadded(x, Port::LengthKv));
    let (dk, dv) = (finder.shared(&dk, &k)?, finder.shared(dv, &v)?);
    let (dq, whole) = finder.narrowed(&dq, own_type)?;
    let fits = are_for_a_step(&[&q, &k, &v, &o, &own, &dq, &dk, &dv], x)
        && [(&dq, &q), (&dk, &k), (&dv, &v), (&own, &o)].iter().all(|(a, b)| a.dims == b.dims)
        && [&q, &o].iter().all(|matrix| matrix.dims[COLUMNS] <= of.columns)
        && finder.of.dropout.as_ref().is_none_or(|dropout| dropout.factor == 1.0)
        && finder.draws_alone();
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
    let mut writes = vec![(Port::Dq, &dq), (Port::Dk, &dk), (Port::Dv, &dv)];
    writes.extend(finder.of_bias.iter().map(|of_bias| (Port::Dbias, of_bias)));
    let operation = Operation::new(Kind::AttendBackward(finder.of.clone()), &reads, &writes);
    Some(finder.found([operation].into_iter().chain(whole).collect()))
}

impl<'a> Finder<'a> {
    /// The operations that read scores, or these rounded to a type.
    fn uses(&mut self, x: &Arc<Tensor>, own: Type) -> Vec<Use> {
        let mut found = Vec::new();
        for at in self.readers(x) {
            let rounded = self.pointwise(at, mode::IDENTITY, [1.0; 2]).map(|[_, _, y]| y);
            match rounded.filter(|y| y.data_type == own && y.dims == x.dims) {
                Some(y) => found.extend(self.readers(y).into_iter().map(|at| (Arc::clone(y), at))),
                None => found.push((Arc::clone(x), at)),
            }
        }
        found
    }

    /// The same where there are two, one of which is of a kind: that one first.
    fn two_uses(
        &mut self, x: &Arc<Tensor>, own: Type, is_first: impl Fn(&Self, &Use) -> bool,
    ) -> Option<[Use; 2]> {
        let [first, second] = <[Use; 2]>::try_from(self.uses(x, own)).ok()?;
        match [&first, &second].map(|of| is_first(self, of)) {
            [true, false] => Some([first, second]),
            [false, true] => Some([second, first]),
            _ => None,
        }
    }

    /// `weights (gradient values^T - sum of gradient * results)`, through the bands and the factor;
    /// and the values and the results.
    fn gradients_of_scores(
        &mut self, weights: &Arc<Tensor>, at: usize, gradient: &Arc<Tensor>,
    ) -> Option<(Arc<Tensor>, Arc<Tensor>, Arc<Tensor>)> {
        let [distance, per_weight] = self.product_with(weights, at)?;
        let difference = self.writer_for(distance, at)?;
        let [of_weight, row_sums, _] = match self.pointwise(difference, mode::ADD, [1.0, -1.0]) {
            Some(found) => found,
            None => self.pointwise(difference, mode::SUB, [1.0; 2])?,
        };
        let (mut product, mut reader) = (of_weight, difference);
        if let Some(kept) = self.kept.clone() {
            reader = self.writer_for(product, reader)?;
            product = self.product_with(&kept, reader)?[0];
        }
        let of_product = self.writer_for(product, reader)?;
        let ([own, values, _], is_transposed) = self.product(of_product, false)?;
        let values = self.upright(values, !is_transposed)?;
        let results = self.results(row_sums, difference, gradient)?;
        // Nothing is rounded on the way.
        let is_whole = |of: &Arc<Tensor>| of.data_type == DataType::Float.into() && of.dims == weights.dims;
        let is_same = own.uid == gradient.uid
            && [distance, of_weight, product, per_weight].into_iter().all(is_whole)
            && is_of_rows(row_sums, weights);
        is_same.then_some(())?;
        let mut per_score = per_weight;
        if let Some(factor) = self.known(Port::KeptFactor) {
            let at = self.reader(per_score)?;
            per_score = self.product_with(&factor, at)?[1];
            is_whole(per_score).then_some(())?;
        }
        self.take_bias_gradient(per_score);
        let graph = self.graph;
        // The same bands that scores went through, from the last one to the first.
        let has_bands = !self.is_difference;
        let members: Vec<&Operation> = self.members.iter().map(|&at| &graph.operations[at]).collect();
        let is_band = |member: &&Operation| has_bands && matches!(member.kind, Kind::BandMask(_));
        for band in members.into_iter().filter(is_band) {
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
        if let Some(outer) = self.known(Port::Outer) {
            let all = self.bent(per_score, &outer)?;
            all.into_iter().all(is_whole).then_some(())?;
            per_score = all[2];
        }
        if let Some(scale) = self.known(Port::Scale) {
            let at = self.reader(per_score)?;
            per_score = self.product_with(&scale, at)?[1];
        }
        is_whole(per_score).then(|| (Arc::clone(per_score), values, results))
    }

    /// Sums of gradients of scores that are differences, over batches and heads: those of a bias.
    /// The operation that makes them is no other use of the gradients.
    fn take_bias_gradient(&mut self, per_score: &Arc<Tensor>) {
        let (dims, graph) = (per_score.dims, self.graph);
        let fits = |y: &Tensor| {
            let known = [DataType::Float, DataType::Half, DataType::Bfloat16];
            known.iter().any(|&of| y.data_type == of.into())
                && y.dims.rank() == dims.rank()
                && y.dims[ROWS..] == dims[ROWS..]
                && (0..ROWS).all(|axis| [1, dims[axis]].contains(&y.dims[axis]))
                && plain(y)
        };
        let is_sum = |at: &usize| {
            matches!(graph.operations[*at].kind, Kind::Reduction(_))
                && graph.operations[*at].write(Port::Y).is_some_and(|y| fits(y))
        };
        let found = self.readers(per_score).into_iter().find(is_sum);
        if self.is_difference
            && self.wanted.changed
            && let Some(at) = found
            && let Some([_, y]) = self.sum(at)
        {
            self.aside.push(at);
            self.of_bias = Some(Arc::clone(y));
        }
    }

    /// The other factor and the result where this tensor is multiplied, element by element.
    pub fn product_with(&mut self, factor: &Tensor, at: usize) -> Option<[&'a Arc<Tensor>; 2]> {
        let [x, b, y] = self.pointwise(at, mode::MUL, [1.0; 2])?;
        match [x, b].map(|of| of.uid == factor.uid) {
            [true, false] => Some([b, y]),
            [false, true] => Some([x, y]),
            _ => None,
        }
    }

    /// What the gradient is multiplied by, element by element, in the sums of rows that an
    /// operation reads. Sums that others get are made as before.
    fn results(
        &mut self, row_sums: &Arc<Tensor>, reader: usize, gradient: &Arc<Tensor>,
    ) -> Option<Arc<Tensor>> {
        let before = self.members.len();
        let is_own = self.reader(row_sums) == Some(reader);
        let source = |finder: &Self, of: &Tensor, reader: usize| match is_own {
            true => finder.writer_for(of, reader),
            false => finder.writer(of.uid),
        };
        let mut at = source(self, row_sums, reader)?;
        if let Some([sums, factor, _]) = self.pointwise(at, mode::MUL, [1.0; 2]) {
            let is_whole = sums.dims == row_sums.dims && sums.data_type == row_sums.data_type;
            is_whole.then_some(())?;
            match self.kept {
                Some(_) if is_one(factor) && !is_double(factor.data_type) => {
                    self.take(Port::KeptInverse, factor)?;
                }
                Some(_) => return None,
                None => self.suppose(factor, Number::One)?,
            }
            at = source(self, sums, at)?;
        }
        let [products, _] = self.sum(at)?;
        let is_whole = products.data_type == row_sums.data_type && products.dims == gradient.dims;
        is_whole.then_some(())?;
        let at = source(self, products, at)?;
        let [results, _] = self.product_with(gradient, at)?;
        if !is_own {
            self.members.truncate(before);
        }
        Some(Arc::clone(results))
    }

    /// The products of the gradients of scores with keys and with queries.
    fn products_of_scores(
        &mut self, per_score: &Arc<Tensor>, own: Type, queries: &Tensor, keys: &Tensor,
    ) -> Option<[Arc<Tensor>; 2]> {
        let is_transposed = |finder: &Self, (_, at): &Use| match &finder.graph.operations[*at].kind {
            Kind::Matmul(of) => of.transposed[0],
            _ => false,
        };
        let [(second, of_queries), (first, of_keys)] = self.two_uses(per_score, own, is_transposed)?;
        let ([own, k, dq], is_transposed) = self.product(of_keys, false)?;
        let k = self.before_widening(k, of_keys);
        let k = self.upright(k, is_transposed)?;
        let ([other, q, dk], false) = self.product(of_queries, true)? else { return None };
        let is_same = [own.uid, other.uid] == [first.uid, second.uid]
            && [q.uid, k.uid] == [queries.uid, keys.uid]
            && (k.dims, k.strides) == (keys.dims, keys.strides);
        is_same.then(|| [Arc::clone(dq), Arc::clone(dk)])
    }

    /// What a matrix was before it became one of binary32 for an operation, which changes no
    /// number.
    fn before_widening(&mut self, matrix: &'a Arc<Tensor>, reader: usize) -> &'a Arc<Tensor> {
        let at = self.writer_for(matrix, reader).filter(|_| matrix.data_type == DataType::Float.into());
        let identity = at.and_then(|at| self.pointwise(at, mode::IDENTITY, [1.0; 2]));
        identity.map_or(matrix, |[x, ..]| if x.dims == matrix.dims { x } else { matrix })
    }

    /// The gradient of a matrix, of whose heads this is that of each head of queries.
    fn shared(&mut self, of_queries: &Arc<Tensor>, matrix: &Tensor) -> Option<Arc<Tensor>> {
        if of_queries.dims == matrix.dims {
            return Some(Arc::clone(of_queries));
        }
        let [_, joined] = self.sum(self.reader(of_queries)?)?;
        Some(Arc::clone(joined))
    }

    /// A gradient, or what it is rounded to; then, if the caller gets both, the operation that
    /// makes the first of the second.
    fn narrowed(&mut self, whole: &Arc<Tensor>, own: Type) -> Option<(Arc<Tensor>, Option<Operation>)> {
        if whole.data_type == own {
            return Some((Arc::clone(whole), None));
        }
        let [at] = self.readers_of(whole.uid)[..] else { return None };
        let [_, _, y] = self.pointwise(at, mode::IDENTITY, [1.0; 2])?;
        (y.dims == whole.dims && whole.data_type == DataType::Float.into()).then_some(())?;
        let identity = Kind::Pointwise(Pointwise::new(mode::IDENTITY));
        let back = || Operation::new(identity, &[(Port::X, y)], &[(Port::Y, whole)]);
        Some((Arc::clone(y), (!whole.is_virtual).then(back)))
    }
}
