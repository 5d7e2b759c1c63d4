//! Attention: `o = softmax(changed(scale q k^T)) v`, and its gradients.
//!
//! Sources: the attributes as the frontend sets them (`scaled_dot_product_flash_attention.h`,
//! `matmul_fp8.h`), and the pages about attention of docs.nvidia.com/deeplearning/cudnn. Heads of
//! keys and values are shared by neighbouring heads of queries.

use std::sync::Arc;

use super::super::{
    Attention, Kind, Link, Operation, Padding, Port, Rng, Slice, Softmax, Tensor, Type, mode,
};
use super::Parts;
use super::gradients::gradient_of_scores;
use super::scores::{COLUMNS, HEADS, ROWS, operand, refuse, scores};
use crate::dtype::DataType;
use crate::error::{Error, Result};

/// `o = dropped(softmax(scores)) v`, with zeros in rows beyond the lengths of queries; statistics
/// as [`Softmax`] has them.
///
/// # Errors
/// Not supported, with the reason: masks of blocks, what the parts do not compute.
pub(super) fn forward(of: &Attention, operation: &Operation, parts: &mut Parts) -> Result<()> {
    refuse(operation, &[Port::BlockMask])?;
    let operation = &with_lengths(operation, parts)?;
    let [q, k, v, o] = [
        operand(operation, Port::Q)?,
        &loaded(operation, Port::K, Port::PagesK, parts)?,
        &loaded(operation, Port::V, Port::PagesV, parts)?,
        operand(operation, Port::O)?,
    ];
    let scores = scores(operation, of.modifier.as_ref(), [q, k], parts)?;
    let dims = scores.changed.dims;
    let is_changed =
        of.dropout != 0.0 || operation.write(Port::AmaxS).is_some() || operation.read(Port::ScaleS).is_some();
    let first = if is_changed { scores.between } else { factor_type(scores.between, v) };
    let mut weights = parts.hidden(first, &dims);
    let mut reads = vec![(Port::X, &scores.changed)];
    reads.extend(operation.read(Port::Sink).map(|sink| (Port::Sink, sink)));
    let mut writes = vec![(Port::Y, &weights)];
    for port in [Port::Stats, Port::Max, Port::SumExp] {
        writes.extend(operation.write(port).map(|tensor| (port, tensor)));
    }
    parts.push(Kind::Softmax(Softmax { log2: of.log2 }), &reads, &writes);
    if of.dropout != 0.0 {
        weights = dropped(of.dropout, operation, &weights, parts)?;
    }
    if let Some(amax) = operation.write(Port::AmaxS) {
        parts.reduce(super::REDUCE_AMAX, &weights, amax);
    }
    if let Some(factor) = operation.read(Port::ScaleS) {
        // They are multiplied in the type of the queries.
        let narrow = parts.hidden(q.data_type, &dims);
        parts.pointwise(mode::MUL, [1.0; 2], &[(Port::X, &weights), (Port::B, factor)], &narrow);
        weights = narrow;
    }
    let weights = factor(&weights, v, parts);
    // What lies beyond the lengths may be anything.
    let values = beyond(parts, v, Port::LengthKv, operation);
    let factors: Vec<&Arc<Tensor>> =
        [Port::DescaleS, Port::DescaleV].into_iter().filter_map(|port| operation.read(port)).collect();
    let (scale, amax) = (operation.read(Port::ScaleO), operation.write(Port::AmaxO));
    if factors.is_empty() && scale.is_none() && amax.is_none() {
        parts.matmul([&weights, &values], [false; 2], o);
        return Ok(());
    }
    let mut result = parts.hidden(scores.between, &o.dims);
    parts.matmul([&weights, &values], [false; 2], &result);
    for factor in factors {
        result = parts.product(&result, factor);
    }
    if let Some(amax) = amax {
        parts.reduce(super::REDUCE_AMAX, &result, amax);
    }
    match scale {
        Some(scale) => parts.pointwise(mode::MUL, [1.0; 2], &[(Port::X, &result), (Port::B, scale)], o),
        None => parts.pointwise(mode::IDENTITY, [1.0; 2], &[(Port::X, &result)], o),
    }
    Ok(())
}

/// The type in which weights or gradients of scores are multiplied by a matrix: that of the matrix
/// if it has 16 bits, as Tensor Cores take them, else that of the scores.
fn factor_type(between: Type, matrix: &Tensor) -> Type {
    let is_narrow = [DataType::Half, DataType::Bfloat16].iter().any(|&of| matrix.data_type == of.into());
    if is_narrow { matrix.data_type } else { between }
}

/// A tensor of scores in the type in which it is multiplied by a matrix.
fn factor(scores: &Arc<Tensor>, matrix: &Tensor, parts: &mut Parts) -> Arc<Tensor> {
    let own = factor_type(scores.data_type, matrix);
    if own == scores.data_type {
        return Arc::clone(scores);
    }
    let y = parts.hidden(own, &scores.dims);
    parts.pointwise(mode::IDENTITY, [1.0; 2], &[(Port::X, scores)], &y);
    y
}

/// `CUDNN_RNG_DISTRIBUTION_BERNOULLI`
pub(in super::super) const BERNOULLI: i32 = 0;

/// Weights that are kept, over the probability of that, and zeros.
fn dropped(
    probability: f64, operation: &Operation, weights: &Arc<Tensor>, parts: &mut Parts,
) -> Result<Arc<Tensor>> {
    if !(0.0..1.0).contains(&probability) {
        return Err(Error::unsupported(format!("dropout with the probability {probability}")));
    }
    let seed = operation.read(Port::Seed).ok_or_else(|| Error::unsupported("dropout without a seed"))?;
    let numbers = match operation.write(Port::Dump) {
        Some(dump) => Arc::clone(dump),
        None => parts.hidden(DataType::Float, &weights.dims),
    };
    if numbers.dims != weights.dims {
        return Err(Error::unsupported(format!("random numbers of {} for {}", numbers.dims, weights.dims)));
    }
    let mut reads = vec![(Port::Seed, seed)];
    reads.extend(operation.read(Port::Offset).map(|offset| (Port::Offset, offset)));
    let kept = 1.0 - probability;
    let settings = Rng {
        distribution: BERNOULLI,
        normal: [0.0, 1.0],
        uniform: [0.0, 1.0],
        probability: kept,
        seed: None,
    };
    parts.push(Kind::Rng(settings), &reads, &[(Port::Y, &numbers)]);
    Ok(parts.binary(mode::MUL, [f64::from(1.0 / kept as f32), 1.0], [weights, &numbers]))
}

/// Keys or values: the tensor itself, or the pages of it that a table names, as many as the other
/// one of the two has rows or the table has pages.
fn loaded(operation: &Operation, port: Port, table: Port, parts: &mut Parts) -> Result<Arc<Tensor>> {
    let container = operand(operation, port)?;
    let Some(pages) = operation.read(table) else { return Ok(Arc::clone(container)) };
    let lengths =
        operation.read(Port::LengthKv).ok_or_else(|| Error::unsupported("pages without lengths"))?;
    let (pages, other, others) = match port {
        Port::K => (pages, Port::V, Port::PagesV),
        _ => (pages, Port::K, Port::PagesK),
    };
    let rows = match operation.read(others) {
        None => operand(operation, other)?.dims[ROWS],
        Some(_) => operand(operation, table)?.dims[ROWS].saturating_mul(container.dims[ROWS]),
    };
    let batch = pages.dims[0];
    let y = parts.hidden(container.data_type, &[batch, container.dims[HEADS], rows, container.dims[COLUMNS]]);
    let reads = [(Port::X, container), (Port::Table, pages), (Port::LengthKv, lengths)];
    parts.push(Kind::PagedLoad, &reads, &[(Port::Y, &y)]);
    Ok(y)
}

/// The attention with the lengths of sequences where it has their ends in what is packed: each end
/// less the one before.
///
/// # Errors
/// Not supported: both, other extents.
fn with_lengths(operation: &Operation, parts: &mut Parts) -> Result<Operation> {
    let mut own = operation.clone();
    for (ends, lengths) in [(Port::CumulativeQ, Port::LengthQ), (Port::CumulativeKv, Port::LengthKv)] {
        let Some(tensor) = operation.read(ends) else { continue };
        let batches = tensor.dims.first().map_or(0, |&count| count - 1);
        if *tensor.dims != [batches + 1, 1, 1, 1] || batches < 0 || operation.read(lengths).is_some() {
            return Err(Error::unsupported(format!("{} of {}", ends.name(), tensor.dims)));
        }
        let [begins, ends_of, own_lengths] =
            [(); 3].map(|()| parts.hidden(tensor.data_type, &[batches, 1, 1, 1]));
        for (first, y) in [(0, &begins), (1, &ends_of)] {
            let limits = vec![first + batches, 1, 1, 1];
            let slice = Slice { starts: vec![first, 0, 0, 0], limits, strides: vec![1; 4] };
            parts.push(Kind::Slice(slice), &[(Port::X, tensor)], &[(Port::Y, y)]);
        }
        parts.pointwise(mode::SUB, [1.0; 2], &[(Port::X, &ends_of), (Port::B, &begins)], &own_lengths);
        own.reads.retain(|link| link.port != ends);
        own.reads.push(Link { port: lengths, tensor: own_lengths });
    }
    Ok(own)
}

/// A tensor with zeros in rows beyond lengths, if there are some.
fn beyond(parts: &mut Parts, x: &Arc<Tensor>, lengths: Port, operation: &Operation) -> Arc<Tensor> {
    parts.padded(x, [operation.read(lengths), None], Padding { rows: ROWS, columns: COLUMNS, value: 0.0 })
}

/// With `p = exp(scores - stats)` and `d = sum of do * o` along rows: `dv = p^T do`,
/// `ds = p (do v^T - d)` through the graph that changes scores, `dq = scale ds k`,
/// `dk = scale ds^T q`; `dsink = - sum of exp(sink - stats) d`. Heads that share keys and values
/// are summed.
///
/// # Errors
/// Not supported, with the reason.
pub(super) fn backward(of: &Attention, operation: &Operation, parts: &mut Parts) -> Result<()> {
    let tensor = |port| operand(operation, port);
    let (q, k, v) = (tensor(Port::Q)?, tensor(Port::K)?, tensor(Port::V)?);
    let (o, stats) = (tensor(Port::O)?, tensor(Port::Stats)?);
    let queries = beyond(parts, q, Port::LengthQ, operation);
    let [keys, values] = [k, v].map(|x| beyond(parts, x, Port::LengthKv, operation));
    let [results, gradient] = [o, tensor(Port::Do)?].map(|x| beyond(parts, x, Port::LengthQ, operation));
    let stats = beyond(parts, stats, Port::LengthQ, operation);
    let scores = scores(operation, of.modifier.as_ref(), [&queries, &keys], parts)?;
    let (between, dims) = (scores.between, scores.changed.dims);
    let weights = parts.hidden(between, &dims);
    parts.push(Kind::Weights, &[(Port::X, &scores.changed), (Port::Stats, &stats)], &[(Port::Y, &weights)]);

    let dv = tensor(Port::Dv)?;
    let own = factor(&weights, &gradient, parts);
    shared(parts, between, [&own, &gradient], dv);
    let per_weight = parts.hidden(between, &dims);
    parts.matmul([&gradient, &values], [false, true], &per_weight);
    let products = parts.hidden(between, &o.dims);
    parts.pointwise(mode::MUL, [1.0; 2], &[(Port::X, &gradient), (Port::B, &results)], &products);
    let row_sums = parts.hidden(between, &[dims[0], dims[1], dims[ROWS], 1]);
    parts.reduce(super::REDUCE_ADD, &products, &row_sums);
    let distance = parts.binary(mode::ADD, [1.0, -1.0], [&per_weight, &row_sums]);
    let changed = parts.product(&weights, &distance);
    let mut per_score = gradient_of_scores(&scores, changed, parts)?;
    if let Some(scale) = operation.read(Port::Scale) {
        per_score = parts.product(&per_score, scale);
    }
    let per_score = factor(&per_score, q, parts);
    parts.matmul([&per_score, &keys], [false; 2], tensor(Port::Dq)?);
    shared(parts, between, [&per_score, &queries], tensor(Port::Dk)?);

    if let Some(dsink) = operation.write(Port::Dsink) {
        let sink = tensor(Port::Sink)?;
        let own = parts.hidden(between, &row_sums.dims);
        parts.push(Kind::Weights, &[(Port::X, sink), (Port::Stats, &stats)], &[(Port::Y, &own)]);
        let own = parts.binary(mode::MUL, [-1.0, 1.0], [&own, &row_sums]);
        parts.reduce(super::REDUCE_ADD, &own, dsink);
    }
    Ok(())
}

/// `to = a^T b`, summed over the heads that share what it is the gradient of.
fn shared(parts: &mut Parts, between: Type, [a, b]: [&Arc<Tensor>; 2], to: &Arc<Tensor>) {
    let dims = [a.dims[0], a.dims[1], a.dims[COLUMNS], b.dims[COLUMNS]];
    if *to.dims == dims {
        return parts.matmul([a, b], [true, false], to);
    }
    let all = parts.hidden(between, &dims);
    parts.matmul([a, b], [true, false], &all);
    parts.reduce(super::REDUCE_ADD, &all, to);
}
