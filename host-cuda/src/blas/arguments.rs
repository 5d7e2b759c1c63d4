//! What calls on matrices check, in the order in which they check it: enumerations, extents, leading dimensions, pointers.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, MutexGuard, PoisonError};

use super::handle::Handle;
use super::product::{Matrix, Products};
use super::status::{Failure, Outcome, required};

/// Whether a `cublasOperation_t` swaps rows and columns. Conjugation changes nothing of real numbers.
///
/// # Errors
/// Invalid value for numbers that are none.
pub fn transposed(operation: c_int, argument: &str) -> Outcome<bool> {
    match operation {
        0 => Ok(false),
        1 | 2 => Ok(true),
        _ => Err(Failure::invalid(format!("{argument} is {operation}, no cublasOperation_t"))),
    }
}

/// Which of two values a number stands for, such as those of `cublasFillMode_t`: false the first.
///
/// # Errors
/// Invalid value for numbers that are neither.
pub fn second(number: c_int, argument: &str) -> Outcome<bool> {
    match number {
        0 | 1 => Ok(number == 1),
        _ => Err(Failure::invalid(format!("{argument} is {number}, neither 0 nor 1"))),
    }
}

/// Refuses negative extents.
///
/// # Errors
/// Invalid value.
pub fn extents<const N: usize>(named: [(&str, i64); N]) -> Outcome {
    match named.into_iter().find(|&(_, extent)| extent < 0) {
        Some((name, extent)) => Err(Failure::invalid(format!("{name} is {extent}: must not be negative"))),
        None => Ok(()),
    }
}

/// Refuses a leading dimension below the rows of its matrix, or below 1.
///
/// # Errors
/// Invalid value.
pub fn leading(name: &str, leading: i64, rows: i64) -> Outcome {
    if leading < rows.max(1) {
        return Err(Failure::invalid(format!("{name} is {leading}: must be at least {}", rows.max(1))));
    }
    Ok(())
}

/// Refuses a step of 0 between the elements of a vector.
///
/// # Errors
/// Invalid value.
pub fn step(name: &str, step: i64) -> Outcome {
    if step == 0 { Err(Failure::invalid(format!("{name} is 0"))) } else { Ok(()) }
}

/// Refuses NULL for a matrix that is touched.
///
/// # Errors
/// Invalid value.
pub fn data(pointer: *const c_void, is_touched: bool, argument: &str) -> Outcome {
    if is_touched { required(pointer, argument) } else { Ok(()) }
}

/// What multiplies for a handle, for this thread alone.
pub fn products(handle: &Handle) -> MutexGuard<'_, Products> {
    handle.products.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Multiplies as [`Products::multiply`] does, or leaves it to the graph that the handle's stream captures, with these factors.
///
/// # Errors
/// As the product, and for a capture that was spoiled.
///
/// # Safety
/// As the product, now or when the graph is launched.
pub unsafe fn multiply(
    handle: &Arc<Handle>, matrices: [Matrix; 3], extents: [i64; 3], count: i64, factors: [f64; 2],
) -> Outcome {
    let kept = Arc::clone(handle);
    // SAFETY: the matrices are in memory when the graph is launched.
    let later = move || unsafe { products(&kept).multiply(matrices, extents, count, factors).is_ok() };
    if handle.leave_to_graph(later)? {
        return Ok(());
    }
    // SAFETY: the matrices are in memory.
    unsafe { products(handle).multiply(matrices, extents, count, factors) }
}

/// The checked shape of `C = alpha op(A) op(B) + beta C`, column by column in memory.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Whether A and B are transposed.
    pub transposed: [bool; 2],
    /// Rows and columns of C, and terms.
    pub extents: [i64; 3],
    /// Of A, B and C.
    pub leading: [i64; 3],
}

impl Shape {
    /// # Errors
    /// Invalid value, in the order of this text: operations, extents, leading dimensions.
    pub fn new(operations: [c_int; 2], extents: [i64; 3], leading: [i64; 3]) -> Outcome<Self> {
        let transposed = [transposed(operations[0], "transa")?, transposed(operations[1], "transb")?];
        let [m, n, k] = extents;
        self::extents([("m", m), ("n", n), ("k", k)])?;
        let [lda, ldb, ldc] = leading;
        self::leading("lda", lda, if transposed[0] { k } else { m })?;
        self::leading("ldb", ldb, if transposed[1] { n } else { k })?;
        self::leading("ldc", ldc, m)?;
        Ok(Shape { transposed, extents, leading })
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.extents[0] == 0 || self.extents[1] == 0
    }

    /// Whether A and B are read.
    pub fn sums(&self, alpha: f64) -> bool {
        !self.is_empty() && self.extents[2] > 0 && alpha != 0.0
    }
}
