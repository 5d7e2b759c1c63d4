//! Whole tiles of sums in binary32 that leave from the registers of the kernel: factors, further
//! terms, bias and a clip, in the order in which [`F32Epilogue`] has them, and so with its bits.

use std::any::TypeId;
#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::float32x4_t;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use cudnn_shim_macros::vectorized;

use super::binary32::F32Epilogue;
use super::numbers::Numbers;
use super::run::{EIGHT, Run};
#[cfg(target_arch = "aarch64")]
use crate::backend::cpu::contract::kernel::simd::NeonSingle;
#[cfg(target_arch = "x86_64")]
use crate::backend::cpu::contract::kernel::simd::{Avx2Single, Avx512Single};
use crate::backend::cpu::contract::kernel::simd::{MAX_NR, MR, Simd};
use crate::backend::cpu::contract::kernel::{Panel, accumulate};
use crate::backend::cpu::stream::fetch;

/// A kernel whose sums leave as elements of the destination.
type Tile = unsafe fn(&F32Epilogue, &Panel<f32>, &Ends<'_>);

/// The kernels of a level.
pub struct Tiles {
    /// By rows, and by half or whole width.
    tiles: [[Tile; 2]; MR],
    /// The same for lanes in [`Blocks`].
    in_blocks: [[Tile; 2]; MR],
    /// Lanes of half the width.
    half: usize,
}

/// Where the rows of a tile end, and what they meet there.
pub struct Ends<'a> {
    pub to: [*mut f32; MR],
    pub z: [*const f32; MR],
    pub bias: [*const f32; MR],
    /// Whether there is a term of the bias for each lane, not one for each row.
    pub is_bias_along: bool,
    /// The sums to which these are added.
    pub before: Option<&'a [*mut f32; MR]>,
    /// Where lanes are, if they are no neighbours.
    pub blocks: Option<&'a Blocks>,
}

/// How far every eight lanes of a tile are from its first one, in the destination, in z and in the
/// bias: channels in blocks.
pub struct Blocks([[isize; MAX_NR / EIGHT]; 3]);

/// Unused when lanes are contiguous.
static NEIGHBOURS: Blocks = Blocks([[0; MAX_NR / EIGHT]; 3]);

impl Blocks {
    /// Of the runs of a tile, if they are eights of lanes that are [even](is_even), with none
    /// between them.
    pub fn of(f32_epilogue: &F32Epilogue, runs: &[Run]) -> Option<Blocks> {
        let (first, mut blocks) = (runs.first()?, [[0; MAX_NR / EIGHT]; 3]);
        let mut end = 0;
        for run in runs {
            let (lane, len) = (run.lane as usize, run.len as usize);
            let follows = lane == end && lane.is_multiple_of(EIGHT) && len.is_multiple_of(EIGHT);
            // One term of the bias is that of all lanes.
            let is_one = run.by[4] == 0 && run.at[4] == first.at[4];
            let bias = run.by[4] == first.by[4] && (run.by[4] == 1 || is_one);
            if !follows || !is_even(f32_epilogue, &run.by) || f32_epilogue.has_bias && !bias {
                return None;
            }
            end = lane + len;
            for (blocks, slot) in blocks.iter_mut().zip([0, 3, 4]) {
                for (number, at) in blocks[lane / EIGHT..end / EIGHT].iter_mut().enumerate() {
                    *at = (run.at[slot] - first.at[slot]) as isize + (number * EIGHT) as isize;
                }
            }
        }
        Some(Blocks(blocks))
    }
}

impl<'a> Ends<'a> {
    /// Nowhere yet.
    #[inline(always)]
    pub fn new(is_bias_along: bool, before: Option<&'a [*mut f32; MR]>) -> Ends<'a> {
        let (to, none) = ([std::ptr::null_mut(); MR], [std::ptr::null(); MR]);
        Ends { to, z: none, bias: none, is_bias_along, before, blocks: None }
    }

    /// The ends of some rows, whose lanes are a run that is [even](is_even).
    #[inline(always)]
    pub fn of(
        f32_epilogue: &F32Epilogue, rows: &[[i64; 5]], run: &Run, before: Option<&'a [*mut f32; MR]>,
    ) -> Ends<'a> {
        let mut ends = Ends::new(run.by[4] == 1, before);
        let mut m = 0;
        while m < rows.len().min(MR) {
            let row = &rows[m];
            ends.to[m] = f32_epilogue.dst.wrapping_offset((row[0] + run.at[0]) as isize);
            ends.z[m] = f32_epilogue.z.wrapping_offset((row[3] + run.at[3]) as isize);
            ends.bias[m] = f32_epilogue.bias.wrapping_offset((row[4] + run.at[4]) as isize);
            m += 1;
        }
        ends
    }
}

/// Whether lanes so far apart in the operands are neighbours wherever sums meet them, or meet one
/// term of the bias.
#[inline(always)]
pub fn is_even(f32_epilogue: &F32Epilogue, by: &[i64; 5]) -> bool {
    let [to, .., z, bias] = *by;
    to == 1 && (f32_epilogue.alpha2 == 0.0 || z == 1) && (!f32_epilogue.has_bias || bias == 0 || bias == 1)
}

/// Registers whose numbers come and go eight at a time, or less.
pub trait Eights: Numbers {
    /// # Safety
    /// As for [`Numbers::load`], of up to eight numbers as far from `from` as the first of `at`,
    /// and eight more by the second one, if it holds them.
    unsafe fn gather(from: *const f32, at: [isize; 2]) -> Self;

    /// # Safety
    /// The same, writable.
    unsafe fn scatter(self, to: *mut f32, at: [isize; 2]);
}

#[cfg(target_arch = "x86_64")]
impl Eights for __m256 {
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn gather(from: *const f32, at: [isize; 2]) -> Self {
        // SAFETY: eight numbers are there at every distance that a register has.
        unsafe { _mm256_loadu_ps(from.wrapping_offset(at[0])) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn scatter(self, to: *mut f32, at: [isize; 2]) {
        // SAFETY: eight numbers are there at every distance that a register has.
        unsafe { _mm256_storeu_ps(to.wrapping_offset(at[0]), self) }
    }
}

#[cfg(target_arch = "x86_64")]
impl Eights for __m512 {
    #[target_feature(enable = "avx512f,avx512dq")]
    #[inline]
    unsafe fn gather(from: *const f32, at: [isize; 2]) -> Self {
        // SAFETY: eight numbers are there at every distance that a register has.
        unsafe {
            let low = _mm512_castps256_ps512(_mm256_loadu_ps(from.wrapping_offset(at[0])));
            _mm512_insertf32x8::<1>(low, _mm256_loadu_ps(from.wrapping_offset(at[1])))
        }
    }

    #[target_feature(enable = "avx512f,avx512dq")]
    #[inline]
    unsafe fn scatter(self, to: *mut f32, at: [isize; 2]) {
        // SAFETY: eight numbers are there at every distance that a register has.
        unsafe {
            _mm256_storeu_ps(to.wrapping_offset(at[0]), _mm512_castps512_ps256(self));
            _mm256_storeu_ps(to.wrapping_offset(at[1]), _mm512_extractf32x8_ps::<1>(self));
        }
    }
}

#[cfg(target_arch = "aarch64")]
impl Eights for float32x4_t {
    #[inline(always)]
    unsafe fn gather(from: *const f32, at: [isize; 2]) -> Self {
        // SAFETY: four numbers are there at the first distance.
        unsafe { Self::load(from.wrapping_offset(at[0])) }
    }

    #[inline(always)]
    unsafe fn scatter(self, to: *mut f32, at: [isize; 2]) {
        // SAFETY: four numbers are there at the first distance.
        unsafe { self.put(to.wrapping_offset(at[0])) }
    }
}

macro_rules! tiles {
    ($S:ident, $level:ident, $half:literal, $whole:literal) => {
        Tiles {
            tiles: tiles!($S, $level, $half, $whole, false),
            in_blocks: tiles!($S, $level, $half, $whole, true),
            half: $half * $S::L,
        }
    };
    ($S:ident, $level:ident, $half:literal, $whole:literal, $apart:literal) => {
        [
            [tile::$level::<$S, 1, $half, $apart>, tile::$level::<$S, 1, $whole, $apart>],
            [tile::$level::<$S, 2, $half, $apart>, tile::$level::<$S, 2, $whole, $apart>],
            [tile::$level::<$S, 3, $half, $apart>, tile::$level::<$S, 3, $whole, $apart>],
            [tile::$level::<$S, 4, $half, $apart>, tile::$level::<$S, 4, $whole, $apart>],
            [tile::$level::<$S, 5, $half, $apart>, tile::$level::<$S, 5, $whole, $apart>],
            [tile::$level::<$S, 6, $half, $apart>, tile::$level::<$S, 6, $whole, $apart>],
        ]
    };
}

/// The kernels for vectors of `S`, if there are some.
#[cfg(target_arch = "aarch64")]
pub fn tiles<S: Simd>() -> Option<&'static Tiles> {
    static NEON: Tiles = tiles!(NeonSingle, portable, 2, 4);
    (TypeId::of::<S>() == TypeId::of::<NeonSingle>()).then_some(&NEON)
}

/// The kernels for vectors of `S`, if there are some.
#[cfg(target_arch = "x86_64")]
pub fn tiles<S: Simd>() -> Option<&'static Tiles> {
    static AVX2: Tiles = tiles!(Avx2Single, avx2, 1, 2);
    static AVX512: Tiles = tiles!(Avx512Single, avx512, 2, 4);
    match TypeId::of::<S>() {
        of if of == TypeId::of::<Avx2Single>() => Some(&AVX2),
        of if of == TypeId::of::<Avx512Single>() => Some(&AVX512),
        _ => None,
    }
}

/// Computes a whole tile, whose lanes are half of the registers' or all, and stores its results.
///
/// # Safety
/// As for [`F32Epilogue::epilogue`], for every row; the panel is one of cells in binary32, good for
/// as many rows, and so are the sums before. The processor has the vectors of the kernels.
#[inline(always)]
pub unsafe fn tile_epilogue<C>(
    tiles: &Tiles, f32_epilogue: &F32Epilogue, panel: &Panel<C>, [rows, lanes]: [usize; 2], ends: &Ends<'_>,
) {
    let tiles_of = if ends.blocks.is_some() { &tiles.in_blocks } else { &tiles.tiles };
    let tile = tiles_of[rows - 1][usize::from(lanes > tiles.half)];
    // SAFETY: the panel has cells in binary32 for all rows, and the processor has the vectors.
    unsafe { tile(f32_epilogue, &*(&raw const *panel).cast::<Panel<f32>>(), ends) }
}

/// # Safety
/// As for [`tile_epilogue`], with `M` rows of `N` vectors, in blocks if `BLOCKED`; the processor
/// has what the kernels need.
#[vectorized]
unsafe fn tile<
    S: Simd<KGroup = f32, Acc = f32, V: Eights>,
    const M: usize,
    const N: usize,
    const BLOCKED: bool,
>(
    f32_epilogue: &F32Epilogue, panel: &Panel<f32>, ends: &Ends<'_>,
) {
    // SAFETY: the rows of the tile have whole vectors of operands, and the processor has what the
    // kernels need.
    unsafe {
        let blocks = if BLOCKED { ends.blocks.unwrap_or(&NEIGHBOURS) } else { &NEIGHBOURS };
        let mut m = 0;
        while m < M {
            // They are needed when the loop is done.
            if BLOCKED {
                let Blocks([to, z, _]) = blocks;
                for block in 0..N * S::L / EIGHT {
                    fetch(ends.to[m].wrapping_offset(to[block]).cast());
                    if f32_epilogue.alpha2 != 0.0 {
                        fetch(ends.z[m].wrapping_offset(z[block]).cast());
                    }
                }
                // Two rows of eight numbers are a line.
                m += 2;
            } else {
                S::prefetch::<N>(ends.to[m]);
                if f32_epilogue.alpha2 != 0.0 {
                    S::prefetch::<N>(ends.z[m]);
                }
                m += 1;
            }
        }
        let mut acc = accumulate::<S, M, N>(panel);
        if let Some(before) = ends.before {
            let mut m = 0;
            while m < M {
                let mut n = 0;
                while n < N {
                    acc[m][n] = S::add(S::load_acc((*before)[m].add(n * S::L)), acc[m][n]);
                    n += 1;
                }
                m += 1;
            }
        }
        epilogue_at::<_, M, N, BLOCKED>(f32_epilogue, acc, ends, blocks);
    }
}

/// Puts what becomes of the sums of some rows where it belongs: side by side.
///
/// # Safety
/// As for [`F32Epilogue::epilogue`], for every row; the processor has such registers.
#[inline(always)]
pub unsafe fn epilogue<R: Eights, const M: usize, const N: usize>(
    f32_epilogue: &F32Epilogue, x: [[R; N]; M], ends: &Ends<'_>,
) {
    // SAFETY: every row has whole vectors of operands.
    unsafe { epilogue_at::<R, M, N, false>(f32_epilogue, x, ends, &NEIGHBOURS) }
}

/// The same, in blocks if `BLOCKED`.
///
/// # Safety
/// As for [`epilogue`].
#[inline(always)]
unsafe fn epilogue_at<R: Eights, const M: usize, const N: usize, const BLOCKED: bool>(
    f32_epilogue: &F32Epilogue, mut x: [[R; N]; M], ends: &Ends<'_>, blocks: &Blocks,
) {
    /// Where the lanes of a vector are.
    macro_rules! at {
        ($slot:literal, $n:ident) => {{
            let (lane, within) = ($n * R::LANES, ($n * R::LANES % EIGHT) as isize);
            let [first, last] = [lane / EIGHT, (lane + R::LANES - 1) / EIGHT];
            [blocks.0[$slot][first] + within, blocks.0[$slot][last] + within]
        }};
    }
    macro_rules! load {
        ($from:expr, $slot:literal, $n:ident) => {
            if BLOCKED { R::gather($from, at!($slot, $n)) } else { R::load($from.add($n * R::LANES)) }
        };
    }
    /// Does something with every vector. Loops of an iterator, and closures, would keep them in
    /// memory.
    macro_rules! each {
        (|$m:ident, $n:ident| $do:expr) => {
            let mut $m = 0;
            while $m < M {
                let mut $n = 0;
                while $n < N {
                    $do;
                    $n += 1;
                }
                $m += 1;
            }
        };
    }
    // SAFETY: every row has whole vectors of operands.
    unsafe {
        if f32_epilogue.alpha != 1.0 {
            let alpha = R::splat(f32_epilogue.alpha);
            each!(|m, n| x[m][n] = x[m][n].mul(alpha));
        }
        if f32_epilogue.beta != 0.0 {
            let beta = R::splat(f32_epilogue.beta);
            each!(|m, n| {
                let old = load!(ends.to[m], 0, n);
                x[m][n] = x[m][n].add(beta.mul(old));
            });
        }
        if f32_epilogue.alpha2 != 0.0 {
            let alpha2 = R::splat(f32_epilogue.alpha2);
            each!(|m, n| {
                let z = load!(ends.z[m], 1, n);
                x[m][n] = x[m][n].add(alpha2.mul(z));
            });
        }
        if f32_epilogue.has_bias && ends.is_bias_along {
            each!(|m, n| x[m][n] = x[m][n].add(load!(ends.bias[m], 2, n)));
        } else if f32_epilogue.has_bias {
            each!(|m, n| x[m][n] = x[m][n].add(R::splat(ends.bias[m].read())));
        }
        if let Some((rule, ceiling)) = f32_epilogue.clip {
            each!(|m, n| x[m][n] = x[m][n].clip(rule, ceiling));
        } else {
            each!(|m, n| x[m][n] = x[m][n].unless_nan(x[m][n]));
        }
        each!(|m, n| {
            if BLOCKED {
                x[m][n].scatter(ends.to[m], at!(0, n));
            } else {
                x[m][n].put(ends.to[m].add(n * R::LANES));
            }
        });
    }
}
