//! The steps of a tile of some extents, and where their operands lie.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::allocator::{ALIGNMENT, WorkspaceAllocator};
use super::super::lower;
use super::super::steps::{Builder, Storage};
use super::super::work::{StepsPlan, Work};
use super::super::{Kind, Link, Operation, Port, Tensor};
use super::along::Along;
use super::stages::{Lasts, Place, Stages};
use super::{COLUMNS, ROWS, Region};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{Dims, Layout};
use crate::ops::agree;

/// Where an operand lies, wherever its tile is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    /// The operand of the plan.
    pub operand: usize,
    /// Bytes from its address on.
    pub begin: i64,
    /// Bytes from one batch, head, row and column to the next.
    pub strides: [i64; 4],
    /// Neighbours in each dimension that share an element.
    pub shares: [i64; 4],
}

impl Spot {
    /// In bytes, for the tile that begins here.
    pub fn at(&self, index: [i64; 4]) -> i64 {
        (0..4).map(|axis| index[axis] / self.shares[axis] * self.strides[axis]).sum::<i64>() + self.begin
    }
}

/// The steps of one operation.
pub(super) struct Group {
    pub works: Vec<(Work, Vec<Spot>)>,
    /// The number of its mask, where the operation leaves what is inside of it as it is, in its
    /// place.
    pub band: Option<usize>,
}

/// What tiles are made of.
pub(super) struct Kit<'a> {
    pub region: &'a Region,
    pub stages: &'a Stages,
    /// The type of a tensor of the graph, and where its elements lie.
    pub outer: &'a dyn Fn(&Tensor) -> Result<(Scalar, Layout)>,
    /// The operand of the plan that a tensor of the graph is.
    pub operands: HashMap<i64, usize>,
    /// Batches and heads of a tile.
    pub heads: [i64; 2],
    /// The operand that is scratch.
    pub scratch: usize,
    /// Where scratch lies that lasts for more than a tile.
    pub kept: HashMap<i64, i64>,
    /// Bytes of that.
    pub kept_bytes: usize,
}

impl Kit<'_> {
    /// Finds places for what lasts for more than a tile.
    ///
    /// # Errors
    /// Not supported: beyond 64 bits, types that are not computed.
    pub fn keep(&mut self) -> Result<()> {
        let mut kept: Vec<(&i64, &Place)> = self.stages.places.iter().collect();
        kept.retain(|(_, place)| matches!(place.scratch, Some(Lasts::Rows | Lasts::Head)));
        kept.sort_unstable_by_key(|(uid, _)| **uid);
        let rows = self.region.tiles.rows.min(self.region.extents[ROWS]);
        for (uid, place) in kept {
            let (scalar, layout) = self.describe(place, [rows, self.region.extents[COLUMNS]])?;
            self.kept.insert(*uid, self.kept_bytes as i64);
            let bytes = bytes_of(scalar, &layout.dims)?;
            let end =
                self.kept_bytes.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
            self.kept_bytes = end.ok_or_else(beyond)?;
        }
        Ok(())
    }

    /// The type of a tensor, and where the elements of a tile of these rows and columns lie.
    fn describe(&self, place: &Place, [rows, columns]: [i64; 2]) -> Result<(Scalar, Layout)> {
        let cut = |dims: &Dims| {
            let mut dims = *dims;
            for (dim, along) in dims.iter_mut().zip(&place.along) {
                match along {
                    Along::Whole => {}
                    Along::Scores(ROWS, _) => *dim = rows,
                    Along::Scores(COLUMNS, _) => *dim = columns,
                    // Of neighbours that share an element, a tile has some or all.
                    Along::Scores(axis, shares) => *dim = (self.heads[*axis] / shares).max(1),
                }
            }
            dims
        };
        let Some(lasts) = place.scratch else {
            let (scalar, layout) = (self.outer)(&place.tensor)?;
            if layout.split.is_some() {
                return Err(Error::unsupported("scores of vectors"));
            }
            return Ok((scalar, Layout { dims: cut(&layout.dims), ..layout }));
        };
        let dims = cut(&place.tensor.dims);
        let mut around = dims;
        if lasts == Lasts::Head {
            for (axis, along) in place.along.iter().enumerate() {
                if matches!(along, Along::Scores(COLUMNS, _)) {
                    around[axis] = place.tensor.dims[axis];
                }
            }
        }
        Ok((place.tensor.scalar()?, Layout { dims, strides: agree::row_major(&around), split: None }))
    }

    fn place(&self, uid: i64) -> Result<&Place> {
        self.stages
            .places
            .get(&uid)
            .ok_or_else(|| Error::Internal(format!("no place for tensor {uid}").into()))
    }

    /// The steps of these operations for a tile of these rows and columns, and the bytes of scratch
    /// that they take.
    ///
    /// # Errors
    /// Not supported: what is not computed, or not tile by tile.
    pub fn lowered(&self, lists: &[&[Operation]], extents: [i64; 2]) -> Result<(Vec<Vec<Group>>, usize)> {
        let operations: Vec<&Operation> = lists.iter().flat_map(|list| list.iter()).collect();
        let find = |tensor: &Tensor| self.describe(self.place(tensor.uid)?, extents);
        let mut plans = Vec::with_capacity(operations.len());
        for operation in &operations {
            let mut builder = Builder::new(operation, &find, lower::is_wide(operation))?;
            builder.lines = Some(&self.region.lines);
            lower::lower(operation, &mut builder)?;
            plans.push(builder.finish());
        }
        let (begins, taken) = self.places(&operations, &plans, extents)?;
        let mut taken = taken;
        let mut groups = Vec::with_capacity(operations.len());
        let (mut band, mut scratch) = (0, taken.size());
        for (at, (plan, storage, pieces)) in plans.into_iter().enumerate() {
            let mut spots = Vec::with_capacity(storage.len());
            let mut own = HashMap::new();
            for (piece, &bytes) in pieces.iter().enumerate().filter(|&(_, &bytes)| bytes > 0) {
                let begin = taken.allocate(bytes, at, at).ok_or_else(beyond)?;
                own.insert(piece, begin);
            }
            scratch = scratch.max(taken.size());
            for place in storage {
                spots.push(match place {
                    Storage::Tensor(uid) => self.spot(uid, &begins)?,
                    Storage::Scratch(piece) => self.still(own.get(&piece).copied().unwrap_or(0)),
                });
            }
            let mask = matches!(operations[at].kind, Kind::BandMask(_) | Kind::Padding(_));
            let is_in_place = in_place(operations[at], &begins);
            let number = (mask && is_in_place).then_some(band);
            band += usize::from(mask);
            let mut works = Vec::with_capacity(plan.works.len());
            for (work, slots) in plan.works {
                if !work.is_of_tiles() {
                    return Err(Error::unsupported("a step that is not computed tile by tile"));
                }
                works.push((work, slots.iter().map(|&slot| spots[slot]).collect()));
            }
            groups.push(Group { works, band: number });
        }
        let mut rest = groups.into_iter();
        let lists = lists.iter().map(|list| rest.by_ref().take(list.len()).collect()).collect();
        Ok((lists, self.kept_bytes + scratch))
    }

    /// Scratch that stays where it is.
    fn still(&self, begin: usize) -> Spot {
        let begin = (self.kept_bytes + begin) as i64;
        Spot { operand: self.scratch, begin, strides: [0; 4], shares: [1; 4] }
    }

    /// Where a tensor lies, of which scratch of a tile has these places.
    ///
    /// # Errors
    /// Internal: a tensor that the region does not know.
    pub fn spot(&self, uid: i64, begins: &HashMap<i64, usize>) -> Result<Spot> {
        let place = self.place(uid)?;
        if place.scratch == Some(Lasts::Tile) {
            let begin = begins.get(&uid).copied();
            return begin.map(|begin| self.still(begin)).ok_or_else(|| Error::Internal("no scratch".into()));
        }
        let (scalar, layout) = self.describe(place, [1, 1])?;
        let mut spot = Spot { operand: self.scratch, begin: 0, strides: [0; 4], shares: [1; 4] };
        let is_graph = place.scratch.is_none();
        for (axis, along) in place.along.iter().enumerate() {
            let Along::Scores(of, shares) = *along else { continue };
            // Scratch is that of the tile's heads, and of rows those of the tile.
            if is_graph || (of == COLUMNS && place.scratch == Some(Lasts::Head)) {
                spot.strides[of] = layout.strides[axis] * scalar.size() as i64;
                spot.shares[of] = shares;
            }
        }
        if is_graph {
            spot.operand = *self.operands.get(&uid).ok_or_else(|| Error::Internal("no operand".into()))?;
        } else {
            spot.begin = self.kept.get(&uid).copied().unwrap_or(0);
        }
        Ok(spot)
    }

    /// Where the scratch of tiles lies: results in the place of what they are made of, where
    /// nothing else reads that.
    fn places(
        &self, operations: &[&Operation], plans: &[(StepsPlan, Vec<Storage>, Vec<usize>)], extents: [i64; 2],
    ) -> Result<(HashMap<i64, usize>, WorkspaceAllocator)> {
        let is_of_tile =
            |uid: i64| self.stages.places.get(&uid).is_some_and(|place| place.scratch == Some(Lasts::Tile));
        // First and last operation of each tensor, and the tensor in whose place it lies.
        let mut lives: HashMap<i64, [usize; 2]> = HashMap::new();
        let mut order = Vec::new();
        for (at, operation) in operations.iter().enumerate() {
            for link in operation.links().filter(|link| is_of_tile(link.tensor.uid)) {
                let uid = link.tensor.uid;
                lives.entry(uid).and_modify(|life| life[1] = at).or_insert_with(|| {
                    order.push(uid);
                    [at, at]
                });
            }
        }
        let mut shared: HashMap<i64, i64> = HashMap::new();
        for (at, operation) in operations.iter().enumerate() {
            let (plan, storage, _) = &plans[at];
            let slot = |uid: i64| storage.iter().position(|place| *place == Storage::Tensor(uid));
            let Some(y) =
                operation.writes.iter().find(|link| is_of_tile(link.tensor.uid) && is_big(&link.tensor))
            else {
                continue;
            };
            let fits = |x: &&Link| {
                let uid = x.tensor.uid;
                let slots = slot(uid).zip(slot(y.tensor.uid));
                is_of_tile(uid)
                    && lives[&uid][1] == at
                    && lives[&y.tensor.uid][0] == at
                    && x.tensor.data_type == y.tensor.data_type
                    && x.tensor.dims == y.tensor.dims
                    && slots.is_some_and(|(x, y)| plan.replaces(x, y))
            };
            if let Some(x) = operation.reads.iter().find(fits) {
                let root = shared.get(&x.tensor.uid).copied().unwrap_or(x.tensor.uid);
                shared.insert(y.tensor.uid, root);
                let end = lives[&y.tensor.uid][1];
                lives.entry(root).and_modify(|life| life[1] = life[1].max(end));
            }
        }
        let (mut allocator, mut begins) = (WorkspaceAllocator::default(), HashMap::new());
        for uid in order {
            if let Some(root) = shared.get(&uid) {
                let begin = begins.get(root).copied().unwrap_or(0);
                begins.insert(uid, begin);
                continue;
            }
            let (scalar, layout) = self.describe(self.place(uid)?, extents)?;
            let [first, last] = lives[&uid];
            begins.insert(
                uid,
                allocator.allocate(bytes_of(scalar, &layout.dims)?, first, last).ok_or_else(beyond)?,
            );
        }
        Ok((begins, allocator))
    }
}

/// Whether a tensor is more than a few numbers for each row.
fn is_big(tensor: &Tensor) -> bool {
    tensor.dims.last().is_some_and(|&dim| dim > 1)
}

/// Whether a mask writes where it reads.
fn in_place(operation: &Operation, begins: &HashMap<i64, usize>) -> bool {
    let place = |tensor: Option<&Arc<Tensor>>| tensor.and_then(|tensor| begins.get(&tensor.uid));
    let (x, y) = (place(operation.read(Port::X)), place(operation.write(Port::Y)));
    x.is_some() && x == y
}

fn bytes_of(scalar: Scalar, dims: &Dims) -> Result<usize> {
    let count = dims.product().and_then(|count| usize::try_from(count).ok());
    count.and_then(|count| count.checked_mul(scalar.size())).ok_or_else(beyond)
}

fn beyond() -> Error {
    Error::unsupported("scratch beyond 64 bits")
}
