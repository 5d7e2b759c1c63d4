//! Convolutions: what input, filter and output have to agree on, what strict mode keeps to, the
//! algorithms of each direction, and the plans that compute them.
//!
//! ```text
//!  geometry.rs   the checks that all calls share, in the original's order -> Convolution
//!  support.rs    what strict mode refuses
//!  algorithm.rs  algorithm numbers, their records, their order
//!  plan.rs       from a Convolution to contractions; plan/workspace.rs what a GPU does with a workspace
//!  arrange.rs    what a GPU moves to the workspace before
//!  place.rs      where a tensor lies
//!  fold.rs       a strided data gradient as one without strides
//! ```

mod algorithm;
mod arrange;
mod fold;
mod geometry;
mod place;
mod plan;
mod support;

pub use algorithm::{Algorithm, Record};
pub use fold::{Folded, fold};
pub use geometry::{Convolution, Direction, LEAST_WORKSPACE};
pub use plan::{ConvolutionPlan, Fused, TAKES_ALL, Takes};
