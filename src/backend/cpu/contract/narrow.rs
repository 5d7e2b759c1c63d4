//! The end of sums that are finished in binary32 and stored in a narrower type, where the epilogue is simple: runs are short, so
//! that what a call costs matters, and all of one is compiled for AVX2.

use std::arch::x86_64::*;

use super::finish::{Clip, EIGHT, Outputs, Run, clip};
use crate::backend::cpu::Isa;
use crate::backend::cpu::wide::Cells;
use crate::dtype::Scalar;
use crate::ops::contract::{Accumulate, Contract};
use crate::ops::{Compute, NanRule};

/// `alpha * sum + bias`, clipped or not.
#[derive(Clone, Copy)]
pub(super) struct Narrow {
    alpha: f32,
    has_bias: bool,
    clip: Clip,
    rows: unsafe fn(&Narrow, &Outputs<'_>, &[[i64; 5]], &Run, *const *const u8),
}

impl Narrow {
    /// Whether the epilogue of the step is that simple.
    pub(super) fn of(step: &Contract, isa: Isa) -> Option<Narrow> {
        let epilogue = &step.epilogue;
        let clip = clip(epilogue.activation)?;
        let plain = epilogue.scaling.beta == 0.0
            && epilogue.z.is_none_or(|(_, alpha2)| alpha2 == 0.0)
            && epilogue.bias.is_none_or(|bias| bias == Scalar::F32);
        if !plain || !isa.has_avx2() || step.real() != Compute::Single {
            return None;
        }
        let rows = match (step.accumulate, step.dst) {
            (Accumulate::Single, Scalar::F16) => rows::<f32, half::f16>,
            (Accumulate::Single, Scalar::Bf16) => rows::<f32, half::bf16>,
            (Accumulate::Single, Scalar::I8) => rows::<f32, i8>,
            (Accumulate::Single, Scalar::U8) => rows::<f32, u8>,
            (Accumulate::Int32, Scalar::I8) => rows::<i32, i8>,
            (Accumulate::Int32, Scalar::U8) => rows::<i32, u8>,
            (Accumulate::Int32, Scalar::F32) => rows::<i32, f32>,
            (Accumulate::Int32, Scalar::F16) => rows::<i32, half::f16>,
            _ => return None,
        };
        Some(Narrow { alpha: epilogue.scaling.alpha as f32, has_bias: epilogue.bias.is_some(), clip, rows })
    }

    /// Finishes the sums of one run of some rows: of row m from `sums[m]` on.
    ///
    /// # Safety
    /// As for [`finish`](super::finish::finish); the sums are of the type of the step that this was made for.
    #[inline(always)]
    pub(super) unsafe fn finish(
        &self,
        outputs: &Outputs<'_>,
        rows: &[[i64; 5]],
        run: &Run,
        sums: *const *const u8,
    ) {
        // SAFETY: handed on; the processor has AVX2.
        unsafe { (self.rows)(self, outputs, rows, run, sums) }
    }
}

/// Sums as numbers of binary32.
trait Sums: Copy {
    const ZERO: Self;

    /// # Safety
    /// Eight are readable there, and the processor has AVX2.
    unsafe fn load(from: *const Self) -> __m256;
}

impl Sums for f32 {
    const ZERO: f32 = 0.0;

    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load(from: *const f32) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_ps(from) }
    }
}

impl Sums for i32 {
    const ZERO: i32 = 0;

    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load(from: *const i32) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_cvtepi32_ps(_mm256_loadu_si256(from.cast())) }
    }
}

/// # Safety
/// As for [`Narrow::finish`], and the processor has AVX2.
#[target_feature(enable = "avx2,f16c")]
unsafe fn rows<A: Sums, E: Cells<__m256>>(
    narrow: &Narrow,
    outputs: &Outputs<'_>,
    rows: &[[i64; 5]],
    run: &Run,
    sums: *const *const u8,
) {
    let (len, step, bias_step) = (run.len as usize, run.by[0] as isize, run.by[4] as isize);
    // SAFETY: the caller's promise.
    unsafe {
        for (m, row) in rows.iter().enumerate() {
            let sums = sums.add(m).read().cast::<A>();
            let to = outputs.dst.cast::<E>().wrapping_offset((row[0] + run.at[0]) as isize);
            let bias = outputs.bias.cast::<f32>().wrapping_offset((row[4] + run.at[4]) as isize);
            let mut i = 0;
            if step == 1 {
                while i + EIGHT <= len {
                    let bias = bias.wrapping_offset(i as isize * bias_step);
                    let x = narrow.eight(A::load(sums.add(i)), bias, bias_step, EIGHT);
                    E::store(to.add(i), x);
                    i += EIGHT;
                }
            }
            while i < len {
                let count = EIGHT.min(len - i);
                let mut few = [A::ZERO; EIGHT];
                sums.add(i).copy_to_nonoverlapping(few.as_mut_ptr(), count);
                let bias = bias.wrapping_offset(i as isize * bias_step);
                let x = narrow.eight(A::load(few.as_ptr()), bias, bias_step, count);
                let mut some = [E::ZERO; EIGHT];
                E::store(some.as_mut_ptr(), x);
                for (k, &element) in some[..count].iter().enumerate() {
                    to.wrapping_offset((i + k) as isize * step).write(element);
                }
                i += count;
            }
        }
    }
}

impl Narrow {
    /// What becomes of eight sums, of which `count` are there.
    ///
    /// # Safety
    /// As many terms of the bias are readable, and the processor has AVX2.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn eight(&self, sums: __m256, bias: *const f32, bias_step: isize, count: usize) -> __m256 {
        let mut x = _mm256_mul_ps(_mm256_set1_ps(self.alpha), sums);
        if self.has_bias {
            // SAFETY: the caller's promise.
            let term = unsafe {
                if bias_step == 0 {
                    _mm256_set1_ps(bias.read())
                } else if bias_step == 1 && count == EIGHT {
                    _mm256_loadu_ps(bias)
                } else {
                    let mut some = [0.0; EIGHT];
                    for (k, term) in some[..count].iter_mut().enumerate() {
                        *term = bias.wrapping_offset(k as isize * bias_step).read();
                    }
                    _mm256_loadu_ps(some.as_ptr())
                }
            };
            x = _mm256_add_ps(x, term);
        }
        let Some((rule, ceiling)) = self.clip else { return x };
        let zero = _mm256_setzero_ps();
        x = match rule {
            NanRule::Propagate => _mm256_andnot_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(x, zero), x),
            NanRule::Ignore => _mm256_and_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(x, zero), x),
        };
        let ceiling = _mm256_set1_ps(ceiling);
        _mm256_blendv_ps(x, ceiling, _mm256_cmp_ps::<_CMP_GT_OQ>(x, ceiling))
    }
}
