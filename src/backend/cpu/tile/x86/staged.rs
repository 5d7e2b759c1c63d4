//! Transposes of whole cache lines of cells of one and two bytes, with AVX2 and AVX-512. A block of
//! such cells has more lines than there are registers, and stops halfway in the first-level cache.
//! So that cache can hold several blocks, and where the rows of an operand conflict in few cache
//! sets, several lines of each row are read, or written, before the next row.
//!
//! 1. Eight rows are joined: after three interleavings a lane has these rows of one column, or of
//!    two if cells are bytes.
//! 2. Joined rows of the same columns are put together and their lanes exchanged. Lines of two
//!    columns of each lane leave the registers at a time: eight rows of the destination are written
//!    in alternation, to the end of the group. With AVX2, two registers make a line.

use std::arch::x86_64::*;

use super::through::{Place, Through};
use super::{Ahead, Matrix, RowStarts, lanes};
use crate::backend::cpu::arena;
use crate::backend::cpu::stage::Stage;

/// Rows that are joined, of each lane.
const JOINED: usize = 8;

/// Room for a group of blocks.
const GROUP_BYTES: usize = 32 << 10;

const _: () = assert!(GROUP_BYTES <= arena::NESTED_BYTES);

/// Defines the transposes of one width in registers `$V`. Out of columns that are joined,
/// `$columns` makes lines: those of the first and second column of each lane.
macro_rules! staged {
    ($W:ident, $feature:literal, $V:ty, $columns:ident, $zero:ident, $lo:ident, $hi:ident) => {
        pub mod $W {
            use super::*;

            const LINE: usize = 64 / size_of::<$W>();
            /// Columns of a lane.
            const LANE: usize = 16 / size_of::<$W>();

            /// Cells of a register, and its lanes.
            const CELLS: usize = size_of::<$V>() / size_of::<$W>();
            const LANES: usize = size_of::<$V>() / 16;
            /// Registers of a line.
            const REGISTERS: usize = LINE / CELLS;

            /// A line of rows and a register of columns, joined: register `g` of part `p` has the
            /// `p`th columns of each lane, of the `g`th rows.
            type Joined = [[$V; LINE / JOINED]; JOINED];

            /// A line of rows and of columns.
            type Block = [Joined; REGISTERS];

            const BYTES: usize = size_of::<Block>();

            /// Transposes one block.
            ///
            /// # Safety
            /// As for [`Transpose`](crate::backend::cpu::tile::Transpose), for a line of rows from
            /// `i` on and of columns from `j` on.
            #[target_feature(enable = $feature)]
            #[inline]
            pub unsafe fn block<F: Through<$V>, D: RowStarts, S: RowStarts>(
                through: &mut F,
                m: &Matrix<D, S>,
                i: usize,
                j: usize,
                ahead: &mut Ahead<S>,
            ) {
                let mut room = Stage::<BYTES>::new();
                // SAFETY: the matrix has a line of rows and of columns from here on, and there is
                // room for one block.
                unsafe { group(through, m, [i, j], [1, 1], room.ptr(), ahead) }
            }

            /// Transposes groups of as many lines of rows and of columns as are asked for, or fewer
            /// where there is no room for them.
            ///
            /// # Safety
            /// As for [`Transpose`](crate::backend::cpu::tile::Transpose), for at least a line of
            /// rows and of columns.
            #[target_feature(enable = $feature)]
            pub unsafe fn in_groups<F: Through<$V>, D: RowStarts, S: RowStarts>(
                through: &mut F,
                m: &Matrix<D, S>,
                lines: [usize; 2],
            ) {
                // SAFETY: the matrix has at least a line of rows and of columns, and the room is as
                // large as a group.
                let groups = |room| Ok(unsafe { in_groups_through(through, m, lines, room) });
                // The caller has a loan, so that this one inside it does not fail.
                arena::with(GROUP_BYTES, groups).expect("room inside the scratch of a job");
            }

            /// # Safety
            /// As for [`in_groups`]; `room` has [`GROUP_BYTES`].
            #[target_feature(enable = $feature)]
            unsafe fn in_groups_through<F: Through<$V>, D: RowStarts, S: RowStarts>(
                through: &mut F,
                m: &Matrix<D, S>,
                lines: [usize; 2],
                room: *mut u8,
            ) {
                let mut ahead = Ahead::of(m.next);
                let down = lines[0].clamp(1, GROUP_BYTES / BYTES);
                let across = lines[1].clamp(1, GROUP_BYTES / BYTES / down);
                // The first cell of a group, its lines, and where the next one starts. The last one
                // may overlap the one before.
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
                        unsafe { group(through, m, [i, j], [down, across], room, &mut ahead) };
                        top = bottom;
                    }
                    left = right;
                }
                ahead.fetch(usize::MAX);
            }

            /// Transposes one group of lines of rows and of columns, whose first cell is in row and
            /// column `at`.
            ///
            /// # Safety
            /// As for [`in_groups`], for these rows and columns. There is room for their blocks.
            #[target_feature(enable = $feature)]
            #[inline]
            unsafe fn group<F: Through<$V>, D: RowStarts, S: RowStarts>(
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
                // SAFETY: the rows and columns are some of the matrix, and the room holds their
                // blocks.
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
            #[target_feature(enable = $feature)]
            #[inline]
            unsafe fn join<F: Through<$V>, D: RowStarts, S: RowStarts>(
                through: &F,
                m: &Matrix<D, S>,
                [i, j]: [usize; 2],
                [down, across]: [usize; 2],
                room: *mut Block,
            ) {
                let column = m.src.wrapping_add(j * F::SRC);
                for b in 0..down {
                    for g in 0..LINE / JOINED {
                        // SAFETY: lines of these rows; each part of a block has a register for each
                        // group of them.
                        unsafe {
                            let row = i + b * LINE + g * JOINED;
                            let from: [_; JOINED] = m.src_rows.cells(column, row, 1);
                            for c in 0..across {
                                let block = room.add(c * down + b);
                                for h in 0..REGISTERS {
                                    let mut r = [$zero(); JOINED];
                                    for k in 0..JOINED {
                                        let cell = c * LINE + h * CELLS;
                                        r[k] = through.get(from[k].add(cell * F::SRC), m.scaling);
                                    }
                                    pass!(u16 r $lo $hi);
                                    pass!(u16 r $lo $hi);
                                    pass!(u16 r $lo $hi);
                                    for p in 0..JOINED {
                                        (&raw mut (*block)[h][p][g]).write(r[p]);
                                    }
                                }
                            }
                        }
                    }
                }
            }

            /// Writes lines of the columns `2 p` and `2 p + 1` of each lane, of blocks below each
            /// other.
            ///
            /// # Safety
            /// As for [`group`], and the blocks are joined.
            #[target_feature(enable = $feature)]
            #[inline]
            unsafe fn write<F: Through<$V>, D: RowStarts, S: RowStarts>(
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
                    for h in 0..REGISTERS {
                        // SAFETY: lines of these columns. They start on a line if they are
                        // streamed.
                        unsafe {
                            let lines = $columns(&(*blocks.add(b))[h], p);
                            for k in 0..2 {
                                ahead.fetch(LANES);
                                for l in 0..LANES {
                                    for n in 0..REGISTERS {
                                        let row = b * LINE + n * CELLS;
                                        let lane = h * LANES + l;
                                        let place = Place {
                                            to: to[k][lane].cast_mut().add(row * F::DST),
                                            column: columns[k] + lane * LANE,
                                            row: i + row,
                                            starts_line: i.is_multiple_of(LINE),
                                        };
                                        through.put(lines[k][l][n], place, m.scaling);
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    };
}

/// Defines both widths in one kind of registers.
macro_rules! registers {
    ($feature:literal, $V:ty, $lines:path, $columns:ty, $zero:ident, [$lo8:ident, $hi8:ident], [$lo16:ident, $hi16:ident],
     [$lo64:ident, $hi64:ident]) => {
        /// Columns `2 p` and `2 p + 1` of cells of two bytes, whose parts have one column each.
        #[target_feature(enable = $feature)]
        #[inline]
        fn singles(joined: &[[$V; 4]; JOINED], p: usize) -> [$columns; 2] {
            [$lines(joined[2 * p]), $lines(joined[2 * p + 1])]
        }

        /// The same of bytes, if each part has two columns.
        #[target_feature(enable = $feature)]
        #[inline]
        fn pairs(joined: &[[$V; 8]; JOINED], p: usize) -> [$columns; 2] {
            let [a, b, c, d, e, f, g, h] = joined[p];
            [
                $lines([$lo64(a, b), $lo64(c, d), $lo64(e, f), $lo64(g, h)]),
                $lines([$hi64(a, b), $hi64(c, d), $hi64(e, f), $hi64(g, h)]),
            ]
        }

        staged!(u8, $feature, $V, pairs, $zero, $lo8, $hi8);
        staged!(u16, $feature, $V, singles, $zero, $lo16, $hi16);
    };
}

/// Registers of AVX2, two of which make a line.
pub(super) mod avx2 {
    use super::*;

    registers!(
        "avx2,f16c",
        __m256i,
        lanes::avx2::lines,
        [[__m256i; 2]; 2],
        _mm256_setzero_si256,
        [_mm256_unpacklo_epi8, _mm256_unpackhi_epi8],
        [_mm256_unpacklo_epi16, _mm256_unpackhi_epi16],
        [_mm256_unpacklo_epi64, _mm256_unpackhi_epi64]
    );
}

/// Registers of AVX-512, each a line.
pub(super) mod avx512 {
    use super::*;

    registers!(
        "avx512f,avx512bw,avx512dq,avx512vl",
        __m512i,
        lanes::avx512::lines,
        [[__m512i; 1]; 4],
        _mm512_setzero_si512,
        [_mm512_unpacklo_epi8, _mm512_unpackhi_epi8],
        [_mm512_unpacklo_epi16, _mm512_unpackhi_epi16],
        [_mm512_unpacklo_epi64, _mm512_unpackhi_epi64]
    );
}
