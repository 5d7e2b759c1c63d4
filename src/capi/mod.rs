//! The C boundary: translates, never computes. Defines the only C names and knows the only status
//! numbers.
#![cfg_attr(
    any(feature = "cudnn8", test),
    allow(
        dead_code,
        unused_imports,
        unused_macros,
        reason = "what only calls of version 9 use, or the C functions"
    )
)]
#![allow(deprecated, reason = "the interface is, its implementation is not")]
#![allow(non_snake_case, reason = "argument names are the original's")]
#![allow(clippy::too_many_arguments, reason = "the argument lists are the original's")]

mod arg;
mod release;
mod slab;
mod twin_place;
pub mod types;

/// Unit tests call none, and do without: what C may call is compiled whether or not anybody calls
/// it, which is the whole library.
#[cfg(not(test))]
mod functions;
