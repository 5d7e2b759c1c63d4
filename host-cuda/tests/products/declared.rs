//! The calls that multiply matrices, as C declares them.

use std::ffi::{c_int, c_void};

use crate::common::{Kind, Object};

pub type Data = *const c_void;

macro_rules! products {
    ($($name:ident $wide:ident, $strided:ident $strided_wide:ident, $batched:ident $batched_wide:ident;)*) => {
        unsafe extern "C" {$(
            pub fn $name(h: Object, ta: c_int, tb: c_int, m: i32, n: i32, k: i32, alpha: Data, a: Data, lda: i32, b: Data, ldb: i32,
                beta: Data, c: *mut c_void, ldc: i32) -> c_int;
            pub fn $wide(h: Object, ta: c_int, tb: c_int, m: i64, n: i64, k: i64, alpha: Data, a: Data, lda: i64, b: Data, ldb: i64,
                beta: Data, c: *mut c_void, ldc: i64) -> c_int;
            pub fn $strided(h: Object, ta: c_int, tb: c_int, m: i32, n: i32, k: i32, alpha: Data, a: Data, lda: i32, sa: i64, b: Data,
                ldb: i32, sb: i64, beta: Data, c: *mut c_void, ldc: i32, sc: i64, count: i32) -> c_int;
            pub fn $strided_wide(h: Object, ta: c_int, tb: c_int, m: i64, n: i64, k: i64, alpha: Data, a: Data, lda: i64, sa: i64,
                b: Data, ldb: i64, sb: i64, beta: Data, c: *mut c_void, ldc: i64, sc: i64, count: i64) -> c_int;
            pub fn $batched(h: Object, ta: c_int, tb: c_int, m: i32, n: i32, k: i32, alpha: Data, a: *const Data, lda: i32,
                b: *const Data, ldb: i32, beta: Data, c: *const *mut c_void, ldc: i32, count: i32) -> c_int;
            pub fn $batched_wide(h: Object, ta: c_int, tb: c_int, m: i64, n: i64, k: i64, alpha: Data, a: *const Data, lda: i64,
                b: *const Data, ldb: i64, beta: Data, c: *const *mut c_void, ldc: i64, count: i64) -> c_int;
        )*}

        /// The plain calls of a type.
        pub fn plain(kind: Kind) -> Option<Plain> {
            let of_kind = [Kind::F32, Kind::F64, Kind::F16].into_iter().position(|of| of == kind)?;
            let all = [$(Plain {
                single: $name, wide: $wide, strided: $strided, strided_wide: $strided_wide, batched: $batched,
                batched_wide: $batched_wide,
            }),*];
            all.into_iter().nth(of_kind)
        }
    };
}

/// The calls of one type.
#[rustfmt::skip]
pub struct Plain {
    pub single: unsafe extern "C" fn(Object, c_int, c_int, i32, i32, i32, Data, Data, i32, Data, i32, Data, *mut c_void, i32) -> c_int,
    pub wide: unsafe extern "C" fn(Object, c_int, c_int, i64, i64, i64, Data, Data, i64, Data, i64, Data, *mut c_void, i64) -> c_int,
    pub strided: unsafe extern "C" fn(Object, c_int, c_int, i32, i32, i32, Data, Data, i32, i64, Data, i32, i64, Data, *mut c_void, i32, i64, i32) -> c_int,
    pub strided_wide: unsafe extern "C" fn(Object, c_int, c_int, i64, i64, i64, Data, Data, i64, i64, Data, i64, i64, Data, *mut c_void, i64, i64, i64) -> c_int,
    pub batched: unsafe extern "C" fn(Object, c_int, c_int, i32, i32, i32, Data, *const Data, i32, *const Data, i32, Data, *const *mut c_void, i32, i32) -> c_int,
    pub batched_wide: unsafe extern "C" fn(Object, c_int, c_int, i64, i64, i64, Data, *const Data, i64, *const Data, i64, Data, *const *mut c_void, i64, i64) -> c_int,
}

products! {
    cublasSgemm_v2 cublasSgemm_v2_64, cublasSgemmStridedBatched cublasSgemmStridedBatched_64, cublasSgemmBatched cublasSgemmBatched_64;
    cublasDgemm_v2 cublasDgemm_v2_64, cublasDgemmStridedBatched cublasDgemmStridedBatched_64, cublasDgemmBatched cublasDgemmBatched_64;
    cublasHgemm cublasHgemm_64, cublasHgemmStridedBatched cublasHgemmStridedBatched_64, cublasHgemmBatched cublasHgemmBatched_64;
}

macro_rules! mixed {
    ($($Int:ty: $one:ident $single:ident $strided:ident $batched:ident;)*) => {
        unsafe extern "C" {$(
            pub fn $one(h: Object, ta: c_int, tb: c_int, m: $Int, n: $Int, k: $Int, alpha: Data, a: Data, at: c_int, lda: $Int, b: Data,
                bt: c_int, ldb: $Int, beta: Data, c: *mut c_void, ct: c_int, ldc: $Int) -> c_int;
            pub fn $single(h: Object, ta: c_int, tb: c_int, m: $Int, n: $Int, k: $Int, alpha: Data, a: Data, at: c_int, lda: $Int,
                b: Data, bt: c_int, ldb: $Int, beta: Data, c: *mut c_void, ct: c_int, ldc: $Int, compute: c_int, algo: c_int) -> c_int;
            pub fn $strided(h: Object, ta: c_int, tb: c_int, m: $Int, n: $Int, k: $Int, alpha: Data, a: Data, at: c_int, lda: $Int,
                sa: i64, b: Data, bt: c_int, ldb: $Int, sb: i64, beta: Data, c: *mut c_void, ct: c_int, ldc: $Int, sc: i64,
                count: $Int, compute: c_int, algo: c_int) -> c_int;
            pub fn $batched(h: Object, ta: c_int, tb: c_int, m: $Int, n: $Int, k: $Int, alpha: Data, a: *const Data, at: c_int, lda: $Int,
                b: *const Data, bt: c_int, ldb: $Int, beta: Data, c: *const *mut c_void, ct: c_int, ldc: $Int, count: $Int,
                compute: c_int, algo: c_int) -> c_int;
        )*}
    };
}

mixed! {
    i32: cublasSgemmEx cublasGemmEx cublasGemmStridedBatchedEx cublasGemmBatchedEx;
    i64: cublasSgemmEx_64 cublasGemmEx_64 cublasGemmStridedBatchedEx_64 cublasGemmBatchedEx_64;
}

unsafe extern "C" {
    pub fn cublasCreate_v2(handle: *mut Object) -> c_int;
    pub fn cublasDestroy_v2(handle: Object) -> c_int;
}
