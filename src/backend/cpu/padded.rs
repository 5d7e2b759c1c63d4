//! Blocks of neighbouring cells with zeros behind them, written whole: lines that hold both are
//! visited once. Any pair of types.
//!
//! Some blocks at a time are put together in a buffer. It is zeroed once per tile, for its zeros
//! never change.

use super::row::{self, Row};
use super::stream::{self, STREAMING_BYTES};
use super::tile::{self, Even, Few, Matrix, Next, Order, Spread, Store, Transpose};
use super::{Machine, grid::Grid, strided};
use crate::backend::Operands;
use crate::error::Result;
use crate::layout::Axis;
use crate::ops::{Padded, Scaling};

/// Bytes of the buffer: little of the first-level cache.
const BUFFER_BYTES: usize = 8 << 10;

/// Blocks that are put together at a time, at most.
const MAX_BLOCKS: usize = 512;

/// The buffer, and the [`Scratch`] behind it.
const SCRATCH_BYTES: usize = 2 * BUFFER_BYTES + MAX_BLOCKS * 8;

/// Bytes per tile at most, so that one long run of blocks can be divided among threads.
const TILE_BYTES: usize = 64 << 10;

/// Fewer blocks than this at a time are not worth the buffer.
const BUFFER_THRESHOLD: i64 = 8;

/// The loop from a block to its neighbour.
fn neighbours(axes: &[Axis<2>], block: i64) -> Option<usize> {
    axes.iter().position(|axis| axis.strides[0] == block)
}

pub(in crate::backend) fn accepts(padded: &Padded) -> bool {
    let block = padded.block();
    neighbours(padded.blocks.axes(), block).is_some()
        && block.saturating_mul(BUFFER_THRESHOLD * padded.dst.size() as i64) <= BUFFER_BYTES as i64
}

/// # Safety
/// As for [`crate::backend::run`], and the problem was accepted.
pub(in crate::backend) unsafe fn run(padded: &Padded, operands: Operands, machine: Machine) -> Result<()> {
    let axes = padded.blocks.axes();
    let Some(index) = neighbours(axes, padded.block()) else { return Ok(()) };
    let sizes = [padded.dst.size(), padded.src.size()].map(|size| size as isize);
    let in_bytes = |[dst, src]: [i64; 2]| [dst as isize * sizes[0], src as isize * sizes[1]];
    let loops = axes.iter().map(|axis| (axis.extent as usize, in_bytes(axis.strides)));
    let steps = [axes[index].strides, padded.cells.strides].map(|strides| in_bytes(strides)[1]);
    let kernel = Kernel::new(padded, steps, machine);
    let block = kernel.block;
    let grid = Grid::over(loops, |_| false, in_bytes(padded.blocks.offsets), [(index, TILE_BYTES / block)]);
    let bytes = padded.blocks.len() as usize * block;
    let stream = stream::streams(machine.isa).map(|s| s.copy).filter(|_| bytes >= STREAMING_BYTES);
    let held = (BUFFER_BYTES / block).min(MAX_BLOCKS);
    let bases = [operands.dst, operands.src.cast_mut()];
    grid.for_each_with(machine, bytes, SCRATCH_BYTES, bases, |buffer, [dst, src], _, [n]| {
        // Straight to the destination where blocks come whole out of registers; they are streamed
        // to whole lines only.
        let spread = kernel.spread.and_then(|[cached, streamed]| match stream {
            None => Some(cached),
            Some(_) => (stream::to_line(dst) == 0).then_some(streamed),
        });
        let (stage, gathered) = (buffer.wrapping_add(BUFFER_BYTES), buffer.wrapping_add(2 * BUFFER_BYTES));
        let scratch = Scratch { stage, gathered };
        let most = if spread.is_some() && kernel.in_rows { n } else { held };
        // SAFETY: what is read and written belongs to the problem; `held` blocks fit either buffer.
        // All of a block is read before it is written, so that in-place problems are right as well.
        unsafe {
            if spread.is_none() {
                buffer.write_bytes(0, held.min(n) * block);
            }
            for done in (0..n).step_by(most) {
                let now = most.min(n - done);
                let (to, from) = (dst.add(done * block), src.offset(done as isize * kernel.next_block));
                if let Some(spread) = spread {
                    let (rows, pitch) = kernel.rows(scratch, from, now);
                    spread(kernel.few(to, rows, pitch, now));
                    continue;
                }
                kernel.put_together(buffer, scratch, from, now);
                match stream {
                    Some(stream) => stream(to, buffer, now * block),
                    None => to.copy_from_nonoverlapping(buffer, now * block),
                }
            }
        }
    })
}

/// Where blocks are on their way.
#[derive(Clone, Copy)]
struct Scratch {
    /// [`BUFFER_BYTES`].
    stage: *mut u8,
    /// Cells of any type, one of each of [`MAX_BLOCKS`].
    gathered: *mut u8,
}

/// From the source to blocks.
struct Kernel {
    dst_cell: usize,
    src_cell: usize,
    /// Bytes of a block.
    block: usize,
    /// Cells of a block that have a source.
    cells: usize,
    /// Bytes of the source from a cell of one block to that of the next, and from cell to cell of a
    /// block.
    next_block: isize,
    next_cell: isize,
    scaling: Scaling,
    /// What converts a run of cells; `None` where the bits are kept.
    row: Option<Row>,
    /// Whether every cell of the blocks is a run of the source that needs no conversion.
    in_rows: bool,
    /// Writes blocks of few cells whole, through the caches and past them.
    spread: Option<[Spread; 2]>,
    /// Writes more cells.
    transpose: Transpose<Even, Even>,
}

impl Kernel {
    fn new(padded: &Padded, [next_block, next_cell]: [isize; 2], machine: Machine) -> Self {
        let scaling = padded.scaling();
        let is_move = padded.dst == padded.src && scaling.is_move();
        let (dst_cell, src_cell) = (padded.dst.size(), padded.src.size());
        let (block, cells) = (padded.block() as usize * dst_cell, padded.cells.extent as usize);
        let spread = |store| tile::few(dst_cell, block, store, machine.isa);
        // More cells fill the registers of a transpose.
        let spread =
            [spread(Store::Cached), spread(Store::Streamed)].map(|s| s.filter(|_| cells * dst_cell < 16));
        Kernel {
            dst_cell,
            src_cell,
            block,
            cells,
            next_block,
            next_cell,
            scaling,
            row: (!is_move).then(|| row::between(padded.src, padded.dst, scaling, machine.isa)),
            in_rows: is_move && next_block == src_cell as isize,
            spread: spread[0].zip(spread[1]).map(|(cached, streamed)| [cached, streamed]),
            transpose: tile::transpose(dst_cell, Store::Cached, machine.isa),
        }
    }

    fn few(&self, dst: *mut u8, src: *const u8, row: isize, blocks: usize) -> Few {
        Few { dst, src, cells: self.cells, blocks, block: self.block, row }
    }

    /// Where the cells of `n` blocks lie as runs of destination cells, one after another of these
    /// many bytes: in the source, or gathered and converted on the stage.
    ///
    /// # Safety
    /// The sources are readable from `src` on. Unless they are in rows, the stage has room for the
    /// blocks, and they are [`MAX_BLOCKS`] at most.
    unsafe fn rows(&self, scratch: Scratch, src: *const u8, n: usize) -> (*const u8, isize) {
        if self.in_rows {
            return (src, self.next_cell);
        }
        let &Kernel { dst_cell, src_cell, next_block, .. } = self;
        let Scratch { stage, gathered } = scratch;
        for cell in 0..self.cells {
            // SAFETY: cells of the blocks, and room for them; `gathered` has that of `MAX_BLOCKS`
            // cells of any type.
            unsafe {
                let to = stage.add(cell * n * dst_cell);
                let from = src.offset(cell as isize * self.next_cell);
                let gather = |to| strided::copy_strided(src_cell, to, src_cell as isize, from, next_block, n);
                match self.row {
                    None => gather(to),
                    Some(row) if next_block == src_cell as isize => row(to, from, n, self.scaling),
                    Some(row) => {
                        gather(gathered);
                        row(to, gathered, n, self.scaling);
                    }
                }
            }
        }
        (stage, (n * dst_cell) as isize)
    }

    /// Writes the cells of `n` blocks that have a source to the buffer `dst`, whose other cells are
    /// zeros and stay so.
    ///
    /// # Safety
    /// As for [`rows`](Self::rows); the buffer has room for the blocks.
    unsafe fn put_together(&self, dst: *mut u8, scratch: Scratch, src: *const u8, n: usize) {
        let &Kernel { dst_cell, src_cell, block, cells, next_block, next_cell, scaling, .. } = self;
        if self.row.is_none() && next_cell == src_cell as isize {
            // Neighbours in both operands: as many at a time as go into a register.
            let mut done = 0;
            while done < cells {
                let together = 1 << (16 / src_cell).min(cells - done).ilog2();
                // SAFETY: cells of the blocks.
                unsafe {
                    let (to, from) = (dst.add(done * dst_cell), src.add(done * src_cell));
                    strided::copy_strided(together * src_cell, to, block as isize, from, next_block, n);
                }
                done += together;
            }
            return;
        }
        // SAFETY: the cells are ones of the blocks, for which the buffer has room.
        unsafe {
            let (src, pitch) = self.rows(scratch, src, n);
            if let Some([spread, _]) = self.spread {
                spread(self.few(dst, src, pitch, n));
            } else if cells * dst_cell < 16 {
                for cell in 0..cells {
                    let (to, from) = (dst.add(cell * dst_cell), src.offset(cell as isize * pitch));
                    strided::copy_strided(dst_cell, to, block as isize, from, dst_cell as isize, n);
                }
            } else {
                let (dst_rows, src_rows) = (Even(block as isize), Even(pitch));
                let (rows, columns, order) = (cells, n, Order::AlongSrc);
                (self.transpose)(Matrix {
                    dst,
                    src,
                    rows,
                    columns,
                    dst_rows,
                    src_rows,
                    next: Next::none(src_rows),
                    order,
                    scaling,
                });
            }
        }
    }
}
