//! What the runtime exports and this library does not have, from `symbols/cudart.tsv`.

use super::error::{Error, answer};

/// `cudaError_t`: cudaErrorNotSupported, which the thread remembers as every error.
type Refusal = i32;

/// Answers for the function `name` that it is not built.
fn refuse(name: &str, reason: &str) -> Refusal {
    answer(name, Err(Error::NotSupported.because(format_args!("not built: {reason}"))))
}

include!(concat!(env!("OUT_DIR"), "/cudart_refused.rs"));
