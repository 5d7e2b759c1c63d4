//! The tree by which the elements of a group are joined, to a sum or to anything else.

/// How the elements of a group are joined. Both cores keep to it, so that results are the same bits
/// for any number of threads.
///
/// Elements come in the order of the group's loops, in blocks. Lane `j` of a block joins its
/// elements `j`, `j + lanes`, ... in this order, starting from the identity; lanes are joined in
/// halves (`j` with `j + lanes / 2`, and so on); blocks are joined pairwise, the first with the
/// second, the third with the fourth, then the results of those, a block without partner waiting
/// for the next level. So the shape depends on nothing but how many elements there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Elements per block.
    pub block: usize,
    /// Lanes per block.
    pub lanes: usize,
}

impl Tree {
    /// The tree of reductions and of sums of rows, and of normalisations where neighbours in memory
    /// belong to one group.
    pub const RUNS: Tree = Tree { block: 1024, lanes: 32 };
    /// The tree of normalisations where neighbours in memory belong to neighbouring groups.
    pub const ROWS: Tree = Tree { block: 64, lanes: 1 };

    /// The tree of a normalisation for groups whose elements, and whose neighbours, lie so far
    /// apart in x.
    pub(super) fn of(groups: impl Iterator<Item = i64>, members: impl Iterator<Item = i64>) -> Tree {
        let nearest = |strides: &mut dyn Iterator<Item = i64>| {
            strides.map(i64::unsigned_abs).filter(|&stride| stride != 0).min().unwrap_or(u64::MAX)
        };
        let (mut groups, mut members) = (groups, members);
        if nearest(&mut groups) < nearest(&mut members) { Tree::ROWS } else { Tree::RUNS }
    }
}
