//! Transposes: the operands are contiguous along different loops. Any pair of types.

use std::mem::MaybeUninit;

use super::shape::Shape;
use super::{Machine, grid::Grid, row, tile};
use crate::backend::Operands;
use crate::error::Result;

/// Shorter sides than this have no whole register in them.
const SHORT: usize = 4;

/// Bytes of a move's tile along the destination: whole lines, so that each is written once.
const DST_BYTES: usize = 256;
/// Bytes of a move's tile along the source: long enough for the processor to see a stream and read ahead.
const SRC_BYTES: usize = 1024;

/// Outputs from this size on leave the caches before anyone reads them, so they are written past the caches.
const STREAMING_BYTES: usize = 16 << 20;
/// A cache line: what one streaming store writes.
const LINE: usize = 64;

/// A converting tile along destination and source; its source cells go through a buffer of at most 32 KiB.
const CONVERT_TILE: (usize, usize) = (64, 64);

pub(in crate::backend) fn accepts(shape: &Shape) -> bool {
    let long = |i: usize| shape.loops()[i].extent >= SHORT;
    shape.crossed_units().is_some_and(|(d, s)| long(d) && long(s))
}

/// # Safety
/// As for [`crate::backend::run`], and the problem was accepted.
pub(in crate::backend) unsafe fn run(shape: &Shape, operands: Operands, machine: Machine) -> Result<()> {
    let Some((d, s)) = shape.crossed_units() else { return Ok(()) };
    let transpose = tile::transpose(shape.src_cell, machine.isa);
    let (src_row, dst_row) = (shape.loops()[d].src, shape.loops()[s].dst);
    let cell = shape.src_cell;
    if shape.is_move() {
        let (along_dst, along_src) = (DST_BYTES / cell, SRC_BYTES / cell);
        let grid = Grid::new(shape.loops(), shape.start, [(s, along_src), (d, along_dst)]);
        let streaming = tile::streaming_transpose(cell, machine.isa)
            .filter(|_| shape.bytes() >= STREAMING_BYTES && dst_row % LINE as isize == 0);
        return grid.run(machine, shape.bytes(), operands, |tile| {
            let [columns, rows] = tile.extents;
            let Some(streaming) = streaming else {
                // SAFETY: every cell of the tile belongs to the nest; crossed operands are never in place.
                return unsafe { transpose(tile.dst, dst_row, tile.src, src_row, rows, columns) };
            };
            // All rows of the destination lie alike in their lines: up to the first line, whole lines, the rest.
            let head = (tile.dst.addr().wrapping_neg() % LINE / cell).min(rows);
            let aligned = (tile.dst.addr() + head * cell).is_multiple_of(LINE);
            let body = if aligned { (rows - head) / (LINE / cell) * (LINE / cell) } else { 0 };
            for (transpose, from, rows) in
                [(transpose, 0, head), (streaming, head, body), (transpose, head + body, rows - head - body)]
            {
                // SAFETY: as above; the body starts at a line if the cells are aligned, as scalars are, and
                // `body` is 0 where merged cells are not.
                unsafe {
                    let (dst, src) = (tile.dst.add(from * cell), tile.src.offset(from as isize * src_row));
                    transpose(dst, dst_row, src, src_row, rows, columns);
                }
            }
            tile::fence();
        });
    }
    let row = row::row(shape.transform, machine.isa);
    let scaling = shape.transform.scaling;
    let (along_dst, along_src) = CONVERT_TILE;
    let grid = Grid::new(shape.loops(), shape.start, [(s, along_src), (d, along_dst)]);
    grid.run(machine, shape.bytes(), operands, |tile| {
        let [columns, rows] = tile.extents;
        let mut buffer = [MaybeUninit::<u64>::uninit(); CONVERT_TILE.0 * CONVERT_TILE.1];
        let buffer = buffer.as_mut_ptr().cast::<u8>();
        let buffer_row = (rows * cell) as isize;
        // SAFETY: every cell of the tile belongs to the nest, and its source cells fit the buffer, as no scalar
        // is longer than 8 bytes and only moves merge cells.
        unsafe {
            transpose(buffer, buffer_row, tile.src, src_row, rows, columns);
            for j in 0..columns as isize {
                row(tile.dst.offset(j * dst_row), buffer.offset(j * buffer_row), rows, scaling);
            }
        }
    })
}
