//! Launches of averages of whole planes (`kernels/plane.cu`).

use super::launch::{Emit, Launch, column_of, grid};
use super::params::{Divisor, Index, Params};
use super::selection::Query;
use crate::error::Result;
use crate::ops::window::{OPERANDS, Window, WindowAxis, WindowFunction};
use crate::ops::{Compute, Scaling};

/// Threads of a block.
const THREADS: u64 = 256;
/// Threads of a warp.
const WARP: i64 = 32;
/// Cells of a plane at most.
const CELLS: i64 = 1 << 24;
/// Threads at most, which are numbered in 32 bits.
const MOST: u64 = 1 << 31;

/// Planes at equal distances: `plane_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where the destination starts.
    pub dst: u64,
    /// Where the source starts.
    pub src: u64,
    /// Bytes of the destination that the loops around move, the faster one last.
    pub to: [i64; 2],
    /// The same of the source.
    pub from: [i64; 2],
    /// Bytes from row to row.
    pub row: i64,
    /// Bytes from column to column.
    pub column: i64,
    /// Iterations of the faster loop around.
    pub near: Divisor,
    /// Number of planes.
    pub planes: u32,
    /// Rows of each.
    pub height: u32,
    /// Columns of each.
    pub width: u32,
    /// Lanes of a warp that have a plane together.
    pub lanes: u32,
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 16 + 32 + 16 + 24 + 16);

/// Hands the launch of a window to `emit` that is a whole plane of a type with kernels; whether
/// this is one.
pub(super) fn launches(query: &Query<'_, Window>, emit: Emit<'_>) -> Result<bool> {
    let (window, at) = (query.step, query.places::<OPERANDS>());
    let Window { function: WindowFunction::Average(_), outer, axes, scalars, compute, scaling } = window
    else {
        return Ok(false);
    };
    let Some(column) = column_of(scalars[0]) else { return Ok(false) };
    let &[down, along] = &axes[..] else { return Ok(false) };
    let is_whole = |axis: &WindowAxis| {
        (axis.outputs, axis.pad, axis.dilation) == (1, 0, 1)
            && axis.window >= axis.inputs
            && axis.cuts.iter().all(|cut| cut.block == 1)
            && axis.inputs <= CELLS
    };
    let plain = *compute == Compute::Single && *scaling == Scaling::MOVE && scalars[1] == scalars[0];
    let (planes, around) = (outer.len() as u64, outer.axes());
    let fits =
        is_whole(&down) && is_whole(&along) && down.inputs * along.inputs <= CELLS && around.len() <= 2;
    if query.call.ordered || !plain || !fits || planes >= MOST / WARP as u64 {
        return Ok(false);
    }
    let are_neighbours = around.last().is_some_and(|axis| axis.strides[1] == 1);
    // A power of two, so that a warp has whole planes.
    let lanes = if are_neighbours { 1 } else { along.inputs.min(WARP).unsigned_abs().next_power_of_two() };
    let kernels = match are_neighbours {
        true => ["plane_average_apart_f32", "plane_average_apart_f16", "plane_average_apart_bf16"],
        false => ["plane_average_f32", "plane_average_f16", "plane_average_bf16"],
    };
    let size = scalars[0].size() as i64;
    let bytes = |layout: usize| {
        [1, 0].map(|back| around.iter().rev().nth(back).map_or(0, |axis| axis.strides[layout] * size))
    };
    let start = |operand: usize, layout: usize| at[operand].wrapping_add_signed(outer.offsets[layout] * size);
    let params = Params::new(&Parameters {
        dst: start(0, 0),
        src: start(2, 1),
        to: bytes(0),
        from: bytes(1),
        row: down.cuts[1].stride * size,
        column: along.cuts[1].stride * size,
        near: Divisor::new(around.last().map_or(1, |axis| axis.extent), Index::I32),
        planes: planes as u32,
        height: down.inputs as u32,
        width: along.inputs as u32,
        lanes: lanes as u32,
    });
    let blocks = grid((planes * lanes).div_ceil(THREADS))?;
    emit(&Launch {
        kernel: kernels[column],
        grid: blocks,
        block: [THREADS as u32, 1, 1],
        shared: 0,
        params,
    })?;
    Ok(true)
}
