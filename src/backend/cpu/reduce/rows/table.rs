//! The kernels of groups, in the order in which they are asked whether they accept them.

use super::super::sequence::Steps;
use super::super::table::closest;
use super::transpose;
use crate::backend::choice::Kernel;
use crate::ops::Rows;

/// How the elements of groups come, and along which loop over groups those of neighbours do.
#[derive(Clone, Copy)]
pub(super) enum Elements {
    Transposed(usize),
    Rows(usize),
    Blocks,
}

/// How the elements of groups come by a kernel, if it accepts them, which lie at such steps in each
/// operand.
pub(super) type Accept = fn(&Rows, &[Steps; 3]) -> Option<Elements>;

/// The kernels; the first one that accepts a step runs it. Nothing else depends on it: the tree of
/// the sums is one.
pub(super) const KERNELS: &[Kernel<Accept>] = &[
    Kernel {
        name: "rows_transposed",
        when: "lines of 32 groups or more, each of 2 to 192 elements side by side in all operands, which have cells of one size; not \
               blended. Tiles are transposed, so that one element of each group is a row, and back",
        accept: transposed,
    },
    Kernel {
        name: "rows_across_groups",
        when: "neighbours in memory belong to neighbouring groups, or lines of 32 groups or more have fewer than 32 elements each: one \
               element of each comes as a row",
        accept: in_rows,
    },
    Kernel {
        name: "rows_within_groups",
        when: "all groups: the elements of one come in blocks",
        accept: |_, _| Some(Elements::Blocks),
    },
];

/// Elements below which a group is short: it costs more calls than elements. Groups from which on
/// there are many.
const SHORT: usize = 32;

/// Where the elements of a group are, in each operand.
pub(super) fn steps(rows: &Rows) -> [Steps; 3] {
    std::array::from_fn(|k| Steps::over(&rows.elements, k, rows.scalars[k].size()))
}

fn transposed(rows: &Rows, steps: &[Steps; 3]) -> Option<Elements> {
    let (along, _) = closest(&rows.groups, rows.scalars[1])?;
    (are_many(rows, along) && transpose::pays(rows, steps)).then_some(Elements::Transposed(along))
}

fn in_rows(rows: &Rows, steps: &[Steps; 3]) -> Option<Elements> {
    let (along, reach) = closest(&rows.groups, rows.scalars[1])?;
    let are_short = are_many(rows, along) && steps[1].len < SHORT;
    (reach < steps[1].inner_step() || are_short).then_some(Elements::Rows(along))
}

fn are_many(rows: &Rows, along: usize) -> bool {
    rows.groups.axes()[along].extent >= SHORT as i64
}
