//! cuBLASLt on host memory: products with what follows them, by the products of
//! [`blas`](crate::blas).

mod attributes;
mod calls;
mod matmul;
mod refused;
