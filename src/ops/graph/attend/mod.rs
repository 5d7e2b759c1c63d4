//! Attention as one operation, and its gradients as one, where nothing else reads what lies
//! between.
//!
//! ```text
//!  finder.rs      what both directions have: factors, masks and the product that makes scores
//!  forward.rs     from the softmax on
//!  backward.rs    from the weights that are made again from their statistics on
//! ```

mod backward;
mod finder;
mod forward;

use super::{Graph, Kind};

/// The graph in which attention of at least `least` queries of a head is one operation; `None` if
/// it has none that is.
pub(super) fn attended(graph: &Graph, least: i64) -> Option<Graph> {
    let mut graph = graph.clone();
    let mut found_any = false;
    let find = |graph: &Graph, at: usize| match graph.operations[at].kind {
        Kind::Softmax(_) => forward::find(graph, at, least),
        Kind::Weights => backward::find(graph, at, least),
        _ => None,
    };
    while let Some((members, operation)) = (0..graph.operations.len()).find_map(|at| find(&graph, at)) {
        let mut at = 0..;
        graph.operations.retain(|_| !at.next().is_some_and(|at| members.contains(&at)));
        graph.operations.push(operation);
        found_any = true;
    }
    found_any.then_some(graph)
}
