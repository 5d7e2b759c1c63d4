//! The C functions by family, and what they share.

use super::{arg, release, slab, twin_place, types};

mod activation;
mod algorithm;
mod attention;
mod attention_call;
mod attention_run;
mod backend;
mod backend_beside;
mod backend_run;
mod backend_values;
mod batch_norm;
mod batch_norm_backward;
mod beside;
mod beside_bound;
mod beside_graph;
mod beside_handle;
mod beside_way;
#[cfg(not(feature = "cudnn8"))]
mod causal_conv;
#[cfg(not(feature = "cudnn8"))]
mod causal_conv_fourier;
#[cfg(not(feature = "cudnn8"))]
mod causal_conv_gated;
mod columns;
mod constant_filters;
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
mod ctc_loss;
mod cudart;
mod data_type;
mod dlpack;
mod dropout;
mod filter;
mod fused_ops;
mod fused_plan;
#[cfg(not(feature = "cudnn8"))]
mod gnn;

mod guard;
mod inspect;
mod layout;
mod lifecycle;
mod log;
mod lrn;
mod matmul;
mod norm;
mod norm_sizes;
mod normalise;
mod normalise_graph;
mod normalization;
mod op_descriptor;
mod pointwise;
mod pooling;
mod recurrent;
mod reduce;
mod reduce_descriptor;
mod removed_rnn;
mod removed_rnn_beside;
mod removed_rnn_call;
mod removed_rnn_pass;
mod removed_rnn_plan;
mod removed_rnn_resized;
mod removed_rnn_run;
mod removed_rnn_run_ex;
mod removed_rnn_search;
mod removed_rnn_sizes;
mod rnn;
mod rnn_network;
mod rnn_run;
mod sequence;
mod softmax;
mod spatial_transformer;
mod status;
mod tensor;
mod transform;
mod undeclared;
mod version;
