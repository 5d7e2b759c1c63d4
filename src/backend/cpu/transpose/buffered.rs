//! Transposes whose registers have no whole lines of the destination, and those with conversions
//! that have no kernel of their own: through a buffer whose rows are those of the destination.
//!
//! Lines to be streamed leave the buffer soon, some of each row at a time, so that memory reads and
//! writes at once, not in alternation; or they are put together in registers, where the processor
//! can do so.

use std::ops::Range;

use super::tiling::{has_lines, narrower};
use super::{Along, Buffer, Tiles, shifted};
use crate::backend::cpu::grid::Tile;
use crate::backend::cpu::output::{self, Output};
use crate::backend::cpu::stream::{self, LINE, Stream, Streams, Stretch, fetch, fetch_run, to_line};
use crate::backend::cpu::tile::{self, Ahead, Carry, Even, Matrix, Next, Order, RowStarts, Store, Transpose};
use crate::error::Result;

/// Bytes of each row that are put together before they are streamed, unless cells are so narrow
/// that blocks have more.
const PIECE_BYTES: usize = 2 * LINE;

/// The same for rows that follow one another: of all of them.
const STRIP_BYTES: usize = 4 << 10;

/// Bytes of columns between the one that is written and the one whose lines are fetched meanwhile.
const BYTES_AHEAD: usize = 8 << 10;

/// What the tiles of a transform have in common.
struct Buffered<'a, R> {
    tiles: &'a Tiles<'a, R>,
    transpose: Transpose<Even, R>,
    /// What does without the buffer, if there is anything.
    carry: Option<Carry<R, R>>,
    output: Output,
    /// Bytes of a cell in the buffer.
    cell: usize,
    /// Whether lines of the destination are read, from beyond the caches, before they are written.
    reads_dst: bool,
}

/// What is transposed of a tile.
struct Cells<'a> {
    tile: &'a Tile<2>,
    rows: usize,
    /// The rows of the destination.
    columns: Range<usize>,
    /// Whether what is written is shifted to where lines start, a little less than the rows that
    /// are transposed.
    shifts: bool,
}

impl<R: RowStarts + Sync> Tiles<'_, R> {
    /// Transposes tiles into a buffer, and writes its rows.
    ///
    /// # Safety
    /// As for [`run`](super::run).
    pub(super) unsafe fn buffered(&self, store: Store) -> Result<()> {
        let &Tiles { shape, machine, .. } = self;
        let mut output = Output::new(shape, machine);
        if store == Store::Cached {
            output = output.through_caches();
        }
        let mut transpose = tile::transpose::<Even, R>(shape.src_cell, Store::Cached, machine.isa);
        let mut cell = shape.src_cell;
        let mut carry = tile::carry(cell, machine.isa);
        if output.streams()
            && has_lines(shape, [&self.tiling.dst, &self.tiling.src])
            && let Some(converts) = tile::convert::<Even, R>(shape.transform, Store::Cached, machine.isa)
        {
            (transpose, output, cell) = (converts, output.of_results(), shape.dst_cell);
            carry = tile::carry_converted(shape.transform, machine.isa);
        }
        let reads_dst = !output.streams() && output::is_beyond(shape);
        let buffered = Buffered { tiles: self, transpose, carry, output, cell, reads_dst };
        let (grid, bytes) = (self.grid(Along::Src), shape.bytes());
        // The largest is that of rows which follow one another: a whole tile.
        let [rows, columns] = self.most();
        let pitch = (rows * cell).next_multiple_of(LINE) + LINE;
        let room = LINE + pitch * columns;
        grid.run_with(machine, bytes, room, self.operands, |at, tile| {
            // SAFETY: the tile belongs to the nest, and the buffer has room for it.
            unsafe { buffered.tile(&tile, Buffer { at, bytes: room }) }
        })
    }
}

impl<R: RowStarts + Sync> Buffered<'_, R> {
    /// # Safety
    /// The cells of the tile belong to the nest.
    unsafe fn tile(&self, tile: &Tile<2>, buffer: Buffer) {
        let &Tiles { shape, tiling, .. } = self.tiles;
        let extents = [tile.extents[0] * tiling.dst.whole, tile.extents[1] * tiling.src.whole];
        let joined = extents[1] > 1 && self.follows(extents[0], 1);
        // What is streamed starts and ends on a line; rows differ in where, so as many cells more
        // are read.
        let shifts = self.output.streams() && !joined && tiling.is_even();
        let most = |_: usize| if shifts { LINE / shape.dst_cell } else { 0 };
        let src_line = |i: usize| self.to_src_line(tile, i);
        let [Range { end: rows, .. }, columns] = self.tiles.sides(tile, [&most, &src_line]);
        let cells = Cells { tile, rows, columns, shifts };
        // SAFETY: the tile belongs to the nest, and the buffer has room for it.
        unsafe {
            match (self.output.only_streams(), self.carry) {
                _ if joined => self.together(&cells, buffer),
                (Some(streams), Some(carry)) if cells.rows * self.cell >= LINE => {
                    self.carried(&cells, carry, streams.copy)
                }
                (Some(streams), _) => self.piece_by_piece(&cells, streams, buffer),
                (None, _) => self.row_by_row(&cells, buffer),
            }
        }
    }

    /// Cells from column `i` to where a line of the source starts, in the first row.
    fn to_src_line(&self, tile: &Tile<2>, i: usize) -> usize {
        let cell = self.tiles.shape.src_cell;
        to_line(tile.src.wrapping_add(i * cell)) / cell
    }

    /// Whether column `j` follows the one before it in the destination, if columns have `rows`
    /// rows.
    fn follows(&self, rows: usize, j: usize) -> bool {
        // SAFETY: only called with columns of a tile.
        let [before, here] = [j - 1, j].map(|j| unsafe { self.tiles.dst_rows.at(j) });
        here == before + (rows * self.tiles.shape.dst_cell) as isize
    }

    /// Transposes some rows and columns into the buffer at `dst`, which has `pitch` bytes from
    /// column to column.
    ///
    /// # Safety
    /// The cells have them, and the buffer room for them.
    unsafe fn transpose(
        &self, cells: &Cells, (rows, columns): (Range<usize>, Range<usize>), (dst, pitch): (*mut u8, usize),
        order: Order, next: Next<R>,
    ) {
        let whole = self.tiles.matrix(cells.tile, rows.end, columns.end).to(dst, Even(pitch as isize));
        let bytes = [self.cell, self.tiles.shape.src_cell];
        // SAFETY: the cells have these rows and columns, and the buffer room for them.
        unsafe {
            let part = whole.part(rows, columns, bytes);
            part.assert_reads_from(&self.tiles.held[1], self.tiles.shape.src_cell);
            (self.transpose)(Matrix { dst, next, order, ..part });
        }
    }

    /// What is to be fetched of the next tile while a part of this one, out of `whole`, is in work.
    fn ahead(&self, cells: &Cells, part: Range<usize>, whole: usize) -> Next<R> {
        if !self.output.streams() && !self.reads_dst {
            return Next::none(self.tiles.src_rows);
        }
        let share = |done: usize| cells.rows * done / whole;
        self.tiles.next(cells.tile, share(part.start)..share(part.end), &cells.columns)
    }

    /// Rows that follow one another in the destination, at least some of them: they do so in the
    /// buffer, and are written together.
    ///
    /// # Safety
    /// As for [`tile`](Self::tile).
    unsafe fn together(&self, cells: &Cells, buffer: Buffer) {
        let &Buffered { tiles, output, cell, .. } = self;
        let Cells { tile, rows, columns, .. } = cells;
        let (rows, streams) = (*rows, output.only_streams());
        let pitch = rows * cell;
        let line = LINE / narrower(tiles.shape);
        let strip =
            if streams.is_some() { (STRIP_BYTES / pitch / line).max(1) * line } else { columns.len() };
        let follows = |j: usize| j < columns.end && self.follows(rows, j);
        let buffer = buffer.room(LINE + columns.len().min(2 * strip) * pitch).wrapping_add(LINE);
        // What is being streamed, and how many of its bytes have come.
        let (mut stretch, mut come) = (Stretch::NONE, 0);
        let mut first = columns.start;
        while first < columns.end {
            let end = if columns.end - first < 2 * strip { columns.end } else { first + strip };
            let ahead = self.ahead(cells, first - columns.start..end - columns.start, columns.len());
            let nothing = Next::none(tiles.src_rows);
            let (ahead, later) = if streams.is_some() { (nothing, ahead) } else { (ahead, nothing) };
            let mut later = Ahead::of(later);
            let share = later.lines().div_ceil(stream::parts((end - first) * pitch));
            // SAFETY: every cell of the tile belongs to the nest; the buffer has room for a line
            // and two strips.
            unsafe {
                let order = tiles.tiling.order;
                self.transpose(cells, (0..rows, first..end), (buffer, pitch), order, ahead);
                let mut piece = buffer;
                while first < end {
                    let to = tile.dst.offset(tiles.dst_rows.at(first));
                    let some = (first + 1..end).take_while(|&j| follows(j)).count() + 1;
                    let n = some * pitch;
                    tiles.held[0].assert_holds(to, some * rows * tiles.shape.dst_cell);
                    first += some;
                    if let Some(Streams { copy, .. }) = streams {
                        if come == 0 {
                            stretch = Stretch { dst: to, from: 0, end: 0 };
                        }
                        stretch.end += n;
                        let is_last = !follows(first);
                        let copy = |to, from, n| stream::in_parts(copy, to, from, n, || later.fetch(share));
                        stretch.write(copy, piece, come, n, is_last);
                        come = if is_last { 0 } else { stretch.end };
                        if !is_last {
                            // The next piece is that of the next strip.
                            buffer.sub(LINE).copy_from(piece.sub(LINE), LINE);
                        }
                    } else {
                        output.write(to, piece, some * rows);
                    }
                    piece = piece.wrapping_add(n);
                }
            }
            later.fetch(usize::MAX);
        }
    }

    /// Columns that are transposed at a time, and those of them that are written: `strip` of them,
    /// from where a line of the source starts, but for the first. The last ones overlap those
    /// before them, but each column is written once.
    fn strips<'c>(
        &self, cells: &'c Cells, strip: usize,
    ) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + use<'_, 'c, R> {
        let (columns, line) = (&cells.columns, LINE / self.tiles.shape.src_cell);
        let mut first = columns.start;
        std::iter::from_fn(move || {
            if first == columns.end {
                return None;
            }
            let start = first.min(columns.end - strip);
            let end = start + strip;
            let in_line = (line - self.to_src_line(cells.tile, start)) % line;
            let next = if end == columns.end || in_line >= strip { end } else { end - in_line };
            let written = first..next;
            first = next;
            Some((start..end, written))
        })
    }

    /// What is written of a column.
    fn stretch(&self, cells: &Cells, j: usize) -> Stretch {
        let (tile, tiles) = (cells.tile, self.tiles);
        let dst_cell = tiles.shape.dst_cell;
        // SAFETY: only called with columns of the tile.
        let dst = unsafe { tile.dst.offset(tiles.dst_rows.at(j)) };
        let part = if cells.shifts {
            let turns = [tile.before[0], tile.extents[0], tile.after[0]];
            shifted(turns.map(|turns| turns * dst_cell), |i| to_line(dst.wrapping_add(i)))
        } else {
            0..cells.rows * dst_cell
        };
        tiles.held[0].assert_holds(dst.wrapping_add(part.start), part.len());
        Stretch { dst, from: part.start, end: part.end }
    }

    /// Whether what is written of all columns starts in the first line that is read, and whether it
    /// ends in the last one, which is whole.
    fn in_lines(&self, cells: &Cells) -> [bool; 2] {
        let (tile, cell) = (cells.tile, self.cell);
        let ends = tile.after[0] * cell >= LINE && (tile.extents[0] * cell).is_multiple_of(LINE);
        [tile.before[0] > 0, ends].map(|is_inside| cells.shifts && is_inside)
    }

    /// Streams cells that need no more conversion as they leave the registers, which hold a line of
    /// rows at least.
    ///
    /// # Safety
    /// As for [`tile`](Self::tile).
    unsafe fn carried(&self, cells: &Cells, carry: Carry<R, R>, copy: Stream) {
        let &Cells { tile, rows, ref columns, .. } = cells;
        let whole = self.tiles.matrix(tile, rows, columns.end);
        let written = |j| {
            let Stretch { from, end, .. } = self.stretch(cells, columns.start + j);
            from..end
        };
        // SAFETY: every cell of the tile belongs to the nest; what is written of a column is
        // shifted by less than a line.
        unsafe {
            let part = whole.part(0..rows, columns.clone(), [self.cell, self.tiles.shape.src_cell]);
            part.assert_reads_from(&self.tiles.held[1], self.tiles.shape.src_cell);
            carry(Matrix { next: self.tiles.next(tile, 0..rows, columns), ..part }, &written, copy);
        }
    }

    /// Streams cells that need no more conversion, some lines of each column at a time.
    ///
    /// # Safety
    /// As for [`tile`](Self::tile).
    unsafe fn piece_by_piece(&self, cells: &Cells, streams: Streams, buffer: Buffer) {
        let &Buffered { tiles, cell, .. } = self;
        let &Cells { rows, ref columns, .. } = cells;
        let line = LINE / narrower(tiles.shape);
        let strip = line.min(columns.len());
        let piece = line.max(PIECE_BYTES / cell);
        let pitch = LINE + (rows.min(2 * piece) * cell).next_multiple_of(LINE);
        let [from_line, to_line] = self.in_lines(cells);
        let buffer = buffer.room(pitch * strip).wrapping_add(LINE);
        let mut stretches = [Stretch::NONE; LINE];
        for (read, written) in self.strips(cells, strip) {
            let stretches = &mut stretches[..written.len()];
            for (stretch, j) in stretches.iter_mut().zip(written.clone()) {
                *stretch = self.stretch(cells, j);
            }
            let pieces = buffer.wrapping_add((written.start - read.start) * pitch);
            let share = |row| (written.start - columns.start) * rows + written.len() * row;
            let mut first = 0;
            while first < rows {
                let end = if rows - first < 2 * piece { rows } else { first + piece };
                let ahead = self.ahead(cells, share(first)..share(end), columns.len() * rows);
                let (begin, n) = (first * cell, (end - first) * cell);
                let [is_first, is_last] = [first == 0, end == rows];
                // SAFETY: every cell of the tile belongs to the nest; the buffer has room for a
                // line and two pieces of each column.
                unsafe {
                    self.transpose(
                        cells,
                        (first..end, read.clone()),
                        (buffer, pitch),
                        Order::AlongDst,
                        ahead,
                    );
                    if is_first && !from_line || is_last && !to_line {
                        for (i, stretch) in stretches.iter().enumerate() {
                            let copy = |to, from, n| (streams.copy)(to, from, n);
                            stretch.write(copy, pieces.wrapping_add(i * pitch), begin, n, is_last);
                        }
                    } else {
                        (streams.pieces)(stretches, pieces, pitch, begin, n / LINE);
                    }
                }
                first = end;
            }
        }
    }

    /// Asks for the lines that column `j` is written to, or, behind the last one, a column of the
    /// next tile.
    fn fetch_column(&self, cells: &Cells, j: usize) {
        let &Cells { tile, rows, ref columns, .. } = cells;
        let (base, j) = if j < columns.end { (tile.dst, j) } else { (tile.next_dst, j - columns.len()) };
        // SAFETY: a column of a tile.
        let column = base.wrapping_offset(unsafe { self.tiles.dst_rows.at(j) }).cast_const();
        let bytes = rows * self.tiles.shape.dst_cell;
        fetch_run(column, bytes);
        fetch(column.wrapping_add(bytes - 1));
    }

    /// Converts columns on the way from the buffer.
    ///
    /// # Safety
    /// As for [`tile`](Self::tile).
    unsafe fn row_by_row(&self, cells: &Cells, buffer: Buffer) {
        let &Buffered { tiles, output, cell, .. } = self;
        let shape = tiles.shape;
        let &Cells { rows, ref columns, .. } = cells;
        let strip = (LINE / narrower(shape)).min(columns.len());
        // Columns keep a distance that is no power of two, so as not to share cache sets.
        let pitch = (rows * cell).next_multiple_of(LINE) + LINE;
        let buffer = buffer.room(pitch * strip);
        // What is streamed may have been shifted out of the tile altogether.
        let columns_ahead = (BYTES_AHEAD / (rows * shape.dst_cell).max(1)).min(columns.len());
        for (read, written) in self.strips(cells, strip) {
            let done = written.start - columns.start..written.end - columns.start;
            let ahead = self.ahead(cells, done, columns.len());
            // SAFETY: every cell of the tile belongs to the nest, and those of the strip fit the
            // buffer.
            unsafe {
                self.transpose(cells, (0..rows, read.clone()), (buffer, pitch), Order::AlongDst, ahead);
                let from = |j: usize| buffer.add((j - read.start) * pitch);
                for j in written {
                    if self.reads_dst {
                        self.fetch_column(cells, j + columns_ahead);
                    }
                    let Stretch { dst, from: first, end } = self.stretch(cells, j);
                    let [first, end] = [first, end].map(|bytes| bytes / shape.dst_cell);
                    output.write(dst.add(first * shape.dst_cell), from(j).add(first * cell), end - first);
                }
            }
        }
    }
}
