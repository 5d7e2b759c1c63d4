//! Products of matrices whose addresses lie in arrays.

use std::ffi::{c_int, c_void};

use half::f16;

use super::arguments::{self, Shape};
use super::factor::Place;
use super::gemm::{Types, check_algorithm, matrices};
use super::handle;
use super::kind::Kind;
use super::product::Products;
use super::status::{Outcome, calls};

/// Every product of matrices whose addresses lie in arrays.
///
/// # Errors
/// As [`multiply`]; the arrays and every address in them are checked before the first product.
///
/// # Safety
/// Factors, arrays and matrices are NULL or as the shape, the types and the count say.
unsafe fn multiply_each(
    handle: *mut c_void, shape: impl FnOnce() -> Outcome<(Shape, Types)>, factors: [*const c_void; 2],
    arrays: [*const *const c_void; 3], count: i64,
) -> Outcome {
    let handle = handle::get(handle)?;
    let (shape, types) = shape()?;
    arguments::extents([("batchCount", count)])?;
    // SAFETY: both factors are NULL or one readable number of their type.
    let factors = unsafe { types.factors(&handle, factors)? };
    if shape.is_empty() || count == 0 {
        return Ok(());
    }
    let arrays = arrays.map(Place::new);
    let touched = move |alpha: f64| [shape.sums(alpha), shape.sums(alpha), true];
    let check = move |factors: [f64; 2]| {
        types.check_factors(factors)?;
        for (at, name) in NAMES.into_iter().enumerate().filter(|&(at, _)| touched(factors[0])[at]) {
            arguments::data(arrays[at].get().cast(), true, name)?;
        }
        Ok(())
    };
    // The arrays lie on the device: what they hold is read when the products are computed.
    let products = move |products: &mut Products, factors: [f64; 2]| {
        // SAFETY: arrays that are touched are not NULL, and hold `count` addresses.
        let data = |i| unsafe { arguments::addresses(arrays, NAMES, touched(factors[0]), i) };
        (0..count as usize).try_for_each(|i| data(i).map(drop))?;
        (0..count as usize).try_for_each(|i| {
            let matrices = matrices(&shape, &types, data(i)?, [0; 3]);
            // SAFETY: the matrices at these addresses are as the shape and the types say.
            unsafe { products.multiply(matrices, shape.extents, 1, factors) }
        })
    };
    // SAFETY: factors of the device are there when the products are computed.
    unsafe { arguments::multiply(&handle, factors, check, products) }
}

/// The arrays of addresses, as calls name them.
const NAMES: [&str; 3] = ["Aarray", "Barray", "Carray"];

macro_rules! batched {
    ($($T:ty, $kind:ident: $name:ident $wide:ident;)*) => {
        calls! {$(
            /// `C[i] = alpha op(A[i]) op(B[i]) + beta C[i]` of matrices whose addresses lie in
            /// arrays.
            ///
            /// Status: as for one product; also INVALID_VALUE for a negative count and for NULL
            /// arrays and addresses.
            fn $name, $wide(
                handle: *mut c_void,
                transa: c_int,
                transb: c_int,
                m: Int,
                n: Int,
                k: Int,
                alpha: *const $T,
                a: *const *const c_void,
                lda: Int,
                b: *const *const c_void,
                ldb: Int,
                beta: *const $T,
                c: *const *mut c_void,
                ldc: Int,
                count: Int,
            ) {
                let shape = || {
                    let extents = [m, n, k].map(i64::from);
                    let shape = Shape::new([transa, transb], extents, [lda, ldb, ldc].map(i64::from))?;
                    Ok((shape, Types::all(Kind::$kind)))
                };
                // SAFETY: factors, arrays and matrices are NULL or as shape, types and count say.
                unsafe {
                    multiply_each(handle, shape, [alpha.cast(), beta.cast()], [a, b, c.cast()], count.into())
                }
            }
        )*}
    };
}

batched! {
    f32, F32: cublasSgemmBatched cublasSgemmBatched_64;
    f64, F64: cublasDgemmBatched cublasDgemmBatched_64;
    f16, F16: cublasHgemmBatched cublasHgemmBatched_64;
}

calls! {
    /// The same with named types, as cublasGemmEx.
    ///
    /// Status: as for cublasGemmEx and cublasSgemmBatched.
    fn cublasGemmBatchedEx, cublasGemmBatchedEx_64(
        handle: *mut c_void,
        transa: c_int,
        transb: c_int,
        m: Int,
        n: Int,
        k: Int,
        alpha: *const c_void,
        a: *const *const c_void,
        a_type: c_int,
        lda: Int,
        b: *const *const c_void,
        b_type: c_int,
        ldb: Int,
        beta: *const c_void,
        c: *const *mut c_void,
        c_type: c_int,
        ldc: Int,
        count: Int,
        compute: c_int,
        algorithm: c_int,
    ) {
        let shape = || {
            let extents = [m, n, k].map(i64::from);
            let shape = Shape::new([transa, transb], extents, [lda, ldb, ldc].map(i64::from))?;
            check_algorithm(algorithm)?;
            Ok((shape, Types::decode([a_type, b_type, c_type], compute)?))
        };
        // SAFETY: factors, arrays and matrices are NULL or as shape, types and count say.
        unsafe { multiply_each(handle, shape, [alpha, beta], [a, b, c.cast()], count.into()) }
    }
}
