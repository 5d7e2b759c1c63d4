//! A drop-in `libcudnn.so.9` for the legacy descriptor API.
//!
//! ```text
//!  src/capi/    the C boundary: translates, never computes
//!  src/exec/    the context behind cudnnHandle_t; runs a Plan on the handle's core
//!  src/backend/ reference loop, CPU core, CUDA core
//!  src/original/  the original cuDNN beside this library: loaded, its descriptors, which calls it serves
//!  src/ops/     the meaning of one call: checks across descriptors -> Plan of Problems
//!  src/desc/    plain data behind the opaque handles
//!  src/layout/  index arithmetic: dims, strides, formats, blocking, LoopNest
//!  src/dtype/   element types, conversion and rounding rules
//!  src/reserve.rs  small lists when there is no memory left
//!  src/panics.rs   panics as sentences
//!  src/sync.rs     locks and cells that a forked child finds usable
//! ```
//! Arrows point downwards only, which `tests/architecture` enforces.
#![deny(rustdoc::broken_intra_doc_links)]

pub mod backend;
pub mod capi;
pub mod desc;
pub mod dtype;
pub mod error;
pub mod exec;
pub mod layout;
pub mod mode;
pub mod ops;
pub mod original;
mod panics;
mod reserve;
mod sync;

pub use error::{Error, Result};
