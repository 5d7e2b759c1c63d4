//! Blocks of 64 lines of single bytes, with AVX-512: four times as many as there are registers, so they stop halfway in
//! the first-level cache.

use std::arch::x86_64::*;

use super::lines::exchange;
use super::through::Through;
use super::{Ahead, Matrix, Rows};
use crate::backend::cpu::stage::Stage;

/// Lines of a block, and bytes of a line.
const LINE: usize = 64;

/// Four rows of bytes side by side: what was column `16 l + 4 q + k` is cell `k` of lane `l` of register `q`, four bytes
/// from the first row to the last.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn join([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_low, ab_high) = (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
    let (cd_low, cd_high) = (_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d));
    [
        _mm512_unpacklo_epi16(ab_low, cd_low),
        _mm512_unpackhi_epi16(ab_low, cd_low),
        _mm512_unpacklo_epi16(ab_high, cd_high),
        _mm512_unpackhi_epi16(ab_high, cd_high),
    ]
}

/// 4 x 4 cells of four bytes transposed in each lane.
#[target_feature(enable = "avx512f")]
#[inline]
fn transpose([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab_low, cd_low),
        _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// # Safety
/// As for [`Transpose`](super::Transpose), for 64 rows from `i` on and 64 columns from `j` on.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
pub(super) unsafe fn u8<F: Through, D: Rows, S: Rows>(
    m: &Matrix<D, S>,
    i: usize,
    j: usize,
    ahead: &mut Ahead<S>,
) {
    let mut stage = Stage::<{ LINE * LINE }>::new();
    let stage = stage.ptr().cast::<[[__m512i; 16]; 4]>();
    for g in 0..16 {
        // SAFETY: lines of the block; each quarter of the stage has a register for each group of four rows.
        unsafe {
            let line = |k| F::get(m.src.offset(m.src_rows.at(i + 4 * g + k)).add(j * F::SRC), m.scaling);
            for (q, joined) in join([line(0), line(1), line(2), line(3)]).into_iter().enumerate() {
                (&raw mut (*stage)[q][g]).write(joined);
            }
        }
    }
    for q in 0..4 {
        // SAFETY: all of the stage is written.
        let group = |h| transpose(unsafe { (&raw const (*stage)[q]).cast::<[__m512i; 4]>().add(h).read() });
        let [a, b, c, d] = [group(0), group(1), group(2), group(3)];
        for k in 0..4 {
            ahead.fetch(4);
            let lines = exchange([a[k], b[k], c[k], d[k]]);
            for (l, line) in lines.into_iter().enumerate() {
                // SAFETY: 64 cells of a column of the block. Columns start on a line if they are streamed.
                unsafe {
                    let to = m.dst.offset(m.dst_rows.at(j + 16 * l + 4 * q + k)).add(i * F::DST);
                    F::put(to, line, i.is_multiple_of(LINE), m.scaling);
                }
            }
        }
    }
}
