//! Transposes of small matrices of cells, in vector registers where the processor has them.
//!
//! One scheme serves every width and register size. In a 16-byte lane, interleaving register `i` with register
//! `i + K/2` (low halves to `2i`, high halves to `2i + 1`), repeated log2(K) times, transposes K x K cells, where K
//! is 16 over the cell size. A wider register holds two or four such matrices that lie below each other in the
//! source, so that it ends as one longer piece of a destination row: 64 bytes, a cache line, with AVX-512.
//!
//! Rows lie wherever their offsets say, so that one kernel serves a plain matrix and a permutation of many
//! dimensions, whose rows run through several loops.

use super::Isa;
use super::shape::with_cell;

/// Where the rows of a matrix start, in bytes from its first cell.
pub(super) trait Rows: Copy {
    /// # Safety
    /// There is a row `i`.
    unsafe fn at(self, i: usize) -> isize;

    /// The address in `column` of `L` rows from `i` on, each `step` further down than the last.
    ///
    /// # Safety
    /// There are these rows, and `column` has a cell in each.
    unsafe fn cells<const L: usize>(self, column: *const u8, i: usize, step: usize) -> [*const u8; L];
}

/// Rows at one distance: those of a plain matrix or of a buffer.
#[derive(Clone, Copy)]
pub(super) struct Even(pub isize);

impl Rows for Even {
    #[inline(always)]
    unsafe fn at(self, i: usize) -> isize {
        i as isize * self.0
    }

    #[inline(always)]
    unsafe fn cells<const L: usize>(self, column: *const u8, i: usize, step: usize) -> [*const u8; L] {
        // One product per call and one per loop, not one per row.
        let (first, step) = (column.wrapping_offset(i as isize * self.0), step as isize * self.0);
        std::array::from_fn(|lane| first.wrapping_offset(lane as isize * step))
    }
}

impl Rows for &[isize] {
    #[inline(always)]
    unsafe fn at(self, i: usize) -> isize {
        // SAFETY: the caller's promise; the tables are as long as there are rows.
        unsafe { *self.get_unchecked(i) }
    }

    #[inline(always)]
    unsafe fn cells<const L: usize>(self, column: *const u8, i: usize, step: usize) -> [*const u8; L] {
        // SAFETY: the caller's promise.
        std::array::from_fn(|lane| unsafe { column.offset(self.at(i + lane * step)) })
    }
}

/// Cells to transpose: row `i` of the source is column `i` of the destination.
#[derive(Clone, Copy)]
pub(super) struct Matrix<D, S> {
    pub dst: *mut u8,
    pub src: *const u8,
    /// Rows of the source.
    pub rows: usize,
    /// Columns of the source, which are the rows of the destination.
    pub columns: usize,
    /// Where the rows of the destination start.
    pub dst_rows: D,
    /// Where the rows of the source start.
    pub src_rows: S,
    /// The source of the matrix that comes after this one and is to be fetched meanwhile. Its rows are too short for
    /// the processor to see that they are streams.
    pub next: Option<*const u8>,
    /// In which order the blocks are visited.
    pub order: Order,
}

/// Which operand's rows are followed to their end first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// A line of each source row at a time: where rows of both operands are so far apart that they share cache sets.
    AlongDst,
    /// Everywhere else: the source is read in longer pieces.
    AlongSrc,
}

/// `dst[dst_rows[j] + i * cell] = src[src_rows[i] + j * cell]` for all rows `i` and columns `j`.
///
/// # Safety
/// All these cells are readable and writable and the two sets do not overlap. The processor has the
/// instructions of the [`Isa`] that the function was chosen for.
pub(super) type Transpose<D, S> = unsafe fn(matrix: Matrix<D, S>);

/// The transpose of cells of `cell` bytes.
pub(super) fn transpose<D: Rows, S: Rows>(cell: usize, isa: Isa) -> Transpose<D, S> {
    #[cfg(target_arch = "x86_64")]
    if let Some(function) = x86::transpose(cell, isa) {
        return function;
    }
    let _ = isa;
    with_cell!(cell, W => one_by_one::<W, D, S>)
}

/// Cell by cell, along the destination.
///
/// # Safety
/// As for [`Transpose`].
unsafe fn one_by_one<W: Copy, D: Rows, S: Rows>(m: Matrix<D, S>) {
    let cell = size_of::<W>();
    for j in 0..m.columns {
        for i in 0..m.rows {
            // SAFETY: a cell of the matrix; merged cells are aligned to their parts only.
            unsafe {
                let value = m.src.offset(m.src_rows.at(i)).add(j * cell).cast::<W>().read_unaligned();
                m.dst.offset(m.dst_rows.at(j)).add(i * cell).cast::<W>().write_unaligned(value);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Isa, Matrix, Order, Rows, Transpose, one_by_one};
    use std::arch::x86_64::*;

    pub(super) fn transpose<D: Rows, S: Rows>(cell: usize, isa: Isa) -> Option<Transpose<D, S>> {
        let [sse2, avx2, avx512]: [Transpose<D, S>; 3] = match cell {
            1 => [sse2::u8::<D, S>, avx2::u8::<D, S>, avx512::u8::<D, S>],
            2 => [sse2::u16::<D, S>, avx2::u16::<D, S>, avx512::u16::<D, S>],
            4 => [sse2::u32::<D, S>, avx2::u32::<D, S>, avx512::u32::<D, S>],
            8 => [sse2::u64::<D, S>, avx2::u64::<D, S>, avx512::u64::<D, S>],
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

    /// Defines one transpose: registers of `$lanes` lanes, filled by `$load` from rows `K` apart; fewer rows than
    /// a register takes go to `$narrower`.
    macro_rules! network {
        ($W:ident, $feature:literal, $lanes:literal, $zero:ident, $load:ident, $store:ident, $lo:ident, $hi:ident,
         $narrower:expr) => {
            /// # Safety
            /// As for [`Transpose`].
            #[target_feature(enable = $feature)]
            pub(super) unsafe fn $W<D: Rows, S: Rows>(m: Matrix<D, S>) {
                const CELL: usize = size_of::<$W>();
                const K: usize = 16 / CELL;
                const ROWS: usize = K * $lanes;
                /// Columns in a cache line.
                const LINE: usize = 64 / CELL;
                let (rows, columns) = (m.rows, m.columns);
                if rows < ROWS || columns < K {
                    // SAFETY: handed on; the narrower function needs fewer instructions.
                    return unsafe { $narrower(m) };
                }
                let width = if m.order == Order::AlongDst { LINE } else { columns };
                let (down, across) = (rows.div_ceil(ROWS), columns.div_ceil(width));
                // By hand: an iterator over both would not be inlined into code for these instructions.
                let (mut block, mut i, mut first) = (0, 0, 0);
                while block < down * across {
                    // The last blocks overlap the ones before them where the sides do not divide: writing the
                    // same cells twice beats finishing one by one.
                    i = i.min(rows - ROWS);
                    let end = (first + width).min(columns);
                    let mut j = first.min(columns - K);
                    loop {
                        let mut r = [$zero(); K];
                        if let Some(next) = m.next
                            && j % LINE == 0
                        {
                            for k in 0..ROWS {
                                // SAFETY: a row of the matrix. A prefetch touches nothing.
                                let row = unsafe { m.src_rows.at(i + k) };
                                let line = next.wrapping_offset(row).wrapping_add(j * CELL);
                                _mm_prefetch::<_MM_HINT_T1>(line.cast());
                            }
                        }
                        // SAFETY: rows i..i + ROWS and columns j..j + K lie inside the matrix.
                        unsafe {
                            let column = m.src.add(j * CELL);
                            for k in 0..K {
                                r[k] = $load(m.src_rows.cells(column, i + k, K));
                            }
                        }
                        pass!($W r $lo $hi);
                        if K > 2 {
                            pass!($W r $lo $hi);
                        }
                        if K > 4 {
                            pass!($W r $lo $hi);
                        }
                        if K > 8 {
                            pass!($W r $lo $hi);
                        }
                        // SAFETY: as above.
                        unsafe {
                            let column = m.dst.add(i * CELL);
                            for k in 0..K {
                                $store(column.offset(m.dst_rows.at(j + k)).cast(), r[k]);
                            }
                        }
                        if j + K >= end {
                            break;
                        }
                        j = (j + K).min(end - K);
                    }
                    block += 1;
                    i += ROWS;
                    if block % down == 0 {
                        (i, first) = (0, first + width);
                    }
                }
            }
        };
    }

    mod sse2 {
        use super::*;

        /// # Safety
        /// 16 bytes are readable there.
        #[inline(always)]
        unsafe fn load([p]: [*const u8; 1]) -> __m128i {
            // SAFETY: the caller's promise; SSE2 belongs to the architecture.
            unsafe { _mm_loadu_si128(p.cast()) }
        }

        network!(
            u8,
            "sse2",
            1,
            _mm_setzero_si128,
            load,
            _mm_storeu_si128,
            _mm_unpacklo_epi8,
            _mm_unpackhi_epi8,
            one_by_one::<u8, D, S>
        );
        network!(
            u16,
            "sse2",
            1,
            _mm_setzero_si128,
            load,
            _mm_storeu_si128,
            _mm_unpacklo_epi16,
            _mm_unpackhi_epi16,
            one_by_one::<u16, D, S>
        );
        network!(
            u32,
            "sse2",
            1,
            _mm_setzero_si128,
            load,
            _mm_storeu_si128,
            _mm_unpacklo_epi32,
            _mm_unpackhi_epi32,
            one_by_one::<u32, D, S>
        );
        network!(
            u64,
            "sse2",
            1,
            _mm_setzero_si128,
            load,
            _mm_storeu_si128,
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
            // SAFETY: the caller's promise.
            unsafe { _mm256_loadu2_m128i(p[1].cast(), p[0].cast()) }
        }

        network!(
            u8,
            "avx2",
            2,
            _mm256_setzero_si256,
            load,
            _mm256_storeu_si256,
            _mm256_unpacklo_epi8,
            _mm256_unpackhi_epi8,
            sse2::u8
        );
        network!(
            u16,
            "avx2",
            2,
            _mm256_setzero_si256,
            load,
            _mm256_storeu_si256,
            _mm256_unpacklo_epi16,
            _mm256_unpackhi_epi16,
            sse2::u16
        );
        network!(
            u32,
            "avx2",
            2,
            _mm256_setzero_si256,
            load,
            _mm256_storeu_si256,
            _mm256_unpacklo_epi32,
            _mm256_unpackhi_epi32,
            sse2::u32
        );
        network!(
            u64,
            "avx2",
            2,
            _mm256_setzero_si256,
            load,
            _mm256_storeu_si256,
            _mm256_unpacklo_epi64,
            _mm256_unpackhi_epi64,
            sse2::u64
        );
    }

    mod avx512 {
        use super::*;

        /// # Safety
        /// 16 bytes are readable at each of the addresses.
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        #[inline]
        unsafe fn load(p: [*const u8; 4]) -> __m512i {
            // SAFETY: the caller's promise.
            unsafe {
                let low = _mm256_loadu2_m128i(p[1].cast(), p[0].cast());
                let high = _mm256_loadu2_m128i(p[3].cast(), p[2].cast());
                _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
            }
        }

        network!(
            u8,
            "avx512f,avx512bw,avx512dq,avx512vl",
            4,
            _mm512_setzero_si512,
            load,
            _mm512_storeu_si512,
            _mm512_unpacklo_epi8,
            _mm512_unpackhi_epi8,
            avx2::u8
        );
        network!(
            u16,
            "avx512f,avx512bw,avx512dq,avx512vl",
            4,
            _mm512_setzero_si512,
            load,
            _mm512_storeu_si512,
            _mm512_unpacklo_epi16,
            _mm512_unpackhi_epi16,
            avx2::u16
        );
        network!(
            u32,
            "avx512f,avx512bw,avx512dq,avx512vl",
            4,
            _mm512_setzero_si512,
            load,
            _mm512_storeu_si512,
            _mm512_unpacklo_epi32,
            _mm512_unpackhi_epi32,
            avx2::u32
        );
        network!(
            u64,
            "avx512f,avx512bw,avx512dq,avx512vl",
            4,
            _mm512_setzero_si512,
            load,
            _mm512_storeu_si512,
            _mm512_unpacklo_epi64,
            _mm512_unpackhi_epi64,
            avx2::u64
        );
    }
}
