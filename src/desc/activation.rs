//! The activation descriptor.

use super::choice::{NanPropagation, choice};

choice! {
    /// Activation functions.
    ActivationMode:
    /// `1 / (1 + exp(-x))`
    Sigmoid,
    /// `max(x, 0)`
    Relu,
    /// `tanh(x)`
    Tanh,
    /// `min(max(x, 0), coefficient)`
    ClippedRelu,
    /// `x` for `x > 0`, else `coefficient * (exp(x) - 1)`
    Elu,
    /// `x`
    Identity,
    /// `x / (1 + exp(-beta * x))`
    Swish,
}

/// What a `cudnnActivationDescriptor_t` holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ActivationDescriptor {
    /// The function.
    pub mode: ActivationMode,
    /// What ReLU makes of a NaN.
    pub nan: NanPropagation,
    /// The ceiling of the clipped ReLU or the alpha of ELU; any value.
    pub coefficient: f64,
    /// The beta of swish; any value. Setting the rest leaves it alone.
    pub swish_beta: f64,
}

impl Default for ActivationDescriptor {
    /// A descriptor after creation: beta 1; the original leaves the rest undefined.
    fn default() -> Self {
        ActivationDescriptor {
            mode: ActivationMode::default(),
            nan: NanPropagation::default(),
            coefficient: 0.0,
            swish_beta: 1.0,
        }
    }
}
