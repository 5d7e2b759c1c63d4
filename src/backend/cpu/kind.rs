//! What the CPU core knows of a kind of steps.

use super::{Machine, PanelCache};
use crate::backend::choice::{Choice, Kernel};
use crate::backend::{Address, Operands};
use crate::error::Result;

/// A step that is run: where its operands are, and by what.
#[derive(Clone, Copy)]
pub(in crate::backend) struct Call<'a> {
    /// The operands of the step, destination first.
    pub at: &'a [Address],
    pub machine: Machine,
    /// Where contractions that [say so](crate::ops::Contract::caches_b) keep their `b`.
    pub panels: Option<&'a PanelCache>,
    pub choice: Choice<'a>,
}

impl<'a> Call<'a> {
    /// By the first kernel that accepts the step, which keeps nothing.
    pub fn new(at: &'a [Address], machine: Machine) -> Self {
        Call { at, machine, panels: None, choice: Choice::First }
    }

    /// Where the first `N` operands are.
    pub fn pointers<const N: usize>(&self) -> [*mut u8; N] {
        std::array::from_fn(|k| self.at[k].pointer())
    }

    /// A destination and its source.
    pub fn operands(&self) -> Operands {
        let [dst, src] = self.pointers();
        Operands { dst, src }
    }
}

/// The rows of a table of kernels: each kernel's name, and the steps that it is for.
pub(in crate::backend) type Table = Vec<(&'static str, &'static str)>;

/// The rows of these kernels.
pub(in crate::backend) fn rows<A>(kernels: &[Kernel<A>]) -> Table {
    kernels.iter().map(|kernel| (kernel.name, kernel.when)).collect()
}

/// A kind of steps, implemented for its problem beside its kernels.
pub(in crate::backend) trait Kind {
    /// Its table, if it has several kernels.
    fn table() -> Table
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// The names of the kernels that accept the step, in the order of the table, if there is one.
    fn kernels(&self, _machine: Machine) -> Vec<&'static str> {
        Vec::new()
    }

    /// The name of the kernel that runs the step, if there are several.
    fn kernel(&self, machine: Machine) -> Option<&'static str> {
        self.kernels(machine).first().copied()
    }

    /// Whether the step asks for no more scratch than every hold keeps, whatever kernel runs it:
    /// for buffers of a tile, a few rows, or none. The scratch of most kinds grows with extents.
    fn is_modest(&self, _machine: Machine) -> bool {
        false
    }

    /// Runs the step to completion.
    ///
    /// # Errors
    /// As for [`crate::backend::run_by`].
    ///
    /// # Safety
    /// As for [`crate::backend::run_keeping`], with destination offsets that are distinct.
    unsafe fn run(&self, call: &Call<'_>) -> Result<()>;
}
