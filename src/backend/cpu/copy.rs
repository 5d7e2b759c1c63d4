//! Straight copies: both operands contiguous, bits kept.

use super::kind::{Call, Kind};
use super::output::Output;
use super::{Machine, grid::Grid, shape::Shape};
use crate::backend::Operands;
use crate::error::Result;
use crate::ops::Words;

/// Bytes per tile: small enough to divide a few hundred KiB among threads, large enough for
/// memcpy's best path.
const TILE_BYTES: usize = 128 << 10;

pub(in crate::backend) fn accepts(shape: &Shape) -> bool {
    shape.is_move() && shape.loops().len() == 1 && shape.is_run(shape.innermost())
}

/// # Safety
/// As for [`crate::backend::run`], and the problem was accepted.
pub(in crate::backend) unsafe fn run(shape: &Shape, operands: Operands, machine: Machine) -> Result<()> {
    let cell = shape.dst_cell;
    if shape.bytes() <= TILE_BYTES {
        let [dst, src] = shape.start;
        // SAFETY: the step is one run on either side; `copy` allows both to be the same bytes.
        unsafe { operands.dst.offset(dst).copy_from(operands.src.offset(src), shape.bytes()) };
        return Ok(());
    }
    let grid = Grid::new(shape.loops(), shape.start, [(0, TILE_BYTES / cell)]);
    let output = Output::new(shape, machine);
    grid.run(machine, shape.bytes(), operands, |tile| {
        // SAFETY: the tile lies inside the step's run on either side; both may be the same bytes.
        unsafe { output.write(tile.dst, tile.src, tile.extents[0]) }
    })
}

impl Kind for Words {
    fn is_modest(&self, _machine: Machine) -> bool {
        true
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        let [dst] = call.pointers();
        // SAFETY: `dst` has room for the words, and is not where they are.
        unsafe { dst.cast::<u32>().copy_from_nonoverlapping(self.0.as_ptr(), self.0.len()) };
        Ok(())
    }
}
