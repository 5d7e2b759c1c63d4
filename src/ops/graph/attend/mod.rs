//! Attention as one operation, and its gradients as one, where nothing else reads what lies
//! between.
//!
//! ```text
//!  finder.rs      what both directions have: factors, masks and the product that makes scores
//!  added.rs       what is added to scores
//!  cap.rs         what limits scores, and its derivative
//!  dropout.rs     what multiplies weights
//!  forward.rs     from the softmax on
//!  backward.rs    from the weights that are made again from their statistics on
//! ```
//! cudnn-frontend passes by value what stands outside of a band and a factor of 1: such numbers are
//! known when the graph runs, and no sooner. So the finder supposes them, and who runs the graph
//! looks whether they are so.

mod added;
mod backward;
mod cap;
mod dropout;
mod finder;
mod forward;

use super::{Graph, Kind, Operation, Tensor, mode, stream};
use crate::ops::attend::Attend;

/// Which attention a core has as one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attends {
    /// Queries of a head from which on it is.
    pub least: i64,
    /// The most columns of a matrix.
    pub columns: i64,
    /// Whether scores may be more than products, and weights multiplied.
    pub changed: bool,
}

impl Attends {
    /// On the CPU core, which would pack its keys for little where there are few queries.
    pub const CPU: Attends = Attends { least: 16, columns: Attend::MOST_COLUMNS, changed: true };
    /// On the CUDA core, whose blocks have more rows than few queries would fill.
    pub const CUDA: Attends = Attends { least: 16, columns: 128, changed: false };

    /// Whether scores of this tensor are of enough queries.
    fn is_for(&self, scores: &Tensor) -> bool {
        scores.dims.get(finder::ROWS).is_some_and(|&rows| rows >= self.least)
    }
}

/// A number of binary32 that a graph reads by value, and without which it is no attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supposed {
    /// The uid of its tensor.
    pub uid: i64,
    number: Number,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    One,
    Lowest,
}

impl Supposed {
    /// Whether the number is the supposed one.
    pub fn holds(&self, number: f32) -> bool {
        match self.number {
            Number::One => number == 1.0,
            Number::Lowest => number == f32::NEG_INFINITY,
        }
    }
}

/// What is found to be attention.
struct Found {
    /// The places of the operations that it stands for.
    members: Vec<usize>,
    /// The attention, and what follows it.
    operations: Vec<Operation>,
    supposed: Vec<Supposed>,
}

/// The graph in which such attention is one operation, and what numbers that supposes; `None` if it
/// has none that is.
pub(super) fn attended(graph: &Graph, of: Attends) -> Option<(Graph, Vec<Supposed>)> {
    let mut graph = stream::straight(graph.clone());
    let (mut found_any, mut supposed) = (false, Vec::new());
    let find = |graph: &Graph, at: usize| match &graph.operations[at].kind {
        Kind::Softmax(_) => forward::find(graph, at, of),
        Kind::Weights => backward::find(graph, at, of),
        Kind::Pointwise(exp) if exp.mode == mode::EXP => backward::find(graph, at, of),
        _ => None,
    };
    while let Some(found) = (0..graph.operations.len()).find_map(|at| find(&graph, at)) {
        let mut at = 0..;
        graph.operations.retain(|_| !at.next().is_some_and(|at| found.members.contains(&at)));
        graph.operations.extend(found.operations);
        supposed.extend(found.supposed);
        found_any = true;
    }
    found_any.then_some((graph, supposed))
}
