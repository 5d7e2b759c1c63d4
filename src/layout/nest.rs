//! The canonical form of every element-wise task: perfectly nested loops over several operands.

/// The most axes a nest can have: 8 dimensions, 6 of them split by folding, and the channel axis split twice
/// by blocked layouts, rounded up.
pub const MAX_AXES: usize = 20;

/// One loop: how often it turns and how far each operand moves per turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis<const N: usize> {
    /// Number of turns, at least 1.
    pub extent: i64,
    /// Step per turn of every operand, in scalars of that operand; may be zero or negative.
    pub strides: [i64; N],
}

/// Perfectly nested loops over `N` operands; operand 0 is the destination, the others are sources.
///
/// The nest stands for the set of offset tuples `offsets[k] + sum_i index_i * axes[i].strides[k]`, one for each
/// index tuple; `axes[0]` is the outermost loop. An empty list of axes is one single element.
#[derive(Clone, Copy)]
pub struct LoopNest<const N: usize> {
    rank: u8,
    axes: [Axis<N>; MAX_AXES],
    /// Where every operand starts, in scalars from its data pointer.
    pub offsets: [i64; N],
}

impl<const N: usize> LoopNest<N> {
    /// A nest of these loops, outermost first, starting at `offsets`. Panics beyond [`MAX_AXES`] axes.
    pub fn new(axes: &[Axis<N>], offsets: [i64; N]) -> Self {
        let mut nest = LoopNest { rank: 0, axes: [Axis { extent: 1, strides: [0; N] }; MAX_AXES], offsets };
        axes.iter().for_each(|&axis| nest.push(axis));
        nest
    }

    /// Adds an innermost loop. Panics beyond [`MAX_AXES`] axes.
    pub fn push(&mut self, axis: Axis<N>) {
        self.axes[usize::from(self.rank)] = axis;
        self.rank += 1;
    }

    /// The loops, outermost first.
    pub fn axes(&self) -> &[Axis<N>] {
        &self.axes[..usize::from(self.rank)]
    }

    /// How many elements the nest visits.
    pub fn len(&self) -> i64 {
        self.axes().iter().map(|a| a.extent).product()
    }

    /// Whether the nest visits nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
