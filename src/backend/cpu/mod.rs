//! The CPU core: kernels over byte strides, chosen by the shape of the canonical nest.

mod isa;
mod machine;
pub mod threads;

pub use isa::Isa;
pub use machine::Machine;
