//! Padding: zeros, or the destination scaled in place.

use super::shape::Shape;
use super::{Machine, grid::Grid, row, set, strided};
use crate::backend::Operands;
use crate::error::Result;
use crate::layout::{Axis, LoopNest};
use crate::ops::{Fill, Scaling, Set, Transform};

/// Cells per tile at most, so that one long run can be divided among threads.
const TILE_CELLS: usize = 16 << 10;

/// # Safety
/// As for [`crate::backend::run`].
pub(in crate::backend) unsafe fn run(fill: &Fill, dst: *mut u8, machine: Machine) -> Result<()> {
    if fill.beta == 1.0 || fill.nest.is_empty() {
        return Ok(());
    }
    if fill.beta == 0.0 {
        // SAFETY: handed on.
        return unsafe { set::run(&Set { nest: fill.nest, dst: fill.dst, cell: 0 }, dst, machine) };
    }
    // beta * dst in place is a transform whose source is its destination.
    let mut nest = LoopNest::new(&[], [fill.nest.offsets[0]; 2]);
    for axis in fill.nest.axes() {
        nest.push(Axis { extent: axis.extent, strides: [axis.strides[0]; 2] });
    }
    let scaling = Scaling { alpha: fill.beta, beta: 0.0 };
    let transform = Transform { nest, dst: fill.dst, src: fill.dst, scaling };
    let operands = Operands { dst, src: dst };
    Shape::with(&transform, |shape| {
        if !shape.is_run(shape.innermost()) {
            // SAFETY: handed on; each cell is its own source.
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
