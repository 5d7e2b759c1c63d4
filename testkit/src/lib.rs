//! What tests and benchmarks share: the language of the lists in `problems/`, operands with drawn
//! contents, and the loops that hold what a core computes to the reference.

pub mod agree;
pub mod attend;
pub mod causal;
pub mod convolution;
pub mod drawn;
pub mod estimate;
pub mod every_reduction;
pub mod extent;
pub mod graphs;
pub mod normal;
pub mod operations;
pub mod pages;
pub mod problems;
pub mod ragged;
pub mod random;
pub mod run_step;
pub mod snapshot;
pub mod steps;
pub mod tensor;
pub mod wide_layers;
pub mod windows;
