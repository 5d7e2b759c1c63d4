//! Walking groups and what they hold: tiles of neighbouring groups, and positions inside them.

use std::ops::Range;

use crate::backend::Address;
use crate::backend::cpu::row::Row;
use crate::backend::cpu::stream::{self, LINE};
use crate::backend::cpu::strided::copy_strided;
use crate::backend::function::Real;
use crate::layout::LoopNest;
use crate::ops::Scaling;

/// Groups per tile at most where neighbours in memory belong to neighbouring groups, unless whole
/// rows are better.
pub(super) const WIDTH: usize = 256;

/// Loops over `N` operands in bytes, outermost first; at least one.
pub(super) struct Loops<const N: usize> {
    loops: Vec<(usize, [isize; N])>,
    start: [isize; N],
    pub len: usize,
}

/// Places that follow one another evenly.
#[derive(Clone, Copy)]
pub(super) struct Run<const N: usize> {
    pub offsets: [isize; N],
    pub steps: [isize; N],
    pub len: usize,
}

impl<const N: usize> Run<N> {
    /// Where place `i` of the run is.
    pub fn at(&self, i: usize) -> [isize; N] {
        std::array::from_fn(|k| self.offsets[k] + self.steps[k] * i as isize)
    }
}

/// Neighbouring cells: of one group, or one of each of neighbouring groups, over and over.
#[derive(Clone, Copy)]
pub(super) struct Cells<const N: usize> {
    pub offsets: [isize; N],
    pub steps: [isize; N],
    pub n: usize,
}

impl<const N: usize> Loops<N> {
    /// The loops of a nest whose operands have cells of these sizes.
    pub fn new(nest: &LoopNest<N>, cells: [usize; N]) -> Self {
        let bytes = |strides: [i64; N]| std::array::from_fn(|k| strides[k] as isize * cells[k] as isize);
        let mut loops: Vec<_> =
            nest.axes().iter().map(|axis| (axis.extent as usize, bytes(axis.strides))).collect();
        if loops.is_empty() {
            loops.push((1, cells.map(|cell| cell as isize)));
        }
        Loops { loops, start: bytes(nest.offsets), len: nest.len() as usize }
    }

    /// Takes out the loop along which this operand moves least, to be walked by tiles; the last one
    /// if none moves.
    pub fn take_closest(&mut self, operand: usize) -> (usize, [isize; N]) {
        let reach = |l: &(usize, [isize; N])| match l.1[operand] {
            0 => usize::MAX,
            step => step.unsigned_abs(),
        };
        let closest = (0..self.loops.len()).min_by_key(|&i| reach(&self.loops[i])).unwrap_or(0);
        self.loops.remove(closest)
    }

    /// How often all loops turn together.
    pub fn iterations(&self) -> usize {
        self.loops.iter().map(|l| l.0).product()
    }

    /// Where the operands are in this turn.
    pub fn at(&self, index: usize) -> [isize; N] {
        let mut offsets = self.start;
        let mut rest = index;
        for &(extent, steps) in self.loops.iter().rev() {
            let here = (rest % extent) as isize;
            (0..N).for_each(|k| offsets[k] += steps[k] * here);
            rest /= extent;
        }
        offsets
    }

    /// Calls `f` with the even runs of these turns, in order.
    pub fn runs(&self, range: Range<usize>, mut f: impl FnMut(Run<N>)) {
        let (extent, steps) = self.loops[self.loops.len() - 1];
        let mut index = range.start;
        while index < range.end {
            let len = (extent - index % extent).min(range.end - index);
            f(Run { offsets: self.at(index), steps, len });
            index += len;
        }
    }

    /// All turns, if they are one run.
    pub fn only_run(&self) -> Option<Run<N>> {
        (self.loops.len() == 1).then(|| Run { offsets: self.start, steps: self.inner(), len: self.len })
    }

    /// The steps of the innermost loop.
    pub fn inner(&self) -> [isize; N] {
        self.loops[self.loops.len() - 1].1
    }
}

/// How cells of one operand become numbers.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub cell: usize,
    /// Whether cells are numbers.
    pub is_real: bool,
    pub widen: Row,
}

impl Access {
    /// `n` cells `step` bytes apart as numbers side by side: where they are, or in `numbers`. `raw`
    /// is room for them, too.
    ///
    /// # Safety
    /// The cells are readable at `from`; either room holds `n` cells of any scalar and is aligned
    /// for it.
    #[inline(always)]
    pub unsafe fn row<T: Real>(
        &self, from: *const u8, step: isize, n: usize, numbers: *mut T, raw: *mut u8,
    ) -> *const T {
        let contiguous = step == self.cell as isize || n == 1;
        // SAFETY: `n` cells are readable, and either room holds as many.
        unsafe {
            match (self.is_real, contiguous) {
                (true, true) => return from.cast(),
                (true, false) => {
                    copy_strided(self.cell, numbers.cast(), self.cell as isize, from, step, n);
                }
                (false, true) => (self.widen)(numbers.cast(), from, n, Scaling::MOVE),
                (false, false) => {
                    copy_strided(self.cell, raw, self.cell as isize, from, step, n);
                    (self.widen)(numbers.cast(), raw, n, Scaling::MOVE);
                }
            }
        }
        numbers
    }
}

impl Access {
    /// The lines with cells of operand `k`, which lies at `base`; none if they are not neighbours.
    pub fn lines<const N: usize>(&self, cells: &Cells<N>, k: usize, base: Address) -> Lines {
        let is_contiguous = cells.steps[k] == self.cell as isize;
        let bytes = if is_contiguous { cells.n * self.cell } else { 0 };
        Lines { from: base.pointer().wrapping_offset(cells.offsets[k]).cast_const(), bytes }
    }
}

/// Bytes to ask for.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    from: *const u8,
    bytes: usize,
}

impl Lines {
    pub fn fetch(self) {
        stream::fetch_run(self.from, self.bytes);
    }

    /// Where each begins.
    pub fn each(self) -> impl Iterator<Item = *const u8> {
        (0..self.bytes).step_by(LINE).map(move |offset| self.from.wrapping_add(offset))
    }

    /// One of `shares` parts of them: none of those behind the last.
    pub fn part(self, number: usize, shares: usize) -> Lines {
        let most = self.bytes.div_ceil(LINE).div_ceil(shares) * LINE;
        let done = (number * most).min(self.bytes);
        Lines { from: self.from.wrapping_add(done), bytes: most.min(self.bytes - done) }
    }
}

/// Places that several threads write, each its own.
pub(super) struct Shared<T>(*mut T);

// SAFETY: an address; that no two threads use one place is a matter of the unsafe functions that
// use it.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: an address, as for `Send`.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Those that begin here.
    pub fn at(first: *mut T) -> Self {
        Shared(first)
    }

    /// # Safety
    /// The places are there, are initialised, and no other thread uses them meanwhile.
    #[allow(clippy::mut_from_ref, reason = "the caller vouches for the places being its own")]
    pub unsafe fn places(&self, first: usize, count: usize) -> &mut [T] {
        // SAFETY: the places are inside the list, and this task's alone.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(first), count) }
    }
}
