//! Transposes: the operands are contiguous along different loops. Any pair of types.
//!
//! How a transform is cut into tiles is chosen in `tiling.rs`; here they are carried out.

mod buffered;
mod near;
mod set_conflicts;
mod tiling;

use std::ops::Range;

use super::grid::{Grid, Tile};
use super::held::Held;
use super::shape::{Loop, Shape};
use super::stream::{LINE, to_line};
use super::tile::{self, Even, Matrix, Next, Order, RowStarts, Store};
use super::{Machine, arena};
use crate::backend::Operands;
use crate::error::Result;
use tiling::{Kernels, MAX_RUN, Run, SHORT, Tiling, WriteBack, is_near, narrower, runs};

/// What a job asks for if it needs nothing itself: kernels take their room inside it.
const SCRATCH_OF_KERNELS: usize = LINE;

/// Pages that the first level of address translation holds, at least.
const NEAR_PAGES: usize = 64;

pub(in crate::backend) fn accepts(shape: &Shape) -> bool {
    shape.crossed_units().is_some_and(|(d, s)| {
        // Most have two long loops, and need no search for more.
        if [d, s].iter().all(|&i| shape.loops()[i].extent >= SHORT) {
            return true;
        }
        // Runs of several loops may end a loop of up to `SHORT - 1` turns before what is wanted.
        let [dst, src] = runs(shape, [d, s], [2 * SHORT, 2 * SHORT], false);
        dst.cells() >= SHORT && src.cells() >= SHORT
    })
}

/// Where the cells of a run lie in the other operand, in bytes; room for [`MAX_RUN`] of them.
struct Offsets {
    at: *mut isize,
    len: usize,
}

impl Offsets {
    /// Bytes of all offsets of a run.
    const BYTES: usize = MAX_RUN * size_of::<isize>();

    /// The cells of `run`; `stride` tells how far a loop moves the other operand. Pre: the run has
    /// at most [`MAX_RUN`] cells.
    ///
    /// # Safety
    /// Nobody else uses the room as long as this lives.
    unsafe fn of(at: *mut isize, run: &Run, shape: &Shape, stride: impl Fn(&Loop) -> isize) -> Self {
        let mut this = Offsets { at, len: 1 };
        // SAFETY: room for the first.
        unsafe { at.write(0) };
        for (k, &i) in run.loops[..run.len].iter().enumerate() {
            let l = &shape.loops()[usize::from(i)];
            let turns = if k + 1 == run.len { run.turns } else { l.extent };
            let (inner, step) = (this.len, stride(l));
            for entry in inner..turns * inner {
                // SAFETY: all entries before this one are written, and there is room for it.
                unsafe { at.add(entry).write(at.add(entry - inner).read() + step) };
            }
            this.len = turns * inner;
        }
        debug_assert!(this.len <= MAX_RUN);
        this
    }

    fn get(&self) -> &[isize] {
        // SAFETY: the first `len` entries are written, and nobody else uses them.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }
}

/// The cells of a run that a tile takes, `before` and `after` of which there are others: shifted to
/// where lines start, which is `to_line(i)` cells after cell `i`. So no tile shares a line with
/// another.
fn shifted([before, turns, after]: [usize; 3], to_line: impl Fn(usize) -> usize) -> Range<usize> {
    let end = turns + if after > 0 { to_line(turns).min(after) } else { 0 };
    let start = if before > 0 { to_line(0).min(end) } else { 0 };
    start..end
}

/// # Safety
/// As for [`crate::backend::run`], and the problem was accepted.
pub(in crate::backend) unsafe fn run(shape: &Shape, operands: Operands, machine: Machine) -> Result<()> {
    let Some((d, s)) = shape.crossed_units() else { return Ok(()) };
    if is_plain(shape, [d, s]) {
        // SAFETY: the operands are those of the problem.
        unsafe { run_plain(shape, [d, s], operands, machine) };
        return Ok(());
    }
    let converts = tile::convert::<Even, Even>(shape.transform, Store::Cached, machine.isa).is_some();
    let kernels = Kernels {
        converts,
        narrows: converts && machine.isa.has_avx512(),
        has_groups: tile::has_groups(narrower(shape), machine.isa),
        cuts: machine.isa.has_avx512(),
        writes_lines: tile::writes_lines(narrower(shape), machine.isa),
    };
    let tiling = &Tiling::new(shape, [d, s], &operands, kernels, machine.threads_for(shape.bytes()));
    let (loops, held) = (shape.loops(), shape.held(operands));
    // SAFETY: the nest's cells are there, and each operand's rows are where the loops of the
    // other's run put them.
    unsafe {
        if tiling.is_even() {
            let (dst_rows, src_rows) = (Even(loops[s].dst), Even(loops[d].src));
            return Tiles { shape, operands, held, machine, tiling, dst_rows, src_rows }.run();
        }
    }
    arena::with(2 * Offsets::BYTES, |room| {
        let (first, second) = (room.cast(), room.wrapping_add(Offsets::BYTES).cast());
        // SAFETY: rows are where the loops put them, and their offsets in two parts of the room.
        unsafe {
            let dst_rows = Offsets::of(first, &tiling.src, shape, |l| l.dst);
            let src_rows = Offsets::of(second, &tiling.dst, shape, |l| l.src);
            let (dst_rows, src_rows) = (dst_rows.get(), src_rows.get());
            Tiles { shape, operands, held, machine, tiling, dst_rows, src_rows }.run()
        }
    })
}

/// Whether a nest is a matrix that needs no tiles, nor the time to plan them, or some of them.
/// These lie apart: where the loop around them continues a row, they make longer ones together.
fn is_plain(shape: &Shape, units: [usize; 2]) -> bool {
    let loops = shape.loops();
    let [d, s] = units.map(|unit| (loops[unit].extent * shape.src_cell) as isize);
    let around = || (0..loops.len()).filter(|i| !units.contains(i)).map(|i| loops[i]);
    is_near(shape) && shape.is_move() && loops.len() <= 3 && around().all(|l| l.dst != d && l.src != s)
}

/// Transposes them one by one.
///
/// # Safety
/// As for [`run`], and the nest is [plain](is_plain).
unsafe fn run_plain(shape: &Shape, units: [usize; 2], operands: Operands, machine: Machine) {
    let loops = shape.loops();
    let [along_dst, along_src] = units.map(|unit| loops[unit]);
    let around = (0..loops.len()).find(|i| !units.contains(i)).map(|i| loops[i]);
    let Loop { extent: matrices, dst: dst_step, src: src_step } =
        around.unwrap_or(Loop { extent: 1, dst: 0, src: 0 });
    let src_rows = Even(along_dst.src);
    let transpose = tile::transpose(shape.src_cell, Store::Cached, machine.isa);
    let [written, read] = shape.held(operands);
    for i in 0..matrices as isize {
        let matrix = Matrix {
            dst: operands.dst.wrapping_offset(shape.start[0] + i * dst_step),
            src: operands.src.wrapping_offset(shape.start[1] + i * src_step),
            rows: along_dst.extent,
            columns: along_src.extent,
            dst_rows: Even(along_src.dst),
            src_rows,
            next: Next::none(src_rows),
            order: Order::AlongDst,
            scaling: shape.transform.scaling,
        };
        matrix.assert_reads_from(&read, shape.src_cell);
        matrix.assert_writes_to(&written, shape.dst_cell);
        // SAFETY: every cell belongs to the nest; crossed operands are never in place.
        unsafe { transpose(matrix) }
    }
}

/// A transform, its tiling, and where the rows of a tile lie in either operand.
struct Tiles<'a, R> {
    shape: &'a Shape<'a>,
    operands: Operands,
    /// What destination and source hold.
    held: [Held; 2],
    machine: Machine,
    tiling: &'a Tiling,
    dst_rows: R,
    src_rows: R,
}

impl<R: RowStarts + Sync> Tiles<'_, R> {
    /// # Safety
    /// As for [`run`](fn@run).
    unsafe fn run(&self) -> Result<()> {
        // SAFETY: the cells of all tiles are readable and writable.
        unsafe {
            match self.tiling.path {
                WriteBack::Direct(Store::Cached) => self.cached(),
                WriteBack::Direct(Store::Streamed) => self.streamed(),
                WriteBack::Buffered(store) => self.buffered(store),
                WriteBack::Conflicting { .. } | WriteBack::Converted => self.near(),
            }
        }
    }

    /// Rows and columns of a tile at most, and the bytes of as many cells: those that start after
    /// it, but share a line with it, belong to it as well.
    fn most(&self) -> [usize; 2] {
        let Tiling { dst, src, .. } = self.tiling;
        [dst.cells() + LINE / self.shape.dst_cell, src.cells() + LINE / self.shape.src_cell]
    }

    /// The tiles; those along `last` follow one another.
    fn grid(&self, last: Along) -> Grid<2> {
        let Tiling { dst, src, .. } = self.tiling;
        let inside = |i: usize| dst.has_whole(i) || src.has_whole(i);
        let [by_dst, by_src] = [dst, src].map(|run| (run.last(), run.turns));
        let kernel = match last {
            Along::Dst => [by_src, by_dst],
            Along::Src => [by_dst, by_src],
        };
        Grid::around(self.shape.loops(), inside, self.shape.start, kernel)
    }

    /// The first rows and columns of a tile as a matrix; the one after it is not fetched.
    fn matrix(&self, tile: &Tile<2>, rows: usize, columns: usize) -> Matrix<R, R> {
        Matrix {
            dst: tile.dst,
            src: tile.src,
            rows,
            columns,
            dst_rows: self.dst_rows,
            src_rows: self.src_rows,
            next: Next::none(self.src_rows),
            order: Order::AlongSrc,
            scaling: self.shape.transform.scaling,
        }
    }

    /// A matrix of cells of both operands; with debug assertions, that these hold them.
    fn held(&self, matrix: Matrix<R, R>) -> Matrix<R, R> {
        matrix.assert_writes_to(&self.held[0], self.shape.dst_cell);
        matrix.assert_reads_from(&self.held[1], self.shape.src_cell);
        matrix
    }

    /// These rows and columns of the tile that comes after this one, to be fetched.
    fn next(&self, tile: &Tile<2>, rows: Range<usize>, columns: &Range<usize>) -> Next<R> {
        let cell = self.shape.src_cell;
        Next {
            src: tile.next.wrapping_add(columns.start * cell),
            rows: self.src_rows,
            first: rows.start,
            end: rows.end,
            bytes: columns.len() * cell,
        }
    }

    /// What transposes and, if that is asked for, converts. Pre: there is such a transpose.
    fn direct(&self, store: Store) -> tile::Transpose<R, R> {
        let (shape, isa) = (self.shape, self.machine.isa);
        if shape.is_move() {
            tile::transpose(shape.src_cell, store, isa)
        } else {
            tile::convert(shape.transform, store, isa).expect("the tiling asked whether there is one")
        }
    }

    /// Transposes tiles where they are, inside the caches.
    ///
    /// # Safety
    /// As for [`run`](fn@run).
    unsafe fn cached(&self) -> Result<()> {
        let transpose = self.direct(Store::Cached);
        let Tiling { dst, src, .. } = self.tiling;
        let (bytes, scratch) = (self.shape.bytes(), SCRATCH_OF_KERNELS);
        self.grid(Along::Dst).run_with(self.machine, bytes, scratch, self.operands, |_, tile| {
            let (rows, columns) = (tile.extents[1] * dst.whole, tile.extents[0] * src.whole);
            let matrix = Matrix { order: self.tiling.order, ..self.matrix(&tile, rows, columns) };
            // SAFETY: every cell of the tile belongs to the nest; crossed operands are never in
            // place.
            unsafe { transpose(self.held(matrix)) }
        })
    }

    /// Transposes tiles and streams the registers, but for the ends of rows that have no whole
    /// line.
    ///
    /// # Safety
    /// As for [`run`](fn@run); the tiling writes whole lines.
    unsafe fn streamed(&self) -> Result<()> {
        let cells = [self.shape.dst_cell, self.shape.src_cell];
        let [stream, write] = [Store::Streamed, Store::Cached].map(|store| self.direct(store));
        let (bytes, scratch) = (self.shape.bytes(), SCRATCH_OF_KERNELS);
        self.grid(Along::Src).run_with(self.machine, bytes, scratch, self.operands, |_, tile| {
            let dst_line = |i: usize| to_line(tile.dst.wrapping_add(i * cells[0])) / cells[0];
            let src_line = |i: usize| to_line(tile.src.wrapping_add(i * cells[1])) / cells[1];
            let [rows, columns] = self.sides(&tile, [&dst_line, &src_line]);
            let whole = self.matrix(&tile, rows.end, columns.end);
            let next = self.next(&tile, rows.clone(), &columns);
            let order = if columns.len() <= NEAR_PAGES { Order::AlongSrc } else { self.tiling.order };
            let first_line = (rows.start + dst_line(rows.start)).min(rows.end);
            // SAFETY: every cell of the tile belongs to the nest; it is shifted by as much as the
            // next one starts later, and its lines start at `first_line`.
            unsafe {
                if first_line > rows.start {
                    write(self.held(whole.part(rows.start..first_line, columns.clone(), cells)));
                }
                let part = self.held(whole.part(first_line..rows.end, columns, cells));
                stream(Matrix { next, order, ..part });
            }
        })
    }

    /// The cells of a tile along destination and source, those of even tiles shifted to where lines
    /// start. The tile is of a grid along the source.
    fn sides(&self, tile: &Tile<2>, to_lines: [&dyn Fn(usize) -> usize; 2]) -> [Range<usize>; 2] {
        let side = |k: usize, run: &Run| {
            let cells = [tile.before[k], tile.extents[k], tile.after[k]].map(|turns| turns * run.whole);
            if self.tiling.is_even() { shifted(cells, to_lines[k]) } else { 0..cells[1] }
        };
        [side(0, &self.tiling.dst), side(1, &self.tiling.src)]
    }
}

/// Along which operand's run tiles follow one another.
#[derive(Clone, Copy)]
enum Along {
    /// The destination's.
    Dst,
    /// The source's, so that its pages are finished one by one.
    Src,
}

/// A buffer in the scratch of a job.
#[derive(Clone, Copy)]
struct Buffer {
    at: *mut u8,
    bytes: usize,
}

impl Buffer {
    /// Room for `bytes`.
    fn room(self, bytes: usize) -> *mut u8 {
        assert!(bytes <= self.bytes, "{bytes} bytes of a buffer of {}", self.bytes);
        self.at
    }
}
