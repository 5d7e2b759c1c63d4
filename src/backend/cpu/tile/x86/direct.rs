//! Cells that go from one operand to the other, each line on its own: what becomes of cells that
//! fill no whole line, and which types are converted on the way.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use half::{bf16, f16};

use super::super::{AnyRows, Even, Store};
use super::through::{Direct, Moved, Narrowed, Widened};
use super::{Isa, Matrix, RowStarts, Transpose, halves, lines};
use crate::backend::cpu::arena;
use crate::backend::cpu::row::Row;
use crate::backend::cpu::wide::{self, Cells};
use crate::dtype::Scalar;
use crate::ops::Transform;

/// Cells that are converted at a time where they have no whole line.
const FEW_CELLS: usize = 4 << 10;

const _: () = assert!(FEW_CELLS * 4 <= arena::NESTED_BYTES);

/// Implements [`Direct`] for one kind of registers, `$V` of cells and `$N` of numbers. Cells of the
/// widths `$W` that have no whole line are transposed by `$narrow`, wider cells whose lines are too
/// few to be narrowed first as lines of `$isa`. Cells of the widths `$C` are converted.
macro_rules! direct {
    ($feature:literal, $V:ty, $N:ty, $narrow:ident, $isa:ident, $($W:ident)*; $($C:ident)*) => {
        /// Transposes cells of `cell` bytes as they are.
        ///
        /// # Safety
        /// As for [`Transpose`].
        unsafe fn move_few(m: Matrix<AnyRows, AnyRows>, cell: usize) {
            // SAFETY: the matrix has its cells on either side, and the processor such registers.
            unsafe {
                match cell {
                    1 => $narrow::u8::transpose::<_, _, false>(m),
                    2 => $narrow::u16::transpose::<_, _, false>(m),
                    _ => $narrow::u32::transpose::<_, _, false>(m),
                }
            }
        }

        /// Converts what has no whole line: rows of the source, which are transposed then, or of
        /// the destination, which have been. Always the longer ones.
        ///
        /// # Safety
        /// As for [`Transpose`].
        #[target_feature(enable = $feature)]
        unsafe fn few<S: Cells<$N>, D: Cells<$N>, const SCALES: bool>(m: Matrix<AnyRows, AnyRows>) {
            let row = wide::$isa::row::<S, D, SCALES, false>;
            let cells = [size_of::<D>(), size_of::<S>()];
            // SAFETY: the matrix has its cells on either side, and the room is that of
            // [`FEW_CELLS`].
            let few = |room| Ok(unsafe { few_through(m, room, row, cells) });
            // The job has a loan, so that this one inside it does not fail.
            arena::with(FEW_CELLS * 4, few).expect("room inside the scratch of a job");
        }

        /// # Safety
        /// As for [`Transpose`]; `room` has that of [`FEW_CELLS`] cells of four bytes, and `row`
        /// converts cells of these sizes.
        unsafe fn few_through(
            m: Matrix<AnyRows, AnyRows>,
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
                            move_few(m.from(room, Even(pitch as isize).any()), cells[0]);
                        } else {
                            let pitch = m.rows * cells[1];
                            move_few(m.to(room, Even(pitch as isize).any()), cells[1]);
                            for j in 0..m.columns {
                                let to = m.dst.offset(m.dst_rows.at(j));
                                row(to, room.add(j * pitch), m.rows, m.scaling);
                            }
                        }
                    }
                }
            }
        }

        $(
            /// Converts cells of this width, the narrower ones, by code that serves rows of any
            /// kind.
            ///
            /// # Safety
            /// As for [`Transpose`].
            #[target_feature(enable = $feature)]
            pub(super) unsafe fn $C<F: Direct<$V>, D: RowStarts, S: RowStarts>(m: Matrix<D, S>) {
                // SAFETY: the matrix has its cells, and the processor such registers.
                unsafe { lines::$isa::$C::<F, AnyRows, AnyRows>(m.any()) }
            }
        )*

        $(impl<const STREAM: bool> Direct<$V> for Moved<$W, STREAM> {
            const NEW: Self = Moved(PhantomData);

            unsafe fn narrow<D: RowStarts, S: RowStarts>(m: Matrix<D, S>) {
                // SAFETY: the matrix has its cells; this type is used where the processor has such
                // registers.
                unsafe { $narrow::$W::transpose::<D, S, STREAM>(m) }
            }
        })*

        impl<S: Cells<$N>, D: Cells<$N>, const SCALES: bool, const STREAM: bool> Direct<$V> for Widened<S, D, SCALES, STREAM> {
            const NEW: Self = Widened(PhantomData);

            unsafe fn narrow<DR: RowStarts, SR: RowStarts>(m: Matrix<DR, SR>) {
                // SAFETY: the matrix has its cells; this type is used where the processor has such
                // registers.
                unsafe { few::<S, D, SCALES>(m.any()) }
            }
        }

        impl<D: Cells<$N>, const STREAM: bool> Direct<$V> for Narrowed<D, STREAM> {
            const NEW: Self = Narrowed(PhantomData);

            unsafe fn narrow<DR: RowStarts, SR: RowStarts>(m: Matrix<DR, SR>) {
                // SAFETY: the matrix has its cells; this type is used where the processor has such
                // registers. Lines of the source are enough for it.
                unsafe { lines::$isa::u32::<Widened<f32, D, true, STREAM>, AnyRows, AnyRows>(m.any()) }
            }
        }
    };
}

mod avx2 {
    use super::super::avx2 as network;
    use super::*;

    direct!("avx2,f16c", __m256i, __m256, network, avx2, u8 u16; u8 u16 u32);
}

mod avx512 {
    use super::*;

    direct!("avx512f,avx512bw,avx512dq,avx512vl", __m512i, __m512, halves, avx512, u8 u16 u32 u64; u8 u16 u32);
}

/// The transpose that converts on the way, if there is one for these types: no part of the old
/// destination may be wanted, since the last blocks overlap the ones before them. Whole lines of
/// cells are fast, others slow.
pub(in super::super) fn convert<D: RowStarts, S: RowStarts>(
    transform: &Transform, store: Store, isa: Isa,
) -> Option<Transpose<D, S>> {
    let is_move = transform.src == transform.dst && transform.scaling.is_move();
    if !isa.has_avx2() || is_move || transform.scaling.beta != 0.0 {
        return None;
    }
    macro_rules! pick {
        ($W:ident, $Through:ident<$($T:tt),*>) => {
            match (isa.has_avx512(), store) {
                (true, Store::Cached) => avx512::$W::<$Through<$($T,)* false>, D, S>,
                (true, Store::Streamed) => avx512::$W::<$Through<$($T,)* true>, D, S>,
                (false, Store::Cached) => avx2::$W::<$Through<$($T,)* false>, D, S>,
                (false, Store::Streamed) => avx2::$W::<$Through<$($T,)* true>, D, S>,
            }
        };
    }
    // A factor of 1 changes nothing but NaNs that signal, which every conversion but that from
    // bfloat16 makes quiet.
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
