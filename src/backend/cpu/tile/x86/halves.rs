//! Transposes of whole lines of the source and half lines of the destination, with AVX-512, for matrices of fewer rows
//! than a line has cells. Where the half lines of the destination follow one another, two make a whole one.

use std::arch::x86_64::*;

use super::{Ahead, Matrix, Order, Rows, avx512, joined, lines};
use crate::backend::cpu::stage::Stage;

/// Lanes of two registers by turns: the first two of each, and the last two.
#[target_feature(enable = "avx512f")]
#[inline]
fn exchange(a: __m512i, b: __m512i) -> [__m512i; 2] {
    [
        _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), b),
        _mm512_permutex2var_epi64(a, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), b),
    ]
}

/// Two groups of `K` lines of rows: in each lane, K x K cells are transposed. They need no room.
mod groups {
    macro_rules! groups {
        ($W:ident, $lo:ident, $hi:ident) => {
            pub mod $W {
                use super::super::*;

                pub type Room = Stage<0>;

                /// Lines of columns that are joined together.
                pub const L: usize = 1;

                /// There is nothing to join.
                ///
                /// # Safety
                /// Nothing is asked.
                #[inline]
                pub unsafe fn join<const N: usize, D: Rows, S: Rows>(_: &mut Room, _: &Matrix<D, S>, _: usize, _: usize) {}

                /// The groups of the rows from `i` on and of the columns from `j` on.
                ///
                /// # Safety
                /// The matrix has two groups of rows and a line of columns there.
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                #[inline]
                pub unsafe fn groups<D: Rows, S: Rows>(
                    _: &mut Room,
                    _: usize,
                    m: &Matrix<D, S>,
                    i: usize,
                    j: usize,
                ) -> [[__m512i; 16 / size_of::<$W>()]; 2] {
                    const CELL: usize = size_of::<$W>();
                    const K: usize = 16 / CELL;
                    let mut groups = [[_mm512_setzero_si512(); K]; 2];
                    for g in 0..2 {
                        let mut r = [_mm512_setzero_si512(); K];
                        // SAFETY: LINE cells of these rows.
                        unsafe {
                            let from: [_; K] = m.src_rows.cells(m.src.add(j * CELL), i + g * K, 1);
                            for k in 0..K {
                                r[k] = _mm512_loadu_si512(from[k].cast());
                            }
                        }
                        passes!($W r $lo $hi);
                        groups[g] = r;
                    }
                    groups
                }
            }
        };
    }

    groups!(u16, _mm512_unpacklo_epi16, _mm512_unpackhi_epi16);
    groups!(u32, _mm512_unpacklo_epi32, _mm512_unpackhi_epi32);
    groups!(u64, _mm512_unpacklo_epi64, _mm512_unpackhi_epi64);
}

/// Defines the transposes of one cell, whose groups are made by `$groups`.
macro_rules! half_lines {
    ($W:ident, $($groups:ident)::*) => {
        pub(super) mod $W {
            use super::$($groups)::*::{L, Room, groups, join};
            use super::*;

            const CELL: usize = size_of::<$W>();
            const K: usize = 16 / CELL;
            const LINE: usize = 64 / CELL;
            const ROWS: usize = LINE / 2;

            /// # Safety
            /// As for [`Transpose`](super::super::Transpose).
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            pub unsafe fn transpose<D: Rows, S: Rows, const STREAM: bool>(m: Matrix<D, S>) {
                // SAFETY: handed on.
                unsafe {
                    if m.rows < ROWS || m.rows >= LINE || m.columns < LINE {
                        avx512::$W::<D, S, STREAM>(m)
                    } else if m.rows == ROWS && m.dst_rows.distance() == Some(32) {
                        in_pairs::<D, S, STREAM>(m)
                    } else {
                        apart(m)
                    }
                }
            }

            /// # Safety
            /// As for [`transpose`], for at least ROWS rows and LINE columns.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn apart<D: Rows, S: Rows>(m: Matrix<D, S>) {
                for_each_block!(m, LINE, |top, bottom, left, right, ahead| {
                    ahead.fetch(bottom - top);
                    // The last blocks overlap the ones before them.
                    let j = right - LINE;
                    let mut i = top;
                    loop {
                        let mut room = Room::new();
                        // SAFETY: ROWS rows below `bottom` and LINE columns below `right`.
                        let [a, b] = unsafe {
                            join::<1, D, S>(&mut room, &m, i, j);
                            groups(&mut room, 0, &m, i, j)
                        };
                        for k in 0..K {
                            let pairs = exchange(a[k], b[k]);
                            // SAFETY: ROWS cells from row i on of columns below j + LINE.
                            unsafe {
                                let to: [_; 4] = m.dst_rows.cells(m.dst.add(i * CELL), j + k, K);
                                for (to, pair) in to.chunks_exact(2).zip(pairs) {
                                    let [low, high] = [to[0], to[1]].map(|to| to.cast_mut().cast());
                                    _mm256_storeu_si256(low, _mm512_castsi512_si256(pair));
                                    _mm256_storeu_si256(high, _mm512_extracti64x4_epi64::<1>(pair));
                                }
                            }
                        }
                        if i + ROWS >= bottom {
                            break;
                        }
                        i = bottom - ROWS;
                    }
                });
            }

            /// # Safety
            /// As for [`transpose`], for ROWS rows and at least LINE columns, which follow one another in the destination.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn in_pairs<D: Rows, S: Rows, const STREAM: bool>(m: Matrix<D, S>) {
                let width = if L > 1 && m.order == Order::LinesOfSrc { L * LINE } else { LINE };
                for_each_block!(m, width, |top, _bottom, left, right, ahead| {
                    let mut room = Room::new();
                    let together = L > 1 && right - left == L * LINE;
                    if together {
                        // SAFETY: the rows, and lines of columns below `right`.
                        unsafe { join::<L, D, S>(&mut room, &m, 0, left) };
                    }
                    let mut block = 0;
                    loop {
                        // The last block overlaps the one before it.
                        let j = (left + block * LINE).min(right - LINE);
                        let dst = m.dst.wrapping_add(j * 32);
                        // SAFETY: as above.
                        let [a, b] = unsafe {
                            if !together {
                                join::<1, D, S>(&mut room, &m, 0, j);
                            }
                            groups(&mut room, if together { block } else { 0 }, &m, 0, j)
                        };
                        let starts_line = dst.addr().is_multiple_of(64);
                        for k in (0..K).step_by(2) {
                            ahead.fetch(2 * ROWS / K);
                            let pairs = lines::exchange([a[k], b[k], a[k + 1], b[k + 1]]);
                            for (l, pair) in pairs.into_iter().enumerate() {
                                // SAFETY: two columns of the block, one after the other.
                                unsafe {
                                    let to = dst.add((l * K + k) * 32).cast();
                                    if STREAM && starts_line {
                                        _mm512_stream_si512(to, pair);
                                    } else {
                                        _mm512_storeu_si512(to.cast(), pair);
                                    }
                                }
                            }
                        }
                        block += 1;
                        if L == 1 || j + LINE == right {
                            break;
                        }
                    }
                });
            }
        }
    };
}

half_lines!(u8, joined::half);
half_lines!(u16, groups::u16);
half_lines!(u32, groups::u32);
half_lines!(u64, groups::u64);
