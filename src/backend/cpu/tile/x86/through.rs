//! What becomes of the cells of a line between the operands of a transpose: they stay as they are, or are converted where
//! the cells are wider, so that the narrower ones are transposed.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use half::{bf16, f16};

use super::super::{Even, Store};
use super::{Isa, Matrix, RowStarts, Transpose, halves, lines};
use crate::backend::cpu::arena;
use crate::backend::cpu::row::Row;
use crate::backend::cpu::wide::{self, Cells};
use crate::dtype::Scalar;
use crate::ops::{Scaling, Transform};

/// Cells that are converted at a time where they have no whole line.
const FEW_CELLS: usize = 4 << 10;

const _: () = assert!(FEW_CELLS * 4 <= arena::NESTED_BYTES);

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
    /// As many cells are writable at the place as the register has, and the processor has such registers.
    unsafe fn put(&mut self, cells: V, place: Place, scaling: Scaling);
}

/// Cells that go from one operand to the other, each line on its own.
pub(super) trait Direct<V>: Through<V> {
    const NEW: Self;

    /// Transposes what has no whole line.
    ///
    /// # Safety
    /// As for [`Transpose`].
    unsafe fn narrow<D: RowStarts, S: RowStarts>(m: Matrix<D, S>);
}

/// Cells that leave the registers as wide as they were transposed, so that lines of them can be put together anew.
pub(super) trait Narrow: Direct<__m512i> {
    /// A line of which only the first `n` cells are there.
    ///
    /// # Safety
    /// As for [`get`](Through::get), but for these cells.
    unsafe fn get_some(from: *const u8, n: usize, scaling: Scaling) -> __m512i;
}

/// Cells as wide as `W` as they are.
pub(super) struct Moved<W, const STREAM: bool>(PhantomData<W>);

/// Cells of type `S` that become `D` after they were transposed.
struct Widened<S, D, const SCALES: bool, const STREAM: bool>(PhantomData<(S, D)>);

/// Cells of type `f32` that become `D` before they are transposed.
pub(super) struct Narrowed<D, const STREAM: bool>(PhantomData<D>);

/// Implements [`Through`] for one kind of registers, `$V` of cells and `$N` of numbers. Cells of the widths `$W` that have no
/// whole line are transposed by `$narrow`, wider cells whose lines are too few to be narrowed first as lines of `$isa`.
macro_rules! through {
    ($feature:literal, $V:ty, $N:ty, [$load:ident, $store:ident, $stream:ident], [$set:ident, $mul:ident],
     $narrow:ident, $isa:ident, $($W:ident)*) => {
        /// A register of numbers, `SCALES`: times alpha.
        ///
        /// # Safety
        /// So many cells are readable there, and the processor has such registers.
        #[target_feature(enable = $feature)]
        #[inline]
        unsafe fn load<S: Cells<$N>, const SCALES: bool>(from: *const S, scaling: Scaling) -> $N {
            // SAFETY: the caller's promise.
            let x: $N = unsafe { Cells::load(from) };
            if SCALES { $mul($set(scaling.alpha as f32), x) } else { x }
        }

        /// Stores a register, `STREAM`: past the caches if it belongs to a line of the destination.
        ///
        /// # Safety
        /// So many bytes are writable there.
        #[target_feature(enable = $feature)]
        #[inline]
        unsafe fn store<const STREAM: bool>(to: *mut u8, cells: $V, starts_line: bool) {
            // SAFETY: the caller's promise.
            unsafe {
                if STREAM && starts_line {
                    $stream(to.cast(), cells);
                } else {
                    $store(to.cast(), cells);
                }
            }
        }

        /// Transposes cells of `cell` bytes as they are.
        ///
        /// # Safety
        /// As for [`Transpose`].
        unsafe fn move_few<DR: RowStarts, SR: RowStarts>(m: Matrix<DR, SR>, cell: usize) {
            // SAFETY: handed on; the processor has such registers.
            unsafe {
                match cell {
                    1 => $narrow::u8::transpose::<DR, SR, false>(m),
                    2 => $narrow::u16::transpose::<DR, SR, false>(m),
                    _ => $narrow::u32::transpose::<DR, SR, false>(m),
                }
            }
        }

        /// Converts what has no whole line: rows of the source, which are transposed then, or of the destination, which have been.
        /// Always the longer ones.
        ///
        /// # Safety
        /// As for [`Transpose`].
        #[target_feature(enable = $feature)]
        unsafe fn few<S: Cells<$N>, D: Cells<$N>, const SCALES: bool, DR: RowStarts, SR: RowStarts>(m: Matrix<DR, SR>) {
            let row = wide::$isa::row::<S, D, SCALES, false>;
            let cells = [size_of::<D>(), size_of::<S>()];
            // SAFETY: handed on; there is room.
            let few = |room| Ok(unsafe { few_through(m, room, row, cells) });
            // The job has a loan, so that this one inside it does not fail.
            arena::with(FEW_CELLS * 4, few).expect("room inside the scratch of a job");
        }

        /// # Safety
        /// As for [`Transpose`]; `room` has that of [`FEW_CELLS`] cells of four bytes, and `row` converts cells of these sizes.
        unsafe fn few_through<DR: RowStarts, SR: RowStarts>(
            m: Matrix<DR, SR>,
            room: *mut u8,
            row: Row,
            cells: [usize; 2],
        ) {
            const CELLS: usize = FEW_CELLS;
            let side = m.rows.min(m.columns).clamp(1, 64);
            let sides = if m.rows < m.columns { [side, CELLS / side] } else { [CELLS / side, side] };
            for top in (0..m.rows).step_by(sides[0]) {
                for left in (0..m.columns).step_by(sides[1]) {
                    // SAFETY: rows and columns of the matrix, for which there is room.
                    unsafe {
                        let (bottom, right) = ((top + sides[0]).min(m.rows), (left + sides[1]).min(m.columns));
                        let m = m.part(top..bottom, left..right, cells);
                        if m.rows < m.columns {
                            let pitch = m.columns * cells[0];
                            for i in 0..m.rows {
                                let from = m.src.offset(m.src_rows.at(i));
                                row(room.add(i * pitch), from, m.columns, m.scaling);
                            }
                            move_few(m.from(room, Even(pitch as isize)), cells[0]);
                        } else {
                            let pitch = m.rows * cells[1];
                            move_few(m.to(room, Even(pitch as isize)), cells[1]);
                            for j in 0..m.columns {
                                let to = m.dst.offset(m.dst_rows.at(j));
                                row(to, room.add(j * pitch), m.rows, m.scaling);
                            }
                        }
                    }
                }
            }
        }

        $(impl<const STREAM: bool> Through<$V> for Moved<$W, STREAM> {
            const SRC: usize = size_of::<$W>();
            const DST: usize = size_of::<$W>();

            #[target_feature(enable = $feature)]
            #[inline]
            unsafe fn get(&self, from: *const u8, _: Scaling) -> $V {
                // SAFETY: the caller's promise.
                unsafe { $load(from.cast()) }
            }

            #[target_feature(enable = $feature)]
            #[inline]
            unsafe fn put(&mut self, cells: $V, Place { to, starts_line, .. }: Place, _: Scaling) {
                // SAFETY: the caller's promise.
                unsafe { store::<STREAM>(to, cells, starts_line) }
            }
        }

        impl<const STREAM: bool> Direct<$V> for Moved<$W, STREAM> {
            const NEW: Self = Moved(PhantomData);

            unsafe fn narrow<D: RowStarts, S: RowStarts>(m: Matrix<D, S>) {
                // SAFETY: handed on; the processor has such registers, or this type would not be used.
                unsafe { $narrow::$W::transpose::<D, S, STREAM>(m) }
            }
        })*

        impl<S: Cells<$N>, D: Cells<$N>, const SCALES: bool, const STREAM: bool> Through<$V> for Widened<S, D, SCALES, STREAM> {
            const SRC: usize = size_of::<S>();
            const DST: usize = size_of::<D>();

            #[target_feature(enable = $feature)]
            #[inline]
            unsafe fn get(&self, from: *const u8, _: Scaling) -> $V {
                // SAFETY: the caller's promise.
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

        impl<S: Cells<$N>, D: Cells<$N>, const SCALES: bool, const STREAM: bool> Direct<$V> for Widened<S, D, SCALES, STREAM> {
            const NEW: Self = Widened(PhantomData);

            unsafe fn narrow<DR: RowStarts, SR: RowStarts>(m: Matrix<DR, SR>) {
                // SAFETY: handed on; the processor has such registers, or this type would not be used.
                unsafe { few::<S, D, SCALES, DR, SR>(m) }
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
                // SAFETY: the caller's promise.
                unsafe { D::cells(x) }
            }

            #[target_feature(enable = $feature)]
            #[inline]
            unsafe fn put(&mut self, cells: $V, Place { to, starts_line, .. }: Place, _: Scaling) {
                // SAFETY: the caller's promise.
                unsafe { store::<STREAM>(to, cells, starts_line) }
            }
        }

        impl<D: Cells<$N>, const STREAM: bool> Direct<$V> for Narrowed<D, STREAM> {
            const NEW: Self = Narrowed(PhantomData);

            unsafe fn narrow<DR: RowStarts, SR: RowStarts>(m: Matrix<DR, SR>) {
                // SAFETY: handed on; the processor has such registers, or this type would not be used. Lines of the source are
                // enough for it.
                unsafe { lines::$isa::u32::<Widened<f32, D, true, STREAM>, DR, SR>(m) }
            }
        }
    };
}

mod avx2 {
    use super::super::avx2 as network;
    use super::*;

    through!(
        "avx2,f16c",
        __m256i,
        __m256,
        [_mm256_loadu_si256, _mm256_storeu_si256, _mm256_stream_si256],
        [_mm256_set1_ps, _mm256_mul_ps],
        network,
        avx2,
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
        halves,
        avx512,
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
    // SAFETY: the caller's promise.
    unsafe { _mm512_maskz_loadu_epi8(mask, from.cast()) }
}

/// Implements [`Narrow`] for cells that are moved.
macro_rules! narrow {
    ($($W:ident)*) => {
        $(impl<const STREAM: bool> Narrow for Moved<$W, STREAM> {
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn get_some(from: *const u8, n: usize, _: Scaling) -> __m512i {
                // SAFETY: handed on.
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
            // SAFETY: the caller's promise.
            unsafe { load_some(from.wrapping_add(4 * first), 4 * n.saturating_sub(first)) }
        });
        // SAFETY: all of them.
        unsafe { Self::NEW.get((&raw const cells).cast(), scaling) }
    }
}

/// The transpose that converts on the way, if there is one for these types: no part of the old destination may be
/// wanted, since the last blocks overlap the ones before them. Whole lines of cells are fast, others slow.
pub(in super::super) fn convert<D: RowStarts, S: RowStarts>(
    transform: &Transform,
    store: Store,
    isa: Isa,
) -> Option<Transpose<D, S>> {
    let is_move = transform.src == transform.dst && transform.scaling.is_move();
    if !isa.has_avx2() || is_move || transform.scaling.beta != 0.0 {
        return None;
    }
    macro_rules! pick {
        ($W:ident, $Through:ident<$($T:tt),*>) => {
            match (isa.has_avx512(), store) {
                (true, Store::Cached) => lines::avx512::$W::<$Through<$($T,)* false>, D, S>,
                (true, Store::Streamed) => lines::avx512::$W::<$Through<$($T,)* true>, D, S>,
                (false, Store::Cached) => lines::avx2::$W::<$Through<$($T,)* false>, D, S>,
                (false, Store::Streamed) => lines::avx2::$W::<$Through<$($T,)* true>, D, S>,
            }
        };
    }
    // A factor of 1 changes nothing but NaNs that signal, which every conversion but that from bfloat16 makes quiet.
    Some(match (transform.src, transform.dst) {
        (Scalar::F32, Scalar::F32) => pick!(u32, Widened<f32, f32, true>),
        (Scalar::F32, Scalar::F16) => pick!(u16, Narrowed<f16>),
        (Scalar::F32, Scalar::Bf16) => pick!(u16, Narrowed<bf16>),
        (Scalar::F32, Scalar::I8) => pick!(u8, Narrowed<i8>),
        (Scalar::F32, Scalar::U8) => pick!(u8, Narrowed<u8>),
        (Scalar::F16, Scalar::F32) => pick!(u16, Widened<f16, f32, true>),
        (Scalar::Bf16, Scalar::F32) if transform.scaling.is_move() => {
            pick!(u16, Widened<bf16, f32, false>)
        }
        (Scalar::Bf16, Scalar::F32) => pick!(u16, Widened<bf16, f32, true>),
        (Scalar::I8, Scalar::F32) => pick!(u8, Widened<i8, f32, true>),
        (Scalar::U8, Scalar::F32) => pick!(u8, Widened<u8, f32, true>),
        _ => return None,
    })
}
