//! Activations as functions of the table of functions.

use std::fmt;

use super::function::Function;
use crate::desc::{ActivationDescriptor, ActivationMode, NanPropagation};

/// A function that follows another operation, element by element: one of those of the table that
/// have a slope. The epilogue of a contraction on the CPU core computes others of one operand, too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activation {
    /// The function.
    pub function: Function,
    /// Its parameter, if it has one.
    pub parameter: f64,
}

impl Activation {
    /// What a descriptor asks for; `None` for the identity.
    pub fn of(desc: &ActivationDescriptor) -> Option<Activation> {
        let (function, _, parameter) = functions(desc);
        function.row().slope.is_some().then_some(Activation { function, parameter })
    }

    /// Whether every slope is 0 or 1.
    pub fn has_mask(&self) -> bool {
        !self.function.row().elementary
    }
}

/// Name and parameter, for the log.
impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Activation { function, parameter } = self;
        write!(f, "{function:?}")?;
        function.row().parameters.iter().try_for_each(|name| write!(f, " {name}={parameter}"))
    }
}

/// The function of an activation, that of its gradient, and their parameter.
pub(super) fn functions(activation: &ActivationDescriptor) -> (Function, Function, f64) {
    use Function::*;
    let coefficient = activation.coefficient;
    let (plain, gradient, parameter) = match (activation.mode, activation.nan) {
        (ActivationMode::Sigmoid, _) => (Sigmoid, SigmoidGradient, 0.0),
        (ActivationMode::Tanh, _) => (Tanh, TanhGradient, 0.0),
        (ActivationMode::Relu, NanPropagation::Drop) => (Relu, ReluGradient, 0.0),
        (ActivationMode::Relu, NanPropagation::Keep) => (ReluOrNan, ReluOrNanGradient, 0.0),
        (ActivationMode::ClippedRelu, NanPropagation::Drop) => {
            (ClippedRelu, ClippedReluGradient, coefficient)
        }
        (ActivationMode::ClippedRelu, NanPropagation::Keep) => {
            (ClippedReluOrNan, ClippedReluOrNanGradient, coefficient)
        }
        (ActivationMode::Elu, _) => (Elu, EluGradient, coefficient),
        (ActivationMode::Identity, _) => (First, First, 0.0),
        (ActivationMode::Swish, _) => (Swish, SwishGradient, activation.swish_beta),
    };
    (plain, gradient, parameter)
}
