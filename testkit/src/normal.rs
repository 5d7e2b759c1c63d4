//! Calls of batch normalisation.

use cudnn::desc::TensorDescriptor;
use cudnn::desc::normalization::BatchNormMode;
use cudnn::ops::Scaling;
use cudnn::ops::batch_norm::{Forward, Parameters, Source};

/// A forward pass of x, by channel, with nothing else.
pub fn plain_forward<'a>(
    x: &'a TensorDescriptor, of_group: &'a TensorDescriptor, source: Source,
) -> Forward<'a> {
    Forward {
        mode: BatchNormMode::Spatial,
        x,
        y: x,
        z: None,
        parameters: Parameters { name: "s", tensor: of_group },
        source,
        epsilon: 1e-5,
        scaling: Scaling::MOVE,
        fused: None,
        reserve_size: 0,
        workspace_size: 0,
        names: ["a", "b", "c", "d", "e", "f"],
    }
}
