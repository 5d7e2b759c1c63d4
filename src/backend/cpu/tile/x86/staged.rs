//! Transposes of whole cache lines of cells of one and two bytes, with AVX-512. A block of them has more lines than there are
//! registers, and stops halfway in the first-level cache. So several blocks can be there at a time, and where the rows of an
//! operand crowd into few cache sets, several lines of each are read, or written, before the next row.
//!
//! 1. Eight rows are joined: after three interleavings a lane has these rows of one column, or of two if cells are bytes.
//! 2. Joined rows of the same columns are put together and their lanes exchanged. Lines of two columns of each lane leave the
//!    registers at a time: eight rows of the destination are written by turns, to the end of the group.

use std::arch::x86_64::*;

use super::lines::exchange;
use super::through::{Place, Through};
use super::{Ahead, Matrix, Rows};
use crate::backend::cpu::stage::Stage;

/// Rows that are joined, of each lane.
const JOINED: usize = 8;

/// Room for a group of blocks.
const GROUP_BYTES: usize = 32 << 10;

/// Lines of two columns of each lane.
type Columns = [[__m512i; 4]; 2];

/// Columns `2 p` and `2 p + 1` of cells of two bytes, of a block whose parts have one column each.
///
/// # Safety
/// The block is joined.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn singles(block: *const [[__m512i; 4]; JOINED], p: usize) -> Columns {
    // SAFETY: parts of the block.
    unsafe { [exchange((*block)[2 * p]), exchange((*block)[2 * p + 1])] }
}

/// The same of bytes, if each part has two columns.
///
/// # Safety
/// As for [`singles`].
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn pairs(block: *const [[__m512i; 8]; JOINED], p: usize) -> Columns {
    // SAFETY: a part of the block.
    let part = unsafe { (*block)[p] };
    let first = |i| _mm512_unpacklo_epi64(part[i], part[i + 1]);
    let second = |i| _mm512_unpackhi_epi64(part[i], part[i + 1]);
    [
        exchange([first(0), first(2), first(4), first(6)]),
        exchange([second(0), second(2), second(4), second(6)]),
    ]
}

/// Defines the transposes of one width, whose columns are put together by `$columns`.
macro_rules! staged {
    ($W:ident, $columns:ident, $lo:ident, $hi:ident) => {
        pub(super) mod $W {
            use super::*;

            const LINE: usize = 64 / size_of::<$W>();
            /// Columns of a lane.
            const LANE: usize = 16 / size_of::<$W>();

            /// A line of rows and of columns, joined: register `g` of part `p` has the `p`th columns of each lane, of the `g`th
            /// rows.
            type Block = [[__m512i; LINE / JOINED]; JOINED];

            const BYTES: usize = size_of::<Block>();

            /// Transposes one block.
            ///
            /// # Safety
            /// As for [`Transpose`](crate::backend::cpu::tile::Transpose), for a line of rows from `i` on and of columns from `j` on.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            pub unsafe fn block<F: Through, D: Rows, S: Rows>(
                through: &mut F,
                m: &Matrix<D, S>,
                i: usize,
                j: usize,
                ahead: &mut Ahead<S>,
            ) {
                let mut room = Stage::<BYTES>::new();
                // SAFETY: handed on; there is room for one block.
                unsafe { group(through, m, [i, j], [1, 1], room.ptr(), ahead) }
            }

            /// Transposes groups of so many lines of rows and of columns, or fewer where there is no room for them.
            ///
            /// # Safety
            /// As for [`Transpose`](crate::backend::cpu::tile::Transpose), for at least a line of rows and of columns.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            pub unsafe fn in_groups<F: Through, D: Rows, S: Rows>(
                through: &mut F,
                m: &Matrix<D, S>,
                lines: [usize; 2],
            ) {
                let mut room = Stage::<GROUP_BYTES>::new();
                let mut ahead = Ahead::of(m.next);
                let down = lines[0].clamp(1, GROUP_BYTES / BYTES);
                let across = lines[1].clamp(1, GROUP_BYTES / BYTES / down);
                // The first cell of a group, its lines, and where the next one starts. The last one may overlap the one before.
                let group_at = |from: usize, end: usize, lines: usize| match lines.min((end - from) / LINE) {
                    0 => (end - LINE, 1, end),
                    n => (from, n, from + n * LINE),
                };
                let mut left = 0;
                while left < m.columns {
                    let (j, across, right) = group_at(left, m.columns, across);
                    let mut top = 0;
                    while top < m.rows {
                        let (i, down, bottom) = group_at(top, m.rows, down);
                        // SAFETY: lines of the matrix, for which there is room.
                        unsafe { group(through, m, [i, j], [down, across], room.ptr(), &mut ahead) };
                        top = bottom;
                    }
                    left = right;
                }
                ahead.fetch(usize::MAX);
            }

            /// Transposes a group of so many lines of rows and of columns, whose first cell is in row and column `at`.
            ///
            /// # Safety
            /// As for [`in_groups`], for these rows and columns. There is room for their blocks.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn group<F: Through, D: Rows, S: Rows>(
                through: &mut F,
                m: &Matrix<D, S>,
                at: [usize; 2],
                lines: [usize; 2],
                room: *mut u8,
                ahead: &mut Ahead<S>,
            ) {
                // What is written may lie anywhere but in a copy.
                let m = *m;
                let ([i, j], [down, across]) = (at, lines);
                let room = room.cast::<Block>();
                // SAFETY: handed on.
                unsafe {
                    join(through, &m, at, lines, room);
                    for c in 0..across {
                        for p in 0..LANE / 2 {
                            write(through, &m, [i, j + c * LINE], p, down, room.add(c * down), ahead);
                        }
                    }
                }
            }

            /// Joins the rows of a group; blocks below each other come one after the other.
            ///
            /// # Safety
            /// As for [`group`].
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn join<F: Through, D: Rows, S: Rows>(
                through: &F,
                m: &Matrix<D, S>,
                [i, j]: [usize; 2],
                [down, across]: [usize; 2],
                room: *mut Block,
            ) {
                let column = m.src.wrapping_add(j * F::SRC);
                for b in 0..down {
                    for g in 0..LINE / JOINED {
                        // SAFETY: lines of these rows; each part of a block has a register for each group of them.
                        unsafe {
                            let row = i + b * LINE + g * JOINED;
                            let from: [_; JOINED] = m.src_rows.cells(column, row, 1);
                            for c in 0..across {
                                let mut r = [_mm512_setzero_si512(); JOINED];
                                for k in 0..JOINED {
                                    r[k] = through.get(from[k].add(c * LINE * F::SRC), m.scaling);
                                }
                                pass!(u16 r $lo $hi);
                                pass!(u16 r $lo $hi);
                                pass!(u16 r $lo $hi);
                                let block = room.add(c * down + b);
                                for p in 0..JOINED {
                                    (&raw mut (*block)[p][g]).write(r[p]);
                                }
                            }
                        }
                    }
                }
            }

            /// Writes lines of the columns `2 p` and `2 p + 1` of each lane, of blocks below each other.
            ///
            /// # Safety
            /// As for [`group`], and the blocks are joined.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn write<F: Through, D: Rows, S: Rows>(
                through: &mut F,
                m: &Matrix<D, S>,
                [i, j]: [usize; 2],
                p: usize,
                down: usize,
                blocks: *const Block,
                ahead: &mut Ahead<S>,
            ) {
                let dst = m.dst.wrapping_add(i * F::DST);
                let columns = [j + 2 * p, j + 2 * p + 1];
                // SAFETY: columns of the group.
                let to: [[_; 4]; 2] = unsafe {
                    [m.dst_rows.cells(dst, columns[0], LANE), m.dst_rows.cells(dst, columns[1], LANE)]
                };
                for b in 0..down {
                    // SAFETY: lines of these columns. They start on a line if they are streamed.
                    unsafe {
                        let lines = $columns(blocks.add(b), p);
                        for k in 0..2 {
                            ahead.fetch(4);
                            for l in 0..4 {
                                let place = Place {
                                    to: to[k][l].cast_mut().add(b * LINE * F::DST),
                                    column: columns[k] + l * LANE,
                                    row: i + b * LINE,
                                    starts_line: i.is_multiple_of(LINE),
                                };
                                through.put(lines[k][l], place, m.scaling);
                            }
                        }
                    }
                }
            }
        }
    };
}

staged!(u8, pairs, _mm512_unpacklo_epi8, _mm512_unpackhi_epi8);
staged!(u16, singles, _mm512_unpacklo_epi16, _mm512_unpackhi_epi16);
