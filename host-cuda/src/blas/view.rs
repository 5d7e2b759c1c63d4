//! Matrices of a known type, element by element.

use std::ffi::c_void;

use super::kind::Element;
use crate::threads;

/// A matrix of a known type.
#[derive(Clone, Copy)]
pub struct View<T> {
    /// The element of row 0 and column 0.
    pub first: *mut T,
    /// From a row to the next, and from a column to the next.
    pub strides: [i64; 2],
}

// SAFETY: whoever makes a view vouches for its memory; threads have parts of their own of what is
// written.
unsafe impl<T> Sync for View<T> {}
// SAFETY: a view is where it is for every thread.
unsafe impl<T> Send for View<T> {}

impl<T: Element> View<T> {
    /// Columns of `leading` elements, or the transpose of a matrix that lies so.
    pub fn columns(data: *const T, leading: i64, is_transposed: bool) -> Self {
        View { first: data.cast_mut(), strides: if is_transposed { [leading, 1] } else { [1, leading] } }
    }

    /// Where it begins in memory, for checks.
    pub fn start(&self) -> *const c_void {
        self.first.cast_const().cast()
    }

    fn at(&self, row: i64, column: i64) -> *mut T {
        self.first.wrapping_offset((row * self.strides[0] + column * self.strides[1]) as isize)
    }

    /// An element.
    ///
    /// # Safety
    /// The element is there.
    pub unsafe fn get(&self, row: i64, column: i64) -> f64 {
        // SAFETY: the element is in memory; the read needs no alignment, as programs place matrices
        // anywhere.
        unsafe { self.at(row, column).read_unaligned().wide() }
    }

    /// Writes an element, rounded once.
    ///
    /// # Safety
    /// The element is there, and nobody else uses it.
    pub unsafe fn set(&self, row: i64, column: i64, value: f64) {
        // SAFETY: the element is in memory, and nobody else uses it; the write needs no alignment.
        unsafe { self.at(row, column).write_unaligned(T::narrow(value)) };
    }

    /// Rows and columns swapped.
    pub fn transposed(&self) -> Self {
        View { strides: [self.strides[1], self.strides[0]], ..*self }
    }
}

/// `C[i, j] = of(i, j)` for all elements of a matrix whose columns lie in memory.
///
/// # Safety
/// The matrix is in memory, and `of` reads at most the element that it gives.
pub unsafe fn fill<T: Element>(c: View<T>, [m, n]: [i64; 2], of: impl Fn(i64, i64) -> f64 + Sync) {
    let elements = usize::try_from(m * n).unwrap_or(0);
    let c = &c;
    threads::spread(elements, |range| {
        let (mut row, mut column) = (range.start as i64 % m, range.start as i64 / m);
        for _ in range {
            // SAFETY: the matrix has this element, which no other thread has.
            unsafe { c.set(row, column, of(row, column)) };
            row += 1;
            if row == m {
                (row, column) = (0, column + 1);
            }
        }
    });
}
