//! What becomes of the cells of a line between the operands of a transpose: they stay as they are,
//! or are converted on the side of the wider cells, so that narrower ones are transposed.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::{Matrix, RowStarts};
use crate::backend::cpu::wide::Cells;
use crate::ops::Scaling;

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

/// How cells enter registers `V` and leave them, as wide as the narrower of both types.
pub(super) trait Through<V> {
    /// Bytes of a cell of the source and of the destination.
    const SRC: usize;
    const DST: usize;

    /// A register of cells.
    ///
    /// # Safety
    /// As many cells are readable there, and the processor has such registers.
    unsafe fn get(&self, from: *const u8, scaling: Scaling) -> V;

    /// Writes a register of cells.
    ///
    /// # Safety
    /// As many cells are writable at the place as the register has, and the processor has such
    /// registers.
    unsafe fn put(&mut self, cells: V, place: Place, scaling: Scaling);
}

/// Cells that go from one operand to the other, each line on its own.
pub(super) trait Direct<V>: Through<V> {
    const NEW: Self;

    /// Transposes what has no whole line.
    ///
    /// # Safety
    /// As for [`Transpose`](super::Transpose).
    unsafe fn narrow<D: RowStarts, S: RowStarts>(m: Matrix<D, S>);
}

/// Cells that leave the registers as wide as they were transposed, so that lines of them can be put
/// together anew.
pub(super) trait Narrow: Direct<__m512i> {
    /// A line of which only the first `n` cells are there.
    ///
    /// # Safety
    /// As for [`get`](Through::get), but for these cells.
    unsafe fn get_some(from: *const u8, n: usize, scaling: Scaling) -> __m512i;
}

/// Cells as wide as `W` as they are.
pub(super) struct Moved<W, const STREAM: bool>(pub PhantomData<W>);

/// Cells of type `S` that become `D` after they were transposed.
pub(super) struct Widened<S, D, const SCALES: bool, const STREAM: bool>(pub PhantomData<(S, D)>);

/// Cells of type `f32` that become `D` before they are transposed.
pub(super) struct Narrowed<D, const STREAM: bool>(pub PhantomData<D>);

/// Implements [`Through`] for one kind of registers, `$V` of cells and `$N` of numbers; of cells of
/// the widths `$W` that stay as they are.
macro_rules! through {
    ($feature:literal, $V:ty, $N:ty, [$load:ident, $store:ident, $stream:ident], [$set:ident, $mul:ident], $($W:ident)*) => {
        /// A register of numbers, `SCALES`: times alpha.
        ///
        /// # Safety
        /// A register of cells is readable there, and the processor has such registers.
        #[target_feature(enable = $feature)]
        #[inline]
        unsafe fn load<S: Cells<$N>, const SCALES: bool>(from: *const S, scaling: Scaling) -> $N {
            // SAFETY: a register of cells is readable.
            let x: $N = unsafe { Cells::load(from) };
            if SCALES { $mul($set(scaling.alpha as f32), x) } else { x }
        }

        /// Stores a register, `STREAM`: past the caches if it belongs to a line of the destination.
        ///
        /// # Safety
        /// The bytes of a register are writable there.
        #[target_feature(enable = $feature)]
        #[inline]
        unsafe fn store<const STREAM: bool>(to: *mut u8, cells: $V, starts_line: bool) {
            // SAFETY: a register of cells is writable.
            unsafe {
                if STREAM && starts_line {
                    $stream(to.cast(), cells);
                } else {
                    $store(to.cast(), cells);
                }
            }
        }

        $(impl<const STREAM: bool> Through<$V> for Moved<$W, STREAM> {
            const SRC: usize = size_of::<$W>();
            const DST: usize = size_of::<$W>();

            #[target_feature(enable = $feature)]
            #[inline]
            unsafe fn get(&self, from: *const u8, _: Scaling) -> $V {
                // SAFETY: a register of cells is readable.
                unsafe { $load(from.cast()) }
            }

            #[target_feature(enable = $feature)]
            #[inline]
            unsafe fn put(&mut self, cells: $V, Place { to, starts_line, .. }: Place, _: Scaling) {
                // SAFETY: a register of cells is writable.
                unsafe { store::<STREAM>(to, cells, starts_line) }
            }
        })*

        impl<S: Cells<$N>, D: Cells<$N>, const SCALES: bool, const STREAM: bool> Through<$V> for Widened<S, D, SCALES, STREAM> {
            const SRC: usize = size_of::<S>();
            const DST: usize = size_of::<D>();

            #[target_feature(enable = $feature)]
            #[inline]
            unsafe fn get(&self, from: *const u8, _: Scaling) -> $V {
                // SAFETY: a register of cells is readable.
                unsafe { $load(from.cast()) }
            }

            #[target_feature(enable = $feature)]
            #[inline]
            unsafe fn put(&mut self, cells: $V, Place { to, starts_line, .. }: Place, scaling: Scaling) {
                const NUMBERS: usize = size_of::<$N>() / 4;
                let from = (&raw const cells).cast::<S>();
                let to = to.cast::<D>();
                for at in (0..size_of::<$V>() / size_of::<S>()).step_by(NUMBERS) {
                    // SAFETY: a register of the cells, and their places.
                    unsafe {
                        let x = load::<S, SCALES>(from.add(at), scaling);
                        if size_of::<D>() == 4 {
                            store::<STREAM>(to.add(at).cast(), D::cells([x; 4]), starts_line);
                        } else {
                            Cells::<$N>::store(to.add(at), x);
                        }
                    }
                }
            }
        }

        impl<D: Cells<$N>, const STREAM: bool> Through<$V> for Narrowed<D, STREAM> {
            const SRC: usize = size_of::<f32>();
            const DST: usize = size_of::<D>();

            #[target_feature(enable = $feature)]
            #[inline]
            unsafe fn get(&self, from: *const u8, scaling: Scaling) -> $V {
                const NUMBERS: usize = size_of::<$N>() / 4;
                let mut x = [$set(0.0); 4];
                for (k, x) in x[..4 / size_of::<D>()].iter_mut().enumerate() {
                    // SAFETY: a register of these cells.
                    *x = unsafe { load::<f32, true>(from.cast::<f32>().add(NUMBERS * k), scaling) };
                }
                // SAFETY: `x` holds the numbers, and the processor has the registers.
                unsafe { D::cells(x) }
            }

            #[target_feature(enable = $feature)]
            #[inline]
            unsafe fn put(&mut self, cells: $V, Place { to, starts_line, .. }: Place, _: Scaling) {
                // SAFETY: a register of cells is writable.
                unsafe { store::<STREAM>(to, cells, starts_line) }
            }
        }
    };
}

mod avx2 {
    use super::*;

    through!(
        "avx2,f16c",
        __m256i,
        __m256,
        [_mm256_loadu_si256, _mm256_storeu_si256, _mm256_stream_si256],
        [_mm256_set1_ps, _mm256_mul_ps],
        u8 u16
    );
}

mod avx512 {
    use super::*;

    through!(
        "avx512f,avx512bw,avx512dq,avx512vl",
        __m512i,
        __m512,
        [_mm512_loadu_si512, _mm512_storeu_si512, _mm512_stream_si512],
        [_mm512_set1_ps, _mm512_mul_ps],
        u8 u16 u32 u64
    );
}

/// The first `n` bytes of a line.
///
/// # Safety
/// They are readable there.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn load_some(from: *const u8, n: usize) -> __m512i {
    let mask = if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    // SAFETY: the cells of the mask are readable.
    unsafe { _mm512_maskz_loadu_epi8(mask, from.cast()) }
}

/// Implements [`Narrow`] for cells that are moved.
macro_rules! narrow {
    ($($W:ident)*) => {
        $(impl<const STREAM: bool> Narrow for Moved<$W, STREAM> {
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn get_some(from: *const u8, n: usize, _: Scaling) -> __m512i {
                // SAFETY: `n` cells are readable.
                unsafe { load_some(from, n * size_of::<$W>()) }
            }
        })*
    };
}

narrow!(u8 u16 u32 u64);

impl<D: Cells<__m512>, const STREAM: bool> Narrow for Narrowed<D, STREAM> {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    unsafe fn get_some(from: *const u8, n: usize, scaling: Scaling) -> __m512i {
        let cells = [0, 16, 32, 48].map(|first| {
            // SAFETY: `n` cells of four bytes are readable, of which these are a part.
            unsafe { load_some(from.wrapping_add(4 * first), 4 * n.saturating_sub(first)) }
        });
        // SAFETY: `cells` holds a register of cells for each of those that are read.
        unsafe { Self::NEW.get((&raw const cells).cast(), scaling) }
    }
}
