//! What cuRAND exports and this library does not have, from `symbols/curand.tsv`.

use crate::report;

/// `curandStatus_t`: cuRAND has no status for what is not supported; it answers
/// CURAND_STATUS_TYPE_ERROR.
type Refusal = i32;

/// Answers for the function `name` that it is not built.
fn refuse(name: &str, reason: &str) -> Refusal {
    report::failure(name, format_args!("not built: {reason}"));
    103
}

include!(concat!(env!("OUT_DIR"), "/curand_refused.rs"));
