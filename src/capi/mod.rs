//! The C boundary: translates, never computes. The only `extern "C"`, the only C names, the only status numbers.
#![cfg_attr(
    feature = "cudnn8",
    allow(dead_code, unused_imports, reason = "what only calls of version 9 use")
)]
#![allow(deprecated, reason = "the interface is, its implementation is not")]
#![allow(non_snake_case, reason = "argument names are the original's")]
#![allow(clippy::too_many_arguments, reason = "the argument lists are the original's")]

mod algorithm;
mod arg;
mod context;
mod cudart;
mod guard;
mod log;
mod slab;
mod status;
pub mod stub;
mod tensor;
mod transform;
pub mod types;
mod version;
