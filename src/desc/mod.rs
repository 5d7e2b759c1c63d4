//! Plain data behind the opaque handles: what was set, checked, and what it means as a layout.
#![forbid(unsafe_code)]

pub mod tensor;
pub mod transform;

pub use tensor::{Format, TensorDescriptor};
pub use transform::{Folding, TransformDescriptor};
