//! The backward pass to inputs and first states. The gradients of all gates replace the gates in
//! the reserve.

use std::fmt;

use super::frame::{Frame, Given, Part, Slots};
use super::rows::{Product, Rows, Sink};
use super::sequences::TimeStep;
use super::space::{Pass, Regions};
use super::stamp::{self, Filled};
use super::{Network, Problem, dropout};
use crate::desc::rnn::RnnCell;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::function::Function;
use crate::ops::plan::{self, Operand, Plan, Role, StepSink};

/// The operands: dx, dhx, dcx, reserve space, masks, workspace, dy, hx, dhy, cx, dcy, weights. The
/// masks lie in the reserve space, [`DataPlan::masks`] bytes behind its start.
pub const OPERANDS: usize = 12;
const DX: usize = 0;
const DHX: usize = 1;
const DCX: usize = 2;
const MASKS: usize = 4;
const DY: usize = 6;
const DHY: usize = 8;
const DCY: usize = 10;
const SLOTS: Slots = Slots { reserve: 3, workspace: 5, x: DX, hx: 7, cx: 9, weights: 11 };

/// A backward pass to inputs and first states, ready to run on any core.
#[derive(Clone, Debug)]
pub struct DataPlan {
    problem: Problem,
    at: Regions,
    given: Given,
    operands: [Operand; OPERANDS],
}

impl DataPlan {
    /// Plans `cudnnRNNBackwardData_v8`. What is not given of dy, dhy and dcy counts as zeros.
    ///
    /// # Errors
    /// Not supported for more bytes than 63 bits count.
    pub fn new(problem: Problem, given: Given) -> Result<Self> {
        problem.network.weight_bytes()?;
        let at = Regions::of(&problem.network, &problem.sequences, Pass::Data)?;
        let none = Operand::untouched("", Scalar::U8);
        let mut plan = DataPlan { problem, at, given, operands: [none; OPERANDS] };
        let frame = plan.frame();
        let network = frame.network;
        plan.operands = [
            frame.vectors("dx", Role::Write, given.dx, network.input),
            frame.hidden_states("dhx", Role::Write, given.dhx),
            frame.cell_states("dcx", Role::Write, given.dcx),
            frame.reserve(Role::Update),
            frame.masks(Role::Update),
            frame.workspace(),
            frame.vectors("dy", Role::Read, given.y, network.output()),
            frame.hidden_states("hx", Role::Read, given.hx),
            frame.hidden_states("dhy", Role::Read, given.hy),
            frame.cell_states("cx", Role::Read, given.cx),
            frame.cell_states("dcy", Role::Read, given.cy),
            frame.weights("weightSpace", Role::Read),
        ];
        Ok(plan)
    }

    /// Where in the reserve space the masks start, in bytes.
    pub fn masks(&self) -> usize {
        self.at.masks as usize
    }

    /// The batch and its network.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Where in the reserve space the stamp is, in bytes.
    pub fn stamp(&self) -> usize {
        self.at.stamp as usize
    }

    fn frame(&self) -> Frame<'_> {
        Frame {
            network: &self.problem.network,
            sequences: &self.problem.sequences,
            at: &self.at,
            slots: SLOTS,
            given: self.given,
            trains: true,
            last: None,
        }
    }

    /// The gradients of the outputs of a layer.
    fn gradients(&self, layer: i64) -> Rows {
        let frame = self.frame();
        frame.scratch(frame.inner(), self.at.gradients[(layer % 2) as usize], frame.network.output())
    }

    fn run(&self, sink: &mut Sink<'_>) -> Result<()> {
        let frame = self.frame();
        let network = frame.network;
        let (rows, entries, last) = (frame.sequences.rows(), network.output(), network.layers - 1);
        frame.set_constants(sink)?;
        frame.sort_states(sink)?;
        if self.given.y {
            let dy = Rows::at(DY, frame.data(), 0, entries);
            frame.copy_rows(sink, self.gradients(last), dy, entries, false)?;
        } else {
            sink.clear([rows, entries], self.gradients(last))?;
        }
        for layer in (0..network.layers).rev() {
            for part in frame.parts(layer) {
                let dh = self.gradients(layer).columns(part.direction * network.projected);
                Cell { frame, part, dh, at: &self.at }.walk(sink)?;
            }
            if layer > 0 {
                let below = self.gradients(layer - 1);
                self.enter(sink, layer, below)?;
                if network.drops() {
                    dropout::apply(sink, &frame, layer - 1, below, below, MASKS)?;
                }
            }
        }
        if self.given.dx {
            self.leave(sink)?;
        }
        frame.set_stamp(sink, MASKS, stamp::of(&self.problem, Filled::Data))
    }

    /// The gradient of the input of a layer, from the gradients of its gates.
    fn enter(&self, sink: &mut Sink<'_>, layer: i64, dst: Rows) -> Result<()> {
        let frame = self.frame();
        let network = frame.network;
        let Network { hidden, directions, .. } = *network;
        let rows = frame.sequences.rows();
        let part = Part { layer, direction: 0, pseudo: layer * directions };
        let apart = rows * self.at.gate_row;
        let mut beta = 0.0;
        for &[first, count, place] in frame.input_gates() {
            let gates = frame.gate(part, place);
            if let Some(weights) = frame.matrix(part, first) {
                let extents = [rows, frame.network.input_of(layer), count * hidden];
                let mut product = Product::by_columns(extents, dst, gates, weights, beta);
                let other = Part { direction: 1, pseudo: part.pseudo + 1, ..part };
                if let Some(others) = frame.matrix(other, first).filter(|_| directions == 2) {
                    product = product.also_over(2, apart, others.offset - weights.offset);
                }
                sink.contract(&product)?;
                beta = 1.0;
                continue;
            }
            // Skipped input of another size than the hidden vectors: what no cell read has no
            // gradient.
            let entries = network.input_of(layer).min(hidden);
            if beta == 0.0 && entries < network.input_of(layer) {
                sink.clear([rows, network.input_of(layer)], dst)?;
                beta = 1.0;
            }
            for (direction, k) in
                (0..directions).flat_map(|direction| (0..count).map(move |k| (direction, k)))
            {
                let gate = gates.columns(k * hidden).shifted(direction * apart);
                match beta {
                    0.0 => sink.copy([rows, entries], dst, gate)?,
                    _ => sink.map(Function::Add, [rows, entries], dst, [dst, gate], 0.0)?,
                }
                beta = 1.0;
            }
        }
        Ok(())
    }

    /// The gradient of the input of the network, in the caller's order, zeros where x is not read.
    fn leave(&self, sink: &mut Sink<'_>) -> Result<()> {
        let frame = self.frame();
        let entries = frame.network.input;
        let theirs = Rows::at(DX, frame.data(), 0, entries);
        if frame.sequences.is_ours() && frame.data() == frame.inner() {
            self.enter(sink, 0, theirs)?;
        } else {
            let ours = frame.scratch(frame.inner(), self.at.dx, entries);
            self.enter(sink, 0, ours)?;
            frame.copy_rows(sink, ours, theirs, entries, true)?;
        }
        frame.fill_padding(sink, theirs, entries, 0)
    }
}

/// The cells of one part on the way back.
struct Cell<'p> {
    frame: Frame<'p>,
    part: Part,
    /// The gradients of its outputs.
    dh: Rows,
    at: &'p Regions,
}

impl Cell<'_> {
    /// Gradients of first hidden states in our order.
    fn dhx(&self) -> Rows {
        self.frame.scratch(self.frame.inner(), self.at.dhx, self.frame.network.projected)
    }

    /// Gradients of cell states: of the step after, in the end of first ones.
    fn dcx(&self) -> Rows {
        self.frame.scratch(self.frame.inner(), self.at.dcx, self.frame.network.hidden)
    }

    /// All time steps, with what comes from last states and goes to first ones.
    fn walk(&self, sink: &mut Sink<'_>) -> Result<()> {
        let &Cell { frame, part, dh, .. } = self;
        let Network { hidden, projected, .. } = *frame.network;
        let (sequences, given) = (frame.sequences, frame.given);
        let (all, empty) = ([0, sequences.batch()], sequences.empty());
        let dhy = frame.states(DHY, part, projected);
        if given.hy {
            sequences.for_each_end(part.is_reverse(), |ranks, row| {
                sequences.for_each_run(ranks, |rank, run, sequence| {
                    let dh = dh.from(row - ranks[0] + rank);
                    sink.map(Function::Add, [run, projected], dh, [dh, dhy.from(sequence)], 0.0)
                })
            })?;
        }
        let lstm = frame.network.has_cell_state();
        if lstm && given.cy {
            frame.copy_states(sink, all, self.dcx(), frame.states(DCY, part, hidden), hidden, false)?;
        } else if lstm {
            sink.clear([sequences.batch(), hidden], self.dcx())?;
        }
        sequences.for_each_time_step(part.is_reverse(), true, |time_step| self.step(sink, time_step))?;
        if frame.network.projects() {
            let kept = frame.projected_gradients(part);
            sink.copy([sequences.rows(), projected], kept, dh)?;
        }
        if given.dhx {
            let theirs = frame.states(DHX, part, projected);
            frame.copy_states(sink, [0, empty[0]], self.dhx(), theirs, projected, true)?;
            sequences.for_each_run(empty, |_, run, sequence| {
                let dst = theirs.from(sequence);
                match given.hy {
                    true => sink.copy([run, projected], dst, dhy.from(sequence)),
                    false => sink.clear([run, projected], dst),
                }
            })?;
        }
        if given.dcx && lstm {
            frame.copy_states(sink, all, self.dcx(), frame.states(DCX, part, hidden), hidden, true)?;
        }
        Ok(())
    }

    /// One time step.
    fn step(&self, sink: &mut Sink<'_>, time_step: TimeStep) -> Result<()> {
        let &Cell { frame, part, .. } = self;
        let network = frame.network;
        let Network { hidden, projected, .. } = *network;
        let dh = self.dh.from(time_step.row);
        match network.cell {
            RnnCell::Relu | RnnCell::Tanh => {
                let gate = frame.gate(part, 0).from(time_step.row);
                let (function, from) = match network.cell {
                    RnnCell::Relu => (Function::ReluOrNanGradient, gate),
                    _ => (Function::TanhGradient, frame.output(part).from(time_step.row)),
                };
                sink.map(function, [time_step.active, hidden], gate, [from, dh], 0.0)?;
            }
            RnnCell::Lstm => self.lstm(sink, time_step, dh)?,
            RnnCell::Gru => self.gru(sink, time_step, dh)?,
        }
        let Some(weights) = frame.matrix(part, network.gates()) else { return Ok(()) };
        let gates = frame.gates(part).from(time_step.row);
        let several = frame.sequences.steps() > 1;
        for span in frame.spans(part, time_step) {
            let extents = [span.count, projected, network.gates() * hidden];
            let gates = gates.from(span.first);
            let begins = span.first == time_step.continuing;
            let (dst, beta) = match begins {
                // The part that a GRU hands through is there already.
                true => (self.dhx().from(span.first), f64::from(u8::from(network.cell == RnnCell::Gru))),
                false => (self.dh.from(time_step.before), 1.0),
            };
            if !begins || frame.given.dhx {
                sink.contract(&Product::by_columns(extents, dst, gates, weights, beta).keeping(several))?;
            }
        }
        Ok(())
    }

    fn lstm(&self, sink: &mut Sink<'_>, time_step: TimeStep, dh: Rows) -> Result<()> {
        let &Cell { frame, part, at, .. } = self;
        let Network { hidden, projected, .. } = *frame.network;
        let active = [time_step.active, hidden];
        let gate = |index: i64| frame.gate(part, index).from(time_step.row);
        let [i, f, g, o] = [gate(0), gate(1), gate(2), gate(3)];
        let cells = frame.cells(part).from(time_step.row);
        let dm = match frame.matrix(part, 2 * frame.network.gates()) {
            Some(projection) => {
                let dm = frame.scratch(frame.inner(), at.dunprojected, hidden);
                let extents = [time_step.active, hidden, projected];
                let several = frame.sequences.steps() > 1;
                sink.contract(&Product::by_columns(extents, dm, dh, projection, 0.0).keeping(several))?;
                dm
            }
            None => dh,
        };
        let (dc, after) = (frame.scratch(frame.inner(), at.dc, hidden), self.dcx());
        let scratch = frame.scratch(frame.inner(), at.scratch, 2 * hidden);
        sink.map(Function::LstmCellGradient, active, dc, [o, cells, dm, after], 0.0)?;
        if frame.network.clip.is_some() {
            // What was clipped is computed again.
            for span in frame.spans(part, time_step) {
                let operands = [i.from(span.first), f.from(span.first), g.from(span.first), span.cells];
                let raw = scratch.from(span.first);
                sink.map(Function::LstmCell, [span.count, hidden], raw, operands, 0.0)?;
            }
            let operands = [scratch, frame.constant(1), frame.constant(2), dc];
            sink.map(Function::ClipGradient, active, dc, operands, 0.0)?;
        }
        sink.map(Function::TanhGateGradient, active, o, [o, cells, dm], 0.0)?;
        sink.map(Function::TanhGateGradient, active, scratch, [i, g, dc], 0.0)?;
        sink.map(Function::GatedTanhGradient, active, g, [i, g, dc], 0.0)?;
        sink.copy(active, i, scratch)?;
        sink.map(Function::Gate, active, after, [f, dc], 0.0)?;
        for span in frame.spans(part, time_step) {
            let f = f.from(span.first);
            let operands = [f, span.cells, dc.from(span.first)];
            sink.map(Function::GateGradient, [span.count, hidden], f, operands, 0.0)?;
        }
        Ok(())
    }

    fn gru(&self, sink: &mut Sink<'_>, time_step: TimeStep, dh: Rows) -> Result<()> {
        let &Cell { frame, part, at, .. } = self;
        let hidden = frame.network.hidden;
        let active = [time_step.active, hidden];
        let gate = |index: i64| frame.gate(part, index).from(time_step.row);
        let [r, i, h, n] = [gate(0), gate(1), gate(2), gate(3)];
        let scratch = frame.scratch(frame.inner(), at.scratch, 2 * hidden);
        for span in frame.spans(part, time_step) {
            let extents = [span.count, hidden];
            let [i, n, dh] = [i, n, dh].map(|rows| rows.from(span.first));
            let before = span.hidden.unwrap_or(frame.constant(0));
            let di = scratch.columns(hidden).from(span.first);
            sink.map(Function::GruGateGradient, extents, di, [i, n, before, dh], 0.0)?;
            let begins = span.first == time_step.continuing;
            if !begins {
                sink.map(Function::Gate, extents, self.dh.from(time_step.before), [i, dh], 1.0)?;
            } else if frame.given.dhx {
                sink.map(Function::Gate, extents, self.dhx().from(span.first), [i, dh], 0.0)?;
            }
        }
        sink.map(Function::GruMemoryGradient, active, n, [i, n, dh], 0.0)?;
        sink.map(Function::GateGradient, active, scratch, [r, h, n], 0.0)?;
        sink.map(Function::Gate, active, h, [r, n], 0.0)?;
        sink.copy([time_step.active, 2 * hidden], r, scratch)
    }
}

impl Plan for DataPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    /// Gradients of last states are read before those of the first ones of their pseudo-layer are
    /// written.
    fn works_in_place(&self, read: usize, write: usize) -> bool {
        matches!((read, write), (DHY, DHX) | (DCY, DCX))
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        self.run(&mut Sink::of(&self.problem.network, sink))
    }

    fn most_extents(&self) -> Option<[i64; 3]> {
        Some(self.problem.most_extents())
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for DataPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
