//! cuBLAS: handles and products on host memory.

mod refused;
