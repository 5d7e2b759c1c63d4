//! How a transpose is cut into tiles, and on which path their cells go: the cost model.
//!
//! A tile is a run of the destination times a run of the source. A run is made of as many loops as
//! it takes to fill some cache lines: of the pixels of an image one loop in part, of a permutation
//! of eight short dimensions perhaps three whole ones and a part of the fourth.

use super::set_conflicts::{Pressure, SetConflicts};
use crate::backend::Operands;
use crate::backend::cpu::output;
use crate::backend::cpu::shape::{Loop, Shape};
use crate::backend::cpu::stream::{LINE, to_line};
use crate::backend::cpu::tile::{Order, Store};
use crate::layout::MAX_AXES;

/// Shorter sides than this have no whole register in them.
pub(super) const SHORT: usize = 4;

/// The longest run of a tile, in cells.
pub(super) const MAX_RUN: usize = 1024;

/// Rows and pieces of rows with fewer bytes are short: their ends count.
const SHORT_ROW: usize = 512;

/// Columns of a tile whose destination's rows conflict: they fill the lines of the source, and
/// leave room for long rows.
const CONFLICTING_COLUMNS: usize = 64;

/// Columns of a tile that is copied to be converted: long enough for a call per row.
const CONVERTED_COLUMNS: usize = 256;

/// What the first-level cache of most processors holds, or a little less.
const FIRST_LEVEL_BYTES: usize = 32 << 10;

/// Loops along which one operand is contiguous, innermost first. All but the last lie inside a tile
/// whole.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// Indices of the loops.
    pub loops: [u8; MAX_AXES],
    pub len: usize,
    /// Cells of the whole loops.
    pub whole: usize,
    /// Turns of the last loop.
    pub turns: usize,
}

impl Run {
    pub fn cells(&self) -> usize {
        self.whole * self.turns
    }

    /// The loop that a tile may cut.
    pub fn last(&self) -> usize {
        usize::from(self.loops[self.len - 1])
    }

    pub fn contains(&self, i: usize) -> bool {
        self.loops[..self.len].contains(&(i as u8))
    }

    /// Whether loop `i` lies inside a tile whole.
    pub fn has_whole(&self, i: usize) -> bool {
        self.loops[..self.len - 1].contains(&(i as u8))
    }
}

/// The runs of destination and source, grown from the loops `units` until they have `targets` cells
/// or nothing continues them. The one that is further from its target grows first, as both may want
/// the same loop. Pieces of loops are whole lines, unless the tile has to fit the first-level
/// cache.
pub(super) fn runs(shape: &Shape, units: [usize; 2], targets: [usize; 2], fits: bool) -> [Run; 2] {
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
    for (k, run) in runs.iter_mut().enumerate() {
        let wanted = (targets[k] / run.whole).max(1);
        let several = run.whole > 1;
        let line = if several || fits { 1 } else { LINE / [shape.dst_cell, shape.src_cell][k] };
        // A line of a source with some cells more is slow.
        let most = match k {
            1 if several => wanted,
            _ if fits => (wanted + wanted / 4).min(MAX_RUN / run.whole),
            _ => MAX_RUN / run.whole,
        };
        run.turns = evenly(run.turns, wanted, most, line);
        debug_assert!(run.cells() <= MAX_RUN, "the table of a run has room for it");
    }
    runs
}

/// Turns of the parts that a loop is cut into, about `wanted` and at most `most`: all alike, for a
/// small one that is left over costs more than its cells. Long loops have enough others. Cuts are
/// multiples of `line`.
fn evenly(turns: usize, wanted: usize, most: usize, line: usize) -> usize {
    if turns >= 4 * wanted {
        return wanted;
    }
    let part = |parts: usize| turns.div_ceil(parts).next_multiple_of(line).min(turns);
    let parts = ((turns + wanted / 2) / wanted).max(1);
    let near = part(parts);
    if near <= most { near } else { part(turns.div_ceil(wanted)) }
}

/// Whether all cells stay in the first-level cache, in whatever order they are visited.
pub(super) fn is_near(shape: &Shape) -> bool {
    shape.bytes() <= FIRST_LEVEL_BYTES
}

/// Bytes of the narrower cells, which are those that are transposed.
pub(super) fn narrower(shape: &Shape) -> usize {
    shape.src_cell.min(shape.dst_cell)
}

/// Whether the runs of a tile have whole lines of the narrower cells.
pub(super) fn has_lines(shape: &Shape, runs: [&Run; 2]) -> bool {
    runs.iter().all(|run| run.cells() * narrower(shape) >= LINE)
}

/// Whether the rows of the destination are short, and have gaps between them inside lines. The ends
/// of such rows go through the caches in any case, and writing past them beside that is slower than
/// not doing so.
fn has_gaps(shape: &Shape, operands: &Operands) -> bool {
    let loops = shape.loops();
    let mut row = shape.dst_cell as isize;
    let mut inside = 0;
    while let Some(l) = loops.iter().find(|l| l.dst == row) {
        row *= l.extent as isize;
        inside += 1;
    }
    let start = operands.dst.wrapping_offset(shape.start[0]).addr() as isize;
    let in_lines = loops.iter().map(|l| l.dst).filter(|&step| step >= row).chain([row, start]);
    inside < loops.len()
        && row < SHORT_ROW as isize
        && !in_lines.into_iter().all(|bytes| bytes % LINE as isize == 0)
}

/// What the transposes of this processor can do.
#[derive(Clone, Copy)]
pub(super) struct Kernels {
    /// Convert the cells of this transform in the registers.
    pub converts: bool,
    /// Do so no slower than row by row, where cells become narrower.
    pub narrows: bool,
    /// Visit blocks of its cells in groups.
    pub has_groups: bool,
    /// Do so where the source has less than a line of columns.
    pub cuts: bool,
    /// Write whole lines even where a tile has less than a line of rows or columns.
    pub writes_lines: bool,
}

/// The order of blocks that can be staged together, for rows of destination and source that are
/// `strides` bytes apart. In a group, several lines of each row of the destination are written
/// together, so that the stores under way belong to few rows, and several lines of each row of the
/// source are read.
fn grouped(shape: &Shape, strides: [isize; 2]) -> Order {
    let cell = narrower(shape);
    let lines = SetConflicts::lines_to_write(strides[0]);
    let conflicts = SetConflicts::of_block(strides[1]).is_tight();
    // A line of cells that become narrower is several of the source.
    let narrows = shape.src_cell > cell;
    let across = match conflicts {
        true => 4,
        false if narrows && lines == 1 => return Order::AlongSrc,
        false if narrows => 1,
        false => 2,
    };
    // Blocks leave room in the first-level cache for what is read and written meanwhile.
    let blocks = FIRST_LEVEL_BYTES / 2 * cell / (LINE * LINE);
    let down = lines.max(blocks / across);
    Order::InGroups([down, across.min(2 * blocks / down).max(1)])
}

/// How a transform is cut into tiles.
pub(super) struct Tiling {
    pub dst: Run,
    pub src: Run,
    pub path: WriteBack,
    /// Whose rows are followed to their end first, inside a tile.
    pub order: Order,
}

/// How the cells of a tile reach the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteBack {
    /// From the registers, converted in them.
    Direct(Store),
    /// Put together, and converted, on the way: in a buffer whose rows are those of the
    /// destination, or line by line.
    Buffered(Store),
    /// From the registers, a few rows of the destination at a time, for they conflict; out of a
    /// copy of the tile, whose cells are those of the destination, if it `copies`.
    Conflicting { copies: bool },
    /// From the registers, out of a copy of the tile whose cells are those of the destination.
    Converted,
}

impl Tiling {
    /// The cost model. Memory moves in lines, and what a tile pays beyond its bytes are lines that
    /// it shares with its neighbours and pages that it visits for little; and a tile must stay
    /// inside the first-level cache or close to it. So the bytes of a tile are given, its sides by
    /// what they are good for. A destination whose run is short lies one run after another: there
    /// the source's is longer instead.
    pub fn new(
        shape: &Shape, units: [usize; 2], operands: &Operands, kernels: Kernels, threads: usize,
    ) -> Self {
        if output::streams(shape) && !has_gaps(shape, operands) {
            Tiling::streamed(shape, units, operands, kernels)
        } else {
            Tiling::fetched(shape, units).unwrap_or_else(|| Tiling::cached(shape, units, kernels, threads))
        }
    }

    /// Destinations beyond the caches whose lines are read before they are written, ahead of that:
    /// pieces of rows leave a buffer one by one, if they are lines at least.
    fn fetched(shape: &Shape, units: [usize; 2]) -> Option<Self> {
        let tiling =
            Tiling::of(shape, units, [1024, 256], WriteBack::Buffered(Store::Cached), Order::AlongDst);
        (output::is_beyond(shape) && tiling.dst.cells() * shape.dst_cell >= LINE).then_some(tiling)
    }

    /// - In the caches both operands are visited in long pieces, as long as there is a tile for
    ///   each thread.
    /// - Where the rows of an operand conflict in few cache sets, lines that come with their
    ///   neighbours are gone before these are needed. Blocks that are staged go in groups then.
    ///   Else few rows of a destination are written in alternation, to the end of a tile that stays
    ///   in the first-level cache, for it is read several times; of a source, few rows are
    ///   followed.
    fn cached(shape: &Shape, units: [usize; 2], kernels: Kernels, threads: usize) -> Self {
        let tiling = |bytes, path, order| Tiling::of(shape, units, bytes, path, order);
        let [along_dst, along_src] = units.map(|unit| shape.loops()[unit]);
        let strides = [along_src.dst, along_dst.src];
        let narrows = shape.dst_cell < shape.src_cell && shape.transform.scaling.beta == 0.0;
        let conflicts = || {
            let [dst, src] = strides.map(Pressure::of);
            dst == Pressure::High || dst == Pressure::Some && src == Pressure::High
        };
        let has_lines = || has_lines(shape, runs(shape, units, [LINE; 2], false).each_ref());
        let order = if is_near(shape) {
            Order::AlongSrc
        } else if kernels.has_groups && (kernels.cuts || has_lines() || !conflicts()) {
            grouped(shape, strides)
        } else if (shape.is_move() || narrows || kernels.converts && !kernels.has_groups) && conflicts() {
            return Tiling::conflicting(shape, units);
        } else {
            let [dst, src] = strides.map(|stride| SetConflicts::new(SetConflicts::BLOCK, stride));
            if shape.is_move() && shape.src_cell <= 2 && src.overflows() {
                // The many rows of a block are visited several times.
                return tiling([256, 256], WriteBack::Conflicting { copies: true }, Order::AlongDst);
            }
            if narrower(shape) > 1 && src.is_denser(dst) { Order::AlongSrc } else { Order::AlongDst }
        };
        let in_registers =
            shape.is_move() || kernels.narrows || kernels.converts && matches!(order, Order::InGroups(_));
        let square = |side| tiling([side, side], WriteBack::Direct(Store::Cached), order);
        let is_shared = |t: &Tiling| t.dst.cells() * t.src.cells() * threads <= shape.cells();
        let mut direct = square(1024);
        for side in [512, 256] {
            if !is_shared(&direct) {
                direct = square(side);
            }
        }
        if direct.is_fast(shape, kernels) && (in_registers || !narrows) {
            return direct;
        }
        if narrows {
            return Tiling::converted(shape, units, strides[0], kernels);
        }
        tiling([1024, 256], WriteBack::Buffered(Store::Cached), Order::AlongDst)
    }

    /// A tile that stays in the first-level cache: if its lines do not where they are, or if they
    /// are to be converted, it is copied. A line of each row is too short for that if rows
    /// conflict, for those that come with it would be lost; and so is a line with some cells more.
    fn conflicting(shape: &Shape, units: [usize; 2]) -> Self {
        let tiling = |columns: usize, copies| {
            let rows = FIRST_LEVEL_BYTES / (columns * shape.dst_cell);
            let bytes = [rows, columns].map(|cells| cells * shape.src_cell);
            Tiling::of(shape, units, bytes, WriteBack::Conflicting { copies }, Order::AlongDst)
        };
        let stride = shape.loops()[units[0]].src;
        let row = |t: &Tiling| t.src.cells() * shape.src_cell;
        let stays = |t: &Tiling| !SetConflicts::of_pieces(t.dst.cells(), stride, row(t)).overflows();
        let narrow = tiling(CONFLICTING_COLUMNS, !shape.is_move());
        if !shape.is_move() || stays(&narrow) {
            return narrow;
        }
        let is_line = row(&narrow) <= LINE && !SetConflicts::of_block(stride).is_tight();
        let least = if is_line { 0 } else { 2 * LINE / shape.src_cell };
        let wide = tiling(CONFLICTING_COLUMNS.max(least), true);
        Tiling { path: WriteBack::Conflicting { copies: !stays(&wide) }, ..wide }
    }

    /// A tile that is converted into a copy, for its cells become narrower, and these are faster to
    /// transpose. Where rows of the source are short it has more of them, and where those of the
    /// destination, `stride` bytes apart, conflict, as many as are written together.
    fn converted(shape: &Shape, units: [usize; 2], stride: isize, kernels: Kernels) -> Self {
        let row = runs(shape, units, [SHORT, CONVERTED_COLUMNS], true)[1].cells().min(CONVERTED_COLUMNS);
        let has_groups = kernels.has_groups && (kernels.cuts || (row * shape.dst_cell).is_multiple_of(LINE));
        let lines = if has_groups { SetConflicts::lines_to_write(stride) } else { 1 };
        let order = if lines > 1 { Order::InGroups([lines, 1]) } else { Order::AlongDst };
        let group = lines * LINE / shape.dst_cell;
        let fit = |cells: usize| FIRST_LEVEL_BYTES / (cells * shape.dst_cell);
        let rows = (fit(row) / group).max(1) * group;
        let bytes = [rows, fit(rows)].map(|cells| cells * shape.src_cell);
        Tiling::of(shape, units, bytes, WriteBack::Converted, order)
    }

    /// - Beyond the caches the source is fetched ahead, a line or more of each row, and what counts
    ///   are the long pieces of the destination: its lines are streamed. That needs whole lines. If
    ///   the registers have those (all rows of the destination start on a line) they are streamed
    ///   as they are.
    /// - Else lines are put together, and the ends of pieces go through the caches: the longer they
    ///   are the better.
    fn streamed(shape: &Shape, units: [usize; 2], operands: &Operands, kernels: Kernels) -> Self {
        let tiling = |bytes, path, order| Tiling::of(shape, units, bytes, path, order);
        let conflicts = SetConflicts::new(SetConflicts::TILE, shape.loops()[units[0]].src).overflows();
        let order = if conflicts { Order::AlongSrc } else { Order::AlongDst };
        // Rows of bytes are many: where they conflict, two lines of each are enough at a time.
        let across = if conflicts && shape.src_cell == 1 { 128 } else { 256 };
        // Some permutations have whole lines in longer runs only.
        let direct = [[512, across], [2048, 64]]
            .map(|bytes| tiling(bytes, WriteBack::Direct(Store::Streamed), order))
            .into_iter()
            .find(|t| {
                t.is_fast(shape, kernels)
                    && t.writes_whole_lines(shape, operands)
                    && t.completes_lines(shape, kernels)
            });
        direct.unwrap_or_else(|| {
            let [square, longer] = [[1024, 256], [2048, 64]]
                .map(|bytes| tiling(bytes, WriteBack::Buffered(Store::Streamed), order));
            let [n, more] = [&square, &longer].map(|t| t.dst.cells() * shape.dst_cell);
            if n < SHORT_ROW && n < more { longer } else { square }
        })
    }

    /// Tiles that hold `bytes` bytes of source cells along destination and source.
    fn of(shape: &Shape, units: [usize; 2], bytes: [usize; 2], path: WriteBack, order: Order) -> Self {
        let cells = bytes.map(|bytes| (bytes / shape.src_cell).clamp(SHORT, MAX_RUN));
        let fits = matches!(path, WriteBack::Conflicting { .. } | WriteBack::Converted);
        let [mut dst, mut src] = runs(shape, units, cells, fits);
        // If the source's run did not reach what was wanted, it has an end as well.
        if dst.cells() < cells[0] && src.cells() >= cells[1] / 2 {
            let longer = (cells[0] * cells[1] / dst.cells()).min(MAX_RUN);
            [dst, src] = runs(shape, units, [cells[0], longer], fits);
        }
        Tiling { dst, src, path, order }
    }

    /// Whether cells that go from register to register keep their speed on the way.
    fn is_fast(&self, shape: &Shape, kernels: Kernels) -> bool {
        shape.is_move() || kernels.converts && has_lines(shape, [&self.dst, &self.src])
    }

    /// Whether lines are whole when they are streamed, or soon: rows that are no longer than a line
    /// follow one another.
    fn completes_lines(&self, shape: &Shape, kernels: Kernels) -> bool {
        kernels.writes_lines
            || kernels.has_groups && has_lines(shape, [&self.dst, &self.src])
            || self.dst.cells() * shape.dst_cell <= LINE
    }

    /// Whether the rows of either operand lie at one distance.
    pub fn is_even(&self) -> bool {
        self.dst.len == 1 && self.src.len == 1
    }

    /// Whether the pieces of the destination that tiles write are made up of whole lines, but for
    /// the ends of rows.
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
