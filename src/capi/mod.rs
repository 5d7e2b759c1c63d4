//! The C boundary: translates, never computes. The only `extern "C"`, the only C names, the only status numbers.
#![allow(deprecated, reason = "the interface is, its implementation is not")]
#![allow(non_snake_case, reason = "argument names are the original's")]
#![allow(clippy::too_many_arguments, reason = "the argument lists are the original's")]

mod activation;
mod arg;
mod context;
mod convolution;
mod data_type;
mod dropout;
mod filter;
mod guard;
mod lifecycle;
mod log;
mod lrn;
mod normalization;
mod op_tensor;
mod pointwise;
mod pooling;
mod reduce;
mod reduction;
mod slab;
mod spatial_transformer;
mod status;
pub mod stub;
mod tensor;
mod transform;
pub mod types;
mod version;
