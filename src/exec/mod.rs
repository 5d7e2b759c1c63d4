//! The context behind `cudnnHandle_t`: which core runs the work, and on what stream.

mod arithmetic;
mod context;
mod staging;

pub use crate::backend::cuda::Names;
pub use arithmetic::{OpBuffers, ReduceBuffers};
pub use context::{Buffers, Context};
