//! What every end of sums knows: a run of elements, and what an activation clips.

use crate::ops::NanRule;
use crate::ops::contract::Activation;

/// Neighbouring lanes of a tile whose elements are evenly spaced in dst, z and bias.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) lane: u32,
    pub(super) len: u32,
    /// Offsets of dst, a, b, z and bias of the first element, less those of the row.
    pub(super) at: [i64; 5],
    /// How far neighbours are apart.
    pub(super) by: [i64; 5],
}

/// The rule of NaN and the ceiling of what is clipped.
pub(super) type Clip = Option<(NanRule, f32)>;

/// What an activation clips; `None` if it does something else.
pub(super) fn clip(activation: Activation) -> Option<Clip> {
    match activation {
        Activation::Identity => Some(None),
        Activation::Relu(rule) => Some(Some((rule, f32::INFINITY))),
        Activation::ClippedRelu(ceiling, rule) => Some(Some((rule, ceiling as f32))),
        _ => None,
    }
}

/// Elements that are finished at once.
pub(super) const EIGHT: usize = 8;
