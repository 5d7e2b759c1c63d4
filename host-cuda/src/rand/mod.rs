//! cuRAND: generators on host memory.

mod refused;
