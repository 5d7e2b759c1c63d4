//! Whole tiles of sums in binary32 that leave from the registers of the kernel: factors, further terms, bias and a clip, in the order
//! in which [`Simple`] has them, and so with its bits.

use std::any::TypeId;
use std::arch::x86_64::*;

use super::narrow::Numbers;
use super::run::Run;
use super::simple::Simple;
use crate::backend::cpu::Isa;
use crate::backend::cpu::contract::kernel::simd::{Avx2Single, MR, Simd};
use crate::backend::cpu::contract::kernel::{Panel, sums};

/// A kernel whose sums leave as elements of the destination.
type Tile = unsafe fn(&Simple, &Panel<f32>, &Ends<'_>);

/// The kernels, by rows and by half or whole width.
pub type Tiles = [[Tile; 2]; MR];

/// Lanes of a vector, and vectors of a tile.
const L: usize = Avx2Single::L;
const WIDTH: usize = Avx2Single::NV;

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

    /// Of some rows, whose lanes are a run that is [even](is_even).
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

/// The kernels for vectors of `S`, if there are some. With AVX-512 sums go through memory.
pub fn tiles<S: Simd>(isa: Isa) -> Option<&'static Tiles> {
    static TILES: Tiles = [
        [tile::<1, 1>, tile::<1, WIDTH>],
        [tile::<2, 1>, tile::<2, WIDTH>],
        [tile::<3, 1>, tile::<3, WIDTH>],
        [tile::<4, 1>, tile::<4, WIDTH>],
        [tile::<5, 1>, tile::<5, WIDTH>],
        [tile::<6, 1>, tile::<6, WIDTH>],
    ];
    (TypeId::of::<S>() == TypeId::of::<Avx2Single>() && isa.has_avx2()).then_some(&TILES)
}

/// Computes a whole tile, whose lanes are half of the registers' or all, and stores its results.
///
/// # Safety
/// As for [`Simple::finish`], for every row; the panel is one of cells in binary32, good for as many rows, and so are the sums before.
#[inline(always)]
pub unsafe fn finish_tile<C>(
    tiles: &Tiles, simple: &Simple, panel: &Panel<C>, [rows, lanes]: [usize; 2], ends: &Ends<'_>,
) {
    let tile = tiles[rows - 1][usize::from(lanes > L)];
    // SAFETY: the caller's promise; the cells are binary32.
    unsafe { tile(simple, &*(&raw const *panel).cast::<Panel<f32>>(), ends) }
}

/// # Safety
/// As for [`finish_tile`], with `M` rows of `N` vectors; the processor has what the kernels need.
#[target_feature(enable = "avx2,fma")]
unsafe fn tile<const M: usize, const N: usize>(simple: &Simple, panel: &Panel<f32>, ends: &Ends<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut m = 0;
        while m < M {
            // They are needed when the loop is done.
            Avx2Single::prefetch(ends.to[m]);
            Avx2Single::prefetch(ends.to[m].wrapping_add(N * L - 1));
            if simple.alpha2 != 0.0 {
                Avx2Single::prefetch(ends.z[m]);
                Avx2Single::prefetch(ends.z[m].wrapping_add(N * L - 1));
            }
            m += 1;
        }
        let mut sums = sums::<Avx2Single, M, N>(panel);
        if let Some(before) = ends.before {
            let mut m = 0;
            while m < M {
                let mut n = 0;
                while n < N {
                    sums[m][n] = _mm256_add_ps(_mm256_loadu_ps((*before)[m].add(n * L)), sums[m][n]);
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
/// As for [`Simple::finish`], for every row; the processor has AVX2.
#[inline(always)]
pub unsafe fn finish<const M: usize, const N: usize>(
    simple: &Simple, mut x: [[__m256; N]; M], ends: &Ends<'_>,
) {
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
    // SAFETY: the caller's promise.
    unsafe {
        if simple.alpha != 1.0 {
            let alpha = _mm256_set1_ps(simple.alpha);
            each!(|m, n| x[m][n] = _mm256_mul_ps(x[m][n], alpha));
        }
        if simple.beta != 0.0 {
            let beta = _mm256_set1_ps(simple.beta);
            each!(|m, n| {
                let old = _mm256_loadu_ps(ends.to[m].add(n * L));
                x[m][n] = _mm256_add_ps(x[m][n], _mm256_mul_ps(beta, old));
            });
        }
        if simple.alpha2 != 0.0 {
            let alpha2 = _mm256_set1_ps(simple.alpha2);
            each!(|m, n| {
                let z = _mm256_loadu_ps(ends.z[m].add(n * L));
                x[m][n] = _mm256_add_ps(x[m][n], _mm256_mul_ps(alpha2, z));
            });
        }
        if simple.has_bias && ends.is_bias_along {
            each!(|m, n| x[m][n] = _mm256_add_ps(x[m][n], _mm256_loadu_ps(ends.bias[m].add(n * L))));
        } else if simple.has_bias {
            each!(|m, n| x[m][n] = _mm256_add_ps(x[m][n], _mm256_set1_ps(ends.bias[m].read())));
        }
        if let Some((rule, ceiling)) = simple.clip {
            each!(|m, n| x[m][n] = x[m][n].clip(rule, ceiling));
        }
        each!(|m, n| _mm256_storeu_ps(ends.to[m].add(n * L), x[m][n]));
    }
}
