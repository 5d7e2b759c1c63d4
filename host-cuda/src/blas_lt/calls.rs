//! The calls of cuBLASLt beside those on descriptors.

use std::ffi::{c_int, c_void};

use super::attributes;
use super::matmul::Plan;
use crate::blas::handle;
use crate::blas::status::{Failure, NOT_SUPPORTED, Outcome, SUCCESS, calls, required, store};

/// `cublasLtMatmulAlgo_t`: the number of the algorithm, and nothing.
#[repr(C)]
#[derive(Clone, Copy)]
struct Algorithm {
    data: [u64; 8],
}

/// The only one. A structure of zeros stands for it, too.
const ALGORITHM: u64 = 0;

/// `cublasLtMatmulHeuristicResult_t`
#[repr(C)]
#[derive(Clone, Copy)]
struct Heuristic {
    algorithm: Algorithm,
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

impl Heuristic {
    fn of(state: c_int) -> Self {
        Heuristic {
            algorithm: Algorithm { data: [ALGORITHM; 8] },
            workspace: 0,
            state,
            waves: 1.0,
            reserved: [0; 4],
        }
    }
}

/// # Errors
/// Invalid value for an algorithm that is none; NULL chooses the only one.
///
/// # Safety
/// `algorithm` is NULL or valid for one read.
unsafe fn check_algorithm(algorithm: *const Algorithm) -> Outcome {
    if algorithm.is_null() {
        return Ok(());
    }
    // SAFETY: `algorithm` is not NULL, and so readable.
    let number = unsafe { algorithm.read_unaligned() }.data[0];
    if number != ALGORITHM {
        return Err(Failure::invalid(format!("algo is number {number}: there is only {ALGORITHM}")));
    }
    Ok(())
}

calls! {
    /// Makes a handle; those of cuBLAS serve as well.
    ///
    /// Status: as for cublasCreate.
    fn cublasLtCreate(handle: *mut *mut c_void) {
        required(handle, "lightHandle")?;
        // SAFETY: `handle` is not NULL, and so valid for one write.
        unsafe { handle::create(handle) }
    }

    /// Ends a handle.
    ///
    /// Status: NOT_INITIALIZED for one that is not alive.
    fn cublasLtDestroy(handle: *mut c_void) {
        handle::destroy(handle)
    }

    /// A part of the version: 0 major, 1 minor, 2 patch.
    ///
    /// Status: INVALID_VALUE for NULL and for another number.
    fn cublasLtGetProperty(property: c_int, value: *mut c_int) {
        let part = usize::try_from(property).ok().and_then(|at| handle::VERSION.get(at));
        let part = part.ok_or_else(|| Failure::invalid(format!("type is {property}: must be 0, 1 or 2")))?;
        // SAFETY: `value` is NULL or valid for one write.
        unsafe { store(value, "value", *part) }
    }

    /// `D = epilogue(alpha op(A) op(B) + beta C)`, where the epilogue adds a bias, one number a row
    /// of D, and applies ReLU or GELU (`x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`). Sums
    /// are in binary32, in binary64 for CUBLAS_COMPUTE_64F; D is rounded once.
    ///
    /// Status, in this order: NOT_INITIALIZED for a handle that is not alive; INVALID_VALUE for
    /// descriptors that are not alive, orders, operations, extents, leading dimensions and batches
    /// that do not fit; NOT_SUPPORTED for types that cublasGemmEx does not take, orders beside
    /// columns and rows, other epilogues, vectors of factors; INVALID_VALUE for an unknown
    /// algorithm, NULL factors and NULL matrices that are touched; ALLOC_FAILED.
    fn cublasLtMatmul(
        handle: *mut c_void, desc: *const c_void, alpha: *const c_void, a: *const c_void, a_desc: *const c_void, b: *const c_void,
        b_desc: *const c_void, beta: *const c_void, c: *const c_void, c_desc: *const c_void, d: *mut c_void, d_desc: *const c_void,
        algorithm: *const Algorithm, _workspace: *mut c_void, _size: usize, stream: *mut c_void,
    ) {
        let handle = handle::get(handle)?;
        let plan = Plan::new(desc, [a_desc, b_desc, c_desc, d_desc])?;
        // SAFETY: `algorithm` is NULL or readable; factors and matrices are NULL or as described.
        unsafe {
            check_algorithm(algorithm)?;
            plan.submit(handle, stream.addr(), [alpha, beta], [a, b, c, d.cast_const()])
        }
    }

    /// The algorithms for a product: the only one, if the product is done at all.
    ///
    /// Status: NOT_INITIALIZED for a handle that is not alive; INVALID_VALUE for descriptors that
    /// are not alive, NULL results, and fewer than one asked for; NOT_SUPPORTED, with 0 results,
    /// for products that are not done.
    fn cublasLtMatmulAlgoGetHeuristic(
        handle: *mut c_void, desc: *const c_void, a_desc: *const c_void, b_desc: *const c_void, c_desc: *const c_void,
        d_desc: *const c_void, preference: *const c_void, requested: c_int, results: *mut Heuristic, returned: *mut c_int,
    ) {
        handle::get(handle)?;
        required(results, "heuristicResultsArray")?;
        required(returned, "returnAlgoCount")?;
        if requested < 1 {
            return Err(Failure::invalid(format!("requestedAlgoCount is {requested}: must be at least 1")));
        }
        // SAFETY: `returned` is not NULL, and so valid for one write.
        unsafe { store(returned, "returnAlgoCount", 0)? };
        attributes::preference(preference)?;
        Plan::new(desc, [a_desc, b_desc, c_desc, d_desc])?;
        // SAFETY: not NULL, and the caller vouches for as many results as are asked for.
        unsafe {
            store(results, "heuristicResultsArray", Heuristic::of(SUCCESS))?;
            store(returned, "returnAlgoCount", 1)
        }
    }

    /// The numbers of the algorithms for types: the only one.
    ///
    /// Status: NOT_INITIALIZED for a handle that is not alive; INVALID_VALUE for NULL and for fewer
    /// than one asked for.
    fn cublasLtMatmulAlgoGetIds(
        handle: *mut c_void, _compute: c_int, _scale: c_int, _a: c_int, _b: c_int, _c: c_int, _d: c_int, requested: c_int,
        ids: *mut c_int, returned: *mut c_int,
    ) {
        handle::get(handle)?;
        if requested < 1 {
            return Err(Failure::invalid(format!("requestedAlgoCount is {requested}: must be at least 1")));
        }
        required(ids, "algoIdsArray")?;
        required(returned, "returnAlgoCount")?;
        // SAFETY: not NULL, and the caller vouches for as many as are asked for.
        unsafe {
            store(ids, "algoIdsArray", ALGORITHM as c_int)?;
            store(returned, "returnAlgoCount", 1)
        }
    }

    /// The structure of an algorithm.
    ///
    /// Status: NOT_INITIALIZED for a handle that is not alive; INVALID_VALUE for NULL and for
    /// another number than 0.
    fn cublasLtMatmulAlgoInit(
        handle: *mut c_void, _compute: c_int, _scale: c_int, _a: c_int, _b: c_int, _c: c_int, _d: c_int, id: c_int,
        algorithm: *mut Algorithm,
    ) {
        handle::get(handle)?;
        if id != ALGORITHM as c_int {
            return Err(Failure::invalid(format!("algoId is {id}: there is only {ALGORITHM}")));
        }
        // SAFETY: `algorithm` is NULL or valid for one write.
        unsafe { store(algorithm, "algo", Algorithm { data: [ALGORITHM; 8] }) }
    }

    /// Whether an algorithm does a product, and with how much workspace: none.
    ///
    /// Status: as for cublasLtMatmul.
    fn cublasLtMatmulAlgoCheck(
        handle: *mut c_void, desc: *const c_void, a_desc: *const c_void, b_desc: *const c_void, c_desc: *const c_void,
        d_desc: *const c_void, algorithm: *const Algorithm, result: *mut Heuristic,
    ) {
        handle::get(handle)?;
        required(algorithm, "algo")?;
        required(result, "result")?;
        // SAFETY: `algorithm` is NULL or readable.
        unsafe { check_algorithm(algorithm)? };
        let planned = Plan::new(desc, [a_desc, b_desc, c_desc, d_desc]);
        let state = if planned.is_ok() { SUCCESS } else { NOT_SUPPORTED };
        // SAFETY: `result` is not NULL, and so valid for one write.
        unsafe { store(result, "result", Heuristic::of(state))? };
        planned.map(drop)
    }
}

/// The version of the interface: 10000 * major + 100 * minor + patch.
#[unsafe(no_mangle)]
pub extern "C" fn cublasLtGetVersion() -> usize {
    let [major, minor, patch] = handle::VERSION.map(|part| part.unsigned_abs() as usize);
    10_000 * major + 100 * minor + patch
}

/// The version of the runtime that the interface belongs to.
#[unsafe(no_mangle)]
pub extern "C" fn cublasLtGetCudartVersion() -> usize {
    handle::RUNTIME
}
