//! Sums that run along the neighbours of both operands, as the gradient of a 1 x 1 filter does over
//! the pixels of planes: vectors are terms of a sum, read where they lie, and nothing is packed or
//! turned. The lanes of a sum are added at the end of every piece, so that terms which cancel out
//! do so before much else is added.
//!
//! No other kernel has this order of sums, so that only sums over all images take this kernel.

use crate::backend::cpu::contract::PARALLEL_THRESHOLD;
use crate::backend::cpu::contract::epilogue::generic::{Outputs, Run, epilogue_outlined};
use crate::backend::cpu::contract::kernel::simd::{Simd, Single};
use crate::backend::cpu::contract::kernel::vector::{FOUR, LANES, Mask, lane_sums};
use crate::backend::cpu::contract::operands::points::{Loop, Loops, OperandOffsets};
use crate::backend::cpu::contract::operands::view::View;
use crate::backend::cpu::contract::problem::{Problem, Ready};
use crate::backend::cpu::threads;
use crate::error::Result;
use crate::ops::contract::Role;

/// Rows of a tile of either operand, whose sums are a register each.
const ROWS: usize = FOUR;
const COLUMNS: usize = 3;

/// Terms of a piece: that of a tile's rows fills half of a first-level cache.
const K_TILE: usize = 512;

/// Terms that lie side by side at least: what a sum costs at its end is a vector's time many times
/// over.
const LONG: usize = 256;

/// Products of rows for each row of either operand up to which packing rows costs too much.
const PACK_THRESHOLD: i64 = 64;

/// Sums that a task keeps at most.
const KEPT: usize = 32 << 10;

/// A contraction along both operands.
pub struct GemmDot<'a> {
    outputs: Outputs<'a>,
    view: View<'a>,
    /// The rows of the operand that has more of them, and those of the other.
    rows: Loop,
    columns: Loop,
    slots: [usize; 2],
    /// The loops of the sum around the innermost, and its terms.
    outer: Loops,
    terms: usize,
    data: [*const f32; 2],
}

// SAFETY: addresses; tasks write disjoint elements.
unsafe impl Sync for GemmDot<'_> {}

/// A tile of sums over a piece: from rows of either operand, so far apart, to sums that are kept,
/// column by column.
type Tile = unsafe fn([*const f32; 2], [isize; 2], usize, *mut f32, bool);

impl<'a> GemmDot<'a> {
    /// `None` for any other contraction.
    pub fn new(problem: &Problem<'a>) -> Option<GemmDot<'a>> {
        let step = problem.step();
        let data = problem.plain_singles()?;
        // With twice the lanes and registers, packing is worth it.
        if !step.is_over_images || problem.isa.has_avx512() {
            return None;
        }
        let only = |role| match &Loops::of(step, role).loops[..] {
            [] => Some(Loop { extent: 1, by: OperandOffsets::default() }),
            &[axis] => Some(axis),
            _ => None,
        };
        let (rows, columns) = (only(Role::M)?, only(Role::N)?);
        let mut outer = Loops::of(step, Role::K);
        let inner = outer.loops.pop()?;
        let along = inner.by.at[1] == 1 && inner.by.at[2] == 1 && inner.extent >= LONG;
        let (m, n) = (rows.extent as i64, columns.extent as i64);
        let (rows, columns, slots) = if m < n { (columns, rows, [2, 1]) } else { (rows, columns, [1, 2]) };
        (along && m * n <= PACK_THRESHOLD * (m + n)).then(|| GemmDot {
            view: problem.view::<Single>(),
            rows,
            columns,
            slots,
            data: slots.map(|slot| data[slot - 1]),
            outer,
            terms: inner.extent,
            outputs: problem.outputs,
        })
    }

    /// The sums of the rows from `first` to `end` with all columns.
    ///
    /// # Safety
    /// As for [`run`](GemmDot::run); there is room for the sums, in whole tiles, and for a line of
    /// results.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
    unsafe fn part(&self, product: usize, [first, end]: [usize; 2], kept: *mut f32, line: *mut f32) {
        let base = self.view.product(product);
        let [slot, other] = self.slots;
        let steps = [self.rows.by.at[slot] as isize, self.columns.by.at[other] as isize];
        let pieces = self.terms.div_ceil(K_TILE);
        let vectors = self.terms.div_ceil(LANES);
        for outer in 0..self.outer.len() {
            let mut place = base;
            place.add(&self.outer.point(outer), 1);
            for piece in 0..pieces {
                // Whole vectors but for the last piece.
                let [begin, next] = [piece, piece + 1].map(|piece| vectors * piece / pieces * LANES);
                let len = next.min(self.terms) - begin;
                let a = self.data[0].wrapping_offset(place.at[slot] as isize + begin as isize);
                let b = self.data[1].wrapping_offset(place.at[other] as isize + begin as isize);
                let (mut to, add) = (kept, outer + piece > 0);
                for row in (first..end).step_by(ROWS) {
                    for column in (0..self.columns.extent).step_by(COLUMNS) {
                        let rows = ROWS.min(end - row);
                        let columns = COLUMNS.min(self.columns.extent - column);
                        let a = a.wrapping_offset(row as isize * steps[0]);
                        let b = b.wrapping_offset(column as isize * steps[1]);
                        // SAFETY: rows and columns of the tile have `len` readable terms, and the
                        // sums have room for a tile.
                        unsafe { TILES[rows - 1][columns - 1]([a, b], steps, len, to, add) };
                        to = to.wrapping_add(ROWS * COLUMNS);
                    }
                }
            }
        }
        // Results leave as neighbours where they are some.
        let (count, across) = (end - first, self.columns.extent.div_ceil(COLUMNS));
        let along_rows = self.rows.by.at[0].abs() <= self.columns.by.at[0].abs() || self.columns.extent == 1;
        let (lines, len, by) = match along_rows {
            true => (self.columns.extent, count, self.rows.by.at),
            false => (count, self.columns.extent, self.columns.by.at),
        };
        for number in 0..lines {
            for i in 0..len {
                let (row, column) = if along_rows { (i, number) } else { (number, i) };
                let tile = row / ROWS * across + column / COLUMNS;
                let at = (tile * COLUMNS + column % COLUMNS) * ROWS + row % ROWS;
                // SAFETY: every tile has written its sums; there is room for the line.
                unsafe { line.add(i).write(kept.add(at).read()) };
            }
            let (row, column) = if along_rows { (first, number) } else { (first + number, 0) };
            let mut at = base;
            at.add(&self.rows.by, row as i64);
            at.add(&self.columns.by, column as i64);
            let run = Run { lane: 0, len: len as u32, at: [0; 5], by };
            // SAFETY: the line holds the sums of the run.
            unsafe { epilogue_outlined(&self.outputs, &at.at, &run, line) };
        }
    }
}

impl Ready for GemmDot<'_> {
    unsafe fn run(self, threads: usize) -> Result<()> {
        let (products, columns) = (self.view.batch.len(), self.columns.extent.next_multiple_of(COLUMNS));
        let work = products * self.rows.extent * columns * self.terms * self.outer.len();
        let threads = if work < PARALLEL_THRESHOLD { 1 } else { threads };
        let tiles = self.rows.extent.div_ceil(ROWS);
        let most = (KEPT / (ROWS * columns)).max(1);
        let parts = tiles.div_ceil(most).max(threads.div_ceil(products)).min(tiles);
        let (kept, line) = (tiles.div_ceil(parts) * ROWS * columns, self.rows.extent.max(columns));
        let scratch = (kept + line) * size_of::<f32>();
        threads::run_with(threads, products * parts, scratch, &|memory, task| {
            let (product, part) = (task / parts, task % parts);
            let first = tiles * part / parts * ROWS;
            let end = self.rows.extent.min(tiles * (part + 1) / parts * ROWS);
            // SAFETY: the rows of a part are its own, and the scratch is this task's.
            unsafe {
                let memory = memory.cast::<f32>();
                self.part(product, [first, end], memory, memory.add(kept));
            }
        })
    }
}

/// By rows and columns, each less one.
static TILES: [[Tile; COLUMNS]; ROWS] = [
    [tile::<1, 1>, tile::<1, 2>, tile::<1, 3>],
    [tile::<2, 1>, tile::<2, 2>, tile::<2, 3>],
    [tile::<3, 1>, tile::<3, 2>, tile::<3, 3>],
    [tile::<4, 1>, tile::<4, 2>, tile::<4, 3>],
];

/// Sums of `len` terms of `R` rows with `C` others, to `to`, or added to what is there.
///
/// # Safety
/// The terms are readable, and [`ROWS`] times [`COLUMNS`] sums writable.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
unsafe fn tile<const R: usize, const C: usize>(
    [a, b]: [*const f32; 2], steps: [isize; 2], len: usize, to: *mut f32, add: bool,
) {
    // SAFETY: every row and column has `len` terms, behind which they are masked and not read.
    unsafe {
        let mut acc = [[Single::zero(); C]; R];
        let mut k = 0;
        while k + LANES <= len {
            let mut y = [Single::zero(); C];
            let mut c = 0;
            while c < C {
                y[c] = Single::load(b.offset(c as isize * steps[1]).add(k));
                c += 1;
            }
            let mut r = 0;
            while r < R {
                let x = Single::load(a.offset(r as isize * steps[0]).add(k));
                c = 0;
                while c < C {
                    acc[r][c] = Single::fma(x, y[c], acc[r][c]);
                    c += 1;
                }
                r += 1;
            }
            k += LANES;
        }
        if k < len {
            let mask = Mask::of(0..len - k);
            let mut r = 0;
            while r < R {
                let x = mask.load(a.offset(r as isize * steps[0]).add(k));
                let mut c = 0;
                while c < C {
                    let y = mask.load(b.offset(c as isize * steps[1]).add(k));
                    acc[r][c] = Single::fma(x, y, acc[r][c]);
                    c += 1;
                }
                r += 1;
            }
        }
        let mut c = 0;
        while c < C {
            let mut column = [Single::zero(); ROWS];
            let mut r = 0;
            while r < R {
                column[r] = acc[r][c];
                r += 1;
            }
            let (acc, to) = (lane_sums(column), to.add(c * ROWS));
            r = 0;
            while r < ROWS {
                let before = to.add(r);
                before.write(if add { before.read() + acc[r] } else { acc[r] });
                r += 1;
            }
            c += 1;
        }
    }
}
