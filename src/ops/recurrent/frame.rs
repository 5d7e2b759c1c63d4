//! Where the three plans find what they have in common, and how vectors come from the caller's
//! order into ours and back.

use super::rows::{Rows, Sink};
use super::sequences::TimeStep;
use super::space::Regions;
use super::weights::Side;
use super::{Network, Sequences};
use crate::desc::rnn::RnnCell;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::{Axis, LoopNest};
use crate::ops::plan::{Operand, Role};

/// The operands that every plan has, by their numbers in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    pub reserve: usize,
    pub workspace: usize,
    pub x: usize,
    pub hx: usize,
    pub cx: usize,
    pub weights: usize,
}

/// One direction of one layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub layer: i64,
    pub direction: i64,
    pub pseudo: i64,
}

impl Part {
    /// Whether it goes from the last step to the first.
    pub(super) fn is_reverse(self) -> bool {
        self.direction == 1
    }
}

/// Ranks of a step whose states before are found alike.
pub(super) struct Span {
    pub first: i64,
    pub count: i64,
    /// `None` stands for zeros.
    pub hidden: Option<Rows>,
    pub cells: Rows,
}

/// Which of the data pointers that may be NULL are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// The input.
    pub x: bool,
    /// The output, or its gradient.
    pub y: bool,
    /// First hidden states.
    pub hx: bool,
    /// First cell states.
    pub cx: bool,
    /// Last hidden states, or their gradients.
    pub hy: bool,
    /// Last cell states, or their gradients.
    pub cy: bool,
    /// The gradient of the input.
    pub dx: bool,
    /// Gradients of first hidden states.
    pub dhx: bool,
    /// Gradients of first cell states.
    pub dcx: bool,
}

/// A batch in a network, and where its temporary results are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'p> {
    pub network: &'p Network,
    pub sequences: &'p Sequences,
    pub at: &'p Regions,
    pub slots: Slots,
    pub given: Given,
    /// Whether gates, cell states and outputs of all layers are kept in the reserve.
    pub trains: bool,
    /// The operand that the last layer writes its outputs to at once, where the caller's rows lie
    /// in our order and nothing is kept.
    pub last: Option<usize>,
}

impl Frame<'_> {
    /// The directions of a layer.
    pub(super) fn parts(&self, layer: i64) -> impl Iterator<Item = Part> + use<> {
        let directions = self.network.directions;
        (0..directions).map(move |direction| Part {
            layer,
            direction,
            pseudo: layer * directions + direction,
        })
    }

    /// The type of what is inside a cell.
    pub(super) fn inner(&self) -> Scalar {
        self.network.compute.scalar()
    }

    /// The type of data and weights.
    pub(super) fn data(&self) -> Scalar {
        self.network.scalar()
    }

    fn kept(&self) -> usize {
        if self.trains { self.slots.reserve } else { self.slots.workspace }
    }

    /// The gates of a part, a row for each of the batch.
    pub(super) fn gates(&self, part: Part) -> Rows {
        let rows = Rows::at(self.kept(), self.inner(), self.at.gates, self.at.gate_row);
        rows.from(if self.trains { part.pseudo * self.sequences.rows() } else { 0 })
    }

    /// Gate `index` of these; `hidden` entries.
    pub(super) fn gate(&self, part: Part, index: i64) -> Rows {
        self.gates(part).columns(index * self.network.hidden)
    }

    /// The cell states of a part.
    pub(super) fn cells(&self, part: Part) -> Rows {
        let rows = Rows::at(self.kept(), self.inner(), self.at.cells, self.network.hidden);
        rows.from(if self.trains { part.pseudo * self.sequences.rows() } else { 0 })
    }

    /// The states of a part before their projection; without training of the present step alone.
    pub(super) fn unprojected(&self, part: Part) -> Rows {
        let rows = Rows::at(self.kept(), self.inner(), self.at.unprojected, self.network.hidden);
        rows.from(if self.trains { part.pseudo * self.sequences.rows() } else { 0 })
    }

    /// The gradients of a part's projected outputs.
    pub(super) fn projected_gradients(&self, part: Part) -> Rows {
        let rows = Rows::at(self.slots.reserve, self.inner(), self.at.dprojected, self.network.projected);
        rows.from(part.pseudo * self.sequences.rows())
    }

    /// Gates that follow each other on the input side: the first matrix, how many, and the place of
    /// the first among the gates of a row.
    pub(super) fn input_gates(&self) -> &'static [[i64; 3]] {
        match self.network.cell {
            RnnCell::Relu | RnnCell::Tanh => &[[0, 1, 0]],
            RnnCell::Lstm => &[[0, 4, 0]],
            // What the reset gate acts on stands between: its recurrent part is summed by itself.
            RnnCell::Gru => &[[0, 2, 0], [2, 1, 3]],
        }
    }

    /// The rows of a step that have a step before, and those that begin: the first rank, how many,
    /// and where the hidden states and the cell states before them are.
    pub(super) fn spans(&self, part: Part, time_step: TimeStep) -> [Span; 2] {
        [
            Span {
                first: 0,
                count: time_step.continuing,
                hidden: Some(self.output(part).from(time_step.before)),
                cells: self.cells(part).from(time_step.before),
            },
            Span {
                first: time_step.continuing,
                count: time_step.active - time_step.continuing,
                hidden: self.first_hidden(part).map(|rows| rows.from(time_step.continuing)),
                cells: self.first_cells(part).from(time_step.continuing),
            },
        ]
    }

    /// The outputs of a layer, both directions side by side.
    pub(super) fn outputs(&self, layer: i64) -> Rows {
        if let Some(y) = self.last.filter(|_| layer + 1 == self.network.layers) {
            return Rows::at(y, self.data(), 0, self.network.output());
        }
        let rows = Rows::at(self.kept(), self.data(), self.at.outputs, self.network.output());
        rows.from(self.sequences.rows() * if self.trains { layer } else { layer % 2 })
    }

    /// The outputs of a part.
    pub(super) fn output(&self, part: Part) -> Rows {
        self.outputs(part.layer).columns(part.direction * self.network.projected)
    }

    /// A region of the workspace.
    pub(super) fn scratch(&self, scalar: Scalar, bytes: i64, row: i64) -> Rows {
        Rows::at(self.slots.workspace, scalar, bytes, row)
    }

    /// Number `index` of the constants: zero, and, of a network that clips, lower and upper bound
    /// of the cell state.
    pub(super) fn constant(&self, index: i64) -> Rows {
        let size = self.inner().size() as i64;
        Rows::constant(self.slots.workspace, self.inner(), self.at.constants + index * size)
    }

    /// Writes the constants.
    pub(super) fn set_constants(&self, sink: &mut Sink<'_>) -> Result<()> {
        let bounds = self.network.clip.map(|clip| [clip.lower, clip.upper]);
        for (index, value) in [0.0].into_iter().chain(bounds.into_iter().flatten()).enumerate() {
            let cell = match self.inner() {
                Scalar::F64 => value.to_bits(),
                _ => (value as f32).to_bits().into(),
            };
            sink.set([1, 1], self.constant(index as i64), cell)?;
        }
        Ok(())
    }

    /// Matrix `lin_layer` of a part, as rows; the matrices of further gates follow.
    pub(super) fn matrix(&self, part: Part, lin_layer: i64) -> Option<Rows> {
        let matrix = self.network.matrix(part.pseudo, lin_layer)?;
        Some(Rows::at(self.slots.weights, self.data(), 0, matrix.columns).shifted(matrix.offset))
    }

    /// The biases of a part on one side, those of all gates one behind the other.
    pub(super) fn bias(&self, part: Part, side: Side) -> Option<Rows> {
        let lin_layer = if side == Side::Input { 0 } else { self.network.gates() };
        let offset = self.network.bias_offset(part.pseudo, lin_layer)?;
        Some(Rows { row: 0, ..Rows::at(self.slots.weights, self.data(), 0, 0).shifted(offset) })
    }

    /// States of a pseudo-layer in the caller's order, in an operand of their own.
    pub(super) fn states(&self, slot: usize, part: Part, entries: i64) -> Rows {
        Rows::at(slot, self.data(), 0, entries).from(part.pseudo * self.sequences.batch())
    }

    /// First hidden states of a part in our order; `None` stands for zeros.
    pub(super) fn first_hidden(&self, part: Part) -> Option<Rows> {
        self.first(self.given.hx, self.slots.hx, self.at.hx, part, self.network.projected)
    }

    /// First cell states of a part in our order; a zero stands for them if there are none.
    pub(super) fn first_cells(&self, part: Part) -> Rows {
        self.first(self.given.cx, self.slots.cx, self.at.cx, part, self.network.hidden)
            .unwrap_or(self.constant(0))
    }

    fn first(&self, given: bool, slot: usize, region: i64, part: Part, entries: i64) -> Option<Rows> {
        let rows = if self.sequences.is_sorted() {
            self.states(slot, part, entries)
        } else {
            self.scratch(self.data(), region, entries).from(part.pseudo * self.sequences.batch())
        };
        given.then_some(rows)
    }

    /// Brings first states into our order where they are not.
    pub(super) fn sort_states(&self, sink: &mut Sink<'_>) -> Result<()> {
        if self.sequences.is_sorted() {
            return Ok(());
        }
        let Network { hidden, projected, .. } = *self.network;
        let cells = self.given.cx && self.network.has_cell_state();
        for part in (0..self.network.layers).flat_map(|layer| self.parts(layer)) {
            let all = [0, self.sequences.batch()];
            if let Some(ours) = self.first_hidden(part) {
                self.copy_states(
                    sink,
                    all,
                    ours,
                    self.states(self.slots.hx, part, projected),
                    projected,
                    false,
                )?;
            }
            if cells {
                let theirs = self.states(self.slots.cx, part, hidden);
                self.copy_states(sink, all, self.first_cells(part), theirs, hidden, false)?;
            }
        }
        Ok(())
    }

    /// Moves the states of some ranks - the first, and how many - from `theirs`, the caller's, to
    /// `ours`, whose row 0 is that of rank 0; or the other way.
    pub(super) fn copy_states(
        &self, sink: &mut Sink<'_>, ranks: [i64; 2], ours: Rows, theirs: Rows, entries: i64, to_theirs: bool,
    ) -> Result<()> {
        self.sequences.for_each_run(ranks, |rank, run, sequence| {
            let (ours, theirs) = (ours.from(rank), theirs.from(sequence));
            let (dst, src) = if to_theirs { (theirs, ours) } else { (ours, theirs) };
            sink.copy([run, entries], dst, src)
        })
    }

    /// Moves all rows from `theirs`, the caller's, to `ours`, or the other way.
    pub(super) fn copy_rows(
        &self, sink: &mut Sink<'_>, ours: Rows, theirs: Rows, entries: i64, to_theirs: bool,
    ) -> Result<()> {
        self.sequences.for_each_piece(|piece| {
            let (first, by_step, by_rank) = piece.theirs;
            let (from, to) = (ours.from(piece.row.0), theirs.from(first));
            let axis = |extent, ours: i64, theirs: i64| Axis {
                extent,
                strides: if to_theirs { [theirs, ours] } else { [ours, theirs] },
            };
            let axes = [
                axis(piece.steps, piece.row.1 * ours.row, by_step * theirs.row),
                axis(piece.ranks, ours.row, by_rank * theirs.row),
                axis(entries, 1, 1),
            ];
            let (dst, src) = if to_theirs { (to, from) } else { (from, to) };
            sink.transform(LoopNest::new(&axes, [dst.offset, src.offset]), dst, src)
        })
    }

    /// Writes the rows of the caller that belong to no step.
    pub(super) fn fill_padding(
        &self, sink: &mut Sink<'_>, theirs: Rows, entries: i64, cell: u64,
    ) -> Result<()> {
        self.sequences.for_each_padding(|first, count, apart| {
            let rows = Rows { row: theirs.row * apart, ..theirs.from(first) };
            sink.set([count, entries], rows, cell)
        })
    }

    /// The input in our order, `None` for zeros; brought there if it is not.
    pub(super) fn input(&self, sink: &mut Sink<'_>) -> Result<Option<Rows>> {
        let entries = self.network.input;
        let theirs = Rows::at(self.slots.x, self.data(), 0, entries);
        if !self.given.x {
            return Ok(None);
        }
        if self.sequences.is_ours() {
            return Ok(Some(theirs));
        }
        let ours = self.scratch(self.data(), self.at.x, entries);
        self.copy_rows(sink, ours, theirs, entries, false)?;
        Ok(Some(ours))
    }

    /// Writes what says which call has filled the reserve; `masks` is the operand that holds it.
    pub(super) fn set_stamp(&self, sink: &mut Sink<'_>, masks: usize, stamp: u64) -> Result<()> {
        sink.set([1, 1], Rows::at(masks, Scalar::I64, self.at.stamp - self.at.masks, 1), stamp)
    }

    /// The bytes of a data pointer that holds this many elements.
    fn operand(&self, name: &'static str, role: Role, given: bool, elements: i64) -> Operand {
        let span = if given { (0, elements * self.data().size() as i64) } else { (0, 0) };
        Operand { name, role, scalar: self.data(), span }
    }

    /// An operand of one vector for each of the caller's rows.
    pub(super) fn vectors(&self, name: &'static str, role: Role, given: bool, entries: i64) -> Operand {
        self.operand(name, role, given, self.sequences.caller_rows() * entries)
    }

    /// An operand of hidden states.
    pub(super) fn hidden_states(&self, name: &'static str, role: Role, given: bool) -> Operand {
        let count = self.network.pseudo_layers() * self.sequences.batch() * self.network.projected;
        self.operand(name, role, given, count)
    }

    /// An operand of cell states, which only some cells have.
    pub(super) fn cell_states(&self, name: &'static str, role: Role, given: bool) -> Operand {
        let count = self.network.pseudo_layers() * self.sequences.batch() * self.network.hidden;
        self.operand(name, role, given && self.network.has_cell_state(), count)
    }

    /// The weights.
    pub(super) fn weights(&self, name: &'static str, role: Role) -> Operand {
        self.operand(name, role, true, self.network.weight_elements().unwrap_or(0))
    }

    /// The workspace.
    pub(super) fn workspace(&self) -> Operand {
        let span = (0, self.at.workspace);
        Operand { name: "workSpace", role: Role::Scratch, scalar: Scalar::F64, span }
    }

    /// What of the reserve space is not masks.
    pub(super) fn reserve(&self, role: Role) -> Operand {
        let span = if self.trains { (0, self.at.masks) } else { (0, 0) };
        Operand { name: "reserveSpace", role, scalar: Scalar::F64, span }
    }

    /// The masks in the reserve space, and the stamp behind them.
    pub(super) fn masks(&self, role: Role) -> Operand {
        let span = if self.trains { (0, self.at.reserve - self.at.masks) } else { (0, 0) };
        Operand { name: "reserveSpace", role, scalar: Scalar::I32, span }
    }
}
