//! The operands of contractions: where they are, and how they come to the kernels.

pub mod pack;
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "other processors have no such kernels"))]
pub mod planes;
pub mod points;
pub mod source;
pub mod view;
