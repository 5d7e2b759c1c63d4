//! Transposes of whole cache lines of either operand, with AVX-512: each is read once and written once, whatever else
//! shares their cache sets. Cells may be converted on the way (`through.rs`). Blocks of cells of one and two bytes are in
//! `staged.rs`.

use std::arch::x86_64::*;

use super::through::{Direct, Place, Through};
use super::{Ahead, Matrix, Order, Rows, staged};

/// Lane `g` of the results is from register `g`: lane `l` of each for result `l`.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn exchange([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    let (ab_even, ab_odd) = (_mm512_shuffle_i32x4::<EVEN>(a, b), _mm512_shuffle_i32x4::<ODD>(a, b));
    let (cd_even, cd_odd) = (_mm512_shuffle_i32x4::<EVEN>(c, d), _mm512_shuffle_i32x4::<ODD>(c, d));
    [
        _mm512_shuffle_i32x4::<EVEN>(ab_even, cd_even),
        _mm512_shuffle_i32x4::<EVEN>(ab_odd, cd_odd),
        _mm512_shuffle_i32x4::<ODD>(ab_even, cd_even),
        _mm512_shuffle_i32x4::<ODD>(ab_odd, cd_odd),
    ]
}

/// Defines one transpose of whole lines, block by block by `$block`, or in groups by `$in_groups`.
macro_rules! lines {
    ($W:ident, $block:path $(, $in_groups:path)?) => {
        /// # Safety
        /// As for [`Transpose`](super::Transpose).
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        pub(super) unsafe fn $W<F: Direct, D: Rows, S: Rows>(m: Matrix<D, S>) {
            const CELL: usize = size_of::<$W>();
            /// Cells in a cache line.
            const LINE: usize = 64 / CELL;
            if m.rows < LINE || m.columns < LINE {
                // SAFETY: handed on.
                return unsafe { F::narrow(m) };
            }
            // Half a line of rows or columns too many, or less, is better done apart than by last blocks that overlap the ones
            // before them.
            let whole = |n: usize| if n % LINE * 2 <= LINE { n - n % LINE } else { n };
            let (rows, columns) = (whole(m.rows), whole(m.columns));
            let part = |rows, columns| {
                // SAFETY: only called with rows and columns of the matrix.
                unsafe { m.part(rows, columns, [F::DST, F::SRC]) }
            };
            if rows < m.rows {
                // SAFETY: handed on, as below.
                unsafe { F::narrow(part(rows..m.rows, 0..m.columns)) };
            }
            if columns < m.columns {
                // SAFETY: as above.
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

/// Blocks of as many groups of `K` lines as a register has lanes: each group is made K x K cells per lane, and the lanes
/// of all are exchanged.
pub(super) mod block {
    use super::*;

    macro_rules! block {
        ($W:ident, $lo:ident, $hi:ident) => {
            /// # Safety
            /// As for [`Transpose`], for LINE rows from `i` on and LINE columns from `j` on.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            pub(in super::super) unsafe fn $W<F: Through, D: Rows, S: Rows>(
                through: &mut F,
                m: &Matrix<D, S>,
                i: usize,
                j: usize,
                ahead: &mut Ahead<S>,
            ) {
                const CELL: usize = size_of::<$W>();
                const K: usize = 16 / CELL;
                const LINE: usize = 64 / CELL;
                let mut groups = [[_mm512_setzero_si512(); K]; 4];
                for g in 0..4 {
                    let mut r = [_mm512_setzero_si512(); K];
                    // SAFETY: LINE cells of the rows of the block.
                    unsafe {
                        let from: [_; K] = m.src_rows.cells(m.src.add(j * F::SRC), i + g * K, 1);
                        for k in 0..K {
                            r[k] = through.get(from[k], m.scaling);
                        }
                    }
                    passes!($W r $lo $hi);
                    groups[g] = r;
                }
                for k in 0..K {
                    ahead.fetch(4);
                    let r = exchange([groups[0][k], groups[1][k], groups[2][k], groups[3][k]]);
                    // SAFETY: LINE cells of columns of the block. They start on a line if they are streamed.
                    unsafe {
                        let to: [_; 4] = m.dst_rows.cells(m.dst.add(i * F::DST), j + k, K);
                        for l in 0..4 {
                            let (to, column) = (to[l].cast_mut(), j + k + l * K);
                            let place = Place { to, column, row: i, starts_line: i % LINE == 0 };
                            through.put(r[l], place, m.scaling);
                        }
                    }
                }
            }
        };
    }

    block!(u32, _mm512_unpacklo_epi32, _mm512_unpackhi_epi32);
    block!(u64, _mm512_unpacklo_epi64, _mm512_unpackhi_epi64);
}

lines!(u8, staged::u8::block, staged::u8::in_groups);
lines!(u16, staged::u16::block, staged::u16::in_groups);
lines!(u32, block::u32);
lines!(u64, block::u64);
