//! The backward pass to the weights, from the gradients of gates that the pass to inputs has left
//! in the reserve.

use std::fmt;

use super::frame::{Frame, Given, Part, Slots};
use super::rows::{Product, Rows, Sink};
use super::space::{Pass, Regions};
use super::weights::Side;
use super::{Network, Problem, dropout};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::{Axis, LoopNest};
use crate::ops::plan::{self, Operand, Plan, Role, StepSink};
use crate::ops::{Reduce, Reduction, Scaling, Sequence, Step};

/// The operands: dw, workspace, reserve space, masks, x, hx. The masks lie in the reserve space,
/// [`WeightPlan::masks`] bytes behind its start.
pub const OPERANDS: usize = 6;
const DW: usize = 0;
const MASKS: usize = 3;
const SLOTS: Slots = Slots { reserve: 2, workspace: 1, x: 4, hx: 5, cx: 5, weights: DW };

/// A backward pass to the weights, ready to run on any core.
#[derive(Clone, Debug)]
pub struct WeightPlan {
    problem: Problem,
    at: Regions,
    given: Given,
    adds: bool,
    operands: [Operand; OPERANDS],
}

impl WeightPlan {
    /// Plans `cudnnRNNBackwardWeights_v8`, which adds to what is there if `adds`.
    ///
    /// # Errors
    /// Not supported for more bytes than 63 bits count.
    pub fn new(problem: Problem, given: Given, adds: bool) -> Result<Self> {
        problem.network.weight_bytes()?;
        let at = Regions::of(&problem.network, &problem.sequences, Pass::Weights)?;
        let none = Operand::untouched("", Scalar::U8);
        let mut plan = WeightPlan { problem, at, given, adds, operands: [none; OPERANDS] };
        let frame = plan.frame();
        plan.operands = [
            frame.weights("dweightSpace", if adds { Role::Update } else { Role::Write }),
            frame.workspace(),
            frame.reserve(Role::Read),
            frame.masks(Role::Read),
            frame.vectors("x", Role::Read, given.x, frame.network.input),
            frame.hidden_states("hx", Role::Read, given.hx),
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
            given: Given { cx: false, ..self.given },
            trains: true,
            last: None,
        }
    }

    fn run(&self, sink: &mut Sink<'_>) -> Result<()> {
        let frame = self.frame();
        let network = frame.network;
        if !self.adds {
            let all = network.weight_elements().unwrap_or(0);
            sink.clear([1, all], Rows::at(DW, frame.data(), 0, all))?;
        }
        if frame.sequences.rows() == 0 {
            return Ok(());
        }
        frame.sort_states(sink)?;
        let mut input = frame.input(sink)?;
        for layer in 0..network.layers {
            for part in frame.parts(layer) {
                self.part(sink, part, input)?;
            }
            let outputs = frame.outputs(layer);
            input = Some(outputs);
            if network.drops() && layer + 1 < network.layers {
                let masked = frame.scratch(frame.data(), self.at.masked, network.output());
                dropout::apply(sink, &frame, layer, masked, outputs, MASKS)?;
                input = Some(masked);
            }
        }
        Ok(())
    }

    /// All weights of one part.
    fn part(&self, sink: &mut Sink<'_>, part: Part, input: Option<Rows>) -> Result<()> {
        let frame = self.frame();
        let Network { hidden, projected, .. } = *frame.network;
        let (rows, gates) = (frame.sequences.rows(), frame.network.gates());
        for &[first, count, place] in frame.input_gates() {
            let gate = frame.gate(part, place);
            if let (Some(weights), Some(input)) = (frame.matrix(part, first), input) {
                let extents = [count * hidden, frame.network.input_of(part.layer), rows];
                sink.contract(&Product::of_columns(extents, weights, gate, input, 1.0))?;
            }
            if let Some(bias) = frame.bias(part, Side::Input) {
                self.bias(sink, bias.columns(first * hidden), gate, count * hidden)?;
            }
        }
        if let Some(weights) = frame.matrix(part, gates) {
            let before = self.before(sink, part)?;
            let extents = [gates * hidden, projected, rows];
            sink.contract(&Product::of_columns(extents, weights, frame.gates(part), before, 1.0))?;
        }
        if let Some(bias) = frame.bias(part, Side::Recurrent) {
            self.bias(sink, bias, frame.gates(part), gates * hidden)?;
        }
        if let Some(projection) = frame.matrix(part, 2 * gates) {
            let (dh, whole) = (frame.projected_gradients(part), frame.unprojected(part));
            let extents = [projected, hidden, rows];
            sink.contract(&Product::of_columns(extents, projection, dh, whole, 1.0))?;
        }
        Ok(())
    }

    /// The hidden state before every row of a part.
    fn before(&self, sink: &mut Sink<'_>, part: Part) -> Result<Rows> {
        let frame = self.frame();
        let entries = frame.network.projected;
        let before = frame.scratch(frame.data(), self.at.before, entries);
        // Rows that come from as far away are moved at once: the first, how many, the first of the
        // others.
        let mut run = [0; 3];
        let outputs = frame.output(part);
        let move_run = |sink: &mut Sink<'_>, [row, count, from]: [i64; 3]| {
            sink.copy([count, entries], before.from(row), outputs.from(from))
        };
        frame.sequences.for_each_time_step(part.is_reverse(), part.is_reverse(), |time_step| {
            let [row, count, from] = run;
            if row + count == time_step.row && from + count == time_step.before {
                run[1] += time_step.continuing;
            } else {
                move_run(sink, run)?;
                run = [time_step.row, time_step.continuing, time_step.before];
            }
            let (first, count) = (time_step.continuing, time_step.active - time_step.continuing);
            let dst = before.from(time_step.row + first);
            match frame.first_hidden(part) {
                Some(hidden) if count > 0 => sink.copy([count, entries], dst, hidden.from(first)),
                _ => sink.clear([count, entries], dst),
            }
        })?;
        move_run(sink, run)?;
        Ok(before)
    }

    /// Adds the sums of columns to a bias.
    fn bias(&self, sink: &mut Sink<'_>, bias: Rows, columns: Rows, count: i64) -> Result<()> {
        let rows = Axis { extent: self.problem.sequences.rows(), strides: [columns.row, 0] };
        let Some(sequence) = Sequence::new(&[LoopNest::new(&[rows], [0; 2]).canonical()]) else {
            return Ok(());
        };
        let outputs = Axis { extent: count, strides: [1, 1, 0] };
        let step = Reduce {
            outputs: LoopNest::new(&[outputs], [bias.offset, columns.offset, 0]).canonical(),
            sequence,
            dst: bias.scalar,
            src: columns.scalar,
            compute: self.problem.network.compute,
            reduction: Reduction::Add,
            scaling: Scaling { alpha: 1.0, beta: 1.0 },
            indices: None,
            workspace: 0,
        };
        // There are no indices, and no workspace.
        sink.step(Step::Reduce(&step), &[bias.slot, columns.slot, columns.slot, columns.slot])
    }
}

impl Plan for WeightPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        self.run(&mut Sink::of(&self.problem.network, sink))
    }

    fn most_extents(&self) -> Option<[i64; 3]> {
        Some(self.problem.most_extents())
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for WeightPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
