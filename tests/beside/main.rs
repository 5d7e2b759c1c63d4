//! The original beside the library, without a GPU: its double is a second library that counts what
//! it is asked and can refuse, and that computes on the host by a copy of ours.

#[path = "../common/mod.rs"]
mod common;

mod bound;
mod described;
mod double;
mod families;
mod found;
mod gpu;
mod host_calls;
mod legacy;
mod programs;
mod real;
mod routes;
mod twins;
