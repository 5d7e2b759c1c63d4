//! The destination scaled in place, or zeros.

use super::shape::Shape;
use super::{Machine, grid::Grid, row, set, strided};
use crate::backend::Operands;
use crate::error::Result;
use crate::layout::{Axis, LoopNest};
use crate::ops::{Scale, Scaling, Set, Transform};

/// Cells per tile at most, so that one long run can be divided among threads.
const TILE_CELLS: usize = 16 << 10;

/// # Safety
/// As for [`crate::backend::run`].
pub(in crate::backend) unsafe fn run(scale: &Scale, dst: *mut u8, machine: Machine) -> Result<()> {
    if scale.beta == 1.0 || scale.nest.is_empty() {
        return Ok(());
    }
    if scale.beta == 0.0 {
        // SAFETY: the caller's promise.
        return unsafe { set::run(&Set { nest: scale.nest, dst: scale.dst, cell: 0 }, dst, machine) };
    }
    // beta * dst in place is a transform whose source is its destination.
    let scaling = Scaling { alpha: scale.beta, beta: 0.0 };
    let nest = LoopNest::new(&[], [scale.nest.offsets[0]; 2]);
    let mut transform = Transform { nest, dst: scale.dst, src: scale.dst, scaling };
    for axis in scale.nest.axes() {
        transform.nest.push(Axis { extent: axis.extent, strides: [axis.strides[0]; 2] });
    }
    let operands = Operands { dst, src: dst };
    Shape::with(&transform, |shape| {
        if !shape.is_run(shape.innermost()) {
            // SAFETY: the caller's promise; each cell is its own source.
            return unsafe { strided::run(shape, operands, machine) };
        }
        // Never past the caches: the lines are there, as they were just read.
        let row = row::row(&transform, machine.isa);
        let grid = Grid::new(shape.loops(), shape.start, [(shape.loops().len() - 1, TILE_CELLS)]);
        grid.run(machine, shape.bytes(), operands, |tile| {
            // SAFETY: a run of the nest, each cell of which is its own source.
            unsafe { row(tile.dst, tile.src, tile.extents[0], scaling) }
        })
    })
}
