//! Transposes: the operands are contiguous along different loops. Any pair of types.
//!
//! A tile is a run of the destination times a run of the source. A run is made of as many loops as it takes to fill
//! some cache lines: of the pixels of an image one loop in part, of a permutation of eight short dimensions
//! perhaps three whole ones and a part of the fourth.

use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

use super::output::{self, Output};
use super::shape::{Loop, Shape};
use super::tile::{self, Even, Matrix, Order, Rows};
use super::{Machine, grid::Grid};
use crate::backend::Operands;
use crate::error::Result;
use crate::layout::MAX_AXES;

/// Shorter sides than this have no whole register in them.
const SHORT: usize = 4;

/// Bytes of source cells along destination and source of a tile that is written directly.
const DIRECT: [usize; 2] = [256, 1024];

/// Rows further apart than this, in both operands, share so few cache sets that a line may be gone before its
/// neighbours are needed.
const CROWDED: usize = 1024;

/// The same of a tile that goes through a buffer: eight lines each way.
const BUFFERED: [usize; 2] = [512, 512];

/// Columns of a buffered tile at most. Cells of one byte get half of their eight lines, the buffer stays a part of the
/// second-level cache.
const BUFFER_COLUMNS: usize = 256;

/// The buffer; each row has a line to spare.
const BUFFER_BYTES: usize = BUFFER_COLUMNS * (BUFFERED[0] + LINE);

/// Rows this far apart each need an entry of their own in the table of pages.
const PAGE: usize = 4096;

/// The longest run of a tile, in cells.
const MAX_RUN: usize = 1024;

/// A cache line.
const LINE: usize = 64;

pub(in crate::backend) fn accepts(shape: &Shape) -> bool {
    shape.crossed_units().is_some_and(|(d, s)| {
        let [dst, src] = runs(shape, [d, s], [SHORT, SHORT]);
        dst.cells() >= SHORT && src.cells() >= SHORT
    })
}

/// Loops along which one operand is contiguous, innermost first. All but the last lie inside a tile whole.
#[derive(Clone, Copy)]
struct Run {
    /// Indices of the loops.
    loops: [u8; MAX_AXES],
    len: usize,
    /// Cells of the whole loops.
    whole: usize,
    /// Turns of the last loop.
    turns: usize,
}

impl Run {
    fn cells(&self) -> usize {
        self.whole * self.turns
    }

    /// The loop that a tile may cut.
    fn last(&self) -> usize {
        usize::from(self.loops[self.len - 1])
    }

    fn contains(&self, i: usize) -> bool {
        self.loops[..self.len].contains(&(i as u8))
    }

    /// Whether loop `i` lies inside a tile whole.
    fn has_whole(&self, i: usize) -> bool {
        self.loops[..self.len - 1].contains(&(i as u8))
    }
}

/// The runs of destination and source, grown from the loops `units` until they have `targets` cells or nothing
/// continues them. The one that is further from its target grows first, as both may want the same loop.
fn runs(shape: &Shape, units: [usize; 2], targets: [usize; 2]) -> [Run; 2] {
    let loops = shape.loops();
    let mut runs =
        units.map(|unit| Run { loops: [unit as u8; MAX_AXES], len: 1, whole: 1, turns: loops[unit].extent });
    let mut open = [true; 2];
    while let Some(k) = {
        let wants = |k: &usize| open[*k] && runs[*k].cells() < targets[*k];
        (0..2).filter(wants).min_by_key(|&k| runs[k].cells() * targets[1 - k])
    } {
        let end = (runs[k].cells() * if k == 0 { shape.dst_cell } else { shape.src_cell }) as isize;
        let free = |i: usize| !runs.iter().any(|run| run.contains(i));
        let continues = |l: &Loop| [l.dst, l.src][k] == end && l.extent > 1;
        match (0..loops.len()).find(|&i| continues(&loops[i]) && free(i)) {
            None => open[k] = false,
            Some(i) => {
                let run = &mut runs[k];
                *run = Run { whole: run.cells(), turns: loops[i].extent, ..*run };
                run.loops[run.len] = i as u8;
                run.len += 1;
            }
        }
    }
    for (run, target) in runs.iter_mut().zip(targets) {
        run.turns = (target / run.whole).clamp(1, run.turns);
    }
    runs
}

/// Where the cells of a run lie in the other operand, in bytes.
struct Offsets {
    at: [MaybeUninit<isize>; MAX_RUN],
    len: usize,
}

impl Offsets {
    /// No cells, in place: 8 KiB are not to be moved about.
    fn none() -> Self {
        Offsets { at: [MaybeUninit::uninit(); MAX_RUN], len: 0 }
    }

    /// The cells of `run`; `stride` tells how far a loop moves the other operand. Pre: the run has at most
    /// [`MAX_RUN`] cells.
    fn fill(&mut self, run: &Run, shape: &Shape, stride: impl Fn(&Loop) -> isize) {
        self.at[0].write(0);
        self.len = 1;
        for (k, &i) in run.loops[..run.len].iter().enumerate() {
            let l = &shape.loops()[usize::from(i)];
            let turns = if k + 1 == run.len { run.turns } else { l.extent };
            let (inner, step) = (self.len, stride(l));
            for at in inner..turns * inner {
                // SAFETY: all entries before this one are written.
                let value = unsafe { self.at[at - inner].assume_init() } + step;
                self.at[at].write(value);
            }
            self.len = turns * inner;
        }
    }

    fn get(&self) -> &[isize] {
        let written = &self.at[..self.len];
        // SAFETY: the first `len` entries are written.
        unsafe { &*(std::ptr::from_ref(written) as *const [isize]) }
    }
}

/// How a transform is cut into tiles.
struct Tiling {
    dst: Run,
    src: Run,
    /// Whether tiles go through a buffer.
    buffered: bool,
    order: Order,
    /// Whether the next tile's source is fetched while this one is transposed. Rows whole pages apart share so few
    /// cache sets that what is fetched early is gone when it is needed.
    fetches: bool,
}

impl Tiling {
    /// The cost model. Memory moves in lines, and what a tile pays beyond its bytes are lines that it shares with its
    /// neighbours and pages that it visits for little. Long runs make both rare; a tile must stay inside the caches.
    ///
    /// - Converted, streamed and far-apart results go through a buffer in the caches. There the rows of a tile
    ///   meet no distances, and each run of the destination is then written in one go: a line that two tiles share
    ///   costs two visits, so runs have eight.
    /// - Everything else is written directly, a register per row and turn. Reading and writing then alternate,
    ///   which the caches forgive, as they hold both.
    fn new(shape: &Shape, units: [usize; 2], streams: bool) -> Self {
        let [along_dst, along_src] = units.map(|unit| shape.loops()[unit]);
        let apart = along_dst.src.unsigned_abs().min(along_src.dst.unsigned_abs());
        let buffered = !shape.is_move() || streams || apart > PAGE / 2;
        let order = if buffered || apart <= CROWDED { Order::AlongSrc } else { Order::AlongDst };
        let bytes = match order {
            _ if buffered => BUFFERED,
            Order::AlongSrc => DIRECT,
            Order::AlongDst => [DIRECT[1], DIRECT[0]],
        };
        let mut cells = bytes.map(|bytes| (bytes / shape.src_cell).max(SHORT));
        if buffered {
            cells[1] = cells[1].min(BUFFER_COLUMNS);
        }
        let [dst, src] = runs(shape, units, cells);
        let fetches = !along_dst.src.unsigned_abs().is_multiple_of(PAGE);
        Tiling { dst, src, buffered, order, fetches }
    }
}

/// # Safety
/// As for [`crate::backend::run`], and the problem was accepted.
pub(in crate::backend) unsafe fn run(shape: &Shape, operands: Operands, machine: Machine) -> Result<()> {
    let Some((d, s)) = shape.crossed_units() else { return Ok(()) };
    let tiling = Tiling::new(shape, [d, s], output::streams(shape));
    let loops = shape.loops();
    // SAFETY: handed on; each operand's rows are where the loops of the other's run put them.
    unsafe {
        if tiling.dst.len == 1 && tiling.src.len == 1 {
            let (dst_rows, src_rows) = (Even(loops[s].dst), Even(loops[d].src));
            return tiles(shape, operands, machine, &tiling, dst_rows, src_rows);
        }
        let (mut dst_rows, mut src_rows) = (Offsets::none(), Offsets::none());
        dst_rows.fill(&tiling.src, shape, |l| l.dst);
        src_rows.fill(&tiling.dst, shape, |l| l.src);
        tiles(shape, operands, machine, &tiling, dst_rows.get(), src_rows.get())
    }
}

/// # Safety
/// As for [`run`]; the rows are those of the tiling.
unsafe fn tiles<R: Rows + Sync>(
    shape: &Shape,
    operands: Operands,
    machine: Machine,
    tiling: &Tiling,
    dst_rows: R,
    src_rows: R,
) -> Result<()> {
    let &Tiling { dst: along_dst, src: along_src, buffered, order, fetches } = tiling;
    let inside = |i: usize| along_dst.has_whole(i) || along_src.has_whole(i);
    let kernel = [(along_src.last(), along_src.turns), (along_dst.last(), along_dst.turns)];
    let grid = Grid::around(shape.loops(), inside, shape.start, kernel);
    if !buffered {
        let transpose = tile::transpose::<R, R>(shape.src_cell, machine.isa);
        return grid.run(machine, shape.bytes(), operands, |tile| {
            let [columns, rows] = [tile.extents[0] * along_src.whole, tile.extents[1] * along_dst.whole];
            let (dst, src) = (tile.dst, tile.src);
            // SAFETY: every cell of the tile belongs to the nest; crossed operands are never in place.
            unsafe { transpose(Matrix { dst, src, rows, columns, dst_rows, src_rows, next: None, order }) }
        });
    }
    let output = Output::new(shape, machine);
    // Callers may have little stack, so buffers are on the heap: one per thread, handed from tile to tile.
    let rows = (along_dst.turns * along_dst.whole * shape.src_cell).next_multiple_of(LINE) + LINE;
    let words = (along_src.turns * along_src.whole * rows).min(BUFFER_BYTES).div_ceil(8);
    let spare: Mutex<Vec<Vec<u64>>> = Mutex::new(Vec::new());
    let transpose = tile::transpose::<Even, R>(shape.src_cell, machine.isa);
    let (dst_cell, src_cell) = (shape.dst_cell, shape.src_cell);
    grid.run(machine, shape.bytes(), operands, |tile| {
        let [columns, rows] = [tile.extents[0] * along_src.whole, tile.extents[1] * along_dst.whole];
        // SAFETY: only called with j < columns.
        let row = |j: usize| unsafe { dst_rows.at(j) };
        let follows = |j: usize| row(j) == row(j - 1) + (rows * dst_cell) as isize;
        // Rows that follow one another in the destination do so in the buffer and are written together; others
        // keep a distance that is no power of two, so as not to share cache sets.
        let joined = columns > 1 && follows(1);
        let pitch = if joined { rows * src_cell } else { (rows * src_cell).next_multiple_of(LINE) + LINE };
        let mut taken = spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        // A panic becomes an error of the call; there is no other way out of a kernel.
        taken.try_reserve_exact(words).expect("memory for a tile");
        let buffer = taken.as_mut_ptr().cast::<u8>();
        debug_assert!(pitch * columns <= words * 8);
        // SAFETY: every cell of the tile belongs to the nest, and its source cells fit the buffer.
        unsafe {
            transpose(Matrix {
                dst: buffer,
                src: tile.src,
                rows,
                columns,
                dst_rows: Even(pitch as isize),
                src_rows,
                next: fetches.then_some(tile.next),
                order,
            });
            let mut from = 0;
            for j in 1..=columns {
                if j == columns || !joined || !follows(j) {
                    let (to, cells) = (tile.dst.offset(row(from)), buffer.add(from * pitch));
                    output.write(to, cells, (j - from) * rows);
                    from = j;
                }
            }
        }
        spare.lock().unwrap_or_else(PoisonError::into_inner).push(taken);
    })
}
