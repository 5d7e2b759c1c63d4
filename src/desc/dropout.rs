//! The dropout descriptor, and how much room the mask of a dropout takes.

use super::tensor::TensorDescriptor;
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::mode::Mode;

/// Bytes of random state that a dropout keeps: a 64-bit seed and a 64-bit counter. Generators that
/// count need no more, whatever the number of threads.
pub const STATES_SIZE: usize = 16;

/// Bytes of random state that callers are told to provide: the original's 24 for each thread of a
/// device of 132 multiprocessors of 2,048 threads. Programs that pass their states as the reserve
/// space rely on megabytes.
pub const STATES_TOLD: usize = 132 * 2048 * 24;

/// What the address of a random state is a multiple of.
pub const STATES_ALIGNMENT: usize = 8;

/// What a `cudnnDropoutDescriptor_t` holds: zeros after creation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DropoutDescriptor {
    probability: f32,
    states: usize,
    states_size: usize,
    seed: u64,
}

impl DropoutDescriptor {
    /// Sets probability and seed, and where the random state lies; no address (0) leaves the one
    /// that is there, with whatever it has come to. Any probability is taken, as observed on
    /// 9.27.0: below 0 and NaN drop nothing, above 1 drops all.
    ///
    /// # Errors
    /// Bad parameter, which changes nothing: fewer than [`STATES_SIZE`] bytes (in strict mode
    /// [`STATES_TOLD`]) at an address that is given; an address that is not a multiple of
    /// [`STATES_ALIGNMENT`].
    pub fn set(
        &mut self, probability: f32, states: usize, states_size: usize, seed: u64, mode: Mode,
    ) -> Result<()> {
        let mut set = DropoutDescriptor { probability, seed, ..*self };
        if states != 0 {
            check_size(states_size, mode)?;
            if !states.is_multiple_of(STATES_ALIGNMENT) {
                let text = format!("states = {states:#x}: they must be aligned to {STATES_ALIGNMENT} bytes");
                return Err(Error::mismatch(text));
            }
            (set.states, set.states_size) = (states, states_size);
        }
        *self = set;
        Ok(())
    }

    /// Sets probability and seed, and where a random state lies that another dropout has left.
    ///
    /// # Errors
    /// Bad parameter, which changes nothing: a size below [`STATES_SIZE`] (in strict mode
    /// [`STATES_TOLD`]), also without an address.
    pub fn restore(
        &mut self, probability: f32, states: usize, states_size: usize, seed: u64, mode: Mode,
    ) -> Result<()> {
        check_size(states_size, mode)?;
        *self = DropoutDescriptor { probability, states, states_size, seed };
        Ok(())
    }

    /// The probability of an element to become zero.
    pub fn probability(&self) -> f32 {
        self.probability
    }

    /// The address of the random state.
    pub fn states(&self) -> usize {
        self.states
    }

    /// Bytes that the caller has there, at least [`STATES_SIZE`] where there is an address.
    pub fn states_size(&self) -> usize {
        self.states_size
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

/// Refuses fewer bytes than a random state takes; in strict mode fewer than callers are told.
fn check_size(states_size: usize, mode: Mode) -> Result<()> {
    let least = if mode.is_strict() { STATES_TOLD } else { STATES_SIZE };
    if states_size >= least {
        return Ok(());
    }
    let rule = format!("the random state takes {least} bytes");
    Err(Error::argument("stateSizeInBytes", states_size as i64, rule))
}

/// Bytes of a dropout's mask: one bit per stored element of `x`, in whole 32-bit words. Strides do
/// not matter.
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
