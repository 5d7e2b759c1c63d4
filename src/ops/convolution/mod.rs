//! Convolutions: what input, filter and output have to agree on, what strict mode keeps to, the
//! algorithms of each direction, and the plans that compute them.
//!
//! ```text
//!  geometry.rs   the checks that all calls share, in the original's order -> Convolution
//!  support.rs    what strict mode refuses
//!  algorithm.rs  algorithm numbers, their records, their order
//!  plan.rs       from a Convolution to contractions
//!  fold.rs       a strided data gradient as one without strides
//! ```

mod algorithm;
mod fold;
mod geometry;
mod plan;
mod support;

pub use algorithm::{Algorithm, Record};
pub use fold::{Folded, fold};
pub use geometry::{Convolution, Direction};
pub use plan::{ConvolutionPlan, Fused};
