//! Blocks of neighbouring cells with zeros behind them, written whole: lines that hold both are visited once. Any pair
//! of types.
//!
//! Some blocks at a time are put together in a buffer. It is zeroed once per tile, for its zeros never change.

use std::mem::MaybeUninit;

use super::stream::{self, STREAMING_BYTES};
use super::tile::{self, Even, Few, Matrix, Order, Store};
use super::{Machine, grid::Grid, row, strided};
use crate::backend::Operands;
use crate::error::Result;
use crate::layout::Axis;
use crate::ops::Padded;

/// Bytes of the buffer: little of the first-level cache.
const BUFFER_BYTES: usize = 8 << 10;

/// Blocks that are put together at a time, at most.
const MAX_BLOCKS: usize = 512;

/// Bytes per tile at most, so that one long run of blocks can be divided among threads.
const TILE_BYTES: usize = 64 << 10;

/// Fewer blocks than this at a time are not worth the buffer.
const FEW: i64 = 8;

/// The loop from a block to its neighbour.
fn neighbours(axes: &[Axis<2>], block: i64) -> Option<usize> {
    axes.iter().position(|axis| axis.strides[0] == block)
}

pub(in crate::backend) fn accepts(padded: &Padded) -> bool {
    let block = padded.block();
    neighbours(padded.blocks.axes(), block).is_some()
        && block.saturating_mul(FEW * padded.dst.size() as i64) <= BUFFER_BYTES as i64
}

/// Room for a number of bytes, on a cache line.
#[repr(align(64))]
struct Buffer<const BYTES: usize>([MaybeUninit<u8>; BYTES]);

impl<const BYTES: usize> Buffer<BYTES> {
    fn new() -> Self {
        Buffer([MaybeUninit::uninit(); BYTES])
    }

    fn ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// # Safety
/// As for [`crate::backend::run_padded`], and the problem was accepted.
pub(in crate::backend) unsafe fn run(padded: &Padded, operands: Operands, machine: Machine) -> Result<()> {
    let Padded { blocks, .. } = padded;
    let (dst_cell, src_cell) = (padded.dst.size(), padded.src.size());
    let block = padded.block() as usize * dst_cell;
    let axes = blocks.axes();
    let Some(index) = neighbours(axes, padded.block()) else { return Ok(()) };
    let in_bytes =
        |[dst, src]: [i64; 2]| [dst as isize * dst_cell as isize, src as isize * src_cell as isize];
    let loops = axes.iter().map(|axis| (axis.extent as usize, in_bytes(axis.strides)));
    let kernel =
        Kernel::new(padded, in_bytes(axes[index].strides)[1], in_bytes(padded.cells.strides)[1], machine);
    let grid = Grid::over(loops, |_| false, in_bytes(blocks.offsets), [(index, TILE_BYTES / block)]);
    let bytes = blocks.len() as usize * block;
    let stream = stream::stream(machine.isa).filter(|_| bytes >= STREAMING_BYTES);
    let held = (BUFFER_BYTES / block).min(MAX_BLOCKS);
    let bases = [operands.dst, operands.src.cast_mut()];
    grid.for_each(machine, bytes, bases, |[dst, src], _, [n]| {
        // SAFETY: what the kernel reads and what is written belongs to the problem; `held` blocks fit the buffer. All of
        // a block is read before it is written, so that in-place problems are right as well.
        unsafe {
            if let Some([cached, streamed]) = kernel.spread
                && (stream.is_none() || stream::to_line(dst) == 0)
            {
                let spread = if stream.is_none() { cached } else { streamed };
                return spread(kernel.few(dst, src, n));
            }
            let mut buffer = Buffer::<BUFFER_BYTES>::new();
            let buffer = buffer.ptr();
            buffer.write_bytes(0, held.min(n) * block);
            for done in (0..n).step_by(held) {
                let now = held.min(n - done);
                kernel.fill(buffer, src.offset(done as isize * kernel.next_block), now);
                let to = dst.add(done * block);
                match stream {
                    Some(stream) => stream(to, buffer, now * block),
                    None => to.copy_from_nonoverlapping(buffer, now * block),
                }
            }
        }
    })
}

/// Fills a buffer of blocks.
struct Kernel {
    dst_cell: usize,
    src_cell: usize,
    /// Bytes of a block.
    block: usize,
    /// Cells of a block that have a source.
    cells: usize,
    /// Bytes of the source from the cell of one block to that of the next, and inside of a block.
    next_block: isize,
    next_cell: isize,
    scaling: crate::ops::Scaling,
    /// `None` where the bits are kept.
    row: Option<row::Row>,
    transpose: tile::Transpose<Even, Even>,
    /// For few cells, cached and streamed.
    spread: Option<[tile::Spread; 2]>,
}

impl Kernel {
    fn new(padded: &Padded, next_block: isize, next_cell: isize, machine: Machine) -> Self {
        let scaling = padded.scaling();
        let is_move = padded.dst == padded.src && scaling.is_move();
        let (dst_cell, src_cell) = (padded.dst.size(), padded.src.size());
        let block = padded.block() as usize * dst_cell;
        let cells = padded.cells.extent as usize;
        // More cells fill registers of a transpose.
        let is_few = is_move && next_block == src_cell as isize && cells * dst_cell < 16;
        let spread = |store| tile::few(dst_cell, block, store, machine.isa).filter(|_| is_few);
        Kernel {
            dst_cell,
            src_cell,
            block,
            cells,
            next_block,
            next_cell,
            scaling,
            row: (!is_move).then(|| row::between(padded.src, padded.dst, scaling, machine.isa)),
            transpose: tile::transpose(dst_cell, Store::Cached, machine.isa),
            spread: spread(Store::Cached)
                .zip(spread(Store::Streamed))
                .map(|(cached, streamed)| [cached, streamed]),
        }
    }

    fn few(&self, dst: *mut u8, src: *const u8, blocks: usize) -> Few {
        Few { dst, src, cells: self.cells, blocks, block: self.block, row: self.next_cell }
    }

    /// Writes the cells of `n` blocks that have a source to the buffer `to`, whose other cells are and stay zeros.
    ///
    /// # Safety
    /// Their sources are readable from `src` on; the buffer has room for them.
    unsafe fn fill(&self, to: *mut u8, src: *const u8, n: usize) {
        let &Kernel { dst_cell, src_cell, block, cells, next_block, next_cell, scaling, .. } = self;
        let in_rows = next_block == src_cell as isize;
        let transpose = |src: *const u8, pitch: isize| {
            let (dst_rows, src_rows) = (Even(block as isize), Even(pitch));
            let (rows, columns, next, order) = (cells, n, None, Order::AlongSrc);
            // SAFETY: the cells of the blocks.
            unsafe {
                (self.transpose)(Matrix {
                    dst: to,
                    src,
                    rows,
                    columns,
                    dst_rows,
                    src_rows,
                    next,
                    order,
                    scaling,
                })
            }
        };
        let Some(row) = self.row else {
            if let Some([spread, _]) = self.spread {
                // SAFETY: the cells of the blocks.
                return unsafe { spread(self.few(to, src, n)) };
            }
            if in_rows && cells * dst_cell >= 16 {
                return transpose(src, next_cell);
            }
            // Where cells are neighbours in both operands, as many at a time as go into a register.
            let mut done = 0;
            while done < cells {
                let together =
                    if next_cell == src_cell as isize { (16 / src_cell).min(cells - done) } else { 1 };
                let together = 1 << together.ilog2();
                // SAFETY: cells of the blocks.
                unsafe {
                    let (to, from) = (to.add(done * dst_cell), src.offset(done as isize * next_cell));
                    strided::copy_strided(together * src_cell, to, block as isize, from, next_block, n);
                }
                done += together;
            }
            return;
        };
        // Cell by cell of all blocks: gathered, converted in one run, then transposed.
        let mut stage = Buffer::<BUFFER_BYTES>::new();
        let mut gathered = Buffer::<{ MAX_BLOCKS * 8 }>::new();
        let (stage, gathered) = (stage.ptr(), gathered.ptr());
        for cell in 0..cells {
            // SAFETY: as above; stage has the room of the buffer, and `gathered` that of `MAX_BLOCKS` cells of any type.
            unsafe {
                let mut from = src.offset(cell as isize * next_cell);
                if !in_rows {
                    strided::copy_strided(src_cell, gathered, src_cell as isize, from, next_block, n);
                    from = gathered;
                }
                row(stage.add(cell * n * dst_cell), from, n, scaling);
            }
        }
        transpose(stage, (n * dst_cell) as isize);
    }
}
