//! Halves in parts of bf16: each is exactly two of them, and the product of two halves four
//! products.
//!
//! The first part is what a half has in its upper eight bits, the second the rest, with the same
//! sign. The first part of an infinity or a NaN is itself, and the second is 0. There are two of
//! the first: where it is multiplied by a second part, it is 0 as well, as infinity times a part
//! that happens to be 0 would be no number. What is left of the sum is infinity times the other
//! half's first part, which is 0 only where that half is.

use half::f16;

#[cfg(target_arch = "x86_64")]
use super::call::ROW;
use super::call::TILE;
use crate::backend::cpu::Isa;

/// What an operand becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The bits that it has.
    None,
    /// Halves, in two parts.
    Half,
    /// Binary32, in [three parts or two](super::single), whose tiles follow each other in a step.
    Single(usize),
}

/// Which part a tile holds: the first as it is, the first of finite numbers, the second.
const FIRST: usize = 0;
const FINITE: usize = 1;
const SECOND: usize = 2;

/// Tiles of parts for a tile of halves.
const PARTS: usize = 3;

impl Split {
    /// Tiles of parts for a tile.
    pub fn parts(self) -> usize {
        match self {
            Split::None => 1,
            Split::Half => PARTS,
            Split::Single(parts) => parts,
        }
    }

    /// Tiles that are split into those of one step.
    pub fn raw(self) -> usize {
        if let Split::Single(_) = self { 2 } else { 1 }
    }

    /// The parts that are multiplied one after the other, least products first.
    pub fn products(self) -> &'static [[usize; 2]] {
        match self {
            Split::None | Split::Single(_) => &[[FIRST, FIRST]],
            Split::Half => &[[SECOND, SECOND], [FINITE, SECOND], [SECOND, FINITE], [FIRST, FIRST]],
        }
    }
}

/// Splits halves into tiles of parts, one part behind the other.
///
/// # Safety
/// `tiles` tiles are readable, and [`PARTS`] times as many writable.
pub unsafe fn split(from: *const u8, tiles: usize, to: *mut u8, isa: Isa) {
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx512() {
        // SAFETY: all tiles are there, and the processor has AVX-512.
        return unsafe { split_avx512(from, tiles, to) };
    }
    let _ = isa;
    for k in 0..tiles * TILE / 2 {
        // SAFETY: all tiles are there.
        unsafe {
            let parts = parts_of(from.cast::<f16>().add(k).read());
            for (part, bits) in parts.into_iter().enumerate() {
                to.add(part * tiles * TILE).cast::<u16>().add(k).write(bits);
            }
        }
    }
}

/// The parts of a half.
fn parts_of(half: f16) -> [u16; PARTS] {
    let x = half.to_f32();
    let first = (x.to_bits() >> 16) as u16;
    if !half.is_finite() {
        return [first, 0, 0];
    }
    let rest = x - f32::from_bits(u32::from(first) << 16);
    [first, first, (rest.to_bits() >> 16) as u16]
}

/// [`split`] by vectors.
///
/// # Safety
/// As for [`split`]; the processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn split_avx512(from: *const u8, tiles: usize, to: *mut u8) {
    use std::arch::x86_64::*;
    let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    for at in (0..tiles * TILE).step_by(ROW / 2) {
        // SAFETY: all tiles are there.
        unsafe {
            let x = _mm512_cvtph_ps(_mm256_loadu_si256(from.add(at).cast()));
            // NaN, and infinities of either sign.
            let finite = !_mm512_fpclass_ps_mask::<0x99>(x);
            let first = _mm512_and_si512(_mm512_castps_si512(x), upper);
            let second = _mm512_castps_si512(_mm512_maskz_sub_ps(finite, x, _mm512_castsi512_ps(first)));
            let to = to.add(at);
            let put = tiles * TILE;
            _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(first)));
            let own = _mm512_maskz_srli_epi32::<16>(finite, first);
            _mm256_storeu_si256(to.add(FINITE * put).cast(), _mm512_cvtepi32_epi16(own));
            let rest = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(second));
            _mm256_storeu_si256(to.add(SECOND * put).cast(), rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_half_at_every_level() {
        let halves: Vec<u16> = (0..=u16::MAX).collect();
        let tiles = halves.len() * 2 / TILE;
        for isa in Isa::available() {
            let mut parts = vec![0_u16; PARTS * halves.len()];
            // SAFETY: as many tiles of each part.
            unsafe { split(halves.as_ptr().cast(), tiles, parts.as_mut_ptr().cast(), isa) };
            for (k, &bits) in halves.iter().enumerate() {
                let half = f16::from_bits(bits);
                let part = |part: usize| f32::from_bits(u32::from(parts[part * halves.len() + k]) << 16);
                let [first, finite, second] = [FIRST, FINITE, SECOND].map(part);
                if half.is_nan() {
                    assert!(first.is_nan() && [finite, second] == [0.0; 2], "{bits:04x} on {isa:?}");
                } else if half.is_infinite() {
                    assert_eq!([first, finite, second], [half.to_f32(), 0.0, 0.0], "{bits:04x} on {isa:?}");
                } else {
                    assert_eq!(first + second, half.to_f32(), "{bits:04x} on {isa:?}");
                    assert_eq!(first.to_bits(), finite.to_bits(), "{bits:04x} on {isa:?}");
                }
            }
        }
    }
}
