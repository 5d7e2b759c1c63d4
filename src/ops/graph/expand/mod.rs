//! Operations that are graphs of others: attention, from products of matrices, masks and softmax;
//! and what stands between operations and ragged tensors.
//!
//! Tensors between the parts are virtual, with uids that nothing else has, and share the workspace
//! by lifetime as all virtual tensors do.

mod attention;
mod blocks;
mod gradients;
mod packed;
mod ragged;
mod scores;
mod sink;

pub(super) use attention::BERNOULLI;
pub(super) use blocks::{QUARTER, TILE};

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Graph, Kind, Link, Matmul, Operation, Padding, Pointwise, Port, Reduction, Tensor, Type, mode};
use crate::dtype::DataType;
use crate::error::Result;
use crate::layout::Dims;
use crate::ops::agree;
use crate::reserve;

/// `CUDNN_REDUCE_TENSOR_ADD` and `CUDNN_REDUCE_TENSOR_AMAX`
pub(super) const REDUCE_ADD: i32 = 0;
const REDUCE_AMAX: i32 = 4;

/// The graph with each operation that consists of others expanded into them.
///
/// # Errors
/// Not supported, with the operation and the reason: what is not computed.
pub(super) fn expanded(graph: &Graph) -> Result<Cow<'_, Graph>> {
    let is_composite = |operation: &Operation| {
        matches!(operation.kind, Kind::AttentionForward(_) | Kind::AttentionBackward(_))
    };
    let mut graph = Cow::Borrowed(graph);
    for at in 0..graph.operations.len() {
        let operation = &graph.operations[at];
        if let Some(own) = blocks::in_bytes(operation).map_err(|error| operation.explained(at, error))? {
            graph.to_mut().operations[at] = own;
        }
    }
    for at in sink::products(&graph) {
        if let Kind::Pointwise(of) = &mut graph.to_mut().operations[at].kind {
            of.alpha[0] = -of.alpha[0];
        }
    }
    if graph.operations.iter().any(packed::is_foreign) {
        graph = Cow::Owned(packed::unpacked(&graph)?);
    }
    if graph.operations.iter().any(ragged::is_ragged) {
        graph = Cow::Owned(ragged::dense(&graph)?);
    }
    if !graph.operations.iter().any(is_composite) {
        return Ok(graph);
    }
    let graph = &*graph;
    let mut parts = Parts::of(graph);
    for (at, operation) in graph.operations.iter().enumerate() {
        reserve::check()?;
        let outcome = match &operation.kind {
            Kind::AttentionForward(of) => attention::forward(of, operation, &mut parts),
            Kind::AttentionBackward(of) => attention::backward(of, operation, &mut parts),
            _ => {
                parts.operations.push(operation.clone());
                Ok(())
            }
        };
        outcome.map_err(|error| operation.explained(at, error))?;
    }
    Ok(Cow::Owned(Graph { operations: parts.operations }))
}

/// The operations of a graph while others are put in the place of some.
pub(super) struct Parts {
    pub operations: Vec<Operation>,
    uids: BTreeSet<i64>,
    next: i64,
}

impl Parts {
    pub fn of(graph: &Graph) -> Parts {
        let mut uids = BTreeSet::new();
        graph.operations.iter().for_each(|operation| uids_of(operation, &mut uids));
        Parts { operations: Vec::new(), uids, next: i64::MIN }
    }

    /// A virtual tensor, packed.
    pub fn hidden(&mut self, data_type: impl Into<Type>, dims: &[i64]) -> Arc<Tensor> {
        while !self.uids.insert(self.next) {
            self.next += 1;
        }
        let strides = agree::row_major(&Dims::new(dims));
        let tensor = Tensor::new(self.next, DataType::Float, dims, &strides);
        Arc::new(Tensor { data_type: data_type.into(), is_virtual: true, ..tensor })
    }

    pub fn push(&mut self, kind: Kind, reads: &[(Port, &Arc<Tensor>)], writes: &[(Port, &Arc<Tensor>)]) {
        self.operations.push(Operation::new(kind, reads, writes));
    }

    /// `y = alpha a b`, of a function of two operands by its mode; `y` is as `a` if it is not
    /// given.
    fn binary(&mut self, mode: i32, alpha: [f64; 2], [a, b]: [&Arc<Tensor>; 2]) -> Arc<Tensor> {
        let y = self.hidden(a.data_type, &a.dims);
        self.pointwise(mode, alpha, &[(Port::X, a), (Port::B, b)], &y);
        y
    }

    /// A function by its mode, into a tensor.
    fn pointwise(&mut self, mode: i32, alpha: [f64; 2], reads: &[(Port, &Arc<Tensor>)], y: &Arc<Tensor>) {
        let settings = Pointwise { alpha, ..Pointwise::new(mode) };
        self.push(Kind::Pointwise(settings), reads, &[(Port::Y, y)]);
    }

    /// `a * b`, in the shape of `a`.
    fn product(&mut self, a: &Arc<Tensor>, b: &Arc<Tensor>) -> Arc<Tensor> {
        self.binary(mode::MUL, [1.0; 2], [a, b])
    }

    /// `c = a b`, of which either may be transposed.
    fn matmul(&mut self, [a, b]: [&Arc<Tensor>; 2], transposed: [bool; 2], c: &Arc<Tensor>) {
        let settings = Matmul { math: c.data_type, padding: 0.0, transposed };
        self.push(Kind::Matmul(settings), &[(Port::A, a), (Port::B, b)], &[(Port::C, c)]);
    }

    /// Elements joined to the extents of y.
    pub fn reduce(&mut self, operator: i32, x: &Arc<Tensor>, y: &Arc<Tensor>) {
        let settings = Reduction { operator, math: DataType::Float.into() };
        self.push(Kind::Reduction(settings), &[(Port::X, x)], &[(Port::Y, y)]);
    }

    /// The tensor with a number where rows or columns are beyond these lengths; itself if there are
    /// none.
    fn padded(&mut self, x: &Arc<Tensor>, lengths: [Option<&Arc<Tensor>>; 2], of: Padding) -> Arc<Tensor> {
        let ports = [Port::LengthQ, Port::LengthKv];
        let lengths = ports.into_iter().zip(lengths).filter_map(|(port, length)| Some((port, length?)));
        let reads: Vec<(Port, &Arc<Tensor>)> = [(Port::X, x)].into_iter().chain(lengths).collect();
        if reads.len() == 1 {
            return Arc::clone(x);
        }
        let y = self.hidden(x.data_type, &x.dims);
        self.push(Kind::Padding(of), &reads, &[(Port::Y, &y)]);
        y
    }
}

fn uids_of(operation: &Operation, uids: &mut BTreeSet<i64>) {
    for Link { tensor, .. } in operation.links() {
        uids.insert(tensor.uid);
        uids.extend(tensor.ragged.as_ref().map(|ragged| ragged.offset.uid));
    }
    if let Kind::AttentionForward(of) | Kind::AttentionBackward(of) = &operation.kind
        && let Some(modifier) = &of.modifier
    {
        modifier.operations.iter().for_each(|inner| uids_of(inner, uids));
    }
}
