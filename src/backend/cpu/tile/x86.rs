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
