//! The epilogue of contractions: from accumulators to the destination.

pub mod finish;
#[cfg(target_arch = "x86_64")]
pub mod narrow;
pub mod run;
pub mod simple;
#[cfg(target_arch = "x86_64")]
pub mod whole;
