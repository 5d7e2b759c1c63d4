//! Transposes: the operands are contiguous along different loops. Any pair of types.
//!
//! A tile is a run of the destination times a run of the source. A run is made of as many loops as it takes to fill
//! some cache lines: of the pixels of an image one loop in part, of a permutation of eight short dimensions
//! perhaps three whole ones and a part of the fourth.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::Machine;
use super::grid::{Grid, Tile};
use super::output::{self, Output};
use super::shape::{Loop, Shape};
use super::stream::{LINE, to_line};
use super::tile::{self, Even, Matrix, Next, Order, Rows, Store};
use crate::backend::Operands;
use crate::error::Result;
use crate::layout::MAX_AXES;

/// Shorter sides than this have no whole register in them.
const SHORT: usize = 4;

/// The longest run of a tile, in cells.
const MAX_RUN: usize = 1024;

/// Pages that the first level of address translation holds, at least.
const NEAR_PAGES: usize = 64;

/// Rows this far apart start in the same set of the first-level cache.
const PAGE: usize = 4096;

/// Lines that a set of the first-level cache holds, of most processors: 8 to 12.
const WAYS: usize = 12;

/// Rows of a block of cells of 4 bytes.
const BLOCK_ROWS: usize = 16;

/// What the first-level cache of most processors holds, or a little less.
const FIRST_LEVEL_BYTES: usize = 32 << 10;

pub(in crate::backend) fn accepts(shape: &Shape) -> bool {
    shape.crossed_units().is_some_and(|(d, s)| {
        // Most have two long loops, and need no search for more.
        if [d, s].iter().all(|&i| shape.loops()[i].extent >= SHORT) {
            return true;
        }
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

/// Bytes of the narrower cells, which are those that are transposed.
fn narrower(shape: &Shape) -> usize {
    shape.src_cell.min(shape.dst_cell)
}

/// Whether the runs of a tile have whole lines of the narrower cells.
fn has_lines(shape: &Shape, runs: [&Run; 2]) -> bool {
    runs.iter().all(|run| run.cells() * narrower(shape) >= LINE)
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
    path: Path,
    /// Whose rows are followed to their end first, inside a tile.
    order: Order,
}

/// Whether the rows of a block, so many bytes apart, have more lines than the sets of the first-level cache that they
/// share can hold.
fn is_crowded(stride: isize) -> bool {
    let stride = stride.unsigned_abs();
    let sets = (0..BLOCK_ROWS).fold(0u64, |sets, row| sets | 1 << (stride * row % PAGE / LINE));
    // A row that does not start on a line has a part of two.
    let lines = BLOCK_ROWS * if stride.is_multiple_of(LINE) { 1 } else { 2 };
    lines > WAYS * sets.count_ones() as usize
}

/// How the cells of a tile reach the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    /// From the registers, converted in them.
    Direct(Store),
    /// Through a buffer whose rows are those of the destination, then converted, and streamed where that pays.
    Buffered,
}

impl Tiling {
    /// The cost model. Memory moves in lines, and what a tile pays beyond its bytes are lines that it shares with its
    /// neighbours and pages that it visits for little; and a tile must stay inside the first-level cache or close to
    /// it. So the bytes of a tile are given, its sides by what they are good for:
    ///
    /// - In the caches both operands are visited in long pieces.
    /// - Where the rows of the source crowd into few cache sets, lines that come with their neighbours are gone before
    ///   these are needed: a few rows are followed for some lines then. If those of the destination do so too, a buffer
    ///   takes what is to be written, in pieces of some lines as well.
    /// - Beyond them the source is fetched ahead, a line or more of each row, and what counts are the long pieces of the
    ///   destination: its lines are streamed. That needs whole lines. If the registers have those (all rows of the
    ///   destination start on a line) they are streamed as they are, else they are put together in a buffer.
    /// - A destination whose run is short lies one run after another: there the source's is longer instead.
    fn new(shape: &Shape, units: [usize; 2], operands: &Operands, converts: bool) -> Self {
        let [along_dst, along_src] = units.map(|unit| shape.loops()[unit]);
        let streams = output::streams(shape);
        let is_fast = |t: &Tiling| shape.is_move() || converts && has_lines(shape, [&t.dst, &t.src]);
        let crowds = |stride: isize| shape.bytes() > FIRST_LEVEL_BYTES && is_crowded(stride);
        let order = if crowds(along_dst.src) { Order::AlongSrc } else { Order::AlongDst };
        let buffers = order == Order::AlongSrc && crowds(along_src.dst);
        if !streams && !buffers {
            let tiling = Tiling::of(shape, units, [1024, 1024], Path::Direct(Store::Cached), order);
            if is_fast(&tiling) {
                return tiling;
            }
        } else if streams {
            // Some permutations have whole lines in longer runs only.
            for bytes in [[512, 256], [2048, 64]] {
                let tiling = Tiling::of(shape, units, bytes, Path::Direct(Store::Streamed), order);
                if is_fast(&tiling) && tiling.writes_whole_lines(shape, operands) {
                    return tiling;
                }
            }
        }
        let along_dst = if buffers && !streams { 512 } else { 1024 };
        Tiling::of(shape, units, [along_dst, 256], Path::Buffered, order)
    }

    /// Tiles of so many bytes of source cells along destination and source.
    fn of(shape: &Shape, units: [usize; 2], bytes: [usize; 2], path: Path, order: Order) -> Self {
        let cells = bytes.map(|bytes| (bytes / shape.src_cell).clamp(SHORT, MAX_RUN));
        let [mut dst, mut src] = runs(shape, units, cells);
        // If the source's run did not reach what was wanted, it has an end as well.
        if dst.cells() < cells[0] && src.cells() >= cells[1] / 2 {
            let longer = (cells[0] * cells[1] / dst.cells()).min(MAX_RUN);
            [dst, src] = runs(shape, units, [cells[0], longer]);
        }
        Tiling { dst, src, path, order }
    }

    /// Whether the rows of either operand lie at one distance.
    fn is_even(&self) -> bool {
        self.dst.len == 1 && self.src.len == 1
    }

    /// Whether the pieces of the destination that tiles write are made up of whole lines, but for the ends of rows.
    fn writes_whole_lines(&self, shape: &Shape, operands: &Operands) -> bool {
        let loops = shape.loops();
        let is_whole = |bytes: isize| bytes.unsigned_abs().is_multiple_of(LINE);
        let others = |runs: &[&Run]| {
            (0..loops.len()).filter(|&i| !runs.iter().any(|r| r.contains(i))).all(|i| is_whole(loops[i].dst))
        };
        let ahead = to_line(operands.dst.wrapping_offset(shape.start[0]));
        let last = loops[self.dst.last()];
        let is_cut = self.dst.turns < last.extent;
        // Even tiles are shifted to where lines start.
        let in_lines = (ahead == 0 || self.is_even() && ahead.is_multiple_of(shape.dst_cell))
            && (!is_cut || is_whole(last.dst * self.dst.turns as isize))
            && others(&[&self.dst]);
        // Or half lines that follow one another along the source.
        let half = (self.dst.cells() * shape.dst_cell) as isize;
        let in_pairs = self.is_even()
            && ahead == 0
            && !is_cut
            && 2 * half == LINE as isize
            && loops[self.src.last()].dst == half
            && self.src.turns.is_multiple_of(2)
            && others(&[&self.dst, &self.src]);
        in_lines || in_pairs
    }
}

/// The cells of a run that a tile takes, `before` and `after` of which there are others: shifted to where lines start,
/// which is `to_line(i)` cells after cell `i`. So no tile shares a line with another.
fn shifted([before, turns, after]: [usize; 3], to_line: impl Fn(usize) -> usize) -> Range<usize> {
    let end = turns + if after > 0 { to_line(turns).min(after) } else { 0 };
    let start = if before > 0 { to_line(0).min(end) } else { 0 };
    start..end
}

/// # Safety
/// As for [`crate::backend::run`], and the problem was accepted.
pub(in crate::backend) unsafe fn run(shape: &Shape, operands: Operands, machine: Machine) -> Result<()> {
    let Some((d, s)) = shape.crossed_units() else { return Ok(()) };
    let converts = tile::convert::<Even, Even>(shape.transform, Store::Cached, machine.isa).is_some();
    let tiling = &Tiling::new(shape, [d, s], &operands, converts);
    let loops = shape.loops();
    // SAFETY: handed on; each operand's rows are where the loops of the other's run put them.
    unsafe {
        if tiling.is_even() {
            let (dst_rows, src_rows) = (Even(loops[s].dst), Even(loops[d].src));
            return Tiles { shape, operands, machine, tiling, dst_rows, src_rows }.run();
        }
        let (mut dst_rows, mut src_rows) = (Offsets::none(), Offsets::none());
        dst_rows.fill(&tiling.src, shape, |l| l.dst);
        src_rows.fill(&tiling.dst, shape, |l| l.src);
        let (dst_rows, src_rows) = (dst_rows.get(), src_rows.get());
        Tiles { shape, operands, machine, tiling, dst_rows, src_rows }.run()
    }
}

/// A transform, its tiling, and where the rows of a tile lie in either operand.
struct Tiles<'a, R> {
    shape: &'a Shape<'a>,
    operands: Operands,
    machine: Machine,
    tiling: &'a Tiling,
    dst_rows: R,
    src_rows: R,
}

impl<R: Rows + Sync> Tiles<'_, R> {
    /// # Safety
    /// As for [`run`](fn@run).
    unsafe fn run(&self) -> Result<()> {
        // SAFETY: handed on.
        unsafe {
            match self.tiling.path {
                Path::Direct(Store::Cached) => self.cached(),
                Path::Direct(Store::Streamed) => self.streamed(),
                Path::Buffered => self.buffered(),
            }
        }
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
        self.grid(Along::Dst).run(self.machine, self.shape.bytes(), self.operands, |tile| {
            let (rows, columns) = (tile.extents[1] * dst.whole, tile.extents[0] * src.whole);
            let matrix = Matrix { order: self.tiling.order, ..self.matrix(&tile, rows, columns) };
            // SAFETY: every cell of the tile belongs to the nest; crossed operands are never in place.
            unsafe { transpose(matrix) }
        })
    }

    /// Transposes tiles and streams the registers, but for the ends of rows that have no whole line.
    ///
    /// # Safety
    /// As for [`run`](fn@run); the tiling writes whole lines.
    unsafe fn streamed(&self) -> Result<()> {
        let cells = [self.shape.dst_cell, self.shape.src_cell];
        let [stream, write] = [Store::Streamed, Store::Cached].map(|store| self.direct(store));
        self.grid(Along::Src).run(self.machine, self.shape.bytes(), self.operands, |tile| {
            let dst_line = |i: usize| to_line(tile.dst.wrapping_add(i * cells[0])) / cells[0];
            let src_line = |i: usize| to_line(tile.src.wrapping_add(i * cells[1])) / cells[1];
            let [rows, columns] = self.sides(&tile, [&dst_line, &src_line]);
            let whole = self.matrix(&tile, rows.end, columns.end);
            let next = self.next(&tile, rows.clone(), &columns);
            let order = if columns.len() <= NEAR_PAGES { Order::AlongSrc } else { self.tiling.order };
            let first_line = (rows.start + dst_line(rows.start)).min(rows.end);
            // SAFETY: as above; a tile is shifted by as much as the next one starts later, and its lines start at
            // `first_line`.
            unsafe {
                if first_line > rows.start {
                    write(whole.part(rows.start..first_line, columns.clone(), cells));
                }
                stream(Matrix { next, order, ..whole.part(first_line..rows.end, columns, cells) });
            }
        })
    }

    /// Transposes tiles into a buffer whose rows are those of the destination, and writes these.
    ///
    /// # Safety
    /// As for [`run`](fn@run).
    unsafe fn buffered(&self) -> Result<()> {
        let &Tiles { shape, machine, dst_rows, src_rows, .. } = self;
        let (dst_cell, src_cell) = (shape.dst_cell, shape.src_cell);
        let mut output = Output::new(shape, machine);
        let mut transpose = tile::transpose::<Even, R>(src_cell, Store::Cached, machine.isa);
        // Bytes of a cell in the buffer.
        let mut cell = src_cell;
        if output.streams()
            && has_lines(shape, [&self.tiling.dst, &self.tiling.src])
            && let Some(converts) = tile::convert::<Even, R>(shape.transform, Store::Cached, machine.isa)
        {
            (transpose, output, cell) = (converts, output.of_results(), dst_cell);
        }
        let buffers = Buffers::default();
        self.grid(Along::Src).run(machine, shape.bytes(), self.operands, |tile| {
            // SAFETY: only called with columns of the tile.
            let row = |j: usize| unsafe { dst_rows.at(j) };
            let cells = tile.extents[0] * self.tiling.dst.whole;
            let follows = |j: usize| row(j) == row(j - 1) + (cells * dst_cell) as isize;
            // Rows that follow one another in the destination do so in the buffer and are written together. Others are
            // written a few at a time, and keep a distance that is no power of two, so as not to share cache sets.
            let joined = tile.extents[1] * self.tiling.src.whole > 1 && follows(1);
            // What is streamed starts and ends on a line; rows differ in where, so as many cells more are read.
            let shifts = output.streams() && !joined && self.tiling.is_even();
            let most = |_: usize| if shifts { LINE / dst_cell - 1 } else { 0 };
            let src_line = |i: usize| to_line(tile.src.wrapping_add(i * src_cell)) / src_cell;
            let [Range { end: rows, .. }, columns] = self.sides(&tile, [&most, &src_line]);
            let whole = joined || !output.streams() && self.tiling.order == Order::AlongSrc;
            let order = if whole { self.tiling.order } else { Order::AlongDst };
            let strip = if whole { columns.len() } else { (LINE / narrower(shape)).min(columns.len()) };
            let pitch = if joined { rows * cell } else { (rows * cell).next_multiple_of(LINE) + LINE };
            buffers.with(pitch * strip, |buffer| {
                let mut first = columns.start;
                while first < columns.end {
                    // Strips start on a line of the source, but for the first one. The last one overlaps the one before it.
                    // Each column is written once.
                    let start = first.min(columns.end - strip);
                    let end = start + strip;
                    let in_line =
                        if joined { 0 } else { (LINE / src_cell - src_line(start)) % (LINE / src_cell) };
                    let next = if end == columns.end || in_line >= strip { end } else { end - in_line };
                    // The strips share what is to be fetched.
                    let share = |column: usize| rows * (column - columns.start) / columns.len();
                    let ahead = if output.streams() {
                        self.next(&tile, share(first)..share(next), &columns)
                    } else {
                        Next::none(src_rows)
                    };
                    let whole = Matrix {
                        dst: buffer.wrapping_offset(-(pitch as isize * start as isize)),
                        src: tile.src,
                        rows,
                        columns: end,
                        dst_rows: Even(pitch as isize),
                        src_rows,
                        next: Next::none(src_rows),
                        order,
                        scaling: shape.transform.scaling,
                    };
                    // SAFETY: every cell of the tile belongs to the nest, and its cells fit the buffer.
                    unsafe {
                        transpose(Matrix {
                            next: ahead,
                            ..whole.part(0..rows, start..end, [cell, src_cell])
                        });
                        while first < next {
                            let (to, from) =
                                (tile.dst.offset(row(first)), buffer.add((first - start) * pitch));
                            if joined {
                                let together = (first + 1..next).take_while(|&j| follows(j)).count() + 1;
                                output.write(to, from, rows * together);
                                first += together;
                                continue;
                            }
                            let dst_line = |i: usize| to_line(to.wrapping_add(i * dst_cell)) / dst_cell;
                            let turns = [tile.before[0], tile.extents[0], tile.after[0]];
                            let part = if shifts { shifted(turns, dst_line) } else { 0..rows };
                            output.write(
                                to.add(part.start * dst_cell),
                                from.add(part.start * cell),
                                part.len(),
                            );
                            first += 1;
                        }
                    }
                }
            });
        })
    }

    /// The cells of a tile along destination and source, those of even tiles shifted to where lines start. The tile is of
    /// a grid along the source.
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

/// A cache line of a buffer, which starts where one of the memory does.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "only its place is used")] [u8; LINE]);

/// Buffers on the heap, for callers may have little stack: one per thread, handed from tile to tile.
#[derive(Default)]
struct Buffers(Mutex<Vec<Vec<Line>>>);

impl Buffers {
    /// Calls `f` with room for `bytes`.
    fn with(&self, bytes: usize, f: impl FnOnce(*mut u8)) {
        let spare = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = spare().pop().unwrap_or_default();
        // A panic becomes an error of the call; there is no other way out of a kernel.
        buffer.try_reserve_exact(bytes.div_ceil(LINE)).expect("memory for a tile");
        f(buffer.as_mut_ptr().cast());
        spare().push(buffer);
    }
}
