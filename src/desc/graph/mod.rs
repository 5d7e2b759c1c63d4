//! The objects of the graph interface as plain data: one table of attributes, one Set, one Get, and
//! the checks that close a descriptor. A file names those above it alone.
//!
//! ```text
//!  kind.rs         what an object is
//!  attribute.rs    what a row of the table says
//!  object.rs       what a descriptor holds
//!  check.rs        what checks are written with
//!  (family).rs     the rows of a family, and the checks of its kinds
//!  table.rs        which rows a kind has, and what holds for all of them
//!  topology.rs     what the operations of a graph have to do with each other
//!  finalize.rs     which checks close which kind
//!  text.rs         the text of a plan
//!  descriptor.rs   Set, Finalize and Get, the same for all kinds
//! ```

pub mod attention;
mod attribute;
pub mod batch_norm;
pub mod block_scale;
mod check;
pub mod convolution;
mod descriptor;
pub mod device;
pub mod engine;
pub mod experts;
mod finalize;
mod json;
mod kind;
pub mod matmul;
pub mod norm;
mod object;
pub mod operation_graph;
pub mod pack;
pub mod pointwise;
pub mod reduction;
pub mod resample;
pub mod rng;
pub mod shape;
pub mod signal;
mod table;
pub mod tensor;
pub mod text;
mod topology;

pub use attribute::{Storage, Type};
pub use descriptor::{Answer, Descriptor, Expected};
pub use kind::Kind;
pub use object::{Fields, Link, Object, Tensor, Value};
