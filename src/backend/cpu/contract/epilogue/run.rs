//! What every end of sums knows: a run of elements, and what an activation clips.

use crate::ops::NanRule;
use crate::ops::activation::Activation;
use crate::ops::function::Function;

/// Neighbouring lanes of a tile whose elements are evenly spaced in dst, z and bias.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub lane: u32,
    pub len: u32,
    /// Offsets of dst, a, b, z and bias of the first element, less those of the row.
    pub at: [i64; 5],
    /// How far neighbours are apart.
    pub by: [i64; 5],
}

/// The rule of NaN and the ceiling of what is clipped.
pub type Clip = Option<(NanRule, f32)>;

/// The rule of NaN and the ceiling of a ReLU; `None` for other activations.
pub fn rectifier(activation: Activation) -> Option<(NanRule, f64)> {
    let Activation { function, parameter } = activation;
    match function {
        Function::Relu => Some((NanRule::Ignore, f64::INFINITY)),
        Function::ReluOrNan => Some((NanRule::Propagate, f64::INFINITY)),
        Function::ClippedRelu => Some((NanRule::Ignore, parameter)),
        Function::ClippedReluOrNan => Some((NanRule::Propagate, parameter)),
        _ => None,
    }
}

/// What an activation clips; `None` if it does something else.
pub fn clip(activation: Option<Activation>) -> Option<Clip> {
    let Some(activation) = activation else { return Some(None) };
    rectifier(activation).map(|(rule, ceiling)| Some((rule, ceiling as f32)))
}

/// Elements that are finished at once.
pub const EIGHT: usize = 8;
