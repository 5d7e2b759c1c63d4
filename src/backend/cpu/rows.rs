//! Contiguous runs inside a nest of other loops: one row at a time, any pair of types.

use super::output::Output;
use super::{Machine, grid::Grid, shape::Shape};
use crate::backend::Operands;
use crate::error::Result;

/// Cells per tile at most, so that one long row can be divided among threads.
const TILE_CELLS: usize = 16 << 10;

/// Shorter rows share too many of their lines with their neighbours to be streamed.
const STREAMED_ROW_BYTES: usize = 2048;

pub(in crate::backend) fn accepts(shape: &Shape) -> bool {
    shape.is_run(shape.innermost())
}

/// # Safety
/// As for [`crate::backend::run`], and the problem was accepted.
pub(in crate::backend) unsafe fn run(shape: &Shape, operands: Operands, machine: Machine) -> Result<()> {
    let output = Output::new(shape, machine);
    let short = shape.innermost().extent * shape.dst_cell < STREAMED_ROW_BYTES;
    let output = if short { output.through_caches() } else { output };
    let grid = Grid::new(shape.loops(), shape.start, [(shape.loops().len() - 1, TILE_CELLS)]);
    grid.run(machine, shape.bytes(), operands, |tile| {
        // SAFETY: the tile is a run of the nest, contiguous on either side because the innermost loop is.
        unsafe { output.write(tile.dst, tile.src, tile.extents[0]) }
    })
}
