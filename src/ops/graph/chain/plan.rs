//! The plan of a chain: block after block.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::super::steps::Storage;
use super::super::work::Work;
use super::super::{Link, Port, Tensor};
use super::Chain;
use super::block::{Block, Index, Kit, Spot};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{Dims, Layout, MAX_RANK};
use crate::ops::plan::{Operand, PlacedSink, Plan, Reader, Role, StepSink, Tasks};

/// Blocks of a chain.
pub(in super::super) struct ChainPlan {
    operands: Vec<Operand>,
    layouts: Vec<Option<Layout>>,
    extents: Dims,
    /// Extents of a block.
    block: Dims,
    /// The dimensions that are cut, outermost first.
    order: Vec<usize>,
    /// The steps of a block, by whether it is a later one of its group, and by whether the extents
    /// cut it off.
    blocks: [[Block; 2]; 2],
    /// Groups of blocks that are computed by themselves, and how many blocks there are.
    groups: i64,
    count: i64,
    /// The one dimension in which blocks may be cut off.
    last: usize,
}

impl ChainPlan {
    /// The plan of a chain, where its operands lie, and the bytes of scratch.
    ///
    /// # Errors
    /// Not supported: what is not computed block by block.
    pub fn new(
        chain: &Chain, outer: &dyn Fn(&Tensor) -> Result<(Scalar, Layout)>,
    ) -> Result<(ChainPlan, Vec<Storage>, usize)> {
        let (mut operands, mut layouts, mut storage) = (Vec::new(), Vec::new(), Vec::new());
        let mut numbers = HashMap::new();
        let links = |writes: bool| {
            let of = move |operation: &super::super::Operation| {
                if writes { operation.writes.clone() } else { operation.reads.clone() }
            };
            chain.operations.iter().flat_map(of).map(move |link| (link, writes))
        };
        let parts =
            chain.sums.iter().map(|sum| (Link { port: Port::Sum, tensor: Arc::clone(&sum.parts) }, true));
        for (link, is_written) in links(true).chain(parts).chain(links(false)) {
            let uid = link.tensor.uid;
            if chain.inner.contains(&uid) || numbers.contains_key(&uid) {
                continue;
            }
            let (scalar, layout) = outer(&link.tensor)?;
            let (low, high) = layout.padded_span().unwrap_or_default();
            let (role, size) = (if is_written { Role::Write } else { Role::Read }, scalar.size() as i64);
            numbers.insert(uid, operands.len());
            let span = (low * size, (high + 1) * size);
            operands.push(Operand { name: link.port.name(), role, scalar, span });
            layouts.push(Some(layout));
            storage.push(Storage::Tensor(uid));
        }
        let kit = Kit { chain, outer, operands: numbers, scratch: operands.len() };
        let (block, last) = chain.cut();
        let mut rest = block;
        rest[last] = (chain.extents[last] - 1) % block[last] + 1;
        let both = |is_first: bool| -> Result<[Block; 2]> {
            Ok([kit.block(&block, is_first)?, kit.block(&rest, is_first)?])
        };
        let blocks = [both(true)?, both(false)?];
        let bytes = blocks.iter().flatten().map(|block| block.scratch).max().unwrap_or(0);
        storage.push(Storage::Scratch(0));
        let span = (0, bytes as i64);
        operands.push(Operand { name: "scratch", role: Role::Scratch, scalar: Scalar::F64, span });
        layouts.push(None);
        let order = chain.order.iter().copied().filter(|&axis| !chain.whole[axis]).collect();
        let (groups, count) = (chain.groups(), chain.blocks());
        let extents = chain.extents;
        let plan = ChainPlan { operands, layouts, extents, block, order, blocks, groups, count, last };
        Ok((plan, storage, bytes))
    }

    /// Blocks in a dimension.
    fn blocks(&self, axis: usize) -> i64 {
        (self.extents[axis] - 1) / self.block[axis] + 1
    }

    /// The steps of each block of a group with their operands, and the index where it begins.
    fn group(&self, group: i64) -> impl Iterator<Item = (&[(Work, Vec<Spot>)], Index)> {
        // As many blocks in each, or one more.
        let begin =
            |group: i64| (i128::from(group) * i128::from(self.count) / i128::from(self.groups)) as i64;
        let first = begin(group);
        (first..begin(group + 1)).map(move |block| self.block(block, block > first))
    }

    fn block(&self, block: i64, is_later: bool) -> (&[(Work, Vec<Spot>)], Index) {
        let (mut rest, mut index) = (block, [0; MAX_RANK]);
        for &axis in self.order.iter().rev() {
            let count = self.blocks(axis);
            index[axis] = rest % count * self.block[axis];
            rest /= count;
        }
        let is_last = index[self.last] + self.block[self.last] >= self.extents[self.last];
        (&self.blocks[usize::from(is_later)][usize::from(is_last)].works, index)
    }
}

impl Plan for ChainPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        for (group, (works, index)) in (0..self.groups).flat_map(|at| self.group(at).map(move |of| (at, of)))
        {
            for (work, spots) in works {
                let bytes = |operand: usize| spots[operand].at(&index, group);
                let work =
                    work.shifted(&bytes).ok_or_else(|| Error::Internal("a step that cannot move".into()))?;
                let slots: Vec<usize> = spots.iter().map(|spot| spot.operand).collect();
                sink(work.step(), &slots)?;
            }
        }
        Ok(())
    }

    /// If blocks have the same elements of both, and none is read where it was written before.
    fn works_in_place(&self, read: usize, write: usize) -> bool {
        self.operands[read].scalar == self.operands[write].scalar
            && self.layouts[read] == self.layouts[write]
            && self.blocks.iter().flatten().all(|block| block.replaces(read, write))
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        self.layouts[operand].as_ref()
    }

    fn tasks(&self) -> Option<&dyn Tasks> {
        Some(self)
    }
}

impl Tasks for ChainPlan {
    fn count(&self) -> usize {
        self.groups as usize
    }

    fn scratch(&self) -> Option<usize> {
        self.operands.len().checked_sub(1)
    }

    fn steps_of(&self, task: usize, _: &Reader<'_>, sink: PlacedSink<'_>) -> Result<()> {
        let mut places = Vec::new();
        for (works, index) in self.group(task as i64) {
            for (work, spots) in works {
                places.clear();
                places.extend(spots.iter().map(|spot| (spot.operand, spot.at(&index, task as i64))));
                sink(work.step(), &places)?;
            }
        }
        Ok(())
    }
}

/// The extents, those of a block, and the steps of one.
impl fmt::Display for ChainPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in blocks of {}: ", self.extents, self.block)?;
        let mut separator = "";
        for (work, _) in &self.blocks[0][0].works {
            write!(f, "{separator}{}", work.step())?;
            separator = "; ";
        }
        Ok(())
    }
}
