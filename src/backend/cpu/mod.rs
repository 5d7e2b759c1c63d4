//! The CPU core: kernels over byte strides, chosen by the shape of the canonical nest.
//!
//! ```text
//!  shape.rs    the nest in bytes, short runs merged into wider cells
//!  copy.rs repeat.rs short_rows.rs interleave.rs transpose.rs strided.rs    kernels of transforms
//!  padded.rs   blocks with zeros behind their cells       scale.rs set.rs map.rs reduce.rs random.rs
//!  normalise.rs row_norm.rs contract.rs window.rs sample.rs ctc.rs causal.rs aggregate.rs attend.rs   the other operations
//!  row.rs      contiguous cells, every pair of types      tile.rs   transposes in registers
//!  block.rs    short rows of bytes       wide.rs    conversions with AVX2, AVX-512 and NEON
//!  output.rs   from a buffer to the destination           stream.rs stores past the caches
//!  stage.rs    small scratch on the stack                 arena.rs   any other scratch, per thread
//!  scratch.rs  scratch cut into parts
//!  affinity.rs where threads run          grid.rs    the loops around a kernel      threads.rs  isa.rs  machine.rs
//!  contract.rs    convolutions and matrix products
//!  float_mode.rs  the floating-point mode that every thread computes in
//! ```

mod affinity;
pub(super) mod aggregate;
pub mod arena;
pub(super) mod attend;
mod block;
pub(super) mod causal;
pub(super) mod contract;
pub(super) mod copy;
pub(super) mod ctc;
mod filters;
pub mod float_mode;
mod grid;
mod held;
pub(super) mod interleave;
mod isa;
pub(super) mod kind;
mod machine;
pub(super) mod map;
pub(super) mod normalise;
mod output;
pub(super) mod padded;
mod panels;
pub(super) mod ragged;
pub(super) mod random;
pub(super) mod reduce;
pub(super) mod repeat;
mod row;
pub(super) mod row_norm;
pub(super) mod sample;
pub(super) mod scale;
mod scratch;
pub(super) mod set;
pub(super) mod shape;
pub(super) mod short_rows;
mod stage;
mod stream;
pub(super) mod strided;
pub mod threads;
mod tile;
pub(super) mod transpose;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod wide;
pub(super) mod window;

pub use filters::FilterCache;
pub use isa::Isa;
pub use machine::Machine;
pub use panels::PanelCache;
