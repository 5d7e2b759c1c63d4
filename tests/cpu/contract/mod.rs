//! Contractions: what the constructors build, by the plain formulas of a convolution and of a
//! matrix product.

mod blocked;
mod bytes;
mod chains;
#[cfg(target_arch = "x86_64")]
mod choice;
mod cpu;
mod depthwise;
mod edges;
mod few;
mod kernels;
mod pages;
mod phases;
mod runs;
mod steps;
mod tiles;
mod tiles_single;
