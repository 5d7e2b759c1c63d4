//! The cores, which run [`Step`]s: the reference loops, the CPU core and the CUDA core.
//!
//! A step goes to the first kernel of its kind's table (`choice.rs`) that accepts it, the obvious
//! loop or the general kernel last: adding a fast path is one file under `cpu/` and one row.

use crate::error::Result;
use crate::ops::plan::{of_kinds, with_kind};
use crate::ops::{Contract, Map, Reduce, Rows, Step};

mod address;
mod batches;
mod choice;
pub mod cpu;
pub mod cuda;
mod edges;
mod formula;
mod function;
mod inverse_power;
mod padded;
mod real;
pub mod reference;
mod row_function;
mod scratch;
mod transform;

pub use address::Address;
pub use choice::{Choice, Kernel};
pub use cpu::arena::{Hold, KEPT_BYTES};
pub use cpu::contract::{is_kept, most_scratch};
pub use cpu::{FilterCache, Isa, Machine, PanelCache};
pub use scratch::{hold, is_held, lend, scratch};
pub use transform::run_transform;

use cpu::kind::{Call, Kind, Table};

/// Where the data of a transform lies. Both pointers are aligned to their scalar type and no
/// further.
///
/// They are plain addresses: the data may be uninitialised (`beta == 0`) and may be one and the
/// same for both.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// The destination, read as well when `beta != 0`.
    pub dst: *mut u8,
    /// The source.
    pub src: *const u8,
}

impl Operands {
    /// The operands of a step.
    pub fn addresses(self) -> [Address; 2] {
        [self.dst.into(), self.src.into()]
    }
}

// SAFETY: two addresses without meaning of their own. Who reads or writes through them, and that no
// two threads do so at one place, is a matter of the unsafe functions that take them.
unsafe impl Send for Operands {}
// SAFETY: sharing two addresses gives access to nothing; the functions that follow them are unsafe.
unsafe impl Sync for Operands {}

/// Runs one step to completion on the CPU, on operands at these addresses, destination first.
/// Results do not depend on the machine. If `ordered`, destination offsets may repeat, and the
/// order of the loops is kept.
///
/// # Errors
/// Execution if a task of the core panicked; host allocation, before anything is written.
///
/// # Safety
/// Every offset of the step's loops must be writable around the operands that the step writes (and
/// readable if it blends, `beta != 0`), and readable around those that it reads, for one scalar;
/// all addresses are aligned to their scalar. The destination offsets are distinct, unless
/// `ordered`. Cells that are read do not overlap cells that are written, unless each cell of the
/// destination is computed from the cell in its own place: same address, same strides, same scalar
/// size.
pub unsafe fn run(step: Step<'_>, at: &[Address], ordered: bool, machine: Machine) -> Result<()> {
    // SAFETY: elements are readable or writable as the step uses them; destination offsets are
    // distinct unless `ordered`.
    unsafe { run_keeping(step, at, ordered, machine, None) }
}

/// [`run`](fn@run) by the kernel of this name, which is one of the [`kernels`] that accept the
/// step.
///
/// # Errors
/// As for [`run`](fn@run); not supported, and nothing is written, if the kernel does not accept the
/// step.
///
/// # Safety
/// As for [`run`](fn@run).
pub unsafe fn run_by(kernel: &str, step: Step<'_>, at: &[Address], machine: Machine) -> Result<()> {
    // SAFETY: elements are readable or writable as the step uses them; destination offsets are
    // distinct.
    unsafe { run_chosen(step, at, machine, None, Choice::Named(kernel)) }
}

/// [`run`](fn@run) for one step of several: contractions that [say so](Contract::caches_b) keep
/// their `b` in the panels.
///
/// # Errors
/// As for [`run`](fn@run).
///
/// # Safety
/// As for [`run`](fn@run); nothing writes `b` of a step that keeps it as long as the panels live.
pub unsafe fn run_keeping(
    step: Step<'_>, at: &[Address], ordered: bool, machine: Machine, panels: Option<&PanelCache>,
) -> Result<()> {
    if ordered {
        // SAFETY: elements are readable or writable as the step uses them, and the reference loops
        // keep the order.
        return unsafe { reference::run(step, at) };
    }
    // SAFETY: destination offsets are distinct where there is no order, and nothing writes a `b`
    // that is kept.
    unsafe { run_chosen(step, at, machine, panels, Choice::First) }
}

/// # Safety
/// As for [`run_keeping`], with destination offsets that are distinct.
unsafe fn run_chosen(
    step: Step<'_>, at: &[Address], machine: Machine, panels: Option<&PanelCache>, choice: Choice<'_>,
) -> Result<()> {
    let call = Call { at, machine, panels, choice };
    // SAFETY: the addresses are as many as the step has operands, with elements as it uses them.
    with_kind!(step, kind => unsafe { kind.run(&call) })
}

/// The name of the kernel that [`run`](fn@run) computes a step with, where the step's kind has
/// several.
pub fn kernel(step: Step<'_>, ordered: bool, machine: Machine) -> Option<&'static str> {
    if ordered { Some("reference") } else { with_kind!(step, kind => kind.kernel(machine)) }
}

/// The names of the kernels that accept a step, in the order of the table of its kind, if there is
/// one: the first name is that which [`kernel`] tells.
pub fn kernels(step: Step<'_>, machine: Machine) -> Vec<&'static str> {
    with_kind!(step, kind => kind.kernels(machine))
}

/// Every table of kernels: the kind of its steps, and each kernel's name and the steps that it is
/// for, in the order in which kernels are asked. Kinds that share a table have it once.
pub fn tables() -> Vec<(&'static str, Table)> {
    let mut tables: Vec<(&'static str, Table)> = Vec::new();
    for (kind, table) in of_kinds!(Problem => Problem::table()) {
        if !table.is_empty() && tables.iter().all(|(_, other)| *other != table) {
            tables.push((kind, table));
        }
    }
    tables
}

/// Whether a step is computed by Winograd's F(2x2, 3x3) on the CPU core, which only a step that
/// allows it is.
pub fn takes_winograd(step: Step<'_>, machine: Machine) -> bool {
    kernel(step, false, machine).is_some_and(|kernel| cpu::contract::WINOGRAD.contains(&kernel))
}

/// Runs `step` on `machine`, its operands in the order of [`Contract::slots`]. Results do not
/// depend on the number of threads.
///
/// # Errors
/// Not supported for sums in integers of operands that are not bytes, host allocation; both before
/// anything is written. Execution if a task of the core panicked.
///
/// # Safety
/// Every element of the destination must be writable (and readable if `beta != 0`), every element
/// of the other operands that the step reads readable; all pointers are aligned to their scalar.
/// The destination offsets are distinct. No other operand overlaps the destination, but for z, if
/// each element of z lies where the result goes that it is added to.
pub unsafe fn run_contract(step: &Contract, at: &[*mut u8], machine: Machine) -> Result<()> {
    // SAFETY: elements that the step reads or writes are there and aligned; destination offsets are
    // distinct.
    unsafe { step.run(&Call::new(&at.iter().map(|&at| at.into()).collect::<Vec<_>>(), machine)) }
}

/// Runs `rows` on `machine`; operand 0 is the destination.
///
/// # Errors
/// As for [`run`](fn@run).
///
/// # Safety
/// Every element of every group must be writable around `at[0]` (and readable if `beta != 0`), and
/// readable around the operands that the function reads; all pointers are aligned to their scalar.
/// The elements of the destination are distinct. An operand that is read does not overlap the
/// destination, unless each cell of the destination is its own operand: same pointer, same strides,
/// same scalar size.
pub unsafe fn run_rows(rows: &Rows, at: [*mut u8; 3], machine: Machine) -> Result<()> {
    // SAFETY: every element of every group is there and aligned; those of the destination are
    // distinct.
    unsafe { rows.run(&Call::new(&at.map(Address::from), machine)) }
}

/// Runs `map` on `machine`; operand 0 is the destination.
///
/// # Errors
/// As for [`run`](fn@run).
///
/// # Safety
/// For every offset tuple of the nest, `at[0] + offset` must be writable (and readable if
/// `beta != 0`), and the offsets of operands that the function reads readable around theirs, each
/// for one scalar; all pointers are aligned to their scalar. The destination offsets are distinct.
/// An operand that is read does not overlap the destination, unless each cell of the destination is
/// its own operand: same pointer, same strides, same scalar size.
pub unsafe fn run_map<const N: usize>(map: &Map<N>, at: [*mut u8; N], machine: Machine) -> Result<()> {
    // SAFETY: every cell of the nest is there and aligned in each operand; destination offsets are
    // distinct.
    unsafe { map.run(&Call::new(&at.map(Address::from), machine)) }
}

/// Runs `problem` on `machine`.
///
/// # Errors
/// As for [`run`](fn@run); host allocation before anything is written.
///
/// # Safety
/// Every output must be writable around `dst` (and readable if `beta != 0`), every element of every
/// output's sequence readable around `src`, each for one scalar; both pointers are aligned to it.
/// The outputs' offsets are distinct. `indices` holds as many indices as there are outputs, if the
/// problem writes some; it needs no alignment. Outputs do not overlap what is read, unless each
/// output reduces the one cell that it replaces.
pub unsafe fn run_reduce(
    problem: &Reduce, dst: *mut u8, src: *const u8, indices: *mut u8, machine: Machine,
) -> Result<()> {
    let at = [dst.into(), indices.into(), src.into()];
    // SAFETY: every output is writable, its sequence readable, and there is room for the indices
    // that are written.
    unsafe { problem.run(&Call::new(&at, machine)) }
}
