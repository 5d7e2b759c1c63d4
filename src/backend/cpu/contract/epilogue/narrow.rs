//! The end of sums that are finished in binary32 and stored in a narrower type, where the epilogue is simple: runs are short, so
//! that what a call costs matters, and all of one is compiled for AVX2 or AVX-512. With AVX2 whole tiles are finished in the
//! registers of the kernel; else the lines of a tile are, with all their runs.

mod tiles;

use cudnn_shim_macros::vectorized;

use std::arch::x86_64::*;

use std::any::TypeId;
use std::mem::MaybeUninit;

pub use self::tiles::Ends;
use self::tiles::{Tile, tiles};
use super::run::{Clip, Run, clip};
use crate::backend::cpu::Isa;
use crate::backend::cpu::contract::kernel::Panel;
use crate::backend::cpu::contract::kernel::simd::{Avx2Int, Avx2Single, MAX_NR, MR, Simd};
use crate::backend::cpu::wide::{Cells, Register};
use crate::dtype::Scalar;
use crate::dtype::convert::{Element, convert};
use crate::ops::contract::{Accumulate, Contract};
use crate::ops::{Compute, NanRule};

/// `alpha * sum + alpha2 * z + bias`, clipped or not.
#[derive(Clone, Copy)]
pub struct Narrow {
    dst: *mut u8,
    /// Of the type of the destination, if `alpha2` is not 0.
    z: *const u8,
    bias: *const u8,
    /// Bytes of an element of the destination.
    size: isize,
    /// Bytes of a term of the bias, in binary32 or in the type of the destination; 0 if there is none.
    bias_size: isize,
    alpha: f32,
    alpha2: f32,
    is_plain: bool,
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

// SAFETY: addresses; tasks write disjoint elements.
unsafe impl Sync for Narrow {}

impl Narrow {
    /// For a destination, z and a bias at these addresses, if the epilogue of the step is that simple.
    pub fn of(step: &Contract, [dst, z, bias]: [*mut u8; 3], isa: Isa) -> Option<Narrow> {
        let epilogue = &step.epilogue;
        let clip = clip(epilogue.activation)?;
        let plain = epilogue.scaling.beta == 0.0
            && epilogue.z.is_none_or(|(z, alpha2)| z == step.dst || alpha2 == 0.0)
            && epilogue.bias.is_none_or(|bias| bias == Scalar::F32 || bias == step.dst);
        if !plain || !isa.has_avx2() || step.real() != Compute::Single {
            return None;
        }
        let alpha2 = epilogue.z.map_or(0.0, |(_, alpha2)| alpha2 as f32);
        let is_plain = alpha2 == 0.0 && epilogue.bias.is_none_or(|bias| bias == Scalar::F32);
        macro_rules! of {
            ($A:ty, $E:ty) => {
                match (isa.has_avx512(), is_plain) {
                    (true, true) => lines::avx512::<__m512, $A, $E, true> as Lines,
                    (true, false) => lines::avx512::<__m512, $A, $E, false> as Lines,
                    (false, true) => lines::avx2::<__m256, $A, $E, true> as Lines,
                    (false, false) => lines::avx2::<__m256, $A, $E, false> as Lines,
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
            (Accumulate::Single, Scalar::F16) => Some((single, tiles::<Avx2Single, half::f16>(is_plain))),
            (Accumulate::Single, Scalar::Bf16) => Some((single, tiles::<Avx2Single, half::bf16>(is_plain))),
            (Accumulate::Single, Scalar::I8) => Some((single, tiles::<Avx2Single, i8>(is_plain))),
            (Accumulate::Int32, Scalar::I8) => Some((int, tiles::<Avx2Int, i8>(is_plain))),
            _ => None,
        };
        Some(Narrow {
            dst,
            z,
            bias,
            size: step.dst.size() as isize,
            bias_size: epilogue.bias.map_or(0, |bias| bias.size() as isize),
            alpha: epilogue.scaling.alpha as f32,
            alpha2,
            is_plain,
            clip,
            lines,
            tiles,
        })
    }

    /// Whether there are kernels that finish whole tiles of these vectors.
    #[inline(always)]
    pub fn ends_tiles<S: Simd>(&self) -> bool {
        self.tiles.as_ref().is_some_and(|(of, _)| *of == TypeId::of::<S>())
    }

    /// Whether there is no z, and no bias of another type than binary32: what kernels of this end are told as `PLAIN`.
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Whether lanes so far apart in the operands are neighbours in what is added to them.
    #[inline(always)]
    pub fn is_even(&self, by: &[i64; 5]) -> bool {
        self.alpha2 == 0.0 || by[3] == 1
    }

    /// The ends of some rows, whose lanes are the run, which is [even](Narrow::is_even).
    #[inline(always)]
    pub fn ends(&self, rows: &[[i64; 5]], run: &Run, before: Option<(*const u8, usize)>) -> Ends {
        let (to, none) = ([std::ptr::null_mut(); MR], [std::ptr::null(); MR]);
        let mut ends = Ends { to, z: none, bias: none, bias_step: run.by[4] as isize, before };
        for (m, row) in rows.iter().enumerate().take(MR) {
            let at = |slot: usize| (row[slot] + run.at[slot]) as isize;
            ends.to[m] = self.dst.wrapping_offset(at(0) * self.size);
            if self.alpha2 != 0.0 {
                ends.z[m] = self.z.wrapping_offset(at(3) * self.size);
            }
            ends.bias[m] = self.bias.wrapping_offset(at(4) * self.bias_size);
        }
        ends
    }

    /// Computes a whole tile with as many rows as `ends`, and stores its results.
    ///
    /// # Safety
    /// There are kernels for it; the panel is good for as many rows as `ends` has, whose elements are writable, those
    /// of z and the terms of the bias readable if there are some, and the sums that came before, each for a whole tile.
    #[inline(always)]
    pub unsafe fn finish_tile<S: Simd>(&self, panel: &Panel<S::Cell>, rows: usize, ends: &Ends) {
        if let Some((_, tiles)) = &self.tiles {
            // SAFETY: the caller's promise; the kernel is one for panels of `S`.
            unsafe { tiles[rows - 1](self, (&raw const *panel).cast(), ends) };
        }
    }

    /// Finishes the sums of one run.
    ///
    /// # Safety
    /// Every element of dst is writable; every one of z and of the bias is readable, if there is one; all are aligned. The sums are as
    /// many as the run has, of the type of the step that this was made for.
    #[inline(always)]
    pub unsafe fn finish(&self, row: &[i64; 5], run: &Run, sums: *const u8) {
        let most = if run.by[0] == 1 && self.is_even(&run.by) { run.len } else { MAX_NR as u32 };
        let mut begin = 0;
        while begin < run.len {
            let at = std::array::from_fn(|k| run.at[k] + i64::from(begin) * run.by[k]);
            let some = Run { lane: 0, len: most.min(run.len - begin), at, by: run.by };
            let line = Line { runs: &[some], bias_step: run.by[4], is_padded: false };
            // All sums have four bytes.
            let from = sums.wrapping_add(begin as usize * size_of::<f32>());
            // SAFETY: the caller's promise; the processor has what the function was chosen by.
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
        // SAFETY: the caller's promise; as above.
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
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn of(from: *const i32) -> Self {
        // SAFETY: the caller's promise.
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
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn of(from: *const i32) -> Self {
        // SAFETY: the caller's promise.
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
        // SAFETY: the caller's promise.
        unsafe { R::load(from) }
    }
}

impl Sums for i32 {
    const ZERO: i32 = 0;

    #[inline(always)]
    unsafe fn load<R: Numbers>(from: *const i32) -> R {
        // SAFETY: the caller's promise.
        unsafe { R::of(from) }
    }
}

/// Finishes a line of some rows, whose sums begin at `sums[m]`: in vectors, whatever the lengths of its runs. At most
/// [`MAX_NR`] sums, if they are not one run of neighbours.
///
/// # Safety
/// As for [`Narrow::finish`], of all runs.
#[vectorized]
unsafe fn lines<R: Numbers, A: Sums, E: Cells<R>, const PLAIN: bool>(
    narrow: &Narrow, rows: &[[i64; 5]], line: &Line<'_>, sums: *const *const u8,
) {
    let (first, last) = (&line.runs[0], &line.runs[line.runs.len() - 1]);
    let len = (last.lane + last.len - first.lane) as usize;
    let bias_size = narrow.bias_size_of::<PLAIN>();
    let bias_step = line.bias_step as isize * bias_size;
    let in_place = line.runs.len() == 1 && first.by[0] == 1 && (PLAIN || narrow.is_even(&first.by));
    // SAFETY: every run of every row has its sums and operands.
    unsafe {
        for (m, row) in rows.iter().enumerate() {
            let sums = sums.add(m).read().cast::<A>();
            let at = |run: &Run| narrow.dst.cast::<E>().wrapping_offset((row[0] + run.at[0]) as isize);
            let z_of = |run: &Run| narrow.z.cast::<E>().wrapping_offset((row[3] + run.at[3]) as isize);
            let bias = narrow.bias.wrapping_offset((row[4] + first.at[4]) as isize * bias_size);
            // No closure: one that is called twice has no vectors.
            macro_rules! some {
                ($z:expr, $i:expr, $count:expr) => {{
                    let (z, bias) = ($z.wrapping_add($i), bias.wrapping_offset($i as isize * bias_step));
                    narrow.some::<R, A, E, PLAIN>(line, (sums.add($i), z, bias), $count)
                }};
            }
            if in_place && len >= R::LANES {
                let (to, z) = (at(first), z_of(first));
                // Some of those before as well: computed before those are written, where z may lie.
                let (end, overlaps) = (len - R::LANES, !len.is_multiple_of(R::LANES));
                let last = if overlaps && !PLAIN { some!(z, end, R::LANES) } else { R::splat(0.0) };
                let mut i = 0;
                while i <= end {
                    E::store(to.add(i), some!(z, i, R::LANES));
                    i += R::LANES;
                }
                if overlaps {
                    E::store(to.add(end), if PLAIN { some!(z, end, R::LANES) } else { last });
                }
                continue;
            }
            let mut added = [const { MaybeUninit::<E>::uninit() }; MAX_NR + LANES];
            let added = added.as_mut_ptr().cast::<E>();
            if !PLAIN && narrow.alpha2 != 0.0 {
                added.write_bytes(0, MAX_NR + LANES);
                for run in line.runs {
                    let (from, to) = (z_of(run), added.add((run.lane - first.lane) as usize));
                    for k in 0..run.len as usize {
                        to.add(k).write(from.wrapping_offset(k as isize * run.by[3] as isize).read());
                    }
                }
            }
            let mut cells = [const { MaybeUninit::<E>::uninit() }; MAX_NR + LANES];
            let cells = cells.as_mut_ptr().cast::<E>();
            for i in (0..len).step_by(R::LANES) {
                E::store(cells.add(i), some!(added, i, R::LANES.min(len - i)));
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
            // SAFETY: the caller's promise.
            unsafe { to.add(at).cast::<B>().write_unaligned(from.add(at).cast::<B>().read_unaligned()) };
            at += block;
        }
        true
    }
    // SAFETY: the caller's promise.
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

impl Narrow {
    /// What becomes of `count` sums of a line, with z and the bias from a place on.
    ///
    /// # Safety
    /// They are readable, and as many terms of the bias, and a vector of z; the processor has such registers.
    #[inline(always)]
    unsafe fn some<R: Numbers, A: Sums, E: Cells<R>, const PLAIN: bool>(
        &self, line: &Line<'_>, (mut sums, z, bias): (*const A, *const E, *const u8), count: usize,
    ) -> R {
        let mut few = [A::ZERO; LANES];
        // SAFETY: `count` sums are readable, and terms of the bias.
        unsafe {
            if count < R::LANES && !line.is_padded {
                few.as_mut_ptr().copy_from_nonoverlapping(sums, count);
                sums = few.as_ptr();
            }
            self.finished::<R, E, PLAIN>(A::load(sums), z, (bias, line.bias_step as isize), count)
        }
    }

    /// Bytes of a term of the bias, if there is one: where the end is plain, a constant, with which offsets are no products.
    #[inline(always)]
    fn bias_size_of<const PLAIN: bool>(&self) -> isize {
        if PLAIN { size_of::<f32>() as isize } else { self.bias_size }
    }

    /// A term of the bias, in binary32 or in the type of the destination.
    ///
    /// # Safety
    /// It is readable, and `E` is the type of the destination.
    #[inline(always)]
    unsafe fn term<E: Element>(at: *const u8, single: bool) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { if single { at.cast::<f32>().read() } else { convert(at.cast::<E>().read()) } }
    }

    /// What becomes of a vector of sums, of which `count` are there.
    ///
    /// # Safety
    /// As many terms of the bias are readable, and a vector of z; the processor has such registers.
    #[inline(always)]
    unsafe fn finished<R: Numbers, E: Cells<R>, const PLAIN: bool>(
        &self, sums: R, z: *const E, (bias, bias_step): (*const u8, isize), count: usize,
    ) -> R {
        // SAFETY: the bias has as many terms as there are lanes, and z a vector.
        unsafe {
            let mut x = R::splat(self.alpha).mul(sums);
            if !PLAIN && self.alpha2 != 0.0 {
                x = x.add(R::splat(self.alpha2).mul(E::load(z)));
            }
            if self.bias_size != 0 {
                let single = PLAIN || self.bias_size == size_of::<f32>() as isize;
                let terms = if bias_step == 0 {
                    R::splat(Narrow::term::<E>(bias, single))
                } else if bias_step == 1 && count == R::LANES {
                    if single { R::load(bias.cast()) } else { E::load(bias.cast()) }
                } else {
                    let mut some = [0.0; LANES];
                    for (k, to) in some[..count].iter_mut().enumerate() {
                        let at = bias.wrapping_offset(k as isize * bias_step * self.bias_size_of::<PLAIN>());
                        *to = Narrow::term::<E>(at, single);
                    }
                    R::load(some.as_ptr())
                };
                x = x.add(terms);
            }
            match self.clip {
                Some((rule, ceiling)) => x.clip(rule, ceiling),
                None => x,
            }
        }
    }
}
