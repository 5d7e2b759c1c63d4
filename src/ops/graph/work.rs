//! The steps of one operation, as they are kept: a plan.

use std::fmt;

use crate::error::Result;
use crate::layout::{Layout, LoopNest};
use crate::ops::contract::Contract;
use crate::ops::map::Map;
use crate::ops::plan::{self, Operand, Plan, Step, StepSink};
use crate::ops::{Aggregate, Ragged, Random, Reduce, Set, Transform, Window};

/// A step that a plan keeps.
pub(super) enum Work {
    Transform(Transform),
    Set(Set),
    Map(Box<Map>),
    WideMap(Box<Map<6>>),
    Reduce(Box<Reduce>),
    Contract(Box<Contract>),
    Window(Box<Window>),
    Random(Box<Random>),
    Aggregate(Aggregate),
    Ragged(Box<Ragged>),
}

impl Work {
    fn step(&self) -> Step<'_> {
        match self {
            Work::Transform(step) => Step::Transform(step),
            Work::Set(step) => Step::Set(step),
            Work::Map(step) => Step::Map(step),
            Work::WideMap(step) => Step::WideMap(step),
            Work::Reduce(step) => Step::Reduce(step),
            Work::Contract(step) => Step::Contract(step),
            Work::Window(step) => Step::Window(step),
            Work::Random(step) => Step::Random(step),
            Work::Aggregate(step) => Step::Aggregate(step),
            Work::Ragged(step) => Step::Ragged(step),
        }
    }

    /// Whether each element of the destination is computed of the one that lies there in this operand of the step.
    fn is_in_place(&self, operand: usize) -> bool {
        fn same<const N: usize>(nest: &LoopNest<N>, operand: usize) -> bool {
            nest.offsets[operand] == nest.offsets[0]
                && nest.axes().iter().all(|axis| axis.strides[operand] == axis.strides[0])
        }
        match self {
            Work::Transform(step) => same(&step.nest, operand),
            Work::Map(step) => same(&step.nest, operand),
            Work::WideMap(step) => same(&step.nest, operand),
            Work::Set(_)
            | Work::Reduce(_)
            | Work::Contract(_)
            | Work::Window(_)
            | Work::Random(_)
            | Work::Aggregate(_)
            | Work::Ragged(_) => false,
        }
    }
}

/// The steps of an operation.
pub(super) struct StepsPlan {
    pub operands: Vec<Operand>,
    pub layouts: Vec<Option<Layout>>,
    pub works: Vec<(Work, Vec<usize>)>,
}

impl Plan for StepsPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        self.works.iter().try_for_each(|(work, slots)| sink(work.step(), slots))
    }

    /// If nothing is read where something was written before, but by the one step that writes, element by element.
    fn works_in_place(&self, read: usize, write: usize) -> bool {
        let writes = |(_, slots): &&(Work, Vec<usize>)| slots[0] == write;
        let Some(first) = self.works.iter().position(|work| writes(&work)) else { return true };
        let is_alone = self.works.iter().filter(writes).count() == 1;
        let size = |slot: usize| self.operands[slot].scalar.size();
        self.works[first..].iter().enumerate().all(|(k, (work, slots))| {
            (1..slots.len())
                .filter(|&operand| slots[operand] == read)
                .all(|operand| k == 0 && is_alone && size(read) == size(write) && work.is_in_place(operand))
        })
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        self.layouts[operand].as_ref()
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for StepsPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
