//! Matrix products: the packed GEMM, for all contractions, and kernels for few rows or columns.

pub mod engine;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod gemm_dot;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod gemv;
pub mod tiles;
