//! The epilogue of contractions: from accumulators to the destination.

pub mod binary32;
pub mod generic;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod narrow;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod numbers;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod registers;
pub mod run;
