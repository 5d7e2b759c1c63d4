//! The tensors that belong to a normalisation: scale, bias, mean and variance.

use super::choice::choice;
use super::tensor::{CHANNEL, Format, TensorDescriptor};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::mode::Mode;

choice! {
    /// Over which elements batch normalisation takes its statistics.
    BatchNormMode:
    /// Over the batch.
    PerActivation,
    /// Over the batch and space.
    Spatial,
    /// The same; the original may choose other kernels.
    SpatialPersistent,
}

choice! {
    /// What is fused with a normalisation.
    NormOps:
    /// Nothing.
    Plain,
    /// An activation.
    Activate,
    /// An addition and an activation.
    AddActivate,
}

choice! {
    /// Over which elements a normalisation takes its statistics.
    NormMode:
    /// Over the batch.
    PerActivation,
    /// Over the batch and space.
    PerChannel,
}

/// The tensor of one parameter or statistic of the normalisation of `x`: packed `1 x C x 1 x ...`,
/// or `1 x C x spatial` if each activation has its own. Channels are counted as stored.
///
/// Types too narrow for statistics become float; the others are kept (observed on 9.27.0).
///
/// # Errors
/// Bad parameter for an `x` that was never set.
pub fn parameters(x: &TensorDescriptor, per_activation: bool, mode: Mode) -> Result<TensorDescriptor> {
    if !x.is_set() {
        return Err(Error::mismatch("xDesc was never set"));
    }
    let data_type = match x.data_type() {
        DataType::Half | DataType::Bfloat16 | DataType::Int8 | DataType::Fp8E4m3 | DataType::Fp8E5m2 => {
            DataType::Float
        }
        other => other,
    };
    let mut dims = x.stored_dims();
    dims[0] = 1;
    if !per_activation {
        dims[CHANNEL + 1..].fill(1);
    }
    TensorDescriptor::with_format(data_type, Format::Nchw, dims.rank() as i64, &dims, mode)
}
