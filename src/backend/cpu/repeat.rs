//! Sources that repeat along a contiguous destination: one cell (the bias of NCHW), or one short
//! row again and again (the bias of NHWC). The repetition is laid out in a buffer once per tile,
//! unless it is short. Any pair of types.

use std::mem::MaybeUninit;

use super::shape::{Shape, with_cell};
use super::{Machine, grid::Grid, row};
use crate::backend::Operands;
use crate::error::Result;

/// Bytes of the buffer: little of the first-level cache, and little work for each tile.
const BUFFER_BYTES: usize = 4 << 10;

/// Bytes of a row from which on it is not worth repeating: rows of that length are fast as they
/// are.
const LONG_ROW: usize = 2 << 10;

/// Repetitions of a single cell that are cheaper to write one by one than to copy.
const SEED: usize = 64;

/// Cells per tile, so that a long run can be divided among threads.
const TILE_CELLS: usize = 16 << 10;

/// The loop that repeats, and the cells of what it repeats.
fn classify(shape: &Shape) -> Option<(usize, usize)> {
    let last = shape.loops().len() - 1;
    let inner = shape.loops()[last];
    if inner.dst == shape.dst_cell as isize && inner.src == 0 {
        return Some((last, 1));
    }
    let outer = *shape.loops().get(last.checked_sub(1)?)?;
    let follows = outer.src == 0 && outer.dst == inner.dst * inner.extent as isize;
    let short = inner.extent * shape.src_cell.max(shape.dst_cell) <= LONG_ROW;
    (shape.is_run(inner) && follows && short).then_some((last - 1, inner.extent))
}

pub(in crate::backend) fn accepts(shape: &Shape) -> bool {
    classify(shape).is_some()
}

/// # Safety
/// As for [`crate::backend::run`], and the problem was accepted.
pub(in crate::backend) unsafe fn run(shape: &Shape, operands: Operands, machine: Machine) -> Result<()> {
    let Some((index, period)) = classify(shape) else { return Ok(()) };
    let merged = shape.dst_cell / shape.transform.dst.size();
    let row = row::row(shape.transform, machine.isa);
    let scaling = shape.transform.scaling;
    let (src_bytes, dst_bytes) = (period * shape.src_cell, period * shape.dst_cell);
    // The row itself, if there is one, is covered by every tile of the loop around it.
    let loops = if period == 1 { shape.loops() } else { &shape.loops()[..=index] };
    let grid = Grid::new(loops, shape.start, [(index, (TILE_CELLS / period).max(1))]);
    grid.run(machine, shape.bytes(), operands, |tile| {
        let repeats = tile.extents[0];
        if period == 1 && repeats <= SEED && shape.is_move() {
            // SAFETY: cells of the nest.
            return unsafe { repeat_cell(shape.dst_cell, tile.dst, tile.src, repeats) };
        }
        let mut buffer = [MaybeUninit::<u128>::uninit(); BUFFER_BYTES / 16];
        let buffer = buffer.as_mut_ptr().cast::<u8>();
        let held = repeats.min(BUFFER_BYTES / src_bytes);
        // SAFETY: every cell of the tile belongs to the nest, and `held` repeats fit the buffer,
        // which is aligned for every scalar.
        unsafe {
            // A few one by one, then twice as many each time.
            let mut filled = if period == 1 { held.min(SEED) } else { 1 };
            if period == 1 {
                repeat_cell(shape.src_cell, buffer, tile.src, filled);
            } else {
                buffer.copy_from_nonoverlapping(tile.src, src_bytes);
            }
            while filled < held {
                let more = filled.min(held - filled);
                let to = buffer.add(filled * src_bytes);
                to.copy_from_nonoverlapping(buffer, more * src_bytes);
                filled += more;
            }
            let mut done = 0;
            while done < repeats {
                let now = held.min(repeats - done);
                row(tile.dst.add(done * dst_bytes), buffer, now * period * merged, scaling);
                done += now;
            }
        }
    })
}

/// Writes a cell `n` times.
///
/// # Safety
/// It is readable at `src`, and `n` of them are writable at `dst`.
unsafe fn repeat_cell(cell: usize, dst: *mut u8, src: *const u8, n: usize) {
    with_cell!(cell, W => {
        // SAFETY: one cell is readable, and `n` writable. Merged ones are aligned to their parts
        // only.
        unsafe {
            let value = src.cast::<W>().read_unaligned();
            (0..n).for_each(|i| dst.cast::<W>().add(i).write_unaligned(value));
        }
    });
}
