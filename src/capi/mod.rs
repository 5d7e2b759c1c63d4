//! The C boundary: translates, never computes. Defines the only C names and knows the only status numbers.
#![cfg_attr(
    feature = "cudnn8",
    allow(dead_code, unused_imports, reason = "what only calls of version 9 use")
)]
#![allow(deprecated, reason = "the interface is, its implementation is not")]
#![allow(non_snake_case, reason = "argument names are the original's")]
#![allow(clippy::too_many_arguments, reason = "the argument lists are the original's")]

mod activation;
mod algorithm;
mod arg;
mod attention;
mod batch_norm;
mod batch_norm_backward;
#[cfg(not(feature = "cudnn8"))]
mod causal_conv;
mod columns;
mod context;
mod convolution;
mod convolution_backward;
mod convolution_bias;
mod convolution_find;
mod convolution_fold;
mod convolution_forward;
mod convolution_preference;
mod convolution_problem;
mod convolution_query;
mod ctc;
mod cudart;
mod data_type;
mod dlpack;
mod dropout;
mod filter;
mod fused_ops;
mod fused_plan;
#[cfg(not(feature = "cudnn8"))]
mod gnn;
mod graph;
mod guard;
mod inspect;
mod layout;
mod lifecycle;
mod log;
mod lrn;
mod norm;
mod norm_sizes;
mod normalise;
mod normalization;
mod op_descriptor;
mod pointwise;
mod pooling;
mod reduce;
mod reduce_descriptor;
mod removed_rnn;
mod removed_rnn_run;
mod removed_rnn_run_ex;
mod removed_rnn_search;
mod rnn;
mod rnn_network;
mod sequence;
mod slab;
mod softmax;
mod spatial_transformer;
mod status;
mod tensor;
mod transform;
pub mod types;
mod undeclared;
mod version;
