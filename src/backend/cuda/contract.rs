//! Launches of contractions (`kernels/contract.cu`, `kernels/contract_mma.cuh`): tiles of the
//! destination, by Tensor Cores where the device has them for the types, or a thread for each of
//! its elements.

use super::contract_table::{self, Copies, Kernel, THREADS};
use super::contract_vectors::{innermost_first, is_by_16, parts};
use super::kind::Kind;
use super::launch::{Device, Emit, Launch, grid};
use super::params::{Divisor, Index, Params, numbered};
use super::selection::Call;
use crate::error::{Error, Result};
use crate::layout::{Axis, MAX_AXES};
use crate::ops::Compute;
use crate::ops::contract::{Contract, MAX_BOUNDS, MAX_OPERANDS, Parts, Phases, Role};

const WIDE: u32 = 1;
const BLENDED: u32 = 2;
const ADDS_Z: u32 = 4;
const ADDS_BIAS: u32 = 8;
const CALLS: u32 = 16;
const A_ALONG_DEPTH: u32 = 32;
const B_ALONG_DEPTH: u32 = 64;
const DST_ALONG_COLUMNS: u32 = 128;
const A_BY_16: u32 = 256;
const B_BY_16: u32 = 512;
const ACTIVATES: u32 = 1024;

/// Operands of a step but for the workspace: dst, a, b, z and bias.
const OPERANDS: usize = 5;

/// One loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ContractLoop {
    /// Its iterations.
    pub extent: Divisor,
    /// Bytes that each operand moves per iteration.
    pub step: [i64; OPERANDS],
    /// How far the position of its bound moves per iteration.
    pub along: i64,
    /// The number of the bound; [`MAX_BOUNDS`] for none.
    pub bound: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
}

impl ContractLoop {
    const ONCE: ContractLoop =
        ContractLoop { extent: Divisor::ONE, step: [0; OPERANDS], along: 0, bound: 0, unused: 0 };
}

/// Positions along one dimension of `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct BoundParameters {
    /// The position at the first iterations of all loops.
    pub start: i64,
    /// The number of positions there are.
    pub extent: i64,
}

/// A contraction: `contract_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where the operands start.
    pub at: [u64; OPERANDS],
    /// Rows and columns of the destination, and terms of a sum; of a launch with a thread for an
    /// element `extents[1]` counts all elements.
    pub extents: [u64; 3],
    /// Tiles that the rows and the columns are in.
    pub tiles: [Divisor; 2],
    /// Alpha, beta and the factor of z.
    pub factors: [f64; 3],
    /// The parameter of the activation.
    pub parameter: f64,
    /// Where `a` has elements.
    pub bounds: [BoundParameters; MAX_BOUNDS],
    /// Scalar types of the operands.
    pub scalar: [u32; OPERANDS],
    /// Number of bounds.
    pub bound_count: u32,
    /// What there is, as bits.
    pub flags: u32,
    /// The activation.
    pub activation: u32,
    /// Parts that every sum is cut into.
    pub parts: u32,
    /// Keeps what follows aligned on both sides.
    pub unused: u32,
    /// Terms of a part.
    pub part: u64,
    /// Blocks for each part.
    pub blocks: Divisor,
    /// Where the sums of parts go, or come from; 0 if sums are not cut.
    pub partials: u64,
    /// Where the loops of each part are in `loops`: of the sum, the columns, the rows, the batch.
    pub first: [u32; 4],
    /// How many each part has.
    pub rank: [u32; 4],
    /// The loops, of each part the innermost first.
    pub loops: [ContractLoop; MAX_AXES],
}

// The same numbers stand in `kernels/contract.cuh`.
const _: () = assert!(size_of::<ContractLoop>() == 24 + 40 + 16);
const _: () = assert!(size_of::<Parameters>() == 40 + 24 + 48 + 32 + 96 + 32 + 48 + 32 + 80 * MAX_AXES);

/// Whether a device multiplies this by a kernel that copies whole vectors, if its operands are
/// aligned.
pub fn copies_vectors(step: &Contract, device: Device) -> bool {
    let step = step.in_canonical_form();
    let kernel = Kernel::of(&step, parts(&step), &[0; MAX_OPERANDS], device);
    kernel.is_some_and(|kernel| matches!(kernel.copy, Copies::Multistage(_)))
}

impl Kind for Contract {
    fn names() -> Vec<&'static str> {
        contract_table::KERNELS
            .iter()
            .flat_map(|kernel| kernel.join.into_iter().chain([kernel.name]))
            .collect()
    }

    /// Hands the launch of a contraction to `emit`.
    ///
    /// # Errors
    /// As for [`super::plan::launches`]; not supported for sums in integers of operands that are
    /// not bytes.
    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let (step, Call { at, device, .. }) = (self, call);
        step.check_sums()?;
        if step.is_empty() {
            return Ok(());
        }
        let step = &*step.in_canonical_form();
        let no_kernel = || Error::Internal(format!("no kernel for {step}").into());
        let parts = parts(step);
        let kernel = Kernel::of(step, parts, at, device).ok_or_else(no_kernel)?;
        let mut parameters = parameters(step, at, kernel.tile);
        let blocks = match kernel.tile {
            None => parameters.extents[1].div_ceil(kernel.threads.into()),
            Some(_) => {
                let [rows, columns] = parameters.tiles.map(|tiles| tiles.divisor);
                rows.saturating_mul(columns).saturating_mul(step.extent(Role::Batch) as u64)
            }
        };
        let mut launch = |name, threads: u32, blocks, parameters: &Parameters| {
            let block = [threads, 1, 1];
            let params = Params::new(parameters);
            emit(&Launch { kernel: name, grid: grid(blocks)?, block, shared: 0, params })
        };
        let Some((parts, join)) = parts.zip(kernel.join) else {
            return launch(kernel.name, kernel.threads, blocks, &parameters);
        };
        parameters.partials = step.workspace_slot().map_or(0, |slot| at[slot]);
        (parameters.parts, parameters.part) = (parts.count as u32, parts.terms as u64);
        parameters.blocks = Divisor::new(blocks as i64, Index::I64);
        launch(kernel.name, kernel.threads, blocks * parts.count as u64, &parameters)?;
        if kernel.tile.is_none() {
            return launch(join, THREADS, blocks, &parameters);
        }
        // What is left lies by small tiles, whatever tile it was computed in; a block joins a slice
        // of one.
        let small = step.tiles([Parts::SIDE; 2]);
        parameters.tiles = tiles(step, [Parts::SIDE; 2]);
        parameters.blocks = Divisor::new(small, Index::I64);
        let slices = (Parts::SIDE * Parts::SIDE) as u64 / u64::from(THREADS);
        launch(join, THREADS, small as u64 * slices, &parameters)
    }
}

impl Kind for Phases {
    /// One after the other.
    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        self.0.iter().try_for_each(|step| step.launches(call, emit))
    }
}

/// Tiles that the rows and the columns are in.
fn tiles(step: &Contract, sides: [i64; 2]) -> [Divisor; 2] {
    step.tiles_along(sides).map(|tiles| Divisor::new(tiles, Index::I64))
}

/// Whether neighbours of an operand in memory are met along the first part rather than along the
/// second.
fn is_along(step: &Contract, operand: usize, [first, second]: [Role; 2]) -> bool {
    // Three taps are no run.
    let distance = |role: Role| {
        let inner = innermost_first(step, |of| of == role).next();
        inner.filter(|(_, axis)| axis.extent > 3).map_or(u64::MAX, |(_, a)| a.strides[operand].unsigned_abs())
    };
    distance(first) < distance(second)
}

fn parameters(step: &Contract, at: &[u64], tile: Option<[i64; 2]>) -> Parameters {
    let slot = |slot: Option<usize>| slot.map_or(0, |slot| at[slot]);
    let epilogue = &step.epilogue;
    let z = epilogue.z.map_or((step.dst, 0.0), |z| z);
    let scalars = [step.dst, step.a, step.b, z.0, epilogue.bias.unwrap_or(step.dst)];
    let sizes = scalars.map(|scalar| scalar.size() as i64);
    let bases = [at[0], at[1], at[2], slot(step.z_slot()), slot(step.bias_slot())];
    let is_there = [true, true, true, epilogue.z.is_some(), epilogue.bias.is_some()];
    let depth = step.extent(Role::K);

    let (mut loops, mut count) = ([ContractLoop::ONCE; MAX_AXES], 0);
    let (mut first, mut rank) = ([0; 4], [0; 4]);
    let mut add = |part: usize, axes: &mut dyn Iterator<Item = (usize, &Axis<5>)>| {
        first[part] = count as u32;
        for (number, axis) in axes {
            // At most one bound names a loop; see `Contract::bind`.
            let mut this = ContractLoop { bound: MAX_BOUNDS as u32, ..ContractLoop::ONCE };
            for (k, bound) in step.bounds().iter().enumerate() {
                if let Some(end) = bound.axes.iter().position(|&axis| usize::from(axis) == number) {
                    (this.bound, this.along) = (k as u32, bound.steps[end]);
                }
            }
            this.extent = Divisor::new(axis.extent, Index::I64);
            (0..OPERANDS)
                .filter(|&k| is_there[k])
                .for_each(|k| this.step[k] = axis.strides[k].wrapping_mul(sizes[k]));
            loops[count] = this;
            count += 1;
        }
        rank[part] = count as u32 - first[part];
    };
    if depth > 0 {
        add(0, &mut innermost_first(step, |role| role == Role::K));
    }
    if tile.is_none() {
        // Neighbouring threads write neighbours.
        let mut outputs: Vec<_> = innermost_first(step, |role| role != Role::K).collect();
        outputs.sort_by_key(|(_, axis)| axis.strides[0].unsigned_abs());
        add(1, &mut outputs.into_iter());
    } else {
        for (part, role) in [(1, Role::N), (2, Role::M), (3, Role::Batch)] {
            add(part, &mut innermost_first(step, |of| of == role));
        }
    }

    let (activation, parameter, calls) = numbered(epilogue.activation);
    let mut flags = 0;
    for (bit, is_set) in [
        (WIDE, step.real() == Compute::Double),
        (BLENDED, epilogue.scaling.beta != 0.0),
        (ADDS_Z, z.1 != 0.0),
        (ADDS_BIAS, epilogue.bias.is_some()),
        (CALLS, calls),
        (A_ALONG_DEPTH, is_along(step, 1, [Role::K, Role::M])),
        (B_ALONG_DEPTH, is_along(step, 2, [Role::K, Role::N])),
        (DST_ALONG_COLUMNS, is_along(step, 0, [Role::N, Role::M])),
        (A_BY_16, is_by_16(step, 1, at[1])),
        (B_BY_16, is_by_16(step, 2, at[2])),
        (ACTIVATES, epilogue.activation.is_some()),
    ] {
        flags |= if is_set { bit } else { 0 };
    }
    let [rows, columns, batch] = [Role::M, Role::N, Role::Batch].map(|role| step.extent(role));
    let elements = rows.saturating_mul(columns).saturating_mul(batch);
    let mut bounds = [BoundParameters { start: 0, extent: 0 }; MAX_BOUNDS];
    bounds
        .iter_mut()
        .zip(step.bounds())
        .for_each(|(to, from)| *to = BoundParameters { start: from.start, extent: from.extent });
    let start = |k: usize| bases[k].wrapping_add_signed(step.nest.offsets[k].wrapping_mul(sizes[k]));
    Parameters {
        at: std::array::from_fn(|k| if is_there[k] { start(k) } else { 0 }),
        extents: [rows, if tile.is_none() { elements } else { columns }, depth].map(|n| n as u64),
        tiles: tiles(step, tile.unwrap_or([Parts::SIDE; 2])),
        factors: [epilogue.scaling.alpha, epilogue.scaling.beta, z.1],
        parameter,
        bounds,
        scalar: scalars.map(|scalar| scalar as u32),
        bound_count: step.bounds().len() as u32,
        flags,
        activation,
        parts: 1,
        unused: 0,
        part: depth as u64,
        blocks: Divisor::new(i64::MAX >> 1, Index::I64),
        partials: 0,
        first,
        rank,
        loops,
    }
}
