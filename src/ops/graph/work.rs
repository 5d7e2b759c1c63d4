//! The steps of one operation, as they are kept: a plan.

use std::fmt;
use std::ops::Range;

use super::product::{self, counted_from};
use super::view::View;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::{Layout, LoopNest};
use crate::ops::contract::Contract;
use crate::ops::map::Map;
use crate::ops::plan::{self, Operand, PlacedSink, Plan, Reader, Step, StepSink, Tasks};
use crate::ops::{
    Aggregate, Attend, AttendBackward, Compute, Ragged, Random, Reduce, RowNorm, RowNormBackward, Set,
    Transform, Window,
};

/// A step that a plan keeps.
pub(super) enum Work {
    Transform(Transform),
    Set(Set),
    Map(Box<Map>),
    WideMap(Box<Map<6>>),
    RowNorm(Box<RowNorm>),
    RowNormBackward(Box<RowNormBackward>),
    Reduce(Box<Reduce>),
    Contract(Box<Contract>),
    Window(Box<Window>),
    Random(Box<Random>),
    Aggregate(Aggregate),
    Ragged(Box<Ragged>),
    Attend(Box<Attend>),
    AttendBackward(Box<AttendBackward>),
}

impl Work {
    pub fn step(&self) -> Step<'_> {
        match self {
            Work::Transform(step) => Step::Transform(step),
            Work::Set(step) => Step::Set(step),
            Work::Map(step) => Step::Map(step),
            Work::WideMap(step) => Step::WideMap(step),
            Work::RowNorm(step) => Step::RowNorm(step),
            Work::RowNormBackward(step) => Step::RowNormBackward(step),
            Work::Reduce(step) => Step::Reduce(step),
            Work::Contract(step) => Step::Contract(step),
            Work::Window(step) => Step::Window(step),
            Work::Random(step) => Step::Random(step),
            Work::Aggregate(step) => Step::Aggregate(step),
            Work::Ragged(step) => Step::Ragged(step),
            Work::Attend(step) => Step::Attend(step),
            Work::AttendBackward(step) => Step::AttendBackward(step),
        }
    }

    /// Whether its loops count from operands that may lie anywhere, as those of tiles do.
    pub fn is_of_tiles(&self) -> bool {
        self.shifted(&|_| 0).is_some()
    }

    /// The same step on operands that lie this many bytes further on; `None` where its loops do not
    /// say where all of them begin.
    pub fn shifted(&self, bytes: &dyn Fn(usize) -> i64) -> Option<Work> {
        let by = |operand: usize, scalar: Scalar| bytes(operand) / scalar.size() as i64;
        Some(match self {
            Work::Transform(step) => {
                let mut step = *step;
                step.nest.offsets[0] += by(0, step.dst);
                step.nest.offsets[1] += by(1, step.src);
                Work::Transform(step)
            }
            Work::Set(step) => {
                let mut step = *step;
                step.nest.offsets[0] += by(0, step.dst);
                Work::Set(step)
            }
            Work::Map(step) => Work::Map(Box::new(moved(step, &by))),
            Work::WideMap(step) => Work::WideMap(Box::new(moved(step, &by))),
            Work::RowNorm(step) => {
                let (mut step, scalars) = (step.clone(), step.scalars());
                for (operand, offset) in step.rows.offsets.iter_mut().enumerate() {
                    *offset += by(operand, scalars[operand]);
                }
                step.epsilon.1 += by(6, step.epsilon.0);
                Work::RowNorm(step)
            }
            Work::RowNormBackward(step) => {
                let (mut step, scalars) = (step.clone(), step.scalars());
                for (operand, scalar) in scalars.into_iter().enumerate() {
                    if let Some(place) = RowNormBackward::place(operand) {
                        step.rows.offsets[place] += by(operand, scalar);
                    }
                }
                for (k, sum) in step.sums.iter_mut().enumerate() {
                    if let Some((scalar, offset)) = sum {
                        *offset += by(1 + k, *scalar);
                    }
                }
                Work::RowNormBackward(step)
            }
            Work::Reduce(step) if step.indices.is_none() => {
                let mut step = step.clone();
                step.outputs.offsets[0] += by(0, step.dst);
                step.outputs.offsets[1] += by(2, step.src);
                Work::Reduce(step)
            }
            Work::Contract(step) if step.slots() == 3 => {
                let mut step = step.clone();
                for (operand, scalar) in [step.dst, step.a, step.b].into_iter().enumerate() {
                    step.nest.offsets[operand] += by(operand, scalar);
                }
                Work::Contract(step)
            }
            _ => return None,
        })
    }

    /// Whether each element of the destination is computed of the one that lies there in this
    /// operand of the step.
    pub fn is_in_place(&self, operand: usize) -> bool {
        fn same<const N: usize>(nest: &LoopNest<N>, operand: usize) -> bool {
            nest.offsets[operand] == nest.offsets[0]
                && nest.axes().iter().all(|axis| axis.strides[operand] == axis.strides[0])
        }
        match self {
            Work::Transform(step) => same(&step.nest, operand),
            Work::Map(step) => same(&step.nest, operand),
            Work::WideMap(step) => same(&step.nest, operand),
            Work::RowNorm(step) => match step.touches()[operand] {
                true => operand == RowNorm::X && same(&step.rows, operand),
                false => true,
            },
            Work::RowNormBackward(step) => match (step.touches()[operand], operand) {
                (true, RowNormBackward::X | 4) => same(&step.rows, operand - 2),
                (touched, _) => !touched,
            },
            Work::Set(_)
            | Work::Reduce(_)
            | Work::Contract(_)
            | Work::Window(_)
            | Work::Random(_)
            | Work::Aggregate(_)
            | Work::Ragged(_)
            | Work::Attend(_)
            | Work::AttendBackward(_) => false,
        }
    }
}

/// Whether a step writes this place beside its destination.
pub(super) fn writes_beside<P: PartialEq>(work: &Work, places: &[P], write: &P) -> bool {
    match work {
        Work::RowNorm(step) => (1..RowNorm::X).any(|k| step.touches()[k] && places[k] == *write),
        Work::RowNormBackward(step) => {
            (1..RowNormBackward::X).any(|k| step.touches()[k] && places[k] == *write)
        }
        Work::Attend(step) => (1..Attend::Q).any(|k| step.touches()[k] && places[k] == *write),
        Work::AttendBackward(_) => places[1..AttendBackward::DO].contains(write),
        _ => false,
    }
}

fn moved<const N: usize>(step: &Map<N>, by: &dyn Fn(usize, Scalar) -> i64) -> Map<N> {
    let mut step = *step;
    for (operand, scalar) in step.scalars.into_iter().enumerate() {
        step.nest.offsets[operand] += by(operand, scalar);
    }
    step
}

/// The steps of an operation.
#[derive(Default)]
pub(super) struct StepsPlan {
    pub operands: Vec<Operand>,
    pub layouts: Vec<Option<Layout>>,
    pub works: Vec<(Work, Vec<usize>)>,
    /// Products of rows that numbers name, in the order of the steps that they stand for.
    pub segments: Vec<Segments>,
}

/// Products of some rows only, where numbers can be read when the plan runs. Elsewhere steps stand
/// for them that look at all rows.
pub(super) struct Segments {
    /// Those steps.
    pub works: Range<usize>,
    pub products: Vec<Segment>,
}

/// `c = a b + beta c`, of the rows of c and a, or of the terms, from a number up to another one.
#[derive(Clone)]
pub(super) struct Segment {
    /// C, A, B, with all rows.
    pub views: [View; 3],
    /// The dimension of each that the numbers bound.
    pub axes: [Option<usize>; 3],
    pub compute: Compute,
    pub beta: f64,
    /// How many rows there are.
    pub rows: i64,
    /// The first number, and the one after the last; all rows that follow without it.
    pub ends: [Option<View>; 2],
}

impl Segment {
    /// The product of the rows that the numbers name; `None` if there are none.
    fn product(&self, read: &Reader<'_>) -> Result<Option<Contract>> {
        let number = |view: &View| read(view.slot, view.offset * view.scalar.size() as i64);
        // Beyond the rows there are none, however far a number is.
        let [first, end] = [
            self.ends[0].map_or(0.0, |view| number(&view)),
            self.ends[1].map_or(f64::MAX, |view| number(&view)),
        ]
        .map(|number| number.clamp(0.0, self.rows as f64) as i64);
        if first >= end {
            return Ok(None);
        }
        let mut views = self.views;
        for (view, axis) in views.iter_mut().zip(self.axes) {
            if let Some(axis) = axis {
                *view = view.part(axis, first, end - first, 1)?;
            }
        }
        let [c, a, b] = &views;
        let terms = product::Terms { beta: self.beta, ..product::Terms::default() };
        let step = product::product_of(self.compute, [c, a, b], &terms)?;
        Ok(step.and_then(|step| counted_from(step, &[c, a, b])))
    }
}

impl StepsPlan {
    /// Whether `write` may lie where `read` lies, if nobody needs that any more: only the first
    /// step that writes reads it, element by element, or steps before.
    pub fn replaces(&self, read: usize, write: usize) -> bool {
        let Some(first) = self.works.iter().position(|(_, slots)| slots[0] == write) else { return false };
        if self.works.iter().any(|(work, slots)| writes_beside(work, slots, &write)) {
            return false;
        }
        self.works[first..].iter().enumerate().all(|(k, (work, slots))| {
            let reads = (1..slots.len()).filter(|&operand| slots[operand] == read);
            reads.into_iter().all(|operand| k == 0 && work.is_in_place(operand))
        })
    }
}

impl Plan for StepsPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        self.works.iter().try_for_each(|(work, slots)| sink(work.step(), slots))
    }

    /// If nothing is read where something was written before, but by the one step that writes,
    /// element by element.
    fn works_in_place(&self, read: usize, write: usize) -> bool {
        let writes = |(_, slots): &&(Work, Vec<usize>)| slots[0] == write;
        if self.works.iter().any(|(work, slots)| writes_beside(work, slots, &write)) {
            return false;
        }
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

    fn tasks(&self) -> Option<&dyn Tasks> {
        if self.segments.is_empty() { None } else { Some(self) }
    }
}

/// One task, in which products are of the rows that numbers name.
impl Tasks for StepsPlan {
    fn count(&self) -> usize {
        1
    }

    fn scratch(&self) -> Option<usize> {
        None
    }

    fn steps_of(&self, _: usize, read: &Reader<'_>, sink: PlacedSink<'_>) -> Result<()> {
        let places = |slots: &[usize]| slots.iter().map(|&slot| (slot, 0)).collect::<Vec<_>>();
        let mut segments = self.segments.iter().peekable();
        let mut at = 0;
        while at < self.works.len() {
            if let Some(of) = segments.next_if(|of| of.works.start == at) {
                for segment in &of.products {
                    if let Some(step) = segment.product(read)? {
                        sink(Step::Contract(&step), &places(&segment.views.map(|view| view.slot)))?;
                    }
                }
                at = of.works.end;
                continue;
            }
            let (work, slots) = &self.works[at];
            sink(work.step(), &places(slots))?;
            at += 1;
        }
        Ok(())
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for StepsPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
