//! The context behind `cudnnHandle_t`: which core runs the work, and on what stream.

mod call;
mod context;
mod convolution;
mod graph;
mod host_runtime;
mod inspect;
mod knowing;
mod measure;
mod recording;
mod scratch;
mod staging;
mod tasks;

pub use crate::backend::Address;
pub use call::{Bound, Call, CallReport};
pub use context::Context;
pub use convolution::{NOT_MEASURED, Workspace};
pub use graph::Execution;
