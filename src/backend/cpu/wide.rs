//! Conversions of several cells at a time, with instructions that the compiler does not find by
//! itself: binary16 and bfloat16 to and from binary32, and saturating to bytes. Everything goes
//! through binary32, which holds every value of these types; the table of
//! [`convert`](crate::dtype::convert) is kept to the last bit.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(super) mod neon;
pub(super) mod strips;

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::float32x4_t;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m512};

use super::stream::Distance;
use crate::dtype::convert::Element;
use crate::ops::Scaling;

/// Numbers that the widest register holds.
const MOST_LANES: usize = 16;

/// Registers of numbers that are converted at a time where there are cells enough: they fill at
/// least one register of cells.
const TOGETHER: usize = 4;

/// A vector register of binary32.
pub(super) trait Register: Copy {
    /// Numbers that it holds.
    const LANES: usize;

    /// A register of cells, as wide.
    type Bits: Copy;

    /// # Safety
    /// The processor has such registers; so for all functions.
    unsafe fn splat(x: f32) -> Self;

    /// # Safety
    /// As for [`splat`](Self::splat).
    unsafe fn mul(self, x: Self) -> Self;

    /// # Safety
    /// As for [`splat`](Self::splat).
    unsafe fn add(self, x: Self) -> Self;

    /// The numbers, and NaN as the table has it where `of` is NaN.
    ///
    /// # Safety
    /// As for [`splat`](Self::splat).
    unsafe fn unless_nan(self, of: Self) -> Self;
}

/// An element whose cells come and go as many at a time as a register holds numbers.
pub(super) trait Cells<R: Register>: Element {
    /// # Safety
    /// As many cells as the register holds are readable there, and the processor has the
    /// instructions.
    unsafe fn load(from: *const Self) -> R;

    /// The numbers, converted by the table.
    ///
    /// # Safety
    /// As many cells as the register holds are writable there, and the processor has the
    /// instructions.
    unsafe fn store(to: *mut Self, x: R);

    /// The first numbers, converted by the table: as many as fill a register of cells.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn cells(x: [R; TOGETHER]) -> R::Bits;
}

/// An element of which this holds at every instruction set level that has such instructions.
#[cfg(target_arch = "x86_64")]
pub(super) trait Wide: Cells<__m256> + Cells<__m512> {}
#[cfg(target_arch = "x86_64")]
impl<T: Cells<__m256> + Cells<__m512>> Wide for T {}

/// The same.
#[cfg(target_arch = "aarch64")]
pub(super) trait Wide: Cells<float32x4_t> {}
#[cfg(target_arch = "aarch64")]
impl<T: Cells<float32x4_t>> Wide for T {}

/// As [`Row`](super::row::Row), for these types: inlined where the processor is known to have the
/// registers.
///
/// # Safety
/// As for [`Row`](super::row::Row).
#[inline(always)]
pub(super) unsafe fn row<R: Register, S: Cells<R>, D: Cells<R>, const SCALES: bool, const BLENDS: bool>(
    dst: *mut u8, src: *const u8, n: usize, scaling: Scaling,
) {
    let (dst, src) = (dst.cast::<D>(), src.cast::<S>());
    let in_place = dst.addr() == src.addr();
    // SAFETY: cells below n. Those of a register are read before they are written, so that in-place
    // runs are right as well.
    unsafe {
        let (alpha, beta) = (R::splat(scaling.alpha as f32), R::splat(scaling.beta as f32));
        let numbers = numbers::<R, S, D, SCALES, BLENDS>;
        // Hints, whatever the addresses.
        let fetch = |to: *const D, from: *const S, cells: usize| {
            if !in_place {
                Distance::Read.fetch(from.cast(), cells * size_of::<S>());
            }
            let of_dst = if in_place || BLENDS { Distance::Updated } else { Distance::Written };
            of_dst.fetch(to.cast(), cells * size_of::<D>());
        };
        // The last register overlaps the one before it where it has to: it is computed before
        // anything is written, for that may change what it reads.
        let overlaps = n > R::LANES && !n.is_multiple_of(R::LANES);
        let end = n.wrapping_sub(R::LANES);
        let last = if overlaps { numbers(dst.add(end), src.add(end), alpha, beta) } else { alpha };
        let mut done = 0;
        while n - done >= TOGETHER * R::LANES {
            let (from, to) = (src.add(done), dst.add(done));
            fetch(to, from, TOGETHER * R::LANES);
            let mut x = [alpha; TOGETHER];
            for (k, x) in x.iter_mut().enumerate() {
                *x = numbers(to.add(k * R::LANES), from.add(k * R::LANES), alpha, beta);
            }
            store(to, x);
            done += TOGETHER * R::LANES;
        }
        while n - done >= R::LANES {
            let (from, to) = (src.add(done), dst.add(done));
            fetch(to, from, R::LANES);
            D::store(to, numbers(to, from, alpha, beta));
            done += R::LANES;
        }
        if done == n {
            return;
        }
        if overlaps {
            return D::store(dst.add(end), last);
        }
        const { assert!(R::LANES <= MOST_LANES) };
        let (from, to, rest) = (src.add(done), dst.add(done), n - done);
        let (mut of_src, mut of_dst) = ([S::ZERO; MOST_LANES], [D::ZERO; MOST_LANES]);
        of_src.as_mut_ptr().copy_from_nonoverlapping(from, rest);
        if BLENDS {
            of_dst.as_mut_ptr().copy_from_nonoverlapping(to, rest);
        }
        let x = numbers(of_dst.as_ptr(), of_src.as_ptr(), alpha, beta);
        D::store(of_dst.as_mut_ptr(), x);
        to.copy_from_nonoverlapping(of_dst.as_ptr(), rest);
    }
}

/// What becomes of a register of cells, before it is converted.
///
/// # Safety
/// As for [`row`].
#[inline(always)]
unsafe fn numbers<R: Register, S: Cells<R>, D: Cells<R>, const SCALES: bool, const BLENDS: bool>(
    to: *const D, from: *const S, alpha: R, beta: R,
) -> R {
    // SAFETY: a register of cells is readable.
    unsafe {
        let x = S::load(from);
        let x = if SCALES { alpha.mul(x) } else { x };
        if BLENDS { x.add(beta.mul(D::load(to))) } else { x }
    }
}

/// Stores registers of numbers as whole registers of cells.
///
/// # Safety
/// As for [`Cells::store`].
#[inline(always)]
unsafe fn store<R: Register, D: Cells<R>>(to: *mut D, x: [R; TOGETHER]) {
    let numbers = TOGETHER / size_of::<D>();
    for k in (0..TOGETHER).step_by(numbers) {
        let mut first = x;
        first[..numbers].copy_from_slice(&x[k..k + numbers]);
        // SAFETY: a register of cells is writable.
        unsafe { to.add(k * R::LANES).cast::<R::Bits>().write_unaligned(D::cells(first)) }
    }
}
