//! Transposes of fewer rows of cells of one or two bytes than half a line has, with AVX-512. Lanes
//! of a register lie side by side in a row of the source, and become rows of the destination: a
//! lane of each, or half a lane.

use std::arch::x86_64::*;

use super::{Ahead, Matrix, RowStarts, avx2};

#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn lanes(r: __m512i) -> [__m128i; 4] {
    [
        _mm512_castsi512_si128(r),
        _mm512_extracti64x2_epi64::<1>(r),
        _mm512_extracti64x2_epi64::<2>(r),
        _mm512_extracti64x2_epi64::<3>(r),
    ]
}

/// A line of each of `N` rows from `i` on.
///
/// # Safety
/// They are readable at `column`.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn load<const N: usize, S: RowStarts>(column: *const u8, rows: S, i: usize) -> [__m512i; N] {
    let mut r = [_mm512_setzero_si512(); N];
    // SAFETY: the column has `N` rows from `i` on.
    unsafe {
        let from: [_; N] = rows.cells(column, i, 1);
        for k in 0..N {
            r[k] = _mm512_loadu_si512(from[k].cast());
        }
    }
    r
}

/// Defines the transposes of one width; half as many rows as a lane has cells are interleaved as
/// the wider cells of `$half`.
macro_rules! beside {
    ($W:ident, $half:ident, $lo:ident, $hi:ident) => {
        pub(super) mod $W {
            use super::*;

            const CELL: usize = size_of::<$W>();
            const LINE: usize = 64 / CELL;
            const K: usize = 16 / CELL;
            /// Cells of half a lane.
            const HALF: usize = K / 2;

            /// # Safety
            /// As for [`Transpose`](super::super::Transpose).
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            pub unsafe fn transpose<D: RowStarts, S: RowStarts, const STREAM: bool>(m: Matrix<D, S>) {
                if m.rows < HALF || m.columns < LINE {
                    // SAFETY: the matrix has its rows and columns on either side.
                    return unsafe { avx2::$W::transpose::<D, S, STREAM>(m) };
                }
                for_each_block!(m, |top, bottom, left, right, ahead| {
                    ahead.fetch(bottom - top);
                    // The last blocks overlap the ones before them.
                    let j = right - LINE;
                    let mut i = top;
                    while i < bottom {
                        // SAFETY: rows above `bottom`, as many as there are, and LINE columns from
                        // `j` on.
                        unsafe {
                            if bottom - i > HALF && bottom - top >= K {
                                lane(&m, i.min(bottom - K), j);
                                i += K;
                            } else {
                                half(&m, i.min(bottom - HALF), j);
                                i += HALF;
                            }
                        }
                    }
                });
            }

            /// Writes a lane of each column.
            ///
            /// # Safety
            /// As for [`transpose`], for K rows from `i` on and LINE columns from `j` on.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn lane<D: RowStarts, S: RowStarts>(m: &Matrix<D, S>, i: usize, j: usize) {
                // SAFETY: the matrix has `K` rows from `i` on, and a line of columns from `j` on.
                let mut r: [_; K] = unsafe { load(m.src.add(j * CELL), m.src_rows, i) };
                passes!($W r $lo $hi);
                for k in 0..K {
                    // SAFETY: K cells of columns of the block.
                    unsafe {
                        let to: [_; 4] = m.dst_rows.cells(m.dst.add(i * CELL), j + k, K);
                        for (to, lane) in to.into_iter().zip(lanes(r[k])) {
                            _mm_storeu_si128(to.cast_mut().cast(), lane);
                        }
                    }
                }
            }

            /// Writes half a lane of each column: two of them end in one lane.
            ///
            /// # Safety
            /// As for [`lane`], for HALF rows.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn half<D: RowStarts, S: RowStarts>(m: &Matrix<D, S>, i: usize, j: usize) {
                // SAFETY: the matrix has `HALF` rows from `i` on, and a line of columns from `j`
                // on.
                let mut r: [_; HALF] = unsafe { load(m.src.add(j * CELL), m.src_rows, i) };
                pass!($half r $lo $hi);
                pass!($half r $lo $hi);
                if HALF > 4 {
                    pass!($half r $lo $hi);
                }
                for k in 0..HALF {
                    // SAFETY: HALF cells of columns of the block.
                    unsafe {
                        let column = m.dst.add(i * CELL);
                        let even: [_; 4] = m.dst_rows.cells(column, j + 2 * k, K);
                        let odd: [_; 4] = m.dst_rows.cells(column, j + 2 * k + 1, K);
                        for (l, lane) in lanes(r[k]).into_iter().enumerate() {
                            _mm_storel_epi64(even[l].cast_mut().cast(), lane);
                            _mm_storeh_pd(odd[l].cast_mut().cast(), _mm_castsi128_pd(lane));
                        }
                    }
                }
            }
        }
    };
}

beside!(u8, u16, _mm512_unpacklo_epi8, _mm512_unpackhi_epi8);
beside!(u16, u32, _mm512_unpacklo_epi16, _mm512_unpackhi_epi16);
