//! Perfectly nested loops over several operands, and the questions that kernels ask of them.

use std::fmt;

/// The most axes a nest can have: 8 dimensions, 6 of them split by folding, and the channel axis
/// split twice by blocked layouts, rounded up.
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
/// The nest stands for the multiset of offset tuples
/// `offsets[k] + sum_i index_i * axes[i].strides[k]`, one for each index tuple; `axes[0]` is the
/// outermost loop. An empty list of axes is one single element. How a nest becomes canonical, the
/// form that every kernel expects, is described at [`LoopNest::canonical`].
#[derive(Clone, Copy)]
pub struct LoopNest<const N: usize> {
    rank: u8,
    /// Beyond the rank they carry no meaning.
    axes: [Axis<N>; MAX_AXES],
    /// Where every operand starts, in scalars from its data pointer.
    pub offsets: [i64; N],
}

impl<const N: usize> LoopNest<N> {
    /// A single element, where the data pointers are.
    const ELEMENT: Self =
        LoopNest { rank: 0, axes: [Axis { extent: 0, strides: [0; N] }; MAX_AXES], offsets: [0; N] };

    /// A nest of these loops, outermost first, starting at `offsets`. Panics beyond [`MAX_AXES`]
    /// axes.
    #[inline(always)]
    pub fn new(axes: &[Axis<N>], offsets: [i64; N]) -> Self {
        let mut nest = LoopNest { offsets, ..Self::ELEMENT };
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

    /// The loops of `self` around those of `inner`, offsets added: every pair of an offset tuple of
    /// either. Panics beyond [`MAX_AXES`] axes.
    pub fn times(mut self, inner: &LoopNest<N>) -> Self {
        (0..N).for_each(|k| self.offsets[k] += inner.offsets[k]);
        inner.axes().iter().for_each(|&axis| self.push(axis));
        self
    }

    /// The loops, for the steps that rewrite them.
    pub(super) fn axes_mut(&mut self) -> &mut [Axis<N>] {
        &mut self.axes[..usize::from(self.rank)]
    }

    /// Keeps the outermost `rank` loops. Pre: `rank` is at most the present rank.
    pub(super) fn truncate(&mut self, rank: usize) {
        debug_assert!(rank <= usize::from(self.rank));
        self.rank = rank as u8;
    }

    /// How many elements the nest visits.
    pub fn len(&self) -> i64 {
        self.axes().iter().map(|a| a.extent).product()
    }

    /// Whether the nest visits nothing.
    pub fn is_empty(&self) -> bool {
        self.axes().iter().any(|a| a.extent == 0)
    }

    /// The lowest and the highest offset of one operand, or `None` if either, or the distance
    /// between them, leaves 64 bits. Pre: the nest is not empty.
    ///
    /// A nest whose spans are known is safe to rewrite: no step of the canonical form overflows on
    /// it.
    pub fn span(&self, operand: usize) -> Option<(i64, i64)> {
        let (mut low, mut high) = (self.offsets[operand], self.offsets[operand]);
        for axis in self.axes() {
            let reach = (axis.extent - 1).checked_mul(axis.strides[operand])?;
            low = low.checked_add(reach.min(0))?;
            high = high.checked_add(reach.max(0))?;
        }
        high.checked_sub(low)?;
        Some((low, high))
    }

    /// Calls `f` with every offset tuple, the innermost loop turning fastest: the order that
    /// defines results where one destination is visited more than once. The reference walk for
    /// tests and slow paths.
    ///
    /// Pre: [`span`](LoopNest::span) is known for every operand.
    pub fn for_each(&self, mut f: impl FnMut([i64; N])) {
        if self.is_empty() {
            return;
        }
        let mut index = [0_i64; MAX_AXES];
        let mut offsets = self.offsets;
        loop {
            f(offsets);
            // The odometer: rewind every loop that is through, then turn the next outer one.
            let mut turn = self.axes().len();
            loop {
                if turn == 0 {
                    return;
                }
                turn -= 1;
                let axis = &self.axes[turn];
                index[turn] += 1;
                if index[turn] < axis.extent {
                    (0..N).for_each(|k| offsets[k] += axis.strides[k]);
                    break;
                }
                index[turn] = 0;
                (0..N).for_each(|k| offsets[k] -= (axis.extent - 1) * axis.strides[k]);
            }
        }
    }

    /// Elements that follow one another without a gap in every operand: the extent of the innermost
    /// loop if all its strides are 1, else 1. Of a canonical nest this is the longest run there is.
    pub fn inner_run(&self) -> i64 {
        match self.axes().last() {
            Some(axis) if axis.strides == [1; N] => axis.extent,
            _ => 1,
        }
    }

    /// Whether all operands are walked from one end to the other in steps of 1. Pre: canonical.
    pub fn is_contiguous(&self) -> bool {
        match self.axes() {
            [] => true,
            [axis] => axis.strides == [1; N],
            _ => false,
        }
    }

    /// The innermost loop that moves this operand by exactly 1.
    pub fn unit_axis(&self, operand: usize) -> Option<usize> {
        self.axes().iter().rposition(|a| a.strides[operand] == 1)
    }
}

impl<const N: usize> PartialEq for LoopNest<N> {
    fn eq(&self, other: &Self) -> bool {
        self.offsets == other.offsets && self.axes() == other.axes()
    }
}

impl<const N: usize> Eq for LoopNest<N> {}

/// Prints the line that logs show, e.g.
/// `dst/src: 32*(802816,802816) 3136*(64,1) 64*(1,3136) +0,+0`: every loop as `extent*(strides)`,
/// outermost first, then where each operand starts.
impl<const N: usize> fmt::Display for LoopNest<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comma = |k: usize| if k == 0 { "" } else { "," };
        write!(f, "dst")?;
        for k in 1..N {
            if N == 2 { write!(f, "/src")? } else { write!(f, "/src{k}")? }
        }
        write!(f, ":")?;
        for axis in self.axes() {
            write!(f, " {}*(", axis.extent)?;
            for (k, stride) in axis.strides.iter().enumerate() {
                write!(f, "{}{stride}", comma(k))?;
            }
            write!(f, ")")?;
        }
        for (k, offset) in self.offsets.iter().enumerate() {
            write!(f, "{}{offset:+}", if k == 0 { " " } else { "," })?;
        }
        Ok(())
    }
}

/// The same line as `Display`: the axes beyond the rank carry no meaning.
impl<const N: usize> fmt::Debug for LoopNest<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
