//! Anything else: one loop at a time with whatever strides it has, negative and zero ones included.

use std::mem::MaybeUninit;

use super::shape::{Loop, Shape, with_cell};
use super::stream::LINE;
use super::{Machine, grid::Grid, row};
use crate::backend::Operands;
use crate::error::Result;

/// Cells converted at a time: both buffers stay in the first-level cache.
const CHUNK: usize = 512;

/// An innermost loop shorter than this yields to the longest one.
const SHORT: usize = 8;

/// Room for `CHUNK` cells of any scalar, aligned for all of them.
type Buffer = [MaybeUninit<u64>; CHUNK];

pub(in crate::backend) fn accepts(_: &Shape) -> bool {
    true
}

/// The loop to run inside: the last one, whose destination cells lie closest, unless it is short.
fn kernel_loop(loops: &[Loop]) -> usize {
    let last = loops.len() - 1;
    if loops[last].extent >= SHORT {
        return last;
    }
    (0..=last).max_by_key(|&i| loops[i].extent).unwrap_or(last)
}

/// # Safety
/// As for [`crate::backend::run`].
pub(in crate::backend) unsafe fn run(shape: &Shape, operands: Operands, machine: Machine) -> Result<()> {
    let (dst_cell, src_cell) = (shape.dst_cell, shape.src_cell);
    let index = kernel_loop(shape.loops());
    let Loop { dst: dst_step, src: src_step, .. } = shape.loops()[index];
    let grid = Grid::new(shape.loops(), shape.start, [(index, CHUNK)]);
    // What a cell costs are the lines that it touches, of which it may be a small part.
    let touched = dst_step.unsigned_abs().max(src_step.unsigned_abs()).clamp(dst_cell, LINE);
    let bytes = shape.cells() * touched;
    if shape.is_move() {
        return grid.run(machine, bytes, operands, |tile| {
            // SAFETY: every cell that the tile touches belongs to the nest.
            unsafe {
                let (dst, src) = (tile.dst, tile.src);
                copy_strided(dst_cell, dst, dst_step, src, src_step, tile.extents[0]);
            }
        });
    }
    let row = row::row(shape.transform, machine.isa);
    let scaling = shape.transform.scaling;
    grid.run(machine, bytes, operands, |tile| {
        let mut src_buffer: Buffer = [MaybeUninit::uninit(); CHUNK];
        let mut dst_buffer: Buffer = [MaybeUninit::uninit(); CHUNK];
        let n = tile.extents[0];
        let (x, y) = (src_buffer.as_mut_ptr().cast::<u8>(), dst_buffer.as_mut_ptr().cast::<u8>());
        // SAFETY: every cell that the tile touches belongs to the nest; n <= CHUNK cells fit each
        // buffer. All reads happen before the first write, so that in-place problems are right as
        // well.
        unsafe {
            let (dst, src) = (tile.dst, tile.src);
            copy_strided(src_cell, x, src_cell as isize, src, src_step, n);
            if scaling.beta != 0.0 {
                copy_strided(dst_cell, y, dst_cell as isize, dst, dst_step, n);
            }
            row(y, x, n, scaling);
            copy_strided(dst_cell, dst, dst_step, y, dst_cell as isize, n);
        }
    })
}

/// Moves `n` cells of `cell` bytes between two strides in bytes.
///
/// # Safety
/// `n` cells at these steps are readable at `src` and writable at `dst`; no cell is written before
/// another that overlaps it is read, unless they are one and the same.
pub(super) unsafe fn copy_strided(
    cell: usize, dst: *mut u8, dst_step: isize, src: *const u8, src_step: isize, n: usize,
) {
    if dst_step == cell as isize && src_step == cell as isize {
        // SAFETY: `n` cells lie side by side on either side; `copy_from` allows both to overlap.
        return unsafe { dst.copy_from(src, n * cell) };
    }
    with_cell!(cell, W => {
        for i in 0..n as isize {
            // SAFETY: `n` cells are there on either side, these steps apart. Merged cells are
            // aligned to their parts only.
            unsafe {
                let value = src.offset(i * src_step).cast::<W>().read_unaligned();
                dst.offset(i * dst_step).cast::<W>().write_unaligned(value);
            }
        }
    });
}
