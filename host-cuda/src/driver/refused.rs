//! What programs ask of the driver and this library does not have, from `symbols/cuda.tsv`.

use super::Error;
use crate::report;

/// `CUresult`: CUDA_ERROR_NOT_SUPPORTED.
type Refusal = i32;

/// Answers for the function `name` that it is not built.
fn refuse(name: &str, reason: &str) -> Refusal {
    report::failure(name, format_args!("not built: {reason}"));
    Error::NotSupported as Refusal
}

include!(concat!(env!("OUT_DIR"), "/cuda_refused.rs"));
