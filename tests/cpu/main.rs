//! The kernels of the CPU core, kind by kind, against the reference loops; and the reference loops
//! against plain formulas. `cargo test --test cpu contract::` runs one of them.

mod arithmetic;
mod attend;
mod candidates;
mod causal;
mod contract;
mod ctc;
mod dropout;
mod graphs;
mod normalise;
mod padded;
mod ragged;
mod rows;
mod sample;
mod windows;
