//! The forward pass.

use std::fmt;

use super::frame::{Frame, Given, Part, Slots};
use super::rows::{Product, Rows, Sink};
use super::sequences::TimeStep;
use super::space::{Pass, Regions};
use super::stamp::{self, Filled};
use super::weights::Side;
use super::{Network, Problem, dropout};
use crate::desc::dropout::STATES_SIZE;
use crate::desc::rnn::RnnCell;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::NanRule;
use crate::ops::function::Function;
use crate::ops::plan::{self, Operand, Plan, Role, StepSink};

/// The operands: y, hy, cy, reserve space, masks, random states, workspace, x, hx, cx, weights. The
/// masks lie in the reserve space, [`ForwardPlan::masks`] bytes behind its start.
pub const OPERANDS: usize = 11;
const Y: usize = 0;
const HY: usize = 1;
const CY: usize = 2;
const MASKS: usize = 4;
const STATES: usize = 5;
const SLOTS: Slots = Slots { reserve: 3, workspace: 6, x: 7, hx: 8, cx: 9, weights: 10 };

/// A forward pass, ready to run on any core.
#[derive(Clone, Debug)]
pub struct ForwardPlan {
    problem: Problem,
    at: Regions,
    given: Given,
    trains: bool,
    /// The seed of random states that are made for this pass.
    seed: Option<u64>,
    operands: [Operand; OPERANDS],
}

impl ForwardPlan {
    /// Plans `cudnnRNNForward`; in training with what backward calls need in the reserve space.
    /// `seed` makes random states for this pass alone, in the [workspace](ForwardPlan::states);
    /// without it those of the descriptor go on.
    ///
    /// # Errors
    /// Not supported for more bytes than 63 bits count.
    pub fn new(problem: Problem, given: Given, training: bool, seed: Option<u64>) -> Result<Self> {
        problem.network.weight_bytes()?;
        let pass = if training { Pass::Training } else { Pass::Inference };
        let at = Regions::of(&problem.network, &problem.sequences, pass)?;
        let none = Operand::untouched("", Scalar::U8);
        let mut plan = ForwardPlan { problem, at, given, trains: training, seed, operands: [none; OPERANDS] };
        let frame = plan.frame();
        let network = frame.network;
        let drops = training && network.drops();
        let states = if drops { STATES_SIZE as i64 } else { 0 };
        plan.operands = [
            frame.vectors("y", Role::Write, given.y, network.output()),
            frame.hidden_states("hy", Role::Write, given.hy),
            frame.cell_states("cy", Role::Write, given.cy),
            frame.reserve(Role::Write),
            frame.masks(Role::Write),
            Operand { name: "states", role: Role::Update, scalar: Scalar::I64, span: (0, states) },
            frame.workspace(),
            frame.vectors("x", Role::Read, given.x, network.input),
            frame.hidden_states("hx", Role::Read, given.hx),
            frame.cell_states("cx", Role::Read, given.cx),
            frame.weights("weightSpace", Role::Read),
        ];
        Ok(plan)
    }

    /// Where in the reserve space the masks start, in bytes.
    pub fn masks(&self) -> usize {
        self.at.masks as usize
    }

    /// Where in the workspace random states are that are made for this pass, in bytes.
    pub fn states(&self) -> usize {
        self.at.states as usize
    }

    fn frame(&self) -> Frame<'_> {
        Frame {
            network: &self.problem.network,
            sequences: &self.problem.sequences,
            at: &self.at,
            slots: SLOTS,
            given: self.given,
            trains: self.trains,
            last: (self.given.y && !self.trains && self.problem.sequences.is_ours()).then_some(Y),
        }
    }

    fn run(&self, sink: &mut Sink<'_>) -> Result<()> {
        let frame = self.frame();
        let network = frame.network;
        frame.set_constants(sink)?;
        frame.sort_states(sink)?;
        if let Some(seed) = self.seed.filter(|_| self.trains && network.drops()) {
            let states = Rows::at(STATES, Scalar::I64, 0, 1);
            sink.set([1, 1], states, seed)?;
            sink.set([1, 1], states.from(1), 0)?;
        }
        let mut input = frame.input(sink)?;
        for layer in 0..network.layers {
            for part in frame.parts(layer) {
                let cell = Cell { frame, part };
                cell.enter(sink, input)?;
                frame
                    .sequences
                    .for_each_time_step(part.is_reverse(), false, |time_step| cell.step(sink, time_step))?;
                self.leave(sink, part)?;
            }
            let outputs = frame.outputs(layer);
            input = Some(outputs);
            if self.trains && network.drops() && layer + 1 < network.layers {
                let masked = frame.scratch(frame.data(), self.at.masked, network.output());
                dropout::draw(sink, &frame, layer, masked, outputs, [MASKS, STATES])?;
                input = Some(masked);
            }
        }
        if self.given.y {
            let y = Rows::at(Y, frame.data(), 0, network.output());
            if frame.last.is_none() {
                frame.copy_rows(sink, frame.outputs(network.layers - 1), y, network.output(), true)?;
            }
            if let Some(cell) = self.problem.fill {
                frame.fill_padding(sink, y, network.output(), cell)?;
            }
        }
        match self.trains {
            true => frame.set_stamp(sink, MASKS, stamp::of(&self.problem, Filled::Forward)),
            false => Ok(()),
        }
    }

    /// Hands out the last states of a part.
    fn leave(&self, sink: &mut Sink<'_>, part: Part) -> Result<()> {
        let frame = self.frame();
        let Network { hidden, projected, .. } = *frame.network;
        let empty = frame.sequences.empty();
        if self.given.hy {
            let theirs = frame.states(HY, part, projected);
            frame.sequences.for_each_end(part.is_reverse(), |ranks, row| {
                let ours = frame.output(part).from(row - ranks[0]);
                frame.copy_states(sink, ranks, ours, theirs, projected, true)
            })?;
            let first = frame.first_hidden(part);
            frame.copy_states(sink, empty, first.unwrap_or(frame.constant(0)), theirs, projected, true)?;
        }
        if self.given.cy && frame.network.has_cell_state() {
            let theirs = frame.states(CY, part, hidden);
            frame.sequences.for_each_end(part.is_reverse(), |ranks, row| {
                let ours = frame.cells(part).from(row - ranks[0]);
                frame.copy_states(sink, ranks, ours, theirs, hidden, true)
            })?;
            frame.copy_states(sink, empty, frame.first_cells(part), theirs, hidden, true)?;
        }
        Ok(())
    }
}

/// The cells of one part.
struct Cell<'p> {
    frame: Frame<'p>,
    part: Part,
}

impl Cell<'_> {
    /// Starts all gates with what comes from the layer below.
    fn enter(&self, sink: &mut Sink<'_>, input: Option<Rows>) -> Result<()> {
        let Cell { frame, part } = self;
        let network = frame.network;
        let (rows, hidden) = (frame.sequences.rows(), network.hidden);
        let bias = frame.bias(*part, Side::Input);
        if network.cell == RnnCell::Gru {
            sink.clear([rows, hidden], frame.gate(*part, 2))?;
        }
        for &[first, count, place] in frame.input_gates() {
            let (gates, bias) = (frame.gate(*part, place), bias.map(|bias| bias.columns(first * hidden)));
            if let Some(weights) = frame.matrix(*part, first) {
                let extents = [rows, count * hidden, network.input_of(part.layer)];
                let mut product =
                    Product::by_rows(extents, gates, input.unwrap_or(weights), weights, 0.0).biased(bias);
                product.is_empty = input.is_none();
                sink.contract(&product)?;
                continue;
            }
            let input = input.unwrap_or(frame.constant(0));
            for k in 0..count {
                let gate = gates.columns(k * hidden);
                match bias {
                    Some(bias) => {
                        let bias = bias.columns(k * hidden);
                        sink.map(Function::Add, [rows, hidden], gate, [input, bias], 0.0)?;
                    }
                    None => sink.copy([rows, hidden], gate, input)?,
                }
            }
        }
        Ok(())
    }

    /// One time step.
    fn step(&self, sink: &mut Sink<'_>, time_step: TimeStep) -> Result<()> {
        let Cell { frame, part } = self;
        let network = frame.network;
        let Network { hidden, projected, .. } = *network;
        let (row, active) = (time_step.row, [time_step.active, hidden]);
        let gate = |index: i64| frame.gate(*part, index).from(row);
        let out = frame.output(*part).from(row);
        let gates = network.gates();
        let weights = frame.matrix(*part, gates);
        let several = frame.sequences.steps() > 1;
        for span in frame.spans(*part, time_step) {
            let Some(weights) = weights else { continue };
            let extents = [span.count, gates * hidden, projected];
            let (dst, bias) = (gate(0).from(span.first), frame.bias(*part, Side::Recurrent));
            match (span.hidden, bias) {
                (Some(before), bias) => {
                    let product = Product::by_rows(extents, dst, before, weights, 1.0);
                    sink.contract(&product.biased(bias).keeping(several))?;
                }
                // States of zeros add nothing but the bias.
                (None, Some(bias)) => {
                    sink.map(Function::Add, [span.count, gates * hidden], dst, [dst, bias], 0.0)?;
                }
                (None, None) => {}
            }
        }
        match network.cell {
            RnnCell::Relu => sink.map(Function::ReluOrNan, active, out, [gate(0)], 0.0),
            RnnCell::Tanh => sink.map(Function::Tanh, active, out, [gate(0)], 0.0),
            RnnCell::Gru => {
                sink.map(Function::GruMemory, active, gate(3), [gate(3), gate(0), gate(2)], 0.0)?;
                for span in frame.spans(*part, time_step) {
                    let before = span.hidden.unwrap_or(frame.constant(0));
                    let at = |rows: Rows| rows.from(span.first);
                    let operands = [at(gate(1)), at(gate(3)), before];
                    sink.map(Function::GruState, [span.count, hidden], at(out), operands, 0.0)?;
                }
                Ok(())
            }
            RnnCell::Lstm => {
                let cells = frame.cells(*part).from(row);
                for span in frame.spans(*part, time_step) {
                    let at = |rows: Rows| rows.from(span.first);
                    let operands = [at(gate(0)), at(gate(1)), at(gate(2)), span.cells];
                    sink.map(Function::LstmCell, [span.count, hidden], at(cells), operands, 0.0)?;
                }
                if let Some(clip) = network.clip {
                    let function = match clip.nan {
                        NanRule::Ignore => Function::ClipNumber,
                        NanRule::Propagate => Function::ClipOrNan,
                    };
                    sink.map(function, active, cells, [cells, frame.constant(1), frame.constant(2)], 0.0)?;
                }
                let Some(projection) = frame.matrix(*part, 2 * gates) else {
                    return sink.map(Function::TanhGate, active, out, [gate(3), cells], 0.0);
                };
                let whole = frame.unprojected(*part).from(if frame.trains { row } else { 0 });
                sink.map(Function::TanhGate, active, whole, [gate(3), cells], 0.0)?;
                let extents = [time_step.active, projected, hidden];
                sink.contract(&Product::by_rows(extents, out, whole, projection, 0.0).keeping(several))
            }
        }
    }
}

impl Plan for ForwardPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    /// First states are read before the last ones of their pseudo-layer are written.
    fn works_in_place(&self, read: usize, write: usize) -> bool {
        matches!((read, write), (r, HY) if r == SLOTS.hx) || matches!((read, write), (r, CY) if r == SLOTS.cx)
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        self.run(&mut Sink::of(&self.problem.network, sink))
    }

    fn most_extents(&self) -> Option<[i64; 3]> {
        Some(self.problem.most_extents())
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for ForwardPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
