//! Launches of rows that are normalised by their own statistics, and of their gradients
//! (`kernels/row_norm.cu`, `row_norm_any.cu` and `row_norm_sums.cu`).

use super::held_rows::{Shape, THREADS};
use super::kind::{self, Kind};
use super::launch::{Emit, Launch, column_of, grid};
use super::normalise_params::{NormalLoop, loops};
use super::params::Params;
use super::selection::{self, Call, Kernels, Query};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::MAX_AXES;
use crate::ops::normalise::Tree;
use crate::ops::{Compute, RowNorm, RowNormBackward};

/// The most threads of a block that sums up gradients of parameters of usual types; of any types it
/// has [`THREADS`], which are also the fewest.
const SUM_THREADS: u64 = 512;
/// Columns of such a block are at least as many as a sector of memory holds.
const SECTOR: u64 = 32;

const CENTRED: u32 = 1;
const SAVES: [u32; 2] = [2, 4];
/// Scale and bias: whether there is one, and whether each element has its own.
const PARAMETERS: [[u32; 2]; 2] = [[8, 16], [32, 64]];
const SUMS: [u32; 2] = [128, 256];

/// Rows that are normalised, or whose gradients are computed: `row_norm_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where the operands of the step are in the first row.
    pub at: [u64; 8],
    /// Number of rows.
    pub rows: u64,
    /// Elements of each.
    pub length: u64,
    /// What one of them is of a row.
    pub share: f64,
    /// Scalar types.
    pub scalars: [u32; 8],
    /// What there is, as bits.
    pub flags: u32,
    /// Number of loops over rows.
    pub rank: u32,
    /// Columns of a block that sums up gradients of parameters.
    pub columns: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
    /// The loops over rows, innermost first.
    pub loops: [NormalLoop; MAX_AXES],
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 64 + 24 + 32 + 16 + 72 * MAX_AXES);

pub(super) const FORWARD: &[Kernels<RowNorm>] = &[
    Kernels {
        name: "row_norm_short_* row_norm_long_* row_norm_block_*",
        when: "rows of up to 16,384 elements of one type, with parameters of that type or in binary32: held in registers, \
               four of up to 128 elements by a warp, one of up to 1,024, longer ones by a block",
        launch: held,
    },
    Kernels {
        name: "row_norm_any_*",
        when: "all rows: a block of threads reads each again for every statistic",
        launch: any,
    },
];

pub(super) const BACKWARD: &[Kernels<RowNormBackward>] = &[
    Kernels {
        name: "row_norm_sums_* row_norm_back_short_* row_norm_back_long_* row_norm_back_block_*",
        when: "gradients of such rows: those of parameters by blocks that have some columns of all rows, then those of \
               elements in registers",
        launch: held_back,
    },
    Kernels {
        name: "row_norm_sums_any_* row_norm_back_any_*",
        when: "all gradients of rows: a block of threads reads each again for every statistic",
        launch: any_back,
    },
];

impl Kind for RowNorm {
    fn names() -> Vec<&'static str> {
        kind::names(FORWARD)
    }

    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        if self.rows.is_empty() || self.length == 0 {
            return Ok(());
        }
        selection::launch(FORWARD, &call.of(self), emit)
    }
}

impl Kind for RowNormBackward {
    fn names() -> Vec<&'static str> {
        kind::names(BACKWARD)
    }

    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        if self.rows.is_empty() || self.length == 0 {
            return Ok(());
        }
        selection::launch(BACKWARD, &call.of(self), emit)
    }
}

/// Kernels of a shape in binary32, binary16 and bfloat16.
macro_rules! kernels {
    ($shape:literal) => {
        [concat!($shape, "_f32"), concat!($shape, "_f16"), concat!($shape, "_bf16")]
    };
}

type OfShapes = [[&'static str; 3]; 3];
const OF_ROWS: OfShapes = [kernels!("row_norm_short"), kernels!("row_norm_long"), kernels!("row_norm_block")];
const OF_GRADIENTS: OfShapes =
    [kernels!("row_norm_back_short"), kernels!("row_norm_back_long"), kernels!("row_norm_back_block")];
const OF_SUMS: [&str; 3] = kernels!("row_norm_sums");

/// The launch of the kernels for rows that registers hold; nothing for longer ones.
fn of_held(shapes: &OfShapes, column: usize, parameters: &Parameters) -> Result<Option<Launch>> {
    let Some(shape) = Shape::of(parameters.length as i64, parameters.rows) else { return Ok(None) };
    let (kernel, params) = (shapes[shape.number][column], Params::new(parameters));
    let grid = grid(shape.blocks)?;
    Ok(Some(Launch { kernel, grid, block: [shape.threads, 1, 1], shared: 0, params }))
}

/// The launch of a block for each row.
fn of_any(kernel: &'static str, parameters: &Parameters) -> Result<Launch> {
    let params = Params::new(parameters);
    Ok(Launch { kernel, grid: grid(parameters.rows)?, block: [THREADS, 1, 1], shared: 0, params })
}

/// Of kernels in binary32 and binary64.
fn by_compute(compute: Compute, kernels: [&'static str; 2]) -> &'static str {
    match compute {
        Compute::Single => kernels[0],
        Compute::Double => kernels[1],
    }
}

fn forward_parameters(query: &Query<'_, RowNorm>) -> Result<Parameters> {
    let step = query.step;
    let (scalars, touches, at) = (step.scalars(), step.touches(), query.places::<{ RowNorm::OPERANDS }>());
    let sizes = std::array::from_fn(|k| scalars[k].size() as i64);
    let (loops, rank) = loops(&step.rows, sizes)?;
    let offset = |k: usize| if k == 6 { step.epsilon.1 } else { step.rows.offsets[k] };
    let place = |k: usize| at[k].wrapping_add_signed(offset(k) * scalars[k].size() as i64);
    let mut flags = if step.centred { CENTRED } else { 0 };
    for k in 0..2 {
        flags |= if step.saved[k].is_some() { SAVES[k] } else { 0 };
        if let Some(of) = step.parameters[k] {
            let [is_there, each] = PARAMETERS[k];
            flags |= is_there | if of.each { each } else { 0 };
        }
    }
    Ok(Parameters {
        at: std::array::from_fn(|k| if k < at.len() && touches[k] { place(k) } else { 0 }),
        rows: step.rows.len() as u64,
        length: step.length as u64,
        share: 1.0 / step.length as f64,
        scalars: std::array::from_fn(|k| scalars.get(k).map_or(0, |&scalar| scalar as u32)),
        flags,
        rank,
        columns: 0,
        unused: 0,
        loops,
    })
}

fn backward_parameters(query: &Query<'_, RowNormBackward>) -> Result<Parameters> {
    let step = query.step;
    let (scalars, touches, at) = (step.scalars(), step.touches(), query.places::<8>());
    let operands: Vec<usize> =
        (0..RowNormBackward::OPERANDS).filter(|&k| RowNormBackward::place(k).is_some()).collect();
    let sizes = std::array::from_fn(|place| scalars[operands[place]].size() as i64);
    let (loops, rank) = loops(&step.rows, sizes)?;
    let offset = |k: usize| match RowNormBackward::place(k) {
        Some(place) => step.rows.offsets[place],
        None => step.sums[k - 1].map_or(0, |(_, first)| first),
    };
    let place = |k: usize| at[k].wrapping_add_signed(offset(k) * scalars[k].size() as i64);
    let mut flags = if step.parameters[1].is_some() { CENTRED } else { 0 };
    flags |= step.parameters[0].map_or(0, |_| PARAMETERS[0][0] | PARAMETERS[0][1]);
    (0..2).filter(|&k| step.sums[k].is_some()).for_each(|k| flags |= SUMS[k]);
    Ok(Parameters {
        at: std::array::from_fn(|k| if touches[k] { place(k) } else { 0 }),
        rows: step.rows.len() as u64,
        length: step.length as u64,
        share: 1.0 / step.length as f64,
        scalars: scalars.map(|scalar| scalar as u32),
        flags,
        rank,
        columns: 0,
        unused: 0,
        loops,
    })
}

/// Whether parameters of each element have the type of the elements, or binary32.
fn fit(data: Scalar, mut parameters: impl Iterator<Item = Scalar>) -> bool {
    parameters.all(|own| own == data || own == Scalar::F32)
}

fn held(query: &Query<'_, RowNorm>, emit: Emit<'_>) -> Result<bool> {
    let step = query.step;
    let [y, x] = step.data;
    let each = step.parameters.iter().flatten().filter(|of| of.each).map(|of| of.scalar);
    let Some(column) = column_of(x) else { return Ok(false) };
    if step.compute != Compute::Single || y != x || !fit(x, each) {
        return Ok(false);
    }
    let Some(launch) = of_held(&OF_ROWS, column, &forward_parameters(query)?)? else { return Ok(false) };
    emit(&launch)?;
    Ok(true)
}

fn any(query: &Query<'_, RowNorm>, emit: Emit<'_>) -> Result<bool> {
    let kernel = by_compute(query.step.compute, ["row_norm_any_f32", "row_norm_any_f64"]);
    emit(&of_any(kernel, &forward_parameters(query)?)?)?;
    Ok(true)
}

fn held_back(query: &Query<'_, RowNormBackward>, emit: Emit<'_>) -> Result<bool> {
    let step = query.step;
    let [dx, x, dy] = step.data;
    let Some(column) = column_of(x) else { return Ok(false) };
    let are_alike = [dx, dy] == [x; 2] && fit(x, step.parameters[0].into_iter());
    if step.compute != Compute::Single || !are_alike {
        return Ok(false);
    }
    let parameters = backward_parameters(query)?;
    let Some(launch) = of_held(&OF_GRADIENTS, column, &parameters)? else { return Ok(false) };
    let is_plain = step.rows.axes().len() <= 1
        && step.inverse == Scalar::F32
        && step.parameters[1].is_none_or(|mean| mean == Scalar::F32);
    let sums = match is_plain {
        true => (OF_SUMS[column], SUM_THREADS),
        false => ("row_norm_sums_any_f32", u64::from(THREADS)),
    };
    sum(step, sums, &parameters, emit)?;
    emit(&launch)?;
    Ok(true)
}

fn any_back(query: &Query<'_, RowNormBackward>, emit: Emit<'_>) -> Result<bool> {
    let (compute, parameters) = (query.step.compute, backward_parameters(query)?);
    let sums = by_compute(compute, ["row_norm_sums_any_f32", "row_norm_sums_any_f64"]);
    sum(query.step, (sums, u64::from(THREADS)), &parameters, emit)?;
    let kernel = by_compute(compute, ["row_norm_back_any_f32", "row_norm_back_any_f64"]);
    emit(&of_any(kernel, &parameters)?)?;
    Ok(true)
}

/// Hands the launch for the gradients of parameters to `emit`, if they are wanted, in blocks of so
/// many threads at most. It comes before that for dx, which may be where x or dy is.
fn sum(
    step: &RowNormBackward, (kernel, most): (&'static str, u64), parameters: &Parameters, emit: Emit<'_>,
) -> Result<()> {
    if step.sums == [None; 2] {
        return Ok(());
    }
    // Columns that are not needed for sectors are there so that a block has threads enough.
    let blocks = parameters.rows.div_ceil(Tree::ROWS.block as u64);
    let together = blocks.checked_next_power_of_two().unwrap_or(u64::MAX).min(SUM_THREADS);
    let columns = (SECTOR / step.data[1].size() as u64).max(u64::from(THREADS) / together);
    let threads = (columns * together).min(most) as u32;
    let params = Params::new(&Parameters { columns: columns as u32, ..*parameters });
    let blocks = parameters.length.div_ceil(columns);
    emit(&Launch { kernel, grid: grid(blocks)?, block: [threads, 1, 1], shared: 0, params })
}
