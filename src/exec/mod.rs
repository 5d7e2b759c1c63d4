//! The context behind `cudnnHandle_t`: which core runs the work, and on what stream.

mod context;

pub use context::{Buffers, Context};
