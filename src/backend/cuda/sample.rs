//! Launches of samplers (`kernels/sample.cu`, `kernels/sample_of.cu`).

use super::kind::{self, Kind};
use super::launch::{Emit, Launch, column_of, grid};
use super::params::{Divisor, Index, Operation, Params};
use super::selection::{self, Call, Kernels, Query};
use crate::error::{Error, Result};
use crate::ops::Compute;
use crate::ops::sample::{LANES, Pictures as Tensor, Sample, SampleFunction};

/// Threads of a block: elements, positions, lanes or pixels.
const THREADS: u32 = 256;
/// Blocks of a launch of the general kernels at most; beyond, they have several parts of the work.
const MOST_BLOCKS: u64 = 1 << 20;
/// Channels that a thread samples.
const SAMPLED: u64 = 4;
/// Channels that a block computes the gradients of.
const CHANNELS: u64 = 8;
/// In the kernels whose type is a constant a thread samples a multiple of the first number: the
/// first of these that leaves MANY threads. The second is as above.
const SAMPLED_OF: u64 = 8;
const ROUNDS: [u64; 3] = [4, 2, 1];
const MANY: u64 = 1 << 18;
const CHANNELS_OF: u64 = 32;
/// Rows and columns, and bytes of a channel, that those kernels count in 16 and in 32 bits.
const SIDE: i64 = 32_000;
const REACH: i64 = 1 << 31;

// Each thread is a lane of the sums.
const _: () = assert!(LANES == THREADS as usize);

/// x or y, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Pictures {
    /// As in [`Tensor`], in bytes.
    pub step: [i64; 4],
    /// Channels of a group.
    pub block: Divisor,
    /// Scalar type.
    pub scalar: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
}

impl Pictures {
    fn new(tensor: &Tensor) -> Self {
        Pictures {
            step: tensor.strides.map(|stride| stride * tensor.scalar.size() as i64),
            block: Divisor::new(tensor.block, Index::I64),
            scalar: tensor.scalar as u32,
            unused: 0,
        }
    }
}

/// A sampler: `sample_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// The operands of the step.
    pub at: [u64; 4],
    /// Elements, positions, or parts of the work of a block.
    pub count: u64,
    /// As in [`Sample`].
    pub images: i64,
    /// As in [`Sample`].
    pub channels: i64,
    /// As in [`Sample`].
    pub source: [i64; 2],
    /// As in [`Sample`].
    pub target: [i64; 2],
    /// Pixels per unit of a coordinate.
    pub half: [f64; 2],
    /// From the computation type to the destination.
    pub operation: Operation,
    /// Positions of one picture's grid.
    pub positions: Divisor,
    /// Its columns.
    pub target_columns: Divisor,
    /// Columns of x.
    pub source_columns: Divisor,
    /// Channels.
    pub by_channels: Divisor,
    /// x or dx.
    pub x: Pictures,
    /// y or dy.
    pub y: Pictures,
    /// Scalar type of grids and maps.
    pub grid: u32,
    /// 1 if neighbouring threads have neighbouring channels.
    pub channels_fast: u32,
}

// The same numbers stand in the kernels' source.
const _: () = assert!(size_of::<Pictures>() == 64);
const _: () = assert!(size_of::<Parameters>() == 32 + 24 + 32 + 16 + 32 + 96 + 128 + 8);

/// The kernels of a function in binary32, binary16 and bfloat16.
macro_rules! kernels {
    ($function:literal) => {
        [
            concat!("sample_", $function, "_of_f32"),
            concat!("sample_", $function, "_of_f16"),
            concat!("sample_", $function, "_of_bf16"),
        ]
    };
}

/// The kernel of a step in pictures of one type without groups of channels, and without factors of
/// pixels, if it is one; each block has one part of the work then.
fn of_type(step: &Sample) -> Option<&'static str> {
    let (kernels, has_factors) = match step.function {
        SampleFunction::Bilinear => (kernels!("bilinear"), !step.scaling.is_move()),
        SampleFunction::DataGradient => (kernels!("data_gradient"), !step.scaling.is_move()),
        SampleFunction::GridGradient => (kernels!("grid_gradient"), false),
        _ => return None,
    };
    let column = column_of(step.x.scalar)?;
    let [rows, columns] = [0, 1].map(|axis| step.source[axis].max(step.target[axis]));
    let along = |axis: usize| step.target[axis].checked_mul(step.y.strides[2 + axis].checked_abs()?);
    let reach = along(0)?.checked_add(along(1)?)?.checked_mul(step.y.scalar.size() as i64)?;
    let work = step.images.checked_mul(step.channels)?.checked_mul(rows.checked_mul(columns)?)?;
    let fits = rows < SIDE && columns < SIDE && reach < REACH && work < REACH;
    let plain = step.compute == Compute::Single
        && !has_factors
        && [step.x.block, step.y.block] == [1, 1]
        && step.x.scalar == step.y.scalar;
    (plain && fits).then_some(kernels[column])
}

pub(super) const KERNELS: &[Kernels<Sample>] = &[
    Kernels {
        name: "sample_*_of_*",
        when: "pictures and gradients of binary32, binary16 or bfloat16 without factors and groups of channels",
        launch: by_type,
    },
    Kernels { name: "sample_*", when: "all samplers, their grids and gradients", launch: of_any_type },
];

impl Kind for Sample {
    fn names() -> Vec<&'static str> {
        kind::names(KERNELS)
    }

    /// Hands the launch of a step to `emit`; its operands are as [`SampleFunction`] lists them.
    ///
    /// # Errors
    /// As for [`super::plan::launches`]; not supported if elements of the destination share
    /// addresses.
    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let query = &call.of(self);
        if query.call.ordered {
            return Err(Error::unsupported(
                "the CUDA core does not sample to elements that share an address",
            ));
        }
        selection::launch(KERNELS, query, emit)
    }
}

fn by_type(query: &Query<'_, Sample>, emit: Emit<'_>) -> Result<bool> {
    let Some(kernel) = of_type(query.step) else { return Ok(false) };
    emit(&launch(query, Some(kernel))?)?;
    Ok(true)
}

fn of_any_type(query: &Query<'_, Sample>, emit: Emit<'_>) -> Result<bool> {
    emit(&launch(query, None)?)?;
    Ok(true)
}

/// The launch of a step by the kernel whose type is a constant, or by one that takes any.
fn launch(query: &Query<'_, Sample>, constant: Option<&'static str>) -> Result<Launch> {
    let step = query.step;
    let positions = step.positions();
    let all = |counts: &[i64]| counts.iter().product::<i64>() as u64;
    let pixels = all(&step.source);
    let (sampled, grouped) = if constant.is_some() { (SAMPLED_OF, CHANNELS_OF) } else { (SAMPLED, CHANNELS) };
    // A thread has several that lie so far apart.
    let apart = |rounds: u64| (step.channels as u64).div_ceil(sampled * rounds);
    let is_enough = |rounds: &u64| all(&[step.images, positions]).saturating_mul(apart(*rounds)) >= MANY;
    let rounds = ROUNDS.into_iter().find(is_enough).filter(|_| constant.is_some()).unwrap_or(1);
    let channels = apart(rounds) as i64;
    let by_threads = |count: u64| (count, count.div_ceil(THREADS.into()));
    let (kernels, to, (count, blocks)) = match step.function {
        SampleFunction::AffineGrid => (
            ["sample_affine_grid_f32", "sample_affine_grid_f64"],
            step.grid,
            by_threads(all(&[step.images, positions])),
        ),
        SampleFunction::AffineGradient => {
            let images = step.images as u64;
            (["sample_affine_gradient_f32", "sample_affine_gradient_f64"], step.grid, (images, images))
        }
        SampleFunction::Bilinear => (
            ["sample_bilinear_f32", "sample_bilinear_f64"],
            step.y.scalar,
            by_threads(all(&[step.images, channels, positions])),
        ),
        SampleFunction::DataGradient => {
            let groups = (step.channels as u64).div_ceil(grouped);
            let parts = step.images as u64 * groups * pixels.div_ceil(THREADS.into());
            (["sample_data_gradient_f32", "sample_data_gradient_f64"], step.x.scalar, (parts, parts))
        }
        SampleFunction::GridGradient => (
            ["sample_grid_gradient_f32", "sample_grid_gradient_f64"],
            step.grid,
            by_threads(all(&[step.images, positions])),
        ),
    };
    let parameters = Parameters {
        at: query.places(),
        count,
        images: step.images,
        channels: step.channels,
        source: step.source,
        target: step.target,
        half: step.halves(),
        operation: Operation::new(step.compute.scalar(), to, step.scaling),
        positions: Divisor::new(positions, Index::I64),
        target_columns: Divisor::new(step.target[1], Index::I64),
        source_columns: Divisor::new(step.source[1], Index::I64),
        by_channels: Divisor::new(channels.max(1), Index::I64),
        x: Pictures::new(&step.x),
        y: Pictures::new(&step.y),
        grid: step.grid as u32,
        // Neighbouring threads write neighbours.
        channels_fast: u32::from(step.channels > 1 && step.y.strides[1].abs() < step.y.strides[3].abs()),
    };
    let kernel = constant.unwrap_or(kernels[usize::from(step.compute == Compute::Double)]);
    let most = if constant.is_some() { blocks } else { MOST_BLOCKS };
    let (grid, block) = (grid(blocks.min(most))?, [THREADS, 1, 1]);
    Ok(Launch { kernel, grid, block, shared: 0, params: Params::new(&parameters) })
}
