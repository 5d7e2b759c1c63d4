//! Vectors that sums are finished in, at each level.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::backend::cpu::wide::Register;
use crate::ops::NanRule;

/// Vectors that sums are finished in.
pub trait Numbers: Register {
    /// # Safety
    /// As many numbers as it holds are readable there, and the processor has such registers; so for
    /// all functions.
    unsafe fn load(from: *const f32) -> Self;

    /// # Safety
    /// As for [`load`](Self::load).
    unsafe fn of(from: *const i32) -> Self;

    /// As many numbers are stored as they are.
    ///
    /// # Safety
    /// As for [`load`](Self::load), writable.
    unsafe fn put(self, to: *mut f32);

    /// `min(max(x, 0), ceiling)`, NaN as the table of conversions has it.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    unsafe fn clip(self, rule: NanRule, ceiling: f32) -> Self;
}

#[cfg(target_arch = "x86_64")]
impl Numbers for __m256 {
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: eight numbers are readable.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn of(from: *const i32) -> Self {
        // SAFETY: eight numbers are readable.
        unsafe { _mm256_cvtepi32_ps(_mm256_loadu_si256(from.cast())) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn put(self, to: *mut f32) {
        // SAFETY: eight numbers are writable.
        unsafe { _mm256_storeu_ps(to, self) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn clip(self, rule: NanRule, ceiling: f32) -> Self {
        // Either gives its second operand where one is NaN, or both are 0.
        let x = _mm256_min_ps(_mm256_set1_ps(ceiling), _mm256_max_ps(self, _mm256_setzero_ps()));
        match rule {
            // SAFETY: the processor has such registers.
            NanRule::Propagate => unsafe { x.unless_nan(self) },
            NanRule::Ignore => x,
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Numbers for __m512 {
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: sixteen numbers are readable.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn of(from: *const i32) -> Self {
        // SAFETY: sixteen numbers are readable.
        unsafe { _mm512_cvtepi32_ps(_mm512_loadu_si512(from.cast())) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn put(self, to: *mut f32) {
        // SAFETY: sixteen numbers are writable.
        unsafe { _mm512_storeu_ps(to, self) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn clip(self, rule: NanRule, ceiling: f32) -> Self {
        // Either gives its second operand where one is NaN, or both are 0.
        let x = _mm512_min_ps(_mm512_set1_ps(ceiling), _mm512_max_ps(self, _mm512_setzero_ps()));
        match rule {
            // SAFETY: the processor has such registers.
            NanRule::Propagate => unsafe { x.unless_nan(self) },
            NanRule::Ignore => x,
        }
    }
}

#[cfg(target_arch = "aarch64")]
impl Numbers for float32x4_t {
    #[target_feature(enable = "neon")]
    #[inline]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: four numbers are readable.
        unsafe { vld1q_f32(from) }
    }

    #[target_feature(enable = "neon")]
    #[inline]
    unsafe fn of(from: *const i32) -> Self {
        // SAFETY: four numbers are readable.
        unsafe { vcvtq_f32_s32(vld1q_s32(from)) }
    }

    #[target_feature(enable = "neon")]
    #[inline]
    unsafe fn put(self, to: *mut f32) {
        // SAFETY: four numbers are writable.
        unsafe { vst1q_f32(to, self) }
    }

    #[target_feature(enable = "neon")]
    #[inline]
    unsafe fn clip(self, rule: NanRule, ceiling: f32) -> Self {
        let (zero, ceiling) = (vdupq_n_f32(0.0), vdupq_n_f32(ceiling));
        // No comparison holds for NaN, which becomes 0.
        let x = vbslq_f32(vcgtq_f32(self, zero), self, zero);
        let x = vbslq_f32(vcgtq_f32(x, ceiling), ceiling, x);
        match rule {
            // SAFETY: the processor has such registers.
            NanRule::Propagate => unsafe { x.unless_nan(self) },
            NanRule::Ignore => x,
        }
    }
}
