//! The steps of the gradients by queries, keys and values.
//!
//! Parts of the reserve space keep what the gradients by weights need: the gradient by the output
//! behind its dropout, and the gradients by projected queries, keys and values. Behind the ends of
//! sequences all of these gradients are zeros.

use super::ends::{Fill, Side};
use super::forward::rows;
use super::groups::seen;
use super::view::{Loop, LoopRange, Steps, Terms};
use super::{AttentionPlan, Part};
use crate::error::Result;

/// The output's number among the projections.
const OUTPUT: usize = 3;

impl AttentionPlan {
    pub(super) fn data_steps(&self, steps: &mut Steps<'_>) -> Result<()> {
        let problem = &self.problem;
        let groups = problem.groups(0..problem.extents.batch);
        let gradient = self.part(Part::Output);
        self.find_ends(steps)?;
        for group in &groups {
            let of = |rows: [LoopRange; 3]| [&rows[..], &[self.output_entries()]].concat();
            let ranges = of(rows(group, group.queries.clone()));
            let given = &self.views.outer[OUTPUT];
            match problem.lengths_are_data {
                true => self.cut(steps, [&gradient, given], Side::Queries, Fill::Zero, &ranges)?,
                false => steps.transform(&gradient, given, &ranges, 0.0)?,
            }
            steps.zero(&gradient, &of(rows(group, group.queries.end..problem.rows.end)))?;
        }
        if let Some(drop) = &self.dropouts[1] {
            steps.mask(&gradient, &gradient, drop.mask, None)?;
        }
        let every_row = self.every_row();
        let by_heads = match self.is_projected(OUTPUT) {
            false => self.in_heads(&gradient),
            true => {
                let by_heads = self.part(Part::HeadGradients);
                let others = [self.heads(), self.value_entries(), self.output_entries()];
                let ranges = [&every_row[..], &others].concat();
                steps.product(&by_heads, [&gradient, &self.views.weights[OUTPUT]], &ranges, Terms::SUM)?;
                by_heads
            }
        };
        for which in 0..3 {
            steps.zero(&self.gradient(which), &self.gradient_ranges(which))?;
        }
        let (weights, scores) = (self.part(Part::Weights), self.part(Part::Dropped));
        let mut applied = weights;
        if let Some(drop) = &self.dropouts[0] {
            steps.mask(&scores, &weights, drop.mask, None)?;
            applied = scores;
        }
        let added = Terms { beta: 1.0, ..Terms::SUM };
        for group in &groups {
            let keys = (Loop::Key, seen(&problem.runs(group)));
            let others = [keys, self.heads(), self.value_entries()];
            let ranges = [&rows(group, group.queries.clone())[..], &others].concat();
            steps.product(&self.gradient(2), [&applied, &by_heads], &ranges, added)?;
        }
        for group in &groups {
            let keys = (Loop::Key, seen(&problem.runs(group)));
            let others = [keys, self.heads(), self.value_entries()];
            let ranges = [&rows(group, group.queries.clone())[..], &others].concat();
            steps.product(&scores, [&by_heads, &self.head_view(2)], &ranges, Terms::SUM)?;
        }
        if let Some(drop) = &self.dropouts[0] {
            steps.mask(&scores, &scores, drop.mask, None)?;
        }
        for group in &groups {
            let runs = problem.runs(group);
            let all = seen(&runs);
            for run in runs {
                let rows = [&rows(group, run.queries)[..], &[self.heads()]].concat();
                steps.softmax_gradient(&scores, &weights, &rows, run.keys.clone())?;
                self.zero_outside(steps, &scores, &rows, &run.keys, &all)?;
            }
            let scaled = Terms { alpha: self.scale, ..Terms::SUM };
            let others = [self.heads(), (Loop::Key, all), self.entries()];
            let ranges = [&rows(group, group.queries.clone())[..], &others].concat();
            steps.product(&self.gradient(0), [&scores, &self.head_view(1)], &ranges, scaled)?;
            let scaled = Terms { beta: 1.0, ..scaled };
            steps.product(&self.gradient(1), [&scores, &self.head_view(0)], &ranges, scaled)?;
        }
        (0..3).try_for_each(|which| self.leave(steps, which))
    }

    /// All samples, beams and time steps of queries.
    pub(super) fn every_row(&self) -> [LoopRange; 3] {
        let extents = &self.problem.extents;
        [
            (Loop::Batch, 0..extents.batch),
            (Loop::Beam, 0..extents.beam),
            (Loop::Query, self.problem.rows.clone()),
        ]
    }

    /// All rows of queries, keys or values.
    pub(super) fn every(&self, which: usize) -> Vec<LoopRange> {
        let [batch, beam, query] = self.every_row();
        match which {
            0 => vec![batch, beam, query],
            _ => vec![batch, (Loop::Key, 0..self.problem.extents.keys)],
        }
    }

    /// The gradient by projected queries, keys or values.
    pub(super) fn gradient(&self, which: usize) -> super::View {
        self.part([Part::QueryGradients, Part::KeyGradients, Part::ValueGradients][which])
    }

    fn gradient_ranges(&self, which: usize) -> Vec<LoopRange> {
        let mut ranges = self.every(which);
        ranges.extend(self.is_projected(which).then(|| self.heads()));
        ranges.push(self.head_entries(which));
        ranges
    }

    /// Entries of a head's queries, keys or values.
    pub(super) fn head_entries(&self, which: usize) -> LoopRange {
        if which == 2 { self.value_entries() } else { self.entries() }
    }

    /// From the gradient by what is projected to the caller's.
    fn leave(&self, steps: &mut Steps<'_>, which: usize) -> Result<()> {
        let (dst, src) = (self.views.outer[which], self.gradient(which));
        if !self.is_projected(which) {
            let ranges = self.gradient_ranges(which);
            return steps.transform(&dst.with(Loop::Entry, 1), &src, &ranges, 0.0);
        }
        let others = [self.vector(which), self.heads(), self.head_entries(which)];
        let ranges = [&self.every(which)[..], &others].concat();
        steps.product(&dst, [&src, &self.views.weights[which]], &ranges, Terms::SUM)
    }
}
