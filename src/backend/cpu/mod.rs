//! The CPU core: kernels over byte strides, chosen by the shape of the canonical nest.
//!
//! ```text
//!  shape.rs    the nest in bytes, short runs merged into wider cells
//!  copy.rs rows.rs interleave.rs transpose.rs strided.rs fill.rs    the candidates
//!  row.rs      contiguous cells, every pair of types      tile.rs   transposes in registers
//!  output.rs   from a buffer to the destination           stream.rs stores past the caches
//!  grid.rs     the loops around a kernel                  threads.rs  isa.rs  machine.rs
//! ```

pub(super) mod copy;
pub(super) mod fill;
mod grid;
pub(super) mod interleave;
mod isa;
mod machine;
mod output;
mod row;
pub(super) mod rows;
pub(super) mod shape;
mod stream;
pub(super) mod strided;
pub mod threads;
mod tile;
pub(super) mod transpose;

pub use isa::Isa;
pub use machine::Machine;
