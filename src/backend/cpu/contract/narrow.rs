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
    run: unsafe fn(&Narrow, &Outputs<'_>, &[i64; 5], &Run, *const u8),
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
        let run = match (step.accumulate, step.dst) {
            (Accumulate::Single, Scalar::F16) => run::<f32, half::f16>,
            (Accumulate::Single, Scalar::Bf16) => run::<f32, half::bf16>,
            (Accumulate::Single, Scalar::I8) => run::<f32, i8>,
            (Accumulate::Int32, Scalar::I8) => run::<i32, i8>,
            (Accumulate::Int32, Scalar::U8) => run::<i32, u8>,
            (Accumulate::Int32, Scalar::F32) => run::<i32, f32>,
            (Accumulate::Int32, Scalar::F16) => run::<i32, half::f16>,
            _ => return None,
        };
        Some(Narrow { alpha: epilogue.scaling.alpha as f32, has_bias: epilogue.bias.is_some(), clip, run })
    }

    /// Finishes the sums of one run of one row.
    ///
    /// # Safety
    /// As for [`finish`](super::finish::finish); the sums are of the type of the step that this was made for.
    #[inline(always)]
    pub(super) unsafe fn finish(&self, outputs: &Outputs<'_>, row: &[i64; 5], run: &Run, sums: *const u8) {
        // SAFETY: handed on; the processor has AVX2.
        unsafe { (self.run)(self, outputs, row, run, sums) }
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
unsafe fn run<A: Sums, E: Cells<__m256>>(
    narrow: &Narrow,
    outputs: &Outputs<'_>,
    row: &[i64; 5],
    run: &Run,
    sums: *const u8,
) {
    let (len, sums) = (run.len as usize, sums.cast::<A>());
    let place = |slot: usize| (row[slot] + run.at[slot]) as isize;
    let [step, bias_step] = [0, 4].map(|slot| run.by[slot] as isize);
    let to = outputs.dst.cast::<E>().wrapping_offset(place(0));
    let bias = outputs.bias.cast::<f32>().wrapping_offset(place(4));
    let zero = _mm256_setzero_ps();
    let mut i = 0;
    // SAFETY: the caller's promise; less than eight go through arrays of eight.
    unsafe {
        while i < len {
            let count = EIGHT.min(len - i);
            let mut x = if count == EIGHT {
                A::load(sums.add(i))
            } else {
                let mut some = [A::ZERO; EIGHT];
                sums.add(i).copy_to_nonoverlapping(some.as_mut_ptr(), count);
                A::load(some.as_ptr())
            };
            x = _mm256_mul_ps(_mm256_set1_ps(narrow.alpha), x);
            if narrow.has_bias {
                let at = |k: usize| bias.wrapping_offset((i + k) as isize * bias_step);
                let term = if bias_step == 0 {
                    _mm256_set1_ps(bias.read())
                } else {
                    let mut some = [0.0; EIGHT];
                    some[..count].iter_mut().enumerate().for_each(|(k, term)| *term = at(k).read());
                    _mm256_loadu_ps(some.as_ptr())
                };
                x = _mm256_add_ps(x, term);
            }
            if let Some((rule, ceiling)) = narrow.clip {
                x = match rule {
                    NanRule::Propagate => _mm256_andnot_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(x, zero), x),
                    NanRule::Ignore => _mm256_and_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(x, zero), x),
                };
                let ceiling = _mm256_set1_ps(ceiling);
                x = _mm256_blendv_ps(x, ceiling, _mm256_cmp_ps::<_CMP_GT_OQ>(x, ceiling));
            }
            if count == EIGHT && step == 1 {
                E::store(to.add(i), x);
            } else {
                let mut some = [E::ZERO; EIGHT];
                E::store(some.as_mut_ptr(), x);
                for (k, &element) in some[..count].iter().enumerate() {
                    to.wrapping_offset((i + k) as isize * step).write(element);
                }
            }
            i += count;
        }
    }
}
