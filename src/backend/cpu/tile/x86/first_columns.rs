//! Transposes of fewer columns of cells of one and two bytes than a line has, with AVX-512, where
//! the rows of the destination conflict into few cache sets: groups of whole lines (`staged.rs`),
//! of which some columns are not there. The work on these is in vain, but several lines of a row of
//! the destination are written together.

use std::arch::x86_64::*;

use super::through::{Narrow, Place, Through};
use super::{Matrix, RowStarts, staged, starts};
use crate::ops::Scaling;

/// Blocks of which only the first columns are there.
struct FirstColumns<F> {
    columns: usize,
    through: F,
}

impl<F: Narrow> Through<__m512i> for FirstColumns<F> {
    const SRC: usize = F::SRC;
    const DST: usize = F::DST;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    unsafe fn get(&self, from: *const u8, scaling: Scaling) -> __m512i {
        // SAFETY: a row has `columns` cells, and no more are read.
        unsafe { F::get_some(from, self.columns, scaling) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    unsafe fn put(&mut self, cells: __m512i, place: Place, scaling: Scaling) {
        if place.column < self.columns {
            // SAFETY: the place is writable, as those of `through` are.
            unsafe { self.through.put(cells, place, scaling) }
        }
    }
}

/// Defines the transpose of one width.
macro_rules! cut {
    ($W:ident) => {
        /// Transposes groups of `lines` lines of rows.
        ///
        /// # Safety
        /// As for [`Transpose`](super::Transpose), for at least a line of rows and less than one of
        /// columns.
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        pub unsafe fn $W<F: Narrow, D: RowStarts, S: RowStarts>(m: Matrix<D, S>, lines: usize) {
            const COLUMNS: usize = 64 / size_of::<$W>();
            // SAFETY: all columns of the matrix.
            let starts: [_; COLUMNS] = unsafe { starts(&m, 0..m.columns) };
            let mut cut = FirstColumns { columns: m.columns, through: F::NEW };
            let whole = Matrix { columns: COLUMNS, ..m }.to(m.dst, &starts[..]);
            // SAFETY: columns that are not there are neither read nor written.
            unsafe { staged::avx512::$W::in_groups(&mut cut, &whole, [lines, 1]) }
        }
    };
}

cut!(u8);
cut!(u16);
