//! Contiguous runs of cells, of every pair of run-time types: a loop of its own for common ones,
//! strips of numbers for others.

mod strips;

#[cfg(target_arch = "x86_64")]
use cudnn_shim_macros::vectorized;

use super::Isa;
#[cfg(target_arch = "x86_64")]
use super::stream::Distance;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::wide::Wide;
#[cfg(target_arch = "aarch64")]
use super::wide::neon;
#[cfg(target_arch = "x86_64")]
use super::wide::{avx2, avx512};
use crate::dtype::Scalar;
#[cfg(target_arch = "x86_64")]
use crate::dtype::convert::{Bool, E4m3, E5m2, blend, convert, scale};
use crate::dtype::convert::{Element, with_element};
use crate::ops::{Scaling, Transform};

/// `dst[i] = convert(alpha * src[i] + beta * dst[i])` for `i < n`.
///
/// # Safety
/// `n` cells of either type are readable at `src` and writable at `dst` (readable too if
/// `beta != 0`), both aligned to their scalar. They do not overlap unless they start at one address
/// and their cells are of one size. The processor has the instructions of the [`Isa`] that the
/// function was chosen for.
pub(super) type Row = unsafe fn(dst: *mut u8, src: *const u8, n: usize, scaling: Scaling);

/// The row function of a transform.
pub(super) fn row(transform: &Transform, isa: Isa) -> Row {
    between(transform.src, transform.dst, transform.scaling, isa)
}

/// The row function from one type to another.
pub(super) fn between(src: Scalar, dst: Scalar, scaling: Scaling, isa: Isa) -> Row {
    with_element!(dst, D => with_element!(src, S => pick::<S, D>(scaling, isa)))
}

fn pick<S: Element, D: Element>(scaling: Scaling, isa: Isa) -> Row {
    if scaling.is_move() {
        if S::SCALAR == D::SCALAR {
            return move_cells::<D>;
        }
        return pick_isa::<S, D, CONVERT>(isa);
    }
    if scaling.beta == 0.0 { pick_isa::<S, D, SCALE>(isa) } else { pick_isa::<S, D, BLEND>(isa) }
}

fn pick_isa<S: Element, D: Element, const MODE: u8>(isa: Isa) -> Row {
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx512() {
        return wide_row::<MODE>(S::SCALAR, D::SCALAR, isa)
            .or_else(|| direct_row::<MODE>(S::SCALAR, D::SCALAR, isa))
            .unwrap_or_else(strips::avx512::row::<S, D, MODE>);
    } else if isa.has_avx2() {
        return wide_row::<MODE>(S::SCALAR, D::SCALAR, isa)
            .or_else(|| direct_row::<MODE>(S::SCALAR, D::SCALAR, isa))
            .unwrap_or_else(strips::avx2::row::<S, D, MODE>);
    }
    #[cfg(target_arch = "aarch64")]
    if let Some(row) = isa.has_neon().then(|| wide_row::<MODE>(S::SCALAR, D::SCALAR, isa)).flatten() {
        return row;
    }
    let _ = isa;
    strips::portable::row::<S, D, MODE>()
}

/// The row function of pairs that compilers find good instructions for: types that processors know,
/// and 8-bit floats with binary32. Of the others a strip takes as long. Pre: the processor has
/// AVX2.
#[cfg(target_arch = "x86_64")]
fn direct_row<const MODE: u8>(src: Scalar, dst: Scalar, isa: Isa) -> Option<Row> {
    fn of<S: Element, D: Element, const MODE: u8>(isa: Isa) -> Row {
        if isa.has_avx512() { cells::avx512::<S, D, MODE> } else { cells::avx2::<S, D, MODE> }
    }
    macro_rules! from {
        ($S:ty $(, $scalar:ident $D:ty)*) => {
            match dst {
                Scalar::F32 => of::<$S, f32, MODE>(isa),
                Scalar::F64 => of::<$S, f64, MODE>(isa),
                Scalar::I32 => of::<$S, i32, MODE>(isa),
                Scalar::I64 => of::<$S, i64, MODE>(isa),
                Scalar::I8 => of::<$S, i8, MODE>(isa),
                Scalar::U8 => of::<$S, u8, MODE>(isa),
                Scalar::Bool => of::<$S, Bool, MODE>(isa),
                $(Scalar::$scalar => of::<$S, $D, MODE>(isa),)*
                _ => return None,
            }
        };
    }
    Some(match src {
        Scalar::F32 => from!(f32, E4m3 E4m3, E5m2 E5m2),
        Scalar::F64 => from!(f64),
        Scalar::I32 => from!(i32),
        Scalar::I64 => from!(i64),
        Scalar::I8 => from!(i8),
        Scalar::U8 => from!(u8),
        Scalar::Bool => from!(Bool),
        Scalar::E4m3 if dst == Scalar::F32 => of::<E4m3, f32, MODE>(isa),
        Scalar::E5m2 if dst == Scalar::F32 => of::<E5m2, f32, MODE>(isa),
        _ => return None,
    })
}

/// The row function of types that have instructions of their own. Pre: the processor has AVX2, or
/// NEON.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn wide_row<const MODE: u8>(src: Scalar, dst: Scalar, isa: Isa) -> Option<Row> {
    #[cfg(target_arch = "aarch64")]
    fn of<S: Wide, D: Wide, const MODE: u8>(_: Isa) -> Row {
        match MODE {
            CONVERT => neon::row::<S, D, false, false>,
            SCALE => neon::row::<S, D, true, false>,
            _ => neon::row::<S, D, true, true>,
        }
    }
    #[cfg(target_arch = "x86_64")]
    fn of<S: Wide, D: Wide, const MODE: u8>(isa: Isa) -> Row {
        match (MODE, isa.has_avx512()) {
            (CONVERT, true) => avx512::row::<S, D, false, false>,
            (SCALE, true) => avx512::row::<S, D, true, false>,
            (_, true) => avx512::row::<S, D, true, true>,
            (CONVERT, false) => avx2::row::<S, D, false, false>,
            (SCALE, false) => avx2::row::<S, D, true, false>,
            (_, false) => avx2::row::<S, D, true, true>,
        }
    }
    macro_rules! from {
        ($S:ty) => {
            match dst {
                Scalar::F32 => of::<$S, f32, MODE>(isa),
                Scalar::F16 => of::<$S, half::f16, MODE>(isa),
                Scalar::Bf16 => of::<$S, half::bf16, MODE>(isa),
                Scalar::I8 => of::<$S, i8, MODE>(isa),
                Scalar::U8 => of::<$S, u8, MODE>(isa),
                _ => return None,
            }
        };
    }
    Some(match src {
        #[cfg(target_arch = "x86_64")]
        Scalar::F32 if dst == Scalar::Bf16 && isa.has_avx512_bf16() => match MODE {
            CONVERT => avx512::narrow_to_bf16::<false>,
            SCALE => avx512::narrow_to_bf16::<true>,
            _ => from!(f32),
        },
        Scalar::F32 => from!(f32),
        Scalar::F16 => from!(half::f16),
        Scalar::Bf16 => from!(half::bf16),
        Scalar::I8 => from!(i8),
        Scalar::U8 => from!(u8),
        _ => return None,
    })
}

/// Cells that are converted before more memory is asked for.
const STRIP: usize = 128;

/// `alpha == 1`, `beta == 0`, different types.
const CONVERT: u8 = 0;
/// `beta == 0`.
const SCALE: u8 = 1;
/// Everything else.
const BLEND: u8 = 2;

/// # Safety
/// As for [`Row`].
unsafe fn move_cells<D: Element>(dst: *mut u8, src: *const u8, n: usize, _: Scaling) {
    // SAFETY: n cells on either side; `copy` allows them to be the same ones.
    unsafe { dst.cast::<D>().copy_from(src.cast::<D>(), n) }
}

/// The loop, with cells in place and apart.
///
/// # Safety
/// As for [`Row`].
#[cfg(target_arch = "x86_64")]
#[vectorized]
unsafe fn cells<S: Element, D: Element, const MODE: u8>(dst: *mut u8, src: *const u8, n: usize, s: Scaling) {
    let (dst, src) = (dst.cast::<D>(), src.cast::<S>());
    // SAFETY: `n` cells are readable and writable.
    unsafe {
        let in_place = size_of::<S>() == size_of::<D>() && dst.addr() == src.addr();
        for first in (0..n).step_by(STRIP) {
            let (to, from, n) = (dst.add(first), src.add(first), STRIP.min(n - first));
            if in_place {
                Distance::Updated.fetch(to.cast(), n * size_of::<D>());
                // Through one pointer the compiler sees that cells meet nothing but themselves. A
                // loop for both cases asks whether they overlap, finds that they do, and takes one
                // cell at a time.
                each::<S, D, MODE>(to, to.cast_const().cast(), n, s);
            } else {
                let of_dst = if MODE == BLEND { Distance::Updated } else { Distance::Written };
                Distance::Read.fetch(from.cast(), n * size_of::<S>());
                of_dst.fetch(to.cast(), n * size_of::<D>());
                each::<S, D, MODE>(to, from, n, s);
            }
        }
    }
}

/// # Safety
/// As for [`Row`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn each<S: Element, D: Element, const MODE: u8>(dst: *mut D, src: *const S, n: usize, s: Scaling) {
    for i in 0..n {
        // SAFETY: i < n. Each cell is read before it is written, so that in-place runs are right as
        // well.
        unsafe {
            let (y, x) = (dst.add(i), src.add(i).read());
            y.write(match MODE {
                CONVERT => convert(x),
                SCALE => scale(s.alpha, x),
                _ => blend(s.alpha, x, s.beta, y.read()),
            });
        }
    }
}
