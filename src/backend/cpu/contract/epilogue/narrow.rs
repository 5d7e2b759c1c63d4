//! The end of sums that are finished in binary32 and stored in a narrower type, where the epilogue is simple: runs are short, so
//! that the cost of a call matters, and all that a call does is compiled for AVX2 or AVX-512. With AVX2 whole tiles are finished in the
//! registers of the kernel; else the lines of a tile are, with all their runs.

use cudnn_shim_macros::vectorized;

use std::arch::x86_64::*;

use std::any::TypeId;
use std::mem::MaybeUninit;

use super::run::{Clip, EIGHT, Run, clip};
use crate::backend::cpu::Isa;
use crate::backend::cpu::contract::kernel::simd::{Avx2Int, Avx2Single, MAX_NR, MR, Simd};
use crate::backend::cpu::contract::kernel::{Panel, sums};
use crate::backend::cpu::wide::{Cells, Register};
use crate::dtype::Scalar;
use crate::ops::contract::{Accumulate, Contract};
use crate::ops::{Compute, NanRule};

/// `alpha * sum + bias`, clipped or not.
#[derive(Clone, Copy)]
pub struct Narrow {
    dst: *mut u8,
    bias: *const f32,
    /// Bytes of an element of the destination.
    size: isize,
    alpha: f32,
    has_bias: bool,
    clip: Clip,
    lines: Lines,
    /// The kernels that finish whole tiles, by the number of rows, and the type of their vectors.
    tiles: Option<(TypeId, [Tile; MR])>,
}

/// Finishes the lines of some rows; see [`lines`].
type Lines = unsafe fn(&Narrow, &[[i64; 5]], &Line<'_>, *const *const u8);

/// What is finished of the sums of a row.
pub struct Line<'a> {
    runs: &'a [Run],
    /// How far the terms of the bias are apart, from one lane to the next.
    bias_step: i64,
    /// Whether sums may be read up to a whole vector.
    is_padded: bool,
}

impl<'a> Line<'a> {
    /// The runs of a tile, if the bias goes on evenly from one to the next.
    pub fn of(runs: &'a [Run]) -> Option<Line<'a>> {
        let first = runs.first()?;
        let bias_step = match runs.get(1) {
            Some(next) if first.len == 1 => (next.at[4] - first.at[4]) / i64::from(next.lane - first.lane),
            _ => first.by[4],
        };
        let even = |run: &Run| {
            run.at[4] - first.at[4] == bias_step * i64::from(run.lane - first.lane)
                && (run.len == 1 || run.by[4] == bias_step)
        };
        runs.iter().all(even).then_some(Line { runs, bias_step, is_padded: true })
    }
}

/// A kernel whose sums leave as elements of the destination; the panel is one of the type that it was made for.
type Tile = unsafe fn(&Narrow, *const (), &Ends);

/// Where the rows of a tile end.
pub struct Ends {
    to: [*mut u8; MR],
    bias: [*const f32; MR],
    bias_step: isize,
    /// The sums of the first row to which these are added, and bytes to the next one's.
    before: Option<(*const u8, usize)>,
}

impl Narrow {
    /// For a destination and a bias at these addresses, if the epilogue of the step is that simple.
    pub fn of(step: &Contract, dst: *mut u8, bias: *const u8, isa: Isa) -> Option<Narrow> {
        let epilogue = &step.epilogue;
        let clip = clip(epilogue.activation)?;
        let plain = epilogue.scaling.beta == 0.0
            && epilogue.z.is_none_or(|(_, alpha2)| alpha2 == 0.0)
            && epilogue.bias.is_none_or(|bias| bias == Scalar::F32);
        if !plain || !isa.has_avx2() || step.real() != Compute::Single {
            return None;
        }
        macro_rules! of {
            ($A:ty, $E:ty) => {
                if isa.has_avx512() {
                    lines::avx512::<__m512, $A, $E> as Lines
                } else {
                    lines::avx2::<__m256, $A, $E> as Lines
                }
            };
        }
        let lines = match (step.accumulate, step.dst) {
            (Accumulate::Single, Scalar::F16) => of!(f32, half::f16),
            (Accumulate::Single, Scalar::Bf16) => of!(f32, half::bf16),
            (Accumulate::Single, Scalar::I8) => of!(f32, i8),
            (Accumulate::Single, Scalar::U8) => of!(f32, u8),
            (Accumulate::Int32, Scalar::I8) => of!(i32, i8),
            (Accumulate::Int32, Scalar::U8) => of!(i32, u8),
            (Accumulate::Int32, Scalar::F32) => of!(i32, f32),
            (Accumulate::Int32, Scalar::F16) => of!(i32, half::f16),
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
        Some(Narrow { dst, bias, size, alpha, has_bias, clip, lines, tiles })
    }

    /// Whether there are kernels that finish whole tiles of these vectors.
    #[inline(always)]
    pub fn ends_tiles<S: Simd>(&self) -> bool {
        self.tiles.as_ref().is_some_and(|(of, _)| *of == TypeId::of::<S>())
    }

    /// The ends of some rows, whose lanes are the run.
    #[inline(always)]
    pub fn ends(&self, rows: &[[i64; 5]], run: &Run, before: Option<(*const u8, usize)>) -> Ends {
        let (mut to, mut bias) = ([std::ptr::null_mut(); MR], [std::ptr::null(); MR]);
        for (m, row) in rows.iter().enumerate().take(MR) {
            to[m] = self.dst.wrapping_offset((row[0] + run.at[0]) as isize * self.size);
            bias[m] = self.bias.wrapping_offset((row[4] + run.at[4]) as isize);
        }
        Ends { to, bias, bias_step: run.by[4] as isize, before }
    }

    /// Computes a whole tile with as many rows as `ends`, and stores its results.
    ///
    /// # Safety
    /// There are kernels for it; the panel is good for as many rows as `ends` has, whose elements are writable, the terms
    /// of the bias readable if there is one, and the sums that came before, each for a whole tile.
    #[inline(always)]
    pub unsafe fn finish_tile<S: Simd>(&self, panel: &Panel<S::Cell>, rows: usize, ends: &Ends) {
        if let Some((_, tiles)) = &self.tiles {
            // SAFETY: the kernel is one for panels of `S`, and `ends` has an end for each of the rows.
            unsafe { tiles[rows - 1](self, (&raw const *panel).cast(), ends) };
        }
    }

    /// Finishes the sums of one run.
    ///
    /// # Safety
    /// Every element of dst is writable; every term of the bias is readable, if there is one; all are aligned. The sums are as
    /// many as the run has, of the type of the step that this was made for.
    #[inline(always)]
    pub unsafe fn finish(&self, row: &[i64; 5], run: &Run, sums: *const u8) {
        let most = if run.by[0] == 1 { run.len } else { MAX_NR as u32 };
        let mut begin = 0;
        while begin < run.len {
            let at = std::array::from_fn(|k| run.at[k] + i64::from(begin) * run.by[k]);
            let some = Run { lane: 0, len: most.min(run.len - begin), at, by: run.by };
            let line = Line { runs: &[some], bias_step: run.by[4], is_padded: false };
            // All sums have four bytes.
            let from = sums.wrapping_add(begin as usize * size_of::<f32>());
            // SAFETY: the line is a part of the run, and the processor has what the function was chosen by.
            unsafe { (self.lines)(self, std::slice::from_ref(row), &line, &from) };
            begin += some.len;
        }
    }

    /// Finishes the sums of some rows of a tile: of row m from `sums[m]` on.
    ///
    /// # Safety
    /// As for [`finish`](Narrow::finish); after the last run sums are readable up to a whole vector.
    #[inline(always)]
    pub unsafe fn finish_lines(&self, rows: &[[i64; 5]], line: &Line<'_>, sums: *const *const u8) {
        // SAFETY: every row has the elements of the line, and the processor has what the function was chosen by.
        unsafe { (self.lines)(self, rows, line, sums) }
    }
}

/// Vectors that sums are finished in.
pub trait Numbers: Register {
    /// # Safety
    /// As many numbers as it holds are readable there, and the processor has such registers; so for all functions.
    unsafe fn load(from: *const f32) -> Self;

    /// # Safety
    /// As for [`load`](Self::load).
    unsafe fn of(from: *const i32) -> Self;

    /// `min(max(x, 0), ceiling)`
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    unsafe fn clip(self, rule: NanRule, ceiling: f32) -> Self;
}

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
    unsafe fn clip(self, rule: NanRule, ceiling: f32) -> Self {
        let zero = _mm256_setzero_ps();
        let x = match rule {
            NanRule::Propagate => _mm256_andnot_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(self, zero), self),
            NanRule::Ignore => _mm256_and_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(self, zero), self),
        };
        let ceiling = _mm256_set1_ps(ceiling);
        _mm256_blendv_ps(x, ceiling, _mm256_cmp_ps::<_CMP_GT_OQ>(x, ceiling))
    }
}

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
    unsafe fn clip(self, rule: NanRule, ceiling: f32) -> Self {
        let zero = _mm512_setzero_ps();
        let kept = match rule {
            NanRule::Propagate => !_mm512_cmp_ps_mask::<_CMP_LE_OQ>(self, zero),
            NanRule::Ignore => _mm512_cmp_ps_mask::<_CMP_GT_OQ>(self, zero),
        };
        let (x, ceiling) = (_mm512_maskz_mov_ps(kept, self), _mm512_set1_ps(ceiling));
        _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask::<_CMP_GT_OQ>(x, ceiling), ceiling)
    }
}

/// Sums as numbers of binary32.
trait Sums: Copy {
    const ZERO: Self;

    /// # Safety
    /// As for [`Numbers::load`].
    unsafe fn load<R: Numbers>(from: *const Self) -> R;
}

impl Sums for f32 {
    const ZERO: f32 = 0.0;

    #[inline(always)]
    unsafe fn load<R: Numbers>(from: *const f32) -> R {
        // SAFETY: as many numbers as `R` holds are readable, and the processor has its registers.
        unsafe { R::load(from) }
    }
}

impl Sums for i32 {
    const ZERO: i32 = 0;

    #[inline(always)]
    unsafe fn load<R: Numbers>(from: *const i32) -> R {
        // SAFETY: as many numbers as `R` holds are readable, and the processor has its registers.
        unsafe { R::of(from) }
    }
}

/// Finishes a line of some rows, whose sums begin at `sums[m]`: in vectors, whatever the lengths of its runs. At most
/// [`MAX_NR`] sums, if they are not one run of neighbours.
///
/// # Safety
/// As for [`Narrow::finish`], of all runs.
#[vectorized]
unsafe fn lines<R: Numbers, A: Sums, E: Cells<R>>(
    narrow: &Narrow, rows: &[[i64; 5]], line: &Line<'_>, sums: *const *const u8,
) {
    let (first, last) = (&line.runs[0], &line.runs[line.runs.len() - 1]);
    let len = (last.lane + last.len - first.lane) as usize;
    let bias_step = line.bias_step as isize;
    let in_place = line.runs.len() == 1 && first.by[0] == 1;
    // SAFETY: every run of every row has its sums and operands.
    unsafe {
        for (m, row) in rows.iter().enumerate() {
            let sums = sums.add(m).read().cast::<A>();
            let at = |run: &Run| narrow.dst.cast::<E>().wrapping_offset((row[0] + run.at[0]) as isize);
            let bias = narrow.bias.wrapping_offset((row[4] + first.at[4]) as isize);
            let place = |i: usize| (sums.add(i), bias.wrapping_offset(i as isize * bias_step));
            let mut i = 0;
            if in_place {
                let to = at(first);
                while i + R::LANES <= len {
                    E::store(to.add(i), narrow.some::<R, A>(line, place(i), R::LANES));
                    i += R::LANES;
                }
                if i < len && len >= R::LANES {
                    // Some of those before as well.
                    i = len - R::LANES;
                    E::store(to.add(i), narrow.some::<R, A>(line, place(i), R::LANES));
                    i = len;
                }
            }
            if i == len {
                continue;
            }
            let mut cells = [const { MaybeUninit::<E>::uninit() }; MAX_NR + LANES];
            let cells = cells.as_mut_ptr().cast::<E>();
            for i in (0..len).step_by(R::LANES) {
                E::store(cells.add(i), narrow.some::<R, A>(line, place(i), R::LANES.min(len - i)));
            }
            for run in line.runs {
                let (from, to) = (cells.add((run.lane - first.lane) as usize), at(run));
                put(from, to, run.len as usize, run.by[0] as isize);
            }
        }
    }
}

/// The most numbers of a vector.
const LANES: usize = 16;

/// A few cells to places so far apart.
///
/// # Safety
/// The cells are readable, and apart from their places.
#[inline(always)]
unsafe fn put<E: Copy>(from: *const E, to: *mut E, len: usize, apart: isize) {
    /// Blocks of which the last overlaps the one before, where there are enough cells.
    #[inline(always)]
    unsafe fn blocks<B: Copy>(from: *const u8, to: *mut u8, bytes: usize) -> bool {
        let block = size_of::<B>();
        if bytes < block {
            return false;
        }
        let mut at = 0;
        while at < bytes {
            at = at.min(bytes - block);
            // SAFETY: no block goes beyond `bytes`, which are readable on one side and writable on the other.
            unsafe { to.add(at).cast::<B>().write_unaligned(from.add(at).cast::<B>().read_unaligned()) };
            at += block;
        }
        true
    }
    // SAFETY: `len` cells are readable, and have places that far apart.
    unsafe {
        let bytes = len * size_of::<E>();
        let (source, target) = (from.cast::<u8>(), to.cast::<u8>());
        let done = (apart == 1 || len == 1)
            && (blocks::<[u64; 2]>(source, target, bytes)
                || blocks::<u64>(source, target, bytes)
                || blocks::<u32>(source, target, bytes));
        if !done {
            (0..len).for_each(|k| to.wrapping_offset(k as isize * apart).write(from.add(k).read()));
        }
    }
}

/// The kernels of one type of sums and one of elements.
const fn tiles<S: Tiled, E: Cells<__m256>>() -> [Tile; MR] {
    [tile::<S, E, 1>, tile::<S, E, 2>, tile::<S, E, 3>, tile::<S, E, 4>, tile::<S, E, 5>, tile::<S, E, 6>]
}

/// Vectors of sums as numbers of binary32.
trait Tiled: Simd {
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
unsafe fn tile<S: Tiled, E: Cells<__m256>, const M: usize>(narrow: &Narrow, panel: *const (), ends: &Ends) {
    const { assert!(S::NV == 2 && S::L == EIGHT) };
    // SAFETY: the ends have a row for each of the tile, and the processor has what its kernels need.
    unsafe {
        for to in &ends.to[..M] {
            Avx2Single::prefetch::<1>(to.cast());
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
                let x = narrow.finished::<__m256>(S::numbers(sum), bias, ends.bias_step, EIGHT);
                E::store(ends.to[m].cast::<E>().add(n * EIGHT), x);
                n += 1;
            }
            m += 1;
        }
    }
}

impl Narrow {
    /// What becomes of `count` sums of a line, with the bias from a place on.
    ///
    /// # Safety
    /// They are readable, and as many terms of the bias; the processor has such registers.
    #[inline(always)]
    unsafe fn some<R: Numbers, A: Sums>(
        &self, line: &Line<'_>, (mut sums, bias): (*const A, *const f32), count: usize,
    ) -> R {
        let mut few = [A::ZERO; LANES];
        // SAFETY: `count` sums are readable, and terms of the bias.
        unsafe {
            if count < R::LANES && !line.is_padded {
                few.as_mut_ptr().copy_from_nonoverlapping(sums, count);
                sums = few.as_ptr();
            }
            self.finished::<R>(A::load(sums), bias, line.bias_step as isize, count)
        }
    }

    /// What becomes of a vector of sums, of which `count` are there.
    ///
    /// # Safety
    /// As many terms of the bias are readable, and the processor has such registers.
    #[inline(always)]
    unsafe fn finished<R: Numbers>(&self, sums: R, bias: *const f32, bias_step: isize, count: usize) -> R {
        // SAFETY: the bias has as many terms as there are lanes.
        unsafe {
            let mut x = R::splat(self.alpha).mul(sums);
            if self.has_bias {
                let term = if bias_step == 0 {
                    R::splat(bias.read())
                } else if bias_step == 1 && count == R::LANES {
                    R::load(bias)
                } else {
                    let mut some = [0.0; LANES];
                    for (k, term) in some[..count].iter_mut().enumerate() {
                        *term = bias.wrapping_offset(k as isize * bias_step).read();
                    }
                    R::load(some.as_ptr())
                };
                x = x.add(term);
            }
            match self.clip {
                Some((rule, ceiling)) => x.clip(rule, ceiling),
                None => x,
            }
        }
    }
}
