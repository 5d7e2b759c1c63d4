//! Products of matrices: plain, of mixed types, and in batches of one step.

use std::ffi::{c_int, c_longlong, c_void};

use half::f16;

use super::arguments::{self, Shape};
use super::factor::Factor;
use super::handle::{self, Handle};
use super::kind::Kind;
use super::product::{Matrix, Products};
use super::status::{Failure, Outcome, calls};

/// The types of a product: of A, B and C, and of the factors.
#[derive(Clone, Copy)]
pub struct Types {
    /// Of A, B, C.
    pub matrices: [Kind; 3],
    /// Of alpha and beta.
    pub factors: Kind,
}

impl Types {
    /// All of one type.
    pub const fn all(kind: Kind) -> Self {
        Types { matrices: [kind; 3], factors: kind }
    }

    /// Of a call that names them: `cudaDataType` of A, B and C, and a `cublasComputeType_t`.
    ///
    /// # Errors
    /// Invalid value for numbers that are none, not supported for combinations that the public
    /// documentation does not list.
    pub fn decode(matrices: [c_int; 3], compute: c_int) -> Outcome<Self> {
        let [a, b, c] = matrices;
        let matrices = [Kind::decode(a, "Atype")?, Kind::decode(b, "Btype")?, Kind::decode(c, "Ctype")?];
        let factors = match compute {
            64 | 65 => Kind::F16,
            68 | 69 | 74 | 75 | 77 | 78 => Kind::F32,
            70 | 71 | 79 => Kind::F64,
            72 | 73 => Kind::I32,
            _ => return Err(Failure::invalid(format!("computeType is {compute}, no cublasComputeType_t"))),
        };
        let [a, b, c] = matrices;
        let is_listed = a == b
            && match factors {
                Kind::F16 => a == Kind::F16 && c == Kind::F16,
                Kind::F64 => a == Kind::F64 && c == Kind::F64,
                Kind::I32 => a == Kind::I8 && c == Kind::I32,
                _ => match a {
                    Kind::F16 | Kind::Bf16 => c == a || c == Kind::F32,
                    Kind::I8 | Kind::F32 => c == Kind::F32,
                    _ => false,
                },
            };
        if !is_listed {
            return Err(Failure::unsupported(format!(
                "{a:?} times {b:?} into {c:?} with factors of {factors:?}"
            )));
        }
        Ok(Types { matrices, factors })
    }

    /// Alpha and beta.
    ///
    /// # Errors
    /// Invalid value for NULL.
    ///
    /// # Safety
    /// Both are NULL or valid for one read of their type: now, or on the device whenever the
    /// product is done.
    pub unsafe fn factors(&self, handle: &Handle, [alpha, beta]: [*const c_void; 2]) -> Outcome<[Factor; 2]> {
        // SAFETY: both factors are NULL or one readable number of their type.
        Ok(unsafe {
            [handle.factor(self.factors, alpha, "alpha")?, handle.factor(self.factors, beta, "beta")?]
        })
    }

    /// # Errors
    /// Not supported for integers that binary32 does not hold.
    pub fn check_factors(&self, factors: [f64; 2]) -> Outcome {
        let is_lost = |factor: &f64| self.factors == Kind::I32 && f64::from(*factor as f32) != *factor;
        match factors.into_iter().find(is_lost) {
            Some(factor) => {
                Err(Failure::unsupported(format!("a factor of {factor}, which binary32 does not hold")))
            }
            None => Ok(()),
        }
    }
}

/// The matrices of a call: where A, B and C begin, and how far those of a batch are apart.
#[derive(Clone, Copy)]
pub struct Batch {
    /// A, B, C.
    pub data: [*const c_void; 3],
    /// Elements from one to the next.
    pub apart: [i64; 3],
    /// How many.
    pub count: i64,
}

impl Batch {
    /// One product.
    pub const fn single(data: [*const c_void; 3]) -> Self {
        Batch { data, apart: [0; 3], count: 1 }
    }
}

/// Every product at a distance of its batch from the last one.
///
/// # Errors
/// In this order: a handle that is not alive; what [`Shape`] refuses; a negative count; NULL
/// factors; NULL matrices that are touched; several products in one place.
///
/// # Safety
/// Factors and matrices are NULL or as the shape and the types say.
pub unsafe fn multiply(
    handle: *mut c_void, shape: impl FnOnce() -> Outcome<(Shape, Types)>, factors: [*const c_void; 2],
    batch: Batch,
) -> Outcome {
    let handle = handle::get(handle)?;
    let (shape, types) = shape()?;
    arguments::extents([("batchCount", batch.count)])?;
    // SAFETY: both factors are NULL or one readable number of their type.
    let factors = unsafe { types.factors(&handle, factors)? };
    if shape.is_empty() || batch.count == 0 {
        return Ok(());
    }
    arguments::data(batch.data[2], true, "C")?;
    if batch.count > 1 && batch.apart[2] == 0 {
        return Err(Failure::invalid("strideC is 0: all products would be written to one place"));
    }
    let matrices = matrices(&shape, &types, batch.data, batch.apart);
    let check = move |factors: [f64; 2]| {
        types.check_factors(factors)?;
        arguments::data(matrices[1].start(), shape.sums(factors[0]), "A")?;
        arguments::data(matrices[2].start(), shape.sums(factors[0]), "B")
    };
    let product = move |products: &mut Products, factors| {
        // SAFETY: the matrices are in memory, as the shape and the types say, when the product is
        // done.
        unsafe { products.multiply(matrices, shape.extents, batch.count, factors) }
    };
    // SAFETY: factors of the device are there when the product is done.
    unsafe { arguments::multiply(&handle, factors, check, product) }
}

/// C, A and B.
pub fn matrices(shape: &Shape, types: &Types, data: [*const c_void; 3], apart: [i64; 3]) -> [Matrix; 3] {
    let swapped = [shape.transposed[0], shape.transposed[1], false];
    let each =
        |at: usize| Matrix::columns(data[at], types.matrices[at], shape.leading[at], swapped[at], apart[at]);
    [each(2), each(0), each(1)]
}

/// `cublasGemmAlgo_t`: CUBLAS_GEMM_DEFAULT is -1, algorithms 0 to 23, those of Tensor Cores 99 to
/// 115, one more since.
pub fn check_algorithm(algorithm: c_int) -> Outcome {
    match algorithm {
        -1..=23 | 99..=115 | 999 => Ok(()),
        _ => Err(Failure::invalid(format!("algo is {algorithm}, no cublasGemmAlgo_t"))),
    }
}

macro_rules! plain {
    ($($T:ty, $kind:ident: $name:ident $wide:ident, $strided:ident $strided_wide:ident;)*) => {
        calls! {$(
            /// `C = alpha op(A) op(B) + beta C`
            ///
            /// Status, in this order: NOT_INITIALIZED for a handle that is not alive; INVALID_VALUE
            /// for unknown operations, negative extents, leading dimensions below max(1, rows),
            /// NULL factors, NULL matrices that are touched; NOT_SUPPORTED for extents and strides
            /// beyond 32 bits.
            fn $name, $wide(
                handle: *mut c_void,
                transa: c_int,
                transb: c_int,
                m: Int,
                n: Int,
                k: Int,
                alpha: *const $T,
                a: *const $T,
                lda: Int,
                b: *const $T,
                ldb: Int,
                beta: *const $T,
                c: *mut $T,
                ldc: Int,
            ) {
                let shape = || {
                    let extents = [m, n, k].map(i64::from);
                    let shape = Shape::new([transa, transb], extents, [lda, ldb, ldc].map(i64::from))?;
                    Ok((shape, Types::all(Kind::$kind)))
                };
                let batch = Batch::single([a.cast(), b.cast(), c.cast_const().cast()]);
                // SAFETY: factors and matrices are NULL or as the shape and the types say.
                unsafe { multiply(handle, shape, [alpha.cast(), beta.cast()], batch) }
            }

            /// `C[i] = alpha op(A[i]) op(B[i]) + beta C[i]`, where matrices follow each other at
            /// one distance each; 0 for A or B repeats it.
            ///
            /// Status: as for one product; also INVALID_VALUE for a negative count, and for strideC
            /// 0 of several products.
            fn $strided, $strided_wide(
                handle: *mut c_void,
                transa: c_int,
                transb: c_int,
                m: Int,
                n: Int,
                k: Int,
                alpha: *const $T,
                a: *const $T,
                lda: Int,
                stride_a: c_longlong,
                b: *const $T,
                ldb: Int,
                stride_b: c_longlong,
                beta: *const $T,
                c: *mut $T,
                ldc: Int,
                stride_c: c_longlong,
                count: Int,
            ) {
                let shape = || {
                    let extents = [m, n, k].map(i64::from);
                    let shape = Shape::new([transa, transb], extents, [lda, ldb, ldc].map(i64::from))?;
                    Ok((shape, Types::all(Kind::$kind)))
                };
                let data = [a.cast(), b.cast(), c.cast_const().cast()];
                let batch = Batch { data, apart: [stride_a, stride_b, stride_c], count: count.into() };
                // SAFETY: factors and matrices are NULL or as the shape and the types say.
                unsafe { multiply(handle, shape, [alpha.cast(), beta.cast()], batch) }
            }
        )*}
    };
}

plain! {
    f32, F32: cublasSgemm_v2 cublasSgemm_v2_64, cublasSgemmStridedBatched cublasSgemmStridedBatched_64;
    f64, F64: cublasDgemm_v2 cublasDgemm_v2_64, cublasDgemmStridedBatched cublasDgemmStridedBatched_64;
    f16, F16: cublasHgemm cublasHgemm_64, cublasHgemmStridedBatched cublasHgemmStridedBatched_64;
}

calls! {
    /// The same with factors in binary32 and matrices of other types: those of CUBLAS_COMPUTE_32F.
    ///
    /// Status: as for cublasSgemm; also NOT_SUPPORTED for other types.
    fn cublasSgemmEx, cublasSgemmEx_64(
        handle: *mut c_void,
        transa: c_int,
        transb: c_int,
        m: Int,
        n: Int,
        k: Int,
        alpha: *const f32,
        a: *const c_void,
        a_type: c_int,
        lda: Int,
        b: *const c_void,
        b_type: c_int,
        ldb: Int,
        beta: *const f32,
        c: *mut c_void,
        c_type: c_int,
        ldc: Int,
    ) {
        const COMPUTE_32F: c_int = 68;
        let shape = || {
            let extents = [m, n, k].map(i64::from);
            let shape = Shape::new([transa, transb], extents, [lda, ldb, ldc].map(i64::from))?;
            Ok((shape, Types::decode([a_type, b_type, c_type], COMPUTE_32F)?))
        };
        let batch = Batch::single([a, b, c.cast_const()]);
        // SAFETY: factors and matrices are NULL or as the shape and the types say.
        unsafe { multiply(handle, shape, [alpha.cast(), beta.cast()], batch) }
    }

    /// The same with named types and a computation type: HALF, binary32 (also where products may be
    /// rounded, which these are not), binary64, and integers for CUDA_R_8I into CUDA_R_32I. Sums of
    /// halves are in binary32.
    ///
    /// Status: as for cublasSgemm; also INVALID_VALUE for unknown types and algorithms,
    /// NOT_SUPPORTED for combinations of types that the public documentation does not list, and
    /// complex ones.
    fn cublasGemmEx, cublasGemmEx_64(
        handle: *mut c_void,
        transa: c_int,
        transb: c_int,
        m: Int,
        n: Int,
        k: Int,
        alpha: *const c_void,
        a: *const c_void,
        a_type: c_int,
        lda: Int,
        b: *const c_void,
        b_type: c_int,
        ldb: Int,
        beta: *const c_void,
        c: *mut c_void,
        c_type: c_int,
        ldc: Int,
        compute: c_int,
        algorithm: c_int,
    ) {
        let shape = || {
            let extents = [m, n, k].map(i64::from);
            let shape = Shape::new([transa, transb], extents, [lda, ldb, ldc].map(i64::from))?;
            check_algorithm(algorithm)?;
            Ok((shape, Types::decode([a_type, b_type, c_type], compute)?))
        };
        let batch = Batch::single([a, b, c.cast_const()]);
        // SAFETY: factors and matrices are NULL or as the shape and the types say.
        unsafe { multiply(handle, shape, [alpha, beta], batch) }
    }

    /// The same for a batch of one step, as cublasSgemmStridedBatched.
    ///
    /// Status: as for cublasGemmEx and cublasSgemmStridedBatched.
    fn cublasGemmStridedBatchedEx, cublasGemmStridedBatchedEx_64(
        handle: *mut c_void,
        transa: c_int,
        transb: c_int,
        m: Int,
        n: Int,
        k: Int,
        alpha: *const c_void,
        a: *const c_void,
        a_type: c_int,
        lda: Int,
        stride_a: c_longlong,
        b: *const c_void,
        b_type: c_int,
        ldb: Int,
        stride_b: c_longlong,
        beta: *const c_void,
        c: *mut c_void,
        c_type: c_int,
        ldc: Int,
        stride_c: c_longlong,
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
        let apart = [stride_a, stride_b, stride_c];
        let batch = Batch { data: [a, b, c.cast_const()], apart, count: count.into() };
        // SAFETY: factors and matrices are NULL or as the shape and the types say.
        unsafe { multiply(handle, shape, [alpha, beta], batch) }
    }
}
