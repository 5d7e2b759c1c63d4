//! Transposes of small matrices of cells, in vector registers where the processor has them.
//!
//! One scheme serves every width and register size. In a 16-byte lane, interleaving register `i` with register
//! `i + K/2` (low halves to `2i`, high halves to `2i + 1`), repeated log2(K) times, transposes K x K cells, where K
//! is 16 over the cell size. A wider register holds two or four such matrices that lie below each other in the
//! source, so that it ends as one longer piece of a destination row: 64 bytes, a cache line, with AVX-512.

use super::Isa;
use super::shape::with_cell;

/// `dst[j * dst_row + i * cell] = src[i * src_row + j * cell]` for `i < rows`, `j < columns`; rows in bytes.
///
/// # Safety
/// All these cells are readable and writable and the two sets do not overlap. The processor has the
/// instructions of the [`Isa`] that the function was chosen for.
pub(super) type Transpose =
    unsafe fn(dst: *mut u8, dst_row: isize, src: *const u8, src_row: isize, rows: usize, columns: usize);

/// The transpose of cells of `cell` bytes.
pub(super) fn transpose(cell: usize, isa: Isa) -> Transpose {
    #[cfg(target_arch = "x86_64")]
    if let Some(function) = x86::transpose(cell, isa) {
        return function;
    }
    let _ = isa;
    with_cell!(cell, W => one_by_one::<W>)
}

/// The transpose that writes past the caches, if the processor can write a whole line at once.
///
/// As long as the destination is larger than the caches, this saves reading each line before it is overwritten.
/// Beyond what [`Transpose`] asks, `rows * cell` must be a multiple of 64 and the destination rows 64-byte aligned;
/// whoever hands the result to another thread must first call [`fence`].
pub(super) fn streaming_transpose(cell: usize, isa: Isa) -> Option<Transpose> {
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx512() {
        return x86::streaming_transpose(cell);
    }
    let _ = (cell, isa);
    None
}

/// Orders what streaming transposes wrote before every later write of this thread.
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE belongs to the architecture.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}

/// Cell by cell, along the destination.
///
/// # Safety
/// As for [`Transpose`].
unsafe fn one_by_one<W: Copy>(
    dst: *mut u8,
    dst_row: isize,
    src: *const u8,
    src_row: isize,
    rows: usize,
    columns: usize,
) {
    let cell = size_of::<W>() as isize;
    for j in 0..columns as isize {
        for i in 0..rows as isize {
            // SAFETY: a cell of the matrix; merged cells are aligned to their parts only.
            unsafe {
                let value = src.offset(i * src_row + j * cell).cast::<W>().read_unaligned();
                dst.offset(j * dst_row + i * cell).cast::<W>().write_unaligned(value);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Isa, Transpose, one_by_one};
    use std::arch::x86_64::*;

    pub(super) fn transpose(cell: usize, isa: Isa) -> Option<Transpose> {
        let [sse2, avx2, avx512]: [Transpose; 3] = match cell {
            1 => [sse2::u8, avx2::u8, avx512::u8],
            2 => [sse2::u16, avx2::u16, avx512::u16],
            4 => [sse2::u32, avx2::u32, avx512::u32],
            8 => [sse2::u64, avx2::u64, avx512::u64],
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

    pub(super) fn streaming_transpose(cell: usize) -> Option<Transpose> {
        match cell {
            1 => Some(streaming::u8),
            2 => Some(streaming::u16),
            4 => Some(streaming::u32),
            8 => Some(streaming::u64),
            _ => None,
        }
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
         $narrower:path) => {
            /// # Safety
            /// As for [`Transpose`].
            #[target_feature(enable = $feature)]
            pub(super) unsafe fn $W(
                dst: *mut u8,
                dst_row: isize,
                src: *const u8,
                src_row: isize,
                rows: usize,
                columns: usize,
            ) {
                const CELL: usize = size_of::<$W>();
                const K: usize = 16 / CELL;
                const ROWS: usize = K * $lanes;
                if rows < ROWS || columns < K {
                    // SAFETY: handed on; the narrower function needs fewer instructions.
                    return unsafe { $narrower(dst, dst_row, src, src_row, rows, columns) };
                }
                let mut i = 0;
                loop {
                    let mut j = 0;
                    loop {
                        let mut r = [$zero(); K];
                        // SAFETY: rows i..i + ROWS and columns j..j + K lie inside the matrix.
                        unsafe {
                            let corner = src.offset(i as isize * src_row + (j * CELL) as isize);
                            for k in 0..K {
                                r[k] = $load(corner.offset(k as isize * src_row), K as isize * src_row);
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
                            let corner = dst.offset(j as isize * dst_row + (i * CELL) as isize);
                            for k in 0..K {
                                $store(corner.offset(k as isize * dst_row).cast(), r[k]);
                            }
                        }
                        // The last block overlaps the one before it where K does not divide the columns: writing
                        // the same cells twice beats finishing one by one.
                        if j + K == columns {
                            break;
                        }
                        j = (j + K).min(columns - K);
                    }
                    if i + ROWS == rows {
                        break;
                    }
                    i = (i + ROWS).min(rows - ROWS);
                }
            }
        };
    }

    mod sse2 {
        use super::*;

        /// # Safety
        /// 16 bytes are readable at `p`.
        #[inline(always)]
        unsafe fn load(p: *const u8, _: isize) -> __m128i {
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
            one_by_one::<u8>
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
            one_by_one::<u16>
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
            one_by_one::<u32>
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
            one_by_one::<u64>
        );
    }

    mod avx2 {
        use super::*;

        /// # Safety
        /// 16 bytes are readable at `p` and at `p + step`.
        #[target_feature(enable = "avx2")]
        #[inline]
        unsafe fn load(p: *const u8, step: isize) -> __m256i {
            // SAFETY: the caller's promise.
            unsafe { _mm256_loadu2_m128i(p.offset(step).cast(), p.cast()) }
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
        /// 16 bytes are readable at `p`, `p + step`, `p + 2 * step` and `p + 3 * step`.
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        #[inline]
        pub(super) unsafe fn load(p: *const u8, step: isize) -> __m512i {
            // SAFETY: the caller's promise.
            unsafe {
                let low = _mm256_loadu2_m128i(p.offset(step).cast(), p.cast());
                let high = _mm256_loadu2_m128i(p.offset(3 * step).cast(), p.offset(2 * step).cast());
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

    /// Stores that bypass the caches. The narrower functions serve what has less than a register of rows or
    /// columns, through the caches as ever.
    mod streaming {
        use super::avx512::load;
        use super::*;

        network!(
            u8,
            "avx512f,avx512bw,avx512dq,avx512vl",
            4,
            _mm512_setzero_si512,
            load,
            _mm512_stream_si512,
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
            _mm512_stream_si512,
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
            _mm512_stream_si512,
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
            _mm512_stream_si512,
            _mm512_unpacklo_epi64,
            _mm512_unpackhi_epi64,
            avx2::u64
        );
    }
}
