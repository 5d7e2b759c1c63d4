//! cuBLAS on host memory: products by the kernels of `libcudnn`'s CPU core, all else by plain
//! loops.
//!
//! ```text
//!  status.rs     statuses, failures with a sentence, the shape of a call
//!  kind.rs       types of elements
//!  arguments.rs  what calls on matrices check
//!  factor.rs     numbers and arrays that calls are given by address
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
//! Host memory is device memory. Every call has finished its work when it returns, but on a stream
//! that captures: there it is left to the graph, with factors of the host as they are at the call;
//! factors and arrays of addresses on the device are read at each launch.

pub mod arguments;
mod batched;
mod copies;
mod dense;
pub mod factor;
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
