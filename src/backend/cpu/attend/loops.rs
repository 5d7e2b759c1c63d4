//! The loops over rows of scores, for the instructions of a level.

use cudnn_shim_macros::vectorized;

use crate::backend::cpu::Isa;
use crate::dtype::math::tanh;
use crate::dtype::numbers::{Math, Numbers, Together};

/// Partial sums of a row, which are the same at every level.
pub const LANES: usize = 16;

/// Rows that are computed at once at most.
pub const MOST_ROWS: usize = 96;

/// Rows of scores, `pitch` apart.
#[derive(Clone, Copy)]
pub struct Scores {
    pub at: *mut f32,
    pub pitch: usize,
    pub rows: usize,
    /// A multiple of [`LANES`].
    pub columns: usize,
}

impl Scores {
    pub fn row(&self, row: usize) -> *mut f32 {
        self.at.wrapping_add(row * self.pitch)
    }
}

/// What rows have been added up to so far: their largest scores, lanes of the sums of weights, and
/// sums of values, which are so far apart.
#[derive(Clone, Copy)]
pub struct Sums {
    pub largest: *mut f32,
    pub lanes: *mut f32,
    pub values: *mut f32,
    pub pitch: usize,
}

/// Whether the least level has fused operations, without which such a function would be a call.
const FUSES: bool = cfg!(target_arch = "aarch64");

/// The loops of a level.
#[derive(Clone, Copy)]
pub struct Loops {
    pub are_finite: unsafe fn(*const f32, usize) -> bool,
    pub multiply: unsafe fn(*mut f32, usize, f32),
    pub add: unsafe fn(*mut f32, *const f32, usize),
    pub lean: unsafe fn(*mut f32, usize, f32, f32),
    pub limit: unsafe fn(Scores, [f32; 2], *mut f32),
    pub join: unsafe fn(Scores, *const f32),
    pub soften: unsafe fn(Scores, Sums),
    pub weigh: unsafe fn(Scores, *mut f32, [*const f32; 2]),
    pub dot: unsafe fn(*const f32, *const f32, usize) -> f32,
}

impl Loops {
    pub fn of(isa: Isa) -> Loops {
        Loops {
            are_finite: are_finite::of(isa),
            multiply: multiply::of(isa),
            add: add::of(isa),
            lean: lean::of(isa),
            limit: limit::of(isa),
            join: join::of(isa),
            soften: soften::of(isa),
            weigh: weigh::of(isa),
            dot: dot::of(isa),
        }
    }
}

/// Whether all numbers are finite.
///
/// # Safety
/// They are readable.
#[vectorized]
unsafe fn are_finite(x: *const f32, count: usize) -> bool {
    let mut largest = 0;
    for i in 0..count {
        // SAFETY: one of them.
        let magnitude = unsafe { x.add(i).read() }.to_bits() & (!0 >> 1);
        largest = if magnitude > largest { magnitude } else { largest };
    }
    largest < f32::INFINITY.to_bits()
}

/// Multiplies all numbers.
///
/// # Safety
/// They are readable and writable.
#[vectorized]
unsafe fn multiply(x: *mut f32, count: usize, factor: f32) {
    for i in 0..count {
        // SAFETY: one of them.
        unsafe { *x.add(i) *= factor };
    }
}

/// Adds other numbers to all.
///
/// # Safety
/// They are readable and writable, as many others are readable, and both lie apart.
#[vectorized]
unsafe fn add(x: *mut f32, y: *const f32, count: usize) {
    // SAFETY: they are, and nothing else refers to them.
    let (x, y) = unsafe { (std::slice::from_raw_parts_mut(x, count), std::slice::from_raw_parts(y, count)) };
    for i in 0..count {
        x[i] += y[i];
    }
}

/// Adds the slope times the number of each, from a whole one on.
///
/// # Safety
/// They are readable and writable.
#[vectorized]
unsafe fn lean(x: *mut f32, count: usize, first: f32, slope: f32) {
    for i in 0..count {
        // SAFETY: one of them.
        unsafe { *x.add(i) += slope * (first + i as u32 as f32) };
    }
}

/// Turns scores into `outer tanh(inner score)`, and leaves the slopes of that, as far apart, if
/// there is a place for them.
///
/// # Safety
/// The scores are readable and writable, and there is room for the slopes.
#[vectorized]
unsafe fn limit(scores: Scores, [inner, outer]: [f32; 2], slopes: *mut f32) {
    for row in 0..scores.rows {
        for first in (0..scores.columns).step_by(LANES) {
            let at = scores.row(row).wrapping_add(first).cast::<[f32; LANES]>();
            // SAFETY: whole lanes of a row.
            let x = unsafe { at.read_unaligned() };
            let y = tanh(Together(x) * Together::all(inner)).0;
            let (mut capped, mut slope) = ([0.0; LANES], [0.0; LANES]);
            for j in 0..LANES {
                capped[j] = outer * y[j];
                slope[j] = outer * inner * (1.0 - y[j] * y[j]);
            }
            // SAFETY: whole lanes of a row, and of its slopes.
            unsafe {
                at.write_unaligned(capped);
                if !slopes.is_null() {
                    let to = slopes.add(row * scores.pitch + first).cast::<[f32; LANES]>();
                    to.write_unaligned(slope);
                }
            }
        }
    }
}

/// Multiplies rows by others, as far apart, number by number; a product with 0 is 0, whatever the
/// other factor is.
///
/// # Safety
/// Both are readable, and the first ones writable.
#[vectorized]
unsafe fn join(rows: Scores, others: *const f32) {
    for row in 0..rows.rows {
        let (own, others) = (rows.row(row), others.wrapping_add(row * rows.pitch));
        for i in 0..rows.columns {
            // SAFETY: one of them.
            unsafe {
                let (x, y) = (own.add(i).read(), others.add(i).read());
                own.add(i).write(if x == 0.0 || y == 0.0 { 0.0 } else { x * y });
            }
        }
    }
}

/// Both parts of e^x as `math.rs` has them, by fused operations where the level has some: `n` above
/// the shifter, and 1 + p, of which e^x is 2^n (1 + p). Pre: x lies in the range of the
/// exponential, or is a NaN.
#[inline(always)]
fn parts<const FUSED: bool>(x: f32, shifter: f32) -> (f32, f32) {
    let fused = |a: f32, b: f32, c: f32| if FUSED { a.mul_add(b, c) } else { a * b + c };
    let [high, low] = f32::LN2;
    let shifted = fused(x, f32::LOG2_E, shifter);
    let n = shifted - shifter;
    let r = fused(n, -low, fused(n, -high, x));
    let mut q = f32::EXP[f32::EXP.len() - 1];
    let mut k = f32::EXP.len() - 1;
    while k > 0 {
        k -= 1;
        q = fused(q, r, f32::EXP[k]);
    }
    (shifted, 1.0 + fused(r * r, q, r))
}

/// e^x of an x that is not above 0; 1 of 0.
#[inline(always)]
fn exp_below_zero<const FUSED: bool>(x: f32) -> f32 {
    let low = f32::EXP_RANGE[0];
    let (shifted, y) = parts::<FUSED>(if x < low { low } else { x }, f32::RAISED_SHIFTER);
    y * f32::power_of_two(shifted) * f32::LOWERED
}

/// e^x
#[inline(always)]
fn exp<const FUSED: bool>(x: f32) -> f32 {
    let [low, high] = f32::EXP_RANGE;
    let x = if x < low { low } else { x };
    let (shifted, y) = parts::<FUSED>(if high < x { high } else { x }, f32::SHIFTER);
    y.scaled(shifted)
}

/// Turns scores into weights, `exp(score - m)`, and adds them to the lanes of their sums, where `m`
/// is the largest score of a row so far. What was summed up before counts by that of then.
///
/// # Safety
/// The scores and sums are readable and writable; no more than [`MOST_ROWS`] of them.
#[allow(clippy::needless_range_loop, reason = "one number indexes several lists")]
#[vectorized(FUSES, true, true)]
unsafe fn soften<const FUSED: bool>(scores: Scores, sums: Sums) {
    let mut factors = [0.0; MOST_ROWS];
    for row in 0..scores.rows {
        // SAFETY: whole lanes of a row.
        unsafe {
            let before = sums.largest.add(row).read();
            let mut tops = [before; LANES];
            for first in (0..scores.columns).step_by(LANES) {
                let own = scores.row(row).add(first).cast::<[f32; LANES]>().read_unaligned();
                for j in 0..LANES {
                    // What is no number stays none as a weight.
                    tops[j] = if own[j] > tops[j] { own[j] } else { tops[j] };
                }
            }
            let mut half = LANES;
            while half > 1 {
                half /= 2;
                for j in 0..half {
                    tops[j] = if tops[j + half] > tops[j] { tops[j + half] } else { tops[j] };
                }
            }
            sums.largest.add(row).write(tops[0]);
            factors[row] = before - tops[0];
        }
    }
    for factor in &mut factors {
        *factor = exp_below_zero::<FUSED>(*factor);
    }
    for row in 0..scores.rows {
        // SAFETY: whole lanes of a row.
        unsafe {
            let (own, m) = (scores.row(row), sums.largest.add(row).read());
            for i in 0..scores.columns {
                *own.add(i) = exp_below_zero::<FUSED>(*own.add(i) - m);
            }
            let at = sums.lanes.add(row * LANES).cast::<[f32; LANES]>();
            let mut lanes = at.read_unaligned();
            for lane in &mut lanes {
                *lane *= factors[row];
            }
            for first in (0..scores.columns).step_by(LANES) {
                let weights = own.add(first).cast::<[f32; LANES]>().read_unaligned();
                for j in 0..LANES {
                    lanes[j] += weights[j];
                }
            }
            at.write_unaligned(lanes);
            let values = sums.values.add(row * sums.pitch);
            for i in 0..sums.pitch {
                *values.add(i) *= factors[row];
            }
        }
    }
}

/// ln(2^-100): a weight of less counts as 0 in gradients. Those of its score would be denormal
/// numbers before long, by which products take many times as long, beside weights that add up to 1.
const LEAST: f32 = -69.3;

/// Turns scores into weights by the statistics of their rows, `exp(score - statistics)`, and 0 of
/// minus infinity; and `x` into gradients of scores, `weight (x - distance)`, and 0 where the
/// weight is.
///
/// # Safety
/// The scores, as many numbers likewise apart, and a number of either kind for each row are
/// readable, scores and numbers writable.
#[vectorized(FUSES, true, true)]
unsafe fn weigh<const FUSED: bool>(scores: Scores, x: *mut f32, [stats, distances]: [*const f32; 2]) {
    for row in 0..scores.rows {
        // SAFETY: a row of each.
        unsafe {
            let (own, x) = (scores.row(row), x.add(row * scores.pitch));
            let (shift, distance) = (stats.add(row).read(), distances.add(row).read());
            for i in 0..scores.columns {
                let score = own.add(i).read();
                let moved = score - shift;
                let weight = exp::<FUSED>(moved);
                let weight = if score == f32::NEG_INFINITY || moved < LEAST { 0.0 } else { weight };
                own.add(i).write(weight);
                let slope = weight * (x.add(i).read() - distance);
                x.add(i).write(if weight == 0.0 { 0.0 } else { slope });
            }
        }
    }
}

/// The sum of products.
///
/// # Safety
/// A multiple of [`LANES`] factors is readable.
#[vectorized]
unsafe fn dot(x: *const f32, y: *const f32, count: usize) -> f32 {
    let mut lanes = [0.0; LANES];
    for first in (0..count).step_by(LANES) {
        // SAFETY: whole lanes.
        let [x, y] = unsafe { [x, y].map(|at| at.add(first).cast::<[f32; LANES]>().read_unaligned()) };
        for j in 0..LANES {
            lanes[j] += x[j] * y[j];
        }
    }
    joined(lanes)
}

/// The sum of lanes, joined in halves.
#[inline(always)]
pub fn joined(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES;
    while half > 1 {
        half /= 2;
        for j in 0..half {
            lanes[j] += lanes[j + half];
        }
    }
    lanes[0]
}
