//! What one run may use: an instruction set and a number of threads.

use super::{Isa, threads};

/// The part of the computer that a run may use. Results never depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The vector instructions.
    pub isa: Isa,
    /// The number of threads a large problem is divided among, the caller's included; at least 1.
    pub threads: usize,
}

impl Machine {
    /// All there is, within the limits that the environment sets.
    pub fn host() -> Machine {
        Machine { isa: Isa::best(), threads: threads::limit() }
    }
}
