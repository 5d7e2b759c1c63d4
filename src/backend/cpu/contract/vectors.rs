//! A matrix by a few vectors: every element is used so seldom that no copy pays. Where the sum runs along the rows of the matrix,
//! eight rows are turned in registers, so that lanes are results and sums have the order of the other kernels. Where it runs across
//! them (a transposed matrix), long pieces of eight rows are added at a time to sums that stay in the first-level cache.

use std::arch::x86_64::*;

use super::engine::{CellShape, Operands, Stretch, stretches};
use super::finish::{Outputs, Run, finish_apart};
use super::points::{Point, Turn, Walk};
use super::simd::Avx2Single;
use crate::backend::cpu::threads;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::contract::{Accumulate, Contract, Role};

/// Vectors at most, and terms of the sum and rows of the matrix at least.
const FEW: i64 = 4;
const DEEP: usize = 32;
const TALL: usize = 16;

/// Products below which one thread does all.
const ALONE: usize = 1 << 17;

/// Rows that are turned together, and terms of each: a cache line. The processor sees so few streams come by itself; with twice
/// the rows, or with prefetches of ours, memory is a third slower.
const EIGHT: usize = 8;
const LINE: usize = 16;

/// Sums of a piece of rows, of all vectors.
const PIECE: usize = 2048;

/// A product of a matrix and a few vectors.
pub(super) struct Vectors<'a> {
    outputs: Outputs<'a>,
    batch: Walk,
    /// The rows of the matrix, which are results, and the vectors.
    rows: Turn,
    vectors: Walk,
    /// Which operands they are.
    slots: [usize; 2],
    matrix: *const f32,
    vector: *const f32,
    /// How far terms are apart in the matrix and in the vector.
    steps: [isize; 2],
    stretches: Vec<Stretch>,
    origin: [i64; 5],
}

// SAFETY: addresses; tasks write disjoint elements.
unsafe impl Sync for Vectors<'_> {}

impl<'a> Vectors<'a> {
    /// `None` for any other contraction.
    pub(super) fn new(outputs: Outputs<'a>, operands: Operands) -> Option<Vectors<'a>> {
        let step: &Contract = outputs.step;
        let single = step.accumulate == Accumulate::Single && [step.a, step.b] == [Scalar::F32; 2];
        if !single || !step.bounds().is_empty() {
            return None;
        }
        let (m, n) = (step.extent(Role::M), step.extent(Role::N));
        let [a, b] = [operands.a, operands.b].map(<*const u8>::cast::<f32>);
        let (tall, small, slots, matrix, vector) =
            if n > m { (Role::N, Role::M, [2, 1], b, a) } else { (Role::M, Role::N, [1, 2], a, b) };
        let only = |role| {
            let mut loops = step.loops(role);
            let (index, _) = loops.next()?;
            loops.next().is_none().then(|| Turn::of(step, index))
        };
        let (rows, sum) = (only(tall)?, only(Role::K)?);
        let fits = m.min(n) <= FEW && rows.extent >= TALL && sum.extent >= DEEP;
        let steps = slots.map(|slot| sum.by.at[slot] as isize);
        (fits && (steps[0] == 1 || rows.by.at[slots[0]] == 1)).then(|| Vectors {
            batch: Walk::of(step, Role::Batch),
            vectors: Walk::of(step, small),
            rows,
            slots,
            matrix,
            vector,
            steps,
            stretches: stretches(CellShape::of::<Avx2Single>(), sum.extent, sum.extent, 1),
            origin: step.nest.offsets,
            outputs,
        })
    }

    /// Runs the product.
    ///
    /// # Safety
    /// As for [`super::run`]; the processor has AVX2 and fused multiply-add.
    pub(super) unsafe fn run(&self, threads: usize) -> Result<()> {
        let products = self.batch.len();
        let depth = self.stretches.last().map_or(0, |stretch| stretch.end);
        let work = products * self.rows.extent * self.vectors.len() * depth;
        let threads = if work < ALONE { 1 } else { threads };
        if self.steps[0] != 1 {
            let piece = self.piece().min(self.rows.extent.div_ceil(threads).next_multiple_of(LINE));
            let pieces = self.rows.extent.div_ceil(piece);
            let scratch = 2 * PIECE * size_of::<f32>();
            return threads::run_with(threads, products * pieces, scratch, &|sums, task| {
                let first = task % pieces * piece;
                // SAFETY: handed on; pieces write disjoint elements, and the scratch is this task's.
                unsafe {
                    self.across(task / pieces, first, piece.min(self.rows.extent - first), sums.cast())
                };
            });
        }
        let groups = self.rows.extent.div_ceil(EIGHT);
        let parts = groups.min(8 * threads);
        threads::run(threads, products * parts, &|task| {
            let (product, part) = (task / parts, task % parts);
            for group in groups * part / parts..groups * (part + 1) / parts {
                // SAFETY: handed on; groups write disjoint elements.
                unsafe { self.group(product, group * EIGHT) };
            }
        })
    }

    /// Rows of a piece at most, in whole lines.
    fn piece(&self) -> usize {
        PIECE / self.vectors.len() / LINE * LINE
    }

    /// The first term of a row of the matrix and of a vector.
    fn first(&self, base: &[i64; 5], row: usize, index: usize) -> [*const f32; 2] {
        let [matrix, vector] = self.slots;
        let row = base[matrix] + row as i64 * self.rows.by.at[matrix];
        let at = base[vector] + self.vectors.offset(index, vector);
        [self.matrix.wrapping_offset(row as isize), self.vector.wrapping_offset(at as isize)]
    }

    /// The results of `count` rows from `first` on, which are neighbours in memory.
    ///
    /// # Safety
    /// As for [`run`](Vectors::run); at `sums` is room for twice [`PIECE`].
    #[target_feature(enable = "avx2,fma")]
    unsafe fn across(&self, product: usize, first: usize, count: usize, sums: *mut f32) {
        let base = self.batch.point(product).offsets(&self.origin);
        let totals = sums.wrapping_add(PIECE);
        for (number, stretch) in self.stretches.iter().enumerate() {
            // Those of the first stretch are totals as they are.
            let sums = if number == 0 { totals } else { sums };
            // SAFETY: the caller's promise.
            unsafe {
                sums.write_bytes(0, self.piece() * self.vectors.len());
                let mut k = stretch.begin;
                while k < stretch.end {
                    let terms = if k + EIGHT <= stretch.end { EIGHT } else { 1 };
                    for index in 0..self.vectors.len() {
                        let from = self.first(&base, first, index);
                        let from: [_; 2] =
                            std::array::from_fn(|of| from[of].wrapping_offset(k as isize * self.steps[of]));
                        let to = sums.add(index * self.piece());
                        match terms {
                            EIGHT => add::<EIGHT>(to, from, self.steps, count),
                            _ => add::<1>(to, from, self.steps, count),
                        }
                    }
                    k += terms;
                }
                if number > 0 {
                    (0..self.piece() * self.vectors.len()).for_each(|i| *totals.add(i) += *sums.add(i));
                }
            }
        }
        for index in 0..self.vectors.len() {
            // SAFETY: the caller's promise.
            unsafe { self.finish(&base, first, count, index, totals.add(index * self.piece())) };
        }
    }

    /// # Safety
    /// As for [`run`](Vectors::run); `totals` are those of `count` rows from `first` on and of a vector.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    unsafe fn finish(&self, base: &[i64; 5], first: usize, count: usize, index: usize, totals: *const f32) {
        let mut at = self.vectors.point(index);
        at.add(&Point { at: self.rows.by.at, ..Point::default() }, first as i64);
        let run = Run { lane: 0, len: count as u32, at: at.at, by: self.rows.by.at };
        // SAFETY: the caller's promise.
        unsafe { finish_apart(&self.outputs, base, &run, totals) }
    }

    /// The results of the rows from `first` on.
    ///
    /// # Safety
    /// As for [`run`](Vectors::run).
    #[target_feature(enable = "avx2,fma")]
    unsafe fn group(&self, product: usize, first: usize) {
        let count = EIGHT.min(self.rows.extent - first);
        let base = self.batch.point(product).offsets(&self.origin);
        // Rows that are not there are the last one once more, and not stored.
        let rows: [_; EIGHT] = std::array::from_fn(|row| self.first(&base, first + row.min(count - 1), 0)[0]);
        let mut totals = [[0.0_f32; EIGHT]; FEW as usize];
        for (number, stretch) in self.stretches.iter().enumerate() {
            for (index, totals) in totals.iter_mut().enumerate().take(self.vectors.len()) {
                let x = self.first(&base, first, index)[1];
                // SAFETY: the caller's promise.
                unsafe {
                    let (to, sum) = (totals.as_mut_ptr(), dots(&rows, x, self.steps[1], stretch));
                    let sum = if number == 0 { sum } else { _mm256_add_ps(_mm256_loadu_ps(to), sum) };
                    _mm256_storeu_ps(to, sum);
                }
            }
        }
        for (index, totals) in totals.iter().enumerate().take(self.vectors.len()) {
            // SAFETY: the caller's promise.
            unsafe { self.finish(&base, first, count, index, totals.as_ptr()) };
        }
    }
}

/// Adds `T` terms of each of `count` neighbouring sums, one after the other.
///
/// # Safety
/// The terms are readable in the matrix and in the vector, and the sums are there.
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn add<const T: usize>(sums: *mut f32, from: [*const f32; 2], steps: [isize; 2], count: usize) {
    let [rows, x] = from;
    let rows: [_; T] = std::array::from_fn(|term| rows.wrapping_offset(term as isize * steps[0]));
    // SAFETY: the caller's promise.
    unsafe {
        let x: [f32; T] = std::array::from_fn(|term| x.wrapping_offset(term as isize * steps[1]).read());
        let mut i = 0;
        while i + EIGHT <= count {
            let mut sum = _mm256_loadu_ps(sums.add(i));
            for (row, x) in rows.iter().zip(x) {
                sum = _mm256_fmadd_ps(_mm256_set1_ps(x), _mm256_loadu_ps(row.add(i)), sum);
            }
            _mm256_storeu_ps(sums.add(i), sum);
            i += EIGHT;
        }
        for i in i..count {
            let terms = rows.iter().zip(x);
            *sums.add(i) = terms.fold(sums.add(i).read(), |sum, (row, x)| x.mul_add(row.add(i).read(), sum));
        }
    }
}

/// The sums of one stretch of all rows, each one chain.
///
/// # Safety
/// The terms of the stretch are readable in every row and in the vector.
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn dots(rows: &[*const f32; EIGHT], x: *const f32, step: isize, stretch: &Stretch) -> __m256 {
    let mut sum = _mm256_setzero_ps();
    let mut k = stretch.begin;
    // SAFETY: the caller's promise.
    unsafe {
        let factor = |k: usize| _mm256_broadcast_ss(&*x.wrapping_offset(k as isize * step));
        while k + LINE <= stretch.end {
            for k in [k, k + EIGHT] {
                let lines = turned(std::array::from_fn(|row| _mm256_loadu_ps(rows[row].add(k))));
                for (i, line) in lines.into_iter().enumerate() {
                    sum = _mm256_fmadd_ps(factor(k + i), line, sum);
                }
            }
            k += LINE;
        }
        while k < stretch.end {
            let column: [f32; EIGHT] = std::array::from_fn(|row| rows[row].add(k).read());
            sum = _mm256_fmadd_ps(factor(k), _mm256_loadu_ps(column.as_ptr()), sum);
            k += 1;
        }
    }
    sum
}

/// Columns of eight lines.
#[target_feature(enable = "avx2")]
#[inline]
fn turned(x: [__m256; EIGHT]) -> [__m256; EIGHT] {
    let pairs = |a, b| (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    let [(a0, a1), (b0, b1), (c0, c1), (d0, d1)] =
        [pairs(x[0], x[1]), pairs(x[2], x[3]), pairs(x[4], x[5]), pairs(x[6], x[7])];
    let fours = |a, b| (_mm256_shuffle_ps::<0x44>(a, b), _mm256_shuffle_ps::<0xee>(a, b));
    let [(e0, e1), (e2, e3)] = [fours(a0, b0), fours(a1, b1)];
    let [(f0, f1), (f2, f3)] = [fours(c0, d0), fours(c1, d1)];
    let low = |a, b| _mm256_permute2f128_ps::<0x20>(a, b);
    let high = |a, b| _mm256_permute2f128_ps::<0x31>(a, b);
    [
        low(e0, f0),
        low(e1, f1),
        low(e2, f2),
        low(e3, f3),
        high(e0, f0),
        high(e1, f1),
        high(e2, f2),
        high(e3, f3),
    ]
}
