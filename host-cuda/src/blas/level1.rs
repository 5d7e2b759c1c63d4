//! The calls on vectors.

use std::ffi::{c_int, c_void};

use super::factor::Place;
use super::handle;
use super::kind::Kind;
use super::status::{Failure, Outcome, calls, required, store};
use super::vector::{self, Vector};

/// Stores a result of a type that a call names.
///
/// # Safety
/// `result` is NULL or valid for a write of that type.
unsafe fn store_as(kind: Kind, result: *mut c_void, value: f64) -> Outcome {
    // SAFETY: `result` is NULL or valid for a write of this type.
    unsafe {
        match kind {
            Kind::F32 => store(result.cast(), "result", value as f32),
            Kind::F64 => store(result.cast(), "result", value),
            Kind::F16 => store(result.cast(), "result", half::f16::from_f64(value)),
            Kind::Bf16 => store(result.cast(), "result", half::bf16::from_f64(value)),
            Kind::I8 | Kind::I32 => Err(Failure::unsupported(format!("a result of {kind:?}"))),
        }
    }
}

macro_rules! of_type {
    ($($T:ty, $kind:ident:
        $axpy:ident $axpy64:ident, $scal:ident $scal64:ident, $copy:ident $copy64:ident, $swap:ident $swap64:ident,
        $dot:ident $dot64:ident, $nrm2:ident $nrm264:ident, $asum:ident $asum64:ident, $amax:ident $amax64:ident,
        $amin:ident $amin64:ident, $rot:ident $rot64:ident;)*) => {
        calls! {$(
            /// `y = alpha x + y`
            ///
            /// Status, in this order: NOT_INITIALIZED for a handle that is not alive; INVALID_VALUE
            /// for NULL. Nothing to do for n below
            /// 1. Negative steps begin at the far end.
            fn $axpy, $axpy64(
                handle: *mut c_void, n: Int, alpha: *const $T, x: *const $T, incx: Int, y: *mut $T, incy: Int,
            ) {
                let handle = handle::get(handle)?;
                // SAFETY: `alpha` is NULL or one readable number; both vectors are in memory as
                // described.
                unsafe {
                    let alpha = handle.factor(Kind::$kind, alpha.cast(), "alpha")?;
                    let x = Vector::new(x.cast(), Kind::$kind, n.into(), incx.into(), "x")?;
                    let y = Vector::new(y.cast_const().cast(), Kind::$kind, n.into(), incy.into(), "y")?;
                    handle.submit(move || vector::add_scaled(alpha.get()?, x, y))
                }
            }

            /// `x = alpha x`
            ///
            /// Status: as for axpy. Nothing to do for a step below 1.
            fn $scal, $scal64(handle: *mut c_void, n: Int, alpha: *const $T, x: *mut $T, incx: Int) {
                let handle = handle::get(handle)?;
                // SAFETY: `alpha` is NULL or one readable number; the vector is in memory as
                // described.
                unsafe {
                    let alpha = handle.factor(Kind::$kind, alpha.cast(), "alpha")?;
                    let x = Vector::new(x.cast_const().cast(), Kind::$kind, n.into(), incx.into(), "x")?;
                    if incx > 0 { handle.submit(move || vector::scale(alpha.get()?, x)) } else { Ok(()) }
                }
            }

            /// `y = x`
            ///
            /// Status: as for axpy.
            fn $copy, $copy64(handle: *mut c_void, n: Int, x: *const $T, incx: Int, y: *mut $T, incy: Int) {
                let handle = handle::get(handle)?;
                let x = Vector::new(x.cast(), Kind::$kind, n.into(), incx.into(), "x")?;
                let y = Vector::new(y.cast_const().cast(), Kind::$kind, n.into(), incy.into(), "y")?;
                // SAFETY: both vectors are in memory as described.
                unsafe { handle.submit(move || vector::copy(x, y)) }
            }

            /// `x, y = y, x`
            ///
            /// Status: as for axpy.
            fn $swap, $swap64(handle: *mut c_void, n: Int, x: *mut $T, incx: Int, y: *mut $T, incy: Int) {
                let handle = handle::get(handle)?;
                let x = Vector::new(x.cast_const().cast(), Kind::$kind, n.into(), incx.into(), "x")?;
                let y = Vector::new(y.cast_const().cast(), Kind::$kind, n.into(), incy.into(), "y")?;
                // SAFETY: both vectors are in memory as described.
                unsafe { handle.submit(move || vector::swap(x, y)) }
            }

            /// The sum of `x[i] y[i]`, in binary64; 0 for n below 1.
            ///
            /// Status: as for axpy.
            fn $dot, $dot64(
                handle: *mut c_void, n: Int, x: *const $T, incx: Int, y: *const $T, incy: Int, result: *mut $T,
            ) {
                let handle = handle::get(handle)?;
                let result = Place::new(result);
required(result.get(), "result")?;
                let x = Vector::new(x.cast(), Kind::$kind, n.into(), incx.into(), "x")?;
                let y = Vector::new(y.cast(), Kind::$kind, n.into(), incy.into(), "y")?;
                // SAFETY: `result` is NULL or valid for one write; both vectors are in memory as
                // described.
                unsafe { handle.submit_result(move || store(result.get(), "result", vector::dot(x, y)? as $T)) }
            }

            /// The root of the sum of squares; 0 for n or a step below 1.
            ///
            /// Status: as for axpy.
            fn $nrm2, $nrm264(handle: *mut c_void, n: Int, x: *const $T, incx: Int, result: *mut $T) {
                let handle = handle::get(handle)?;
                let result = Place::new(result);
required(result.get(), "result")?;
                let x = Vector::new(x.cast(), Kind::$kind, n.into(), incx.into(), "x")?;
                // SAFETY: `result` is NULL or valid for one write; the vector is in memory as
                // described.
                unsafe { handle.submit_result(move || store(result.get(), "result", vector::norm(x)? as $T)) }
            }

            /// The sum of magnitudes; 0 for n or a step below 1.
            ///
            /// Status: as for axpy.
            fn $asum, $asum64(handle: *mut c_void, n: Int, x: *const $T, incx: Int, result: *mut $T) {
                let handle = handle::get(handle)?;
                let result = Place::new(result);
required(result.get(), "result")?;
                let x = Vector::new(x.cast(), Kind::$kind, n.into(), incx.into(), "x")?;
                // SAFETY: `result` is NULL or valid for one write; the vector is in memory as
                // described.
                unsafe { handle.submit_result(move || store(result.get(), "result", vector::sum_of_magnitudes(x)? as $T)) }
            }

            /// The number of the first element of the largest magnitude, counted from 1; 0 for n or
            /// a step below 1.
            ///
            /// Status: as for axpy.
            fn $amax, $amax64(handle: *mut c_void, n: Int, x: *const $T, incx: Int, result: *mut Int) {
                let handle = handle::get(handle)?;
                let result = Place::new(result);
required(result.get(), "result")?;
                let x = Vector::new(x.cast(), Kind::$kind, n.into(), incx.into(), "x")?;
                // SAFETY: `result` is NULL or valid for one write; the vector is in memory as
                // described.
                unsafe { handle.submit_result(move || store(result.get(), "result", vector::extreme(x, true)? as Int)) }
            }

            /// The number of the first element of the smallest magnitude, counted from 1; 0 for n
            /// or a step below 1.
            ///
            /// Status: as for axpy.
            fn $amin, $amin64(handle: *mut c_void, n: Int, x: *const $T, incx: Int, result: *mut Int) {
                let handle = handle::get(handle)?;
                let result = Place::new(result);
required(result.get(), "result")?;
                let x = Vector::new(x.cast(), Kind::$kind, n.into(), incx.into(), "x")?;
                // SAFETY: `result` is NULL or valid for one write; the vector is in memory as
                // described.
                unsafe { handle.submit_result(move || store(result.get(), "result", vector::extreme(x, false)? as Int)) }
            }

            /// `x, y = c x + s y, c y - s x`
            ///
            /// Status: as for axpy.
            fn $rot, $rot64(
                handle: *mut c_void, n: Int, x: *mut $T, incx: Int, y: *mut $T, incy: Int, c: *const $T, s: *const $T,
            ) {
                let handle = handle::get(handle)?;
                // SAFETY: `c` and `s` are NULL or one readable number; both vectors are in memory
                // as described.
                unsafe {
                    let turn = [handle.factor(Kind::$kind, c.cast(), "c")?, handle.factor(Kind::$kind, s.cast(), "s")?];
                    let x = Vector::new(x.cast_const().cast(), Kind::$kind, n.into(), incx.into(), "x")?;
                    let y = Vector::new(y.cast_const().cast(), Kind::$kind, n.into(), incy.into(), "y")?;
                    handle.submit(move || vector::rotate(x, y, [turn[0].get()?, turn[1].get()?]))
                }
            }
        )*}
    };
}

of_type! {
    f32, F32:
        cublasSaxpy_v2 cublasSaxpy_v2_64, cublasSscal_v2 cublasSscal_v2_64, cublasScopy_v2 cublasScopy_v2_64,
        cublasSswap_v2 cublasSswap_v2_64, cublasSdot_v2 cublasSdot_v2_64, cublasSnrm2_v2 cublasSnrm2_v2_64,
        cublasSasum_v2 cublasSasum_v2_64, cublasIsamax_v2 cublasIsamax_v2_64, cublasIsamin_v2 cublasIsamin_v2_64,
        cublasSrot_v2 cublasSrot_v2_64;
    f64, F64:
        cublasDaxpy_v2 cublasDaxpy_v2_64, cublasDscal_v2 cublasDscal_v2_64, cublasDcopy_v2 cublasDcopy_v2_64,
        cublasDswap_v2 cublasDswap_v2_64, cublasDdot_v2 cublasDdot_v2_64, cublasDnrm2_v2 cublasDnrm2_v2_64,
        cublasDasum_v2 cublasDasum_v2_64, cublasIdamax_v2 cublasIdamax_v2_64, cublasIdamin_v2 cublasIdamin_v2_64,
        cublasDrot_v2 cublasDrot_v2_64;
}

/// The type of two vectors, which is one.
///
/// # Errors
/// As [`Kind::decode`]; not supported for two types.
fn shared(x: c_int, y: c_int) -> Outcome<Kind> {
    let kinds = [Kind::decode(x, "xType")?, Kind::decode(y, "yType")?];
    if kinds[0] != kinds[1] {
        return Err(Failure::unsupported(format!(
            "xType is {:?} and yType {:?}: must be equal",
            kinds[0], kinds[1]
        )));
    }
    Ok(kinds[0])
}

calls! {
    /// `y = alpha x + y` of a named type; computed in binary64, whatever the execution type.
    ///
    /// Status: as for axpy; also INVALID_VALUE for unknown types, NOT_SUPPORTED for types that are
    /// not floating or differ.
    fn cublasAxpyEx, cublasAxpyEx_64(
        handle: *mut c_void, n: Int, alpha: *const c_void, alpha_type: c_int, x: *const c_void, x_type: c_int, incx: Int,
        y: *mut c_void, y_type: c_int, incy: Int, execution: c_int,
    ) {
        let handle = handle::get(handle)?;
        let kind = shared(x_type, y_type)?;
        Kind::decode(execution, "executiontype")?;
        // SAFETY: `alpha` is NULL or one readable number of its type; both vectors are in memory as
        // described.
        unsafe {
            let alpha = handle.factor(Kind::decode(alpha_type, "alphaType")?, alpha, "alpha")?;
            let x = Vector::new(x, kind, n.into(), incx.into(), "x")?;
            let y = Vector::new(y.cast_const(), kind, n.into(), incy.into(), "y")?;
            handle.submit(move || vector::add_scaled(alpha.get()?, x, y))
        }
    }

    /// `x = alpha x` of a named type.
    ///
    /// Status: as for cublasAxpyEx.
    fn cublasScalEx, cublasScalEx_64(
        handle: *mut c_void, n: Int, alpha: *const c_void, alpha_type: c_int, x: *mut c_void, x_type: c_int, incx: Int,
        execution: c_int,
    ) {
        let handle = handle::get(handle)?;
        let kind = Kind::decode(x_type, "xType")?;
        Kind::decode(execution, "executionType")?;
        // SAFETY: `alpha` is NULL or one readable number of its type; the vector is in memory as
        // described.
        unsafe {
            let alpha = handle.factor(Kind::decode(alpha_type, "alphaType")?, alpha, "alpha")?;
            let x = Vector::new(x.cast_const(), kind, n.into(), incx.into(), "x")?;
            if incx > 0 { handle.submit(move || vector::scale(alpha.get()?, x)) } else { Ok(()) }
        }
    }

    /// `y = x` of a named type.
    ///
    /// Status: as for cublasAxpyEx.
    fn cublasCopyEx, cublasCopyEx_64(
        handle: *mut c_void, n: Int, x: *const c_void, x_type: c_int, incx: Int, y: *mut c_void, y_type: c_int, incy: Int,
    ) {
        let handle = handle::get(handle)?;
        let kind = shared(x_type, y_type)?;
        let x = Vector::new(x, kind, n.into(), incx.into(), "x")?;
        let y = Vector::new(y.cast_const(), kind, n.into(), incy.into(), "y")?;
        // SAFETY: both vectors are in memory as described.
        unsafe { handle.submit(move || vector::copy(x, y)) }
    }

    /// `x, y = y, x` of a named type.
    ///
    /// Status: as for cublasAxpyEx.
    fn cublasSwapEx, cublasSwapEx_64(
        handle: *mut c_void, n: Int, x: *mut c_void, x_type: c_int, incx: Int, y: *mut c_void, y_type: c_int, incy: Int,
    ) {
        let handle = handle::get(handle)?;
        let kind = shared(x_type, y_type)?;
        let x = Vector::new(x.cast_const(), kind, n.into(), incx.into(), "x")?;
        let y = Vector::new(y.cast_const(), kind, n.into(), incy.into(), "y")?;
        // SAFETY: both vectors are in memory as described.
        unsafe { handle.submit(move || vector::swap(x, y)) }
    }

    /// The sum of `x[i] y[i]` of named types.
    ///
    /// Status: as for cublasAxpyEx.
    fn cublasDotEx, cublasDotEx_64(
        handle: *mut c_void, n: Int, x: *const c_void, x_type: c_int, incx: Int, y: *const c_void, y_type: c_int, incy: Int,
        result: *mut c_void, result_type: c_int, execution: c_int,
    ) {
        let handle = handle::get(handle)?;
        let kind = shared(x_type, y_type)?;
        Kind::decode(execution, "executionType")?;
        let result_kind = Kind::decode(result_type, "resultType")?;
        let result = Place::new(result);
required(result.get(), "result")?;
        let x = Vector::new(x, kind, n.into(), incx.into(), "x")?;
        let y = Vector::new(y, kind, n.into(), incy.into(), "y")?;
        // SAFETY: `result` is NULL or valid for one write of its type; both vectors are in memory
        // as described.
        unsafe { handle.submit_result(move || store_as(result_kind, result.get(), vector::dot(x, y)?)) }
    }

    /// The same: real numbers are their own conjugates.
    ///
    /// Status: as for cublasDotEx.
    fn cublasDotcEx, cublasDotcEx_64(
        handle: *mut c_void, n: Int, x: *const c_void, x_type: c_int, incx: Int, y: *const c_void, y_type: c_int, incy: Int,
        result: *mut c_void, result_type: c_int, execution: c_int,
    ) {
        let handle = handle::get(handle)?;
        let kind = shared(x_type, y_type)?;
        Kind::decode(execution, "executionType")?;
        let result_kind = Kind::decode(result_type, "resultType")?;
        let result = Place::new(result);
required(result.get(), "result")?;
        let x = Vector::new(x, kind, n.into(), incx.into(), "x")?;
        let y = Vector::new(y, kind, n.into(), incy.into(), "y")?;
        // SAFETY: `result` is NULL or valid for one write of its type; both vectors are in memory
        // as described.
        unsafe { handle.submit_result(move || store_as(result_kind, result.get(), vector::dot(x, y)?)) }
    }

    /// The root of the sum of squares, of named types.
    ///
    /// Status: as for cublasAxpyEx.
    fn cublasNrm2Ex, cublasNrm2Ex_64(
        handle: *mut c_void, n: Int, x: *const c_void, x_type: c_int, incx: Int, result: *mut c_void, result_type: c_int,
        execution: c_int,
    ) {
        let handle = handle::get(handle)?;
        let kind = Kind::decode(x_type, "xType")?;
        Kind::decode(execution, "executionType")?;
        let result_kind = Kind::decode(result_type, "resultType")?;
        let result = Place::new(result);
required(result.get(), "result")?;
        let x = Vector::new(x, kind, n.into(), incx.into(), "x")?;
        // SAFETY: `result` is NULL or valid for one write of its type; the vector is in memory as
        // described.
        unsafe { handle.submit_result(move || store_as(result_kind, result.get(), vector::norm(x)?)) }
    }

    /// The sum of magnitudes, of named types.
    ///
    /// Status: as for cublasAxpyEx.
    fn cublasAsumEx, cublasAsumEx_64(
        handle: *mut c_void, n: Int, x: *const c_void, x_type: c_int, incx: Int, result: *mut c_void, result_type: c_int,
        execution: c_int,
    ) {
        let handle = handle::get(handle)?;
        let kind = Kind::decode(x_type, "xType")?;
        Kind::decode(execution, "executiontype")?;
        let result_kind = Kind::decode(result_type, "resultType")?;
        let result = Place::new(result);
required(result.get(), "result")?;
        let x = Vector::new(x, kind, n.into(), incx.into(), "x")?;
        // SAFETY: `result` is NULL or valid for one write of its type; the vector is in memory as
        // described.
        unsafe { handle.submit_result(move || store_as(result_kind, result.get(), vector::sum_of_magnitudes(x)?)) }
    }

    /// The number of the first element of the largest magnitude, of a named type.
    ///
    /// Status: as for cublasAxpyEx.
    fn cublasIamaxEx, cublasIamaxEx_64(
        handle: *mut c_void, n: Int, x: *const c_void, x_type: c_int, incx: Int, result: *mut Int,
    ) {
        let handle = handle::get(handle)?;
        let kind = Kind::decode(x_type, "xType")?;
        let result = Place::new(result);
required(result.get(), "result")?;
        let x = Vector::new(x, kind, n.into(), incx.into(), "x")?;
        // SAFETY: `result` is NULL or valid for one write; the vector is in memory as described.
        unsafe { handle.submit_result(move || store(result.get(), "result", vector::extreme(x, true)? as Int)) }
    }

    /// The number of the first element of the smallest magnitude, of a named type.
    ///
    /// Status: as for cublasAxpyEx.
    fn cublasIaminEx, cublasIaminEx_64(
        handle: *mut c_void, n: Int, x: *const c_void, x_type: c_int, incx: Int, result: *mut Int,
    ) {
        let handle = handle::get(handle)?;
        let kind = Kind::decode(x_type, "xType")?;
        let result = Place::new(result);
required(result.get(), "result")?;
        let x = Vector::new(x, kind, n.into(), incx.into(), "x")?;
        // SAFETY: `result` is NULL or valid for one write; the vector is in memory as described.
        unsafe { handle.submit_result(move || store(result.get(), "result", vector::extreme(x, false)? as Int)) }
    }

    /// `x, y = c x + s y, c y - s x` of named types.
    ///
    /// Status: as for cublasAxpyEx.
    fn cublasRotEx, cublasRotEx_64(
        handle: *mut c_void, n: Int, x: *mut c_void, x_type: c_int, incx: Int, y: *mut c_void, y_type: c_int, incy: Int,
        c: *const c_void, s: *const c_void, turn_type: c_int, execution: c_int,
    ) {
        let handle = handle::get(handle)?;
        let kind = shared(x_type, y_type)?;
        Kind::decode(execution, "executiontype")?;
        let of_turn = Kind::decode(turn_type, "csType")?;
        // SAFETY: `c` and `s` are NULL or one readable number of their type; both vectors are in
        // memory as described.
        unsafe {
            let turn = [handle.factor(of_turn, c, "c")?, handle.factor(of_turn, s, "s")?];
            let x = Vector::new(x.cast_const(), kind, n.into(), incx.into(), "x")?;
            let y = Vector::new(y.cast_const(), kind, n.into(), incy.into(), "y")?;
            handle.submit(move || vector::rotate(x, y, [turn[0].get()?, turn[1].get()?]))
        }
    }
}
