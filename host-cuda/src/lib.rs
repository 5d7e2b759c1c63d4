//! The CUDA runtime, cuBLAS, cuBLASLt, cuRAND and a little of the driver on host memory: a program
//! that takes its memory from `cudaMalloc` and multiplies with cuBLAS runs on a machine without a
//! GPU, beside a `libcudnn.so.9` on its CPU core.
//!
//! ```text
//!  symbols/        what the originals export, by library and major version: built here, or refused with a reason
//!  src/driver/     libcuda: one device and its context
//!  src/runtime/    libcudart: memory, copies, streams, events, graphs, one device
//!  src/blas/       libcublas, by the Contract kernels of the CPU core
//!  src/blas_lt/    libcublasLt
//!  src/rand/       libcurand
//!  src/report.rs   sentences for people, under CUDNN_SHIM_HOST_LOG=1
//!  src/registry.rs opaque handles; src/threads.rs loops over threads
//! ```
//! All of it is one library, `libcudnn_shim_host.so`; `libcudart.so.12` and the others hold jumps
//! into it, under the names and versions of the originals. `xtask/src/host_cuda.rs` makes them.
//!
//! Device memory is host memory. Every call, asynchronous ones too, has finished its work when it
//! returns.
#![deny(rustdoc::broken_intra_doc_links)]

// Linked for its allocator: want of memory does not end the process.
use cudnn_shim_reserve as _;

pub mod blas;
pub mod blas_lt;
pub mod driver;
pub mod rand;
pub mod registry;
pub mod report;
pub mod runtime;
pub mod threads;
