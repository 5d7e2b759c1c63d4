//! Products of matrices in memory, by the kernels of `libcudnn`.

use std::ffi::{c_int, c_void};

use super::kind::Kind;
use super::library::{Multiplier, Shape};
use super::status::{Failure, Outcome};

/// A batch of matrices in memory.
#[derive(Clone, Copy)]
pub struct Matrix {
    /// The element of row 0 and column 0 of the first one.
    pub data: *mut c_void,
    /// The type of its elements.
    pub kind: Kind,
    /// Elements from a row to the next, from a column to the next, and from a matrix to the next.
    pub strides: [i64; 3],
}

// SAFETY: a matrix is where it is for every thread; whoever reads or writes it vouches for its
// elements.
unsafe impl Send for Matrix {}
// SAFETY: sharing where a matrix lies gives access to nothing; what reads or writes it is unsafe.
unsafe impl Sync for Matrix {}

impl Matrix {
    /// Columns of `leading` elements, read as they are or with rows and columns swapped; `apart`
    /// elements from one to the next.
    pub fn columns(data: *const c_void, kind: Kind, leading: i64, is_transposed: bool, apart: i64) -> Self {
        let strides = if is_transposed { [leading, 1, apart] } else { [1, leading, apart] };
        Matrix { data: data.cast_mut(), kind, strides }
    }

    /// Where it begins in memory, for checks.
    pub fn start(&self) -> *const c_void {
        self.data.cast_const()
    }

    /// The same matrices from one of the batch on.
    pub fn of_batch(&self, first: i64) -> Self {
        let bytes = (first * self.strides[2]) as isize * self.kind.size() as isize;
        Matrix { data: self.data.wrapping_byte_offset(bytes), ..*self }
    }

    /// The part that begins at this row and column.
    pub fn part(&self, row: i64, column: i64) -> Self {
        let [down, right, _] = self.strides;
        let bytes = (row * down + column * right) as isize * self.kind.size() as isize;
        Matrix { data: self.data.wrapping_byte_offset(bytes), ..*self }
    }

    /// Rows and columns swapped.
    pub fn transposed(&self) -> Self {
        let [down, right, apart] = self.strides;
        Matrix { strides: [right, down, apart], ..*self }
    }
}

/// What multiplies matrices.
pub struct Products(Multiplier);

/// Of nothing that is read: an element of any type at any alignment.
static NOTHING: u128 = 0;

impl Products {
    /// # Errors
    /// Not initialized without a `libcudnn` that multiplies on the CPU core.
    pub fn new() -> Outcome<Self> {
        Multiplier::new().map(Products)
    }

    /// `C = alpha * A B + beta * C` for each of `batch` products, C of m rows and n columns, A of k
    /// columns. Without terms, or with alpha 0, neither A nor B is read; with beta 0 C is not.
    ///
    /// # Errors
    /// Not supported for extents and strides beyond 32 bits, and as `libcudnn` says.
    ///
    /// # Safety
    /// The matrices are as described, and no other thread uses them in a way that conflicts.
    pub unsafe fn multiply(
        &mut self, [c, a, b]: [Matrix; 3], [m, n, k]: [i64; 3], batch: i64, [alpha, beta]: [f64; 2],
    ) -> Outcome {
        if m == 0 || n == 0 || batch == 0 || (beta == 1.0 && (k == 0 || alpha == 0.0)) {
            return Ok(());
        }
        let no_sum = k == 0 || alpha == 0.0;
        let unread =
            Matrix { data: (&raw const NOTHING).cast_mut().cast(), kind: Kind::F32, strides: [0; 3] };
        let [a, b] = if no_sum { [unread; 2] } else { [a, b] };
        let (k, alpha) = if no_sum { (1, 0.0) } else { (k, alpha) };
        let far = |matrix: &Matrix| i32::try_from(matrix.strides[2]).is_err();
        if batch > 1 && [c, a, b].iter().any(far) {
            for at in 0..batch {
                let each = [c, a, b].map(|matrix| matrix.of_batch(at));
                // SAFETY: one of the batch.
                unsafe { self.multiply(each, [m, n, k], 1, [alpha, beta])? };
            }
            return Ok(());
        }
        // The library's kernels go along the last dimension of C, which is the one without gaps: C
        // transposed is B transposed times A transposed.
        let swap = c.strides[0].abs() < c.strides[1].abs();
        let ([c, a, b], [m, n]) =
            if swap { ([c, b, a].map(|matrix| matrix.transposed()), [n, m]) } else { ([c, a, b], [m, n]) };
        let of_c = shape(&c, [batch, m, n])?;
        let of_a = shape(&a, [batch, m, k])?;
        let of_b = shape(&b, [batch, k, n])?;
        // SAFETY: the caller's matrices.
        unsafe { self.0.multiply([of_c, of_a, of_b], [c.data, a.data, b.data], [alpha, beta]) }
    }
}

/// As the library describes it. A stride of 0 is an extent of 1.
fn shape(matrix: &Matrix, [batch, rows, columns]: [i64; 3]) -> Outcome<Shape> {
    let [down, right, apart] = matrix.strides;
    let single = batch == 1 || apart == 0;
    let dims = [if single { 1 } else { batch }, rows, columns];
    // What moves nothing may be any number.
    let step = |extent: i64, stride: i64| if extent == 1 { 1 } else { stride };
    let strides = [step(dims[0], apart), step(rows, down), step(columns, right)];
    let narrow = |values: [i64; 3]| -> Outcome<[c_int; 3]> {
        let mut narrow = [0; 3];
        for (to, value) in narrow.iter_mut().zip(values) {
            *to = c_int::try_from(value)
                .map_err(|_| Failure::unsupported(format!("an extent or a stride of {value} elements")))?;
        }
        Ok(narrow)
    };
    Ok(Shape { data_type: matrix.kind.number(), dims: narrow(dims)?, strides: narrow(strides)? })
}
