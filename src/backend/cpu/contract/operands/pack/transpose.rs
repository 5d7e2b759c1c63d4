//! Lines that become columns: element k of line l goes to place l of row k.

use crate::backend::cpu::Isa;
use crate::backend::cpu::tile::{Even, Matrix, Next, Order, Store, transpose};
use crate::ops::Scaling;

/// Lines that are turned at once where runs are short, or lanes few.
pub(super) const FOUR: usize = 4;

/// Lines that are turned at once else: as many as fill a vector.
pub const MANY: usize = 16;

/// Cell k of line l to `to[k * width + l]`, for up to [`FOUR`] lines; backwards in memory if the
/// width is negative.
///
/// # Safety
/// The lines have `len` cells, of any alignment, as these may be pairs of narrower numbers; their
/// places are writable.
#[inline(always)]
pub(super) unsafe fn transpose_lines<C: Copy>(lines: &[*const C], len: usize, to: *mut C, width: isize) {
    let mut k = 0;
    let at = |k: usize| to.wrapping_offset(k as isize * width);
    // SAFETY: every line has `len` cells, and each a place; the shuffles are of the base
    // instruction set and keep bits.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if lines.len() == FOUR && size_of::<C>() == 4 {
            use core::arch::x86_64::*;
            while k + FOUR <= len {
                let a = _mm_loadu_ps(lines[0].add(k).cast());
                let b = _mm_loadu_ps(lines[1].add(k).cast());
                let c = _mm_loadu_ps(lines[2].add(k).cast());
                let d = _mm_loadu_ps(lines[3].add(k).cast());
                let (low, high) = (_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
                let (low2, high2) = (_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
                _mm_storeu_ps(at(k).cast(), _mm_movelh_ps(low, low2));
                _mm_storeu_ps(at(k + 1).cast(), _mm_movehl_ps(low2, low));
                _mm_storeu_ps(at(k + 2).cast(), _mm_movelh_ps(high, high2));
                _mm_storeu_ps(at(k + 3).cast(), _mm_movehl_ps(high2, high));
                k += FOUR;
            }
        }
        #[cfg(target_arch = "x86_64")]
        if lines.len() == 2 && size_of::<C>() == 4 {
            use core::arch::x86_64::*;
            while k + FOUR <= len {
                let (a, b) =
                    (_mm_loadu_si128(lines[0].add(k).cast()), _mm_loadu_si128(lines[1].add(k).cast()));
                let (low, high) = (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
                _mm_storel_epi64(at(k).cast(), low);
                _mm_storel_epi64(at(k + 1).cast(), _mm_unpackhi_epi64(low, low));
                _mm_storel_epi64(at(k + 2).cast(), high);
                _mm_storel_epi64(at(k + 3).cast(), _mm_unpackhi_epi64(high, high));
                k += FOUR;
            }
        }
        #[cfg(target_arch = "aarch64")]
        if lines.len() == FOUR && size_of::<C>() == 4 {
            use core::arch::aarch64::*;
            while k + FOUR <= len {
                let [a, b, c, d] =
                    [0, 1, 2, 3].map(|l| lines[l].add(k).cast::<uint32x4_t>().read_unaligned());
                // Two columns of two lines in each, which go together by halves.
                let [low, high] = [vzip1q_u32(a, c), vzip2q_u32(a, c)];
                let [low2, high2] = [vzip1q_u32(b, d), vzip2q_u32(b, d)];
                let put = |k: usize, v: uint32x4_t| at(k).cast::<uint32x4_t>().write_unaligned(v);
                put(k, vzip1q_u32(low, low2));
                put(k + 1, vzip2q_u32(low, low2));
                put(k + 2, vzip1q_u32(high, high2));
                put(k + 3, vzip2q_u32(high, high2));
                k += FOUR;
            }
        }
        while k < len {
            lines.iter().enumerate().for_each(|(l, line)| at(k).add(l).write(line.add(k).read_unaligned()));
            k += 1;
        }
    }
}

/// The same for up to [`MANY`] lines, by the transposes of transforms.
///
/// # Safety
/// As for [`transpose_lines`]; the processor has the instructions of `isa`.
pub unsafe fn transpose_many<C: Copy>(lines: &[*const C], len: usize, to: *mut C, width: isize, isa: Isa) {
    let mut places = [0; MANY];
    for (place, line) in places.iter_mut().zip(lines) {
        *place = line.addr().wrapping_sub(lines[0].addr()) as isize;
    }
    let matrix = Matrix {
        dst: to.cast(),
        src: lines[0].cast(),
        rows: lines.len(),
        columns: len,
        dst_rows: Even(width * size_of::<C>() as isize),
        src_rows: &places[..],
        next: Next::none(&places[..]),
        order: Order::AlongDst,
        scaling: Scaling::MOVE,
    };
    // SAFETY: the matrix has its rows and columns on either side.
    unsafe { transpose(size_of::<C>(), Store::Cached, isa)(matrix) }
}
