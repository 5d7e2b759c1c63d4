//! Plans that wait: a call on a stream that captures is kept whole, and runs whenever the graph is
//! launched.

use std::fmt;

use super::Context;
use super::host_runtime::{self, Kept};
use crate::backend::Address;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::ops::{Operand, OwnedStep, Plan, StepSink};
use crate::panics;

/// A copy of a plan that borrows nothing.
struct Recording {
    operands: Vec<Operand>,
    layouts: Vec<Option<Layout>>,
    /// Whether an operand works in place of another: read, written.
    in_place: Vec<[usize; 2]>,
    steps: Vec<(OwnedStep, Vec<usize>)>,
    is_ordered: bool,
}

impl Recording {
    fn new(plan: &dyn Plan) -> Result<Recording> {
        let operands = plan.operands().to_vec();
        let all = 0..operands.len();
        let pairs = all.clone().flat_map(|read| all.clone().map(move |write| [read, write]));
        let mut steps = Vec::new();
        plan.steps(&mut |step, slots| step.copies(&mut |step| steps.push((step, slots.to_vec()))))?;
        Ok(Recording {
            layouts: all.clone().map(|operand| plan.layout(operand).copied()).collect(),
            in_place: pairs.filter(|&[read, write]| plan.works_in_place(read, write)).collect(),
            operands,
            steps,
            is_ordered: plan.is_ordered(),
        })
    }
}

impl Plan for Recording {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        self.steps.iter().try_for_each(|(step, slots)| sink(step.step(), slots))
    }

    fn works_in_place(&self, read: usize, write: usize) -> bool {
        self.in_place.contains(&[read, write])
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        self.layouts[operand].as_ref()
    }

    fn is_ordered(&self) -> bool {
        self.is_ordered
    }
}

/// Its steps, as the plan shows them.
impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::ops::plan::list(self, f)
    }
}

impl Context {
    /// Leaves a plan to the graph that the stream captures.
    ///
    /// # Errors
    /// Execution for a capture that was spoiled.
    ///
    /// # Safety
    /// As for [`Context::run`], at each launch of the graph.
    pub(super) unsafe fn record(&self, plan: &dyn Plan, at: &[Address]) -> Result<()> {
        let (recording, at) = (Recording::new(plan)?, at.to_vec());
        let mut context = self.clone();
        context.set_stream(host_runtime::NO_STREAM);
        let call: Kept = Box::new(move || {
            // SAFETY: the caller of `record` vouches for the operands at each launch.
            matches!(panics::caught(|| unsafe { context.run(&recording, &at) }), Ok(Ok(())))
        });
        match host_runtime::keep(self.stream(), call) {
            true => Ok(()),
            false => Err(Error::Execution(
                "a call before this one spoiled the capture of the handle's stream".into(),
            )),
        }
    }
}
