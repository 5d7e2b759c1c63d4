//! Contiguous runs inside a nest of other loops: one row at a time, any pair of types.

use std::mem::MaybeUninit;

use super::output::Output;
use super::{Machine, grid::Grid, shape::Shape};
use crate::backend::Operands;
use crate::error::Result;

/// Cells per tile at most, so that one long row can be divided among threads.
const TILE_CELLS: usize = 16 << 10;

/// Source bytes that are gathered before they are written: a row whose cells shrink from 8 bytes to 1 fits.
const GATHER_BYTES: usize = 8 * STREAMED_ROW_BYTES;

/// Shorter rows share too many of their lines with their neighbours to be streamed.
const STREAMED_ROW_BYTES: usize = 2048;

pub(in crate::backend) fn accepts(shape: &Shape) -> bool {
    shape.is_run(shape.innermost())
}

/// # Safety
/// As for [`crate::backend::run`], and the problem was accepted.
pub(in crate::backend) unsafe fn run(shape: &Shape, operands: Operands, machine: Machine) -> Result<()> {
    let output = Output::new(shape, machine);
    if output.streams() && shape.innermost().extent * shape.dst_cell < STREAMED_ROW_BYTES {
        if let [.., outer, inner] = *shape.loops()
            && outer.dst == (inner.extent * shape.dst_cell) as isize
        {
            // SAFETY: handed on; the rows of the destination follow one another.
            return unsafe { gather(shape, operands, machine, &output) };
        }
        // SAFETY: handed on.
        return unsafe { one_by_one(shape, operands, machine, &output.through_caches()) };
    }
    // SAFETY: handed on.
    unsafe { one_by_one(shape, operands, machine, &output) }
}

/// # Safety
/// As for [`run`].
unsafe fn one_by_one(shape: &Shape, operands: Operands, machine: Machine, output: &Output) -> Result<()> {
    let grid = Grid::new(shape.loops(), shape.start, [(shape.loops().len() - 1, TILE_CELLS)]);
    grid.run(machine, shape.bytes(), operands, |tile| {
        // SAFETY: the tile is a run of the nest, contiguous on either side because the innermost loop is.
        unsafe { output.write(tile.dst, tile.src, tile.extents[0]) }
    })
}

/// Collects several short rows of the source, whose destinations follow one another, and writes them in one go.
///
/// # Safety
/// As for [`run`]; one turn of the second innermost loop moves the destination by one row, and rows are shorter than
/// [`STREAMED_ROW_BYTES`].
unsafe fn gather(shape: &Shape, operands: Operands, machine: Machine, output: &Output) -> Result<()> {
    let last = shape.loops().len() - 1;
    let (outer, row) = (shape.loops()[last - 1], shape.innermost().extent);
    let row_bytes = row * shape.src_cell;
    let grid = Grid::new(shape.loops(), shape.start, [(last - 1, GATHER_BYTES / row_bytes), (last, row)]);
    grid.run(machine, shape.bytes(), operands, |tile| {
        let mut buffer = [MaybeUninit::<u64>::uninit(); GATHER_BYTES / 8];
        let buffer = buffer.as_mut_ptr().cast::<u8>();
        // SAFETY: every cell of the tile belongs to the nest, and its rows fit the buffer.
        unsafe {
            for i in 0..tile.extents[0] {
                let from = tile.src.offset(i as isize * outer.src);
                buffer.add(i * row_bytes).copy_from_nonoverlapping(from, row_bytes);
            }
            output.write(tile.dst, buffer, tile.extents[0] * row);
        }
    })
}
