//! What a plan does with a workspace on a GPU: room for parts of sums, and for operands that are
//! moved there.

use super::ConvolutionPlan;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::contract::{Contract, Role as Loops};
use crate::ops::convolution::Direction;
use crate::ops::convolution::arrange::{ALIGNMENT, Arrangement, Moves, Tensors};
use crate::ops::convolution::place::Place;
use crate::ops::plan::{Operand, Plan, Role, Step, StepSink};

/// Tells of a contraction whether a core multiplies it by a kernel that copies whole vectors.
pub type Takes<'a> = &'a dyn Fn(&Contract) -> bool;

/// For who moves no operands.
pub const TAKES_ALL: Takes<'static> = &|_| true;

/// Arrangements, the better first.
const ARRANGEMENTS: [Arrangement; 2] = [Arrangement::Columns, Arrangement::Channels];

impl ConvolutionPlan {
    /// Bytes of workspace that a GPU has a use for: to move operands there, if it then multiplies
    /// by kernels that it `takes` and now does not; and for parts of all sums that are worth it.
    ///
    /// # Errors
    /// As for [`Plan::steps`].
    pub fn useful_workspace(&self, takes: Takes<'_>) -> Result<usize> {
        let mut most = None;
        for arranged in self.arranged(takes) {
            let moved = arranged.moves.map_or(0, |moves| moves.bytes as usize);
            let bytes = round_up(arranged.bytes_of_parts()?).saturating_add(moved);
            most = Some(bytes.max(most.unwrap_or(0)));
        }
        most.map_or_else(|| self.bytes_of_parts(), Ok)
    }

    /// Bytes of the parts of all sums that are worth to be cut.
    fn bytes_of_parts(&self) -> Result<usize> {
        let mut most = 0;
        self.steps(&mut |step, _| {
            let steps = match step {
                Step::Contract(step) => std::slice::from_ref(step),
                Step::Phases(phases) => &phases.0,
                _ => &[],
            };
            most = steps.iter().filter_map(|step| self.direction.workspace_of(step)).fold(most, usize::max);
            Ok(())
        })?;
        Ok(most)
    }

    /// The same with operands moved to the workspace, in all ways that make kernels of it that a
    /// GPU `takes` where it does not yet; the best one first.
    fn arranged(&self, takes: Takes<'_>) -> impl Iterator<Item = ConvolutionPlan> {
        let is_needed = self.scaling.alpha != 0.0 && self.is_of_fragments() && !self.is_taken(takes);
        let tensors = Tensors {
            direction: self.direction,
            groups: self.geometry.groups,
            is_pointwise: self.is_pointwise(),
            sides: self.sides.each_ref(),
            z: self.z.as_ref().map(|(place, _)| place),
            bias: self.bias.as_ref(),
        };
        let arranged = |arrangement| {
            let moves = if is_needed { tensors.moves(arrangement) } else { None };
            let plan = moves.map(|moves| ConvolutionPlan { moves: Some(moves), ..self.clone() });
            plan.filter(|plan| plan.is_taken(takes))
        };
        ARRANGEMENTS.map(arranged).into_iter().flatten()
    }

    /// Whether it multiplies types that are moved: each call asks, and most others are found out
    /// here.
    fn is_of_fragments(&self) -> bool {
        let [_, a, b] = &self.sides;
        a.scalar == b.scalar
            && match a.scalar {
                Scalar::F16 | Scalar::Bf16 => true,
                Scalar::F32 => self.allow_conversion,
                _ => false,
            }
    }

    /// Whether all that sums is done by kernels that a GPU `takes`.
    fn is_taken(&self, takes: Takes<'_>) -> bool {
        let mut all = true;
        let walked = self.steps(&mut |step, _| {
            all &= match step {
                Step::Contract(step) => step.extent(Loops::K) == 0 || takes(step),
                Step::Phases(_) => false,
                _ => true,
            };
            Ok(())
        });
        walked.is_ok() && all
    }

    /// Whether each output is of the pixel of the input that lies in its place.
    fn is_pointwise(&self) -> bool {
        let filter = if self.direction == Direction::BackwardFilter { 0 } else { 2 };
        self.sides[filter].layout.dims[2..].iter().all(|&taps| taps == 1)
            && self.geometry.strides.iter().all(|&stride| stride == 1)
            && self.geometry.padding.iter().all(|&padding| padding == 0)
    }

    /// Adds an operand, where there is a use for it: a workspace of `bytes` bytes, which starts at
    /// a multiple of 16. Operands are moved there, if that has a GPU multiply by kernels that it
    /// `takes`, and if they have room; what is left is for parts of sums.
    pub fn take_workspace(&mut self, bytes: usize, takes: Takes<'_>) {
        let fits = |plan: &ConvolutionPlan| plan.moves.is_some_and(|moves| moves.bytes as usize <= bytes);
        let arranged = self.arranged(takes).find(fits);
        if let Some(arranged) = arranged {
            let room = bytes - arranged.moves.map_or(0, |moves| moves.bytes as usize);
            *self = arranged;
            let parts = self.bytes_of_parts().map_or(0, round_up);
            self.given = if parts <= room { parts } else { 0 };
        } else if self.direction.cuts_sums() {
            self.given = bytes;
        } else {
            return;
        }
        let span = (0, i64::try_from(bytes).unwrap_or(i64::MAX));
        let operand = Operand { role: Role::Scratch, span, ..Operand::untouched("workSpace", Scalar::F64) };
        self.operands.push(operand);
    }

    /// Whether operands are moved to the workspace that was given.
    pub fn moves_operands(&self) -> bool {
        self.moves.is_some()
    }

    /// Whether steps are others for the workspace that was given.
    ///
    /// # Errors
    /// As for [`Plan::steps`].
    pub fn uses_workspace(&self) -> Result<bool> {
        let mut uses = self.moves.is_some();
        self.steps(&mut |step, _| {
            uses |= matches!(step, Step::Contract(step) if step.workspace > 0);
            Ok(())
        })?;
        Ok(uses)
    }

    /// Gives a step the workspace, if it has use for it and there is enough.
    pub(super) fn give_workspace(&self, step: &mut Contract) {
        if self.given > 0 {
            let needed = self.direction.workspace_of(step);
            step.workspace = needed.filter(|&needed| needed <= self.given).unwrap_or(0);
        }
    }

    /// The steps where operands are moved to the workspace: the moves, the sums, and the move of
    /// the result.
    pub(super) fn moved_steps(&self, moves: &Moves, sink: StepSink<'_>) -> Result<()> {
        let workspace = if self.bias.is_some() { 5 } else { 3 };
        let first = self.given as i64;
        for (slot, (moved, from)) in moves.sides.iter().zip(&self.sides).enumerate().skip(1) {
            if let Some(moved) = moved {
                moved.fetch(from, slot, workspace, first, sink)?;
            }
        }
        if let Some(moved) = &moves.sides[0] {
            // What is blended with, or added: both at once there never are.
            let z = self.z.as_ref().filter(|(_, alpha2)| *alpha2 != 0.0);
            if let Some((z, _)) = z {
                moved.fetch(z, 3, workspace, first, sink)?;
            } else if self.scaling.beta != 0.0 {
                moved.fetch(&self.sides[0], 0, workspace, first, sink)?;
            }
        }
        if let (Some(moved), Some(bias)) = (&moves.bias, &self.bias) {
            moved.fetch(bias, 4, workspace, first, sink)?;
        }
        let lies = |at: usize| moves.sides[at].as_ref().map_or(&self.sides[at], |moved| &moved.place);
        let z = self.z.as_ref().map(|(z, _)| if moves.sides[0].is_some() { lies(0) } else { z });
        let bias = self.bias.as_ref().map(|bias| moves.bias.as_ref().map_or(bias, |moved| &moved.place));
        let [dst, a, b] = &moves.sides;
        let of_operands = [dst, a, b, if z.is_some() { dst } else { &None }, &moves.bias];
        self.multiply(
            [0, 1, 2].map(|at| lies(at).side()),
            [z.map(Place::side), bias.map(Place::side)],
            &mut |step, slots| {
                let Step::Contract(step) = step else { return sink(step, slots) };
                let (mut step, mut places) = (*step, [workspace; 6]);
                places[..slots.len()].copy_from_slice(slots);
                for (at, moved) in of_operands.into_iter().enumerate() {
                    let Some(moved) = moved else { continue };
                    step.nest.offsets[at] += moved.offset(first);
                    places[at] = workspace;
                }
                sink(Step::Contract(&step), &places[..slots.len()])
            },
        )?;
        dst.map_or(Ok(()), |moved| moved.store(&self.sides[0], 0, workspace, first, sink))
    }
}

/// Where what is moved begins behind as many bytes.
fn round_up(bytes: usize) -> usize {
    let alignment = ALIGNMENT as usize;
    bytes.saturating_add(alignment - 1) / alignment * alignment
}
