//! The kernels of blocks with zeros behind their cells.

use super::Operands;
use super::choice::{self, Kernel};
use super::cpu::kind::{self, Call, Kind, Table};
use super::cpu::{self, Machine};
use crate::error::Result;
use crate::ops::Padded;

/// How a kernel runs a problem that it has accepted. Unsafe as [`Kind::run`] is.
type Run = unsafe fn(&Padded, Operands, Machine) -> Result<()>;

/// How a kernel runs a problem, if it accepts it.
type Accept = fn(&Padded) -> Option<Run>;

/// The kernels; the first one that accepts a problem runs it.
const KERNELS: &[Kernel<Accept>] = &[
    Kernel {
        name: "padded_blocks",
        when: "blocks of up to 1 KiB, of which one loop has neighbours: cells and zeros are written together",
        accept: |padded| cpu::padded::accepts(padded).then_some(cpu::padded::run),
    },
    Kernel {
        name: "padded_in_two_passes",
        when: "all blocks: their cells as a transform, then the zeros",
        accept: |_| Some(in_parts),
    },
];

/// # Safety
/// As for [`Kind::run`].
unsafe fn in_parts(padded: &Padded, operands: Operands, machine: Machine) -> Result<()> {
    // SAFETY: the cells of either part are writable at the destination, those that are moved
    // readable at the source.
    unsafe {
        let at = operands.addresses();
        padded.transform().run(&Call::new(&at, machine))?;
        padded.fill().run(&Call::new(&at, machine))
    }
}

impl Kind for Padded {
    fn table() -> Table {
        kind::rows(KERNELS)
    }

    fn kernels(&self, _machine: Machine) -> Vec<&'static str> {
        choice::names(KERNELS, |accept| accept(self))
    }

    fn is_modest(&self, _machine: Machine) -> bool {
        true
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        if self.blocks.is_empty() {
            return Ok(());
        }
        let (_, run) = call.choice.of(KERNELS, |accept| accept(self))?;
        // SAFETY: the cells are there as the problem uses them, and the kernel accepts the problem.
        unsafe { run(self, call.operands(), call.machine) }
    }
}
