//! Products of nothing, and what is refused.

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

use crate::common::{INVALID_VALUE, NOT_INITIALIZED, NOT_SUPPORTED, SUCCESS};
use crate::declared::{Data, cublasGemmEx, cublasSgemm_v2, cublasSgemmBatched, cublasSgemmStridedBatched};
use crate::{COMPUTE_16F, COMPUTE_32F, COMPUTE_32I, handle};

/// Nothing to do touches nothing; nothing to sum scales C.
#[test]
fn empty_products_are_done_without_data() {
    let handle = handle();
    let (alpha, beta) = (1.0_f32, 2.0_f32);
    let (alpha, beta) = ((&raw const alpha).cast(), (&raw const beta).cast());
    // SAFETY: matrices of no elements are not there.
    unsafe {
        assert_eq!(
            cublasSgemm_v2(handle, 0, 0, 0, 3, 2, alpha, null(), 1, null(), 2, beta, null_mut(), 1),
            SUCCESS
        );
        assert_eq!(
            cublasSgemm_v2(handle, 0, 0, 3, 0, 2, alpha, null(), 3, null(), 2, beta, null_mut(), 3),
            SUCCESS
        );
        let mut c = [1.0_f32, 2.0, 3.0, 4.0];
        assert_eq!(
            cublasSgemm_v2(
                handle,
                0,
                0,
                2,
                2,
                0,
                alpha,
                null(),
                2,
                null(),
                1,
                beta,
                c.as_mut_ptr().cast(),
                2
            ),
            SUCCESS
        );
        assert_eq!(c, [2.0, 4.0, 6.0, 8.0]);
        let none = 0.0_f32;
        let none = (&raw const none).cast();
        assert_eq!(
            cublasSgemm_v2(
                handle,
                0,
                0,
                2,
                2,
                0,
                alpha,
                null(),
                2,
                null(),
                1,
                none,
                c.as_mut_ptr().cast(),
                2
            ),
            SUCCESS
        );
        assert_eq!(c, [0.0; 4]);
    }
}

#[test]
fn bad_arguments_are_refused_and_nothing_is_written() {
    let handle = handle();
    let (a, b, factor) = ([1.0_f32; 16], [1.0_f32; 16], 1.0_f32);
    let mut c = [7.0_f32; 16];
    let (a, b, factor) = (a.as_ptr().cast(), b.as_ptr().cast(), (&raw const factor).cast());
    let out = c.as_mut_ptr().cast::<c_void>();
    // SAFETY: what is read is there; nothing is written.
    unsafe {
        let run = |h, operations: [c_int; 2], extents: [i32; 3], leading: [i32; 3], data: [Data; 5]| {
            let ([ta, tb], [m, n, k], [lda, ldb, ldc]) = (operations, extents, leading);
            cublasSgemm_v2(
                h,
                ta,
                tb,
                m,
                n,
                k,
                data[0],
                data[1],
                lda,
                data[2],
                ldb,
                data[3],
                data[4].cast_mut(),
                ldc,
            )
        };
        let (good, extents, leading) = ([factor, a, b, factor, out.cast_const()], [2, 3, 4], [2, 4, 2]);
        let with = |at: usize, data: Data| std::array::from_fn(|i| if i == at { data } else { good[i] });
        assert_eq!(run(null_mut(), [0, 0], extents, leading, good), NOT_INITIALIZED);
        assert_eq!(
            run(std::ptr::without_provenance_mut(4711), [9, 0], extents, leading, good),
            NOT_INITIALIZED
        );
        for operations in [[3, 0], [0, 3], [-1, 0]] {
            assert_eq!(run(handle, operations, extents, leading, good), INVALID_VALUE);
        }
        for at in 0..3 {
            let mut wrong = extents;
            wrong[at] = -1;
            assert_eq!(run(handle, [0, 0], wrong, leading, good), INVALID_VALUE);
            let mut wrong = leading;
            wrong[at] -= 1;
            assert_eq!(run(handle, [0, 0], extents, wrong, good), INVALID_VALUE);
            assert_eq!(
                run(handle, [0, 0], [0, 0, 0], [[0, 1, 1], [1, 0, 1], [1, 1, 0]][at], good),
                INVALID_VALUE
            );
        }
        for at in 0..5 {
            assert_eq!(
                run(handle, [0, 0], extents, leading, with(at, null())),
                INVALID_VALUE,
                "argument {at}"
            );
        }
        let odd = a.wrapping_byte_add(1);
        assert_eq!(run(handle, [0, 0], extents, leading, with(1, odd)), INVALID_VALUE);
        let strided = |count, apart| {
            cublasSgemmStridedBatched(
                handle, 0, 0, 2, 2, 2, factor, a, 2, 4, b, 2, 4, factor, out, 2, apart, count,
            )
        };
        assert_eq!([strided(-1, 4), strided(2, 0), strided(0, 4)], [INVALID_VALUE, INVALID_VALUE, SUCCESS]);
        let (addresses, holes) = ([a, b], [a, null()]);
        let batched = |a: *const Data, c: *const *mut c_void| {
            cublasSgemmBatched(handle, 0, 0, 2, 2, 2, factor, a, 2, addresses.as_ptr(), 2, factor, c, 2, 2)
        };
        let places = [out; 2];
        assert_eq!(batched(null(), places.as_ptr()), INVALID_VALUE);
        assert_eq!(batched(holes.as_ptr(), places.as_ptr()), INVALID_VALUE);
        assert_eq!(batched(addresses.as_ptr(), null()), INVALID_VALUE);
        let typed = |types: [c_int; 3], compute, algorithm| {
            let [at, bt, ct] = types;
            cublasGemmEx(
                handle, 0, 0, 2, 2, 2, factor, a, at, 2, b, bt, 2, factor, out, ct, 2, compute, algorithm,
            )
        };
        for types in
            [[0, 2, 0], [1, 1, 1], [0, 0, 2], [2, 2, 14], [3, 3, 3], [4, 4, 4], [28, 28, 0], [10, 10, 10]]
        {
            assert_eq!(typed(types, COMPUTE_32F, -1), NOT_SUPPORTED, "{types:?}");
        }
        assert_eq!(typed([3, 3, 0], COMPUTE_32I, -1), NOT_SUPPORTED);
        assert_eq!(typed([0, 0, 0], COMPUTE_16F, -1), NOT_SUPPORTED);
        assert_eq!(typed([0, 0, 99], COMPUTE_32F, -1), INVALID_VALUE);
        assert_eq!(typed([0, 0, 0], 5, -1), INVALID_VALUE);
        assert_eq!(typed([0, 0, 0], COMPUTE_32F, 50), INVALID_VALUE);
    }
    assert_eq!(c, [7.0; 16]);
}
