//! What is behind the ends of sequences whose lengths are data.
//!
//! On a device the lengths of a call lie in memory that queued work may still be about to write. So
//! steps are planned for the lengths of the descriptors, which are bounds, and time steps behind
//! the ends are cut by steps that read the lengths: a mask has a 1 for each time step before the
//! end, and scores, weights, vectors and results take another number where the mask has a 0. Sums
//! over time steps then find zeros behind the ends, as nothing that is multiplied by a 0 may be a
//! NaN.

use super::view::{Loop, LoopRange, Steps, View};
use super::{AttentionPlan, Part, Pass};
use crate::error::Result;
use crate::ops::attention::sizes::FILLS;

/// The lengths of the sequences of a call.
#[derive(Clone, Copy, Debug)]
pub enum Lengths<'a> {
    /// The lengths of the descriptors.
    OfDescriptors,
    /// Lengths of queries and of keys, each of which counts where it is shorter than the
    /// descriptor's; a length below 0 is 0.
    Known([&'a [i32]; 2]),
    /// Such lengths, in arrays that only steps can read.
    OfDevice,
}

/// Which ends are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The ends of queries and output.
    Queries,
    /// The ends of keys and values.
    Keys,
}

/// What is written behind an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// 0.
    Zero,
    /// A score that softmax gives no weight.
    NoWeight,
}

impl AttentionPlan {
    /// The masks of the pass; the gradients need that of the queries alone.
    pub(super) fn find_ends(&self, steps: &mut Steps<'_>) -> Result<()> {
        if !self.problem.lengths_are_data {
            return Ok(());
        }
        let (keys, rows) = (self.problem.extents.keys, &self.problem.rows);
        let numbers = self.part(Part::Numbers);
        // Indices are those of 32-bit dims.
        let words = (0..keys).chain(rows.clone()).map(|number| number as u32);
        steps.words(numbers.slot, words.collect())?;
        for (at, value) in FILLS.into_iter().enumerate() {
            steps.set(&self.part(Part::Fills).at(at as i64), value)?;
        }
        let [batch, beam, queries] = self.every_row();
        let of_queries = numbers.at(keys).with(Loop::Query, 1).from(Loop::Query, rows.start);
        let from = [&of_queries, &self.views.lengths[0]];
        steps.less(&self.part(Part::QueryMask), from, &[batch.clone(), beam, queries])?;
        if let Pass::Forward { .. } = self.pass {
            let from = [&numbers.with(Loop::Key, 1), &self.views.lengths[1]];
            steps.less(&self.part(Part::KeyMask), from, &[batch, (Loop::Key, 0..keys)])?;
        }
        Ok(())
    }

    /// `dst = src` before the ends, and another number behind them. Nothing, if the loops end
    /// there.
    pub(super) fn cut(
        &self, steps: &mut Steps<'_>, [dst, src]: [&View; 2], side: Side, fill: Fill, ranges: &[LoopRange],
    ) -> Result<()> {
        if !self.problem.lengths_are_data {
            return Ok(());
        }
        let mask = self.part(if side == Side::Queries { Part::QueryMask } else { Part::KeyMask });
        let other = self.part(Part::Fills).at(fill as i64);
        steps.select(dst, [src, &other], &mask, ranges)
    }

    /// Cuts queries, keys and values as heads see them, where they have a place of their own.
    pub(super) fn cut_inputs(
        &self, steps: &mut Steps<'_>, queries: &[LoopRange], keys: &[LoopRange],
    ) -> Result<()> {
        for which in (0..3).filter(|&which| self.problem.is_copied(self.pass, which)) {
            let (side, rows) = if which == 0 { (Side::Queries, queries) } else { (Side::Keys, keys) };
            let dst = self.head_view(which);
            let entries = self.head_entries(which);
            let (src, ranges) = match self.is_projected(which) {
                true => (dst, [rows, &[self.heads(), entries]].concat()),
                false => (self.views.inputs[which].with(Loop::Entry, 1), [rows, &[entries]].concat()),
            };
            self.cut(steps, [&dst, &src], side, Fill::Zero, &ranges)?;
        }
        Ok(())
    }
}

impl super::Problem {
    /// Whether what is not projected has a copy without what is behind the ends: values, which are
    /// multiplied by weights of 0, and all that gradients are sums of.
    fn is_copied(&self, pass: Pass, which: usize) -> bool {
        let is_inference = matches!(pass, Pass::Forward { is_training: false, .. });
        self.lengths_are_data && (which == 2 || !is_inference)
    }

    /// Whether heads see queries, keys or values in memory of the pass: projected or copied.
    pub(super) fn is_kept(&self, pass: Pass, which: usize) -> bool {
        self.extents.is_projected[which] || self.is_copied(pass, which)
    }

    /// Whether the steps of a pass touch a part, wherever there is one.
    pub(super) fn uses(&self, pass: Pass, part: Part) -> bool {
        use Part::*;
        let is_data = self.lengths_are_data;
        match (pass, part) {
            (Pass::Weights { .. }, Heads | Output | WeightGradients) => true,
            (_, QueryGradients | KeyGradients | ValueGradients) => !matches!(pass, Pass::Forward { .. }),
            (Pass::Weights { .. }, _) | (_, WeightGradients) => false,
            (_, Queries) => self.is_kept(pass, 0),
            (_, Keys) => self.is_kept(pass, 1),
            (_, Values) => self.is_kept(pass, 2),
            (_, Numbers | Fills | QueryMask) => is_data,
            (Pass::Forward { .. }, KeyMask) => is_data,
            (Pass::Data, KeyMask | Heads) | (Pass::Forward { .. }, HeadGradients) => false,
            (_, Weights | Heads | Dropped | Output | HeadGradients | WeightMask | OutputMask) => true,
        }
    }
}
