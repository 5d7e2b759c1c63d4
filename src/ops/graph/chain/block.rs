//! The steps of a block of some extents, and where their operands lie.

use std::collections::HashMap;

use super::super::allocator::WorkspaceAllocator;
use super::super::lower;
use super::super::steps::{Builder, Storage};
use super::super::work::{StepsPlan, Work, writes_beside};
use super::super::{Kind, Operation, Pointwise, Port, Tensor, mode};
use super::{Chain, Sum};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{Dims, Layout, MAX_RANK};

/// The index at which a block begins, by dimension.
pub(super) type Index = [i64; MAX_RANK];

/// Where an operand lies, wherever its block is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    /// The operand of the plan.
    pub operand: usize,
    /// Bytes from its address on.
    pub begin: i64,
    /// Bytes from one index to the next, by dimension.
    pub strides: Index,
    /// Bytes from one group of blocks to the next.
    pub group: i64,
}

impl Spot {
    /// Whether every block finds the same elements here and there.
    fn moves_as(&self, other: &Spot) -> bool {
        self.begin == other.begin && self.group == other.group && self.strides == other.strides
    }

    /// In bytes, for the block of a group that begins here.
    pub fn at(&self, index: &Index, group: i64) -> i64 {
        self.begin
            + self.group * group
            + index.iter().zip(self.strides).map(|(at, stride)| at * stride).sum::<i64>()
    }
}

/// The steps of a block.
pub(super) struct Block {
    pub works: Vec<(Work, Vec<Spot>)>,
    /// Bytes of scratch.
    pub scratch: usize,
}

impl Block {
    /// Whether an operand of the plan may be written where another one is read: only the first step
    /// that writes reads it, element by element, or steps before.
    pub fn replaces(&self, read: usize, write: usize) -> bool {
        let Some(first) = self.works.iter().position(|(_, spots)| spots[0].operand == write) else {
            return false;
        };
        let places = |spots: &[Spot]| spots.iter().map(|spot| spot.operand).collect::<Vec<_>>();
        if self.works.iter().any(|(work, spots)| writes_beside(work, &places(spots), &write)) {
            return false;
        }
        self.works[first..].iter().enumerate().all(|(k, (work, spots))| {
            let to = spots[0];
            let mut reads = (1..spots.len()).filter(|&operand| spots[operand].operand == read);
            reads.all(|operand| k == 0 && spots[operand].moves_as(&to) && work.is_in_place(operand))
        })
    }
}

/// What blocks are made of.
pub(super) struct Kit<'a> {
    pub chain: &'a Chain,
    /// The type of a tensor of the graph, and where its elements lie.
    pub outer: &'a dyn Fn(&Tensor) -> Result<(Scalar, Layout)>,
    /// The operand of the plan that a tensor of the graph is.
    pub operands: HashMap<i64, usize>,
    /// The operand that is scratch.
    pub scratch: usize,
}

/// A plan of an operation, where its operands lie, and the bytes of its scratch.
type Planned = (StepsPlan, Vec<Storage>, Vec<usize>);

impl Kit<'_> {
    /// The steps of a block of these extents, the first one of its group or a later one.
    ///
    /// # Errors
    /// Not supported: what is not computed, or not block by block.
    pub fn block(&self, extents: &Dims, is_first: bool) -> Result<Block> {
        let find = |tensor: &Tensor| self.describe(tensor, extents);
        let sums = self.chain.sums.iter().map(|Sum { term, parts, .. }| {
            let (mode, reads) = match is_first {
                true => (mode::IDENTITY, vec![(Port::X, term)]),
                false => (mode::ADD, vec![(Port::X, parts), (Port::B, term)]),
            };
            Operation::new(Kind::Pointwise(Pointwise::new(mode)), &reads, &[(Port::Y, parts)])
        });
        let operations: Vec<Operation> = self.chain.operations.iter().cloned().chain(sums).collect();
        let mut plans: Vec<Planned> = Vec::with_capacity(operations.len());
        for operation in &operations {
            let mut builder = Builder::new(operation, &find, lower::is_wide(operation))?;
            builder.joins_rows = self.chain.rows;
            lower::lower(operation, &mut builder)?;
            plans.push(builder.finish());
        }
        let (begins, mut allocator) = self.places(&operations, &plans, extents)?;
        let mut works = Vec::new();
        for (at, (plan, storage, pieces)) in plans.into_iter().enumerate() {
            let mut own = HashMap::new();
            for (piece, &bytes) in pieces.iter().enumerate().filter(|&(_, &bytes)| bytes > 0) {
                own.insert(piece, allocator.allocate(bytes, at, at).ok_or_else(beyond)?);
            }
            let spots: Vec<Spot> = storage
                .iter()
                .map(|place| match place {
                    Storage::Tensor(uid) => self.spot(*uid, &begins),
                    Storage::Scratch(piece) => Ok(self.still(own.get(piece).copied().unwrap_or(0))),
                })
                .collect::<Result<_>>()?;
            for (work, slots) in plan.works {
                if !work.is_of_tiles() {
                    return Err(Error::unsupported("a step that is not computed block by block"));
                }
                works.push((work, slots.iter().map(|&slot| spots[slot]).collect()));
            }
        }
        Ok(Block { works, scratch: allocator.size() })
    }

    fn is_inner(&self, uid: i64) -> bool {
        self.chain.inner.contains(&uid)
    }

    /// The sum whose parts a tensor is.
    fn sum_in(&self, uid: i64) -> Option<&Sum> {
        self.chain.sums.iter().find(|sum| sum.parts.uid == uid)
    }

    /// The type of a tensor, and where the elements of a block of these extents lie.
    fn describe(&self, tensor: &Tensor, extents: &Dims) -> Result<(Scalar, Layout)> {
        let chain = self.chain;
        let cut = |axis: usize, dim: i64| match chain.whole.get(axis) {
            Some(false) if dim == chain.extents[axis] => extents[axis],
            _ => dim,
        };
        let follows = tensor.dims.rank() == chain.extents.rank();
        let mut dims = tensor.dims;
        if let Some(sum) = self.sum_in(tensor.uid) {
            dims[sum.axis] = 1;
        } else if follows {
            dims.iter_mut().enumerate().for_each(|(axis, dim)| *dim = cut(axis, *dim));
        }
        if !self.is_inner(tensor.uid) {
            let (scalar, layout) = (self.outer)(tensor)?;
            if layout.split.is_some() || layout.dims != tensor.dims {
                return Err(Error::unsupported(format!("blocks of tensor {}", tensor.uid)));
            }
            return Ok((scalar, Layout { dims, ..layout }));
        }
        // In the order of memory, as tensors of the caller are.
        let mut strides = Dims::filled(dims.rank(), 0);
        let mut next = 1;
        for &axis in chain.order.iter().rev() {
            strides[axis] = next;
            next *= dims[axis];
        }
        Ok((tensor.scalar()?, Layout { dims, strides, split: None }))
    }

    /// Scratch that stays where it is.
    fn still(&self, begin: usize) -> Spot {
        Spot { operand: self.scratch, begin: begin as i64, strides: [0; MAX_RANK], group: 0 }
    }

    /// Where a tensor lies, of which scratch has these places.
    fn spot(&self, uid: i64, begins: &HashMap<i64, usize>) -> Result<Spot> {
        if let Some(&begin) = begins.get(&uid) {
            return Ok(self.still(begin));
        }
        let unknown = || Error::Internal(format!("no place for tensor {uid}").into());
        let operand = *self.operands.get(&uid).ok_or_else(unknown)?;
        let mut spot = Spot { operand, begin: 0, strides: [0; MAX_RANK], group: 0 };
        if let Some(sum) = self.sum_in(uid) {
            let (scalar, layout) = (self.outer)(&sum.parts)?;
            spot.group = layout.strides[sum.axis] * scalar.size() as i64;
            return Ok(spot);
        }
        let mut links = self.chain.operations.iter().flat_map(Operation::links);
        let tensor = &links.find(|link| link.tensor.uid == uid).ok_or_else(unknown)?.tensor;
        let (scalar, layout) = (self.outer)(tensor)?;
        if layout.dims.rank() == self.chain.extents.rank() {
            for axis in 0..layout.dims.rank() {
                if !self.chain.whole[axis] && layout.dims[axis] > 1 {
                    spot.strides[axis] = layout.strides[axis] * scalar.size() as i64;
                }
            }
        }
        Ok(spot)
    }

    /// Where the scratch of blocks lies: a result in the place of what it is made of, where nothing
    /// else reads that.
    fn places(
        &self, operations: &[Operation], plans: &[Planned], extents: &Dims,
    ) -> Result<(HashMap<i64, usize>, WorkspaceAllocator)> {
        // First and last operation of each tensor.
        let mut lives: HashMap<i64, [usize; 2]> = HashMap::new();
        let mut order = Vec::new();
        for (at, operation) in operations.iter().enumerate() {
            for link in operation.links().filter(|link| self.is_inner(link.tensor.uid)) {
                let uid = link.tensor.uid;
                lives.entry(uid).and_modify(|life| life[1] = at).or_insert_with(|| {
                    order.push(&link.tensor);
                    [at, at]
                });
            }
        }
        // The tensor in whose place one lies.
        let mut shared: HashMap<i64, i64> = HashMap::new();
        for (at, (operation, (plan, storage, _))) in operations.iter().zip(plans).enumerate() {
            let slot = |uid: i64| storage.iter().position(|place| *place == Storage::Tensor(uid));
            let [y] = &operation.writes[..] else { continue };
            let fits = |x: &Tensor| {
                let slots = slot(x.uid).zip(slot(y.tensor.uid));
                self.is_inner(x.uid)
                    && lives[&x.uid][1] == at
                    && x.data_type == y.tensor.data_type
                    && x.dims == y.tensor.dims
                    && slots.is_some_and(|(x, y)| plan.replaces(x, y))
            };
            if !self.is_inner(y.tensor.uid) {
                continue;
            }
            if let Some(x) = operation.reads.iter().find(|x| fits(&x.tensor)) {
                let root = shared.get(&x.tensor.uid).copied().unwrap_or(x.tensor.uid);
                shared.insert(y.tensor.uid, root);
                let end = lives[&y.tensor.uid][1];
                lives.entry(root).and_modify(|life| life[1] = life[1].max(end));
            }
        }
        let (mut allocator, mut begins) = (WorkspaceAllocator::default(), HashMap::new());
        for tensor in order {
            if let Some(root) = shared.get(&tensor.uid) {
                let begin = begins.get(root).copied().unwrap_or(0);
                begins.insert(tensor.uid, begin);
                continue;
            }
            let (scalar, layout) = self.describe(tensor, extents)?;
            let count = layout.dims.product().and_then(|count| usize::try_from(count).ok());
            let bytes = count.and_then(|count| count.checked_mul(scalar.size())).ok_or_else(beyond)?;
            let [first, last] = lives[&tensor.uid];
            begins.insert(tensor.uid, allocator.allocate(bytes, first, last).ok_or_else(beyond)?);
        }
        Ok((begins, allocator))
    }
}

fn beyond() -> Error {
    Error::unsupported("scratch beyond 64 bits")
}
