//! What strict mode takes: the types of tensors that the original computes with, a row for each
//! function. Where among its checks a function asks for its row, and what else it refuses in strict
//! mode, stays with the function: each has its own order of statuses.

use super::agree::Named;
use crate::dtype::DataType::{self, Bfloat16, Double, Float, Half, Int8, Int8x4, Int8x32};
use crate::error::{Error, Result};
use crate::mode::Mode;

/// The types that a function takes.
pub(super) struct Types {
    /// What it does with a tensor.
    does: &'static str,
    takes: &'static [DataType],
}

const fn row(does: &'static str, takes: &'static [DataType]) -> Types {
    Types { does, takes }
}

pub(super) const ACTIVATION: Types = row("activate", &[Float, Double, Half, Bfloat16, Int8]);
pub(super) const ACTIVATION_GRADIENT: Types = row("derive activations of", &[Float, Double, Half, Bfloat16]);
pub(super) const ADD: Types = row("add", &[Float, Double, Half, Bfloat16, Int8]);
pub(super) const LRN: Types = row("normalise", &[Float, Double, Half, Int8]);
/// The types of divisive normalisation in either direction, too.
pub(super) const LRN_GRADIENT: Types = row("normalise", &[Float, Double, Half]);
pub(super) const POOLING: Types = row("pool", &[Float, Double, Half, Bfloat16, Int8, Int8x4, Int8x32]);
pub(super) const POOLING_GRADIENT: Types = row("derive pooling of", &[Float, Double, Half, Bfloat16]);
pub(super) const SAMPLER: Types = row("sample", &[Float, Double, Half]);
pub(super) const SCALE: Types = row("scale", &[Float, Double, Half, Bfloat16, Int8]);
pub(super) const SET: Types = row("set", &[Float, Double, Half, Bfloat16, Int8]);
pub(super) const SOFTMAX: Types = row("compute softmax of", &[Float, Double, Half, Bfloat16, Int8]);
pub(super) const SOFTMAX_GRADIENT: Types = row("derive softmax of", &[Float, Double, Half, Bfloat16]);
pub(super) const UNFOLD: Types = row("unfold", &[Float, Double, Half, Bfloat16]);

impl Types {
    /// Refuses tensors of other types in strict mode.
    ///
    /// # Errors
    /// Not supported, for the first of them.
    pub(super) fn check(&self, tensors: &[Named<'_>], mode: Mode) -> Result<()> {
        tensors.iter().try_for_each(|Named { name, tensor }| self.check_type(name, tensor.data_type(), mode))
    }

    /// The same for what is no tensor.
    ///
    /// # Errors
    /// Not supported.
    pub(super) fn check_type(&self, name: &str, data_type: DataType, mode: Mode) -> Result<()> {
        if !mode.is_strict() || self.takes.contains(&data_type) {
            return Ok(());
        }
        let does = self.does;
        Err(Error::unsupported(format!("strict mode does not {does} {data_type:?}, the type of {name}")))
    }
}
