//! The kernels of blocks with zeros behind their cells.

use super::choice::{self, Choice, Kernel};
use super::cpu::{self, Machine};
use super::{Operands, run_transform};
use crate::error::Result;
use crate::ops::Padded;

/// How a kernel runs a problem that it has accepted. Unsafe as [`run`] is.
type Run = unsafe fn(&Padded, Operands, Machine) -> Result<()>;

/// How a kernel runs a problem, if it accepts it.
pub(super) type Accept = fn(&Padded) -> Option<Run>;

/// The kernels; the first one that accepts a problem runs it.
pub(super) const KERNELS: &[Kernel<Accept>] = &[
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
/// As for [`run`].
unsafe fn in_parts(padded: &Padded, operands: Operands, machine: Machine) -> Result<()> {
    // SAFETY: the cells of either part are writable at the destination, those that are moved
    // readable at the source.
    unsafe {
        run_transform(&padded.transform(), operands, machine)?;
        cpu::scale::run(&padded.fill(), operands.dst, machine, Choice::First)
    }
}

/// The names of all kernels that accept a problem, in the order of the table.
pub(super) fn kernels(padded: &Padded) -> Vec<&'static str> {
    choice::names(KERNELS, |accept| accept(padded))
}

/// Runs `padded` on `machine`, with the kernel that is chosen.
///
/// # Errors
/// As for [`super::run_by`].
///
/// # Safety
/// As for [`super::run`].
pub(super) unsafe fn run(
    padded: &Padded, operands: Operands, machine: Machine, choice: Choice<'_>,
) -> Result<()> {
    if padded.blocks.is_empty() {
        return Ok(());
    }
    let (_, run) = choice.of(KERNELS, |accept| accept(padded))?;
    // SAFETY: the cells are there as the problem uses them, and the kernel accepts the problem.
    unsafe { run(padded, operands, machine) }
}
