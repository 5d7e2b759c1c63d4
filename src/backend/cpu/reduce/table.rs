//! The kernels of reductions, in the order in which they are asked whether they accept one.

use super::sequence::Steps;
use crate::backend::choice::Kernel;
use crate::dtype::Scalar;
use crate::layout::LoopNest;
use crate::ops::Reduce;

/// How the elements of outputs come: as rows along this loop over outputs, or as blocks.
#[derive(Clone, Copy)]
pub(super) enum Elements {
    Rows(usize),
    Blocks,
}

/// How the elements of a reduction come by a kernel, if it accepts it.
pub(super) type Accept = fn(&Reduce, &Steps) -> Option<Elements>;

/// The kernels; the first one that accepts a reduction runs it. Nothing else depends on it: the
/// tree of the sums is one.
pub(super) const KERNELS: &[Kernel<Accept>] = &[
    Kernel {
        name: "reduce_across_outputs",
        when: "neighbours in memory belong to neighbouring outputs: one element of each comes as a row",
        accept: in_rows,
    },
    Kernel {
        name: "reduce_within_outputs",
        when: "all reductions: the elements of an output come in blocks",
        accept: |_, _| Some(Elements::Blocks),
    },
];

/// Rows along the loop over outputs along which the source's neighbours lie closest, if they lie
/// closer than those of one output.
fn in_rows(problem: &Reduce, steps: &Steps) -> Option<Elements> {
    let (along, reach) = closest(&problem.outputs, problem.src)?;
    (reach < steps.inner_step()).then_some(Elements::Rows(along))
}

/// The loop along which neighbours lie closest in the source, operand 1, and how many bytes apart.
pub(super) fn closest(loops: &LoopNest<3>, src: Scalar) -> Option<(usize, usize)> {
    let reach = loops.axes().iter().map(|axis| match axis.strides[1] {
        0 => usize::MAX,
        stride => stride.unsigned_abs() as usize * src.size(),
    });
    reach.enumerate().min_by_key(|&(_, reach)| reach)
}
