//! What the CUDA core knows of a kind of steps.

use super::launch::Emit;
use super::selection::{Call, Kernels};
use crate::error::Result;

/// The names of the kernels of a table, each with a `*` in place of types and extents.
pub(super) fn names<S>(table: &[Kernels<S>]) -> Vec<&'static str> {
    table.iter().flat_map(|kernels| kernels.name.split(' ')).collect()
}

/// A kind of steps, implemented for its problem beside its launches.
pub(super) trait Kind {
    /// The names of the kernels of its table, if it has one.
    fn names() -> Vec<&'static str>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// Hands the launches of the step to `emit`.
    ///
    /// # Errors
    /// As for [`super::plan::launches`].
    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()>;
}
