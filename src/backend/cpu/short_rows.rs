//! Contiguous runs inside a nest of other loops, any pair of types. Long runs are taken one by one;
//! of short ones a tile has many.

use super::block::{self, Block};
use super::output::{self, Output};
use super::shape::Loop;
use super::stage::Stage;
use super::stream::{LINE, to_line};
use super::{Machine, grid::Grid, grid::Tile, shape::Shape};
use crate::backend::Operands;
use crate::error::Result;

/// Cells per tile at most, so that one long row can be divided among threads.
const TILE_CELLS: usize = 16 << 10;

/// Bytes of a row of either operand from which on it is worth a tile and a call of its own.
const LONG_ROW: usize = 2 << 10;

/// Bytes per tile of short rows: a grid's step costs little beside it.
const TILE_BYTES: usize = 16 << 10;

/// Bytes of short rows that are copied, and fetched, at a time: what a core reads in the time that
/// memory takes to answer, and little of the first-level cache.
const STRIP_BYTES: usize = 4 << 10;

/// The last cells of a strip, whose line is not complete, wait for the next: less than a line of
/// cells of a byte, that come from cells of 8.
const WAITING_BYTES: usize = LINE * 8;

pub(in crate::backend) fn accepts(shape: &Shape) -> bool {
    shape.is_run(shape.innermost())
}

/// # Safety
/// As for [`crate::backend::run`], and the problem was accepted.
pub(in crate::backend) unsafe fn run(shape: &Shape, operands: Operands, machine: Machine) -> Result<()> {
    let (loops, run, output) = (shape.loops(), shape.innermost(), Output::new(shape, machine));
    let last = loops.len() - 1;
    let row_bytes = run.extent * shape.src_cell.max(shape.dst_cell);
    if last == 0 || row_bytes >= LONG_ROW {
        let grid = Grid::new(loops, shape.start, [(last, TILE_CELLS)]);
        return grid.run(machine, shape.bytes(), operands, |tile| {
            // SAFETY: the tile is a run of the nest, contiguous on either side because the
            // innermost loop is.
            unsafe { output.write(tile.dst, tile.src, tile.extents[0]) }
        });
    }
    let short = ShortRows {
        run,
        step: loops[last - 1],
        src_cell: shape.src_cell,
        dst_cell: shape.dst_cell,
        copy: block::copy(run.extent * shape.src_cell, machine.isa),
        output,
        strip: STRIP_BYTES / row_bytes,
        streams: output::streams(shape),
    };
    let grid = Grid::new(loops, shape.start, [(last - 1, TILE_BYTES / row_bytes), (last, run.extent)]);
    let follow = short.step.dst == (run.extent * shape.dst_cell) as isize;
    grid.run(machine, shape.bytes(), operands, |tile| {
        // SAFETY: the tile is rows of the nest, contiguous on either side because the innermost
        // loop is.
        unsafe {
            match (shape.is_move(), follow) {
                (true, false) => short.copy(&tile),
                (true, true) if !output.streams() => short.copy(&tile),
                (_, true) => short.gather(&tile),
                (false, false) => short.convert(&tile),
            }
        }
    })
}

/// What tiles of short rows have in common.
struct ShortRows {
    /// The loop along a row.
    run: Loop,
    /// The loop from row to row.
    step: Loop,
    src_cell: usize,
    dst_cell: usize,
    /// Copies rows of the source.
    copy: block::CopyBlock,
    output: Output,
    /// Rows per strip at most.
    strip: usize,
    /// Whether the destination is beyond the caches.
    streams: bool,
}

/// A tile of short rows.
type RowTile = Tile<2>;

impl ShortRows {
    /// The strips of a tile, equally long but for the last:
    /// `(first row, rows, source of the strip after it)`.
    fn strips(&self, tile: &RowTile) -> impl Iterator<Item = (usize, usize, *const u8)> {
        let (rows, src, next, step) = (tile.extents[0], tile.src, tile.next, self.step.src);
        let strip = rows.div_ceil(rows.div_ceil(self.strip));
        (0..rows).step_by(strip).map(move |first| {
            let end = rows.min(first + strip);
            let next = if end < rows { src.wrapping_offset(end as isize * step) } else { next };
            (first, end - first, next)
        })
    }

    /// Moves, row by row.
    ///
    /// # Safety
    /// The rows of the tile belong to the nest, whose cells are moved.
    unsafe fn copy(&self, tile: &RowTile) {
        for (first, rows, next) in self.strips(tile) {
            let at = |row: usize| tile.dst.wrapping_offset(row as isize * self.step.dst);
            // SAFETY: rows of the tile.
            unsafe {
                (self.copy)(Block {
                    dst: at(first),
                    src: tile.src.wrapping_offset(first as isize * self.step.src),
                    dst_pitch: self.step.dst,
                    src_pitch: self.step.src,
                    rows,
                    bytes: self.run.extent * self.src_cell,
                    next,
                    next_dst: self.streams.then_some(at(first + rows)),
                });
            }
        }
    }

    /// Puts rows together that follow one another in the destination, so that they are converted in
    /// one go and streamed in whole lines; only the ends of a tile share theirs.
    ///
    /// # Safety
    /// The rows of the tile belong to the nest, and follow one another in the destination.
    unsafe fn gather(&self, tile: &RowTile) {
        let mut stage = Stage::<{ STRIP_BYTES + WAITING_BYTES }>::new();
        let stage = stage.ptr();
        let row_bytes = self.run.extent * self.src_cell;
        let (mut dst, mut held) = (tile.dst, 0);
        for (first, rows, next) in self.strips(tile) {
            // SAFETY: rows of the tile fit the stage: a strip, and less than a line of cells that
            // waited.
            unsafe {
                (self.copy)(Block {
                    dst: stage.add(held * self.src_cell),
                    src: tile.src.wrapping_offset(first as isize * self.step.src),
                    dst_pitch: row_bytes as isize,
                    src_pitch: self.step.src,
                    rows,
                    bytes: row_bytes,
                    next,
                    next_dst: None,
                });
                held += rows * self.run.extent;
                let ends = first + rows == tile.extents[0];
                let beyond = (LINE - to_line(dst.wrapping_add(held * self.dst_cell))) % LINE;
                let waits = if ends { 0 } else { held.min(beyond.div_ceil(self.dst_cell)) };
                let now = held - waits;
                self.output.write(dst, stage, now);
                stage.copy_from(stage.add(now * self.src_cell), waits * self.src_cell);
                (dst, held) = (dst.wrapping_add(now * self.dst_cell), waits);
            }
        }
    }

    /// Converts row by row.
    ///
    /// # Safety
    /// The rows of the tile belong to the nest.
    unsafe fn convert(&self, tile: &RowTile) {
        let output = self.output.through_caches();
        for row in 0..tile.extents[0] as isize {
            let (dst, src) = (row * self.step.dst, row * self.step.src);
            // SAFETY: a row of the tile.
            unsafe { output.write(tile.dst.offset(dst), tile.src.offset(src), self.run.extent) }
        }
    }
}
