//! The CUDA core.

mod general;
pub mod params;
pub mod plan;
