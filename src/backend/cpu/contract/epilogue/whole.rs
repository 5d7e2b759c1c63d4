//! Whole tiles of sums in binary32 that leave from the registers of the kernel: factors, further terms, bias and a clip, in the order
//! in which [`Simple`] has them, and so with its bits.

use std::any::TypeId;

use cudnn_shim_macros::vectorized;

use super::narrow::Numbers;
use super::run::Run;
use super::simple::Simple;
use crate::backend::cpu::contract::kernel::simd::{Avx2Single, Avx512Single, MR, Simd};
use crate::backend::cpu::contract::kernel::{Panel, sums};
use crate::backend::cpu::wide::Cells;

/// A kernel whose sums leave as elements of the destination.
type Tile = unsafe fn(&Simple, &Panel<f32>, &Ends<'_>);

/// The kernels of a level.
pub struct Tiles {
    /// By rows, and by half or whole width.
    tiles: [[Tile; 2]; MR],
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
}

impl<'a> Ends<'a> {
    /// Nowhere yet.
    #[inline(always)]
    pub fn new(is_bias_along: bool, before: Option<&'a [*mut f32; MR]>) -> Ends<'a> {
        let (to, none) = ([std::ptr::null_mut(); MR], [std::ptr::null(); MR]);
        Ends { to, z: none, bias: none, is_bias_along, before }
    }

    /// The ends of some rows, whose lanes are a run that is [even](is_even).
    #[inline(always)]
    pub fn of(simple: &Simple, rows: &[[i64; 5]], run: &Run, before: Option<&'a [*mut f32; MR]>) -> Ends<'a> {
        let mut ends = Ends::new(run.by[4] == 1, before);
        let mut m = 0;
        while m < rows.len().min(MR) {
            let row = &rows[m];
            ends.to[m] = simple.dst.wrapping_offset((row[0] + run.at[0]) as isize);
            ends.z[m] = simple.z.wrapping_offset((row[3] + run.at[3]) as isize);
            ends.bias[m] = simple.bias.wrapping_offset((row[4] + run.at[4]) as isize);
            m += 1;
        }
        ends
    }
}

/// Whether lanes so far apart in the operands are neighbours wherever sums meet them, or meet one term of the bias.
#[inline(always)]
pub fn is_even(simple: &Simple, by: &[i64; 5]) -> bool {
    let [to, .., z, bias] = *by;
    to == 1 && (simple.alpha2 == 0.0 || z == 1) && (!simple.has_bias || bias == 0 || bias == 1)
}

macro_rules! tiles {
    ($S:ident, $level:ident, $half:literal, $whole:literal) => {
        Tiles {
            tiles: [
                [tile::$level::<$S, 1, $half>, tile::$level::<$S, 1, $whole>],
                [tile::$level::<$S, 2, $half>, tile::$level::<$S, 2, $whole>],
                [tile::$level::<$S, 3, $half>, tile::$level::<$S, 3, $whole>],
                [tile::$level::<$S, 4, $half>, tile::$level::<$S, 4, $whole>],
                [tile::$level::<$S, 5, $half>, tile::$level::<$S, 5, $whole>],
                [tile::$level::<$S, 6, $half>, tile::$level::<$S, 6, $whole>],
            ],
            half: $half * $S::L,
        }
    };
}

/// The kernels for vectors of `S`, if there are some.
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
/// As for [`Simple::finish`], for every row; the panel is one of cells in binary32, good for as many rows, and so are the sums before.
/// The processor has the vectors of the kernels.
#[inline(always)]
pub unsafe fn finish_tile<C>(
    tiles: &Tiles, simple: &Simple, panel: &Panel<C>, [rows, lanes]: [usize; 2], ends: &Ends<'_>,
) {
    let tile = tiles.tiles[rows - 1][usize::from(lanes > tiles.half)];
    // SAFETY: the panel has cells in binary32 for all rows, and the processor has the vectors.
    unsafe { tile(simple, &*(&raw const *panel).cast::<Panel<f32>>(), ends) }
}

/// # Safety
/// As for [`finish_tile`], with `M` rows of `N` vectors; the processor has what the kernels need.
#[vectorized]
unsafe fn tile<S: Simd<Cell = f32, Sum = f32, V: Numbers>, const M: usize, const N: usize>(
    simple: &Simple, panel: &Panel<f32>, ends: &Ends<'_>,
) where
    f32: Cells<S::V>,
{
    // SAFETY: the rows of the tile have whole vectors of operands, and the processor has what the kernels need.
    unsafe {
        let mut m = 0;
        while m < M {
            // They are needed when the loop is done.
            S::prefetch::<N>(ends.to[m]);
            if simple.alpha2 != 0.0 {
                S::prefetch::<N>(ends.z[m]);
            }
            m += 1;
        }
        let mut sums = sums::<S, M, N>(panel);
        if let Some(before) = ends.before {
            let mut m = 0;
            while m < M {
                let mut n = 0;
                while n < N {
                    sums[m][n] = S::add(S::load_sum((*before)[m].add(n * S::L)), sums[m][n]);
                    n += 1;
                }
                m += 1;
            }
        }
        finish(simple, sums, ends);
    }
}

/// Puts what becomes of the sums of some rows where it belongs.
///
/// # Safety
/// As for [`Simple::finish`], for every row; the processor has such registers.
#[inline(always)]
pub unsafe fn finish<R: Numbers, const M: usize, const N: usize>(
    simple: &Simple, mut x: [[R; N]; M], ends: &Ends<'_>,
) where
    f32: Cells<R>,
{
    /// Does something with every vector. Loops of an iterator, and closures, would keep them in memory.
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
        if simple.alpha != 1.0 {
            let alpha = R::splat(simple.alpha);
            each!(|m, n| x[m][n] = x[m][n].mul(alpha));
        }
        if simple.beta != 0.0 {
            let beta = R::splat(simple.beta);
            each!(|m, n| {
                let old = R::load(ends.to[m].add(n * R::LANES));
                x[m][n] = x[m][n].add(beta.mul(old));
            });
        }
        if simple.alpha2 != 0.0 {
            let alpha2 = R::splat(simple.alpha2);
            each!(|m, n| {
                let z = R::load(ends.z[m].add(n * R::LANES));
                x[m][n] = x[m][n].add(alpha2.mul(z));
            });
        }
        if simple.has_bias && ends.is_bias_along {
            each!(|m, n| x[m][n] = x[m][n].add(R::load(ends.bias[m].add(n * R::LANES))));
        } else if simple.has_bias {
            each!(|m, n| x[m][n] = x[m][n].add(R::splat(ends.bias[m].read())));
        }
        if let Some((rule, ceiling)) = simple.clip {
            each!(|m, n| x[m][n] = x[m][n].clip(rule, ceiling));
        }
        each!(|m, n| f32::store(ends.to[m].add(n * R::LANES), x[m][n]));
    }
}
