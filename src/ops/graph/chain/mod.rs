//! Operations that follow each other, some rows at a time: what lies between them stays in a cache.
//!
//! ```text
//!  mod.rs     Chain: such operations of a graph, put in their place as one operation
//!  local.rs   of which dimensions an operation needs all, and which may be cut
//!  region.rs  which operations of a graph belong together
//!  block.rs   the steps of a block of these extents
//!  plan.rs    the plan: block after block
//! ```
//! A block has all of the dimensions that some operation joins (the rows of a normalisation), and a
//! part of the others. Operations of a block are computed by the steps that compute them alone, and
//! round where these do: results have their bits.

mod block;
mod local;
mod plan;
mod region;

use std::collections::HashSet;
use std::sync::Arc;

pub(super) use plan::ChainPlan;

use super::dag::Dag;
use super::expand::{Parts, REDUCE_ADD};
use super::{Graph, Kind, Link, Operation, Strategy, Tensor};
use crate::dtype::DataType;
use crate::layout::Dims;

/// Operations that are computed block by block.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// The extents of the largest tensors; others have these or 1.
    extents: Dims,
    /// The dimensions in the order of memory, outermost first.
    order: Vec<usize>,
    /// Which dimensions a block has whole.
    whole: Vec<bool>,
    /// The operations, each after those that write what it reads.
    operations: Vec<Operation>,
    /// The uids of tensors that nothing else reads or writes.
    inner: Vec<i64>,
    /// About how many elements of each tensor a block has.
    block: i64,
    /// As of the [`Strategy`].
    rows: Option<i64>,
    /// Results that are sums over all blocks.
    sums: Vec<Sum>,
}

/// A sum over all blocks: groups of blocks add up parts of it, one after the other in each.
#[derive(Clone, Debug, PartialEq)]
struct Sum {
    /// What one block adds.
    term: Arc<Tensor>,
    /// The parts, one for each group of blocks along a dimension.
    parts: Arc<Tensor>,
    axis: usize,
}

/// The most groups of blocks. Their number follows from the extents alone, and so do the bits of
/// sums.
const GROUPS: i64 = 32;

impl Chain {
    /// The extents of a block, and the last dimension that it has a part of: blocks are cut along
    /// the outermost dimensions in memory.
    fn cut(&self) -> (Dims, usize) {
        let mut block = self.extents;
        let cut: Vec<usize> = self.order.iter().copied().filter(|&axis| !self.whole[axis]).collect();
        let mut last = cut.first().copied().unwrap_or(0);
        for axis in cut {
            let inner = block.iter().product::<i64>() / block[axis].max(1);
            block[axis] = (self.block / inner.max(1)).clamp(1, self.extents[axis]);
            last = axis;
            if block[axis] > 1 {
                break;
            }
        }
        (block, last)
    }

    /// The number of blocks.
    fn blocks(&self) -> i64 {
        let (block, _) = self.cut();
        self.extents.iter().zip(block.iter()).map(|(&extent, &block)| (extent - 1) / block + 1).product()
    }

    /// How many groups of blocks are computed by themselves.
    fn groups(&self) -> i64 {
        if self.sums.is_empty() { self.blocks() } else { self.blocks().min(GROUPS) }
    }
}

/// The graph in which chains are operations; `None` if it has none.
pub(super) fn chained(graph: &Graph, strategy: Strategy) -> Option<Graph> {
    if strategy.chains == i64::MAX {
        return None;
    }
    let operations: Vec<Operation> = Dag::new(graph).ok()?.operations.into_iter().cloned().collect();
    let regions = region::regions(&operations, strategy);
    if regions.is_empty() {
        return None;
    }
    let mut parts = Parts::of(graph);
    for found in &regions {
        put_in_one(&mut parts, &operations, found, strategy);
    }
    let is_other = |at: &usize| !regions.iter().any(|found| found.members.contains(at));
    parts.operations.extend((0..operations.len()).filter(is_other).map(|at| operations[at].clone()));
    Some(Graph { operations: parts.operations })
}

/// Adds the operations of a region as one, and the last sums over parts.
fn put_in_one(parts: &mut Parts, operations: &[Operation], found: &region::Found, strategy: Strategy) {
    let (members, others): (Vec<usize>, Vec<usize>) =
        (0..operations.len()).partition(|at| found.members.contains(at));
    let own: Vec<Operation> = members.iter().map(|&at| operations[at].clone()).collect();
    let uids =
        |list: &mut dyn Iterator<Item = &Link>| list.map(|link| link.tensor.uid).collect::<HashSet<_>>();
    let outside = uids(&mut others.iter().flat_map(|&at| operations[at].links()));
    let written = uids(&mut own.iter().flat_map(|operation| &operation.writes));
    let shape = &found.shape;
    let mut chain = Chain {
        extents: shape.extents,
        order: region::order(&shape.extents, &own),
        whole: shape.whole.clone(),
        operations: Vec::new(),
        inner: Vec::new(),
        block: strategy.block,
        rows: strategy.rows,
        sums: Vec::new(),
    };
    let groups = chain.blocks().min(GROUPS);
    let axis = shape.whole.iter().position(|whole| !whole).unwrap_or(0);
    let (mut reads, mut writes, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    let results = own.iter().flat_map(|operation| &operation.writes);
    for link in results.chain(own.iter().flat_map(|operation| &operation.reads)) {
        let Link { port, tensor } = link;
        if !seen.insert(tensor.uid) {
            continue;
        }
        if shape.sums.contains(&tensor.uid) {
            let mut dims = tensor.dims;
            dims[axis] = groups;
            let is_wide = tensor.data_type == DataType::Double.into();
            let own = parts.hidden(if is_wide { DataType::Double } else { DataType::Float }, &dims);
            parts.reduce(REDUCE_ADD, &own, tensor);
            writes.push(Link { port: *port, tensor: Arc::clone(&own) });
            chain.sums.push(Sum { term: Arc::clone(tensor), parts: own, axis });
            chain.inner.push(tensor.uid);
        } else if !written.contains(&tensor.uid) {
            reads.push(link.clone());
        } else if tensor.is_virtual && !outside.contains(&tensor.uid) {
            chain.inner.push(tensor.uid);
        } else {
            writes.push(link.clone());
        }
    }
    chain.operations = own;
    parts.operations.push(Operation { kind: Kind::Chain(Box::new(chain)), reads, writes });
}
