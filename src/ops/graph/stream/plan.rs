//! The plan of a region: tiles of rows and columns, one after the other.

use std::collections::HashMap;
use std::fmt;

use super::super::steps::Storage;
use super::super::work::Work;
use super::super::{Operation, Port, Tensor};
use super::along::Along;
use super::band::{Band, Relation, bands};
use super::stages::Stages;
use super::tile::{Group, Kit, Spot};
use super::{BATCH, COLUMNS, HEADS, ROWS, Region, Tiles};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::ops::contract::Role as Extent;
use crate::ops::plan::{Known, Operand, PlacedSink, Plan, Reader, Role, Step, StepSink, Tasks};

/// Tiles of the region.
pub(in super::super) struct StreamPlan {
    operands: Vec<Operand>,
    layouts: Vec<Option<Layout>>,
    extents: [i64; 4],
    /// Batches and heads of a tile.
    heads: [i64; 2],
    /// Rows and columns of a tile.
    tile: [i64; 2],
    /// What no product exceeds.
    most: [i64; 3],
    sums_over_rows: bool,
    bands: Vec<Band>,
    head_begin: Vec<Group>,
    head_end: Vec<Group>,
    /// By whether the rows, and the columns, are the last ones, which may be fewer.
    tiles: [[Option<Tile>; 2]; 2],
}

/// The steps of a tile of some extents.
struct Tile {
    rows_begin: Vec<Group>,
    tile: Vec<Group>,
    rows_end: Vec<Group>,
}

/// Receives a step with its operands, and the index where its tile begins.
type Sink<'a> = &'a mut dyn FnMut(&Work, &[Spot], [i64; 4]) -> Result<()>;

impl StreamPlan {
    /// The plan of a region, where its operands lie, and the bytes of scratch.
    ///
    /// # Errors
    /// Not supported: what is not computed tile by tile.
    pub fn new(
        region: &Region, outer: &dyn Fn(&Tensor) -> Result<(Scalar, Layout)>,
    ) -> Result<(StreamPlan, Vec<Storage>, usize)> {
        let stages =
            Stages::of(region).ok_or_else(|| Error::unsupported("tensors that do not follow the scores"))?;
        let (mut operands, mut layouts, mut storage) = (Vec::new(), Vec::new(), Vec::new());
        let mut numbers = HashMap::new();
        let lists =
            [&stages.head_begin, &stages.rows_begin, &stages.tile, &stages.rows_end, &stages.head_end];
        let operations = || lists.into_iter().flatten();
        let written: Vec<i64> =
            operations().flat_map(|operation| &operation.writes).map(|link| link.tensor.uid).collect();
        let lines = region.lines.iter().map(|line| (Port::Index, line));
        let links =
            operations().flat_map(Operation::links).map(|link| (link.port, &link.tensor)).chain(lines);
        for (port, tensor) in links {
            let is_graph = stages.places.get(&tensor.uid).is_some_and(|place| place.scratch.is_none());
            if !is_graph || numbers.contains_key(&tensor.uid) {
                continue;
            }
            let (scalar, layout) = outer(tensor)?;
            let (low, high) = layout.padded_span().unwrap_or_default();
            let role = if written.contains(&tensor.uid) { Role::Write } else { Role::Read };
            let size = scalar.size() as i64;
            numbers.insert(tensor.uid, operands.len());
            operands.push(Operand { name: port.name(), role, scalar, span: (low * size, (high + 1) * size) });
            layouts.push(Some(layout));
            storage.push(Storage::Tensor(tensor.uid));
        }
        let [_, _, rows, columns] = region.extents;
        let tile = [region.tiles.rows.clamp(1, rows), region.tiles.columns.clamp(1, columns)];
        let together = heads_of_tile(&region.extents, tile, region.tiles, &stages);
        let mut kit = Kit {
            region,
            stages: &stages,
            outer,
            operands: numbers,
            heads: together,
            scratch: operands.len(),
            kept: HashMap::new(),
            kept_bytes: 0,
        };
        kit.keep()?;
        let (mut heads, mut bytes) =
            kit.lowered(&[&stages.head_begin, &stages.head_end], [tile[0], columns])?;
        let (head_end, head_begin) = (heads.pop().unwrap_or_default(), heads.pop().unwrap_or_default());
        let mut tiles = [[None, None], [None, None]];
        for (is_last_row, of_rows) in tiles.iter_mut().enumerate() {
            for (is_last_column, of_both) in of_rows.iter_mut().enumerate() {
                let extent =
                    |is_last, tile: i64, all: i64| if is_last == 1 { (all - 1) % tile + 1 } else { tile };
                let extents = [extent(is_last_row, tile[0], rows), extent(is_last_column, tile[1], columns)];
                let stages = [&stages.rows_begin[..], &stages.tile[..], &stages.rows_end[..]];
                let (mut lists, taken) = kit.lowered(&stages, extents)?;
                bytes = bytes.max(taken);
                let mut next = || lists.pop().unwrap_or_default();
                let (rows_end, tile, rows_begin) = (next(), next(), next());
                *of_both = Some(Tile { rows_begin, tile, rows_end });
            }
        }
        let spot = |uid| kit.spot(uid, &HashMap::new());
        let bands = bands(&stages.tile, &spot)?;
        storage.push(Storage::Scratch(0));
        let span = (0, bytes as i64);
        operands.push(Operand { name: "scratch", role: Role::Scratch, scalar: Scalar::F64, span });
        layouts.push(None);
        let most = {
            let lists = tiles.iter().flatten().flatten();
            let lists = lists.flat_map(|tile| [&tile.rows_begin, &tile.tile, &tile.rows_end]);
            most_extents(lists.chain([&head_begin, &head_end]).flatten())
        };
        let plan = StreamPlan {
            operands,
            layouts,
            extents: region.extents,
            heads: together,
            tile,
            most,
            sums_over_rows: stages.sums_over_rows,
            bands,
            head_begin,
            head_end,
            tiles,
        };
        Ok((plan, storage, bytes))
    }

    fn blocks_of_rows(&self) -> i64 {
        (self.extents[ROWS] - 1) / self.tile[0] + 1
    }

    /// How many tiles batches are divided among, and heads.
    fn blocks_of_heads(&self) -> [i64; 2] {
        [BATCH, HEADS].map(|axis| self.extents[axis] / self.heads[axis])
    }

    /// The steps of a task: of some rows of a tile's heads, or of all.
    fn walk(&self, task: usize, known: &Known<'_>, sink: Sink<'_>) -> Result<()> {
        let (task, blocks) = (task as i64, self.blocks_of_rows());
        let (at, rows) = match self.sums_over_rows {
            true => (task, 0..blocks),
            // The last rows, of which a causal mask leaves the most, come first.
            false => (task / blocks, blocks - 1 - task % blocks..blocks - task % blocks),
        };
        let mut index = [0; 4];
        let [_, heads] = self.blocks_of_heads();
        (index[BATCH], index[HEADS]) = (at / heads * self.heads[BATCH], at % heads * self.heads[HEADS]);
        run(&self.head_begin, index, &[], sink)?;
        for block in rows {
            index[ROWS] = block * self.tile[0];
            self.walk_rows(index, known, sink)?;
        }
        (index[ROWS], index[COLUMNS]) = (0, 0);
        run(&self.head_end, index, &[], sink)
    }

    fn walk_rows(&self, mut index: [i64; 4], known: &Known<'_>, sink: Sink<'_>) -> Result<()> {
        let end = |first: i64, axis: usize| (first + self.tile[axis - ROWS]).min(self.extents[axis]);
        let of = |index: [i64; 4]| {
            let is_last = |axis: usize| usize::from(end(index[axis], axis) == self.extents[axis]);
            self.tiles[is_last(ROWS)][is_last(COLUMNS)]
                .as_ref()
                .ok_or_else(|| Error::Internal("no steps for a tile".into()))
        };
        run(&of(index)?.rows_begin, index, &[], sink)?;
        let drops = self.bands.iter().all(|band| band.is_lowest(known, index));
        let mut inside = vec![false; self.bands.len()];
        while index[COLUMNS] < self.extents[COLUMNS] {
            let mut last = index;
            (last[ROWS], last[COLUMNS]) = (end(index[ROWS], ROWS) - 1, end(index[COLUMNS], COLUMNS) - 1);
            let mut is_outside = false;
            for (band, inside) in self.bands.iter().zip(&mut inside) {
                let relation = band.relation(known, index, last);
                *inside = relation == Relation::Inside;
                is_outside |= drops && band.drops && relation == Relation::Outside;
            }
            if !is_outside {
                run(&of(index)?.tile, index, &inside, sink)?;
            }
            index[COLUMNS] = last[COLUMNS] + 1;
        }
        index[COLUMNS] = 0;
        run(&of(index)?.rows_end, index, &[], sink)
    }
}

/// Batches and heads of a tile: all heads of some batches, or some heads of one, as many as may be
/// computed together and leave none over.
fn heads_of_tile(extents: &[i64; 4], tile: [i64; 2], tiles: Tiles, stages: &Stages) -> [i64; 2] {
    let most = (tiles.together / tile[0].saturating_mul(tile[1])).max(1);
    let fits = |axis: usize, count: i64| {
        let mut along = stages.places.values().flat_map(|place| &place.along);
        along.all(|along| match *along {
            Along::Scores(of, shares) if of == axis => count % shares == 0 || shares % count == 0,
            _ => true,
        })
    };
    let largest = |axis: usize, most: i64| {
        let mut counts = (1..=most.clamp(1, extents[axis])).rev();
        counts.find(|&count| extents[axis] % count == 0 && fits(axis, count)).unwrap_or(1)
    };
    let heads = largest(HEADS, most);
    let batches = if heads == extents[HEADS] { largest(BATCH, most / heads) } else { 1 };
    [batches, heads]
}

/// The largest extents of M, N and K of the products among these steps; other steps move or fold
/// what products read and write.
fn most_extents<'a>(groups: impl Iterator<Item = &'a Group>) -> [i64; 3] {
    let mut most = [1; 3];
    for (work, _) in groups.flat_map(|group| &group.works) {
        if let Step::Contract(step) = work.step() {
            let extents = [Extent::M, Extent::N, Extent::K].map(|role| step.extent(role));
            most.iter_mut().zip(extents).for_each(|(most, extent)| *most = extent.max(*most));
        }
    }
    most
}

/// All steps but those of masks that the tile is inside of.
fn run(groups: &[Group], index: [i64; 4], inside: &[bool], sink: Sink<'_>) -> Result<()> {
    for group in groups {
        if group.band.is_some_and(|band| inside.get(band) == Some(&true)) {
            continue;
        }
        group.works.iter().try_for_each(|(work, spots)| sink(work, spots, index))?;
    }
    Ok(())
}

impl Plan for StreamPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        self.steps_knowing(&|_, _| None, sink)
    }

    fn steps_knowing(&self, known: &Known<'_>, sink: StepSink<'_>) -> Result<()> {
        for task in 0..self.count() {
            self.walk(task, known, &mut |work, spots, index| {
                let bytes = |operand: usize| spots[operand].at(index);
                let work =
                    work.shifted(&bytes).ok_or_else(|| Error::Internal("a step that cannot move".into()))?;
                let slots: Vec<usize> = spots.iter().map(|spot| spot.operand).collect();
                sink(work.step(), &slots)
            })?;
        }
        Ok(())
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        self.layouts[operand].as_ref()
    }

    fn tasks(&self) -> Option<&dyn Tasks> {
        Some(self)
    }

    fn most_extents(&self) -> Option<[i64; 3]> {
        Some(self.most)
    }
}

impl Tasks for StreamPlan {
    fn count(&self) -> usize {
        let heads: i64 = self.blocks_of_heads().into_iter().product();
        let blocks = if self.sums_over_rows { 1 } else { self.blocks_of_rows() };
        heads.saturating_mul(blocks) as usize
    }

    fn scratch(&self) -> Option<usize> {
        self.operands.len().checked_sub(1)
    }

    fn steps_of(&self, task: usize, read: &Reader<'_>, sink: PlacedSink<'_>) -> Result<()> {
        let mut places = Vec::new();
        let known = |operand, bytes| Some(read(operand, bytes));
        self.walk(task, &known, &mut |work, spots, index| {
            places.clear();
            places.extend(spots.iter().map(|spot| (spot.operand, spot.at(index))));
            sink(work.step(), &places)
        })
    }
}

/// The extents of the scores and of a tile, and the steps of one.
impl fmt::Display for StreamPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([batch, heads, rows, columns], [height, width]) = (self.extents, self.tile);
        write!(f, "scores of {batch}x{heads}x{rows}x{columns} in tiles of ")?;
        if self.heads != [1, 1] {
            write!(f, "{}x{}x", self.heads[BATCH], self.heads[HEADS])?;
        }
        write!(f, "{height}x{width}")?;
        if !self.bands.is_empty() {
            let dropping = self.bands.iter().filter(|band| band.drops).count();
            write!(f, ", none beyond {dropping} of {} masks", self.bands.len())?;
        }
        write!(f, ": ")?;
        let steps = || {
            let tile =
                self.tiles[0][0].iter().flat_map(|tile| [&tile.rows_begin, &tile.tile, &tile.rows_end]);
            [&self.head_begin].into_iter().chain(tile).chain([&self.head_end]).flatten()
        };
        let mut separator = "";
        for (work, _) in steps().flat_map(|group| &group.works) {
            write!(f, "{separator}{}", work.step())?;
            separator = "; ";
        }
        Ok(())
    }
}
