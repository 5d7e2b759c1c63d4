//! The CUDA core.

mod bytes;
mod general;
mod linear;
pub mod params;
pub mod plan;
mod tiled;
