//! What an output of a reduction joins: its elements, in order.

use crate::layout::LoopNest;

/// What one output reduces: the elements of a list of nests, one nest after the other, each as its
/// loops turn.
///
/// There are two nests only where a blocked axis ends in a group that is not full.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    pub(super) pieces: [LoopNest<2>; 2],
    pub(super) count: usize,
}

impl Sequence {
    /// The nests; operand 0 counts scalars of the source, operand 1 the index among the reduced
    /// elements, row-major over the reduced dimensions (0 throughout where no index is wanted).
    pub fn pieces(&self) -> &[LoopNest<2>] {
        &self.pieces[..self.count]
    }

    /// The sequence of these nests, one or two.
    pub fn new(pieces: &[LoopNest<2>]) -> Option<Sequence> {
        let (first, second) = match *pieces {
            [first] => (first, first),
            [first, second] => (first, second),
            _ => return None,
        };
        Some(Sequence { pieces: [first, second], count: pieces.len() })
    }

    /// Number of elements.
    pub fn len(&self) -> i64 {
        self.pieces().iter().map(LoopNest::len).sum()
    }

    /// Whether there is none; never so in a plan.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
