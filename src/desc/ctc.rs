//! The CTC loss descriptor: one state behind four setters and getters of different age.

use crate::dtype::DataType;

/// What a `cudnnCTCLossDescriptor_t` holds. Only the type is judged when set (observed on 9.27.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CtcLossDescriptor {
    /// The type that the loss is computed in: float or double.
    pub compute_type: DataType,
    /// 0: the input holds probabilities; 1: unscaled scores.
    pub normalization: i32,
    /// What becomes of gradients outside the valid lengths; under an older name, of NaN. One field.
    pub gradient: i32,
    /// The longest label.
    pub max_label_length: i32,
}

impl Default for CtcLossDescriptor {
    fn default() -> Self {
        CtcLossDescriptor {
            compute_type: DataType::Float,
            normalization: 0,
            gradient: 0,
            max_label_length: 0,
        }
    }
}
