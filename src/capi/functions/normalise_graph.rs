//! Batch normalisations over batch and space by the original's graph interface.

use super::beside_graph::{self, factors};
use super::normalise::{BackwardCall, ForwardCall};
use super::{tensor, transform};
use crate::desc::TensorDescriptor;
use crate::desc::normalization::{BatchNormMode, NormOps};
use crate::desc::tensor::CHANNEL;
use crate::error::{Error, Result};
use crate::original::Legacy;

/// Refuses normalisations that are no operation of the original's graphs.
fn check(mode: BatchNormMode, ops: NormOps, parameters: &TensorDescriptor) -> Result<()> {
    let dims = parameters.dims();
    let mut others = dims.iter().enumerate().filter(|(axis, _)| *axis != CHANNEL);
    if mode != BatchNormMode::PerActivation && ops == NormOps::Plain && others.all(|(_, &dim)| dim == 1) {
        return Ok(());
    }
    Err(Error::unsupported("a graph normalises channels over batch and space, and nothing else"))
}

impl ForwardCall {
    /// `None` if this library has to compute the call.
    ///
    /// # Safety
    /// As [`ForwardCall::run`].
    pub(super) unsafe fn run_as_graph(&self) -> Option<Result<()>> {
        let [saved_mean, saved_inverse, mean, variance, scale, bias] = self.numbers;
        let keeps = !mean.is_null() && !variance.is_null();
        let legacy = || {
            let [x, y] = [tensor::get(self.x.0, "xDesc")?, tensor::get(self.y.0, "yDesc")?];
            let parameters = tensor::get(self.parameters.1, self.parameters.0)?;
            check(self.mode, self.ops, &parameters)?;
            // SAFETY: both factors are NULL or one readable number of their type.
            let scaling = unsafe { transform::scaling(self.scaling[0], self.scaling[1], y.data_type()) }?;
            let (tensors, epsilon, factors) = ([x, y, parameters], self.epsilon, factors(scaling));
            Ok(match self.factor {
                None => Legacy::Inference { tensors, epsilon, factors },
                Some(factor) => {
                    if mean.is_null() != variance.is_null() {
                        return Err(Error::unsupported("a graph has both running statistics or none"));
                    }
                    Legacy::Training { tensors, epsilon, factor: keeps.then_some(factor), factors }
                }
            })
        };
        let training =
            [self.x.1, self.y.1, scale, bias, saved_mean, saved_inverse, mean, variance, mean, variance];
        let inference = [self.x.1, self.y.1, scale, bias, mean, variance];
        let data = match self.factor {
            None => &inference[..],
            Some(_) if keeps => &training[..],
            Some(_) => &training[..6],
        };
        // SAFETY: the caller vouches for the spans of the descriptors.
        unsafe { beside_graph::run_alone(self.handle, self.function, legacy, data) }
    }
}

impl BackwardCall {
    /// `None` if this library has to compute the call.
    ///
    /// # Safety
    /// As [`BackwardCall::run`].
    pub(super) unsafe fn run_as_graph(&self) -> Option<Result<()>> {
        let [d_scale, d_bias, scale, _, mean, inverse] = self.numbers;
        let legacy = || {
            let [x, dy] = [tensor::get(self.x.0, "xDesc")?, tensor::get(self.dy.0, "dyDesc")?];
            let dx = tensor::get(self.dx.0, "dxDesc")?;
            let parameters = tensor::get(self.parameters.1, self.parameters.0)?;
            check(self.mode, self.ops, &parameters)?;
            let pair = |[alpha, beta]: [*const std::ffi::c_void; 2]| {
                // SAFETY: both factors are NULL or one readable number of their type.
                unsafe { transform::scaling(alpha, beta, dx.data_type()) }.map(factors)
            };
            let factors = [pair(self.scaling)?, pair(self.parameter_scaling)?];
            Ok(Legacy::TrainingGradient { tensors: [x, dy, dx, parameters], epsilon: self.epsilon, factors })
        };
        let data = [self.x.1, self.dy.1, self.dx.1, scale, d_scale, d_bias, mean, inverse];
        // SAFETY: the caller vouches for the spans of the descriptors.
        unsafe { beside_graph::run_alone(self.handle, self.function, legacy, &data) }
    }
}
