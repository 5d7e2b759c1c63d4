//! Calls that name types, arrays of addresses, copies, what is kept on handles, and what is
//! refused.

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

use crate::common::{
    Array, EXECUTION_FAILED, INVALID_VALUE, Kind, NOT_INITIALIZED, NOT_SUPPORTED, Object, Rng, SUCCESS,
};
use crate::*;

unsafe extern "C" {
    fn cublasAxpyEx(
        h: Object, n: i32, alpha: Data, at: c_int, x: Data, xt: c_int, incx: i32, y: Out, yt: c_int,
        incy: i32, et: c_int,
    ) -> c_int;
    fn cublasScalEx(
        h: Object, n: i32, alpha: Data, at: c_int, x: Out, xt: c_int, incx: i32, et: c_int,
    ) -> c_int;
    fn cublasDotEx(
        h: Object, n: i32, x: Data, xt: c_int, incx: i32, y: Data, yt: c_int, incy: i32, r: Out, rt: c_int,
        et: c_int,
    ) -> c_int;
    fn cublasNrm2Ex(h: Object, n: i32, x: Data, xt: c_int, incx: i32, r: Out, rt: c_int, et: c_int) -> c_int;
    fn cublasHSSgemvStridedBatched(
        h: Object, trans: c_int, m: i32, n: i32, alpha: Data, a: Data, lda: i32, sa: i64, x: Data, incx: i32,
        sx: i64, beta: Data, y: Out, incy: i32, sy: i64, count: i32,
    ) -> c_int;
    fn cublasSgemvBatched(
        h: Object, trans: c_int, m: i32, n: i32, alpha: Data, a: *const Data, lda: i32, x: *const Data,
        incx: i32, beta: Data, y: *const Out, incy: i32, count: i32,
    ) -> c_int;
    fn cublasSetMatrix(
        rows: c_int, cols: c_int, size: c_int, a: Data, lda: c_int, b: Out, ldb: c_int,
    ) -> c_int;
    fn cublasGetVector(n: c_int, size: c_int, x: Data, incx: c_int, y: Out, incy: c_int) -> c_int;
    fn cublasSetPointerMode_v2(h: Object, mode: c_int) -> c_int;
    fn cublasGetPointerMode_v2(h: Object, mode: *mut c_int) -> c_int;
    fn cublasSetMathMode(h: Object, mode: c_int) -> c_int;
    fn cublasSetStream_v2(h: Object, stream: Object) -> c_int;
    fn cublasGetStream_v2(h: Object, stream: *mut Object) -> c_int;
    fn cublasGetVersion_v2(h: Object, version: *mut c_int) -> c_int;
    fn cublasGetStatusString(status: c_int) -> *const std::ffi::c_char;
}

#[test]
fn calls_with_types_take_halves() {
    let (handle, mut rng) = (handle(), Rng(5));
    let single = Kind::F32 as c_int;
    for kind in [Kind::F16, Kind::Bf16] {
        let (x, mut y) = (Array::random(kind, 30, &mut rng), Array::random(kind, 30, &mut rng));
        let before = y.clone();
        let (alpha, of) = (Array::of(Kind::F32, &[2.0]), kind as c_int);
        let mut result = Array::poison(Kind::F32, 1);
        // SAFETY: the arrays hold what the calls say.
        unsafe {
            assert_eq!(
                cublasDotEx(handle, 30, x.ptr(), of, 1, y.ptr(), of, 1, result.mut_ptr(), single, single),
                SUCCESS
            );
            assert_eq!(result.get(0), (0..30).map(|i| x.get(i) * y.get(i)).sum::<f64>());
            assert_eq!(cublasNrm2Ex(handle, 30, x.ptr(), of, 1, result.mut_ptr(), single, single), SUCCESS);
            let squares = (0..30).map(|i| x.get(i) * x.get(i)).sum::<f64>();
            assert_eq!(result.get(0), f64::from(squares.sqrt() as f32));
            assert_eq!(
                cublasAxpyEx(handle, 30, alpha.ptr(), single, x.ptr(), of, 1, y.mut_ptr(), of, 1, single),
                SUCCESS
            );
            assert!((0..30).all(|i| y.get(i) == 2.0 * x.get(i) + before.get(i)));
            assert_eq!(cublasScalEx(handle, 30, alpha.ptr(), single, y.mut_ptr(), of, 1, single), SUCCESS);
            assert!((0..30).all(|i| y.get(i) == 4.0 * x.get(i) + 2.0 * before.get(i)));
            let mixed =
                cublasAxpyEx(handle, 30, alpha.ptr(), single, x.ptr(), of, 1, y.mut_ptr(), single, 1, single);
            assert_eq!(mixed, NOT_SUPPORTED);
            assert_eq!(
                cublasScalEx(handle, 30, alpha.ptr(), single, y.mut_ptr(), 77, 1, single),
                INVALID_VALUE
            );
        }
        // A batch into binary32.
        if kind == Kind::F16 {
            let (a, x) = (Array::random(kind, 24, &mut rng), Array::random(kind, 8, &mut rng));
            let (mut y, zero) = (Array::poison(Kind::F32, 6), Array::of(Kind::F32, &[0.0]));
            // SAFETY: two matrices of 3 rows and 4 columns, two vectors of 4 and of 3.
            let status = unsafe {
                cublasHSSgemvStridedBatched(
                    handle,
                    0,
                    3,
                    4,
                    alpha.ptr(),
                    a.ptr(),
                    3,
                    12,
                    x.ptr(),
                    1,
                    4,
                    zero.ptr(),
                    y.mut_ptr(),
                    1,
                    3,
                    2,
                )
            };
            assert_eq!(status, SUCCESS);
            for (batch, row) in (0..2).flat_map(|batch| (0..3).map(move |row| (batch, row))) {
                let sum: f64 = (0..4).map(|k| a.get(batch * 12 + k * 3 + row) * x.get(batch * 4 + k)).sum();
                assert_eq!(y.get(batch * 3 + row), 2.0 * sum);
            }
        }
    }
}

#[test]
fn addresses_in_arrays_and_copies() {
    let (handle, mut rng) = (handle(), Rng(6));
    let (a, x) = (Array::random(Kind::F32, 12, &mut rng), Array::random(Kind::F32, 4, &mut rng));
    let (one, zero) = (Array::of(Kind::F32, &[1.0]), Array::of(Kind::F32, &[0.0]));
    let mut y = [Array::poison(Kind::F32, 3), Array::poison(Kind::F32, 3)];
    let places = y.each_mut().map(Array::mut_ptr);
    // SAFETY: a matrix of 3 rows and 4 columns, and vectors of 4 and of 3.
    let status = unsafe {
        cublasSgemvBatched(
            handle,
            0,
            3,
            4,
            one.ptr(),
            [a.ptr(); 2].as_ptr(),
            3,
            [x.ptr(); 2].as_ptr(),
            1,
            zero.ptr(),
            places.as_ptr(),
            1,
            2,
        )
    };
    assert_eq!(status, SUCCESS);
    for result in &y {
        assert!((0..3).all(|i| result.get(i) == (0..4).map(|k| a.get(k * 3 + i) * x.get(k)).sum::<f64>()));
    }
    let mut b = Array::poison(Kind::F32, 20);
    // SAFETY: 3 rows of 4 columns that are 5 elements apart; 4 elements, every second and every
    // first.
    unsafe {
        assert_eq!(cublasSetMatrix(3, 4, 4, a.ptr(), 3, b.mut_ptr(), 5), SUCCESS);
        assert!(
            (0..4).all(|j| (0..3).all(|i| b.get(j * 5 + i) == a.get(j * 3 + i)) && b.get(j * 5 + 3).is_nan())
        );
        let mut v = Array::poison(Kind::F32, 4);
        assert_eq!(cublasGetVector(4, 4, a.ptr(), 2, v.mut_ptr(), 1), SUCCESS);
        assert!((0..4).all(|i| v.get(i) == a.get(2 * i)));
        assert_eq!(cublasGetVector(4, 4, null(), 2, v.mut_ptr(), 1), INVALID_VALUE);
        assert_eq!(cublasGetVector(4, 0, a.ptr(), 2, v.mut_ptr(), 1), INVALID_VALUE);
        assert_eq!(cublasSetMatrix(3, 4, 4, a.ptr(), 2, b.mut_ptr(), 5), INVALID_VALUE);
        assert_eq!(cublasSetMatrix(-1, 4, 4, a.ptr(), 3, b.mut_ptr(), 5), INVALID_VALUE);
    }
}

#[test]
fn what_is_set_on_a_handle_is_kept_and_bad_values_are_refused() {
    let (handle, nothing) = (handle(), null_mut());
    let (mut number, mut stream, stored) = (-1, null_mut(), std::ptr::without_provenance_mut(0x1230));
    let (x, mut y, mut result) = ([1.0_f32; 4], [1.0_f32; 4], 7.0_f32);
    // SAFETY: what is read and written is there.
    unsafe {
        assert_eq!(cublasSetPointerMode_v2(handle, 1), SUCCESS);
        assert_eq!(cublasSetPointerMode_v2(handle, 2), INVALID_VALUE);
        assert_eq!(cublasGetPointerMode_v2(handle, &mut number), SUCCESS);
        assert_eq!(number, 1);
        assert_eq!(cublasGetPointerMode_v2(handle, null_mut()), INVALID_VALUE);
        assert_eq!(
            [cublasSetMathMode(handle, 3 | 16), cublasSetMathMode(handle, 5)],
            [SUCCESS, INVALID_VALUE]
        );
        assert_eq!(cublasSetStream_v2(handle, stored), SUCCESS);
        assert_eq!(cublasGetStream_v2(handle, &mut stream), SUCCESS);
        assert_eq!(stream, stored);
        // Work on a stream that the runtime does not know fails; the stream of before is the
        // default stream.
        let (one, vector) = (x.as_ptr().cast::<c_void>(), y.as_mut_ptr().cast::<c_void>());
        assert_eq!(cublasSaxpy_v2(handle, 4, one, one, 1, vector, 1), EXECUTION_FAILED);
        assert_eq!(cublasSetStream_v2(handle, null_mut()), SUCCESS);
        assert_eq!(cublasGetVersion_v2(handle, &mut number), SUCCESS);
        assert!(number > 120_000);
        assert_eq!(cublasCreate_v2(null_mut()), INVALID_VALUE);
        assert_eq!(cublasSetStream_v2(nothing, stored), NOT_INITIALIZED);
        assert!(!cublasGetStatusString(4711).is_null());
        let (x, out) = (x.as_ptr().cast::<c_void>(), y.as_mut_ptr().cast::<c_void>());
        assert_eq!(cublasSaxpy_v2(nothing, 4, x, x, 1, out, 1), NOT_INITIALIZED);
        assert_eq!(cublasSaxpy_v2(handle, 4, null(), x, 1, out, 1), INVALID_VALUE);
        assert_eq!(cublasSaxpy_v2(handle, 4, x, null(), 1, out, 1), INVALID_VALUE);
        assert_eq!(cublasSaxpy_v2(handle, 4, x, x, 1, null_mut(), 1), INVALID_VALUE);
        assert_eq!(cublasSaxpy_v2(handle, 0, x, null(), 1, null_mut(), 1), SUCCESS);
        assert_eq!(cublasSdot_v2(handle, 4, x, 1, x, 1, null_mut()), INVALID_VALUE);
        assert_eq!(cublasSdot_v2(handle, -4, null(), 1, null(), 1, (&raw mut result).cast()), SUCCESS);
        assert_eq!(result, 0.0);
        assert_eq!(cublasIsamax_v2(handle, 4, x, 1, null_mut()), INVALID_VALUE);
        for (rows, lda, incx, incy) in [(-1, 2, 1, 1), (2, 1, 1, 1), (2, 2, 0, 1), (2, 2, 1, 0)] {
            assert_eq!(cublasSgemv_v2(handle, 0, rows, 2, x, x, lda, x, incx, x, out, incy), INVALID_VALUE);
            assert_eq!(cublasSger_v2(handle, rows, 2, x, x, incx, x, incy, out, lda), INVALID_VALUE);
        }
        assert_eq!(cublasSgeam(handle, 1, 0, 2, 2, x, out, 2, x, x, 2, out, 2), INVALID_VALUE);
        assert_eq!(cublasSdgmm(handle, 2, 2, 2, x, 2, x, 1, out, 2), INVALID_VALUE);
        assert_eq!(cublasSsyrk_v2(handle, 0, 0, 2, 2, x, x, 1, x, out, 2), INVALID_VALUE);
        assert_eq!(cublasStrsm_v2(handle, 0, 0, 0, 2, 2, 2, x, x, 2, out, 2), INVALID_VALUE);
        assert_eq!(cublasStrsm_v2(handle, 0, 0, 0, 0, 2, 2, x, null(), 2, out, 2), INVALID_VALUE);
    }
    assert_eq!(y, [1.0; 4]);
}
