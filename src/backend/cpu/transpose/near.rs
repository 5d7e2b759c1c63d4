//! Transposes inside the caches of tiles that stay in the first-level cache. Where the rows of a
//! destination conflict in few sets of that cache, a few rows at a time are written to the end of
//! the tile, which is read as often as it takes to write all rows. Where the tile would not stay in
//! the cache, or where cells are converted, it is copied first, whole lines at a time.

use super::tiling::WriteBack;
use super::{Along, Buffer, SCRATCH_OF_KERNELS, Tiles};
use crate::backend::cpu::block::{self, Block};
use crate::backend::cpu::row;
use crate::backend::cpu::stream::LINE;
use crate::backend::cpu::tile::{self, Even, Matrix, RowStarts, Store};
use crate::error::Result;

impl<R: RowStarts + Sync> Tiles<'_, R> {
    /// # Safety
    /// As for [`run`](super::run); the old destination is not wanted, and cells are copied if they
    /// are not moved.
    pub(super) unsafe fn near(&self) -> Result<()> {
        let &Tiles { shape, tiling, machine, .. } = self;
        let (grid, bytes) = (self.grid(Along::Dst), shape.bytes());
        // Rows of less than a line may follow one another; others have an odd number of lines, so
        // that they spread over the cache sets.
        let pitch = |columns: usize| match columns * shape.dst_cell {
            bytes if bytes < LINE => bytes,
            bytes => (bytes.div_ceil(LINE) | 1) * LINE,
        };
        let copies = tiling.path != (WriteBack::Conflicting { copies: false });
        let room = if copies {
            pitch(tiling.src.cells()).max(LINE) * tiling.dst.cells()
        } else {
            SCRATCH_OF_KERNELS
        };
        grid.run_with(machine, bytes, room, self.operands, |at, tile| {
            let (rows, columns) = (tile.extents[1] * tiling.dst.whole, tile.extents[0] * tiling.src.whole);
            let matrix = self.held(self.matrix(&tile, rows, columns));
            // SAFETY: every cell of the tile belongs to the nest; crossed operands are never in
            // place.
            unsafe {
                if !copies {
                    return self.write(matrix);
                }
                let pitch = pitch(columns);
                let copy = Buffer { at, bytes: room }.room(pitch * rows);
                self.gather(matrix, copy, pitch);
                self.write(matrix.from(copy, Even(pitch as isize)));
            }
        })
    }

    /// Copies the rows of the source, `pitch` bytes apart, and converts their cells.
    ///
    /// # Safety
    /// The tile has these rows, and the buffer room for them.
    unsafe fn gather(&self, m: Matrix<R, R>, buffer: *mut u8, pitch: usize) {
        let &Tiles { shape, machine, .. } = self;
        let bytes = m.columns * shape.src_cell;
        // SAFETY: the tile has these rows, and the buffer room for them.
        unsafe {
            if let Some(src_pitch) = m.src_rows.distance().filter(|_| shape.is_move()) {
                block::copy(bytes, machine.isa)(Block {
                    dst: buffer,
                    src: m.src,
                    dst_pitch: pitch as isize,
                    src_pitch,
                    rows: m.rows,
                    bytes,
                    // All of the source is near, and so is that of the next tile.
                    next: m.src,
                    next_dst: None,
                });
                return;
            }
            let row = row::row(shape.transform, machine.isa);
            let cells = bytes / shape.transform.src.size();
            if m.src_rows.distance() == Some(bytes as isize) && pitch == m.columns * shape.dst_cell {
                return row(buffer, m.src, m.rows * cells, m.scaling);
            }
            for i in 0..m.rows {
                row(buffer.add(i * pitch), m.src.offset(m.src_rows.at(i)), cells, m.scaling);
            }
        }
    }

    /// # Safety
    /// The cells may be read and written.
    unsafe fn write<S: RowStarts>(&self, m: Matrix<R, S>) {
        // SAFETY: the cells of the tile are readable and writable.
        unsafe {
            match self.tiling.path {
                WriteBack::Converted => {
                    let transpose = tile::transpose(self.shape.dst_cell, Store::Cached, self.machine.isa);
                    transpose(Matrix { order: self.tiling.order, ..m });
                }
                _ => self.in_strips(m),
            }
        }
    }

    /// # Safety
    /// The cells may be read and written.
    unsafe fn in_strips<S: RowStarts>(&self, m: Matrix<R, S>) {
        let (cell, isa) = (self.shape.dst_cell, self.machine.isa);
        // SAFETY: the cells of the tile are readable and writable.
        unsafe {
            let has_strips = m.rows * cell >= LINE && m.columns >= tile::STRIP;
            if let Some(strips) = tile::strips(cell, isa).filter(|_| has_strips) {
                return strips(m);
            }
            let transpose = tile::transpose(cell, Store::Cached, isa);
            // Registers have lanes of 16 bytes, and so as many columns.
            let strip = tile::STRIP.max(16 / cell);
            for first in (0..m.columns).step_by(strip) {
                transpose(m.part(0..m.rows, first..(first + strip).min(m.columns), [cell; 2]));
            }
        }
    }
}
