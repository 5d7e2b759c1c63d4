//! Walking what an output reduces: from any position, by whole blocks or element by element.

use std::ops::Range;

use super::tree::GROUP;
use crate::backend::cpu::row::Row;
use crate::backend::cpu::stream::fetch_run;
use crate::backend::cpu::strided::copy_strided;
use crate::backend::function::Real;
use crate::layout::{LoopNest, MAX_AXES};
use crate::ops::{Reduce, Scaling};

/// A sequence in bytes.
pub(in crate::backend) struct Steps {
    pieces: [Piece; 2],
    pub len: usize,
}

#[derive(Clone, Copy)]
struct Piece {
    /// Extent, step in bytes, step of the index; outermost first, at least one.
    loops: [(usize, isize, i64); MAX_AXES],
    rank: usize,
    /// Offset in bytes and index of the first element.
    start: (isize, i64),
    len: usize,
}

/// A place in a sequence: bytes from the output's start, index, and how many more elements follow
/// evenly.
#[derive(Clone, Copy)]
struct Run {
    offset: isize,
    index: i64,
    len: usize,
    step: isize,
    index_step: i64,
}

impl Steps {
    pub fn new(problem: &Reduce) -> Self {
        let cell = problem.src.size() as isize;
        let piece = |nest: &LoopNest<2>| {
            let mut loops = [(1, cell, 0); MAX_AXES];
            for (to, axis) in loops.iter_mut().zip(nest.axes()) {
                *to = (axis.extent as usize, axis.strides[0] as isize * cell, axis.strides[1]);
            }
            Piece {
                loops,
                rank: nest.axes().len().max(1),
                start: (nest.offsets[0] as isize * cell, nest.offsets[1]),
                len: nest.len() as usize,
            }
        };
        // Without elements where there is one piece only.
        let mut pieces = [Piece { loops: [(1, cell, 0); MAX_AXES], rank: 1, start: (0, 0), len: 0 }; 2];
        for (to, nest) in pieces.iter_mut().zip(problem.sequence.pieces()) {
            *to = piece(nest);
        }
        Steps { len: pieces.iter().map(|p| p.len).sum(), pieces }
    }

    /// These loops, outermost first, as extent, step in bytes and step of the index; from `start`
    /// on.
    pub fn of_loops(
        from: impl Iterator<Item = (usize, isize, i64)>, start: isize, len: usize, cell: usize,
    ) -> Self {
        let nothing = Piece { loops: [(1, cell as isize, 0); MAX_AXES], rank: 1, start: (0, 0), len: 0 };
        let mut piece = Piece { rank: 0, start: (start, 0), len, ..nothing };
        for (to, from) in piece.loops.iter_mut().zip(from) {
            *to = from;
            piece.rank += 1;
        }
        piece.rank = piece.rank.max(1);
        Steps { pieces: [piece, nothing], len }
    }

    /// Calls `f` with offset, step and length of the even runs of the positions in `range`, in
    /// order.
    pub fn strides(&self, range: Range<usize>, mut f: impl FnMut(isize, isize, usize)) {
        self.runs(range, |run| {
            f(run.offset, run.step, run.len);
            true
        });
    }

    /// Where a position is, in bytes, if all elements lie side by side.
    pub fn side_by_side(&self, cell: usize, position: usize) -> Option<isize> {
        let [piece, _] = &self.pieces;
        let is_run = piece.rank == 1 && piece.loops[0].1 == cell as isize && piece.len == self.len;
        is_run.then(|| piece.start.0 + (position * cell) as isize)
    }

    /// The smallest step between neighbours, in bytes.
    pub fn inner_step(&self) -> usize {
        let loops = self.pieces[0].loops();
        loops.last().map_or(0, |l| if l.0 > 1 { l.1.unsigned_abs() } else { usize::MAX })
    }

    /// Calls `f` with the even runs of the positions in `range`, in order, until it returns
    /// `false`.
    fn runs(&self, range: Range<usize>, mut f: impl FnMut(Run) -> bool) {
        let mut first = 0;
        for piece in &self.pieces {
            let from = range.start.max(first);
            let to = range.end.min(first + piece.len);
            if from < to && !piece.runs(from - first..to - first, &mut f) {
                return;
            }
            first += piece.len;
        }
    }

    /// Calls `f` with offset and index of every position in `range`, in order.
    pub fn each(&self, range: Range<usize>, mut f: impl FnMut(isize, i64)) {
        self.runs(range, |run| {
            for i in 0..run.len {
                f(run.offset + i as isize * run.step, run.index + i as i64 * run.index_step);
            }
            true
        });
    }

    /// The index of a position.
    pub fn index(&self, position: usize) -> i64 {
        let mut index = 0;
        self.runs(position..position + 1, |run| {
            index = run.index;
            false
        });
        index
    }
}

impl Piece {
    fn loops(&self) -> &[(usize, isize, i64)] {
        &self.loops[..self.rank]
    }

    fn runs(&self, range: Range<usize>, f: &mut impl FnMut(Run) -> bool) -> bool {
        let loops = self.loops();
        let mut turns = [0; MAX_AXES];
        let (mut offset, mut index) = self.start;
        let mut rest = range.start;
        for (turn, &(extent, step, index_step)) in turns.iter_mut().zip(loops).rev() {
            if rest == 0 {
                break;
            }
            *turn = rest % extent;
            rest /= extent;
            offset += *turn as isize * step;
            index += *turn as i64 * index_step;
        }
        let inner = loops.len() - 1;
        let (extent, step, index_step) = loops[inner];
        let mut left = range.len();
        loop {
            let len = left.min(extent - turns[inner]);
            if !f(Run { offset, index, len, step, index_step }) {
                return false;
            }
            left -= len;
            if left == 0 {
                return true;
            }
            offset -= turns[inner] as isize * step;
            index -= turns[inner] as i64 * index_step;
            turns[inner] = 0;
            for (turn, &(extent, step, index_step)) in turns[..inner].iter_mut().zip(loops).rev() {
                *turn += 1;
                offset += step;
                index += index_step;
                if *turn < extent {
                    break;
                }
                offset -= extent as isize * step;
                index -= extent as i64 * index_step;
                *turn = 0;
            }
        }
    }
}

/// Brings elements of the source into the computation type.
#[derive(Clone, Copy)]
pub(super) struct Loader {
    pub cell: usize,
    /// Whether the source is of the computation type.
    pub is_real: bool,
    pub widen: Row,
}

/// Bytes of a run that is worth asking for.
const LEAST_FETCHED: usize = 512;

/// Bytes of one row of numbers: long enough for memory to stream, while the lanes of a block, 32
/// rows, stay close.
pub(super) const ROW_BYTES: usize = 1024;

/// Bytes of the longest row of numbers that there is room for.
pub(super) const MOST_ROW_BYTES: usize = 2048;

const _: () =
    assert!(ROW_BYTES <= MOST_ROW_BYTES && GROUP * MOST_ROW_BYTES <= Reduce::BLOCK * size_of::<u64>());

/// Room for a block of any scalar, twice: as they are and converted.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    /// Room for [`Reduce::BLOCK`] cells of any scalar.
    pub raw: *mut u8,
    wide: *mut u8,
}

impl Blocks {
    /// Bytes of both rooms.
    pub const BYTES: usize = 2 * Reduce::BLOCK * size_of::<u64>();

    /// In `room`: [`BYTES`](Self::BYTES) bytes, aligned for every scalar.
    pub fn new(room: *mut u8) -> Self {
        Blocks { raw: room, wide: room.wrapping_add(Self::BYTES / 2) }
    }
}

impl Loader {
    /// Where the first of these positions is, and how many of them lie side by side from there on,
    /// if they can be used where they are.
    pub fn place<T: Real>(
        &self, steps: &Steps, start: *const u8, range: Range<usize>,
    ) -> Option<(*const T, usize)> {
        let mut place = None;
        if self.is_real {
            steps.runs(range, |run| {
                let contiguous = run.step == self.cell as isize;
                place = contiguous.then(|| (start.wrapping_offset(run.offset).cast(), run.len));
                false
            });
        }
        place
    }

    /// Asks for the elements at these positions that lie side by side: a block in several runs, as
    /// at the end of each image of a channel, is no line that the processor foresees.
    pub fn fetch(&self, steps: &Steps, start: *const u8, range: Range<usize>) {
        steps.runs(range, |run| {
            if run.step == self.cell as isize && run.len * self.cell >= LEAST_FETCHED {
                fetch_run(start.wrapping_offset(run.offset), run.len * self.cell);
            }
            true
        });
    }

    /// The elements at these positions, side by side: where they are, or in `blocks`.
    ///
    /// # Safety
    /// They are readable around `start`; there are at most [`Reduce::BLOCK`].
    pub unsafe fn block<T: Real>(
        &self, steps: &Steps, start: *const u8, range: Range<usize>, Blocks { raw, wide }: Blocks,
    ) -> *const T {
        let count = range.len();
        let gathered = if self.is_real { wide } else { raw };
        let mut place = std::ptr::null::<u8>();
        if let Some(offset) = steps.side_by_side(self.cell, range.start) {
            place = start.wrapping_offset(offset);
        }
        let walked = if place.is_null() { range } else { 0..0 };
        let mut done = 0;
        steps.runs(walked, |run| {
            let from = start.wrapping_offset(run.offset);
            if run.len == count && run.step == self.cell as isize {
                place = from;
                return false;
            }
            // SAFETY: the run's elements are readable and the buffer has room for all of the block.
            unsafe {
                let to = gathered.add(done * self.cell);
                copy_strided(self.cell, to, self.cell as isize, from, run.step, run.len);
            }
            done += run.len;
            true
        });
        let place = if place.is_null() { gathered.cast_const() } else { place };
        if self.is_real {
            return place.cast();
        }
        // SAFETY: `count` elements lie there, and the buffer holds as many numbers.
        unsafe { (self.widen)(wide, place, count, Scaling::MOVE) };
        wide.cast_const().cast()
    }

    /// `width` elements `step` bytes apart, side by side: where they are, or in `blocks` at the row
    /// of this number.
    ///
    /// # Safety
    /// They are readable; they take [`MOST_ROW_BYTES`] at most as numbers, and `number` is below
    /// [`GROUP`].
    pub unsafe fn row<T: Real>(
        &self, from: *const u8, step: isize, width: usize, Blocks { raw, wide }: Blocks, number: usize,
    ) -> *const T {
        let wide = wide.wrapping_add(number * MOST_ROW_BYTES);
        let contiguous = step == self.cell as isize;
        // SAFETY: `width` elements are readable a step apart; either buffer has room for the row.
        unsafe {
            if self.is_real {
                if contiguous {
                    return from.cast();
                }
                copy_strided(self.cell, wide, self.cell as isize, from, step, width);
            } else if contiguous {
                (self.widen)(wide, from, width, Scaling::MOVE);
            } else {
                copy_strided(self.cell, raw, self.cell as isize, from, step, width);
                (self.widen)(wide, raw, width, Scaling::MOVE);
            }
        }
        wide.cast_const().cast()
    }
}
