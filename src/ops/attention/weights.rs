//! The steps of the gradients by weights, from what the other two passes have left in the reserve
//! space.

use std::ops::Range;

use super::forward::rows;
use super::view::{Loop, LoopRange, Steps, Terms, View};
use super::{AttentionPlan, PROJECTIONS, Part};
use crate::error::Result;

/// The output's number among the projections.
const OUTPUT: usize = 3;

impl AttentionPlan {
    pub(super) fn weight_steps(&self, steps: &mut Steps<'_>, is_added: bool) -> Result<()> {
        let count = self.problem.extents.weights;
        if count == 0 {
            return Ok(());
        }
        let sums = self.part(Part::WeightGradients).with(Loop::Entry, 1);
        let all: [LoopRange; 1] = [(Loop::Entry, 0..count)];
        steps.zero(&sums, &all)?;
        for which in 0..3 {
            self.gradient_of_input(steps, which)?;
        }
        self.gradient_of_output(steps)?;
        let dst = View::packed(0, self.weight_scalar, &[]).with(Loop::Entry, 1);
        steps.transform(&dst, &sums, &all, if is_added { 1.0 } else { 0.0 })
    }

    /// Rows of queries, keys or values that are there, which are all that is read.
    fn present(&self, which: usize) -> Vec<Vec<LoopRange>> {
        let problem = &self.problem;
        match which {
            1 | 2 => {
                let ranges =
                    |(samples, keys): (Range<i64>, i64)| vec![(Loop::Batch, samples), (Loop::Key, 0..keys)];
                problem.key_groups().into_iter().map(ranges).collect()
            }
            _ => {
                let groups = problem.groups(0..problem.extents.batch);
                groups.iter().map(|group| rows(group, group.queries.clone()).to_vec()).collect()
            }
        }
    }

    fn gradient_of_input(&self, steps: &mut Steps<'_>, which: usize) -> Result<()> {
        if !self.is_projected(which) {
            return Ok(());
        }
        let (gradient, added) = (self.gradient(which), Terms { beta: 1.0, ..Terms::SUM });
        let (head, entry, vector) = (self.heads(), self.head_entries(which), self.vector(which));
        for present in self.present(which) {
            let ranges = [&[head.clone(), entry.clone(), vector.clone()][..], &present].concat();
            steps.product(
                &self.views.weights[which],
                [&gradient, &self.views.inputs[which]],
                &ranges,
                added,
            )?;
        }
        if self.has_bias[which] {
            let bias = self.views.weights[PROJECTIONS + which];
            steps.sum(&bias, &gradient, &[head, entry], &self.every(which))?;
        }
        Ok(())
    }

    fn gradient_of_output(&self, steps: &mut Steps<'_>) -> Result<()> {
        if !self.is_projected(OUTPUT) {
            return Ok(());
        }
        let (heads, gradient) = (self.part(Part::Heads), self.part(Part::Output));
        let ranges =
            [&[self.heads(), self.value_entries(), self.output_entries()][..], &self.every_row()].concat();
        steps.product(&self.views.weights[OUTPUT], [&heads, &gradient], &ranges, Terms::SUM)?;
        if self.has_bias[OUTPUT] {
            let bias = self.views.weights[PROJECTIONS + OUTPUT];
            steps.sum(&bias, &gradient, &[self.output_entries()], &self.every_row())?;
        }
        Ok(())
    }
}
