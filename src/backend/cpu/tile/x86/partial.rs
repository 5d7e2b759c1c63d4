//! Transposes of fewer rows or columns of cells of one or two bytes than a lane of 16 bytes has, by
//! halves of lanes.

use super::{Matrix, RowStarts, one_by_one};
use std::arch::x86_64::*;

/// Defines the transpose of one width, in `$count` registers: each has two rows, one in either
/// half, and as many passes as it takes leave two columns in each.
macro_rules! partial {
    ($W:ident, $count:literal, $shape:ident, $passes:literal, $lo:ident, $hi:ident) => {
        /// # Safety
        /// As for [`Transpose`](super::Transpose).
        pub(super) unsafe fn $W<D: RowStarts, S: RowStarts>(m: Matrix<D, S>) {
            const CELL: usize = size_of::<$W>();
            const SIDE: usize = 8 / CELL;
            if m.rows < SIDE || m.columns < SIDE {
                // SAFETY: the matrix has its rows and columns on either side.
                return unsafe { one_by_one::<$W, D, S>(m) };
            }
            // The last blocks overlap the ones before them.
            for j in (0..m.columns).step_by(SIDE).map(|j| j.min(m.columns - SIDE)) {
                for i in (0..m.rows).step_by(SIDE).map(|i| i.min(m.rows - SIDE)) {
                    // SAFETY: SIDE rows from i on and SIDE columns from j on lie inside the matrix;
                    // SSE2 belongs to the architecture.
                    unsafe {
                        let from: [_; SIDE] = m.src_rows.cells(m.src.add(j * CELL), i, 1);
                        let mut r = [_mm_setzero_si128(); $count];
                        for (r, pair) in r.iter_mut().zip(from.chunks_exact(2)) {
                            let low = _mm_castsi128_pd(_mm_loadl_epi64(pair[0].cast()));
                            *r = _mm_castpd_si128(_mm_loadh_pd(low, pair[1].cast()));
                        }
                        for _ in 0..$passes {
                            pass!($shape r $lo $hi);
                        }
                        let to: [_; SIDE] = m.dst_rows.cells(m.dst.add(i * CELL), j, 1);
                        for (r, pair) in r.into_iter().zip(to.chunks_exact(2)) {
                            _mm_storel_epi64(pair[0].cast_mut().cast(), r);
                            _mm_storeh_pd(pair[1].cast_mut().cast(), _mm_castsi128_pd(r));
                        }
                    }
                }
            }
        }
    };
}

partial!(u8, 4, u32, 3, _mm_unpacklo_epi8, _mm_unpackhi_epi8);
partial!(u16, 2, u64, 2, _mm_unpacklo_epi16, _mm_unpackhi_epi16);
