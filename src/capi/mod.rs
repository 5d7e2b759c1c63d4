//! The C boundary: translates, never computes. The only `extern "C"`, the only C names, the only status numbers.

pub mod stub;
pub mod types;
