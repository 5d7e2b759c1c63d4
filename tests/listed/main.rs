//! The problems and steps that `problems/` lists, and random variations of them, on the CPU core
//! against the reference loops.

mod fuzz;
mod problems;
mod steps;
