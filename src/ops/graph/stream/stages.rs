//! What is computed before, for and after the tiles of some rows.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::super::{Kind, Matmul, Operation, Pointwise, Port, Stage, Tensor, Type, mode};
use super::along::{Along, Part, along};
use super::region::part;
use super::{BATCH, COLUMNS, HEADS, ROWS, Region};
use crate::dtype::DataType;
use crate::layout::Dims;
use crate::ops::agree;

/// How long scratch of a region lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lasts {
    /// For one tile.
    Tile,
    /// For all tiles of some rows.
    Rows,
    /// For all tiles of a head, with a place for each column.
    Head,
}

/// A tensor of a region.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub tensor: Arc<Tensor>,
    /// What its dimensions follow.
    pub along: Vec<Along>,
    /// How long it lasts, if it is scratch; else it is a tensor of the graph.
    pub scratch: Option<Lasts>,
}

/// The operations of a region in the order in which tiles need them.
#[derive(Default)]
pub(super) struct Stages {
    /// Before the first tile of a head.
    pub head_begin: Vec<Operation>,
    /// Before the first tile of some rows.
    pub rows_begin: Vec<Operation>,
    /// For each tile.
    pub tile: Vec<Operation>,
    /// After the last tile of some rows.
    pub rows_end: Vec<Operation>,
    /// After the last tile of a head.
    pub head_end: Vec<Operation>,
    /// Every tensor of them, by uid.
    pub places: HashMap<i64, Place>,
    /// Whether something is summed over rows, so that those of a head belong together.
    pub sums_over_rows: bool,
}

/// Stages under construction.
struct Maker<'a> {
    region: &'a Region,
    stages: Stages,
    uids: BTreeSet<i64>,
    next: i64,
    /// Factor and divisor of what a softmax weights.
    softmax: Option<[Arc<Tensor>; 2]>,
}

impl Stages {
    /// The stages of a region; `None` if its tensors do not fit.
    pub fn of(region: &Region) -> Option<Stages> {
        let links = || region.operations.iter().flat_map(Operation::links);
        let uids =
            links().map(|link| link.tensor.uid).chain(region.lines.iter().map(|line| line.uid)).collect();
        let mut maker = Maker { region, stages: Stages::default(), uids, next: i64::MIN, softmax: None };
        for (line, axis) in region.lines.iter().zip([ROWS, COLUMNS]) {
            let mut along = vec![Along::Whole; 4];
            along[axis] = Along::Scores(axis, 1);
            maker.know(line, along, None);
        }
        for operation in &region.operations {
            let part = part(operation, &region.scores)?;
            for link in operation.links() {
                let along = along(operation, part, link.port, &link.tensor, &region.extents)?;
                let scratch = region.scores.contains(&link.tensor.uid).then_some(Lasts::Tile);
                maker.know(&link.tensor, along, scratch);
            }
            maker.add(operation, part)?;
        }
        Some(maker.stages)
    }
}

impl Maker<'_> {
    fn know(&mut self, tensor: &Arc<Tensor>, along: Vec<Along>, scratch: Option<Lasts>) {
        let place = || Place { tensor: Arc::clone(tensor), along, scratch };
        self.stages.places.entry(tensor.uid).or_insert_with(place);
    }

    /// Scratch in the place of a tensor of these dimensions.
    fn hidden(&mut self, data_type: Type, dims: &[i64], along: Vec<Along>, lasts: Lasts) -> Arc<Tensor> {
        while !self.uids.insert(self.next) {
            self.next += 1;
        }
        let strides = agree::row_major(&Dims::new(dims));
        let tensor = Tensor::new(self.next, DataType::Float, dims, &strides);
        let tensor = Arc::new(Tensor { data_type, is_virtual: true, ..tensor });
        self.know(&tensor, along, Some(lasts));
        tensor
    }

    fn add(&mut self, operation: &Operation, part: Part) -> Option<()> {
        match (part, &operation.kind) {
            (Part::Softmax, Kind::Softmax(of)) => {
                self.softmax(operation, of.log2)?;
            }
            (Part::OverColumns | Part::OverRows, Kind::Matmul(of)) => {
                self.sum(operation, of, part == Part::OverRows)?;
            }
            _ => self.stages.tile.push(operation.clone()),
        }
        Some(())
    }

    fn softmax(&mut self, operation: &Operation, log2: bool) -> Option<()> {
        let (x, y) = (operation.read(Port::X)?, operation.write(Port::Y)?);
        let [batch, heads, rows, _] = self.region.extents;
        let data_type = between(x);
        let mut row = |lasts| {
            let along = [BATCH, HEADS, ROWS].map(|axis| Along::Scores(axis, 1));
            self.hidden(data_type, &[batch, heads, rows, 1], [&along[..], &[Along::Whole]].concat(), lasts)
        };
        let [max, sum, divisor] = [(); 3].map(|()| row(Lasts::Rows));
        let factor = row(Lasts::Tile);
        let sink: Vec<(Port, &Arc<Tensor>)> =
            operation.read(Port::Sink).map(|sink| (Port::Sink, sink)).into_iter().collect();
        let stage = |stage, reads: &[(Port, &Arc<Tensor>)], writes: &[(Port, &Arc<Tensor>)]| {
            Operation::new(Kind::Tile(stage), reads, writes)
        };
        let state = [(Port::Max, &max), (Port::SumExp, &sum)];
        self.stages.rows_begin.push(stage(Stage::Begin, &sink, &state));
        let writes = [&state[..], &[(Port::Y, y), (Port::Factor, &factor)]].concat();
        self.stages.tile.push(stage(Stage::Softmax, &[(Port::X, x)], &writes));
        let given = [Port::Stats, Port::Max, Port::SumExp];
        let mut writes: Vec<(Port, &Arc<Tensor>)> =
            given.iter().filter_map(|&port| Some((port, operation.write(port)?))).collect();
        writes.push((Port::Y, &divisor));
        let end = stage(Stage::End { log2 }, &[&state[..], &sink].concat(), &writes);
        self.stages.rows_end.push(end);
        self.softmax = Some([factor, divisor]);
        Some(())
    }

    /// A product that is a sum over tiles, in its result or in scratch.
    fn sum(&mut self, operation: &Operation, of: &Matmul, over_rows: bool) -> Option<()> {
        let (a, b) = (operation.read(Port::A)?, operation.read(Port::B)?);
        let c = operation.write(Port::C)?;
        let softmax = self.softmax.clone();
        let holds_sums = [DataType::Float, DataType::Double].iter().any(|&of| c.data_type == of.into());
        let to = match holds_sums && softmax.is_none() {
            true => Arc::clone(c),
            false => {
                let along = self.stages.places.get(&c.uid)?.along.clone();
                let lasts = if over_rows { Lasts::Head } else { Lasts::Rows };
                self.hidden(between(c), &c.dims, along, lasts)
            }
        };
        let zero = Operation::new(Kind::Tile(Stage::Zero), &[], &[(Port::Y, &to)]);
        let mut reads = vec![(Port::A, a), (Port::B, b)];
        if let Some([factor, _]) = &softmax {
            reads.push((Port::Factor, factor));
        }
        let accumulate = Operation::new(Kind::Tile(Stage::Accumulate(of.clone())), &reads, &[(Port::C, &to)]);
        self.stages.tile.push(accumulate);
        let end = match &softmax {
            Some([_, divisor]) => {
                let settings = Pointwise::new(mode::DIV);
                Some((settings, vec![(Port::X, &to), (Port::B, divisor)]))
            }
            None if to.uid != c.uid => Some((Pointwise::new(mode::IDENTITY), vec![(Port::X, &to)])),
            None => None,
        };
        let end = end.map(|(of, reads)| Operation::new(Kind::Pointwise(of), &reads, &[(Port::Y, c)]));
        let (begins, ends) = match over_rows {
            true => (&mut self.stages.head_begin, &mut self.stages.head_end),
            false => (&mut self.stages.rows_begin, &mut self.stages.rows_end),
        };
        begins.push(zero);
        ends.extend(end);
        self.stages.sums_over_rows |= over_rows;
        Some(())
    }
}

/// The type that sums of such a tensor are kept in.
fn between(tensor: &Tensor) -> Type {
    let is_wide = tensor.data_type == DataType::Double.into();
    if is_wide { DataType::Double } else { DataType::Float }.into()
}
