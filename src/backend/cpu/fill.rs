//! Padding: zeros, or the destination scaled in place.

use super::shape::{Loop, Shape};
use super::{Machine, grid::Grid, rows, strided};
use crate::backend::Operands;
use crate::error::Result;
use crate::layout::{Axis, LoopNest, MAX_AXES};
use crate::ops::{Fill, Scaling, Transform};

/// Bytes per tile of zeros at most, so that one long run can be divided among threads.
const TILE_BYTES: usize = 128 << 10;

/// # Safety
/// As for [`crate::backend::run`].
pub(in crate::backend) unsafe fn run(fill: &Fill, dst: *mut u8, machine: Machine) -> Result<()> {
    if fill.beta == 1.0 || fill.nest.is_empty() {
        return Ok(());
    }
    if fill.beta == 0.0 {
        // SAFETY: handed on.
        return unsafe { zero(fill, dst, machine) };
    }
    // beta * dst in place is a transform whose source is its destination.
    let mut nest = LoopNest::new(&[], [fill.nest.offsets[0]; 2]);
    for axis in fill.nest.axes() {
        nest.push(Axis { extent: axis.extent, strides: [axis.strides[0]; 2] });
    }
    let scaling = Scaling { alpha: fill.beta, beta: 0.0 };
    let transform = Transform { nest, dst: fill.dst, src: fill.dst, scaling };
    let shape = Shape::new(&transform);
    let operands = Operands { dst, src: dst };
    // SAFETY: handed on; each cell is its own source.
    unsafe {
        if rows::accepts(&shape) {
            rows::run(&shape, operands, machine)
        } else {
            strided::run(&shape, operands, machine)
        }
    }
}

/// # Safety
/// As for [`crate::backend::run`].
unsafe fn zero(fill: &Fill, dst: *mut u8, machine: Machine) -> Result<()> {
    let cell = fill.dst.size();
    let mut loops = [Loop { extent: 1, dst: cell as isize, src: 0 }; MAX_AXES];
    for (to, from) in loops.iter_mut().zip(fill.nest.axes()) {
        *to = Loop { extent: from.extent as usize, dst: from.strides[0] as isize * cell as isize, src: 0 };
    }
    let loops = &loops[..fill.nest.axes().len().max(1)];
    let innermost = loops[loops.len() - 1];
    let start = [fill.nest.offsets[0] as isize * cell as isize, 0];
    let grid = Grid::new(loops, start, [(loops.len() - 1, TILE_BYTES / cell)]);
    let bytes = fill.nest.len() as usize * cell;
    let operands = Operands { dst, src: dst };
    grid.run(machine, bytes, operands, |tile| {
        // SAFETY: every cell that the tile touches belongs to the nest.
        unsafe {
            if innermost.dst == cell as isize {
                tile.dst.write_bytes(0, tile.extents[0] * cell);
            } else {
                for i in 0..tile.extents[0] as isize {
                    tile.dst.offset(i * innermost.dst).write_bytes(0, cell);
                }
            }
        }
    })
}
