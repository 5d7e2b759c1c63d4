//! cuBLAS on host memory: products by the kernels of `libcudnn`'s CPU core, all else by plain loops.
//!
//! ```text
//!  status.rs     statuses, failures with a sentence, the shape of a call
//!  kind.rs       types of elements
//!  arguments.rs  what calls on matrices check
//!  handle.rs     handles and what is set on them
//!  library.rs    the libcudnn of this process
//!  product.rs    products of matrices in memory
//!  gemm.rs       the calls that multiply matrices; batched.rs those on arrays of addresses
//!  level2.rs     matrices and vectors
//!  view.rs       matrices of a known type, element by element
//!  dense.rs      sums, diagonals, triangles
//!  vector.rs     loops over vectors; level1.rs the calls on them
//!  copies.rs     cublasSetMatrix and its kin
//! ```
//! Host memory is device memory, so that the pointer mode changes nothing. Every call has finished its work when it returns, but on a
//! stream that captures: there gemm, gemv and ger are left to the graph, with the factors of then, and all else is refused.

pub mod arguments;
mod batched;
mod copies;
mod dense;
pub mod gemm;
pub mod handle;
pub mod kind;
mod level1;
mod level2;
pub mod library;
pub mod product;
mod refused;
pub mod status;
pub mod vector;
pub mod view;
