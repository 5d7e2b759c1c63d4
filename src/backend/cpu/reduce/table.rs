//! The kernels of reductions, in the order in which they are asked whether they accept one.

use super::sequence::Steps;
use crate::backend::choice::Kernel;
use crate::layout::Axis;
use crate::ops::Reduce;

/// How the elements of outputs come: as rows along this loop over outputs, or as blocks.
#[derive(Clone, Copy)]
pub(in crate::backend) enum Elements {
    Rows(usize),
    Blocks,
}

/// How the elements of a reduction come by a kernel, if it accepts it.
pub(in crate::backend) type Accept = fn(&Reduce, &Steps) -> Option<Elements>;

/// The kernels; the first one that accepts a reduction runs it. Nothing else depends on it: the tree of the sums is one.
pub(in crate::backend) const KERNELS: &[Kernel<Accept>] = &[
    Kernel {
        name: "rows",
        when: "neighbours in memory belong to neighbouring outputs: one element of each comes as a row",
        accept: in_rows,
    },
    Kernel {
        name: "blocks",
        when: "all reductions: the elements of an output come in blocks",
        accept: |_, _| Some(Elements::Blocks),
    },
];

/// The names of all kernels that accept a reduction, in the order of the table.
pub(in crate::backend) fn kernels(problem: &Reduce) -> Vec<&'static str> {
    let steps = Steps::new(problem);
    let accepting = KERNELS.iter().filter(|kernel| (kernel.accept)(problem, &steps).is_some());
    accepting.map(|kernel| kernel.name).collect()
}

/// Rows along the loop over outputs along which the source's neighbours lie closest, if they lie closer than those of one output.
fn in_rows(problem: &Reduce, steps: &Steps) -> Option<Elements> {
    let reach = |axis: &Axis<3>| match axis.strides[1] {
        0 => usize::MAX,
        stride => stride.unsigned_abs() as usize * problem.src.size(),
    };
    let loops = problem.outputs.axes().iter().map(reach).enumerate();
    let (closest, reach) = loops.min_by_key(|&(_, reach)| reach)?;
    (reach < steps.inner_step()).then_some(Elements::Rows(closest))
}
