//! Plain data behind the opaque handles: what was set, checked, and what it means as a layout.
#![forbid(unsafe_code)]

pub mod activation;
pub mod attention;
mod choice;
pub mod convolution;
pub mod ctc;
pub mod dropout;
pub mod filter;
pub mod fused;
pub mod graph;
pub mod lrn;
mod named;
pub mod normalization;
pub mod op_tensor;
pub mod pooling;
pub mod reduce;
pub mod rnn;
pub mod sequence;
pub mod softmax;
pub mod spatial_transformer;
pub mod tensor;
pub mod transform;

pub use activation::{ActivationDescriptor, ActivationMode};
pub use attention::AttentionDescriptor;
pub use choice::{Choice, MathType, NanPropagation};
pub use convolution::{ConvolutionDescriptor, ConvolutionGeometry, ConvolutionMode, Reorder};
pub use ctc::CtcLossDescriptor;
pub use dropout::DropoutDescriptor;
pub use filter::FilterDescriptor;
pub use lrn::LrnDescriptor;
pub use op_tensor::{OpTensorDescriptor, OpTensorOp};
pub use pooling::{PoolingDescriptor, PoolingMode};
pub use reduce::{IndexType, ReduceDescriptor, ReduceIndices, ReduceOp};
pub use rnn::{RnnClip, RnnDescriptor, RnnNetwork};
pub use sequence::{RnnDataDescriptor, SeqDataDescriptor};
pub use softmax::{SoftmaxAlgorithm, SoftmaxMode};
pub use spatial_transformer::SpatialTransformerDescriptor;
pub use tensor::{Format, TensorDescriptor};
pub use transform::{Folding, TransformDescriptor};
