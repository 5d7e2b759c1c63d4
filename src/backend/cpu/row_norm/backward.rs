//! Gradients of normalisations of rows.

use cudnn_shim_macros::vectorized;

use super::rows::{BLOCK, LANES, Sink, Source, TOGETHER, join, place, tree};
use crate::backend::Address;
use crate::backend::cpu::kind::{Call, Kind};
use crate::backend::cpu::scratch::{self, Parts};
use crate::backend::cpu::{Isa, Machine, threads};
use crate::backend::function::{Real, finish, with_real};
use crate::error::Result;
use crate::ops::normalise::Tree;
use crate::ops::{Reduction, RowNormBackward};

impl Kind for RowNormBackward {
    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        if self.rows.is_empty() || self.length == 0 {
            return Ok(());
        }
        with_real!(self.compute, T => {
            // SAFETY: the operands are those of the step.
            unsafe { Task::<T>::new(self, call.at, call.machine).run(call.machine) }
        })
    }
}

/// The loops of rows, for the instruction set of the machine.
struct Functions<T> {
    sums: unsafe fn(lanes: *mut T, operands: [*const T; 3], with: [T; 2], count: usize),
    join: unsafe fn(lanes: *mut T) -> T,
    results: unsafe fn(out: *mut T, sums: [*mut T; 2], operands: [*const T; 3], with: [T; 4], count: usize),
    unite: unsafe fn(into: *mut T, from: *const T, count: usize),
}

impl<T: Real> Functions<T> {
    fn of(step: &RowNormBackward, isa: Isa) -> Self {
        let scales = step.parameters[0].is_some();
        let results = match (scales, step.sums == [None; 2]) {
            (false, true) => results::of::<T, false, false>,
            (false, false) => results::of::<T, false, true>,
            (true, true) => results::of::<T, true, false>,
            (true, false) => results::of::<T, true, true>,
        };
        let sums = if scales { sums::of::<T, true> } else { sums::of::<T, false> };
        Functions {
            sums: sums(isa),
            join: join::of::<T>(isa),
            results: results(isa),
            unite: unite::of::<T>(isa),
        }
    }
}

/// The sums of the lanes of a block: of `g * h`, and behind them of g.
///
/// # Safety
/// `count` of x, dy and, if there is one, the scale are readable, and twice [`LANES`] sums
/// writable.
#[vectorized]
unsafe fn sums<T: Real, const SCALES: bool>(
    lanes: *mut T, [x, dy, scale]: [*const T; 3], [mean, inverse]: [T; 2], count: usize,
) {
    let terms = |x: T, dy: T, scale: T| {
        let g = if SCALES { dy * scale } else { dy };
        (g * ((x - mean) * inverse), g)
    };
    let (mut shares, mut others) = ([T::ZERO.negative(); LANES], [T::ZERO.negative(); LANES]);
    let whole = count / LANES;
    // SAFETY: inside the first `count` elements, and all sums.
    unsafe {
        for i in 0..whole {
            let run = |from: *const T| from.add(i * LANES).cast::<[T; LANES]>().read_unaligned();
            let (x, dy) = (run(x), run(dy));
            let scale = if SCALES { run(scale) } else { dy };
            for j in 0..LANES {
                let (share, other) = terms(x[j], dy[j], scale[j]);
                shares[j] = shares[j] + share;
                others[j] = others[j] + other;
            }
        }
        for j in 0..count % LANES {
            let at = whole * LANES + j;
            let (x, dy) = (x.add(at).read(), dy.add(at).read());
            let scale = if SCALES { scale.add(at).read() } else { dy };
            let (share, other) = terms(x, dy, scale);
            shares[j] = shares[j] + share;
            others[j] = others[j] + other;
        }
        lanes.cast::<[T; LANES]>().write(shares);
        lanes.add(LANES).cast::<[T; LANES]>().write(others);
    }
}

/// `out = (g - h * share - other) * inverse`; adds `dy * h` and dy to the sums of the parameters.
///
/// # Safety
/// `count` of x, dy and, if there is one, the scale are readable, as many sums readable and
/// writable, if there are some, and as many results writable, where x or dy are or where nothing is
/// read.
#[vectorized]
unsafe fn results<T: Real, const SCALES: bool, const SUMS: bool>(
    out: *mut T, [dscale, dbias]: [*mut T; 2], [x, dy, scale]: [*const T; 3],
    [mean, inverse, share, other]: [T; 4], count: usize,
) {
    let result = |x: T, dy: T, scale: T| {
        let h = (x - mean) * inverse;
        let g = if SCALES { dy * scale } else { dy };
        (((g - h * share - other) * inverse).canonical(), dy * h)
    };
    let whole = count / TOGETHER * TOGETHER;
    // SAFETY: below `count`.
    unsafe {
        for first in (0..whole).step_by(TOGETHER) {
            let run = |from: *const T| from.add(first).cast::<[T; TOGETHER]>().read_unaligned();
            let (x, dy) = (run(x), run(dy));
            let scale = if SCALES { run(scale) } else { dy };
            let (mut dx, mut term) = (x, x);
            for j in 0..TOGETHER {
                (dx[j], term[j]) = result(x[j], dy[j], scale[j]);
            }
            out.add(first).cast::<[T; TOGETHER]>().write_unaligned(dx);
            if SUMS {
                for (to, terms) in [(dscale, term), (dbias, dy)] {
                    let mut sums = run(to);
                    for j in 0..TOGETHER {
                        sums[j] = sums[j] + terms[j];
                    }
                    to.add(first).cast::<[T; TOGETHER]>().write_unaligned(sums);
                }
            }
        }
        for i in whole..count {
            let (x, dy) = (x.add(i).read(), dy.add(i).read());
            let (dx, term) = result(x, dy, if SCALES { scale.add(i).read() } else { dy });
            out.add(i).write(dx);
            if SUMS {
                dscale.add(i).write(dscale.add(i).read() + term);
                dbias.add(i).write(dbias.add(i).read() + dy);
            }
        }
    }
}

/// `into = into + from`.
///
/// # Safety
/// There are `count` at either, which do not overlap.
#[vectorized]
unsafe fn unite<T: Real>(into: *mut T, from: *const T, count: usize) {
    for i in 0..count {
        // SAFETY: below `count`.
        unsafe { into.add(i).write(into.add(i).read() + from.add(i).read()) };
    }
}

struct Task<'a, T: Real> {
    step: &'a RowNormBackward,
    /// x, dy, scale, mean, inverse.
    sources: [Source; 5],
    /// dx, dscale, dbias.
    results: [Sink; 3],
    functions: Functions<T>,
    length: usize,
    rows: usize,
}

/// What one thread needs for its rows.
struct Scratch<T> {
    lanes: *mut T,
    /// For x, dy and scale, where they are converted.
    wide: [*mut T; 3],
    /// A block of results.
    block: *mut T,
    /// Sums of both parameters, one subtree behind the other.
    sums: *mut T,
}

impl<'a, T: Real> Task<'a, T> {
    fn new(step: &'a RowNormBackward, at: &[Address], machine: Machine) -> Self {
        let scalars = step.scalars();
        let source = |k: usize| Source::new::<T>(at[k], scalars[k], machine.isa);
        let result = |k: usize| Sink::new::<T>(at[k], scalars[k], machine.isa);
        Task {
            step,
            sources: [source(3), source(4), source(5), source(6), source(7)],
            results: [result(0), result(1), result(2)],
            functions: Functions::of(step, machine.isa),
            length: step.length as usize,
            rows: step.rows.len() as usize,
        }
    }

    fn has_sums(&self) -> bool {
        self.step.sums != [None; 2]
    }

    /// The most subtrees of sums that wait for a partner, and the one that grows.
    fn depth(&self) -> usize {
        let blocks = self.rows.div_ceil(Tree::ROWS.block);
        blocks.checked_ilog2().map_or(1, |log| log as usize + 2)
    }

    /// The parts of `at`, and their bytes.
    fn scratch(&self, at: *mut u8) -> (Scratch<T>, usize) {
        let mut parts = Parts::new(at);
        let needed = [true, true, self.step.parameters[0].is_some()];
        let scratch = Scratch {
            lanes: parts.take(2 * LANES),
            wide: std::array::from_fn(|k| {
                let converts = needed[k] && !self.sources[k].is_real;
                parts.take(if converts { self.length } else { 0 })
            }),
            block: parts.take(BLOCK.min(self.length)),
            sums: parts.take(if self.has_sums() { 2 * self.length * self.depth() } else { 0 }),
        };
        (scratch, parts.bytes)
    }

    /// # Safety
    /// As for [`Kind::run`](fn@run).
    unsafe fn run(&self, machine: Machine) -> Result<()> {
        let cells = self.sources[0].cell + self.sources[1].cell + self.results[0].cell;
        let bytes = self.rows.saturating_mul(self.length).saturating_mul(cells);
        // Sums are of all rows: those who want several threads make several steps.
        let threads = if self.has_sums() { 1 } else { machine.threads_for(bytes) };
        let (_, bytes) = self.scratch(std::ptr::null_mut());
        threads::in_ranges(threads, self.rows, bytes, &|at, range| {
            let (scratch, _) = self.scratch(at);
            let mut scale = (None, std::ptr::null());
            let mut waiting = 0;
            let subtree = |number: usize| {
                let first = scratch.sums.wrapping_add(2 * self.length * number);
                [first, first.wrapping_add(self.length)]
            };
            // SAFETY: the operands have these rows; the scratch is this thread's.
            unsafe {
                for number in range {
                    let at = place(&self.step.rows, number);
                    if self.step.parameters[0].is_some() && scale.0 != Some(at[3]) {
                        scale = (Some(at[3]), self.sources[2].numbers(at[3], self.length, scratch.wide[2]));
                    }
                    if self.has_sums() && number % Tree::ROWS.block == 0 {
                        let blocks = number / Tree::ROWS.block;
                        if blocks > 0 {
                            waiting += 1;
                            for _ in 0..(blocks - 1).trailing_ones() {
                                waiting -= 1;
                                self.unite(subtree(waiting - 1), subtree(waiting));
                            }
                        }
                        scratch::fill(subtree(waiting)[0], T::ZERO.negative(), 2 * self.length);
                    }
                    self.row(&at, scale.1, subtree(waiting), &scratch);
                }
                if self.has_sums() {
                    while waiting > 0 {
                        waiting -= 1;
                        self.unite(subtree(waiting), subtree(waiting + 1));
                    }
                    for (k, sum) in self.step.sums.iter().enumerate() {
                        if let Some((_, first)) = *sum {
                            let sums = subtree(0)[k];
                            for i in 0..self.length {
                                sums.add(i).write(sums.add(i).read().canonical());
                            }
                            self.results[1 + k].write(first, sums, self.length);
                        }
                    }
                }
            }
        })
    }

    /// # Safety
    /// Both are subtrees of this thread.
    unsafe fn unite(&self, into: [*mut T; 2], from: [*mut T; 2]) {
        // SAFETY: the sums of both parameters lie one behind the other.
        unsafe { (self.functions.unite)(into[0], from[0], 2 * self.length) }
    }

    /// # Safety
    /// The operands have the row that begins here; the scratch and the sums are this thread's.
    unsafe fn row(&self, at: &[i64; 6], scale: *const T, to: [*mut T; 2], scratch: &Scratch<T>) {
        let Functions { sums, join, results, .. } = self.functions;
        // SAFETY: elements of the row, and of the scratch.
        unsafe {
            let x = self.sources[0].numbers(at[1], self.length, scratch.wide[0]);
            let dy = self.sources[1].numbers(at[2], self.length, scratch.wide[1]);
            let centred = self.step.parameters[1].is_some();
            let mean = if centred { self.sources[3].number(at[4]) } else { T::ZERO };
            let inverse = self.sources[4].number(at[5]);
            let place = |first: usize| [x, dy, scale].map(|of| of.wrapping_add(first));
            let [share, other] = tree(self.length, |first, count| {
                sums(scratch.lanes, place(first), [mean, inverse], count);
                [join(scratch.lanes), join(scratch.lanes.add(LANES))]
            });
            let share = finish(Reduction::Avg, share, self.step.length);
            let other = if centred { finish(Reduction::Avg, other, self.step.length) } else { T::ZERO };
            let with = [mean, inverse, share, other];
            let dx = self.results[0];
            if dx.is_real {
                return results(dx.place(at[0]).cast(), to, [x, dy, scale], with, self.length);
            }
            for first in (0..self.length).step_by(BLOCK) {
                let count = BLOCK.min(self.length - first);
                let to = to.map(|to| to.wrapping_add(first));
                results(scratch.block, to, place(first), with, count);
                dx.write(at[0] + first as i64, scratch.block, count);
            }
        }
    }
}
