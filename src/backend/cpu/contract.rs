//! Contractions: convolutions and matrix products of any layout.
//!
//! ```text
//! The choice
//!  table.rs   the kernels, in the order in which they are asked   problem.rs  a contraction as kernels are asked about it
//!  levels.rs  what kernels are compiled for                       widen.rs    narrow operands in binary32, all at once
//!  stride_phases.rs  the phases of a stride together
//! kernel.rs   the micro-kernel: a tile of accumulators             kernel/simd.rs  vector operations, per level and type
//!                                          kernel/vector.rs  what kernels of a single width need besides
//! operands/   where the operands are
//!  points.rs  where the iterations of loops are                   source.rs  an operand, and what it holds
//!  view.rs    both factors, and where products begin
//!  pack.rs    operands into micro-panels                          planes.rs  a windowed operand copied once, with its padding
//! epilogue/   from accumulators to the destination
//!  generic.rs of any type     binary32.rs in binary32 alone       run.rs     what all of these know
//!  narrow.rs  for halves and bytes, by whole vectors              registers.rs  from the accumulators of a whole tile
//! gemm/       matrix products
//!  engine.rs  the loops around the micro-kernel, for all contractions     tiles.rs  where lanes are in dst
//!  gemv.rs    a matrix by a few vectors                           gemm_dot.rs  sums along both operands
//! tiles/      matrix products by tile instructions
//!  call.rs    what is multiplied at once                       unit.rs    what multiplies: amx.rs, or model.rs
//!  pack.rs, sum.rs, split.rs  operands into strips of tiles
//!  task.rs    the loops over strips, and where accumulators end
//! direct/     convolutions of particular shapes
//!  depthwise_planar.rs, depthwise_interleaved.rs               sums over the taps of one channel; channels contiguous
//!  depthwise_wgrad_planar.rs, depthwise_wgrad_interleaved.rs   sums over the pixels of one channel; channels contiguous
//!  wgrad_few_filters.rs     sums over the pixels of a few channels     conv_few_channels.rs     windows over few channels
//!  grouped_few_channels.rs  groups of few channels side by side        winograd.rs              F(2x2, 3x3)
//!  taps.rs                  the taps that the outputs of a row meet
//! blocks.rs   products of blocks that other kinds of steps pack themselves
//! ```

pub(super) mod blocks;
mod direct;
mod epilogue;
mod gemm;
mod kernel;
mod levels;
mod operands;
mod problem;
mod stride_phases;
mod table;
mod tiles;
mod widen;

use self::problem::Problem;
use self::table::KERNELS;
pub use self::table::WINOGRAD;
use self::widen::Widen;
use super::arena::KEPT_BYTES;
use super::kind::{self, Call, Kind, Table};
use super::{Isa, Machine, PanelCache};
use crate::backend::Address;
use crate::backend::choice::Choice;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::mode;
use crate::ops::contract::{Accumulate, Contract, MAX_OPERANDS, Role};

/// Products below which one thread does all.
const PARALLEL_THRESHOLD: usize = 1 << 17;

/// Runs `step` with the operands at `at`, in the order of [`Contract::slots`].
///
/// # Errors
/// Not supported for sums in integers of operands that are not bytes, and where the kernel that is
/// chosen by name does not accept the step; host allocation; all before anything is written.
/// Execution if a task panicked.
///
/// # Safety
/// Every element of dst is writable, and readable if `beta != 0`; every element of `a` inside the
/// bounds, of `b`, of z and of the bias is readable; all are aligned to their scalars. The offsets
/// of dst are distinct, and no operand overlaps it, but z, if each of its elements is the one it is
/// added to. Nothing writes `b` as long as the panels live, if the step keeps it.
unsafe fn run(
    step: &Contract, at: &[*mut u8], machine: Machine, panels: Option<&PanelCache>, choice: Choice<'_>,
) -> Result<()> {
    if step.is_empty() {
        return Ok(());
    }
    let step = &*step.in_canonical_form();
    step.check_sums()?;
    let transformed = may_be_transformed(step);
    let run = |step: &Contract, operands: [*const u8; 2]| {
        // Not of a copy that the next step does not find.
        let own = panels.filter(|_| operands[1] == at[2].cast_const());
        let mut problem =
            Problem::new(step, at, operands, transformed, machine, own.filter(|_| step.caches_b));
        problem.filters = own.and_then(|panels| panels.filters_at(operands[1]));
        let (_, launch) = choice.of(KERNELS, |accept| accept(&problem))?;
        // SAFETY: every element that the step reads or writes is there; operands in binary32 are
        // copies with as many.
        unsafe { launch.run() }
    };
    if tiles::apply(step, machine.isa) {
        return run(step, [at[1].cast_const(), at[2].cast_const()]);
    }
    let vnni = takes_vnni(step, machine.isa);
    widen::in_parts(step, vnni, |step| match widened(step, machine.isa) {
        // SAFETY: the operands are those of the step.
        Some(wide) => unsafe {
            wide.run(step, [at[1], at[2]], machine, |operands| run(&wide.step, operands))
        },
        None => run(step, [at[1].cast_const(), at[2].cast_const()]),
    })
}

/// Whether no hold keeps less than products of at most these extents ask for, in any order.
pub fn is_kept(extents: [i64; 3]) -> bool {
    most_scratch(extents) <= KEPT_BYTES
}

/// More bytes of scratch than products of at most these extents ask for, in any order: copies of
/// their matrices, padded to whole tiles and transformed.
pub fn most_scratch(extents: [i64; 3]) -> usize {
    /// Lanes of the largest tile.
    const TILE: i64 = 64;
    /// A copy in the widest type, and what Winograd's algorithm makes of it.
    const COPIES: usize = 4 * 8;
    let [m, n, k] = extents.map(|extent| extent.saturating_add(TILE));
    let cells = m.saturating_mul(k).saturating_add(k.saturating_mul(n)).saturating_add(m.saturating_mul(n));
    usize::try_from(cells).unwrap_or(usize::MAX).saturating_mul(COPIES)
}

impl Kind for Contract {
    fn table() -> Table {
        kind::rows(KERNELS)
    }

    /// None for a step that does nothing or is refused.
    fn kernels(&self, machine: Machine) -> Vec<&'static str> {
        // At most those of the table.
        let mut accepting: Vec<_> = KERNELS.iter().collect();
        let mut problems = 0;
        for_each_problem(self, machine, |problem| {
            problems += 1;
            accepting.retain(|kernel| (kernel.accept)(problem).is_some());
        });
        // At most those of the table.
        if problems == 0 { Vec::new() } else { accepting.iter().map(|kernel| kernel.name).collect() }
    }

    /// That of the last part, where parts are run by themselves.
    fn kernel(&self, machine: Machine) -> Option<&'static str> {
        let mut name = None;
        for_each_problem(self, machine, |problem| {
            name = Choice::First.of(KERNELS, |accept| accept(problem)).ok().map(|(name, _)| name);
        });
        name
    }

    /// A contraction so small that its scratch fits into any hold.
    fn is_modest(&self, _machine: Machine) -> bool {
        let batch = usize::try_from(self.extent(Role::Batch)).unwrap_or(usize::MAX);
        let one = most_scratch([Role::M, Role::N, Role::K].map(|role| self.extent(role)));
        one.saturating_mul(batch) <= KEPT_BYTES
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        let at = pointers(call.at);
        // SAFETY: the operands are those of the step.
        unsafe { run(self, &at[..call.at.len()], call.machine, call.panels, call.choice) }
    }
}

/// The addresses of the operands of a contraction, which may have fewer.
fn pointers(at: &[Address]) -> [*mut u8; MAX_OPERANDS] {
    let mut pointers = [std::ptr::null_mut(); MAX_OPERANDS];
    pointers.iter_mut().zip(at).for_each(|(pointer, at)| *pointer = at.pointer());
    pointers
}

/// Calls `ask` with the problems that a step becomes, one for each part that is run by itself; with
/// none if it does nothing or is refused.
fn for_each_problem(step: &Contract, machine: Machine, mut ask: impl FnMut(&Problem<'_>)) {
    let step = &*step.in_canonical_form();
    if step.is_empty() || step.check_sums().is_err() {
        return;
    }
    let transformed = may_be_transformed(step);
    if tiles::apply(step, machine.isa) {
        return ask(&Problem::without_data(step, transformed, machine));
    }
    // Nothing fails, as nothing is run.
    let _ = widen::in_parts(step, takes_vnni(step, machine.isa), |step| {
        let wide = widened(step, machine.isa);
        let step = wide.as_ref().map_or(step, |wide| &wide.step);
        ask(&Problem::without_data(step, transformed, machine));
        Ok(())
    });
}

/// The step in binary32 whose narrow operands are converted beforehand, if that pays.
fn widened(step: &Contract, isa: Isa) -> Option<Widen> {
    let vnni = takes_vnni(step, isa);
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if isa.has_vectors()
        && (direct::depthwise_wgrad_interleaved::channels(step).is_some()
            || vnni && direct::conv_few_channels::apply(step, isa))
    {
        return None;
    }
    Widen::of(step, vnni)
}

/// Whether F(2x2, 3x3) may be taken for a canonical step. What is converted beforehand depends on
/// how much it is, and so on the batch; how sums are made must not.
fn may_be_transformed(step: &Contract) -> bool {
    let numbers = [step.a, step.b].iter().all(|a| matches!(a, Scalar::F32 | Scalar::F16 | Scalar::Bf16));
    numbers && step.allow_winograd && mode::allows_winograd()
}

/// Whether products of bytes are added four at a time: `b` has signs. The instruction of x86-64
/// wants none of the other factor, that of aarch64 some: `a` has its highest bits turned over where
/// it has the other kind.
fn takes_vnni(step: &Contract, isa: Isa) -> bool {
    isa.has_dots() && step.accumulate == Accumulate::Int32 && step.b == Scalar::I8
}
