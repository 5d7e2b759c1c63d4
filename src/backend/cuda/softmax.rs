//! Launches of softmax and its gradient for groups at equal distances (`kernels/softmax.cu`).

use super::held_rows::{Shape, THREADS};
use super::launch::{Emit, Launch, column_of, grid};
use super::params::{Divisor, Index, Params};
use super::selection::Query;
use crate::error::Result;
use crate::ops::{Compute, Rows, Scaling};

/// Groups of a block where 32 neighbours share eight warps.
const COLUMNS: u64 = 32;
/// Elements of a group at most: of those that a block reads again, and of columns.
const LONGEST: i64 = 1 << 28;
const HIGH: i64 = 256;
/// Neighbours of a short group that a thread loads at once.
const NEAR: u32 = 4;
/// Threads of a block that reads its group again.
const PASSING: u32 = 1024;

/// Groups of elements side by side, at equal distances: `*_short_*`, `*_long_*`, `*_block_*` and
/// `*_passes_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct RowParameters {
    /// Where the destination, x and dy start.
    pub at: [u64; 3],
    /// Bytes from group to group.
    pub step: [i64; 3],
    /// Number of groups.
    pub groups: u32,
    /// Elements of each.
    pub length: u32,
    /// Whether all groups consist of [`NEAR`] elements on their width, and more of these.
    pub vectored: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
}

/// Neighbouring groups of elements at equal distances: `*_columns_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct ColumnParameters {
    /// Where the destination, x and dy start.
    pub at: [u64; 3],
    /// Bytes from element to element.
    pub step: [i64; 3],
    /// Bytes from plane to plane.
    pub outer: [i64; 3],
    /// Groups side by side.
    pub plane: Divisor,
    /// Number of groups.
    pub groups: u32,
    /// Elements of each.
    pub length: u32,
}

// The same numbers stand in the kernels' source.
const _: () = assert!(size_of::<RowParameters>() == 64);
const _: () = assert!(size_of::<ColumnParameters>() == 104);

/// The kernels of a shape in binary32, binary16 and bfloat16, in the order of
/// [`RowFunction`](crate::ops::RowFunction).
macro_rules! kernels {
    ($shape:literal) => {
        kernels!($shape: "softmax" "log_softmax" "softmax_gradient" "log_softmax_gradient")
    };
    ($shape:literal: $($function:literal)*) => {
        [$([
            concat!($function, "_", $shape, "_f32"),
            concat!($function, "_", $shape, "_f16"),
            concat!($function, "_", $shape, "_bf16"),
        ]),*]
    };
}

type Kernels = [[&'static str; 3]; 4];
const OF_HELD: [Kernels; 3] = [kernels!("short"), kernels!("long"), kernels!("block")];
const OF_LONGEST: Kernels = kernels!("passes");
const OF_COLUMNS: Kernels = kernels!("columns");

/// The kernels for groups whose `length` elements lie side by side, blocks that they take, and
/// threads of each.
fn side_by_side(length: i64, groups: u64) -> (&'static Kernels, u64, u32) {
    match Shape::of(length, groups) {
        Some(shape) => (&OF_HELD[shape.number], shape.blocks, shape.threads),
        None => (&OF_LONGEST, groups, PASSING),
    }
}

/// Hands the launch of a step to `emit` whose groups lie at equal distances, and whose type has
/// kernels; whether this is one.
pub(super) fn launches(query: &Query<'_, Rows>, emit: Emit<'_>) -> Result<bool> {
    let (rows, at) = (query.step, query.places::<3>());
    let arity = rows.function.arity();
    let scalar = rows.scalars[0];
    let Some(column) = column_of(scalar) else { return Ok(false) };
    let plain = rows.compute == Compute::Single
        && rows.scaling == Scaling::MOVE
        && rows.scalars[..=arity].iter().all(|&own| own == scalar);
    let &[along] = rows.elements.axes() else { return Ok(false) };
    let count = rows.groups.len();
    if query.call.ordered || !plain || along.extent > LONGEST || count as u64 >= 1 << 31 {
        return Ok(false);
    }
    let size = scalar.size() as i64;
    // Operands that are not read have strides of 0.
    let are_neighbours = |strides: [i64; 3]| strides[..=arity].iter().all(|&stride| stride == 1);
    let bytes = |strides: [i64; 3]| strides.map(|stride| stride * size);
    let start = |k: usize| (rows.groups.offsets[k] + rows.elements.offsets[k]) * size;
    let at = std::array::from_fn(|k| if k <= arity { at[k].wrapping_add_signed(start(k)) } else { 0 });
    let (groups, length) = (count as u32, along.extent as u32);
    let (kernels, blocks, threads, params) = match *rows.groups.axes() {
        ref around if are_neighbours(along.strides) && around.len() <= 1 => {
            let step = around.first().map_or([0; 3], |axis| bytes(axis.strides));
            let width = i64::from(NEAR) * size;
            let off = |k: usize| (at[k] as i64 % width) | (step[k] % width);
            let vectored = u32::from(length % NEAR == 0 && (0..3).all(|k| off(k) == 0));
            let params = Params::new(&RowParameters { at, step, groups, length, vectored, unused: 0 });
            let (kernels, blocks, threads) = side_by_side(along.extent, count as u64);
            (kernels, blocks, threads, params)
        }
        [ref planes @ .., near]
            if are_neighbours(near.strides) && planes.len() <= 1 && along.extent <= HIGH =>
        {
            let step = bytes(along.strides);
            let outer = planes.first().map_or([0; 3], |axis| bytes(axis.strides));
            let plane = Divisor::new(near.extent, Index::I32);
            let params = Params::new(&ColumnParameters { at, step, outer, plane, groups, length });
            (&OF_COLUMNS, (count as u64).div_ceil(COLUMNS), THREADS, params)
        }
        _ => return Ok(false),
    };
    let kernel = kernels[rows.function as usize][column];
    emit(&Launch { kernel, grid: grid(blocks)?, block: [threads, 1, 1], shared: 0, params })?;
    Ok(true)
}
