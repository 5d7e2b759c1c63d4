//! Attention without its matrix of scores: operations on tensors of scores are computed tile by
//! tile, and nothing of a tile is kept.
//!
//! ```text
//!  mod.rs        Region: such operations of a graph, put in their place as one operation
//!  region.rs     which operations they are
//!  along.rs      which dimension of a tensor follows which dimension of the scores
//!  transposed.rs transposed tensors of scores, read where they lie
//!  stages.rs     what is computed before, for and after the tiles of some rows
//!  tile.rs       the steps of a tile of these extents
//!  band.rs       tiles inside and outside of masks
//!  plan.rs       the plan: tiles of rows and columns, one after the other
//! ```
//! A region has one product that makes scores, or more, operations on elements of scores, at most
//! one softmax, and products of what became of them. The tiles of some rows are computed from the
//! first columns to the last. A softmax keeps the maximum and the sum of its rows so far, and
//! products that are sums over columns are rescaled when the maximum grows. Sums over rows grow
//! from tile to tile in the order of the rows. So the tiles that an element is computed of depend
//! on the extents of the scores alone: its bits are the same in every batch and for any number of
//! threads.
//!
//! On the CPU core a tile is of one head, and threads run tiles of their own. On the CUDA core a
//! tile is of several heads, and its steps follow each other on the caller's stream. There no
//! number of the device's memory is known when steps are queued: tiles are left out by what was
//! passed by value alone.

mod along;
mod band;
mod plan;
mod region;
mod stages;
mod tile;
mod transposed;

use std::collections::HashSet;
use std::sync::Arc;

pub(super) use plan::StreamPlan;
pub(super) use transposed::straight;

use super::dag::Dag;
use super::expand::Parts;
use super::{Graph, Kind, Link, Operation, Pointwise, Port, Tensor, mode};
use crate::dtype::DataType;

/// Dimensions of scores.
const BATCH: usize = 0;
const HEADS: usize = 1;
const ROWS: usize = 2;
const COLUMNS: usize = 3;

/// The extents of tiles, and which scores are worth them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Rows of a tile.
    pub rows: i64,
    /// Columns of a tile.
    pub columns: i64,
    /// Scores of one head below which they are computed all at once.
    pub least: i64,
    /// The same tile of several heads is computed by the same steps, as long as it has no more
    /// scores than these; of one head at least.
    pub together: i64,
}

impl Tiles {
    /// Tiles that leave room for others in a second-level cache.
    pub const DEFAULT: Tiles = Tiles { rows: 128, columns: 256, least: 128 * 128, together: 0 };
    /// For a GPU, where each step of a tile is a launch: tiles of several heads, which fill the
    /// device, and of which 32 MiB in binary32 are left in its second-level cache at best. Scores
    /// that are few tiles are computed whole, in fewer launches.
    pub const CUDA: Tiles = Tiles { rows: 512, columns: 2048, least: 1 << 21, together: 1 << 23 };
    /// No tiles.
    pub const NONE: Tiles = Tiles { least: i64::MAX, ..Tiles::DEFAULT };
}

/// Operations on tensors of scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Batches, heads, rows and columns of the scores.
    extents: [i64; 4],
    /// The operations, each after those that write what it reads.
    operations: Vec<Operation>,
    /// The uids of its tensors of scores.
    scores: Vec<i64>,
    /// The index of rows and the index of columns.
    lines: [Arc<Tensor>; 2],
    tiles: Tiles,
}

/// The graph in which regions are operations; `None` if it has no region.
pub(super) fn streamed(graph: &Graph, tiles: Tiles) -> Option<Graph> {
    let operations = Dag::new(graph).ok()?.operations.into_iter().cloned().collect();
    let mut graph = straight(Graph { operations });
    let mut found_any = false;
    while let Some(found) = region::find(&graph.operations, tiles) {
        graph = in_place(&graph, &found, tiles);
        found_any = true;
    }
    found_any.then_some(graph)
}

/// The graph with a region in the place of its operations.
fn in_place(graph: &Graph, found: &region::Found, tiles: Tiles) -> Graph {
    let mut parts = Parts::of(graph);
    let rank_of = |axis: usize| {
        let mut dims = [1; 4];
        dims[axis] = found.extents[axis];
        dims
    };
    let lines = [ROWS, COLUMNS].map(|axis| {
        let line = parts.hidden(DataType::Float, &rank_of(axis));
        let index = Pointwise { axis: Some(axis as i64), ..Pointwise::new(mode::GEN_INDEX) };
        parts.push(Kind::Pointwise(index), &[], &[(Port::Y, &line)]);
        line
    });
    let (members, others): (Vec<usize>, Vec<usize>) =
        (0..graph.operations.len()).partition(|at| found.members.contains(at));
    let operations: Vec<Operation> = members.iter().map(|&at| graph.operations[at].clone()).collect();
    let outside = |links: &mut dyn Iterator<Item = &Link>| {
        let mut seen = HashSet::new();
        let mut own = Vec::new();
        for link in links.filter(|link| !found.scores.contains(&link.tensor.uid)) {
            if seen.insert(link.tensor.uid) {
                own.push(link.clone());
            }
        }
        own
    };
    let mut reads = outside(&mut operations.iter().flat_map(|operation| &operation.reads));
    reads.extend(lines.iter().map(|line| Link { port: Port::Index, tensor: Arc::clone(line) }));
    let writes = outside(&mut operations.iter().flat_map(|operation| &operation.writes));
    let scores = found.scores.clone();
    let region = Region { extents: found.extents, operations, scores, lines, tiles };
    parts.operations.push(Operation { kind: Kind::Stream(Box::new(region)), reads, writes });
    parts.operations.extend(others.into_iter().map(|at| graph.operations[at].clone()));
    Graph { operations: parts.operations }
}
