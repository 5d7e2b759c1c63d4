//! What cuBLAS exports and this library does not have, from `symbols/cublas.tsv`.

use crate::report;

/// `cublasStatus_t`: CUBLAS_STATUS_NOT_SUPPORTED.
type Refusal = i32;

/// Answers for the function `name` that it is not built.
fn refuse(name: &str, reason: &str) -> Refusal {
    report::failure(name, format_args!("not built: {reason}"));
    15
}

include!(concat!(env!("OUT_DIR"), "/cublas_refused.rs"));
