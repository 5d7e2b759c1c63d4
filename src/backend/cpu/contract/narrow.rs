//! The end of sums that are finished in binary32 and stored in a narrower type, where the epilogue is simple: runs are short, so
//! that what a call costs matters, and all of one is compiled for AVX2. Whole tiles are finished in the registers of the kernel.

use std::arch::x86_64::*;

use std::any::TypeId;

use super::kernel::{Panel, sums};
use super::run::{Clip, EIGHT, Run, clip};
use super::simd::{Avx2Int, Avx2Single, MR, Simd};
use crate::backend::cpu::Isa;
use crate::backend::cpu::wide::Cells;
use crate::dtype::Scalar;
use crate::ops::contract::{Accumulate, Contract};
use crate::ops::{Compute, NanRule};

/// `alpha * sum + bias`, clipped or not.
#[derive(Clone, Copy)]
pub(super) struct Narrow {
    dst: *mut u8,
    bias: *const f32,
    /// Bytes of an element of the destination.
    size: isize,
    alpha: f32,
    has_bias: bool,
    clip: Clip,
    rows: unsafe fn(&Narrow, &[[i64; 5]], &Run, *const *const u8),
    /// The kernels that finish whole tiles, by the number of rows, and the type of their vectors.
    tiles: Option<(TypeId, [Tile; MR])>,
}

/// A kernel whose sums leave as elements of the destination; the panel is one of the type that it was made for.
type Tile = unsafe fn(&Narrow, *const (), &Ends);

/// Where the rows of a tile end.
pub(super) struct Ends {
    to: [*mut u8; MR],
    bias: [*const f32; MR],
    bias_step: isize,
    /// The sums of the first row to which these are added, and bytes to the next one's.
    before: Option<(*const u8, usize)>,
}

impl Narrow {
    /// For a destination and a bias at these addresses, if the epilogue of the step is that simple.
    pub(super) fn of(step: &Contract, dst: *mut u8, bias: *const u8, isa: Isa) -> Option<Narrow> {
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
        let (single, int) = (TypeId::of::<Avx2Single>(), TypeId::of::<Avx2Int>());
        let tiles = match (step.accumulate, step.dst) {
            (Accumulate::Single, Scalar::F16) => Some((single, tiles::<Avx2Single, half::f16>())),
            (Accumulate::Single, Scalar::Bf16) => Some((single, tiles::<Avx2Single, half::bf16>())),
            (Accumulate::Single, Scalar::I8) => Some((single, tiles::<Avx2Single, i8>())),
            (Accumulate::Int32, Scalar::I8) => Some((int, tiles::<Avx2Int, i8>())),
            _ => None,
        };
        let (alpha, has_bias) = (epilogue.scaling.alpha as f32, epilogue.bias.is_some());
        let (bias, size) = (bias.cast(), step.dst.size() as isize);
        Some(Narrow { dst, bias, size, alpha, has_bias, clip, rows, tiles })
    }

    /// Whether there are kernels that finish whole tiles of these vectors.
    #[inline(always)]
    pub(super) fn ends_tiles<S: Simd>(&self) -> bool {
        self.tiles.as_ref().is_some_and(|(of, _)| *of == TypeId::of::<S>())
    }

    /// The ends of some rows, whose lanes are the run.
    #[inline(always)]
    pub(super) fn ends(&self, rows: &[[i64; 5]], run: &Run, before: Option<(*const u8, usize)>) -> Ends {
        let (mut to, mut bias) = ([std::ptr::null_mut(); MR], [std::ptr::null(); MR]);
        for (m, row) in rows.iter().enumerate().take(MR) {
            to[m] = self.dst.wrapping_offset((row[0] + run.at[0]) as isize * self.size);
            bias[m] = self.bias.wrapping_offset((row[4] + run.at[4]) as isize);
        }
        Ends { to, bias, bias_step: run.by[4] as isize, before }
    }

    /// Computes a whole tile of so many rows and puts its results where they belong.
    ///
    /// # Safety
    /// There are kernels for it; the panel is good for as many rows as `ends` has, whose elements are writable, the terms
    /// of the bias readable if there is one, and the sums that came before, each for a whole tile.
    #[inline(always)]
    pub(super) unsafe fn finish_tile<S: Simd>(&self, panel: &Panel<S::Cell>, rows: usize, ends: &Ends) {
        if let Some((_, tiles)) = &self.tiles {
            // SAFETY: handed on; the kernel is one for panels of `S`.
            unsafe { tiles[rows - 1](self, (&raw const *panel).cast(), ends) };
        }
    }

    /// Finishes the sums of one run of some rows: of row m from `sums[m]` on.
    ///
    /// # Safety
    /// Every element of dst is writable; every term of the bias is readable, if there is one; all are aligned. The sums are as
    /// many as the run has, of the type of the step that this was made for.
    #[inline(always)]
    pub(super) unsafe fn finish(&self, rows: &[[i64; 5]], run: &Run, sums: *const *const u8) {
        // SAFETY: handed on; the processor has AVX2.
        unsafe { (self.rows)(self, rows, run, sums) }
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
    rows: &[[i64; 5]],
    run: &Run,
    sums: *const *const u8,
) {
    let (len, step, bias_step) = (run.len as usize, run.by[0] as isize, run.by[4] as isize);
    // SAFETY: the caller's promise.
    unsafe {
        for (m, row) in rows.iter().enumerate() {
            let sums = sums.add(m).read().cast::<A>();
            let to = narrow.dst.cast::<E>().wrapping_offset((row[0] + run.at[0]) as isize);
            let bias = narrow.bias.wrapping_offset((row[4] + run.at[4]) as isize);
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

/// The kernels of one type of sums and one of elements.
const fn tiles<S: Numbers, E: Cells<__m256>>() -> [Tile; MR] {
    [tile::<S, E, 1>, tile::<S, E, 2>, tile::<S, E, 3>, tile::<S, E, 4>, tile::<S, E, 5>, tile::<S, E, 6>]
}

/// Vectors of sums as numbers of binary32.
trait Numbers: Simd {
    /// # Safety
    /// The processor has AVX2.
    unsafe fn numbers(sums: Self::V) -> __m256;
}

impl Numbers for Avx2Single {
    #[inline(always)]
    unsafe fn numbers(sums: __m256) -> __m256 {
        sums
    }
}

impl Numbers for Avx2Int {
    #[inline(always)]
    unsafe fn numbers(sums: __m256i) -> __m256 {
        // SAFETY: the caller has the instructions.
        unsafe { _mm256_cvtepi32_ps(sums) }
    }
}

/// # Safety
/// As for [`Narrow::finish_tile`], with a [`Panel`] of `S`; the processor has what its kernels need.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile<S: Numbers, E: Cells<__m256>, const M: usize>(narrow: &Narrow, panel: *const (), ends: &Ends) {
    const { assert!(S::NV == 2 && S::L == EIGHT) };
    // SAFETY: the caller's promise.
    unsafe {
        for to in &ends.to[..M] {
            Avx2Single::prefetch(to.cast());
        }
        let sums = sums::<S, M, 2>(&*panel.cast::<Panel<S::Cell>>());
        let mut m = 0;
        while m < M {
            let mut n = 0;
            while n < 2 {
                let mut sum = sums[m][n];
                if let Some((before, apart)) = ends.before {
                    sum = S::add(S::load_sum(before.add(m * apart).cast::<S::Sum>().add(n * EIGHT)), sum);
                }
                let bias = ends.bias[m].wrapping_offset((n * EIGHT) as isize * ends.bias_step);
                let x = narrow.eight(S::numbers(sum), bias, ends.bias_step, EIGHT);
                E::store(ends.to[m].cast::<E>().add(n * EIGHT), x);
                n += 1;
            }
            m += 1;
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
