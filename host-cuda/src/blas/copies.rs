//! Vectors and matrices from the host to the device and back: both are host memory.

use std::ffi::c_void;

use super::arguments;
use super::status::{Failure, Outcome, calls};

/// Refuses numbers below 1.
fn positive<const N: usize>(named: [(&str, i64); N]) -> Outcome {
    match named.into_iter().find(|&(_, value)| value < 1) {
        Some((name, value)) => Err(Failure::invalid(format!("{name} is {value}: must be at least 1"))),
        None => Ok(()),
    }
}

/// Copies `count` runs of bytes, which begin at these distances.
///
/// # Safety
/// Both places hold all runs.
unsafe fn copy_runs(from: *const c_void, to: *mut c_void, [bytes, apart, to_apart]: [i64; 3], count: i64) {
    let whole = apart == bytes && to_apart == bytes;
    let (bytes, count) = if whole { (bytes * count, 1) } else { (bytes, count) };
    for run in 0..count as isize {
        let from = from.wrapping_byte_offset(run * apart as isize);
        let to = to.wrapping_byte_offset(run * to_apart as isize);
        // SAFETY: both places hold this run; the runs may overlap.
        unsafe { to.cast::<u8>().copy_from(from.cast(), bytes as usize) };
    }
}

/// # Safety
/// Vectors are NULL or in memory as described.
unsafe fn vector(n: i64, size: i64, x: *const c_void, incx: i64, y: *mut c_void, incy: i64) -> Outcome {
    positive([("elemSize", size), ("incx", incx), ("incy", incy)])?;
    if n <= 0 {
        return Ok(());
    }
    arguments::data(x, true, "x")?;
    arguments::data(y.cast_const(), true, "y")?;
    // SAFETY: both vectors are in memory, element by element.
    unsafe { copy_runs(x, y, [size, incx * size, incy * size], n) };
    Ok(())
}

/// # Safety
/// Matrices are NULL or in memory as described.
unsafe fn matrix(
    [rows, columns]: [i64; 2], size: i64, a: *const c_void, lda: i64, b: *mut c_void, ldb: i64,
) -> Outcome {
    arguments::extents([("rows", rows), ("cols", columns)])?;
    positive([("elemSize", size)])?;
    arguments::leading("lda", lda, rows)?;
    arguments::leading("ldb", ldb, rows)?;
    if rows == 0 || columns == 0 {
        return Ok(());
    }
    arguments::data(a, true, "A")?;
    arguments::data(b.cast_const(), true, "B")?;
    // SAFETY: both matrices are in memory, column by column.
    unsafe { copy_runs(a, b, [rows * size, lda * size, ldb * size], columns) };
    Ok(())
}

macro_rules! of_vectors {
    ($($name:ident $wide:ident $($stream:ident)?;)*) => {
        calls! {$(
            /// `y = x`, element by element of any size. All is copied when the call returns.
            ///
            /// Status: INVALID_VALUE for elemSize, incx or incy below 1, and for NULL with elements.
            fn $name, $wide(
                n: Int, size: Int, x: *const c_void, incx: Int, y: *mut c_void, incy: Int $(, $stream: *mut c_void)?
            ) {
                $(let _ = $stream;)?
                // SAFETY: both vectors are NULL or in memory as described.
                unsafe { vector(n.into(), size.into(), x, incx.into(), y, incy.into()) }
            }
        )*}
    };
}

of_vectors! {
    cublasSetVector cublasSetVector_64;
    cublasGetVector cublasGetVector_64;
    cublasSetVectorAsync cublasSetVectorAsync_64 stream;
    cublasGetVectorAsync cublasGetVectorAsync_64 stream;
}

macro_rules! of_matrices {
    ($($name:ident $wide:ident $($stream:ident)?;)*) => {
        calls! {$(
            /// `B = A`, column by column, with elements of any size. All is copied when the call returns.
            ///
            /// Status: INVALID_VALUE for negative extents, elemSize below 1, leading dimensions below max(1, rows), and for NULL with
            /// elements.
            fn $name, $wide(
                rows: Int, cols: Int, size: Int, a: *const c_void, lda: Int, b: *mut c_void, ldb: Int $(, $stream: *mut c_void)?
            ) {
                $(let _ = $stream;)?
                // SAFETY: both matrices are NULL or in memory as described.
                unsafe { matrix([rows.into(), cols.into()], size.into(), a, lda.into(), b, ldb.into()) }
            }
        )*}
    };
}

of_matrices! {
    cublasSetMatrix cublasSetMatrix_64;
    cublasGetMatrix cublasGetMatrix_64;
    cublasSetMatrixAsync cublasSetMatrixAsync_64 stream;
    cublasGetMatrixAsync cublasGetMatrixAsync_64 stream;
}
