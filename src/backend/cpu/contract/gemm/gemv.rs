//! A matrix by a few vectors: every element is used so seldom that no copy pays. Where the sum runs
//! along the rows of the matrix, as many rows as lanes are transposed in registers, so that lanes
//! are results and sums have the order of the other kernels. Where it runs across them (a
//! transposed matrix), long pieces of eight rows are added at a time to sums that stay in the
//! first-level cache. Vectors whose terms have another order than the matrix (channels in blocks
//! beside filters in NHWC) are copied into that order.

use super::engine::{KBlock, KGroupShape, k_blocks};
use crate::backend::cpu::contract::PARALLEL_THRESHOLD;
use crate::backend::cpu::contract::epilogue::generic::{Outputs, Run, epilogue_outlined};
use crate::backend::cpu::contract::kernel::simd::{Simd, Single, Vector};
use crate::backend::cpu::contract::kernel::vector::{LANES, columns};
use crate::backend::cpu::contract::operands::points::{Loop, Loops, OperandOffsets};
use crate::backend::cpu::contract::operands::view::View;
use crate::backend::cpu::contract::problem::{Problem, Ready};
use crate::backend::cpu::stream::prefetch_l2;
use crate::backend::cpu::threads;
use crate::error::Result;
use crate::ops::contract::Role;
use crate::reserve::list;

/// Vectors at most, and those of a right factor whose columns lie side by side, of which a copy
/// would take longer than the product.
const MAX_N: i64 = 4;
const MAX_ROWS: i64 = 16;

/// Rows of the matrix at least.
const TALL: usize = 16;

/// Terms of the sum at least; where neighbouring results are of several vectors, they leave one by
/// one.
const DEEP: usize = 8;
const DEEPER: usize = 32;

/// Terms that are added at once to sums across rows.
const EIGHT: usize = 8;

/// Vectors of rows that are computed at once: of a single vector as many as hide the latency of a
/// chain, if the caches allow it, and else half of them.
const GROUPS: usize = 16 / LANES;
const FEW_GROUPS: usize = 8 / LANES;

/// Numbers of a cache line, of which pieces of rows are made.
const LINE: usize = 16;

/// Row pitches that are a multiple of this put 16 rows into the same sets of an 8-way L1, which has
/// room for eight lines at a distance of 4 KiB.
const SET_CONFLICT_PITCH: usize = 2 << 10;

/// Accumulators of a tile of rows, for all vectors.
const TILE_ACCS: usize = 2048;

/// A product of a matrix and a few vectors.
pub struct Gemv<'a> {
    outputs: Outputs<'a>,
    view: View<'a>,
    /// The rows of the matrix, which are results, and the vectors.
    rows: Loop,
    vectors: Loops,
    /// Which operands they are.
    slots: [usize; 2],
    matrix: *const f32,
    vector: *const f32,
    /// How far terms are apart in the matrix and in the vector.
    steps: [isize; 2],
    /// The terms of a sum, and its K blocks from when it runs on. Terms that lie evenly in the
    /// matrix alone are brought together in the vectors before.
    sum: Loops,
    together: Vec<f32>,
    k_blocks: Vec<KBlock>,
}

// SAFETY: addresses; tasks write disjoint elements.
unsafe impl Sync for Gemv<'_> {}

impl<'a> Gemv<'a> {
    /// `None` for any other contraction.
    pub fn new(problem: &Problem<'a>) -> Option<Gemv<'a>> {
        let step = problem.step();
        let [a, b] = problem.plain_singles()?;
        let (m, n) = (step.extent(Role::M), step.extent(Role::N));
        let (tall, small, slots, matrix, vector) =
            if n > m { (Role::N, Role::M, [2, 1], b, a) } else { (Role::M, Role::N, [1, 2], a, b) };
        let mut tall = step.loops(tall);
        let rows = Loop::of(step, tall.next()?.0);
        let (vectors, sum) = (Loops::of(step, small), Loops::of(step, Role::K));
        let view = problem.view::<Single>();
        let (inner, terms) = (sum.loops.last()?, sum.len());
        let is_chain = sum
            .loops
            .windows(2)
            .all(|pair| pair[0].by.at[slots[0]] == pair[1].by.at[slots[0]] * pair[1].extent as i64);
        let is_even = sum.loops.len() == 1 || is_chain && view.batch.len() == 1;
        let deep = if m.min(n) == 1 || rows.by.at[0] == 1 { DEEP } else { DEEPER };
        let steps = slots.map(|slot| inner.by.at[slot] as isize);
        let (are_terms, are_rows) = (steps[0] == 1, rows.by.at[slots[0]] == 1);
        let most = if are_terms || m >= n { MAX_N } else { MAX_ROWS };
        let fits =
            m.min(n) <= most && rows.extent >= TALL && terms >= deep && tall.next().is_none() && is_even;
        (fits && (are_terms || are_rows)).then(|| Gemv {
            view,
            vectors,
            rows,
            slots,
            matrix,
            vector,
            steps,
            sum,
            together: Vec::new(),
            k_blocks: Vec::new(),
            outputs: problem.outputs,
        })
    }

    /// Brings the terms of all vectors together in the order of the matrix.
    ///
    /// # Safety
    /// As for [`run`](Gemv::run), with a single product.
    unsafe fn bring_together(&mut self) -> Result<()> {
        let (slot, terms) = (self.slots[1], self.sum.len());
        self.together = list(terms * self.vectors.len())?;
        let inner = self.sum.loops.last().map_or(1, |axis| axis.extent);
        for index in 0..self.vectors.len() {
            let begin = self.view.product(0).at[slot] + self.vectors.offset(index, slot);
            for k in (0..terms).step_by(inner) {
                let from = self.vector.wrapping_offset((begin + self.sum.offset(k, slot)) as isize);
                // SAFETY: the vector has these terms.
                let term = |i| unsafe { from.wrapping_offset(i as isize * self.steps[1]).read() };
                // At most the terms that the list has room for.
                self.together.extend((0..inner).map(term));
            }
        }
        self.steps[1] = 1;
        Ok(())
    }

    /// Rows of a piece at most, in whole lines.
    fn piece(&self) -> usize {
        TILE_ACCS / self.vectors.len() / LINE * LINE
    }

    /// The first term of a row of the matrix and of a vector.
    fn first(&self, base: &[i64; 5], row: usize, index: usize) -> [*const f32; 2] {
        let [matrix, vector] = self.slots;
        let row = base[matrix] + row as i64 * self.rows.by.at[matrix];
        let row = self.matrix.wrapping_offset(row as isize);
        if !self.together.is_empty() {
            return [row, self.together.as_ptr().wrapping_add(index * self.sum.len())];
        }
        let at = base[vector] + self.vectors.offset(index, vector);
        [row, self.vector.wrapping_offset(at as isize)]
    }

    /// The results of `count` rows from `first` on, which are neighbours in memory.
    ///
    /// # Safety
    /// As for [`run`](Gemv::run); at `acc` is room for twice [`TILE_ACCS`].
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
    unsafe fn across(&self, product: usize, first: usize, count: usize, acc: *mut f32) {
        let base = self.view.product(product).at;
        let totals = acc.wrapping_add(TILE_ACCS);
        for (number, k_block) in self.k_blocks.iter().enumerate() {
            // Those of the first K block are totals as they are.
            let acc = if number == 0 { totals } else { acc };
            // SAFETY: `acc` has room for a piece of every vector.
            unsafe {
                acc.write_bytes(0, self.piece() * self.vectors.len());
                let mut k = k_block.begin;
                while k < k_block.end {
                    let terms = if k + EIGHT <= k_block.end { EIGHT } else { 1 };
                    for index in 0..self.vectors.len() {
                        let from = self.first(&base, first, index);
                        let from: [_; 2] =
                            std::array::from_fn(|of| from[of].wrapping_offset(k as isize * self.steps[of]));
                        let to = acc.add(index * self.piece());
                        match terms {
                            EIGHT => add::<EIGHT>(to, from, self.steps, count),
                            _ => add::<1>(to, from, self.steps, count),
                        }
                    }
                    k += terms;
                }
                if number > 0 {
                    (0..self.piece() * self.vectors.len()).for_each(|i| *totals.add(i) += *acc.add(i));
                }
            }
        }
        for index in 0..self.vectors.len() {
            // SAFETY: there are totals for `count` rows of this vector.
            unsafe { self.epilogue(&base, first, count, index, totals.add(index * self.piece())) };
        }
    }

    /// # Safety
    /// As for [`run`](Gemv::run); `totals` are those of `count` rows from `first` on and of a
    /// vector.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
    #[inline]
    unsafe fn epilogue(&self, base: &[i64; 5], first: usize, count: usize, index: usize, totals: *const f32) {
        let mut at = self.vectors.point(index);
        at.add(&OperandOffsets { at: self.rows.by.at, ..OperandOffsets::default() }, first as i64);
        let run = Run { lane: 0, len: count as u32, at: at.at, by: self.rows.by.at };
        // SAFETY: there are totals for every row of the run.
        unsafe { epilogue_outlined(&self.outputs, base, &run, totals) }
    }

    /// The results of `G` vectors of rows from `first` on, for all `V` vectors.
    ///
    /// # Safety
    /// As for [`run`](Gemv::run).
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
    unsafe fn groups<const G: usize, const V: usize>(&self, product: usize, first: usize) {
        let count = (G * LANES).min(self.rows.extent - first);
        let base = self.view.product(product).at;
        let mut rows = [[std::ptr::null(); LANES]; G];
        for (number, row) in rows.as_flattened_mut().iter_mut().enumerate() {
            // Rows that are not there are the last one once more, and not stored.
            *row = self.first(&base, first + number.min(count - 1), 0)[0];
        }
        let mut x = [std::ptr::null(); V];
        for (index, x) in x.iter_mut().enumerate() {
            *x = self.first(&base, first, index)[1];
        }
        // The lines of the rows that follow: weights that no call has read for a while are in
        // memory, and rows end before the processor has seen that all of them are streams.
        let ahead = self.rows.by.at[self.slots[0]] as isize * (G * LANES) as isize;
        let mut totals = [[[0.0_f32; LANES]; G]; V];
        for (number, k_block) in self.k_blocks.iter().enumerate() {
            // SAFETY: all rows and vectors have the terms of the K block.
            unsafe {
                let acc = dot_products(&rows, &x, self.steps[1], k_block, ahead);
                for (index, totals) in totals.iter_mut().enumerate() {
                    for (group, total) in totals.iter_mut().enumerate() {
                        let (to, sum) = (total.as_mut_ptr(), acc[group][index]);
                        let sum = if number == 0 { sum } else { Single::add(Single::load(to), sum) };
                        Single::store(to, sum);
                    }
                }
            }
        }
        for (index, totals) in totals.iter().enumerate() {
            // SAFETY: there are totals for `count` rows of this vector.
            unsafe { self.epilogue(&base, first, count, index, totals.as_flattened().as_ptr()) };
        }
    }
}

impl Ready for Gemv<'_> {
    unsafe fn run(mut self, threads: usize) -> Result<()> {
        let (products, depth) = (self.view.batch.len(), self.sum.len());
        let inner = self.sum.loops.last().map_or(depth, |axis| axis.extent);
        self.k_blocks = k_blocks(KGroupShape::of::<Single>(), depth, inner, 1)?;
        if self.sum.loops.len() > 1 {
            // SAFETY: the operands are those of this contraction, which has a single product where
            // terms are of several loops.
            unsafe { self.bring_together()? };
        }
        let work = products * self.rows.extent * self.vectors.len() * depth;
        let threads = if work < PARALLEL_THRESHOLD { 1 } else { threads };
        if self.steps[0] != 1 {
            let piece = self.piece().min(self.rows.extent.div_ceil(threads).next_multiple_of(LINE));
            let pieces = self.rows.extent.div_ceil(piece);
            let scratch = 2 * TILE_ACCS * size_of::<f32>();
            return threads::run_with(threads, products * pieces, scratch, &|acc, task| {
                let first = task % pieces * piece;
                // SAFETY: the rows of a piece are its own, and the scratch is this task's.
                unsafe { self.across(task / pieces, first, piece.min(self.rows.extent - first), acc.cast()) };
            });
        }
        // One chain of sums after the other waits for its own results.
        let apart = self.rows.by.at[self.slots[0]].unsigned_abs() as usize * size_of::<f32>();
        let (rows, groups): (usize, unsafe fn(&Self, usize, usize)) = match self.vectors.len() {
            1 if !apart.is_multiple_of(SET_CONFLICT_PITCH) => (GROUPS, Self::groups::<GROUPS, 1>),
            1 => (FEW_GROUPS, Self::groups::<FEW_GROUPS, 1>),
            2 => (FEW_GROUPS, Self::groups::<FEW_GROUPS, 2>),
            3 => (FEW_GROUPS, Self::groups::<FEW_GROUPS, 3>),
            _ => (FEW_GROUPS, Self::groups::<FEW_GROUPS, 4>),
        };
        let rows = rows * LANES;
        let count = self.rows.extent.div_ceil(rows);
        let parts = count.min(8 * threads);
        threads::run(threads, products * parts, &|task| {
            let (product, part) = (task / parts, task % parts);
            for group in count * part / parts..count * (part + 1) / parts {
                // SAFETY: the rows of a group are its own.
                unsafe { groups(&self, product, group * rows) };
            }
        })
    }
}

/// Adds `T` terms of each of `count` neighbouring sums, one after the other.
///
/// # Safety
/// The terms are readable in the matrix and in the vector, and the sums are there.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
#[inline]
unsafe fn add<const T: usize>(acc: *mut f32, from: [*const f32; 2], steps: [isize; 2], count: usize) {
    let [rows, x] = from;
    let rows: [_; T] = std::array::from_fn(|term| rows.wrapping_offset(term as isize * steps[0]));
    // SAFETY: the matrix and the vector have these terms, and every row has its sum.
    unsafe {
        let x: [f32; T] = std::array::from_fn(|term| x.wrapping_offset(term as isize * steps[1]).read());
        let mut i = 0;
        while i + LANES <= count {
            let mut sum = Single::load(acc.add(i));
            for (row, x) in rows.iter().zip(&x) {
                sum = Single::fma(Single::splat(x), Single::load(row.add(i)), sum);
            }
            Single::store(acc.add(i), sum);
            i += LANES;
        }
        for i in i..count {
            let terms = rows.iter().zip(x);
            *acc.add(i) = terms.fold(acc.add(i).read(), |sum, (row, x)| x.mul_add(row.add(i).read(), sum));
        }
    }
}

/// The sums of one K block of all rows with every vector, each one chain. Asks for what is so far
/// `ahead` of the terms.
///
/// # Safety
/// The terms of the K block are readable in every row and in the vectors.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
#[inline]
unsafe fn dot_products<const G: usize, const V: usize>(
    rows: &[[*const f32; LANES]; G], x: &[*const f32; V], step: isize, k_block: &KBlock, ahead: isize,
) -> [[Vector; V]; G] {
    let mut k = k_block.begin;
    // SAFETY: all rows and vectors have the terms of the K block.
    unsafe {
        let mut acc = [[Single::zero(); V]; G];
        while k + LANES <= k_block.end {
            let mut g = 0;
            while g < G {
                if (k - k_block.begin).is_multiple_of(LINE) {
                    for row in &rows[g] {
                        prefetch_l2(row.wrapping_offset(ahead + k as isize).cast());
                    }
                }
                let lines = columns(&rows[g], k);
                let mut i = 0;
                while i < LANES {
                    let mut v = 0;
                    while v < V {
                        let factor = Single::splat(x[v].wrapping_offset((k + i) as isize * step));
                        acc[g][v] = Single::fma(factor, lines[i], acc[g][v]);
                        v += 1;
                    }
                    i += 1;
                }
                g += 1;
            }
            k += LANES;
        }
        while k < k_block.end {
            let mut g = 0;
            while g < G {
                let mut column = [0.0_f32; LANES];
                let mut row = 0;
                while row < LANES {
                    column[row] = rows[g][row].add(k).read();
                    row += 1;
                }
                let column = Single::load(column.as_ptr());
                let mut v = 0;
                while v < V {
                    let factor = Single::splat(x[v].wrapping_offset(k as isize * step));
                    acc[g][v] = Single::fma(factor, column, acc[g][v]);
                    v += 1;
                }
                g += 1;
            }
            k += 1;
        }
        acc
    }
}
