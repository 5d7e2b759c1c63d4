//! Transposes that stream columns that start anywhere in a line, with AVX-512: a line is made up of
//! cells of two blocks, the first of which are carried along in the first-level cache.

use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::ops::Range;

use super::super::{Carry, Even, Next};
use super::through::{Moved, Narrow, Narrowed, Place, Through};
use super::{Ahead, Isa, Matrix, RowStarts, lines, staged, starts};
use crate::backend::cpu::stage::Stage;
use crate::backend::cpu::stream::{LINE as BYTES, Stream, to_line};
use crate::dtype::Scalar;
use crate::ops::{Scaling, Transform};

/// The transpose of cells of `cell` bytes, if there is one. What passes is not streamed: it goes to
/// the cache first.
pub(in super::super) fn carry<D: RowStarts, S: RowStarts>(cell: usize, isa: Isa) -> Option<Carry<D, S>> {
    Some(match cell {
        _ if !isa.has_avx512() => return None,
        1 => u8::<Moved<u8, false>, D, S>,
        2 => u16::<Moved<u16, false>, D, S>,
        4 => u32::<Moved<u32, false>, D, S>,
        8 => u64::<Moved<u64, false>, D, S>,
        _ => return None,
    })
}

/// The transpose that converts to narrower cells, if there is one.
pub(in super::super) fn carry_converted<D: RowStarts, S: RowStarts>(
    transform: &Transform, isa: Isa,
) -> Option<Carry<D, S>> {
    if !isa.has_avx512() || transform.scaling.beta != 0.0 {
        return None;
    }
    Some(match (transform.src, transform.dst) {
        (Scalar::F32, Scalar::F16) => u16::<Narrowed<half::f16, false>, D, S>,
        (Scalar::F32, Scalar::Bf16) => u16::<Narrowed<half::bf16, false>, D, S>,
        (Scalar::F32, Scalar::I8) => u8::<Narrowed<i8, false>, D, S>,
        (Scalar::F32, Scalar::U8) => u8::<Narrowed<u8, false>, D, S>,
        _ => return None,
    })
}

/// A strip of columns, with room for two lines of each, the first for the cells that are carried.
struct Carried<F> {
    columns: usize,
    room: Stage<{ 2 * BYTES * BYTES }>,
    through: PhantomData<F>,
}

impl<F> Carried<F> {
    /// The room of a column.
    fn of(&mut self, column: usize) -> *mut u8 {
        self.room.ptr().wrapping_add(column * 2 * BYTES)
    }

    /// Writes bytes of all columns from the room, which starts with byte `begin` of each: those of
    /// `part(j, to_line)` of column `j`, whose first line starts at `to_line`.
    ///
    /// # Safety
    /// There are these bytes in the room and in the column.
    unsafe fn write<S>(
        &mut self, strip: &Matrix<&[isize], S>, begin: usize, part: impl Fn(usize, usize) -> Range<usize>,
        copy: Stream,
    ) {
        for j in 0..self.columns {
            let column = strip.dst.wrapping_offset(strip.dst_rows[j]);
            let Range { start, end } = part(j, to_line(column));
            if start < end {
                // SAFETY: room and column have the bytes from `start` to `end`.
                unsafe { copy(column.add(start), self.of(j).add(start - begin), end - start) };
            }
        }
    }
}

impl<F: Narrow> Through<__m512i> for Carried<F> {
    const SRC: usize = F::SRC;
    const DST: usize = F::DST;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    unsafe fn get(&self, from: *const u8, scaling: Scaling) -> __m512i {
        // SAFETY: `columns` cells of a row belong to the strip, and no more are read.
        unsafe { F::get_some(from, self.columns, scaling) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    unsafe fn put(&mut self, cells: __m512i, place: Place, _: Scaling) {
        if place.column >= self.columns {
            return;
        }
        let room = self.of(place.column);
        // SAFETY: the room of the column, to which its cells were written before. The line is one
        // of the column; it ends in these cells, or with those before them.
        unsafe {
            if place.row > 0 {
                let carried = _mm512_load_si512(room.cast());
                let skip = to_line(place.to);
                let count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
                let low = _mm512_add_epi32(count, _mm512_set1_epi32((skip / 4) as i32));
                let high = _mm512_add_epi32(low, _mm512_set1_epi32(1));
                let [low, high] = [low, high].map(|i| _mm512_permutex2var_epi32(carried, i, cells));
                let bits = (skip % 4 * 8) as i32;
                let line = _mm512_or_si512(
                    _mm512_srl_epi32(low, _mm_cvtsi32_si128(bits)),
                    _mm512_sll_epi32(high, _mm_cvtsi32_si128(32 - bits)),
                );
                _mm512_stream_si512(place.to.sub(BYTES).add(skip).cast(), line);
            }
            _mm512_store_si512(room.cast(), cells);
        }
    }
}

/// Defines the transpose of cells of one width, block by block by the function `$block`.
macro_rules! carried {
    ($W:ident, $block:path) => {
        /// # Safety
        /// As for [`Carry`].
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        unsafe fn $W<F: Narrow, D: RowStarts, S: RowStarts>(
            m: Matrix<D, S>, written: &dyn Fn(usize) -> Range<usize>, copy: Stream,
        ) {
            /// Cells in a cache line.
            const LINE: usize = BYTES / size_of::<$W>();
            let lines = m.rows / LINE;
            let mut ahead = Ahead::of(m.next);
            for first in (0..m.columns).step_by(LINE) {
                let columns = LINE.min(m.columns - first);
                // Blocks have a whole strip of columns; those that are not there go nowhere.
                // SAFETY: columns of the matrix.
                let starts: [_; LINE] = unsafe { starts(&m, first..first + columns) };
                let src = m.src.wrapping_add(first * F::SRC);
                let strip = Matrix { src, columns, next: Next::none(m.src_rows), ..m }.to(m.dst, &starts[..]);
                let mut carried = Carried::<F> { columns, room: Stage::new(), through: PhantomData };
                for i in 0..lines {
                    // SAFETY: rows of the matrix; the first line of each column, and what is to be
                    // written of it.
                    unsafe {
                        $block(&mut carried, &strip, i * LINE, 0, &mut ahead);
                        if i == 0 {
                            let head = |j, to_line| {
                                let Range { start, end } = written(first + j);
                                start..end.min(to_line)
                            };
                            carried.write(&strip, 0, head, copy);
                        }
                    }
                }
                // SAFETY: the last rows, less than a line; what is to be written of them and of
                // what is carried.
                unsafe {
                    if lines * LINE < m.rows {
                        let rest = strip.part(lines * LINE..m.rows, 0..columns, [F::DST, F::SRC]);
                        F::narrow(rest.to(carried.of(0).add(BYTES), Even(2 * BYTES as isize)));
                    }
                    let begin = (lines - 1) * BYTES;
                    let tail = |j, to_line| {
                        let Range { start, end } = written(first + j);
                        start.max(begin + to_line)..end
                    };
                    carried.write(&strip, begin, tail, copy);
                }
            }
            ahead.fetch(usize::MAX);
        }
    };
}

carried!(u8, staged::avx512::u8::block);
carried!(u16, staged::avx512::u16::block);
carried!(u32, lines::avx512::block::u32);
carried!(u64, lines::avx512::block::u64);
