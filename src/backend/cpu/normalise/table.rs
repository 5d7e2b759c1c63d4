//! The kernels of normalisation, of both directions, in the order in which they are asked whether
//! they accept a step.

use super::job::MAP_TILE;
use super::kernels::LANES;
use super::walk::Loops;
use crate::backend::choice::{self, Kernel};
use crate::layout::LoopNest;
use crate::ops::normalise::{Normalise, Statistics, Tree};

/// Groups that are mapped at a time at least where they follow one another.
const PACKED: usize = 4;

/// How the elements of a tile of groups come.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Elements {
    /// One element of each of neighbouring groups at a time.
    Rows,
    /// All elements of some groups, which are turned so that one of each group is a row.
    Turned,
    /// All elements of some groups.
    Lines,
    /// The elements of one group, run by run.
    Runs,
}

/// What of a step decides that.
pub(super) struct Groups {
    tree: Tree,
    /// Elements of a group.
    len: usize,
    /// Whether groups are runs that follow one another in every operand.
    follow: bool,
    has_sums: bool,
}

/// How the elements of groups come by a kernel, if it accepts them.
pub(super) type Accept = fn(&Groups) -> Option<Elements>;

/// The kernels; the first one that accepts a step runs it. The tree of the sums is the step's: rows
/// and the others exclude one another.
pub(super) const KERNELS: &[Kernel<Accept>] = &[
    Kernel {
        name: "normalise_across_groups",
        when: "neighbours in memory belong to neighbouring groups: one element of each comes as a row",
        accept: |groups| (groups.tree == Tree::ROWS).then_some(Elements::Rows),
    },
    Kernel {
        name: "normalise_transposed",
        when: "groups of up to 32 elements with sums, which follow one another: they are transposed, so that groups are lanes",
        accept: |groups| {
            (groups.are_lines() && groups.has_sums && groups.len <= LANES).then_some(Elements::Turned)
        },
    },
    Kernel {
        name: "normalise_short_groups",
        when: "groups of up to 256 elements that follow one another: several are mapped at a time",
        accept: |groups| groups.are_lines().then_some(Elements::Lines),
    },
    Kernel {
        name: "normalise_runs",
        when: "all groups whose own elements are neighbours in memory, run by run",
        accept: |groups| (groups.tree == Tree::RUNS).then_some(Elements::Runs),
    },
];

impl Groups {
    /// Groups of members like these, and neighbours that lie so far apart in each operand.
    pub(super) fn new<const N: usize, const M: usize>(
        apart: [isize; M], members: &Loops<N>, tree: Tree, has_sums: bool,
    ) -> Self {
        let run = members.only_run();
        let follow = run.is_some_and(|run| (0..N).all(|k| apart[k] == run.steps[k] * run.len as isize));
        Groups { tree, len: members.len, follow, has_sums }
    }

    fn are_lines(&self) -> bool {
        self.tree == Tree::RUNS && self.follow && self.len <= MAP_TILE / PACKED
    }
}

/// Whether a step takes statistics of its groups.
pub(super) fn has_sums(step: &Normalise) -> bool {
    step.statistics != Statistics::Given
}

/// The names of all kernels that accept a step, in the order of the table.
pub(super) fn names<const N: usize, const M: usize>(
    groups: &LoopNest<M>, members: &LoopNest<N>, tree: Tree, has_sums: bool,
) -> Vec<&'static str> {
    // Cells are of one size for an operand: which one does not matter.
    let (_, apart) = Loops::new(groups, [1; M]).take_closest(1);
    let groups = Groups::new(apart, &Loops::new(members, [1; N]), tree, has_sums);
    choice::names(KERNELS, |accept| accept(&groups))
}
