//! What becomes of the cells of a line between the operands of a transpose: they stay as they are, or are converted where
//! the cells are wider, so that the narrower ones are transposed.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::super::Store;
use super::{Isa, Matrix, Rows, Transpose, halves, lines};
use crate::backend::cpu::wide::avx512::Wide;
use crate::dtype::Scalar;
use crate::dtype::convert::{convert as convert_cell, scale};
use crate::ops::{Scaling, Transform};

/// Where the cells of a line go.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub to: *mut u8,
    /// Their column, and the first of their rows.
    pub column: usize,
    pub row: usize,
    /// Whether the row starts a line of the destination, if that is streamed.
    pub starts_line: bool,
}

/// How cells enter the registers and leave them. What is transposed are lines of 64 bytes, cells as wide as the narrower
/// of both types.
pub(super) trait Through {
    /// Bytes of a cell of the source and of the destination.
    const SRC: usize;
    const DST: usize;

    /// A line of cells.
    ///
    /// # Safety
    /// As many cells are readable there, and the processor has AVX-512 F, BW, DQ and VL.
    unsafe fn get(&self, from: *const u8, scaling: Scaling) -> __m512i;

    /// Writes a line of cells.
    ///
    /// # Safety
    /// As many cells are writable at the place as the line has, and the processor has AVX-512 F, BW, DQ and VL.
    unsafe fn put(&mut self, line: __m512i, place: Place, scaling: Scaling);
}

/// Cells that go from one operand to the other, each line on its own.
pub(super) trait Direct: Through {
    const NEW: Self;

    /// Transposes what has no whole line.
    ///
    /// # Safety
    /// As for [`Transpose`].
    unsafe fn narrow<D: Rows, S: Rows>(m: Matrix<D, S>);
}

/// Cells that leave the registers as wide as they were transposed, so that lines of them can be put together anew.
pub(super) trait Narrow: Direct {
    /// A line of which only the first `n` cells are there.
    ///
    /// # Safety
    /// As for [`get`](Through::get), but for these cells.
    unsafe fn get_some(from: *const u8, n: usize, scaling: Scaling) -> __m512i;
}

/// The first `n` bytes of a line.
///
/// # Safety
/// They are readable there.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn load_some(from: *const u8, n: usize) -> __m512i {
    let mask = if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    // SAFETY: the caller's promise.
    unsafe { _mm512_maskz_loadu_epi8(mask, from.cast()) }
}

/// Stores a line, `STREAM`: past the caches if it starts one of the destination.
///
/// # Safety
/// 64 bytes are writable there.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn store<const STREAM: bool>(to: *mut u8, line: __m512i, starts_line: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        if STREAM && starts_line {
            _mm512_stream_si512(to.cast(), line);
        } else {
            _mm512_storeu_si512(to.cast(), line);
        }
    }
}

/// Cells as wide as `W` as they are.
pub(super) struct Moved<W, const STREAM: bool>(PhantomData<W>);

/// Implements [`Through`] for cells that are moved.
macro_rules! moved {
    ($($W:ident)*) => {
        $(impl<const STREAM: bool> Through for Moved<$W, STREAM> {
            const SRC: usize = size_of::<$W>();
            const DST: usize = size_of::<$W>();

            #[target_feature(enable = "avx512f")]
            #[inline]
            unsafe fn get(&self, from: *const u8, _: Scaling) -> __m512i {
                // SAFETY: the caller's promise.
                unsafe { _mm512_loadu_si512(from.cast()) }
            }

            #[target_feature(enable = "avx512f")]
            #[inline]
            unsafe fn put(&mut self, line: __m512i, Place { to, starts_line, .. }: Place, _: Scaling) {
                // SAFETY: the caller's promise.
                unsafe { store::<STREAM>(to, line, starts_line) }
            }
        }

        impl<const STREAM: bool> Direct for Moved<$W, STREAM> {
            const NEW: Self = Moved(PhantomData);

            unsafe fn narrow<D: Rows, S: Rows>(m: Matrix<D, S>) {
                // SAFETY: handed on; the processor has AVX-512, or this type would not be used.
                unsafe { halves::$W::transpose::<D, S, STREAM>(m) }
            }
        }

        impl<const STREAM: bool> Narrow for Moved<$W, STREAM> {
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn get_some(from: *const u8, n: usize, _: Scaling) -> __m512i {
                // SAFETY: handed on.
                unsafe { load_some(from, n * Self::SRC) }
            }
        })*
    };
}

moved!(u8 u16 u32 u64);

/// Sixteen cells as numbers, `SCALES`: times alpha.
///
/// # Safety
/// They are readable there, and the processor has AVX-512 F, BW, DQ and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
unsafe fn load<S: Wide, const SCALES: bool>(from: *const S, scaling: Scaling) -> __m512 {
    // SAFETY: the caller's promise.
    let x = unsafe { S::load(from) };
    if SCALES { _mm512_mul_ps(_mm512_set1_ps(scaling.alpha as f32), x) } else { x }
}

/// Cells of type `S` that become `D` after they were transposed.
struct Widened<S, D, const SCALES: bool, const STREAM: bool>(PhantomData<(S, D)>);

impl<S: Wide, D: Wide, const SCALES: bool, const STREAM: bool> Through for Widened<S, D, SCALES, STREAM> {
    const SRC: usize = size_of::<S>();
    const DST: usize = size_of::<D>();

    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn get(&self, from: *const u8, _: Scaling) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    unsafe fn put(&mut self, line: __m512i, Place { to, starts_line, .. }: Place, scaling: Scaling) {
        let from = (&raw const line).cast::<S>();
        let to = to.cast::<D>();
        for at in (0..64 / size_of::<S>()).step_by(16) {
            // SAFETY: sixteen cells of the line, and their places.
            unsafe {
                let x = load::<S, SCALES>(from.add(at), scaling);
                if size_of::<D>() == 4 {
                    store::<STREAM>(to.add(at).cast(), D::line([x; 4]), starts_line);
                } else {
                    D::store(to.add(at), x);
                }
            }
        }
    }
}

impl<S: Wide, D: Wide, const SCALES: bool, const STREAM: bool> Direct for Widened<S, D, SCALES, STREAM> {
    const NEW: Self = Widened(PhantomData);

    unsafe fn narrow<DR: Rows, SR: Rows>(m: Matrix<DR, SR>) {
        for j in 0..m.columns {
            for i in 0..m.rows {
                // SAFETY: a cell of the matrix.
                unsafe {
                    let x = m.src.offset(m.src_rows.at(i)).cast::<S>().add(j).read();
                    let to = m.dst.offset(m.dst_rows.at(j)).cast::<D>().add(i);
                    to.write(if SCALES { scale(m.scaling.alpha, x) } else { convert_cell(x) });
                }
            }
        }
    }
}

/// Cells of type `f32` that become `D` before they are transposed.
pub(super) struct Narrowed<D, const SCALES: bool, const STREAM: bool>(PhantomData<D>);

impl<D: Wide, const SCALES: bool, const STREAM: bool> Through for Narrowed<D, SCALES, STREAM> {
    const SRC: usize = size_of::<f32>();
    const DST: usize = size_of::<D>();

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    unsafe fn get(&self, from: *const u8, scaling: Scaling) -> __m512i {
        let mut x = [_mm512_setzero_ps(); 4];
        for (k, x) in x[..4 / size_of::<D>()].iter_mut().enumerate() {
            // SAFETY: sixteen cells of the line.
            *x = unsafe { load::<f32, SCALES>(from.cast::<f32>().add(16 * k), scaling) };
        }
        // SAFETY: the caller's promise.
        unsafe { D::line(x) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn put(&mut self, line: __m512i, Place { to, starts_line, .. }: Place, _: Scaling) {
        // SAFETY: the caller's promise.
        unsafe { store::<STREAM>(to, line, starts_line) }
    }
}

impl<D: Wide, const SCALES: bool, const STREAM: bool> Direct for Narrowed<D, SCALES, STREAM> {
    const NEW: Self = Narrowed(PhantomData);

    unsafe fn narrow<DR: Rows, SR: Rows>(m: Matrix<DR, SR>) {
        // SAFETY: handed on; the processor has AVX-512, or this type would not be used. Lines of the source are enough
        // for it.
        unsafe { lines::u32::<Widened<f32, D, SCALES, STREAM>, DR, SR>(m) }
    }
}

impl<D: Wide, const SCALES: bool, const STREAM: bool> Narrow for Narrowed<D, SCALES, STREAM> {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    unsafe fn get_some(from: *const u8, n: usize, scaling: Scaling) -> __m512i {
        let cells = [0, 16, 32, 48].map(|first| {
            // SAFETY: the caller's promise.
            unsafe { load_some(from.wrapping_add(4 * first), 4 * n.saturating_sub(first)) }
        });
        // SAFETY: all of them.
        unsafe { Self::NEW.get((&raw const cells).cast(), scaling) }
    }
}

/// The transpose that converts on the way, if there is one for these types: no part of the old destination may be
/// wanted, since the last blocks overlap the ones before them. Whole lines of cells are fast, others slow.
pub(in super::super) fn convert<D: Rows, S: Rows>(
    transform: &Transform,
    store: Store,
    isa: Isa,
) -> Option<Transpose<D, S>> {
    let is_move = transform.src == transform.dst && transform.scaling.is_move();
    if !isa.has_avx512() || is_move || transform.scaling.beta != 0.0 {
        return None;
    }
    macro_rules! pick {
        ($W:ident, $Through:ident<$($T:ty),*>) => {
            match (transform.scaling.is_move(), store) {
                (true, Store::Cached) => lines::$W::<$Through<$($T,)* false, false>, D, S>,
                (true, Store::Streamed) => lines::$W::<$Through<$($T,)* false, true>, D, S>,
                (false, Store::Cached) => lines::$W::<$Through<$($T,)* true, false>, D, S>,
                (false, Store::Streamed) => lines::$W::<$Through<$($T,)* true, true>, D, S>,
            }
        };
    }
    Some(match (transform.src, transform.dst) {
        (Scalar::F32, Scalar::F32) => pick!(u32, Widened<f32, f32>),
        (Scalar::F32, Scalar::F16) => pick!(u16, Narrowed<half::f16>),
        (Scalar::F32, Scalar::Bf16) => pick!(u16, Narrowed<half::bf16>),
        (Scalar::F32, Scalar::I8) => pick!(u8, Narrowed<i8>),
        (Scalar::F32, Scalar::U8) => pick!(u8, Narrowed<u8>),
        (Scalar::F16, Scalar::F32) => pick!(u16, Widened<half::f16, f32>),
        (Scalar::Bf16, Scalar::F32) => pick!(u16, Widened<half::bf16, f32>),
        (Scalar::I8, Scalar::F32) => pick!(u8, Widened<i8, f32>),
        (Scalar::U8, Scalar::F32) => pick!(u8, Widened<u8, f32>),
        _ => return None,
    })
}
