//! What the runtime remembers, as records: they know memory and what is done to it, but neither the
//! [state](super::state) that holds them nor the functions that C calls.

pub mod capture;
pub mod copy;
pub mod event;
pub mod graph;
pub mod guarded;
pub mod kernels;
pub mod memory;
pub mod operation;
pub mod pool;
pub mod set;
pub mod stream;

/// A stream, event, graph or pool as C holds it: a number that was never given out before, so that
/// one that was destroyed or never made is noticed.
pub type Handle = usize;
