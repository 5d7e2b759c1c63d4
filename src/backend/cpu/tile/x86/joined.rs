//! Blocks of lines of cells of one and two bytes, with AVX-512. They have more lines than there are registers, and stop
//! halfway in the first-level cache: there, rows are joined whose cells make up four bytes.

use std::arch::x86_64::*;

use super::lines::exchange;
use super::through::{Place, Through};
use super::{Ahead, Matrix, Rows};
use crate::backend::cpu::stage::Stage;

/// Lines of each row that are joined at a time where rows share so few cache sets that lines which come with their neighbours
/// would be gone.
pub(super) const SEVERAL: usize = 4;

/// Registers of a block's joined rows that hold the same columns.
const GROUPS: usize = 16;

/// Four rows of bytes: what was column `16 l + 4 q + k` is cell `k` of lane `l` of register `q`, four bytes from the first
/// row to the last.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn join_bytes([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_low, ab_high) = (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
    let (cd_low, cd_high) = (_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d));
    [
        _mm512_unpacklo_epi16(ab_low, cd_low),
        _mm512_unpackhi_epi16(ab_low, cd_low),
        _mm512_unpacklo_epi16(ab_high, cd_high),
        _mm512_unpackhi_epi16(ab_high, cd_high),
    ]
}

/// Two rows of cells of two bytes: what was column `8 l + 4 q + k` is cell `k` of lane `l` of register `q`.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn join_halves([a, b]: [__m512i; 2]) -> [__m512i; 2] {
    [_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)]
}

/// 4 x 4 cells of four bytes transposed in each lane.
#[target_feature(enable = "avx512f")]
#[inline]
fn transpose([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab_low, cd_low),
        _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// Defines the transposes of one block and of several side by side, whose rows are joined by `$join`.
macro_rules! block {
    ($W:ident, $join:ident) => {
        pub(super) mod $W {
            use super::*;

            /// Cells of a lane, cells of a line, and rows that are joined.
            const K: usize = 16 / size_of::<$W>();
            const LINE: usize = 4 * K;
            const JOINED: usize = K / 4;

            /// Joined rows of a block: register `g` of part `q` has columns of those that were joined `g`th.
            type Joined = [[__m512i; GROUPS]; JOINED];

            /// Joins a line of rows from `i` on, of `n` lines of columns from `j` on.
            ///
            /// # Safety
            /// The matrix has these cells, and there is room for them.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn join<F: Through, D: Rows, S: Rows>(
                through: &F,
                m: &Matrix<D, S>,
                i: usize,
                j: usize,
                n: usize,
                room: *mut Joined,
            ) {
                for g in 0..GROUPS {
                    // SAFETY: lines of the blocks; each part of the room has a register for each group.
                    unsafe {
                        let mut rows = [_mm512_setzero_si512(); JOINED];
                        let from: [_; JOINED] = m.src_rows.cells(m.src.add(j * F::SRC), i + JOINED * g, 1);
                        for b in 0..n {
                            for k in 0..JOINED {
                                rows[k] = through.get(from[k].add(b * LINE * F::SRC), m.scaling);
                            }
                            for (q, joined) in $join(rows).into_iter().enumerate() {
                                (&raw mut (*room.add(b))[q][g]).write(joined);
                            }
                        }
                    }
                }
            }

            /// Writes a block. `APART` tells two functions apart, so that each has one caller and is inlined there.
            ///
            /// # Safety
            /// As for [`one`], and the block is joined.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn write<const APART: bool, F: Through, D: Rows, S: Rows>(
                through: &mut F,
                m: &Matrix<D, S>,
                i: usize,
                j: usize,
                joined: *const Joined,
                ahead: &mut Ahead<S>,
            ) {
                for q in 0..JOINED {
                    let group = |h| {
                        // SAFETY: the caller's promise.
                        transpose(unsafe { (&raw const (*joined)[q]).cast::<[__m512i; 4]>().add(h).read() })
                    };
                    let [a, b, c, d] = [group(0), group(1), group(2), group(3)];
                    for k in 0..4 {
                        ahead.fetch(4);
                        let lines = exchange([a[k], b[k], c[k], d[k]]);
                        // SAFETY: lines of columns of the block. They start on a line if they are streamed.
                        unsafe {
                            let to: [_; 4] = m.dst_rows.cells(m.dst.add(i * F::DST), j + 4 * q + k, K);
                            for l in 0..4 {
                                let (to, column) = (to[l].cast_mut(), j + 4 * q + k + l * K);
                                let starts_line = i.is_multiple_of(LINE);
                                through.put(lines[l], Place { to, column, row: i, starts_line }, m.scaling);
                            }
                        }
                    }
                }
            }

            /// # Safety
            /// As for [`Transpose`](crate::backend::cpu::tile::Transpose), for a line of rows from `i` on and of columns from `j` on.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            pub unsafe fn one<F: Through, D: Rows, S: Rows>(
                through: &mut F,
                m: &Matrix<D, S>,
                i: usize,
                j: usize,
                ahead: &mut Ahead<S>,
            ) {
                let mut room = Stage::<{ 64 * LINE }>::new();
                let room = room.ptr().cast();
                // SAFETY: handed on.
                unsafe {
                    join::<F, D, S>(through, m, i, j, 1, room);
                    write::<false, F, D, S>(through, m, i, j, room, ahead);
                }
            }

            /// # Safety
            /// As for [`one`], for `n` lines of columns, [`SEVERAL`] at most.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            pub unsafe fn several<F: Through, D: Rows, S: Rows>(
                through: &mut F,
                m: &Matrix<D, S>,
                i: usize,
                j: usize,
                n: usize,
                ahead: &mut Ahead<S>,
            ) {
                let mut room = Stage::<{ 64 * LINE * SEVERAL }>::new();
                let room = room.ptr().cast::<Joined>();
                // SAFETY: handed on.
                unsafe {
                    join::<F, D, S>(through, m, i, j, n, room);
                    for b in 0..n {
                        write_apart(through, m, i, j + b * LINE, room.add(b), ahead);
                    }
                }
            }

            /// Writes one of several blocks. Inlined, the places of all columns would be kept from block to block, in memory.
            ///
            /// # Safety
            /// As for [`write`].
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline(never)]
            unsafe fn write_apart<F: Through, D: Rows, S: Rows>(
                through: &mut F,
                m: &Matrix<D, S>,
                i: usize,
                j: usize,
                joined: *const Joined,
                ahead: &mut Ahead<S>,
            ) {
                // What is written may lie anywhere but in a copy.
                let m = *m;
                // SAFETY: handed on.
                unsafe { write::<true, F, D, S>(through, &m, i, j, joined, ahead) }
            }
        }
    };
}

block!(u8, join_bytes);
block!(u16, join_halves);

/// Half a line of rows of bytes, and lines of columns.
pub(super) mod half {
    use super::*;

    /// Room for the joined rows of several lines.
    pub type Room = Stage<{ 64 * 32 * L }>;

    /// Lines of columns that are joined together.
    pub const L: usize = SEVERAL;

    /// The rows of a line, joined by fours: register `g` of part `q` has columns of the `g`th four.
    type Joined = [[__m512i; GROUPS / 2]; 4];

    /// Joins half a line of rows from `i` on, of `N` lines of columns from `j` on.
    ///
    /// # Safety
    /// As for [`Transpose`](crate::backend::cpu::tile::Transpose), for these rows and columns.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub unsafe fn join<const N: usize, D: Rows, S: Rows>(
        room: &mut Room,
        m: &Matrix<D, S>,
        i: usize,
        j: usize,
    ) {
        const { assert!(N <= L) };
        let room = room.ptr().cast::<Joined>();
        for g in 0..GROUPS / 2 {
            // SAFETY: lines of four rows; each part of the room has a register for each four.
            unsafe {
                let from: [_; 4] = m.src_rows.cells(m.src.add(j), i + 4 * g, 1);
                for b in 0..N {
                    let rows = from.map(|from| _mm512_loadu_si512(from.add(64 * b).cast()));
                    for (q, joined) in join_bytes(rows).into_iter().enumerate() {
                        (&raw mut (*room.add(b))[q][g]).write(joined);
                    }
                }
            }
        }
    }

    /// What was column `16 l + k` of line `b` is lane `l` of register `k`, of the first sixteen rows and of the others.
    ///
    /// # Safety
    /// The line was joined.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub unsafe fn groups<D: Rows, S: Rows>(
        room: &mut Room,
        b: usize,
        _: &Matrix<D, S>,
        _: usize,
        _: usize,
    ) -> [[__m512i; 16]; 2] {
        let joined = room.ptr().cast::<Joined>().wrapping_add(b);
        let mut halves = [[_mm512_setzero_si512(); 16]; 2];
        for q in 0..4 {
            for (h, half) in halves.iter_mut().enumerate() {
                // SAFETY: all of the line is written.
                let lines =
                    transpose(unsafe { (&raw const (*joined)[q]).cast::<[__m512i; 4]>().add(h).read() });
                half[4 * q..][..4].copy_from_slice(&lines);
            }
        }
        halves
    }
}
