//! Vectors and matrices from the host to the device and back: both are host memory.

use std::borrow::Cow;
use std::ffi::c_void;

use super::factor::Place;
use super::status::{Failure, MAPPING_ERROR, Outcome, calls};
use super::{arguments, handle};
use crate::runtime::capture;

/// Refuses numbers below 1.
fn positive<const N: usize>(named: [(&str, i64); N]) -> Outcome {
    match named.into_iter().find(|&(_, value)| value < 1) {
        Some((name, value)) => Err(Failure::invalid(format!("{name} is {value}: must be at least 1"))),
        None => Ok(()),
    }
}

/// Runs of bytes, which begin at these distances.
#[derive(Clone, Copy)]
struct Runs {
    from: Place<c_void>,
    to: Place<c_void>,
    bytes: i64,
    apart: [i64; 2],
    count: i64,
}

impl Runs {
    /// Copies them.
    ///
    /// # Safety
    /// Both places hold all runs.
    unsafe fn copy(&self) {
        let is_whole = self.apart == [self.bytes; 2];
        let (bytes, count) = if is_whole { (self.bytes * self.count, 1) } else { (self.bytes, self.count) };
        for run in 0..count as isize {
            let from = self.from.get().wrapping_byte_offset(run * self.apart[0] as isize);
            let to = self.to.get().wrapping_byte_offset(run * self.apart[1] as isize);
            // SAFETY: both places hold this run; the runs may overlap.
            unsafe { to.cast::<u8>().copy_from(from.cast(), bytes as usize) };
        }
    }

    /// Copies them in the order of a stream, or before the call returns.
    ///
    /// # Errors
    /// Mapping error where the runtime refuses a copy: in a capture that cannot hold it, or on an
    /// unknown stream.
    ///
    /// # Safety
    /// As [`Runs::copy`], now or when the graph that the stream captures is launched.
    unsafe fn submit(self, stream: Option<*mut c_void>) -> Outcome {
        let copy = move || {
            // SAFETY: both places hold all runs when they are copied.
            unsafe { self.copy() };
            Ok(())
        };
        let mapping = |sentence: Cow<'static, str>| Failure::new(MAPPING_ERROR, sentence);
        match stream {
            Some(stream) => {
                handle::submit_on(stream.addr(), copy).map_err(|failure| mapping(failure.sentence))
            }
            None => {
                capture::refuse_waiting().map_err(|failure| mapping(failure.to_string().into()))?;
                copy()
            }
        }
    }
}

/// The runs of a vector; `None` without elements.
fn vector(
    n: i64, size: i64, x: *const c_void, incx: i64, y: *mut c_void, incy: i64,
) -> Outcome<Option<Runs>> {
    positive([("elemSize", size), ("incx", incx), ("incy", incy)])?;
    if n <= 0 {
        return Ok(None);
    }
    arguments::data(x, true, "x")?;
    arguments::data(y.cast_const(), true, "y")?;
    let (from, to) = (Place::new(x), Place::new(y.cast_const()));
    Ok(Some(Runs { from, to, bytes: size, apart: [incx * size, incy * size], count: n }))
}

/// The runs of a matrix; `None` without elements.
fn matrix(
    [rows, columns]: [i64; 2], size: i64, a: *const c_void, lda: i64, b: *mut c_void, ldb: i64,
) -> Outcome<Option<Runs>> {
    arguments::extents([("rows", rows), ("cols", columns)])?;
    positive([("elemSize", size)])?;
    arguments::leading("lda", lda, rows)?;
    arguments::leading("ldb", ldb, rows)?;
    if rows == 0 || columns == 0 {
        return Ok(None);
    }
    arguments::data(a, true, "A")?;
    arguments::data(b.cast_const(), true, "B")?;
    let (from, to) = (Place::new(a), Place::new(b.cast_const()));
    Ok(Some(Runs { from, to, bytes: rows * size, apart: [lda * size, ldb * size], count: columns }))
}

/// The stream that a call names, if it does.
macro_rules! stream_of {
    () => {
        None
    };
    ($stream:ident) => {
        Some($stream)
    };
}

macro_rules! of_vectors {
    ($($name:ident $wide:ident $($stream:ident)?;)*) => {
        calls! {$(
            /// `y = x`, element by element of any size. All is copied when the call returns, or at
            /// each launch of the graph that a stream captures.
            ///
            /// Status: INVALID_VALUE for elemSize, incx or incy below 1, and for NULL with
            /// elements; MAPPING_ERROR for an unknown stream, and without a stream while a capture
            /// forbids it, as cudaMemcpy.
            fn $name, $wide(
                n: Int, size: Int, x: *const c_void, incx: Int, y: *mut c_void, incy: Int $(, $stream: *mut c_void)?
            ) {
                let runs = vector(n.into(), size.into(), x, incx.into(), y, incy.into())?;
                // SAFETY: both vectors are in memory as described.
                runs.map_or(Ok(()), |runs| unsafe { runs.submit(stream_of!($($stream)?)) })
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
            /// `B = A`, column by column, with elements of any size. All is copied when the call
            /// returns, or at each launch of the graph that a stream captures.
            ///
            /// Status: INVALID_VALUE for negative extents, elemSize below 1, leading dimensions
            /// below max(1, rows), and for NULL with elements; MAPPING_ERROR as cublasSetVector.
            fn $name, $wide(
                rows: Int, cols: Int, size: Int, a: *const c_void, lda: Int, b: *mut c_void, ldb: Int $(, $stream: *mut c_void)?
            ) {
                let runs = matrix([rows.into(), cols.into()], size.into(), a, lda.into(), b, ldb.into())?;
                // SAFETY: both matrices are in memory as described.
                runs.map_or(Ok(()), |runs| unsafe { runs.submit(stream_of!($($stream)?)) })
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
