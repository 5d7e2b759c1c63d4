//! Products of matrices whose addresses lie in arrays.

use std::ffi::{c_int, c_void};

use half::f16;

use super::arguments::{self, Shape};
use super::gemm::{Types, check_algorithm, matrices};
use super::handle;
use super::kind::Kind;
use super::status::{Outcome, calls, read};

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
    let factors = unsafe { types.factors(factors[0], factors[1])? };
    if shape.is_empty() || count == 0 {
        return Ok(());
    }
    let sums = shape.sums(factors[0]);
    let touched = [sums, sums, true];
    for (at, name) in ["Aarray", "Barray", "Carray"].into_iter().enumerate().filter(|&(at, _)| touched[at]) {
        arguments::data(arrays[at].cast(), true, name)?;
        for i in 0..count as usize {
            // SAFETY: not NULL, and the caller vouches for `count` addresses.
            let address = unsafe { read(arrays[at].wrapping_add(i), name)? };
            arguments::data(address, true, &format!("{name}[{i}]"))?;
        }
    }
    for i in 0..count as usize {
        let mut data = [std::ptr::null(); 3];
        for (at, to) in data.iter_mut().enumerate().filter(|&(at, _)| touched[at]) {
            // SAFETY: an array that is touched holds `count` addresses.
            *to = unsafe { read(arrays[at].wrapping_add(i), "array")? };
        }
        // SAFETY: the matrices at these addresses are NULL or as the shape and the types say.
        unsafe {
            arguments::multiply(&handle, matrices(&shape, &types, data, [0; 3]), shape.extents, 1, factors)?
        };
    }
    Ok(())
}

macro_rules! batched {
    ($($T:ty, $kind:ident: $name:ident $wide:ident;)*) => {
        calls! {$(
            /// `C[i] = alpha op(A[i]) op(B[i]) + beta C[i]` of matrices whose addresses lie in arrays.
            ///
            /// Status: as for one product; also INVALID_VALUE for a negative count and for NULL arrays and addresses.
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
