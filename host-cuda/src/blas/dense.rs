//! Sums of matrices, products with diagonals and with a matrix's own transpose, and triangular
//! systems.

use std::ffi::{c_int, c_void};

use super::arguments;
use super::factor::Factor;
use super::gemm::Types;
use super::handle;
use super::kind::{Element, Kind};
use super::product::{Matrix, Products};
use super::status::{Failure, Outcome, calls};
use super::view::{View, fill};
use crate::threads;

/// `L x = alpha b` or `U x = alpha b`, where x takes the place of b.
#[derive(Clone, Copy)]
struct Triangle<T> {
    of: View<T>,
    is_lower: bool,
    /// Whether the diagonal is taken for ones and not read.
    is_unit: bool,
    extent: i64,
}

impl<T: Element> Triangle<T> {
    /// Solves for one column.
    ///
    /// # Safety
    /// Triangle and column are in memory, the column for nobody else.
    unsafe fn solve(&self, alpha: f64, b: View<T>, column: i64, x: &mut [f64]) {
        let n = self.extent;
        // SAFETY: the triangle and the column are in memory, and the indices inside them.
        unsafe {
            for row in 0..n {
                x[row as usize] = alpha * b.get(row, column);
            }
            for step in 0..n {
                let (at, rest) =
                    if self.is_lower { (step, step + 1..n) } else { (n - 1 - step, 0..n - 1 - step) };
                if !self.is_unit {
                    x[at as usize] /= self.of.get(at, at);
                }
                let known = x[at as usize];
                for row in rest {
                    x[row as usize] -= known * self.of.get(row, at);
                }
            }
            for row in 0..n {
                b.set(row, column, x[row as usize]);
            }
        }
    }

    /// Solves for `count` columns.
    ///
    /// # Errors
    /// For want of memory.
    ///
    /// # Safety
    /// As for one column.
    unsafe fn solve_all(&self, alpha: f64, b: View<T>, count: i64) -> Outcome {
        let (extent, b) = (self.extent as usize, &b);
        threads::share(count as usize, extent * extent, |range| {
            let mut x = Vec::new();
            x.try_reserve_exact(extent).map_err(|_| Failure::no_memory(extent * 8))?;
            x.resize(extent, 0.0);
            for column in range {
                // SAFETY: the triangle and B are in memory; threads have columns of their own.
                unsafe { self.solve(alpha, *b, column as i64, &mut x) };
            }
            Ok(())
        })
    }
}

/// Columns of a result that are computed in one go.
const COLUMNS: i64 = 128;

/// `C = alpha A B + beta C` in one triangle of a square C.
///
/// # Errors
/// As the products, and for want of memory.
///
/// # Safety
/// The matrices are in memory as described.
unsafe fn triangle_of_product<T: Element>(
    products: &mut Products, [c, a, b]: [Matrix; 3], [n, k]: [i64; 2], [alpha, beta]: [f64; 2],
    is_lower: bool,
) -> Outcome {
    let mut square: Vec<T> = Vec::new();
    square.try_reserve(n.min(COLUMNS).pow(2) as usize).map_err(|_| Failure::no_memory(1 << 17))?;
    let mut first = 0;
    while first < n {
        let count = COLUMNS.min(n - first);
        let [from, rows] = if is_lower { [first + count, n - first - count] } else { [0, first] };
        let columns = b.part(0, first);
        let beside = [c.part(from, first), a.part(from, 0), columns];
        // SAFETY: parts of the caller's matrices.
        unsafe { products.multiply(beside, [rows, count, k], 1, [alpha, beta])? };
        let around = Matrix { data: square.as_mut_ptr().cast(), kind: c.kind, strides: [1, count, 0] };
        // SAFETY: there is room for the square, which is written whole.
        unsafe {
            products.multiply([around, a.part(first, 0), columns], [count, count, k], 1, [alpha, 0.0])?
        };
        let [square, old] = [(around.data, count), (c.part(first, first).data, c.strides[1])]
            .map(|(data, leading)| View::columns(data.cast::<T>().cast_const(), leading, false));
        for column in 0..count {
            let rows = if is_lower { column..count } else { 0..column + 1 };
            for row in rows {
                // SAFETY: elements of the square, and of the caller's triangle.
                unsafe {
                    let kept = if beta == 0.0 { 0.0 } else { beta * old.get(row, column) };
                    old.set(row, column, square.get(row, column) + kept);
                }
            }
        }
        first += count;
    }
    Ok(())
}

macro_rules! of_type {
    ($($T:ty, $kind:ident: $geam:ident $geam64:ident, $dgmm:ident $dgmm64:ident, $syrk:ident $syrk64:ident,
        $trsm:ident $trsm64:ident;)*) => {
        calls! {$(
            /// `C = alpha op(A) + beta op(B)`, where C may be A or B if that one is not transposed.
            /// With a factor of 0 its matrix is not read.
            ///
            /// Status, in this order: NOT_INITIALIZED for a handle that is not alive; INVALID_VALUE
            /// for unknown operations, negative extents, leading dimensions below max(1, rows),
            /// NULL factors, NULL matrices that are touched, and for C in the place of a transposed
            /// matrix or of one with another leading dimension.
            fn $geam, $geam64(
                handle: *mut c_void, transa: c_int, transb: c_int, m: Int, n: Int, alpha: *const $T, a: *const $T, lda: Int,
                beta: *const $T, b: *const $T, ldb: Int, c: *mut $T, ldc: Int,
            ) {
                let handle = handle::get(handle)?;
                let [m, n, lda, ldb, ldc] = [m, n, lda, ldb, ldc].map(i64::from);
                let turned = [arguments::transposed(transa, "transa")?, arguments::transposed(transb, "transb")?];
                arguments::extents([("m", m), ("n", n)])?;
                arguments::leading("lda", lda, if turned[0] { n } else { m })?;
                arguments::leading("ldb", ldb, if turned[1] { n } else { m })?;
                arguments::leading("ldc", ldc, m)?;
                let types = Types::all(Kind::$kind);
                // SAFETY: both factors are NULL or one readable number.
                let factors = unsafe { types.factors(&handle, [alpha.cast(), beta.cast()])? };
                if m == 0 || n == 0 {
                    return Ok(());
                }
                arguments::data(c.cast_const().cast(), true, "C")?;
                let sources = [(a, turned[0], lda), (b, turned[1], ldb)];
                let is_misplaced = sources
                    .map(|(matrix, turned, leading)| std::ptr::eq(matrix, c) && (turned || leading != ldc));
                if let Some(at) = is_misplaced.into_iter().position(|is_misplaced| is_misplaced) {
                    let name = ["A", "B"][at];
                    return Err(Failure::invalid(format!("C is {name}, which is transposed or has another leading dimension")));
                }
                let views = sources.map(|(matrix, turned, leading)| View::columns(matrix, leading, turned));
                let into = View::columns(c.cast_const(), ldc, false);
                let check = move |[alpha, beta]: [f64; 2]| {
                    arguments::data(views[0].start(), alpha != 0.0, "A")?;
                    arguments::data(views[1].start(), beta != 0.0, "B")
                };
                let sum = move |_: &mut Products, [alpha, beta]: [f64; 2]| {
                    let [of_a, of_b] = &views;
                    let term = |factor: f64, of: &View<$T>, row: i64, column: i64| {
                        // SAFETY: the matrix is in memory, and this element inside it.
                        if factor == 0.0 { 0.0 } else { factor * unsafe { of.get(row, column) } }
                    };
                    let sum = |row, column| term(alpha, of_a, row, column) + term(beta, of_b, row, column);
                    // SAFETY: C is in memory, and an element reads those in its own place.
                    unsafe { fill(into, [m, n], sum) };
                    Ok(())
                };
                // SAFETY: factors of the device are there when the sum is computed.
                unsafe { arguments::multiply(&handle, factors, check, sum) }
            }

            /// `C = diag(x) A` or `C = A diag(x)`, where C may be A.
            ///
            /// Status, in this order: NOT_INITIALIZED for a handle that is not alive; INVALID_VALUE
            /// for an unknown side, negative extents, leading dimensions below max(1, m), NULL
            /// arrays that are touched.
            fn $dgmm, $dgmm64(
                handle: *mut c_void, side: c_int, m: Int, n: Int, a: *const $T, lda: Int, x: *const $T, incx: Int,
                c: *mut $T, ldc: Int,
            ) {
                let handle = handle::get(handle)?;
                let [m, n, lda, incx, ldc] = [m, n, lda, incx, ldc].map(i64::from);
                let is_right = arguments::second(side, "mode")?;
                arguments::extents([("m", m), ("n", n)])?;
                arguments::leading("lda", lda, m)?;
                arguments::leading("ldc", ldc, m)?;
                if m == 0 || n == 0 {
                    return Ok(());
                }
                arguments::data(a.cast(), true, "A")?;
                arguments::data(x.cast(), true, "x")?;
                arguments::data(c.cast_const().cast(), true, "C")?;
                let len = if is_right { n } else { m };
                let first = if incx < 0 { (1 - len) * incx } else { 0 };
                let (of_a, of_x) = (View::columns(a, lda, false), View { first: x.cast_mut().wrapping_offset(first as isize), strides: [incx, 0] });
                let into = View::columns(c.cast_const(), ldc, false);
                handle.submit(move || {
                    let (of_a, of_x) = (&of_a, &of_x);
                    let product = |row, column| {
                        // SAFETY: the matrix and the vector are in memory, and these elements
                        // inside them.
                        unsafe { of_a.get(row, column) * of_x.get(if is_right { column } else { row }, 0) }
                    };
                    // SAFETY: C is in memory, and an element reads at most the one in its own
                    // place.
                    unsafe { fill(into, [m, n], product) };
                    Ok(())
                })
            }

            /// `C = alpha op(A) op(A)^T + beta C` in the lower (0) or the upper (1) triangle of C.
            ///
            /// Status, in this order: NOT_INITIALIZED for a handle that is not alive; INVALID_VALUE
            /// for an unknown triangle or operation, negative extents, leading dimensions below
            /// max(1, rows), NULL factors, NULL matrices that are touched; ALLOC_FAILED.
            fn $syrk, $syrk64(
                handle: *mut c_void, uplo: c_int, trans: c_int, n: Int, k: Int, alpha: *const $T, a: *const $T, lda: Int,
                beta: *const $T, c: *mut $T, ldc: Int,
            ) {
                let handle = handle::get(handle)?;
                let [n, k, lda, ldc] = [n, k, lda, ldc].map(i64::from);
                let is_upper = arguments::second(uplo, "uplo")?;
                let turned = arguments::transposed(trans, "trans")?;
                arguments::extents([("n", n), ("k", k)])?;
                arguments::leading("lda", lda, if turned { k } else { n })?;
                arguments::leading("ldc", ldc, n)?;
                let types = Types::all(Kind::$kind);
                // SAFETY: both factors are NULL or one readable number.
                let factors = unsafe { types.factors(&handle, [alpha.cast(), beta.cast()])? };
                if n == 0 {
                    return Ok(());
                }
                let of_a = Matrix::columns(a.cast(), Kind::$kind, lda, turned, 0);
                let of_c = Matrix::columns(c.cast_const().cast(), Kind::$kind, ldc, false, 0);
                let is_nothing = move |[alpha, beta]: [f64; 2]| beta == 1.0 && (k == 0 || alpha == 0.0);
                let check = move |factors: [f64; 2]| {
                    arguments::data(of_a.start(), k > 0 && factors[0] != 0.0, "A")?;
                    arguments::data(of_c.start(), !is_nothing(factors), "C")
                };
                let product = move |products: &mut Products, factors: [f64; 2]| {
                    if is_nothing(factors) {
                        return Ok(());
                    }
                    let matrices = [of_c, of_a, of_a.transposed()];
                    // SAFETY: both matrices are in memory, with these extents.
                    unsafe { triangle_of_product::<$T>(products, matrices, [n, k], factors, !is_upper) }
                };
                // SAFETY: factors of the device are there when the product is computed.
                unsafe { arguments::multiply(&handle, factors, check, product) }
            }

            /// `op(A) X = alpha B` (side 0) or `X op(A) = alpha B` (side 1) for a triangular A; X
            /// takes the place of B. Solved by substitution in binary64.
            ///
            /// Status, in this order: NOT_INITIALIZED for a handle that is not alive; INVALID_VALUE
            /// for an unknown side, triangle, operation or diagonal, negative extents, leading
            /// dimensions below max(1, rows), a NULL factor, NULL matrices that are touched;
            /// ALLOC_FAILED.
            fn $trsm, $trsm64(
                handle: *mut c_void, side: c_int, uplo: c_int, trans: c_int, diag: c_int, m: Int, n: Int, alpha: *const $T,
                a: *const $T, lda: Int, b: *mut $T, ldb: Int,
            ) {
                let handle = handle::get(handle)?;
                let [m, n, lda, ldb] = [m, n, lda, ldb].map(i64::from);
                let is_right = arguments::second(side, "side")?;
                let is_upper = arguments::second(uplo, "uplo")?;
                let turned = arguments::transposed(trans, "trans")?;
                let is_unit = arguments::second(diag, "diag")?;
                arguments::extents([("m", m), ("n", n)])?;
                let extent = if is_right { n } else { m };
                arguments::leading("lda", lda, extent)?;
                arguments::leading("ldb", ldb, m)?;
                // SAFETY: `alpha` is NULL or one readable number.
                let alpha = unsafe { handle.factor(Kind::$kind, alpha.cast(), "alpha")? };
                if m == 0 || n == 0 {
                    return Ok(());
                }
                arguments::data(b.cast_const().cast(), true, "B")?;
                let of_b = View::columns(b.cast_const(), ldb, false);
                // A system from the right is one from the left of everything transposed.
                let of = View::columns(a, lda, turned != is_right);
                let system = Triangle { of, is_lower: is_upper == (turned != is_right), is_unit, extent };
                let check = move |[alpha, _]: [f64; 2]| arguments::data(system.of.start(), alpha != 0.0, "A");
                let solve = move |_: &mut Products, [alpha, _]: [f64; 2]| {
                    if alpha == 0.0 {
                        // SAFETY: B is in memory, and nothing of it is read.
                        unsafe { fill(of_b, [m, n], |_, _| 0.0) };
                        return Ok(());
                    }
                    let (of_b, count) = if is_right { (of_b.transposed(), m) } else { (of_b, n) };
                    // SAFETY: the triangle and B are in memory, with these extents.
                    unsafe { system.solve_all(alpha, of_b, count) }
                };
                // SAFETY: a factor of the device is there when the system is solved.
                unsafe { arguments::multiply(&handle, [alpha, Factor::Known(0.0)], check, solve) }
            }
        )*}
    };
}

of_type! {
    f32, F32: cublasSgeam cublasSgeam_64, cublasSdgmm cublasSdgmm_64, cublasSsyrk_v2 cublasSsyrk_v2_64,
        cublasStrsm_v2 cublasStrsm_v2_64;
    f64, F64: cublasDgeam cublasDgeam_64, cublasDdgmm cublasDdgmm_64, cublasDsyrk_v2 cublasDsyrk_v2_64,
        cublasDtrsm_v2 cublasDtrsm_v2_64;
}
