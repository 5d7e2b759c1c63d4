//! The end of sums that are finished in binary32 and stored in a narrower type, where the epilogue
//! is simple: runs are short, so that the cost of a call matters, and all that a call does is
//! compiled for AVX2, AVX-512 or NEON. But for AVX-512 whole tiles with a bias in binary32 or none
//! are finished in the registers of the kernel; else the lines of a tile are, with all their runs:
//! by one function for each type of results, which asks while it runs what is added to sums of
//! which type.

mod line;

use std::any::TypeId;
#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

pub use self::line::Line;
use self::line::{Lines, gathered, lines};
use super::numbers::Numbers;
use super::run::{Clip, Run, clip};
use crate::backend::cpu::Isa;
use crate::backend::cpu::contract::kernel::simd::{Int, MAX_NR, MR, Simd, Single, Vector};
use crate::backend::cpu::contract::kernel::{Panel, accumulate};
use crate::backend::cpu::row::Row;
use crate::backend::cpu::wide::{Cells, Register};
use crate::dtype::Scalar;
use crate::ops::Compute;
use crate::ops::Scaling;
use crate::ops::contract::{Accumulate, Contract};

/// Vectors that a row of a whole tile is finished in.
const VECTORS: usize = Single::NV;

/// `alpha * sum + alpha2 * z + bias`, clipped or not.
#[derive(Clone, Copy)]
pub struct NarrowEpilogue {
    dst: *mut u8,
    /// Of the type of the destination, if it is added.
    z: *const u8,
    bias: *const u8,
    /// Bytes of an element of the destination.
    size: isize,
    /// Bytes of a term of the bias, in binary32 or in the type of the destination; 0 if there is
    /// none.
    bias_size: isize,
    alpha: f32,
    alpha2: f32,
    adds_z: bool,
    /// Whether sums are integers, else they are binary32.
    is_int: bool,
    /// See [`NarrowEpilogue::ends_channels`].
    of_channels: bool,
    clip: Clip,
    lines: Lines,
    /// The kernels that finish whole tiles, by the number of rows, and the type of their vectors.
    tiles: Option<(TypeId, [Tile; MR])>,
}

/// A kernel whose sums leave as elements of the destination; the panel is one of the type that it
/// was made for.
type Tile = unsafe fn(&NarrowEpilogue, *const (), &Ends);

/// Where the rows of a tile end.
pub struct Ends {
    to: [*mut u8; MR],
    bias: [*const f32; MR],
    bias_step: isize,
    /// The sums of the first row to which these are added, and bytes to the next one's.
    before: Option<(*const u8, usize)>,
}

// SAFETY: addresses; tasks write disjoint elements.
unsafe impl Sync for NarrowEpilogue {}

impl NarrowEpilogue {
    /// For a destination, z and a bias at these addresses, if the epilogue of the step is that
    /// simple.
    pub fn of(step: &Contract, [dst, z, bias]: [*mut u8; 3], isa: Isa) -> Option<NarrowEpilogue> {
        let epilogue = &step.epilogue;
        let clip = clip(epilogue.activation)?;
        let alpha2 = epilogue.z.map_or(0.0, |(_, alpha2)| alpha2);
        let adds_z = alpha2 != 0.0;
        let is_simple = epilogue.scaling.beta == 0.0
            && epilogue.z.is_none_or(|(z, _)| !adds_z || z == step.dst)
            && epilogue.bias.is_none_or(|bias| bias == Scalar::F32 || bias == step.dst);
        if !is_simple || !isa.has_vectors() || step.real() != Compute::Single {
            return None;
        }
        #[cfg(target_arch = "x86_64")]
        macro_rules! of {
            ($E:ty) => {
                if isa.has_avx512() {
                    lines::avx512::<__m512, $E> as Lines
                } else {
                    lines::avx2::<__m256, $E> as Lines
                }
            };
        }
        #[cfg(target_arch = "aarch64")]
        macro_rules! of {
            ($E:ty) => {
                lines::portable::<float32x4_t, $E> as Lines
            };
        }
        let is_int = step.accumulate == Accumulate::Int32;
        let lines = match (step.accumulate, step.dst) {
            (Accumulate::Single | Accumulate::Int32, Scalar::F16) => of!(half::f16),
            (Accumulate::Single, Scalar::Bf16) => of!(half::bf16),
            (Accumulate::Single | Accumulate::Int32, Scalar::I8) => of!(i8),
            (Accumulate::Single | Accumulate::Int32, Scalar::U8) => of!(u8),
            (Accumulate::Int32, Scalar::F32) => of!(f32),
            _ => return None,
        };
        let is_plain = !adds_z && epilogue.bias.is_none_or(|bias| bias == Scalar::F32);
        let (single, int) = (TypeId::of::<Single>(), TypeId::of::<Int>());
        let tiles = match (step.accumulate, step.dst) {
            (Accumulate::Single, Scalar::F16) => Some((single, tiles::<Single, half::f16>())),
            (Accumulate::Single, Scalar::Bf16) => Some((single, tiles::<Single, half::bf16>())),
            (Accumulate::Single, Scalar::I8) => Some((single, tiles::<Single, i8>())),
            (Accumulate::Int32, Scalar::I8) => Some((int, tiles::<Int, i8>())),
            _ => None,
        };
        Some(NarrowEpilogue {
            dst,
            z,
            bias,
            size: step.dst.size() as isize,
            bias_size: epilogue.bias.map_or(0, |bias| bias.size() as isize),
            alpha: epilogue.scaling.alpha as f32,
            alpha2: alpha2 as f32,
            adds_z,
            is_int,
            of_channels: !is_int && !adds_z && matches!(step.dst, Scalar::F16 | Scalar::Bf16 | Scalar::I8),
            clip,
            lines,
            tiles: tiles.filter(|_| is_plain),
        })
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
            bias[m] = self.bias.cast::<f32>().wrapping_offset((row[4] + run.at[4]) as isize);
        }
        Ends { to, bias, bias_step: run.by[4] as isize, before }
    }

    /// Computes a whole tile with as many rows as `ends`, and stores its results.
    ///
    /// # Safety
    /// There are kernels for it; the panel is good for as many rows as `ends` has, whose elements
    /// are writable, the terms of the bias readable if there is one, and the sums that came before,
    /// each for a whole tile.
    #[inline(always)]
    pub unsafe fn tile_epilogue<S: Simd>(&self, panel: &Panel<S::KGroup>, rows: usize, ends: &Ends) {
        if let Some((_, tiles)) = &self.tiles {
            // SAFETY: the kernel is one for panels of `S`, and `ends` has an end for each of the
            // rows.
            unsafe { tiles[rows - 1](self, (&raw const *panel).cast(), ends) };
        }
    }

    /// Finishes the sums of one run.
    ///
    /// # Safety
    /// Every element of dst is writable; every one of z and every term of the bias is readable, if
    /// there is one; all are aligned. The sums are as many as the run has, of the type of the step
    /// that this was made for.
    #[inline(never)]
    pub unsafe fn epilogue(&self, row: &[i64; 5], run: &Run, acc: *const u8) {
        let some = |run: &Run, acc: *const u8| {
            let line = Line { runs: std::slice::from_ref(run), bias_step: run.by[4], is_padded: false };
            // SAFETY: the run has its sums and operands, and the processor has what the function
            // was chosen by.
            unsafe { (self.lines)(self, std::slice::from_ref(row), &line, &acc) };
        };
        if self.is_in_place(run) {
            return some(run, acc);
        }
        for begin in (0..run.len).step_by(MAX_NR) {
            let at = std::array::from_fn(|k| run.at[k] + i64::from(begin) * run.by[k]);
            let len = (run.len - begin).min(MAX_NR as u32);
            // All sums have four bytes.
            some(&Run { lane: 0, len, at, by: run.by }, acc.wrapping_add(begin as usize * size_of::<f32>()));
        }
    }

    /// Whether the results of a run are neighbours, and what is added to them from z.
    #[inline(always)]
    fn is_in_place(&self, run: &Run) -> bool {
        run.by[0] == 1 && (!self.adds_z || run.by[3] == 1)
    }

    /// Finishes the sums of some rows of a tile: of row m from `acc[m]` on.
    ///
    /// # Safety
    /// As for [`epilogue`](NarrowEpilogue::epilogue); after the last run sums are readable up to a
    /// whole vector.
    #[inline(always)]
    pub unsafe fn lines_epilogue(&self, rows: &[[i64; 5]], line: &Line<'_>, acc: *const *const u8) {
        // SAFETY: every row has the elements of the line, and the processor has what the function
        // was chosen by.
        unsafe { (self.lines)(self, rows, line, acc) }
    }
}

/// The kernels of one type of sums and one of elements.
const fn tiles<S: Tiled, E: Cells<Vector>>() -> [Tile; MR] {
    [tile::<S, E, 1>, tile::<S, E, 2>, tile::<S, E, 3>, tile::<S, E, 4>, tile::<S, E, 5>, tile::<S, E, 6>]
}

/// Vectors of sums as numbers of binary32.
trait Tiled: Simd {
    /// # Safety
    /// The processor has such vectors.
    unsafe fn numbers(acc: Self::V) -> Vector;
}

impl Tiled for Single {
    #[inline(always)]
    unsafe fn numbers(acc: Vector) -> Vector {
        acc
    }
}

impl Tiled for Int {
    #[inline(always)]
    unsafe fn numbers(acc: Self::V) -> Vector {
        // SAFETY: the caller has the instructions.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            _mm256_cvtepi32_ps(acc)
        }
        // SAFETY: NEON belongs to the architecture.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            vcvtq_f32_s32(acc)
        }
    }
}

/// # Safety
/// As for [`NarrowEpilogue::tile_epilogue`], with a [`Panel`] of `S`; the processor has what its
/// kernels need.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
unsafe fn tile<S: Tiled, E: Cells<Vector>, const M: usize>(
    narrow: &NarrowEpilogue, panel: *const (), ends: &Ends,
) {
    const { assert!(S::NV == VECTORS && S::L == Vector::LANES) };
    // SAFETY: the ends have a row for each of the tile, and the processor has what its kernels
    // need.
    unsafe {
        for to in &ends.to[..M] {
            Single::prefetch::<1>(to.cast());
        }
        let acc = accumulate::<S, M, VECTORS>(&*panel.cast::<Panel<S::KGroup>>());
        let mut m = 0;
        while m < M {
            let mut n = 0;
            while n < VECTORS {
                let (mut sum, lane) = (acc[m][n], n * Vector::LANES);
                if let Some((before, apart)) = ends.before {
                    sum = S::add(S::load_acc(before.add(m * apart).cast::<S::Acc>().add(lane)), sum);
                }
                let bias = ends.bias[m].wrapping_offset(lane as isize * ends.bias_step);
                let x = narrow.finished(S::numbers(sum), bias, ends.bias_step);
                E::store(ends.to[m].cast::<E>().add(lane), x);
                n += 1;
            }
            m += 1;
        }
    }
}

/// Vectors of sums that leave from registers.
impl NarrowEpilogue {
    /// Whether sums in binary32 may leave as vectors of neighbours: nothing is added to them but a
    /// bias.
    pub fn ends_channels(&self) -> bool {
        self.of_channels
    }

    /// Whether there is a bias.
    pub fn has_bias(&self) -> bool {
        self.bias_size != 0
    }

    /// Terms of the bias from an offset on, in binary32: where they lie, or in the room, to which
    /// `load` converts them.
    ///
    /// # Safety
    /// There are as many, if there is a bias, and room for them; `load` converts elements of the
    /// destination.
    pub unsafe fn terms(&self, at: isize, count: usize, room: *mut f32, load: Row) -> *const f32 {
        let from = self.bias.wrapping_offset(at * self.bias_size);
        if self.bias_size == 0 || self.bias_size == size_of::<f32>() as isize {
            return from.cast();
        }
        // SAFETY: there is a bias, with as many terms, and room for them.
        unsafe { load(room.cast(), from, count, Scaling::MOVE) };
        room
    }

    /// Stores what becomes of some vectors of `M` rows, which lie `apart` in the destination, with
    /// the same terms of the bias.
    ///
    /// # Safety
    /// The elements are writable, and the terms readable if there is a bias; sums [may leave
    /// so](Narrow::ends_channels), `E` is the type of the destination, and the processor has such
    /// vectors.
    #[inline(always)]
    pub unsafe fn vectors_epilogue<E: Cells<Vector>, const M: usize, const N: usize>(
        &self, acc: [[Vector; N]; M], to: *mut E, apart: isize, bias: *const f32,
    ) {
        let mut m = 0;
        while m < M {
            let mut n = 0;
            while n < N {
                let lane = n * Vector::LANES;
                // SAFETY: every row has a vector of elements there, with as many terms of the bias
                // if there is one.
                unsafe {
                    let x = self.finished(acc[m][n], bias.wrapping_add(lane), 1);
                    E::store(to.offset(m as isize * apart).add(lane), x);
                }
                n += 1;
            }
            m += 1;
        }
    }

    /// Where an element of the destination is, whose type is `E`.
    pub fn result<E>(&self, at: isize) -> *mut E {
        self.dst.cast::<E>().wrapping_offset(at)
    }

    /// What becomes of a vector of sums, to which nothing is added but a bias in binary32.
    ///
    /// # Safety
    /// As many terms of the bias are readable, and the processor has such vectors.
    #[inline(always)]
    unsafe fn finished(&self, acc: Vector, bias: *const f32, bias_step: isize) -> Vector {
        // SAFETY: the bias has as many terms as there are lanes.
        unsafe {
            let mut x = Vector::splat(self.alpha).mul(acc);
            if self.bias_size != 0 {
                x = x.add(match bias_step {
                    0 => Vector::splat(bias.read()),
                    1 => Vector::load(bias),
                    _ => {
                        let (size, apart) = (self.bias_size, bias_step * self.bias_size);
                        Vector::load(gathered::<f32>(bias.cast(), size, apart, Vector::LANES).as_ptr())
                    }
                });
            }
            match self.clip {
                Some((rule, ceiling)) => x.clip(rule, ceiling),
                None => x,
            }
        }
    }
}
