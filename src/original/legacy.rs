//! Legacy calls as operations of the original's graph interface: what a plan of one is made from.
//!
//! Everything comes from this library's plain data, so that the original needs to know no legacy
//! descriptor. What a graph does not express is `None`, and this library serves it.

use super::Twin;
use crate::desc::{ActivationDescriptor, ConvolutionDescriptor, PoolingDescriptor, TensorDescriptor};
use crate::dtype::DataType;

/// What data of a plan are aligned to, in bytes.
pub const ALIGNMENT: usize = 16;

/// The factors of a result and of what it is added to.
pub type Factors = [f64; 2];

/// What a legacy call computes. Tensors are numbered by their places in the list of the call.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "fields are named as the arguments of the calls")]
pub enum Legacy {
    /// x, w as a tensor, y.
    Convolution { pass: Pass, desc: ConvolutionDescriptor, tensors: [TensorDescriptor; 3], factors: Factors },
    /// x, y.
    Pooling { desc: PoolingDescriptor, tensors: [TensorDescriptor; 2], factors: Factors },
    /// x, y, dy, dx; of averages x and y are those of dx and dy.
    PoolingGradient { desc: PoolingDescriptor, tensors: [TensorDescriptor; 4], factors: Factors },
    /// x, y.
    Activation { desc: ActivationDescriptor, tensors: [TensorDescriptor; 2], factors: Factors },
    /// x, dy, dx.
    ActivationGradient { desc: ActivationDescriptor, tensors: [TensorDescriptor; 3], factors: Factors },
    /// x, y, parameters: x, y, scale, bias, mean, variance.
    Inference { tensors: [TensorDescriptor; 3], epsilon: f64, factors: Factors },
    /// x, y, parameters: x, y, scale, bias, mean, inverse deviation, running mean and variance,
    /// if there are any.
    Training { tensors: [TensorDescriptor; 3], epsilon: f64, factor: Option<f64>, factors: Factors },
    /// x, dy, dx, parameters: x, dy, dx, scale, the gradients of scale and bias, mean, inverse
    /// deviation.
    TrainingGradient { tensors: [TensorDescriptor; 4], epsilon: f64, factors: [Factors; 2] },
}

/// Which operand a convolution computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the operands are named as everywhere")]
pub enum Pass {
    Y,
    Dx,
    Dw,
}

/// What a plan is made for.
#[derive(Clone, Copy)]
pub enum Device<'a> {
    /// The device of a handle.
    Handle(&'a Twin),
    /// One that properties describe: there its plans are made, with their sizes, and do not run.
    Described(&'a Twin),
}

impl Legacy {
    /// Whether it is computed in binary64.
    pub(super) fn is_double(&self) -> bool {
        let first = match self {
            Legacy::Convolution { desc, .. } => return desc.geometry.compute_type() == DataType::Double,
            Legacy::Pooling { tensors, .. } | Legacy::Activation { tensors, .. } => &tensors[0],
            Legacy::PoolingGradient { tensors, .. } | Legacy::TrainingGradient { tensors, .. } => &tensors[0],
            Legacy::ActivationGradient { tensors, .. }
            | Legacy::Inference { tensors, .. }
            | Legacy::Training { tensors, .. } => &tensors[0],
        };
        first.data_type() == DataType::Double
    }
}
