//! Conversions of several cells at a time, with instructions that the compiler does not find by itself: binary16 and
//! bfloat16 to and from binary32, and saturating to bytes. Everything goes through binary32, which holds every value of these types;
//! the table of [`convert`](crate::dtype::convert) is kept to the last bit.

pub(super) mod avx2;
pub(super) mod avx512;

use super::stream::Distance;
use crate::dtype::convert::Element;
use crate::ops::Scaling;

/// Numbers that the widest register holds.
const MOST_LANES: usize = 32;

/// A vector register of binary32.
pub(super) trait Register: Copy {
    /// Numbers that it holds.
    const LANES: usize;

    /// # Safety
    /// The processor has such registers; so for all functions.
    unsafe fn splat(x: f32) -> Self;

    /// # Safety
    /// As for [`splat`](Self::splat).
    unsafe fn mul(self, x: Self) -> Self;

    /// # Safety
    /// As for [`splat`](Self::splat).
    unsafe fn add(self, x: Self) -> Self;
}

/// An element whose cells come and go as many at a time as a register holds numbers.
pub(super) trait Cells<R: Register>: Element {
    /// # Safety
    /// So many cells are readable there, and the processor has the instructions.
    unsafe fn load(from: *const Self) -> R;

    /// The numbers, converted by the table.
    ///
    /// # Safety
    /// So many cells are writable there, and the processor has the instructions.
    unsafe fn store(to: *mut Self, x: R);
}

/// As [`Row`](super::row::Row), for these types: inlined where the processor is known to have the registers.
///
/// # Safety
/// As for [`Row`](super::row::Row).
#[inline(always)]
pub(super) unsafe fn row<R: Register, S: Cells<R>, D: Cells<R>, const SCALES: bool, const BLENDS: bool>(
    dst: *mut u8,
    src: *const u8,
    n: usize,
    scaling: Scaling,
) {
    let (dst, src) = (dst.cast::<D>(), src.cast::<S>());
    let in_place = dst.addr() == src.addr();
    // SAFETY: cells below n. Those of a register are read before they are written, so that in-place runs are right as well.
    unsafe {
        let (alpha, beta) = (R::splat(scaling.alpha as f32), R::splat(scaling.beta as f32));
        let register = register::<R, S, D, SCALES, BLENDS>;
        let rest = n % R::LANES;
        for i in (0..n - rest).step_by(R::LANES) {
            let (from, to) = (src.add(i), dst.add(i));
            // Hints, whatever the addresses.
            if !in_place {
                Distance::Read.fetch(from.cast(), R::LANES * size_of::<S>());
            }
            let of_dst = if in_place || BLENDS { Distance::Updated } else { Distance::Written };
            of_dst.fetch(to.cast(), R::LANES * size_of::<D>());
            register(to, from, alpha, beta);
        }
        if rest == 0 {
            return;
        }
        if n > R::LANES && !in_place && !BLENDS {
            // Some cells twice.
            return register(dst.add(n - R::LANES), src.add(n - R::LANES), alpha, beta);
        }
        let (from, to) = (src.add(n - rest), dst.add(n - rest));
        let (mut of_src, mut of_dst) = ([S::ZERO; MOST_LANES], [D::ZERO; MOST_LANES]);
        of_src.as_mut_ptr().copy_from_nonoverlapping(from, rest);
        if BLENDS {
            of_dst.as_mut_ptr().copy_from_nonoverlapping(to, rest);
        }
        register(of_dst.as_mut_ptr(), of_src.as_ptr(), alpha, beta);
        to.copy_from_nonoverlapping(of_dst.as_ptr(), rest);
    }
}

/// A register of cells.
///
/// # Safety
/// As for [`row`].
#[inline(always)]
unsafe fn register<R: Register, S: Cells<R>, D: Cells<R>, const SCALES: bool, const BLENDS: bool>(
    to: *mut D,
    from: *const S,
    alpha: R,
    beta: R,
) {
    // SAFETY: handed on.
    unsafe {
        let mut x = S::load(from);
        if SCALES {
            x = alpha.mul(x);
        }
        if BLENDS {
            x = x.add(beta.mul(D::load(to)));
        }
        D::store(to, x);
    }
}
