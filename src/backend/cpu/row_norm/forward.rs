//! Normalisation of rows.

use cudnn_shim_macros::vectorized;

use super::rows::{BLOCK, LANES, Sink, Source, TOGETHER, join, place, tree};
use crate::backend::Address;
use crate::backend::cpu::kind::{Call, Kind};
use crate::backend::cpu::scratch::Parts;
use crate::backend::cpu::stream::{self, STREAMING_BYTES, Stream};
use crate::backend::cpu::{Isa, Machine, threads};
use crate::backend::function::{Real, finish, with_real};
use crate::error::Result;
use crate::ops::{Reduction, RowNorm, Scaling};

impl Kind for RowNorm {
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
    sum: unsafe fn(lanes: *mut T, x: *const T, count: usize, mean: T),
    squares: unsafe fn(lanes: *mut T, x: *const T, count: usize, mean: T),
    join: unsafe fn(lanes: *mut T) -> T,
    results: unsafe fn(out: *mut T, x: *const T, parameters: [*const T; 2], with: [T; 3], count: usize),
}

impl<T: Real> Functions<T> {
    fn of(step: &RowNorm, isa: Isa) -> Self {
        let results = match step.parameters.map(|of| of.is_some_and(|of| of.each)) {
            [false, false] => results::of::<T, false, false>,
            [false, true] => results::of::<T, false, true>,
            [true, false] => results::of::<T, true, false>,
            [true, true] => results::of::<T, true, true>,
        };
        Functions {
            sum: lanes::of::<T, false>(isa),
            squares: lanes::of::<T, true>(isa),
            join: join::of::<T>(isa),
            results: results(isa),
        }
    }
}

/// The sums of the lanes of a block: of its elements, or of the squares of their distances from the
/// mean.
///
/// # Safety
/// `count` elements are readable, and [`LANES`] sums writable.
#[vectorized]
unsafe fn lanes<T: Real, const SQUARES: bool>(lanes: *mut T, x: *const T, count: usize, mean: T) {
    let term = |x: T| {
        let rest = x - mean;
        if SQUARES { rest * rest } else { x }
    };
    // Indexed by constants only, so that they stay in registers.
    let mut sums = [T::ZERO.negative(); LANES];
    let whole = count / LANES;
    // SAFETY: inside the first `count` elements, and all sums.
    unsafe {
        for i in 0..whole {
            let row = x.add(i * LANES).cast::<[T; LANES]>().read_unaligned();
            for j in 0..LANES {
                sums[j] = sums[j] + term(row[j]);
            }
        }
        lanes.cast::<[T; LANES]>().write(sums);
        for j in 0..count % LANES {
            let x = x.add(whole * LANES + j).read();
            lanes.add(j).write(lanes.add(j).read() + term(x));
        }
    }
}

/// `out = (x - mean) * factor * scale + bias`, with a scale and a bias of each element, or else one
/// bias.
///
/// # Safety
/// `count` elements are readable, as many parameters if each element has its own, and as many
/// results writable, where the elements are or where nothing is read.
#[vectorized]
unsafe fn results<T: Real, const SCALES: bool, const BIASES: bool>(
    out: *mut T, x: *const T, [scale, bias]: [*const T; 2], [mean, factor, alone]: [T; 3], count: usize,
) {
    let result = |x: T, scale: T, bias: T| {
        let mut y = (x - mean) * factor;
        if SCALES {
            y = y * scale;
        }
        (y + bias).canonical()
    };
    let whole = count / TOGETHER * TOGETHER;
    // SAFETY: below `count`.
    unsafe {
        for first in (0..whole).step_by(TOGETHER) {
            let run = |from: *const T| from.add(first).cast::<[T; TOGETHER]>().read_unaligned();
            let mut y = run(x);
            let scales = if SCALES { run(scale) } else { y };
            let biases = if BIASES { run(bias) } else { [alone; TOGETHER] };
            for j in 0..TOGETHER {
                y[j] = result(y[j], scales[j], biases[j]);
            }
            out.add(first).cast::<[T; TOGETHER]>().write_unaligned(y);
        }
        for i in whole..count {
            let x = x.add(i).read();
            let scale = if SCALES { scale.add(i).read() } else { x };
            let bias = if BIASES { bias.add(i).read() } else { alone };
            out.add(i).write(result(x, scale, bias));
        }
    }
}

struct Task<'a, T: Real> {
    step: &'a RowNorm,
    /// x, scale, bias, epsilon.
    sources: [Source; 4],
    /// y, mean, inverse.
    results: [Sink; 3],
    functions: Functions<T>,
    /// How y goes past the caches, if it is large.
    stream: Option<Stream>,
    length: usize,
}

/// What one thread needs for its rows.
struct Scratch<T> {
    lanes: *mut T,
    /// For x, scale and bias, where they are converted.
    wide: [*mut T; 3],
    /// A block of results, and of their cells.
    block: *mut T,
    cells: *mut u8,
}

impl<'a, T: Real> Task<'a, T> {
    fn new(step: &'a RowNorm, at: &[Address], machine: Machine) -> Self {
        let scalars = step.scalars();
        let source = |k: usize| Source::new::<T>(at[k], scalars[k], machine.isa);
        let result = |k: usize| Sink::new::<T>(at[k], scalars[k], machine.isa);
        let length = step.length as usize;
        let bytes = (step.rows.len() as usize).saturating_mul(length).saturating_mul(scalars[0].size());
        let is_far = bytes >= STREAMING_BYTES && at[0] != at[RowNorm::X];
        Task {
            step,
            sources: [source(RowNorm::X), source(4), source(5), source(6)],
            results: [result(0), result(1), result(2)],
            functions: Functions::of(step, machine.isa),
            stream: stream::streams(machine.isa).map(|streams| streams.copy).filter(|_| is_far),
            length,
        }
    }

    /// The room in `scratch`, and its bytes.
    fn room(&self, scratch: *mut u8) -> (Scratch<T>, usize) {
        let mut parts = Parts::new(scratch);
        let each = |k: usize| self.step.parameters[k].is_some_and(|of| of.each);
        let needed = [true, each(0), each(1)];
        let room = Scratch {
            lanes: parts.take(LANES),
            wide: std::array::from_fn(|k| {
                let converts = needed[k] && !self.sources[k].is_real;
                parts.take(if converts { self.length } else { 0 })
            }),
            block: parts.take(BLOCK.min(self.length)),
            cells: parts.take(BLOCK.min(self.length) * self.results[0].cell),
        };
        (room, parts.bytes)
    }

    /// # Safety
    /// As for [`Kind::run`](fn@run).
    unsafe fn run(&self, machine: Machine) -> Result<()> {
        let rows = self.step.rows.len() as usize;
        let cells = self.sources[0].cell + self.results[0].cell;
        let threads = machine.threads_for(rows.saturating_mul(self.length).saturating_mul(cells));
        let (_, bytes) = self.room(std::ptr::null_mut());
        threads::in_ranges(threads, rows, bytes, &|scratch, range| {
            let (room, _) = self.room(scratch);
            // SAFETY: the operands have these rows; the scratch is this thread's.
            unsafe {
                let epsilon = self.sources[3].number(self.step.epsilon.1);
                // Where the parameters of the last row were.
                let mut last = None;
                let mut parameters = [std::ptr::null(); 2];
                for row in range {
                    let at = place(&self.step.rows, row);
                    if last != Some([at[4], at[5]]) {
                        parameters = self.parameters(&at, &room);
                        last = Some([at[4], at[5]]);
                    }
                    self.row(&at, epsilon, parameters, &room);
                }
            }
            // What was streamed comes before the signal that the task is done.
            stream::fence();
        })
    }

    /// Scale and bias of each element of a row, where there are some.
    ///
    /// # Safety
    /// The operands have the row; there is room for what is converted.
    unsafe fn parameters(&self, at: &[i64; 6], room: &Scratch<T>) -> [*const T; 2] {
        std::array::from_fn(|k| match self.step.parameters[k] {
            // SAFETY: as many as the row has elements.
            Some(of) if of.each => unsafe {
                self.sources[1 + k].numbers(at[4 + k], self.length, room.wide[1 + k])
            },
            _ => std::ptr::null(),
        })
    }

    /// # Safety
    /// The operands have the row that begins here; the room is this thread's.
    unsafe fn row(&self, at: &[i64; 6], epsilon: T, [scale, bias]: [*const T; 2], room: &Scratch<T>) {
        let RowNorm { length, centred, saved, parameters, .. } = *self.step;
        let Functions { sum, squares, join, results } = self.functions;
        // SAFETY: elements of the row, and of the room.
        unsafe {
            let x = self.sources[0].numbers(at[RowNorm::X], self.length, room.wide[0]);
            let mut mean = T::ZERO;
            if centred {
                let [sum] = tree(self.length, |first, count| {
                    sum(room.lanes, x.add(first), count, mean);
                    [join(room.lanes)]
                });
                mean = finish(Reduction::Avg, sum, length);
            }
            let [sum] = tree(self.length, |first, count| {
                squares(room.lanes, x.add(first), count, mean);
                [join(room.lanes)]
            });
            let norm = finish(Reduction::Norm2, sum, length);
            let share = T::from_f64(1.0 / length as f64);
            let variance = (share * norm * norm).canonical();
            let inverse = (T::ONE / (variance + epsilon).canonical().root()).canonical();
            for (k, result) in [(1, mean), (2, inverse)] {
                if saved[k - 1].is_some() {
                    self.results[k].write(at[k], &raw const result, 1);
                }
            }
            // The one of a row, which changes nothing where there is none.
            let of_row = |k: usize| parameters[k].filter(|of| !of.each);
            let mut factor = inverse;
            if of_row(0).is_some() {
                factor = (inverse * self.sources[1].number(at[4])).canonical();
            }
            let alone = match of_row(1) {
                Some(_) => self.sources[2].number(at[5]),
                None => T::ZERO.negative(),
            };
            let with = [mean, factor, alone];
            let Sink { cell, is_real, store, .. } = self.results[0];
            let to = self.results[0].place(at[0]);
            if is_real && self.stream.is_none() {
                return results(to.cast(), x, [scale, bias], with, self.length);
            }
            for first in (0..self.length).step_by(BLOCK) {
                let count = BLOCK.min(self.length - first);
                let parameters = [scale, bias].map(|of| of.wrapping_add(first));
                results(room.block, x.add(first), parameters, with, count);
                let (to, block) = (to.add(first * cell), room.block.cast::<u8>());
                match self.stream {
                    Some(stream) if is_real => stream(to, block, count * cell),
                    Some(stream) => {
                        store(room.cells, block, count, Scaling::MOVE);
                        stream(to, room.cells, count * cell);
                    }
                    None => store(to, block, count, Scaling::MOVE),
                }
            }
        }
    }
}
