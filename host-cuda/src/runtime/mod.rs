//! The CUDA runtime: memory, copies, streams, events, graphs and one device, all on the host.
//!
//! A call is an `extern "C"` function that hands its outcome to [`error::answer`], which keeps the last error of the
//! thread and tells the sentence.
#![allow(non_snake_case)]

pub mod error;
mod refused;
