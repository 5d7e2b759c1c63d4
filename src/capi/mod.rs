//! The C boundary: translates, never computes. The only `extern "C"`, the only C names, the only status numbers.
#![allow(deprecated, reason = "the interface is, its implementation is not")]
#![allow(non_snake_case, reason = "argument names are the original's")]
#![allow(clippy::too_many_arguments, reason = "the argument lists are the original's")]

mod arg;
mod context;
mod guard;
mod log;
mod slab;
mod status;
pub mod stub;
mod tensor;
mod transform;
pub mod types;
mod version;
