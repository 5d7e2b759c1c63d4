//! The steps of the forward pass.

use std::ops::Range;

use super::ends::{Fill, Side};
use super::groups::{Group, Run, seen};
use super::view::{Loop, LoopRange, Steps, Terms, View};
use super::{AttentionPlan, PROJECTIONS, Part, Pass};
use crate::error::Result;

/// The output's number among the projections.
const OUTPUT: usize = 3;

/// The samples and beams of a group.
fn samples(group: &Group) -> [LoopRange; 2] {
    [(Loop::Batch, group.batch.clone()), (Loop::Beam, group.beam.clone())]
}

/// The rows of a group: samples, beams and time steps.
pub(super) fn rows(group: &Group, queries: Range<i64>) -> [LoopRange; 3] {
    let [batch, beam] = samples(group);
    [batch, beam, (Loop::Query, queries)]
}

impl AttentionPlan {
    pub(super) fn heads(&self) -> LoopRange {
        (Loop::Head, 0..self.problem.extents.heads)
    }

    pub(super) fn entries(&self) -> LoopRange {
        (Loop::Entry, 0..self.problem.extents.entries)
    }

    pub(super) fn value_entries(&self) -> LoopRange {
        (Loop::Entry, 0..self.problem.extents.value_entries)
    }

    pub(super) fn output_entries(&self) -> LoopRange {
        (Loop::Vector, 0..self.problem.extents.output)
    }

    /// An output of the caller or of the memory as heads see it: projected, or their vectors side
    /// by side.
    pub(super) fn in_heads(&self, view: &View) -> View {
        view.in_heads(self.problem.extents.value_entries, false)
    }

    pub(super) fn is_projected(&self, which: usize) -> bool {
        self.problem.extents.is_projected[which]
    }

    /// The bias of a projection.
    fn bias(&self, which: usize) -> Option<View> {
        self.has_bias[which].then(|| self.views.weights[PROJECTIONS + which])
    }

    /// Entries of the caller's queries, keys or values.
    pub(super) fn vector(&self, which: usize) -> LoopRange {
        (Loop::Vector, 0..self.vectors[which])
    }

    pub(super) fn forward_steps(&self, steps: &mut Steps<'_>) -> Result<()> {
        let Pass::Forward { is_training, .. } = self.pass else { return Ok(()) };
        let problem = &self.problem;
        let all = problem.groups(0..problem.extents.batch);
        self.find_ends(steps)?;
        self.project_inputs(steps, &all)?;
        let together = if is_training { problem.extents.batch } else { problem.extents.together };
        for chunk in problem.chunks(together) {
            let first = if is_training { 0 } else { chunk.start };
            let mut weights = self.part(Part::Weights).from(Loop::Batch, first);
            let groups = problem.groups(chunk);
            for group in &groups {
                self.softmax(steps, group, &weights, is_training)?;
            }
            if let Some(drop) = &self.dropouts[0] {
                let dropped = self.part(Part::Dropped);
                steps.make_states(drop, 0)?;
                steps.mask(&dropped, &weights, drop.mask, drop.states)?;
                weights = dropped;
            }
            for group in &groups {
                self.join_values(steps, group, &weights)?;
            }
        }
        self.finish(steps, &all, is_training)
    }

    /// Projects what has a projection: the time steps that are computed, and the keys and values
    /// that any of them sees.
    fn project_inputs(&self, steps: &mut Steps<'_>, groups: &[Group]) -> Result<()> {
        let problem = &self.problem;
        let runs: Vec<Run> = groups.iter().flat_map(|group| problem.runs(group)).collect();
        let [batch, beam] = [problem.extents.batch, problem.extents.beam];
        let queries = [(Loop::Batch, 0..batch), (Loop::Beam, 0..beam), (Loop::Query, problem.rows.clone())];
        let keys = [(Loop::Batch, 0..batch), (Loop::Key, seen(&runs))];
        let entries = [self.entries(), self.entries(), self.value_entries()];
        for (which, entries) in entries.into_iter().enumerate().filter(|&(which, _)| self.is_projected(which))
        {
            let rows = if which == 0 { &queries[..] } else { &keys[..] };
            let ranges = [rows, &[self.heads(), entries, self.vector(which)]].concat();
            let factors = [&self.views.inputs[which], &self.views.weights[which]];
            let terms = Terms { bias: self.bias(which), ..Terms::SUM };
            steps.product(&self.head_view(which), factors, &ranges, terms)?;
        }
        self.cut_inputs(steps, &queries, &keys)
    }

    /// The weights of the values: scores of all keys that any time step of the group sees, softmax
    /// over the window of each. What is outside becomes 0 where gradients, which are summed over
    /// all time steps, look at it.
    fn softmax(&self, steps: &mut Steps<'_>, group: &Group, weights: &View, is_training: bool) -> Result<()> {
        let runs = self.problem.runs(group);
        let all = seen(&runs);
        let of =
            |queries: Range<i64>| -> Vec<LoopRange> { [&rows(group, queries)[..], &[self.heads()]].concat() };
        let factors = [&self.head_view(0), &self.head_view(1)];
        let ranges = [of(group.queries.clone()), vec![(Loop::Key, all.clone()), self.entries()]].concat();
        steps.product(weights, factors, &ranges, Terms { alpha: self.scale, ..Terms::SUM })?;
        let ranges = [of(group.queries.clone()), vec![(Loop::Key, all.clone())]].concat();
        self.cut(steps, [weights, weights], Side::Keys, Fill::NoWeight, &ranges)?;
        for run in runs {
            let rows = of(run.queries);
            steps.softmax(weights, &rows, run.keys.clone())?;
            if is_training {
                self.zero_outside(steps, weights, &rows, &run.keys, &all)?;
            }
        }
        // The softmax of no number is none.
        self.cut(steps, [weights, weights], Side::Keys, Fill::Zero, &ranges)?;
        if is_training {
            self.cut(steps, [weights, weights], Side::Queries, Fill::Zero, &ranges)?;
        }
        Ok(())
    }

    /// Zeros for the keys of `all` that are not among `keys`.
    pub(super) fn zero_outside(
        &self, steps: &mut Steps<'_>, view: &View, rows: &[LoopRange], keys: &Range<i64>, all: &Range<i64>,
    ) -> Result<()> {
        let outside =
            if keys.is_empty() { [all.clone(), 0..0] } else { [all.start..keys.start, keys.end..all.end] };
        for part in outside {
            steps.zero(view, &[rows, &[(Loop::Key, part)]].concat())?;
        }
        Ok(())
    }

    /// Where the output goes before dropout, and what is added to it there.
    fn output(&self) -> (View, Option<View>) {
        let has_residuals = matches!(self.pass, Pass::Forward { has_residuals: true, .. });
        match self.dropouts[1] {
            Some(_) => (self.part(Part::Output), None),
            None => (self.views.outer[OUTPUT], has_residuals.then_some(self.views.residuals)),
        }
    }

    /// The sums of weighted values of every head: the output, unless there is a projection.
    fn join_values(&self, steps: &mut Steps<'_>, group: &Group, weights: &View) -> Result<()> {
        let (output, residual) = self.output();
        let (dst, residual) = match self.is_projected(OUTPUT) {
            true => (self.part(Part::Heads), None),
            false => (self.in_heads(&output), residual.map(|view| self.in_heads(&view))),
        };
        let values = self.head_view(2);
        for run in self.problem.runs(group) {
            let others = [self.heads(), self.value_entries(), (Loop::Key, run.keys)];
            let ranges = [&rows(group, run.queries)[..], &others].concat();
            steps.product(&dst, [weights, &values], &ranges, Terms { residual, ..Terms::SUM })?;
        }
        Ok(())
    }

    /// From what heads compute to the output; zeros behind the ends of the queries.
    fn finish(&self, steps: &mut Steps<'_>, groups: &[Group], is_training: bool) -> Result<()> {
        let (target, residual) = self.output();
        let heads = self.part(Part::Heads);
        let terms = Terms { residual, bias: self.bias(OUTPUT), ..Terms::SUM };
        for group in groups.iter().filter(|_| self.is_projected(OUTPUT)) {
            let others = [self.output_entries(), self.heads(), self.value_entries()];
            let ranges = [&rows(group, group.queries.clone())[..], &others].concat();
            steps.product(&target, [&heads, &self.views.weights[OUTPUT]], &ranges, terms)?;
        }
        let out = self.views.outer[OUTPUT];
        if let Some(drop) = &self.dropouts[1] {
            steps.make_states(drop, 1)?;
            steps.mask(&target, &target, drop.mask, drop.states)?;
            for group in groups {
                let ranges = [&rows(group, group.queries.clone())[..], &[self.output_entries()]].concat();
                match self.pass {
                    Pass::Forward { has_residuals: true, .. } => {
                        steps.add(&out, [&target, &self.views.residuals], &ranges)?
                    }
                    _ => steps.transform(&out, &target, &ranges, 0.0)?,
                }
            }
        }
        for group in groups {
            let before = [&rows(group, group.queries.clone())[..], &[self.output_entries()]].concat();
            self.cut(steps, [&out, &out], Side::Queries, Fill::Zero, &before)?;
            let behind = rows(group, group.queries.end..self.problem.rows.end);
            steps.zero(&out, &[&behind[..], &[self.output_entries()]].concat())?;
            if is_training && self.is_projected(OUTPUT) {
                // The gradient by the output's projection is summed over these rows, too.
                let others = [self.heads(), self.value_entries()];
                steps.zero(&heads, &[&behind[..], &others].concat())?;
            }
        }
        Ok(())
    }
}
