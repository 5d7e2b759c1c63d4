//! A part of a graph whose numbers were passed by value: known before it runs, on every core.

use std::fmt;

use crate::error::Result;
use crate::layout::Layout;
use crate::ops::Plan;
use crate::ops::graph::ValuesPlan;
use crate::ops::part::{Base, Part};
use crate::ops::plan::{self, Operand, StepSink, Tasks};

/// The plan of a part, of which the steps are left out that these values say are not needed.
pub(super) struct KnowingPlan<'a> {
    pub part: &'a Part,
    pub values: &'a ValuesPlan,
}

impl Plan for KnowingPlan<'_> {
    fn operands(&self) -> &[Operand] {
        self.part.plan.operands()
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        self.steps_knowing(&|_, _| None, sink)
    }

    fn steps_knowing(&self, known: &plan::Known<'_>, sink: StepSink<'_>) -> Result<()> {
        let number = |operand: usize, bytes: i64| {
            let place = self.part.places.get(operand)?;
            let own = match place.base {
                Base::Workspace => self.values.number(i64::try_from(place.offset).ok()? + bytes),
                Base::Caller(_) => None,
            };
            own.or_else(|| known(operand, bytes))
        };
        self.part.plan.steps_knowing(&number, sink)
    }

    fn works_in_place(&self, read: usize, write: usize) -> bool {
        self.part.plan.works_in_place(read, write)
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        self.part.plan.layout(operand)
    }

    fn filters(&self) -> Option<usize> {
        self.part.plan.filters()
    }

    fn is_one_step(&self) -> bool {
        self.part.plan.is_one_step()
    }

    fn tasks(&self) -> Option<&dyn Tasks> {
        self.part.plan.tasks()
    }

    fn most_extents(&self) -> Option<[i64; 3]> {
        self.part.plan.most_extents()
    }

    fn is_ordered(&self) -> bool {
        self.part.plan.is_ordered()
    }
}

impl fmt::Display for KnowingPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.part.plan.fmt(f)
    }
}
