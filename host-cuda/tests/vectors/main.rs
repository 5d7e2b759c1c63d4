//! Calls on vectors, and on matrices beside products, against their definitions: all steps, types,
//! triangles and sides.

#[path = "../common/mod.rs"]
mod common;
mod handles;

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use common::{Array, Kind, Object, Rng, SUCCESS};

type Data = *const c_void;
type Out = *mut c_void;

macro_rules! of_type {
    ($($scalar:ident $Int:ty: $axpy:ident $scal:ident $copy:ident $swap:ident $dot:ident $nrm2:ident $asum:ident $amax:ident $amin:ident
        $rot:ident $gemv:ident $strided:ident $ger:ident $geam:ident $dgmm:ident $syrk:ident $trsm:ident;)*) => {
        unsafe extern "C" {$(
            fn $axpy(h: Object, n: $Int, alpha: Data, x: Data, incx: $Int, y: Out, incy: $Int) -> c_int;
            fn $scal(h: Object, n: $Int, alpha: Data, x: Out, incx: $Int) -> c_int;
            fn $copy(h: Object, n: $Int, x: Data, incx: $Int, y: Out, incy: $Int) -> c_int;
            fn $swap(h: Object, n: $Int, x: Out, incx: $Int, y: Out, incy: $Int) -> c_int;
            fn $dot(h: Object, n: $Int, x: Data, incx: $Int, y: Data, incy: $Int, result: Out) -> c_int;
            fn $nrm2(h: Object, n: $Int, x: Data, incx: $Int, result: Out) -> c_int;
            fn $asum(h: Object, n: $Int, x: Data, incx: $Int, result: Out) -> c_int;
            fn $amax(h: Object, n: $Int, x: Data, incx: $Int, result: *mut $Int) -> c_int;
            fn $amin(h: Object, n: $Int, x: Data, incx: $Int, result: *mut $Int) -> c_int;
            fn $rot(h: Object, n: $Int, x: Out, incx: $Int, y: Out, incy: $Int, c: Data, s: Data) -> c_int;
            fn $gemv(h: Object, trans: c_int, m: $Int, n: $Int, alpha: Data, a: Data, lda: $Int, x: Data, incx: $Int, beta: Data,
                y: Out, incy: $Int) -> c_int;
            fn $strided(h: Object, trans: c_int, m: $Int, n: $Int, alpha: Data, a: Data, lda: $Int, sa: i64, x: Data, incx: $Int,
                sx: i64, beta: Data, y: Out, incy: $Int, sy: i64, count: $Int) -> c_int;
            fn $ger(h: Object, m: $Int, n: $Int, alpha: Data, x: Data, incx: $Int, y: Data, incy: $Int, a: Out, lda: $Int) -> c_int;
            fn $geam(h: Object, ta: c_int, tb: c_int, m: $Int, n: $Int, alpha: Data, a: Data, lda: $Int, beta: Data, b: Data,
                ldb: $Int, c: Out, ldc: $Int) -> c_int;
            fn $dgmm(h: Object, side: c_int, m: $Int, n: $Int, a: Data, lda: $Int, x: Data, incx: $Int, c: Out, ldc: $Int) -> c_int;
            fn $syrk(h: Object, uplo: c_int, trans: c_int, n: $Int, k: $Int, alpha: Data, a: Data, lda: $Int, beta: Data, c: Out,
                ldc: $Int) -> c_int;
            fn $trsm(h: Object, side: c_int, uplo: c_int, trans: c_int, diag: c_int, m: $Int, n: $Int, alpha: Data, a: Data,
                lda: $Int, b: Out, ldb: $Int) -> c_int;
        )*}

        $(
            /// Every call of a type and a width, against its definition.
            #[rustfmt::skip]
            fn $scalar(handle: Object, kind: Kind, rng: &mut Rng) {
                for _ in 0..40 {
                    let n = rng.below(40) + 1;
                    let steps = [0, 1].map(|_| rng.pick(&[1_i64, 1, 2, -1, -3]));
                    let [incx, incy] = steps.map(|step| step as $Int);
                    let (x, y) = (spread(kind, n, steps[0], rng), spread(kind, n, steps[1], rng));
                    let of = |array: &Array, step: i64, i: usize| array.get(place(n, step, i));
                    let values = |array: &Array, step: i64| (0..n).map(|i| of(array, step, i)).collect::<Vec<_>>();
                    let (xs, ys) = (values(&x, steps[0]), values(&y, steps[1]));
                    let [alpha, beta] = [rng.pick(&[1.0, -2.0, 0.5]), rng.pick(&[0.0, 1.0, 2.0])];
                    let (one, two) = (Array::of(kind, &[alpha]), Array::of(kind, &[beta]));
                    let count = n as $Int;
                    let updated = |array: &Array, step: i64, value: &dyn Fn(usize) -> f64| {
                        let mut want = array.clone();
                        (0..n).for_each(|i| want.set(place(n, step, i), value(i)));
                        want
                    };
                    // SAFETY: the arrays hold what the calls say, here and in all that follows.
                    unsafe {
                        let mut got = y.clone();
                        assert_eq!($axpy(handle, count, one.ptr(), x.ptr(), incx, got.mut_ptr(), incy), SUCCESS);
                        assert!(got.agrees(&updated(&y, steps[1], &|i| alpha * xs[i] + ys[i])), "axpy {n} {steps:?}");
                        let mut got = y.clone();
                        assert_eq!($copy(handle, count, x.ptr(), incx, got.mut_ptr(), incy), SUCCESS);
                        assert!(got.agrees(&updated(&y, steps[1], &|i| xs[i])), "copy {n} {steps:?}");
                        let mut got = x.clone();
                        assert_eq!($scal(handle, count, one.ptr(), got.mut_ptr(), incx), SUCCESS);
                        let want = if incx > 0 { updated(&x, steps[0], &|i| alpha * xs[i]) } else { x.clone() };
                        assert!(got.agrees(&want), "scal {n} {steps:?}");
                        let (mut left, mut right) = (x.clone(), y.clone());
                        assert_eq!($swap(handle, count, left.mut_ptr(), incx, right.mut_ptr(), incy), SUCCESS);
                        assert!(left.agrees(&updated(&x, steps[0], &|i| ys[i])), "swap {n} {steps:?}");
                        assert!(right.agrees(&updated(&y, steps[1], &|i| xs[i])), "swap {n} {steps:?}");
                        let (mut left, mut right) = (x.clone(), y.clone());
                        let rotated = $rot(handle, count, left.mut_ptr(), incx, right.mut_ptr(), incy, one.ptr(), two.ptr());
                        assert_eq!(rotated, SUCCESS);
                        assert!(left.agrees(&updated(&x, steps[0], &|i| alpha * xs[i] + beta * ys[i])), "rot");
                        assert!(right.agrees(&updated(&y, steps[1], &|i| alpha * ys[i] - beta * xs[i])), "rot");
                        let mut result = Array::poison(kind, 1);
                        assert_eq!($dot(handle, count, x.ptr(), incx, y.ptr(), incy, result.mut_ptr()), SUCCESS);
                        assert_eq!(result.get(0), xs.iter().zip(&ys).map(|(x, y)| x * y).sum::<f64>(), "dot");
                        let positive = incx > 0;
                        let of_positive = |value: f64| if positive { value } else { 0.0 };
                        assert_eq!($nrm2(handle, count, x.ptr(), incx, result.mut_ptr()), SUCCESS);
                        let squares = xs.iter().map(|x| x * x).sum::<f64>();
                        let mut root = Array::poison(kind, 1);
                        root.set(0, of_positive(squares.sqrt()));
                        assert_eq!(result.get(0), root.get(0), "nrm2");
                        assert_eq!($asum(handle, count, x.ptr(), incx, result.mut_ptr()), SUCCESS);
                        assert_eq!(result.get(0), of_positive(xs.iter().map(|x| x.abs()).sum()), "asum");
                        let sizes: Vec<i64> = xs.iter().map(|x| x.abs() as i64).collect();
                        let first = |wanted: i64| sizes.iter().position(|&size| size == wanted).unwrap() as $Int + 1;
                        let mut index = -1;
                        assert_eq!($amax(handle, count, x.ptr(), incx, &mut index), SUCCESS);
                        assert_eq!(index, if positive { first(*sizes.iter().max().unwrap()) } else { 0 }, "amax");
                        assert_eq!($amin(handle, count, x.ptr(), incx, &mut index), SUCCESS);
                        assert_eq!(index, if positive { first(*sizes.iter().min().unwrap()) } else { 0 }, "amin");
                    }
                    // A matrix of n columns, and m rows.
                    let (m, gap) = (rng.below(40) + 1, rng.pick(&[0, 2]));
                    let (a, lda) = (Array::random(kind, (m + gap) * n, rng), (m + gap) as $Int);
                    let (left, of_left) = (spread(kind, m, steps[0], rng), m);
                    let rows = m as $Int;
                    // SAFETY: as above.
                    unsafe {
                        let element = |i: usize, j: usize| a.get(j * (m + gap) + i);
                        let mut got = a.clone();
                        assert_eq!($ger(handle, rows, count, one.ptr(), left.ptr(), incx, y.ptr(), incy, got.mut_ptr(), lda), SUCCESS);
                        let mut want = a.clone();
                        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                            want.set(j * (m + gap) + i, alpha * left.get(place(of_left, steps[0], i)) * ys[j] + element(i, j));
                        }
                        assert!(got.agrees(&want), "ger {m} {n} {steps:?}");
                        for trans in 0..3 {
                            let (terms, results) = if trans == 0 { (n, m) } else { (m, n) };
                            let (of_terms, into) = (spread(kind, terms, steps[0], rng), spread(kind, results, steps[1], rng));
                            let mut want = into.clone();
                            for i in 0..results {
                                let term = |j: usize| {
                                    let factor = if trans == 0 { element(i, j) } else { element(j, i) };
                                    factor * of_terms.get(place(terms, steps[0], j))
                                };
                                let at = place(results, steps[1], i);
                                let sum = (0..terms).map(term).sum::<f64>();
                                want.set(at, alpha * sum + beta * into.get(at));
                            }
                            let mut got = into.clone();
                            let status = $gemv(handle, trans, rows, count, one.ptr(), a.ptr(), lda, of_terms.ptr(), incx, two.ptr(), got.mut_ptr(), incy);
                            assert_eq!(status, SUCCESS);
                            assert!(got.agrees(&want), "gemv {trans} {m} {n} {steps:?}: {got:?} {want:?}");
                            let mut got = into.clone();
                            let status = $strided(handle, trans, rows, count, one.ptr(), a.ptr(), lda, 0, of_terms.ptr(), incx, 0, two.ptr(), got.mut_ptr(), incy, 0, 1);
                            assert_eq!(status, SUCCESS);
                            assert!(got.agrees(&want), "gemvStridedBatched {trans} {m} {n}");
                        }
                        for (ta, tb) in [(0, 0), (1, 0), (0, 1), (2, 1)] {
                            let b = Array::random(kind, m * n, rng);
                            let plain = |turned: bool| if turned { n as $Int } else { rows };
                            let a = Array::random(kind, m * n, rng);
                            let at = |array: &Array, turned: bool, i: usize, j: usize| array.get(if turned { i * n + j } else { j * m + i });
                            let mut want = Array::poison(kind, m * n);
                            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                                want.set(j * m + i, alpha * at(&a, ta != 0, i, j) + beta * at(&b, tb != 0, i, j));
                            }
                            let mut got = Array::poison(kind, m * n);
                            let status = $geam(handle, ta, tb, rows, count, one.ptr(), a.ptr(), plain(ta != 0), two.ptr(), b.ptr(), plain(tb != 0), got.mut_ptr(), rows);
                            assert_eq!(status, SUCCESS);
                            assert!(got.agrees(&want), "geam {ta} {tb} {m} {n}");
                        }
                        for side in 0..2 {
                            let len = if side == 0 { m } else { n };
                            let diagonal = spread(kind, len, steps[1], rng);
                            let mut want = Array::poison(kind, m * n);
                            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                                let factor = diagonal.get(place(len, steps[1], if side == 0 { i } else { j }));
                                want.set(j * m + i, factor * element(i, j));
                            }
                            let mut got = Array::poison(kind, m * n);
                            assert_eq!($dgmm(handle, side, rows, count, a.ptr(), lda, diagonal.ptr(), incy, got.mut_ptr(), rows), SUCCESS);
                            assert!(got.agrees(&want), "dgmm {side} {m} {n}");
                        }
                    }
                    let extent = rng.pick(&[1, 5, 33, 150]);
                    for (uplo, trans) in [(0, 0), (0, 1), (1, 0), (1, 2)] {
                        let lda = if trans == 0 { extent } else { n } + gap;
                        let a = Array::random(kind, lda * if trans == 0 { n } else { extent }, rng);
                        let c = Array::random(kind, (extent + gap) * extent, rng);
                        let of_a = |i: usize, k: usize| a.get(if trans == 0 { k * lda + i } else { i * lda + k });
                        let mut want = c.clone();
                        for j in 0..extent {
                            for i in if uplo == 0 { j..extent } else { 0..j + 1 } {
                                let at = j * (extent + gap) + i;
                                let sum = (0..n).map(|k| of_a(i, k) * of_a(j, k)).sum::<f64>();
                                want.set(at, alpha * sum + beta * c.get(at));
                            }
                        }
                        let mut got = c.clone();
                        // SAFETY: as above.
                        let status = unsafe { $syrk(handle, uplo, trans, extent as $Int, count, one.ptr(), a.ptr(), lda as $Int, two.ptr(), got.mut_ptr(), (extent + gap) as $Int) };
                        assert_eq!(status, SUCCESS);
                        assert!(got.agrees(&want), "syrk {uplo} {trans} {extent} {n}");
                    }
                    // A triangle of ones, twos and zeros, whose solutions are whole numbers.
                    let (rows, columns) = (rng.below(12) + 1, rng.below(12) + 1);
                    for form in 0..24 {
                        let [side, uplo, diag, trans] = [form % 2, form / 2 % 2, form / 4 % 2, form / 8];
                        let extent = if side == 0 { rows } else { columns };
                        let mut a = Array::poison(kind, extent * extent);
                        for j in 0..extent {
                            for i in 0..extent {
                                let inside = if uplo == 0 { i > j } else { i < j };
                                if inside || (i == j && diag == 0) {
                                    let value = if i == j { rng.pick(&[1.0, 2.0, -1.0]) } else { rng.pick(&[0.0, 0.0, 1.0]) };
                                    a.set(j * extent + i, value);
                                }
                            }
                        }
                        let full = |i: usize, j: usize| {
                            let (i, j) = if trans == 0 { (i, j) } else { (j, i) };
                            let inside = if uplo == 0 { i > j } else { i < j };
                            if i == j && diag == 1 { 1.0 } else if inside || i == j { a.get(j * extent + i) } else { 0.0 }
                        };
                        let x = Array::random(kind, rows * columns, rng);
                        let mut b = Array::poison(kind, rows * columns);
                        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                            let left = |k: usize| full(i, k) * x.get(j * rows + k);
                            let right = |k: usize| x.get(k * rows + i) * full(k, j);
                            let sum: f64 = (0..extent).map(|k| if side == 0 { left(k) } else { right(k) }).sum();
                            b.set(j * rows + i, sum / alpha);
                        }
                        // SAFETY: as above.
                        let status = unsafe { $trsm(handle, side as c_int, uplo as c_int, trans as c_int, diag as c_int, rows as $Int, columns as $Int, one.ptr(), a.ptr(), extent as $Int, b.mut_ptr(), rows as $Int) };
                        assert_eq!(status, SUCCESS);
                        assert!(b.agrees(&x), "trsm side {side} uplo {uplo} diag {diag} trans {trans} {rows} x {columns}");
                    }
                }
            }
        )*
    };
}

of_type! {
    single i32: cublasSaxpy_v2 cublasSscal_v2 cublasScopy_v2 cublasSswap_v2 cublasSdot_v2 cublasSnrm2_v2 cublasSasum_v2
        cublasIsamax_v2 cublasIsamin_v2 cublasSrot_v2 cublasSgemv_v2 cublasSgemvStridedBatched cublasSger_v2 cublasSgeam cublasSdgmm
        cublasSsyrk_v2 cublasStrsm_v2;
    single_wide i64: cublasSaxpy_v2_64 cublasSscal_v2_64 cublasScopy_v2_64 cublasSswap_v2_64 cublasSdot_v2_64 cublasSnrm2_v2_64
        cublasSasum_v2_64 cublasIsamax_v2_64 cublasIsamin_v2_64 cublasSrot_v2_64 cublasSgemv_v2_64 cublasSgemvStridedBatched_64
        cublasSger_v2_64 cublasSgeam_64 cublasSdgmm_64 cublasSsyrk_v2_64 cublasStrsm_v2_64;
    double i32: cublasDaxpy_v2 cublasDscal_v2 cublasDcopy_v2 cublasDswap_v2 cublasDdot_v2 cublasDnrm2_v2 cublasDasum_v2
        cublasIdamax_v2 cublasIdamin_v2 cublasDrot_v2 cublasDgemv_v2 cublasDgemvStridedBatched cublasDger_v2 cublasDgeam cublasDdgmm
        cublasDsyrk_v2 cublasDtrsm_v2;
    double_wide i64: cublasDaxpy_v2_64 cublasDscal_v2_64 cublasDcopy_v2_64 cublasDswap_v2_64 cublasDdot_v2_64 cublasDnrm2_v2_64
        cublasDasum_v2_64 cublasIdamax_v2_64 cublasIdamin_v2_64 cublasDrot_v2_64 cublasDgemv_v2_64 cublasDgemvStridedBatched_64
        cublasDger_v2_64 cublasDgeam_64 cublasDdgmm_64 cublasDsyrk_v2_64 cublasDtrsm_v2_64;
}

unsafe extern "C" {
    fn cublasCreate_v2(handle: *mut Object) -> c_int;
}

/// Where element `i` of `n` is, from the lowest address.
fn place(n: usize, step: i64, i: usize) -> usize {
    let at = if step < 0 { n - 1 - i } else { i };
    at * step.unsigned_abs() as usize
}

/// A vector of small numbers, and of no numbers between them.
fn spread(kind: Kind, n: usize, step: i64, rng: &mut Rng) -> Array {
    let mut array = Array::poison(kind, (n - 1) * step.unsigned_abs() as usize + 1);
    (0..n).for_each(|i| array.set(place(n, step, i), rng.small()));
    array
}

fn handle() -> Object {
    common::load();
    let mut handle = null_mut();
    // SAFETY: a place for the result.
    assert_eq!(unsafe { cublasCreate_v2(&mut handle) }, SUCCESS);
    handle
}

#[test]
fn calls_of_single_precision_do_what_they_are_defined_to() {
    let (handle, mut rng) = (handle(), Rng(3));
    single(handle, Kind::F32, &mut rng);
    single_wide(handle, Kind::F32, &mut rng);
}

#[test]
fn calls_of_double_precision_do_what_they_are_defined_to() {
    let (handle, mut rng) = (handle(), Rng(4));
    double(handle, Kind::F64, &mut rng);
    double_wide(handle, Kind::F64, &mut rng);
}

/// Long vectors are divided among threads, and their sums are those of any number of them.
#[test]
fn long_vectors_are_exact() {
    let handle = handle();
    let n = 2_000_003;
    let x: Vec<f32> = (0..n).map(|i| (i % 5) as f32).collect();
    let mut y = vec![1.0_f32; n];
    let (alpha, mut sum, mut at) = (2.0_f32, 0.0_f32, 0);
    let count = n as i32;
    // SAFETY: the arrays hold n numbers.
    unsafe {
        assert_eq!(
            cublasSaxpy_v2(
                handle,
                count,
                (&raw const alpha).cast(),
                x.as_ptr().cast(),
                1,
                y.as_mut_ptr().cast(),
                1
            ),
            SUCCESS
        );
        assert!(y.iter().zip(&x).all(|(y, x)| *y == 2.0 * x + 1.0));
        assert_eq!(cublasSasum_v2(handle, count, x.as_ptr().cast(), 1, (&raw mut sum).cast()), SUCCESS);
        assert_eq!(f64::from(sum), f64::from(x.iter().map(|&x| f64::from(x)).sum::<f64>() as f32));
        y[1_700_000] = -50.0;
        assert_eq!(cublasIsamax_v2(handle, count, y.as_ptr().cast(), 1, &mut at), SUCCESS);
    }
    assert_eq!(at, 1_700_001);
}

/// Numbers whose squares overflow or vanish.
#[test]
fn norms_do_not_overflow() {
    let (handle, mut result) = (handle(), 0.0_f64);
    for scale in [1e200, 1e-200] {
        let x = [3.0 * scale, 4.0 * scale];
        // SAFETY: the array holds 2 numbers.
        let status = unsafe { cublasDnrm2_v2(handle, 2, x.as_ptr().cast(), 1, (&raw mut result).cast()) };
        assert_eq!(status, SUCCESS);
        assert!((result / scale - 5.0).abs() < 1e-14, "{result}");
    }
}
