//! The objects of the graph interface as plain data: one table of attributes, one Set, one Get, and
//! the checks that close a descriptor.
//!
//! ```text
//!  kind.rs         what an object is, and what holds for all its attributes
//!  attribute.rs    what a row of the table says
//!  descriptor.rs   Set, Finalize and Get, the same for all kinds
//!  finalize.rs     which checks close which kind
//!  (family).rs     the rows of a family, and the checks of its kinds
//! ```

pub mod attention;
mod attribute;
pub mod batch_norm;
pub mod block_scale;
mod check;
pub mod convolution;
mod defaults;
mod descriptor;
pub mod device;
pub mod engine;
pub mod experts;
mod fields;
mod finalize;
mod json;
mod kind;
pub mod matmul;
pub mod norm;
pub mod operation_graph;
pub mod pack;
pub mod pointwise;
pub mod reduction;
pub mod resample;
pub mod rng;
pub mod shape;
pub mod signal;
pub mod tensor;
pub mod text;

pub use attribute::{Storage, Type};
pub use descriptor::{Answer, Descriptor, Expected};
pub use fields::{Fields, Link, Object, Value};
pub use kind::Kind;
pub use tensor::Tensor;
