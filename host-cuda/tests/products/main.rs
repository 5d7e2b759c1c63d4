//! Products of matrices by every call that makes them, against the sum written out, of whole
//! numbers, so that every bit is known: all operations, leading dimensions, batches, types,
//! factors; and what is refused.

#[path = "../common/mod.rs"]
mod common;
mod declared;
mod refused;

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use common::{Array, Kind, NOT_INITIALIZED, Object, Rng, SUCCESS};
use declared::*;

const COMPUTE_16F: c_int = 64;
const COMPUTE_32F: c_int = 68;
const COMPUTE_64F: c_int = 70;
const COMPUTE_32I: c_int = 72;

/// Types of A and B, of C, of the factors, and the computation.
const TYPES: [(Kind, Kind, Kind, c_int); 11] = [
    (Kind::F32, Kind::F32, Kind::F32, COMPUTE_32F),
    (Kind::F64, Kind::F64, Kind::F64, COMPUTE_64F),
    (Kind::F16, Kind::F16, Kind::F16, COMPUTE_16F),
    (Kind::F16, Kind::F16, Kind::F32, COMPUTE_32F),
    (Kind::F16, Kind::F32, Kind::F32, COMPUTE_32F),
    (Kind::Bf16, Kind::Bf16, Kind::F32, COMPUTE_32F),
    (Kind::Bf16, Kind::F32, Kind::F32, COMPUTE_32F),
    (Kind::I8, Kind::F32, Kind::F32, COMPUTE_32F),
    (Kind::I8, Kind::I32, Kind::I32, COMPUTE_32I),
    (Kind::F32, Kind::F32, Kind::F32, 77),
    (Kind::F64, Kind::F64, Kind::F64, 71),
];

/// One product, or a batch.
#[derive(Clone, Debug)]
struct Call {
    operations: [c_int; 2],
    extents: [usize; 3],
    /// Beyond the rows of A, B, C.
    gaps: [usize; 3],
    /// Between the matrices of a batch; 0 repeats it.
    apart: [usize; 3],
    count: usize,
    factors: [f64; 2],
}

impl Call {
    fn random(rng: &mut Rng, count: usize) -> Call {
        let most = rng.pick(&[4, 9, 40]);
        let extents = [0, 1, 2].map(|_| 1 + rng.below(most));
        let mut call = Call {
            operations: [rng.below(3) as c_int, rng.below(3) as c_int],
            extents,
            gaps: [0, 1, 2].map(|_| rng.pick(&[0, 0, 3])),
            apart: [0; 3],
            count,
            factors: [rng.pick(&[1.0, 1.0, -2.0, 0.0]), rng.pick(&[0.0, 0.0, 1.0, 2.0])],
        };
        for at in 0..3 {
            let repeats = at < 2 && rng.below(4) == 0;
            call.apart[at] = if repeats { 0 } else { call.columns(at) * call.leading(at) + rng.below(3) };
        }
        call
    }

    fn shape(&self, at: usize) -> [usize; 2] {
        let [m, n, k] = self.extents;
        let turned = at < 2 && self.operations[at] != 0;
        let [rows, columns] = [[m, k], [k, n], [m, n]][at];
        if turned { [columns, rows] } else { [rows, columns] }
    }

    fn columns(&self, at: usize) -> usize {
        self.shape(at)[1]
    }

    fn leading(&self, at: usize) -> usize {
        self.shape(at)[0] + self.gaps[at]
    }

    fn len(&self, at: usize) -> usize {
        self.apart[at] * (self.count - 1) + self.leading(at) * self.columns(at)
    }

    /// Where the element of a row and a column of op(A), op(B) or C is.
    fn place(&self, at: usize, batch: usize, row: usize, column: usize) -> usize {
        let turned = at < 2 && self.operations[at] != 0;
        let (row, column) = if turned { (column, row) } else { (row, column) };
        batch * self.apart[at] + column * self.leading(at) + row
    }

    /// A, B and C: nothing that is not read, and nothing between.
    fn arrays(&self, kinds: [Kind; 3], rng: &mut Rng) -> [Array; 3] {
        [0, 1, 2].map(|at| {
            let mut array = Array::poison(kinds[at], self.len(at));
            let is_read = if at < 2 { self.factors[0] != 0.0 } else { self.factors[1] != 0.0 };
            let [rows, columns] = self.shape(at);
            for batch in 0..if is_read { self.count } else { 0 } {
                for column in 0..columns {
                    for row in 0..rows {
                        let place = batch * self.apart[at] + column * self.leading(at) + row;
                        array.set(place, rng.small());
                    }
                }
            }
            array
        })
    }

    fn expected(&self, [a, b, c]: [&Array; 3]) -> Array {
        let ([m, n, k], [alpha, beta]) = (self.extents, self.factors);
        let mut want = c.clone();
        for batch in 0..self.count {
            for row in 0..m {
                for column in 0..n {
                    let term =
                        |i| a.get(self.place(0, batch, row, i)) * b.get(self.place(1, batch, i, column));
                    let sum: f64 = if alpha == 0.0 { 0.0 } else { (0..k).map(term).sum() };
                    let at = self.place(2, batch, row, column);
                    let kept = if beta == 0.0 { 0.0 } else { beta * c.get(at) };
                    want.set(at, alpha * sum + kept);
                }
            }
        }
        want
    }
}

fn handle() -> Object {
    common::load();
    let mut handle = null_mut();
    // SAFETY: a place for the result.
    assert_eq!(unsafe { cublasCreate_v2(&mut handle) }, SUCCESS);
    handle
}

/// Makes the product in every way that there is for it.
#[rustfmt::skip]
fn check(handle: Object, call: &Call, (of_factors, of_c, scalars, compute): (Kind, Kind, Kind, c_int), rng: &mut Rng) {
    let [a, b, before] = call.arrays([of_factors, of_factors, of_c], rng);
    let want = call.expected([&a, &b, &before]);
    let (alpha, beta) = (Array::of(scalars, &call.factors[..1]), Array::of(scalars, &call.factors[1..]));
    let (alpha, beta) = (alpha.ptr(), beta.ptr());
    let [ta, tb] = call.operations;
    let [m, n, k] = call.extents.map(|extent| extent as i64);
    let [lda, ldb, ldc] = [0, 1, 2].map(|at| call.leading(at) as i64);
    let [sa, sb, sc] = call.apart.map(|apart| apart as i64);
    let [at, bt, ct] = [of_factors, of_factors, of_c].map(|kind| kind as c_int);
    let count = call.count as i64;
    let [m4, n4, k4, lda4, ldb4, ldc4, count4] = [m, n, k, lda, ldb, ldc, count].map(|wide| wide as i32);
    let addresses = |array: &Array, apart: usize| (0..call.count).map(|i| array.at(i * apart)).collect::<Vec<_>>();
    let (of_a, of_b) = (addresses(&a, call.apart[0]), addresses(&b, call.apart[1]));
    let expect = |name: &str, run: &dyn Fn(*mut c_void, &[*mut c_void]) -> c_int| {
        let mut c = before.clone();
        let places: Vec<*mut c_void> = (0..call.count).map(|i| c.mut_at(i * call.apart[2])).collect();
        assert_eq!(run(c.mut_ptr(), &places), SUCCESS, "{name} {call:?} {of_factors:?} {of_c:?}");
        assert!(c.agrees(&want), "{name} {call:?} {of_factors:?} {of_c:?}: {c:?} instead of {want:?}");
    };
    // SAFETY: the arrays hold what the calls say, for all that follows.
    unsafe {
        if call.count == 1 {
            expect("GemmEx", &|c, _| cublasGemmEx(handle, ta, tb, m4, n4, k4, alpha, a.ptr(), at, lda4, b.ptr(), bt, ldb4, beta, c, ct, ldc4, compute, -1));
            expect("GemmEx_64", &|c, _| cublasGemmEx_64(handle, ta, tb, m, n, k, alpha, a.ptr(), at, lda, b.ptr(), bt, ldb, beta, c, ct, ldc, compute, 99));
            if compute == COMPUTE_32F {
                expect("SgemmEx", &|c, _| cublasSgemmEx(handle, ta, tb, m4, n4, k4, alpha, a.ptr(), at, lda4, b.ptr(), bt, ldb4, beta, c, ct, ldc4));
                expect("SgemmEx_64", &|c, _| cublasSgemmEx_64(handle, ta, tb, m, n, k, alpha, a.ptr(), at, lda, b.ptr(), bt, ldb, beta, c, ct, ldc));
            }
        }
        expect("GemmStridedBatchedEx", &|c, _| cublasGemmStridedBatchedEx(handle, ta, tb, m4, n4, k4, alpha, a.ptr(), at, lda4, sa, b.ptr(), bt, ldb4, sb, beta, c, ct, ldc4, sc, count4, compute, -1));
        expect("GemmStridedBatchedEx_64", &|c, _| cublasGemmStridedBatchedEx_64(handle, ta, tb, m, n, k, alpha, a.ptr(), at, lda, sa, b.ptr(), bt, ldb, sb, beta, c, ct, ldc, sc, count, compute, -1));
        expect("GemmBatchedEx", &|_, c| cublasGemmBatchedEx(handle, ta, tb, m4, n4, k4, alpha, of_a.as_ptr(), at, lda4, of_b.as_ptr(), bt, ldb4, beta, c.as_ptr(), ct, ldc4, count4, compute, -1));
        expect("GemmBatchedEx_64", &|_, c| cublasGemmBatchedEx_64(handle, ta, tb, m, n, k, alpha, of_a.as_ptr(), at, lda, of_b.as_ptr(), bt, ldb, beta, c.as_ptr(), ct, ldc, count, compute, -1));
        if of_factors != of_c || of_factors != scalars {
            return;
        }
        let Some(of_type) = plain(of_factors) else { return };
        if call.count == 1 {
            expect("gemm", &|c, _| (of_type.single)(handle, ta, tb, m4, n4, k4, alpha, a.ptr(), lda4, b.ptr(), ldb4, beta, c, ldc4));
            expect("gemm_64", &|c, _| (of_type.wide)(handle, ta, tb, m, n, k, alpha, a.ptr(), lda, b.ptr(), ldb, beta, c, ldc));
        }
        expect("gemmStridedBatched", &|c, _| (of_type.strided)(handle, ta, tb, m4, n4, k4, alpha, a.ptr(), lda4, sa, b.ptr(), ldb4, sb, beta, c, ldc4, sc, count4));
        expect("gemmStridedBatched_64", &|c, _| (of_type.strided_wide)(handle, ta, tb, m, n, k, alpha, a.ptr(), lda, sa, b.ptr(), ldb, sb, beta, c, ldc, sc, count));
        expect("gemmBatched", &|_, c| (of_type.batched)(handle, ta, tb, m4, n4, k4, alpha, of_a.as_ptr(), lda4, of_b.as_ptr(), ldb4, beta, c.as_ptr(), ldc4, count4));
        expect("gemmBatched_64", &|_, c| (of_type.batched_wide)(handle, ta, tb, m, n, k, alpha, of_a.as_ptr(), lda, of_b.as_ptr(), ldb, beta, c.as_ptr(), ldc, count));
    }
}

#[test]
fn products_are_the_sums_written_out() {
    let (handle, mut rng) = (handle(), Rng(1));
    for types in TYPES {
        for case in 0..60 {
            let count = [1, 1, 3][case % 3];
            let call = Call::random(&mut rng, count);
            check(handle, &call, types, &mut rng);
        }
        // Every pair of operations at the same extents.
        for pair in 0..9 {
            let mut call = Call::random(&mut rng, 1);
            call.operations = [pair / 3, pair % 3];
            call.apart = [0; 3];
            check(handle, &call, types, &mut rng);
        }
    }
    // SAFETY: the handle is alive, then it is not.
    unsafe {
        assert_eq!(cublasDestroy_v2(handle), SUCCESS);
        assert_eq!(cublasDestroy_v2(handle), NOT_INITIALIZED);
    }
}

/// Handles are shared by threads, one call at a time.
#[test]
fn threads_share_a_handle() {
    let handle = handle().addr();
    std::thread::scope(|scope| {
        for seed in 1..9 {
            scope.spawn(move || {
                let (handle, mut rng) = (std::ptr::without_provenance_mut(handle), Rng(seed));
                for _ in 0..10 {
                    let call = Call::random(&mut rng, 1);
                    check(handle, &call, TYPES[0], &mut rng);
                }
            });
        }
    });
}
