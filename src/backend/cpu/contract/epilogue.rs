//! The epilogue of contractions: from accumulators to the destination.

pub mod binary32;
pub mod generic;
#[cfg(target_arch = "x86_64")]
pub mod narrow;
#[cfg(target_arch = "x86_64")]
pub mod registers;
pub mod run;
