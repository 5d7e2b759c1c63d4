//! Transposes of whole cache lines of either operand: each line is read once and written once,
//! whatever else shares its cache set. Cells may be converted on the way (`direct.rs`). Blocks of
//! cells of one and two bytes are in `staged.rs`. With AVX2 blocks of cells of four bytes take more
//! registers than there are, and serve conversions only.

use std::arch::x86_64::*;

use super::through::{Direct, Place, Through};
use super::{Ahead, Matrix, Order, RowStarts, lanes, staged};

/// Defines one transpose of whole lines, block by block by `$block`, or in groups by `$in_groups`.
macro_rules! lines {
    ($W:ident, $feature:literal, $V:ty, $block:path $(, $in_groups:path)?) => {
        /// # Safety
        /// As for [`Transpose`](crate::backend::cpu::tile::Transpose).
        #[target_feature(enable = $feature)]
        pub unsafe fn $W<F: Direct<$V>, D: RowStarts, S: RowStarts>(m: Matrix<D, S>) {
            const CELL: usize = size_of::<$W>();
            /// Cells in a cache line.
            const LINE: usize = 64 / CELL;
            if m.rows < LINE || m.columns < LINE {
                // SAFETY: the matrix has its rows and columns on either side.
                return unsafe { F::narrow(m) };
            }
            // Half a line of rows or columns too many, or less, is better done apart than by last
            // blocks that overlap the ones before them.
            let whole = |n: usize| if n % LINE * 2 <= LINE { n - n % LINE } else { n };
            let (rows, columns) = (whole(m.rows), whole(m.columns));
            let part = |rows, columns| {
                // SAFETY: only called with rows and columns of the matrix.
                unsafe { m.part(rows, columns, [F::DST, F::SRC]) }
            };
            if rows < m.rows {
                // SAFETY: the part is one of the matrix.
                unsafe { F::narrow(part(rows..m.rows, 0..m.columns)) };
            }
            if columns < m.columns {
                // SAFETY: the part is one of the matrix.
                unsafe { F::narrow(part(0..rows, columns..m.columns)) };
            }
            let m = Matrix { next: m.next, ..part(0..rows, 0..columns) };
            let mut through = F::NEW;
            $(if let Order::InGroups(lines) = m.order {
                // SAFETY: whole lines of the matrix.
                return unsafe { $in_groups(&mut through, &m, lines) };
            })?
            for_each_block!(m, |top, bottom, left, right, ahead| {
                // SAFETY: the last blocks overlap the ones before them.
                unsafe { $block(&mut through, &m, bottom - LINE, right - LINE, &mut ahead) }
            });
        }
    };
}

/// Defines the transpose of one block: as many groups of K rows as make a line are made K x K cells
/// per lane, and the lanes of all are exchanged.
macro_rules! block {
    ($W:ident, $feature:literal, $V:ty, $lanes:path, $zero:ident, $lo:ident, $hi:ident) => {
        /// # Safety
        /// As for [`Transpose`](crate::backend::cpu::tile::Transpose), for LINE rows from `i` on
        /// and LINE columns from `j` on.
        #[target_feature(enable = $feature)]
        #[inline]
        pub unsafe fn $W<F: Through<$V>, D: RowStarts, S: RowStarts>(
            through: &mut F,
            m: &Matrix<D, S>,
            i: usize,
            j: usize,
            ahead: &mut Ahead<S>,
        ) {
            const CELL: usize = size_of::<$W>();
            const K: usize = 16 / CELL;
            const LINE: usize = 64 / CELL;
            /// Cells of a register, and its lanes.
            const CELLS: usize = size_of::<$V>() / CELL;
            const LANES: usize = size_of::<$V>() / 16;
            for left in (j..j + LINE).step_by(CELLS) {
                let mut groups = [[$zero(); K]; 4];
                for g in 0..4 {
                    let mut r = [$zero(); K];
                    // SAFETY: cells of the rows of the block.
                    unsafe {
                        let from: [_; K] = m.src_rows.cells(m.src.add(left * F::SRC), i + g * K, 1);
                        for k in 0..K {
                            r[k] = through.get(from[k], m.scaling);
                        }
                    }
                    passes!($W r $lo $hi);
                    groups[g] = r;
                }
                for k in 0..K {
                    ahead.fetch(LANES);
                    let lines = $lanes([groups[0][k], groups[1][k], groups[2][k], groups[3][k]]);
                    // SAFETY: LINE cells of columns of the block. They start on a line if they are
                    // streamed.
                    unsafe {
                        let to: [_; LANES] = m.dst_rows.cells(m.dst.add(i * F::DST), left + k, K);
                        for l in 0..LANES {
                            for n in 0..LINE / CELLS {
                                let place = Place {
                                    to: to[l].cast_mut().add(n * CELLS * F::DST),
                                    column: left + k + l * K,
                                    row: i + n * CELLS,
                                    starts_line: i % LINE == 0,
                                };
                                through.put(lines[l][n], place, m.scaling);
                            }
                        }
                    }
                }
            }
        }
    };
}

/// Registers of AVX2, two of which make a line.
pub(super) mod avx2 {
    use super::*;

    mod block {
        use super::*;

        block!(
            u32,
            "avx2,f16c",
            __m256i,
            lanes::avx2::lines,
            _mm256_setzero_si256,
            _mm256_unpacklo_epi32,
            _mm256_unpackhi_epi32
        );
    }

    lines!(u8, "avx2,f16c", __m256i, staged::avx2::u8::block, staged::avx2::u8::in_groups);
    lines!(u16, "avx2,f16c", __m256i, staged::avx2::u16::block, staged::avx2::u16::in_groups);
    lines!(u32, "avx2,f16c", __m256i, block::u32);
}

/// Registers of AVX-512, each a line.
pub(super) mod avx512 {
    use super::*;

    pub mod block {
        use super::*;

        block!(
            u32,
            "avx512f,avx512bw,avx512dq,avx512vl",
            __m512i,
            lanes::avx512::lines,
            _mm512_setzero_si512,
            _mm512_unpacklo_epi32,
            _mm512_unpackhi_epi32
        );
        block!(
            u64,
            "avx512f,avx512bw,avx512dq,avx512vl",
            __m512i,
            lanes::avx512::lines,
            _mm512_setzero_si512,
            _mm512_unpacklo_epi64,
            _mm512_unpackhi_epi64
        );
    }

    lines!(
        u8,
        "avx512f,avx512bw,avx512dq,avx512vl",
        __m512i,
        staged::avx512::u8::block,
        staged::avx512::u8::in_groups
    );
    lines!(
        u16,
        "avx512f,avx512bw,avx512dq,avx512vl",
        __m512i,
        staged::avx512::u16::block,
        staged::avx512::u16::in_groups
    );
    lines!(u32, "avx512f,avx512bw,avx512dq,avx512vl", __m512i, block::u32);
    lines!(u64, "avx512f,avx512bw,avx512dq,avx512vl", __m512i, block::u64);
}
