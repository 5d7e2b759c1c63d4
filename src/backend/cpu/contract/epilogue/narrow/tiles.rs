//! The kernels of whole tiles whose sums leave from their registers as elements of the destination.

use std::arch::x86_64::*;

use super::Narrow;
use crate::backend::cpu::contract::epilogue::run::EIGHT;
use crate::backend::cpu::contract::kernel::simd::{Avx2Int, Avx2Single, MR, Simd};
use crate::backend::cpu::contract::kernel::{Panel, sums};
use crate::backend::cpu::wide::Cells;

/// A kernel whose sums leave as elements of the destination; the panel is one of the type that it was made for.
pub(super) type Tile = unsafe fn(&Narrow, *const (), &Ends);

/// Where the rows of a tile end.
pub struct Ends {
    pub(super) to: [*mut u8; MR],
    pub(super) z: [*const u8; MR],
    pub(super) bias: [*const u8; MR],
    pub(super) bias_step: isize,
    /// The sums of the first row to which these are added, and bytes to the next one's.
    pub(super) before: Option<(*const u8, usize)>,
}

/// The kernels of one type of sums and one of elements.
pub(super) const fn tiles<S: Tiled, E: Cells<__m256>>(is_plain: bool) -> [Tile; MR] {
    macro_rules! of {
        ($plain:literal) => {
            [
                tile::<S, E, 1, $plain>,
                tile::<S, E, 2, $plain>,
                tile::<S, E, 3, $plain>,
                tile::<S, E, 4, $plain>,
                tile::<S, E, 5, $plain>,
                tile::<S, E, 6, $plain>,
            ]
        };
    }
    if is_plain { of!(true) } else { of!(false) }
}

/// Vectors of sums as numbers of binary32.
pub(super) trait Tiled: Simd {
    /// # Safety
    /// The processor has AVX2.
    unsafe fn numbers(sums: Self::V) -> __m256;
}

impl Tiled for Avx2Single {
    #[inline(always)]
    unsafe fn numbers(sums: __m256) -> __m256 {
        sums
    }
}

impl Tiled for Avx2Int {
    #[inline(always)]
    unsafe fn numbers(sums: __m256i) -> __m256 {
        // SAFETY: the caller has the instructions.
        unsafe { _mm256_cvtepi32_ps(sums) }
    }
}

/// # Safety
/// As for [`Narrow::finish_tile`], with a [`Panel`] of `S`; the processor has what its kernels need.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile<S: Tiled, E: Cells<__m256>, const M: usize, const PLAIN: bool>(
    narrow: &Narrow, panel: *const (), ends: &Ends,
) {
    const { assert!(S::NV == 2 && S::L == EIGHT) };
    // SAFETY: the caller's promise.
    unsafe {
        for to in &ends.to[..M] {
            Avx2Single::prefetch::<1>(to.cast());
        }
        if !PLAIN && narrow.alpha2 != 0.0 {
            for z in &ends.z[..M] {
                Avx2Single::prefetch::<1>(z.cast());
            }
        }
        let sums = sums::<S, M, 2>(&*panel.cast::<Panel<S::Cell>>());
        let mut numbers = [[_mm256_setzero_ps(); 2]; M];
        let mut m = 0;
        while m < M {
            let mut n = 0;
            while n < 2 {
                let mut sum = sums[m][n];
                if let Some((before, apart)) = ends.before {
                    sum = S::add(S::load_sum(before.add(m * apart).cast::<S::Sum>().add(n * EIGHT)), sum);
                }
                numbers[m][n] = S::numbers(sum);
                n += 1;
            }
            m += 1;
        }
        narrow.finish_vectors::<E, M, 2, PLAIN>(numbers, ends);
    }
}

impl Narrow {
    /// Moves the ends of `M` rows on by a number of lanes.
    #[inline(always)]
    pub fn go_on<const M: usize, const PLAIN: bool>(&self, ends: &mut Ends, lanes: usize) {
        let lanes = lanes as isize;
        for m in 0..M {
            ends.to[m] = ends.to[m].wrapping_offset(lanes * self.size);
            if !PLAIN {
                ends.z[m] = ends.z[m].wrapping_offset(lanes * self.size);
            }
            ends.bias[m] =
                ends.bias[m].wrapping_offset(lanes * ends.bias_step * self.bias_size_of::<PLAIN>());
        }
    }

    /// Stores what becomes of the sums of some rows, which have nothing before them; where the end is plain or is not.
    ///
    /// # Safety
    /// The elements of the ends are writable, and what they meet readable; `E` is the type of the destination, and the processor has AVX2.
    #[inline(always)]
    pub unsafe fn finish_vectors<E: Cells<__m256>, const M: usize, const N: usize, const PLAIN: bool>(
        &self, sums: [[__m256; N]; M], ends: &Ends,
    ) {
        let mut m = 0;
        while m < M {
            let mut n = 0;
            while n < N {
                let bias = (n * EIGHT) as isize * ends.bias_step * self.bias_size_of::<PLAIN>();
                let bias = (ends.bias[m].wrapping_offset(bias), ends.bias_step);
                let z = ends.z[m].cast::<E>().wrapping_add(n * EIGHT);
                // SAFETY: the caller's promise.
                unsafe {
                    let x = self.finished::<__m256, E, PLAIN>(sums[m][n], z, bias, EIGHT);
                    E::store(ends.to[m].cast::<E>().add(n * EIGHT), x);
                }
                n += 1;
            }
            m += 1;
        }
    }
}
