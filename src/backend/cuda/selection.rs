//! Kernels as data: of every kind of step that several kernels run there is one ordered table, the
//! general kernels last. The first row that takes a step queues it; adding kernels is a row.

use super::launch::{Device, Emit};
use crate::error::{Error, Result};

/// Kernels that differ by types and extents alone. `S` is the kind of steps that they run.
#[derive(Debug)]
pub struct Kernels<S: 'static> {
    /// What their names have in common, with a `*` in place of what they have not; several of these
    /// if a step takes several kernels.
    pub name: &'static str,
    /// The steps that they are for, in the words of `docs/kernels.md`.
    pub when: &'static str,
    /// Queues a step, unless it is one of those that the kernels are not for; whether it did.
    pub(super) launch: fn(&Query<'_, S>, Emit<'_>) -> Result<bool>,
}

/// What the choice of kernels depends on.
pub(super) struct Query<'a, S> {
    /// What is to be computed.
    pub step: &'a S,
    /// Where, and on what.
    pub call: Call<'a>,
}

/// Where a step runs, and on what.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    /// Where the operands are, destination first; 0 for one that there is not.
    pub at: &'a [u64],
    /// Whether elements of the destination share addresses, so that one thread walks them in order.
    pub ordered: bool,
    /// Where it runs.
    pub device: Device,
}

impl<'a> Call<'a> {
    /// What is asked for a step.
    pub(super) fn of<S>(self, step: &'a S) -> Query<'a, S> {
        Query { step, call: self }
    }
}

impl<S> Query<'_, S> {
    /// Where an operand is.
    pub(super) fn place(&self, operand: usize) -> u64 {
        self.call.at.get(operand).copied().unwrap_or(0)
    }

    /// Where the first operands are.
    pub(super) fn places<const N: usize>(&self) -> [u64; N] {
        std::array::from_fn(|operand| self.place(operand))
    }
}

/// Queues a step by the first row of its kind's table that takes it.
///
/// # Errors
/// As for [`super::plan::launches`]; internal if there is no such row.
pub(super) fn launch<S>(table: &[Kernels<S>], query: &Query<'_, S>, emit: Emit<'_>) -> Result<()> {
    for kernels in table {
        if (kernels.launch)(query, emit)? {
            return Ok(());
        }
    }
    Err(Error::Internal("no kernel of the CUDA core takes this step".into()))
}
