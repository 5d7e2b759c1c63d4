//! The operands of contractions: where they are, and how they come to the kernels.

pub mod pack;
pub mod planes;
pub mod points;
pub mod source;
pub mod view;
