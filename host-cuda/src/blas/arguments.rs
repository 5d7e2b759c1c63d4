//! What calls on matrices check, in the order in which they check it: enumerations, extents,
//! leading dimensions, pointers.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, MutexGuard, PoisonError};

use super::factor::{Factor, Place};
use super::handle::Handle;
use super::product::Products;
use super::status::{Failure, Outcome, required};

/// Whether a `cublasOperation_t` swaps rows and columns. Conjugation changes nothing of real
/// numbers.
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

/// Does a product in the order of the handle's stream. `check` looks at what is touched for given
/// factors: at the call if they are known then, and before each product.
///
/// # Errors
/// As the check and the product, and as [`Handle::submit`].
///
/// # Safety
/// Factors of the device are there whenever the product is done.
pub unsafe fn multiply(
    handle: &Arc<Handle>, factors: [Factor; 2],
    check: impl Fn([f64; 2]) -> Outcome + Clone + Send + Sync + 'static,
    product: impl Fn(&mut Products, [f64; 2]) -> Outcome + Clone + Send + Sync + 'static,
) -> Outcome {
    if let [Some(alpha), Some(beta)] = factors.map(Factor::known) {
        check([alpha, beta])?;
    }
    let kept = Arc::clone(handle);
    handle.submit(move || {
        // SAFETY: the product is done now.
        let factors = unsafe { [factors[0].get()?, factors[1].get()?] };
        check(factors)?;
        product(&mut products(&kept), factors)
    })
}

/// Reads the addresses of one place in arrays, each NULL or not.
///
/// # Errors
/// Invalid value for the NULL of an array, or of an address, that is touched.
///
/// # Safety
/// Arrays that are touched are NULL or hold an address at `i`.
pub unsafe fn addresses(
    arrays: [Place<*const c_void>; 3], names: [&str; 3], touched: [bool; 3], i: usize,
) -> Outcome<[*const c_void; 3]> {
    let mut found = [std::ptr::null(); 3];
    for (at, to) in found.iter_mut().enumerate().filter(|&(at, _)| touched[at]) {
        let (array, name) = (arrays[at].get().cast_const(), names[at]);
        required(array, name)?;
        // SAFETY: not NULL, and the caller vouches for this address.
        *to = unsafe { array.wrapping_add(i).read_unaligned() };
        if to.is_null() {
            return Err(Failure::invalid(format!("{name}[{i}] is NULL")));
        }
    }
    Ok(found)
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
