//! Transposes in vector registers.

use super::{Ahead, Isa, Matrix, Order, RowStarts, Transpose, one_by_one};
use std::arch::x86_64::*;
use std::ops::Range;
use through::Moved;

pub(super) fn transpose<D: RowStarts, S: RowStarts, const STREAM: bool>(
    cell: usize, isa: Isa,
) -> Option<Transpose<D, S>> {
    let [sse2, avx2, avx512]: [Transpose<D, S>; 3] = match cell {
        1 => [
            sse2::u8::transpose::<D, S, STREAM>,
            lines::avx2::u8::<Moved<u8, STREAM>, D, S>,
            lines::avx512::u8::<Moved<u8, STREAM>, D, S>,
        ],
        2 => [
            sse2::u16::transpose::<D, S, STREAM>,
            lines::avx2::u16::<Moved<u16, STREAM>, D, S>,
            lines::avx512::u16::<Moved<u16, STREAM>, D, S>,
        ],
        4 => [
            sse2::u32::transpose::<D, S, STREAM>,
            avx2::u32::transpose::<D, S, STREAM>,
            lines::avx512::u32::<Moved<u32, STREAM>, D, S>,
        ],
        8 => [
            sse2::u64::transpose::<D, S, STREAM>,
            avx2::u64::transpose::<D, S, STREAM>,
            lines::avx512::u64::<Moved<u64, STREAM>, D, S>,
        ],
        _ => return None,
    };
    Some(if isa.has_avx512() {
        avx512
    } else if isa.has_avx2() {
        avx2
    } else {
        sse2
    })
}

/// One pass over the registers, written out: a loop would keep them in memory.
macro_rules! pass {
    (u8 $($rest:ident)*) => { pass!(@ $($rest)* 0 8, 1 9, 2 10, 3 11, 4 12, 5 13, 6 14, 7 15) };
    (u16 $($rest:ident)*) => { pass!(@ $($rest)* 0 4, 1 5, 2 6, 3 7) };
    (u32 $($rest:ident)*) => { pass!(@ $($rest)* 0 2, 1 3) };
    (u64 $($rest:ident)*) => { pass!(@ $($rest)* 0 1) };
    (@ $r:ident $lo:ident $hi:ident $($i:literal $j:literal),*) => {
        $r = [$($lo($r[$i], $r[$j]), $hi($r[$i], $r[$j])),*]
    };
}

/// As many passes as it takes to transpose K x K cells in each lane.
macro_rules! passes {
    ($W:ident $r:ident $lo:ident $hi:ident) => {
        pass!($W $r $lo $hi);
        if K > 2 {
            pass!($W $r $lo $hi);
        }
        if K > 4 {
            pass!($W $r $lo $hi);
        }
        if K > 8 {
            pass!($W $r $lo $hi);
        }
    };
}

/// Runs `$body` for every block of `LINE` rows and columns, the last ones cut. `$ahead` is what is
/// to be fetched: the body asks for as many lines as a block has rows. A macro, for a closure would
/// not be inlined into code for these instructions.
macro_rules! for_each_block {
    ($m:ident, |$top:ident, $bottom:ident, $left:ident, $right:ident, $ahead:ident| $body:block) => {
        let (mut $top, mut $left) = (0, 0);
        let mut $ahead = Ahead::of($m.next);
        loop {
            let ($bottom, $right) = (($top + LINE).min($m.rows), ($left + LINE).min($m.columns));
            $body
            if $m.order.is_along_dst() {
                $top = $bottom;
                if $top == $m.rows {
                    ($top, $left) = (0, $right);
                }
            } else {
                $left = $right;
                if $left == $m.columns {
                    ($top, $left) = ($bottom, 0);
                }
            }
            if $top == $m.rows || $left == $m.columns {
                break;
            }
        }
        $ahead.fetch(usize::MAX);
    };
}

/// Defines the transposes of one width: registers of `$lanes` lanes, filled by `$load` from rows
/// `K` apart; fewer rows than a register takes go to `$narrower`.
macro_rules! network {
    ($W:ident, $feature:literal, $V:ty, $lanes:literal, $zero:ident, $load:ident, $store:ident, $stream:ident,
     $lo:ident, $hi:ident, $narrower:expr) => {
        pub(super) mod $W {
            use super::*;

            const CELL: usize = size_of::<$W>();
            const K: usize = 16 / CELL;
            /// Rows of a register.
            const ROWS: usize = K * $lanes;
            /// Cells in a cache line.
            const LINE: usize = 64 / CELL;
            /// Registers whose rows are written one after the other, up to a whole line, if no more
            /// than eight hold their columns.
            const TOGETHER: usize = if LINE / ROWS * K <= 8 { LINE / ROWS } else if K <= 4 { 2 } else { 1 };

            /// K columns, the first of which is `column`, of the rows from `i` on: as many rows of
            /// each as a register takes.
            ///
            /// # Safety
            /// The matrix has these cells.
            #[target_feature(enable = $feature)]
            #[inline]
            pub unsafe fn columns<S: RowStarts>(column: *const u8, rows: S, i: usize) -> [$V; K] {
                // SAFETY: the matrix has these rows, and in each a register of columns.
                let from: [_; ROWS] = unsafe { rows.cells(column, i, 1) };
                let mut r = [$zero(); K];
                for k in 0..K {
                    let mut lanes = [column; $lanes];
                    for l in 0..$lanes {
                        lanes[l] = from[k + l * K];
                    }
                    // SAFETY: the column has these rows.
                    r[k] = unsafe { $load(lanes) };
                }
                passes!($W r $lo $hi);
                r
            }

            /// Transposes the rows of `N` registers from `i` on, and K columns from `j` on.
            ///
            /// # Safety
            /// As for [`Transpose`], for these cells.
            #[target_feature(enable = $feature)]
            #[inline]
            unsafe fn block<const N: usize, D: RowStarts, S: RowStarts, const STREAM: bool>(
                m: &Matrix<D, S>,
                i: usize,
                j: usize,
            ) {
                // SAFETY: the matrix has these cells. Rows start on a line, and all but the last
                // registers at a multiple of their size.
                unsafe {
                    let mut r = [[$zero(); K]; N];
                    for n in 0..N {
                        r[n] = columns(m.src.add(j * CELL), m.src_rows, i + n * ROWS);
                    }
                    for k in 0..K {
                        let to = m.dst.add(i * CELL).offset(m.dst_rows.at(j + k));
                        for n in 0..N {
                            let to = to.add(n * ROWS * CELL);
                            if STREAM && i % ROWS == 0 {
                                $stream(to.cast(), r[n][k]);
                            } else {
                                $store(to.cast(), r[n][k]);
                            }
                        }
                    }
                }
            }

            /// # Safety
            /// As for [`Transpose`].
            #[target_feature(enable = $feature)]
            #[inline]
            pub unsafe fn transpose<D: RowStarts, S: RowStarts, const STREAM: bool>(m: Matrix<D, S>) {
                if m.rows < ROWS || m.columns < K {
                    // SAFETY: the matrix has its cells on either side; the narrower function needs
                    // fewer instructions.
                    return unsafe { $narrower(m) };
                }
                for_each_block!(m, |top, bottom, left, right, ahead| {
                    ahead.fetch(bottom - top);
                    // The last registers overlap the ones before them where the sides do not
                    // divide: writing the same cells twice beats finishing one by one.
                    let mut j = left.min(m.columns - K);
                    loop {
                        let mut i = top.min(m.rows - ROWS);
                        loop {
                            // SAFETY: rows below `bottom` and columns j..j + K lie inside the
                            // matrix.
                            unsafe {
                                if TOGETHER > 1 && i + TOGETHER * ROWS <= bottom {
                                    block::<TOGETHER, D, S, STREAM>(&m, i, j);
                                    i += TOGETHER * ROWS;
                                } else {
                                    block::<1, D, S, STREAM>(&m, i, j);
                                    i += ROWS;
                                }
                            }
                            if ROWS == LINE || i >= bottom {
                                break;
                            }
                            i = i.min(bottom - ROWS);
                        }
                        if j + K >= right {
                            break;
                        }
                        j = (j + K).min(right - K);
                    }
                });
            }
        }
    };
}

/// Where columns of the matrix start, for blocks of a line of them: those that are not there start
/// where the first cell does.
///
/// # Safety
/// There are these columns, a line at most.
unsafe fn starts<const LINE: usize, D: RowStarts, S>(
    m: &Matrix<D, S>, columns: Range<usize>,
) -> [isize; LINE] {
    let mut starts = [0; LINE];
    for (start, j) in starts.iter_mut().zip(columns) {
        // SAFETY: a column of the matrix.
        *start = unsafe { m.dst_rows.at(j) };
    }
    starts
}

mod beside;
mod carried;
mod direct;
mod few;
mod first_columns;
mod halves;
mod lanes;
mod lines;
mod partial;
mod staged;
mod strips;
mod through;

pub(super) use carried::{carry, carry_converted};
pub(super) use direct::convert;
pub(super) use few::few;
pub(super) use strips::strips;

mod sse2 {
    use super::*;

    /// # Safety
    /// 16 bytes are readable there.
    #[inline(always)]
    unsafe fn load([p]: [*const u8; 1]) -> __m128i {
        // SAFETY: 16 bytes are readable; SSE2 belongs to the architecture.
        unsafe { _mm_loadu_si128(p.cast()) }
    }

    network!(
        u8,
        "sse2",
        __m128i,
        1,
        _mm_setzero_si128,
        load,
        _mm_storeu_si128,
        _mm_stream_si128,
        _mm_unpacklo_epi8,
        _mm_unpackhi_epi8,
        partial::u8::<D, S>
    );
    network!(
        u16,
        "sse2",
        __m128i,
        1,
        _mm_setzero_si128,
        load,
        _mm_storeu_si128,
        _mm_stream_si128,
        _mm_unpacklo_epi16,
        _mm_unpackhi_epi16,
        partial::u16::<D, S>
    );
    network!(
        u32,
        "sse2",
        __m128i,
        1,
        _mm_setzero_si128,
        load,
        _mm_storeu_si128,
        _mm_stream_si128,
        _mm_unpacklo_epi32,
        _mm_unpackhi_epi32,
        one_by_one::<u32, D, S>
    );
    network!(
        u64,
        "sse2",
        __m128i,
        1,
        _mm_setzero_si128,
        load,
        _mm_storeu_si128,
        _mm_stream_si128,
        _mm_unpacklo_epi64,
        _mm_unpackhi_epi64,
        one_by_one::<u64, D, S>
    );
}

mod avx2 {
    use super::*;

    /// # Safety
    /// 16 bytes are readable at each of the addresses.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load(p: [*const u8; 2]) -> __m256i {
        // SAFETY: 16 bytes are readable at both addresses.
        unsafe { _mm256_loadu2_m128i(p[1].cast(), p[0].cast()) }
    }

    network!(
        u8,
        "avx2",
        __m256i,
        2,
        _mm256_setzero_si256,
        load,
        _mm256_storeu_si256,
        _mm256_stream_si256,
        _mm256_unpacklo_epi8,
        _mm256_unpackhi_epi8,
        sse2::u8::transpose::<D, S, STREAM>
    );
    network!(
        u16,
        "avx2",
        __m256i,
        2,
        _mm256_setzero_si256,
        load,
        _mm256_storeu_si256,
        _mm256_stream_si256,
        _mm256_unpacklo_epi16,
        _mm256_unpackhi_epi16,
        sse2::u16::transpose::<D, S, STREAM>
    );
    network!(
        u32,
        "avx2",
        __m256i,
        2,
        _mm256_setzero_si256,
        load,
        _mm256_storeu_si256,
        _mm256_stream_si256,
        _mm256_unpacklo_epi32,
        _mm256_unpackhi_epi32,
        sse2::u32::transpose::<D, S, STREAM>
    );
    network!(
        u64,
        "avx2",
        __m256i,
        2,
        _mm256_setzero_si256,
        load,
        _mm256_storeu_si256,
        _mm256_stream_si256,
        _mm256_unpacklo_epi64,
        _mm256_unpackhi_epi64,
        sse2::u64::transpose::<D, S, STREAM>
    );
}

mod avx512 {
    use super::*;

    /// # Safety
    /// 16 bytes are readable at each of the addresses.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub(super) unsafe fn load(p: [*const u8; 4]) -> __m512i {
        // SAFETY: 16 bytes are readable at all four addresses.
        unsafe {
            let low = _mm256_loadu2_m128i(p[1].cast(), p[0].cast());
            let high = _mm256_loadu2_m128i(p[3].cast(), p[2].cast());
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        }
    }

    network!(
        u8,
        "avx512f,avx512bw,avx512dq,avx512vl",
        __m512i,
        4,
        _mm512_setzero_si512,
        load,
        _mm512_storeu_si512,
        _mm512_stream_si512,
        _mm512_unpacklo_epi8,
        _mm512_unpackhi_epi8,
        beside::u8::transpose::<D, S, STREAM>
    );
    network!(
        u16,
        "avx512f,avx512bw,avx512dq,avx512vl",
        __m512i,
        4,
        _mm512_setzero_si512,
        load,
        _mm512_storeu_si512,
        _mm512_stream_si512,
        _mm512_unpacklo_epi16,
        _mm512_unpackhi_epi16,
        beside::u16::transpose::<D, S, STREAM>
    );
    network!(
        u32,
        "avx512f,avx512bw,avx512dq,avx512vl",
        __m512i,
        4,
        _mm512_setzero_si512,
        load,
        _mm512_storeu_si512,
        _mm512_stream_si512,
        _mm512_unpacklo_epi32,
        _mm512_unpackhi_epi32,
        avx2::u32::transpose::<D, S, STREAM>
    );
    network!(
        u64,
        "avx512f,avx512bw,avx512dq,avx512vl",
        __m512i,
        4,
        _mm512_setzero_si512,
        load,
        _mm512_storeu_si512,
        _mm512_stream_si512,
        _mm512_unpacklo_epi64,
        _mm512_unpackhi_epi64,
        avx2::u64::transpose::<D, S, STREAM>
    );
}
