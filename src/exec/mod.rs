//! The context behind `cudnnHandle_t`: which core runs the work, and on what stream.

mod context;

pub use crate::backend::cuda::Names;
pub use context::{Buffers, Context};
