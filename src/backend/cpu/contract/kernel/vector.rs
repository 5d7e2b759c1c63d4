//! What the kernels of a single width do with [vectors](Vector) beside arithmetic, on either
//! processor: AVX2 has eight lanes, NEON four.

use super::simd::{Simd, Single, Vector};

#[cfg(target_arch = "aarch64")]
pub use neon::*;
#[cfg(target_arch = "x86_64")]
pub use x86::*;

/// Lanes of a vector.
pub const LANES: usize = Single::L;

/// Vectors whose lanes are added together.
pub const FOUR: usize = 4;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::ops::Range;

    use super::{FOUR, LANES, Vector};

    /// Some lanes of a vector.
    #[derive(Clone, Copy)]
    pub struct Mask(__m256i);

    impl Mask {
        /// # Safety
        /// The processor has AVX2, as for all functions of this module.
        #[inline(always)]
        pub unsafe fn of(lanes: Range<usize>) -> Mask {
            // SAFETY: vectors of AVX2.
            unsafe {
                let numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let before = _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes.start as i32), numbers);
                let within = _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes.end as i32), numbers);
                Mask(_mm256_andnot_si256(before, within))
            }
        }

        /// The numbers of these lanes; all others are 0.
        ///
        /// # Safety
        /// Those numbers are readable.
        #[inline(always)]
        pub unsafe fn load(self, from: *const f32) -> Vector {
            // SAFETY: what is masked is not read.
            unsafe { _mm256_maskload_ps(from, self.0) }
        }
    }

    /// The columns of a square of numbers, from number `k` of its rows on. Halves of registers are
    /// joined when they are loaded: shuffles across halves would take as long as all others, and
    /// matrices in a cache a quarter longer.
    ///
    /// # Safety
    /// As many numbers as lanes are readable in every row.
    #[inline(always)]
    pub unsafe fn columns(rows: &[*const f32; LANES], k: usize) -> [Vector; LANES] {
        // SAFETY: every row has these numbers.
        unsafe {
            let [c0, c1, c2, c3] = half_of_columns(rows, k);
            let [c4, c5, c6, c7] = half_of_columns(rows, k + FOUR);
            [c0, c1, c2, c3, c4, c5, c6, c7]
        }
    }

    /// Four of the columns.
    ///
    /// # Safety
    /// Four numbers are readable in every row.
    #[inline(always)]
    unsafe fn half_of_columns(rows: &[*const f32; LANES], k: usize) -> [Vector; FOUR] {
        // SAFETY: every row has these numbers.
        unsafe {
            let mut joined = [_mm256_setzero_ps(); FOUR];
            let mut row = 0;
            while row < FOUR {
                let low = _mm256_castps128_ps256(_mm_loadu_ps(rows[row].add(k)));
                joined[row] = _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(rows[row + FOUR].add(k)));
                row += 1;
            }
            let [a, b, c, d] = joined;
            let (ab0, ab1) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd0, cd1) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            [
                _mm256_shuffle_ps::<0x44>(ab0, cd0),
                _mm256_shuffle_ps::<0xee>(ab0, cd0),
                _mm256_shuffle_ps::<0x44>(ab1, cd1),
                _mm256_shuffle_ps::<0xee>(ab1, cd1),
            ]
        }
    }

    /// The sum of the lanes of each of four vectors, neighbouring lanes first.
    ///
    /// # Safety
    /// None but that of the instructions.
    #[inline(always)]
    pub unsafe fn lane_sums(v: [Vector; FOUR]) -> [f32; FOUR] {
        let mut acc = [0.0; FOUR];
        // SAFETY: there is room for four sums.
        unsafe {
            let halves = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
            let high = _mm256_extractf128_ps::<1>(halves);
            _mm_storeu_ps(acc.as_mut_ptr(), _mm_add_ps(_mm256_castps256_ps128(halves), high));
        }
        acc
    }

    /// The numbers at even and at odd places of two vectors, in an order of their own, which
    /// [`in_order`] ends.
    ///
    /// # Safety
    /// None but that of the instructions.
    #[inline(always)]
    pub unsafe fn unzip(low: Vector, high: Vector) -> [Vector; 2] {
        // SAFETY: vectors of AVX2.
        unsafe {
            [_mm256_shuffle_ps::<0b10_00_10_00>(low, high), _mm256_shuffle_ps::<0b11_01_11_01>(low, high)]
        }
    }

    /// The numbers of a vector of [`unzip`] by their places.
    ///
    /// # Safety
    /// None but that of the instructions.
    #[inline(always)]
    pub unsafe fn in_order(v: Vector) -> Vector {
        // SAFETY: vectors of AVX2.
        unsafe { _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(v))) }
    }
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use std::arch::aarch64::*;
    use std::ops::Range;

    use super::{FOUR, LANES, Vector};

    /// Some lanes of a vector. No instruction loads some lanes alone: they are read one by one, at
    /// the borders of images and behind the last whole vector of a sum.
    #[derive(Clone, Copy)]
    pub struct Mask {
        first: usize,
        end: usize,
    }

    impl Mask {
        /// # Safety
        /// None: it is unsafe where a processor may not have the instructions.
        #[inline(always)]
        pub unsafe fn of(lanes: Range<usize>) -> Mask {
            Mask { first: lanes.start, end: lanes.end.min(LANES) }
        }

        /// The numbers of these lanes; all others are 0.
        ///
        /// # Safety
        /// Those numbers are readable.
        #[inline(always)]
        pub unsafe fn load(self, from: *const f32) -> Vector {
            let mut numbers = [0.0; LANES];
            let mut lane = self.first;
            while lane < self.end {
                // SAFETY: the number is readable.
                numbers[lane] = unsafe { from.add(lane).read() };
                lane += 1;
            }
            // SAFETY: a vector of numbers.
            unsafe { vld1q_f32(numbers.as_ptr()) }
        }
    }

    /// The columns of a square of numbers, from number `k` of its rows on.
    ///
    /// # Safety
    /// As many numbers as lanes are readable in every row.
    #[inline(always)]
    pub unsafe fn columns(rows: &[*const f32; LANES], k: usize) -> [Vector; LANES] {
        // SAFETY: every row has these numbers.
        unsafe {
            let [a, b] = [vld1q_f32(rows[0].add(k)), vld1q_f32(rows[1].add(k))];
            let [c, d] = [vld1q_f32(rows[2].add(k)), vld1q_f32(rows[3].add(k))];
            let [ac, bd] = [vzip1q_f32(a, c), vzip1q_f32(b, d)];
            let [ac2, bd2] = [vzip2q_f32(a, c), vzip2q_f32(b, d)];
            [vzip1q_f32(ac, bd), vzip2q_f32(ac, bd), vzip1q_f32(ac2, bd2), vzip2q_f32(ac2, bd2)]
        }
    }

    /// The sum of the lanes of each of four vectors, neighbouring lanes first.
    ///
    /// # Safety
    /// None but that of the instructions.
    #[inline(always)]
    pub unsafe fn lane_sums(v: [Vector; FOUR]) -> [f32; FOUR] {
        let mut acc = [0.0; FOUR];
        // SAFETY: there is room for four sums.
        unsafe { vst1q_f32(acc.as_mut_ptr(), vpaddq_f32(vpaddq_f32(v[0], v[1]), vpaddq_f32(v[2], v[3]))) };
        acc
    }

    /// The numbers at even and at odd places of two vectors, in an order which [`in_order`] ends.
    ///
    /// # Safety
    /// None but that of the instructions.
    #[inline(always)]
    pub unsafe fn unzip(low: Vector, high: Vector) -> [Vector; 2] {
        // SAFETY: vectors of NEON.
        unsafe { [vuzp1q_f32(low, high), vuzp2q_f32(low, high)] }
    }

    /// The numbers of a vector of [`unzip`] by their places, which they have.
    ///
    /// # Safety
    /// None.
    #[inline(always)]
    pub unsafe fn in_order(v: Vector) -> Vector {
        v
    }
}
