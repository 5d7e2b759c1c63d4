//! Products of a matrix and a vector, and of two vectors.

use std::ffi::{c_int, c_longlong, c_void};
use std::sync::Arc;

use half::{bf16, f16};

use super::arguments;
use super::factor::{Factor, Place};
use super::handle::{self, Handle};
use super::kind::Kind;
use super::product::{Matrix, Products};
use super::status::{Outcome, calls};
use super::vector::Vector;

/// `y = alpha op(A) x + beta y` for a batch.
#[derive(Clone, Copy)]
struct ByVector {
    transposed: bool,
    /// Rows and columns of A.
    extents: [i64; 2],
    lda: i64,
    /// Of x and y.
    steps: [i64; 2],
    /// Of A and x, of y, and of the factors.
    kinds: [Kind; 3],
}

impl ByVector {
    /// # Errors
    /// Invalid value, in this order: an unknown operation, negative extents, a small leading
    /// dimension, a step of 0.
    fn new(trans: c_int, extents: [i64; 2], lda: i64, steps: [i64; 2], kinds: [Kind; 3]) -> Outcome<Self> {
        let transposed = arguments::transposed(trans, "trans")?;
        arguments::extents([("m", extents[0]), ("n", extents[1])])?;
        arguments::leading("lda", lda, extents[0])?;
        arguments::step("incx", steps[0])?;
        arguments::step("incy", steps[1])?;
        Ok(ByVector { transposed, extents, lda, steps, kinds })
    }

    /// Alpha and beta.
    ///
    /// # Errors
    /// Invalid value for NULL.
    ///
    /// # Safety
    /// Both are NULL or valid for one read of their type: now, or on the device whenever the
    /// product is done.
    unsafe fn factors(&self, handle: &Handle, [alpha, beta]: [*const c_void; 2]) -> Outcome<[Factor; 2]> {
        let kind = self.kinds[2];
        // SAFETY: both factors are NULL or one readable number of their type.
        Ok(unsafe { [handle.factor(kind, alpha, "alpha")?, handle.factor(kind, beta, "beta")?] })
    }

    fn is_empty(&self, count: i64) -> bool {
        self.extents.contains(&0) || count == 0
    }

    /// y, A and x as matrices, and the extents of their product.
    fn product(&self, [a, x, y]: [*const c_void; 3], apart: [i64; 3]) -> ([Matrix; 3], [i64; 3]) {
        let [of_a, of_y, _] = self.kinds;
        let [m, n] = self.extents;
        let [rows, terms] = if self.transposed { [n, m] } else { [m, n] };
        let column = |data: *const c_void, kind, len, step, apart| {
            let vector = Vector { data: data.cast_mut(), kind, len, step };
            Matrix { data: vector.first(), kind, strides: [step, 1, apart] }
        };
        let matrix = Matrix::columns(a, of_a, self.lda, self.transposed, apart[0]);
        let factor = column(x, of_a, terms, self.steps[0], apart[1]);
        ([column(y, of_y, rows, self.steps[1], apart[2]), matrix, factor], [rows, 1, terms])
    }

    /// # Errors
    /// Invalid value for NULL, and as the product.
    ///
    /// # Safety
    /// Factors and arrays are NULL or as described.
    unsafe fn run(
        self, handle: &Arc<Handle>, factors: [*const c_void; 2], arrays: [*const c_void; 3], apart: [i64; 3],
        count: i64,
    ) -> Outcome {
        // SAFETY: both factors are NULL or one readable number of their type.
        let factors = unsafe { self.factors(handle, factors)? };
        if self.is_empty(count) {
            return Ok(());
        }
        arguments::data(arrays[2], true, "y")?;
        let [a, x] = [arrays[0], arrays[1]].map(Place::new);
        let check = move |[alpha, _]: [f64; 2]| {
            arguments::data(a.get(), alpha != 0.0, "A")?;
            arguments::data(x.get(), alpha != 0.0, "x")
        };
        let (matrices, extents) = self.product(arrays, apart);
        let product = move |products: &mut Products, factors| {
            // SAFETY: the matrix and both vectors are in memory as described when the product is
            // computed.
            unsafe { products.multiply(matrices, extents, count, factors) }
        };
        // SAFETY: factors of the device are there when the product is computed.
        unsafe { arguments::multiply(handle, factors, check, product) }
    }

    /// The same of arrays whose addresses lie in arrays.
    ///
    /// # Errors
    /// As for one.
    ///
    /// # Safety
    /// As for one, for each of the addresses.
    unsafe fn run_each(
        self, handle: &Arc<Handle>, factors: [*const c_void; 2], arrays: [*const *const c_void; 3],
        count: i64,
    ) -> Outcome {
        const NAMES: [&str; 3] = ["Aarray", "xarray", "yarray"];
        // SAFETY: both factors are NULL or one readable number of their type.
        let factors = unsafe { self.factors(handle, factors)? };
        if self.is_empty(count) {
            return Ok(());
        }
        for (array, name) in arrays.into_iter().zip(NAMES) {
            arguments::data(array.cast(), true, name)?;
        }
        let arrays = arrays.map(Place::new);
        // The arrays lie on the device: what they hold is read when the products are computed.
        let products = move |products: &mut Products, factors: [f64; 2]| {
            let read = factors[0] != 0.0;
            // SAFETY: the arrays are not NULL, and hold `count` addresses.
            let data = |i| unsafe { arguments::addresses(arrays, NAMES, [read, read, true], i) };
            (0..count as usize).try_for_each(|i| data(i).map(drop))?;
            (0..count as usize).try_for_each(|i| {
                let (matrices, extents) = self.product(data(i)?, [0; 3]);
                // SAFETY: the arrays at these addresses are as described.
                unsafe { products.multiply(matrices, extents, 1, factors) }
            })
        };
        // SAFETY: factors of the device are there when the products are computed.
        unsafe { arguments::multiply(handle, factors, |_| Ok(()), products) }
    }
}

macro_rules! by_vector {
    ($($T:ty, $of_a:ident $U:ty, $of_y:ident $F:ty, $of_factors:ident: $batched:ident $batched64:ident,
        $strided:ident $strided64:ident $(, $name:ident $wide:ident)?;)*) => {
        calls! {$(
            $(
                /// `y = alpha op(A) x + beta y`
                ///
                /// Status, in this order: NOT_INITIALIZED for a handle that is not alive;
                /// INVALID_VALUE for an unknown operation, negative extents, a leading dimension
                /// below max(1, m), steps of 0, NULL factors, NULL arrays that are touched.
                fn $name, $wide(
                    handle: *mut c_void, trans: c_int, m: Int, n: Int, alpha: *const $F, a: *const $T, lda: Int,
                    x: *const $T, incx: Int, beta: *const $F, y: *mut $U, incy: Int,
                ) {
                    let handle = handle::get(handle)?;
                    let kinds = [Kind::$of_a, Kind::$of_y, Kind::$of_factors];
                    let steps = [incx.into(), incy.into()];
                    let product = ByVector::new(trans, [m.into(), n.into()], lda.into(), steps, kinds)?;
                    let arrays = [a.cast(), x.cast(), y.cast_const().cast()];
                    // SAFETY: factors and arrays are NULL or as described.
                    unsafe { product.run(&handle, [alpha.cast(), beta.cast()], arrays, [0; 3], 1) }
                }
            )?

            /// `y[i] = alpha op(A[i]) x[i] + beta y[i]` of arrays whose addresses lie in arrays.
            ///
            /// Status: as for one product; also INVALID_VALUE for a negative count and NULL
            /// addresses.
            fn $batched, $batched64(
                handle: *mut c_void, trans: c_int, m: Int, n: Int, alpha: *const $F, a: *const *const c_void, lda: Int,
                x: *const *const c_void, incx: Int, beta: *const $F, y: *const *mut c_void, incy: Int, count: Int,
            ) {
                let handle = handle::get(handle)?;
                let kinds = [Kind::$of_a, Kind::$of_y, Kind::$of_factors];
                let steps = [incx.into(), incy.into()];
                let product = ByVector::new(trans, [m.into(), n.into()], lda.into(), steps, kinds)?;
                arguments::extents([("batchCount", count.into())])?;
                // SAFETY: factors, lists of addresses and the arrays there are NULL or as
                // described.
                unsafe { product.run_each(&handle, [alpha.cast(), beta.cast()], [a, x, y.cast()], count.into()) }
            }

            /// `y[i] = alpha op(A[i]) x[i] + beta y[i]` of arrays that follow each other at one
            /// distance each.
            ///
            /// Status: as for one product; also INVALID_VALUE for a negative count.
            fn $strided, $strided64(
                handle: *mut c_void, trans: c_int, m: Int, n: Int, alpha: *const $F, a: *const $T, lda: Int,
                stride_a: c_longlong, x: *const $T, incx: Int, stride_x: c_longlong, beta: *const $F, y: *mut $U, incy: Int,
                stride_y: c_longlong, count: Int,
            ) {
                let handle = handle::get(handle)?;
                let kinds = [Kind::$of_a, Kind::$of_y, Kind::$of_factors];
                let steps = [incx.into(), incy.into()];
                let product = ByVector::new(trans, [m.into(), n.into()], lda.into(), steps, kinds)?;
                arguments::extents([("batchCount", count.into())])?;
                let arrays = [a.cast(), x.cast(), y.cast_const().cast()];
                let apart = [stride_a, stride_x, stride_y];
                // SAFETY: factors and arrays are NULL or as described.
                unsafe { product.run(&handle, [alpha.cast(), beta.cast()], arrays, apart, count.into()) }
            }
        )*}
    };
}

by_vector! {
    f32, F32 f32, F32 f32, F32: cublasSgemvBatched cublasSgemvBatched_64,
        cublasSgemvStridedBatched cublasSgemvStridedBatched_64, cublasSgemv_v2 cublasSgemv_v2_64;
    f64, F64 f64, F64 f64, F64: cublasDgemvBatched cublasDgemvBatched_64,
        cublasDgemvStridedBatched cublasDgemvStridedBatched_64, cublasDgemv_v2 cublasDgemv_v2_64;
    f16, F16 f16, F16 f32, F32: cublasHSHgemvBatched cublasHSHgemvBatched_64,
        cublasHSHgemvStridedBatched cublasHSHgemvStridedBatched_64;
    f16, F16 f32, F32 f32, F32: cublasHSSgemvBatched cublasHSSgemvBatched_64,
        cublasHSSgemvStridedBatched cublasHSSgemvStridedBatched_64;
    bf16, Bf16 bf16, Bf16 f32, F32: cublasTSTgemvBatched cublasTSTgemvBatched_64,
        cublasTSTgemvStridedBatched cublasTSTgemvStridedBatched_64;
    bf16, Bf16 f32, F32 f32, F32: cublasTSSgemvBatched cublasTSSgemvBatched_64,
        cublasTSSgemvStridedBatched cublasTSSgemvStridedBatched_64;
}

macro_rules! outer {
    ($($T:ty, $kind:ident: $name:ident $wide:ident;)*) => {
        calls! {$(
            /// `A = alpha x y^T + A`
            ///
            /// Status, in this order: NOT_INITIALIZED for a handle that is not alive; INVALID_VALUE
            /// for negative extents, steps of 0, a leading dimension below max(1, m), a NULL
            /// factor, NULL arrays that are touched.
            fn $name, $wide(
                handle: *mut c_void, m: Int, n: Int, alpha: *const $T, x: *const $T, incx: Int, y: *const $T, incy: Int,
                a: *mut $T, lda: Int,
            ) {
                let handle = handle::get(handle)?;
                let [m, n, incx, incy, lda] = [m, n, incx, incy, lda].map(i64::from);
                arguments::extents([("m", m), ("n", n)])?;
                arguments::step("incx", incx)?;
                arguments::step("incy", incy)?;
                arguments::leading("lda", lda, m)?;
                // SAFETY: `alpha` is NULL or one readable number.
                let alpha = unsafe { handle.factor(Kind::$kind, alpha.cast(), "alpha")? };
                if m == 0 || n == 0 {
                    return Ok(());
                }
                let vector = |data: *const $T, len, step| {
                    Vector { data: data.cast_mut().cast(), kind: Kind::$kind, len, step }
                };
                let (x, y) = (vector(x, m, incx), vector(y, n, incy));
                let column = Matrix { data: x.first(), kind: x.kind, strides: [incx, 1, 0] };
                let row = Matrix { data: y.first(), kind: y.kind, strides: [1, incy, 0] };
                let result = Matrix::columns(a.cast_const().cast(), Kind::$kind, lda, false, 0);
                let check = move |[alpha, _]: [f64; 2]| {
                    arguments::data(x.start(), alpha != 0.0, "x")?;
                    arguments::data(y.start(), alpha != 0.0, "y")?;
                    arguments::data(result.start(), alpha != 0.0, "A")
                };
                let product = move |products: &mut Products, factors| {
                    // SAFETY: the matrix and both vectors are in memory as described when the
                    // product is computed.
                    unsafe { products.multiply([result, column, row], [m, n, 1], 1, factors) }
                };
                // SAFETY: a factor of the device is there when the product is computed.
                unsafe { arguments::multiply(&handle, [alpha, Factor::Known(1.0)], check, product) }
            }
        )*}
    };
}

outer! {
    f32, F32: cublasSger_v2 cublasSger_v2_64;
    f64, F64: cublasDger_v2 cublasDger_v2_64;
}
