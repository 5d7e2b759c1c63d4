//! Transposes of cells of 4 and 8 bytes, with AVX-512, that write a few rows of the destination to
//! their end before others: where more rows share cache sets, a line leaves the cache before its
//! next cells are written.

use super::super::STRIP;
use super::{Isa, Matrix, RowStarts, Transpose, avx512};
use std::arch::x86_64::*;

/// The transpose of cells of `cell` bytes: a line of rows and a strip of columns at least.
pub(in super::super) fn strips<D: RowStarts, S: RowStarts>(cell: usize, isa: Isa) -> Option<Transpose<D, S>> {
    Some(match cell {
        _ if !isa.has_avx512() => return None,
        4 => u32::<D, S>,
        8 => u64::<D, S>,
        _ => return None,
    })
}

macro_rules! strips {
    ($W:ident, $K:literal) => {
        /// # Safety
        /// As for [`Transpose`], for a line of rows and a strip of columns at least.
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        unsafe fn $W<D: RowStarts, S: RowStarts>(m: Matrix<D, S>) {
            const CELL: usize = size_of::<$W>();
            const LINE: usize = 64 / CELL;
            let mut j = 0;
            loop {
                // SAFETY: STRIP columns from j on, and a line of rows from i on.
                unsafe {
                    let dst: [*const u8; STRIP] = m.dst_rows.cells(m.dst, j, 1);
                    let mut i = 0;
                    loop {
                        for g in (0..STRIP).step_by($K) {
                            let r = avx512::$W::columns(m.src.add((j + g) * CELL), m.src_rows, i);
                            for k in 0..$K {
                                _mm512_storeu_si512(dst[g + k].cast_mut().add(i * CELL).cast(), r[k]);
                            }
                        }
                        if i + LINE >= m.rows {
                            break;
                        }
                        // The last block overlaps the one before it.
                        i = (i + LINE).min(m.rows - LINE);
                    }
                }
                if j + STRIP >= m.columns {
                    break;
                }
                j = (j + STRIP).min(m.columns - STRIP);
            }
        }
    };
}

strips!(u32, 4);
strips!(u64, 2);
