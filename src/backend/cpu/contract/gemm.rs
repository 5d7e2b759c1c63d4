//! Matrix products: the packed GEMM, for all contractions, and kernels for few rows or columns.

pub mod engine;
#[cfg(target_arch = "x86_64")]
pub mod gemm_dot;
#[cfg(target_arch = "x86_64")]
pub mod gemv;
pub mod tiles;
