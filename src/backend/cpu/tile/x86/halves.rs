//! Transposes of whole lines of the source and half lines of the destination, with AVX-512, for
//! matrices of fewer rows than a line has cells. Where the half lines of the destination follow one
//! another, two make a whole one.

use std::arch::x86_64::*;

use super::through::Moved;
use super::{Ahead, Matrix, RowStarts, avx512, first_columns, lanes};

/// So few columns conflict little: their lines are put together of 16 bytes of each row.
const MOST_BY_LANES: usize = 16;

/// Lanes of two registers interleaved: the first two of each, and the last two.
#[target_feature(enable = "avx512f")]
#[inline]
fn exchange(a: __m512i, b: __m512i) -> [__m512i; 2] {
    [
        _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), b),
        _mm512_permutex2var_epi64(a, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), b),
    ]
}

/// Defines the transposes of one width.
macro_rules! half_lines {
    ($W:ident, $lo:ident, $hi:ident $(, $cut:ident::$width:ident)?) => {
        pub(super) mod $W {
            use super::*;

            const CELL: usize = size_of::<$W>();
            const K: usize = 16 / CELL;
            const LINE: usize = 64 / CELL;
            const ROWS: usize = LINE / 2;

            /// # Safety
            /// As for [`Transpose`](super::super::Transpose).
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            pub unsafe fn transpose<D: RowStarts, S: RowStarts, const STREAM: bool>(m: Matrix<D, S>) {
                // SAFETY: the matrix has its rows and columns on either side.
                unsafe {
                    $(if m.rows >= LINE
                        && (MOST_BY_LANES + 1..LINE).contains(&m.columns)
                        && let Some(lines) = m.order.lines_in_conflict()
                    {
                        return $cut::$width::<Moved<$W, STREAM>, D, S>(m, lines);
                    })?
                    if m.rows < ROWS || m.rows >= LINE || m.columns < LINE {
                        avx512::$W::transpose::<D, S, STREAM>(m)
                    } else if m.rows == ROWS && m.dst_rows.distance() == Some(32) {
                        in_pairs::<D, S, STREAM>(m)
                    } else {
                        apart(m)
                    }
                }
            }

            /// Lines of K rows from `i` on and of columns from `j` on: in each lane, K x K cells
            /// are transposed.
            ///
            /// # Safety
            /// The matrix has these rows and columns.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn group<D: RowStarts, S: RowStarts>(m: &Matrix<D, S>, i: usize, j: usize) -> [__m512i; K] {
                let mut r = [_mm512_setzero_si512(); K];
                // SAFETY: LINE cells of these rows.
                unsafe {
                    let from: [_; K] = m.src_rows.cells(m.src.add(j * CELL), i, 1);
                    for k in 0..K {
                        r[k] = _mm512_loadu_si512(from[k].cast());
                    }
                }
                passes!($W r $lo $hi);
                r
            }

            /// # Safety
            /// As for [`transpose`], for at least ROWS rows and LINE columns.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn apart<D: RowStarts, S: RowStarts>(m: Matrix<D, S>) {
                for_each_block!(m, |top, bottom, left, right, ahead| {
                    ahead.fetch(bottom - top);
                    // The last blocks overlap the ones before them.
                    let j = right - LINE;
                    let mut i = top;
                    loop {
                        // SAFETY: ROWS rows below `bottom` and LINE columns below `right`.
                        let [a, b] = unsafe { [group(&m, i, j), group(&m, i + K, j)] };
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
            /// As for [`transpose`], for ROWS rows and at least LINE columns, which follow one
            /// another in the destination.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn in_pairs<D: RowStarts, S: RowStarts, const STREAM: bool>(m: Matrix<D, S>) {
                for_each_block!(m, |_top, _bottom, left, right, ahead| {
                    // The last block overlaps the one before it.
                    let j = right - LINE;
                    let dst = m.dst.wrapping_add(j * 32);
                    // SAFETY: all rows, and LINE columns below `right`.
                    let [a, b] = unsafe { [group(&m, 0, j), group(&m, K, j)] };
                    let starts_line = dst.addr().is_multiple_of(64);
                    for k in (0..K).step_by(2) {
                        ahead.fetch(2 * ROWS / K);
                        let pairs = lanes::avx512::lines([a[k], b[k], a[k + 1], b[k + 1]]);
                        for (l, [pair]) in pairs.into_iter().enumerate() {
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
                });
            }
        }
    };
}

half_lines!(u8, _mm512_unpacklo_epi8, _mm512_unpackhi_epi8, first_columns::u8);
half_lines!(u16, _mm512_unpacklo_epi16, _mm512_unpackhi_epi16, first_columns::u16);
half_lines!(u32, _mm512_unpacklo_epi32, _mm512_unpackhi_epi32);
half_lines!(u64, _mm512_unpacklo_epi64, _mm512_unpackhi_epi64);
