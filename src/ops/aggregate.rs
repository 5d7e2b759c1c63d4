//! Aggregate: rows of features joined along the edges of a graph, and their gradients.
//!
//! A kind of step of its own, because which rows are joined is data: no loops describe it.

use std::fmt;

use crate::dtype::Scalar;

/// How the rows of a vertex's edges are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Join {
    /// The sum.
    Sum,
    /// The sum, divided by the number of edges.
    Mean,
    /// The greatest; a NaN is greater than every number, and the first of equals counts.
    Max,
    /// The least; a NaN is less than every number, and the first of equals counts.
    Min,
}

impl Join {
    /// Whether one edge is chosen, whose place is remembered.
    pub const fn is_choice(self) -> bool {
        matches!(self, Join::Max | Join::Min)
    }
}

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AggregateFunction {
    /// Row v of the output: what the rows of the sources of v's edges are joined to, what the rows
    /// of its edges are joined to, and row v of the concatenated features; operands output,
    /// positions, node features, edge features, concatenated features, offsets, indices, map.
    Forward,
    /// To the gradient of each source, the sum over its edges of their part of the gradient of the
    /// output; likewise for the row of each edge; and a copy for the concatenated features;
    /// operands the three gradients, gradient of the output, positions, offsets, indices, map.
    Backward,
}

/// A graph and the features on it.
///
/// Edges are grouped by their targets: those of target v are `offsets[v]` to `offsets[v + 1]`, edge
/// i comes from source `indices[i]`, and its features are row `map[i]`, or row i without a map. A
/// target without edges has zeros, and passes no gradient on.
///
/// # Order
/// Numbers are binary32, each operation rounded once. Sums start from +0 and go by ascending edges;
/// what is in a gradient is added last, and the gradient of a source without edges is left as it
/// is.
///
/// # Positions
/// Of a [choice](Join::is_choice), the edge that was chosen for each column of sources and edges,
/// -1 without edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// What is computed.
    pub function: AggregateFunction,
    /// How rows are joined.
    pub join: Join,
    /// Number of sources.
    pub sources: i64,
    /// Number of targets.
    pub targets: i64,
    /// Number of edges.
    pub edges: i64,
    /// Columns of sources, of edges, and of what is concatenated; 0 where there are none.
    pub columns: [i64; 3],
    /// Scalar type of features.
    pub scalar: Scalar,
    /// Scalar type of offsets, indices, map and positions.
    pub index: Scalar,
    /// Whether there is a map.
    pub mapped: bool,
}

impl Aggregate {
    /// Columns of the output.
    pub const fn width(&self) -> i64 {
        self.columns[0] + self.columns[1] + self.columns[2]
    }

    /// Columns that are joined.
    pub const fn joined(&self) -> i64 {
        self.columns[0] + self.columns[1]
    }
}

/// Kind, types and extents in one line, for the log.
impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Aggregate { function, join, sources, targets, edges, columns: [node, edge, concat], .. } = self;
        write!(f, "aggregate {function:?} {join:?} {} by {}", self.scalar.name(), self.index.name())?;
        write!(f, " {sources} to {targets} by {edges} edges, columns {node}+{edge}+{concat}")?;
        if self.mapped { f.write_str(" mapped") } else { Ok(()) }
    }
}
