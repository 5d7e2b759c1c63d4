//! The dropout descriptor, and how much room the mask of a dropout takes.

use super::tensor::TensorDescriptor;
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::mode::Mode;

/// Bytes of random state that a dropout keeps: a 64-bit seed and a 64-bit counter. Generators that count need no
/// more, whatever the number of threads.
pub const STATES_SIZE: usize = 16;

/// What a `cudnnDropoutDescriptor_t` holds: zeros after creation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DropoutDescriptor {
    probability: f32,
    states: usize,
    seed: u64,
}

impl DropoutDescriptor {
    /// A dropout with `probability`, whose random state lies at the address `states` (0: none given).
    ///
    /// # Errors
    /// Bad parameter: a probability outside 0 to 1 or NaN; fewer than [`STATES_SIZE`] bytes at `states`.
    pub fn new(probability: f32, states: usize, states_size: usize, seed: u64) -> Result<Self> {
        if !(0.0..=1.0).contains(&probability) {
            return Err(Error::mismatch(format!("dropout = {probability}: a probability lies in 0 to 1")));
        }
        if states != 0 && states_size < STATES_SIZE {
            let rule = format!("the random state takes {STATES_SIZE} bytes");
            return Err(Error::argument("stateSizeInBytes", states_size as i64, rule));
        }
        Ok(DropoutDescriptor { probability, states, seed })
    }

    /// The probability of an element to become zero.
    pub fn probability(&self) -> f32 {
        self.probability
    }

    /// The address of the random state.
    pub fn states(&self) -> usize {
        self.states
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

/// Bytes of a dropout's mask: one bit per stored element of `x`, in whole 32-bit words. Strides do not matter.
///
/// # Errors
/// Not supported: INT8; more elements than 64 bits count, in strict mode more than 2^31-1.
pub fn reserve_space_size(x: &TensorDescriptor, mode: Mode) -> Result<usize> {
    if x.data_type() == DataType::Int8 {
        return Err(Error::unsupported("dropout of INT8"));
    }
    let limit = if mode.is_strict() { i64::from(i32::MAX) } else { i64::MAX };
    match x.stored_dims().product() {
        Some(elements) if elements <= limit => Ok(4 * (elements as usize).div_ceil(32)),
        _ => Err(Error::unsupported(format!("dropout of {}: more than {limit} elements", x.stored_dims()))),
    }
}
