//! Contractions: what the constructors build, by the plain formulas of a convolution and of a matrix product.

mod bytes;
mod convolution;
mod cpu;
mod depthwise;
mod drawn;
mod edges;
mod few;
mod kernels;
mod pages;
mod phases;
#[path = "../common/random.rs"]
mod random;
mod runs;
mod steps;
mod tensor;
