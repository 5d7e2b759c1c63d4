//! Gradients along two axes where outputs are the lanes: rows are short, so a band of them is
//! treated at once.
//!
//! A band needs nothing of other bands: outputs that it shares with the band before are brought in,
//! and choose their cells, once more. Around cells and outputs there is room for windows that begin
//! before the first or end behind the last, so that all windows are alike.

use super::Gradient;
use super::lanes::{DIRECT_TAPS, Kernels, Repeat, Tap};
use super::phases::{GROUP, Phases};
use crate::backend::Address;
use crate::backend::cpu::scratch::{Parts, fill};
use crate::backend::cpu::threads;
use crate::backend::cpu::window::plane::Gather;
use crate::backend::cpu::window::shape::Shape;
use crate::backend::cpu::window::sink::{Sink, Way};
use crate::backend::real::Real;
use crate::error::Result;
use crate::ops::window::{Divisor, WindowAxis, WindowFunction};

/// Bytes of a band in work: they stay in the first-level cache.
const BAND_BYTES: usize = 40 << 10;

/// What threads share.
pub struct Bands<'a, T: Real> {
    pub shape: &'a Shape<'a>,
    pub at: &'a [Address],
    pub phases: Phases,
    pub source: Gather,
    pub gradient: Gather,
    pub way: Way,
    pub kernels: Kernels<T>,
    /// How the sums of a gradient of averages are divided; `None` for maxima.
    by: Option<Divisor>,
    /// Bands of a plane, and the most rows of each: of results, outputs and cells.
    bands: usize,
    rows: usize,
    outputs: usize,
    cells: usize,
}

// SAFETY: addresses without meaning of their own; what is written through them is apart for every
// band.
unsafe impl<T: Real> Sync for Bands<'_, T> {}

/// The room of a thread.
struct Scratch<T: Real> {
    keys: *mut T::Key,
    numbers: *mut T,
    winners: *mut T::Key,
    /// Sums of rows of outputs, with zeros on both sides.
    lines: *mut T,
    /// Sums in phases.
    sums: *mut T,
    /// Rows as they come, and what it takes to bring them, and results that go to rows apart.
    fresh: *mut T,
    gather: *mut u8,
    /// Rows of taps, and all of them.
    rows: *mut Tap,
    taps: *mut Tap,
    divisors: *mut T,
}

impl<'a, T: Real> Bands<'a, T> {
    /// `None` where windows are so high that bands would share most outputs.
    pub fn new(
        shape: &'a Shape<'a>, at: &'a [Address], gradient: Gradient, way: Way, kernels: Kernels<T>,
    ) -> Option<Self> {
        let Gradient { phases, source, gradient } = gradient;
        let [first, last] = shape.axes[..] else { return None };
        if shape.lanes > 1 || last.outputs < 2 {
            return None;
        }
        let by = match shape.window.function {
            WindowFunction::AverageGradient(by) => Some(by),
            _ => None,
        };
        let of_row = 2 * phases.len()
            + last.inputs as usize
            + 2 * phases.spread_len() / first.stride.min(1 << 20) as usize;
        let most = (BAND_BYTES / (of_row * size_of::<T>())).max(GROUP);
        let bands = (first.inputs as usize).div_ceil(most);
        let rows = (first.inputs as usize).div_ceil(bands);
        let shared = first.window - first.stride;
        if bands > 1 && 4 * shared > rows as i64 {
            return None;
        }
        let outputs = (rows as i64 + first.window - 2) / first.stride + 2;
        let cells =
            (outputs.min(first.outputs) - 1).checked_mul(first.stride)?.checked_add(first.window)? as usize;
        // Room for windows far outside would be most of it.
        let is_small = cells <= 4 * (first.inputs as usize + GROUP) && outputs as usize <= 4 * (rows + GROUP);
        is_small.then_some(Bands {
            shape,
            at,
            phases,
            source,
            gradient,
            way,
            kernels,
            by,
            bands,
            rows,
            outputs: outputs as usize,
            cells,
        })
    }

    fn axes(&self) -> [&WindowAxis; 2] {
        [&self.shape.axes[0], &self.shape.axes[1]]
    }

    /// # Safety
    /// As for [`super::super::run`], with the gradient of a maximum or an average.
    pub unsafe fn run(&self, threads: usize) -> Result<()> {
        let items = self.shape.outer * self.bands;
        let mut parts = Parts::new(std::ptr::null_mut());
        self.room(&mut parts);
        let longest = self.longest();
        let scratch = parts.bytes + self.way.bytes(longest);
        threads::in_ranges(threads, items, scratch, &|block, range| {
            let mut parts = Parts::new(block);
            let mine = self.room(&mut parts);
            let mut sink = Sink::new(&self.way, parts.take(self.way.bytes(longest)), longest);
            // SAFETY: the block is as large as it says, and bands are apart.
            unsafe {
                self.clear(&mine);
                for item in range {
                    self.band(item / self.bands, item % self.bands, &mine, &mut sink);
                }
                sink.flush();
            }
            crate::backend::cpu::stream::fence();
        })
    }

    /// Results of a run at most.
    fn longest(&self) -> usize {
        self.rows * self.axes()[1].inputs as usize
    }

    fn room(&self, parts: &mut Parts) -> Scratch<T> {
        let [first, last] = self.axes();
        let (row, spread) = (self.phases.len(), self.phases.spread_len());
        let of_maxima = |count: usize| if self.by.is_none() { count } else { 0 };
        let of_averages = |count: usize| if self.by.is_some() { count } else { 0 };
        let come = (self.outputs * last.outputs as usize).max(of_maxima(self.cells * last.inputs as usize));
        Scratch {
            keys: parts.take(of_maxima(self.cells * row)),
            numbers: parts.take(self.outputs * spread),
            winners: parts.take(of_maxima(self.outputs * spread)),
            lines: parts.take(of_averages(self.rows * spread)),
            sums: parts.take(self.rows * row),
            fresh: parts.take(come.max(self.longest())),
            gather: parts.take(self.source.bytes(self.shape).max(self.gradient.bytes(self.shape))),
            rows: parts.take(first.window as usize),
            taps: parts.take((first.window * last.window) as usize),
            divisors: parts.take(of_averages(last.outputs as usize)),
        }
    }

    /// What is around cells and outputs, and what does not change.
    ///
    /// # Safety
    /// The room is that of this job.
    unsafe fn clear(&self, mine: &Scratch<T>) {
        let (row, spread) = (self.phases.len(), self.phases.spread_len());
        // SAFETY: the parts have room for it.
        unsafe {
            mine.numbers.write_bytes(0, self.outputs * spread);
            if self.by.is_some() {
                return mine.lines.write_bytes(0, self.rows * spread);
            }
            fill(mine.keys, T::LEAST, self.cells * row);
            fill(mine.winners, T::Key::from(-1), self.outputs * spread);
        }
    }

    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn band(&self, outer: usize, band: usize, mine: &Scratch<T>, sink: &mut Sink<'_>) {
        let [first, last] = self.axes();
        let place = self.shape.place(outer);
        let base = |operand: usize, layout: usize| self.at[operand].pointer().wrapping_offset(place[layout]);
        let spread = self.phases.spread_len();
        let low = band * self.rows;
        let rows = self.rows.min(first.inputs as usize - low);
        let low = low as i64;
        // Outputs that hold these cells, some of which there may not be: from the first one whose
        // window ends behind `low`.
        let begin = (low + first.pad - first.window).div_euclid(first.stride) + 1;
        let end = (low + rows as i64 - 1 + first.pad).div_euclid(first.stride) + 1;
        let inside = begin.clamp(0, first.outputs)..end.clamp(0, first.outputs);
        // SAFETY: rows of the axes, and there is room for all of them.
        unsafe {
            for output in (begin..inside.start.min(end)).chain(inside.end.max(begin)..end) {
                let at = (output - begin) as usize * spread;
                mine.numbers.add(at).write_bytes(0, spread);
                if self.by.is_none() {
                    fill(mine.winners.add(at), T::Key::from(-1), spread);
                }
            }
            if !inside.is_empty() {
                let at = (inside.start - begin) as usize * spread + self.phases.lead();
                self.bring(base(3, 2), inside.clone(), mine.numbers.add(at), mine);
                if self.by.is_none() {
                    self.choose(base(2, 1), inside, mine.winners.add(at), mine);
                }
            }
            let n = last.inputs as usize;
            let dst = base(0, 0).wrapping_offset(self.shape.along(0, 0, low));
            let size = self.shape.size(0) as isize;
            let is_run =
                self.shape.last_step(0) == Some(size) && self.shape.step(0, 0) == Some(size * n as isize);
            let to = if is_run { sink.run::<T>(dst, rows * n) } else { mine.fresh };
            self.sums(low, rows, begin, to, mine);
            for row in 0..if is_run { 0 } else { rows } {
                let at = low + row as i64;
                let line = sink.run::<T>(base(0, 0).wrapping_offset(self.shape.along(0, 0, at)), n);
                line.copy_from_nonoverlapping(to.add(row * n), n);
                match self.shape.last_step(0) {
                    Some(step) if step == size => {}
                    step => sink.strided(step.unwrap_or(0), n),
                }
            }
        }
    }

    /// Where rows lie side by side, and how far apart they are: in place, or brought together.
    ///
    /// # Safety
    /// `plane` is where row 0 lies, and there are these rows.
    unsafe fn rows(
        &self, gather: &Gather, plane: *const u8, rows: &std::ops::Range<i64>, n: usize, step: Option<isize>,
        mine: &Scratch<T>,
    ) -> (*const T, usize) {
        // SAFETY: the plane has these rows, and there is room for all of them.
        unsafe {
            if let Some(step) = step.filter(|&step| step >= 0 && step % size_of::<T>() as isize == 0)
                && gather.is_packed(self.shape, 1, 1)
            {
                return (
                    plane.wrapping_offset(step * rows.start as isize).cast(),
                    step as usize / size_of::<T>(),
                );
            }
            gather.rows(self.shape, plane, rows.clone(), 1, mine.fresh.cast(), mine.gather);
            (mine.fresh, n)
        }
    }

    /// Brings rows of outputs: for averages, over their divisors.
    ///
    /// # Safety
    /// `plane` is where the gradient lies, and there is room for these rows.
    unsafe fn bring(&self, plane: *const u8, outputs: std::ops::Range<i64>, to: *mut T, mine: &Scratch<T>) {
        let [first, last] = self.axes();
        let n = last.outputs as usize;
        let spread = self.phases.spread_len();
        // SAFETY: the plane has these rows of outputs, and there is room for them.
        unsafe {
            let (from, step) = self.rows(&self.gradient, plane, &outputs, n, self.shape.step(0, 2), mine);
            let Some(by) = self.by else {
                let repeat = Repeat { count: outputs.count(), to: spread, from: step };
                return (self.kernels.place)(to, from, n, repeat);
            };
            let mut row = outputs.start;
            while row < outputs.end {
                // Rows have the same divisors but for those at the edges.
                let count = first.count(row, by);
                let same = (row..outputs.end).take_while(|&row| first.count(row, by) == count).count();
                for output in 0..last.outputs {
                    // An output without a cell has nothing to give.
                    let divisor = T::from_i64((count * last.count(output, by)).max(1));
                    mine.divisors.add(output as usize).write(divisor);
                }
                let at = (row - outputs.start) as usize;
                let repeat = Repeat { count: same, to: spread, from: step };
                (self.kernels.divide_each)(
                    to.add(at * spread),
                    from.wrapping_add(at * step),
                    mine.divisors,
                    n,
                    repeat,
                );
                row += same as i64;
            }
        }
    }

    /// Finds the first largest cells of rows of outputs.
    ///
    /// # Safety
    /// `plane` is where the source lies, and there is room for these rows.
    unsafe fn choose(
        &self, plane: *const u8, outputs: std::ops::Range<i64>, winners: *mut T::Key, mine: &Scratch<T>,
    ) {
        let [first, last] = self.axes();
        let row = self.phases.len();
        let begin = outputs.start * first.stride - first.pad;
        let end = (outputs.end - 1) * first.stride - first.pad + first.window;
        let inside = begin.clamp(0, first.inputs)..end.clamp(0, first.inputs);
        // SAFETY: the plane has these rows of cells, and there is room for their keys.
        unsafe {
            for cell in (begin..inside.start.min(end)).chain(inside.end.max(begin)..end) {
                fill(mine.keys.add((cell - begin) as usize * row), T::LEAST, row);
            }
            if !inside.is_empty() {
                let n = last.inputs as usize;
                let (from, step) = self.rows(&self.source, plane, &inside, n, self.shape.step(0, 1), mine);
                let to = mine.keys.add((inside.start - begin) as usize * row);
                let repeat = Repeat { count: inside.count(), to: row, from: step };
                self.phases.split(&self.kernels, from, mine.sums.cast(), to, repeat);
            }
            for tap in 0..(first.window * last.window) as usize {
                let (high, low) = (tap / last.window as usize, tap % last.window as usize);
                let offset = high * row + self.phases.tap(low);
                mine.taps.add(tap).write(Tap { offset, number: tap as i32 });
            }
            let taps = std::slice::from_raw_parts(mine.taps, (first.window * last.window) as usize);
            let n = (last.outputs as usize).next_multiple_of(GROUP);
            let repeat = Repeat {
                count: outputs.count(),
                to: self.phases.spread_len(),
                from: (first.stride as usize).wrapping_mul(row),
            };
            (self.kernels.choose)(winners, mine.keys, taps, n, repeat);
        }
    }

    /// The sums of rows of cells.
    ///
    /// # Safety
    /// The outputs that hold them are there, from output `begin` on, and there is room for the
    /// sums.
    unsafe fn sums(&self, low: i64, rows: usize, begin: i64, to: *mut T, mine: &Scratch<T>) {
        let [first, last] = self.axes();
        let spread = self.phases.spread_len();
        let (sums, row) = if self.phases.is_straight() {
            (to, last.inputs as usize)
        } else {
            (mine.sums, self.phases.len())
        };
        // Rows of one remainder modulo the stride are alike.
        for phase in 0..rows.min(first.stride as usize) {
            let cell = low + phase as i64 + first.pad;
            let outputs =
                (cell - first.window).div_euclid(first.stride) + 1..cell.div_euclid(first.stride) + 1;
            let count = outputs.clone().count();
            // SAFETY: no cell has more outputs than these, and all of them exist.
            unsafe {
                for (k, output) in outputs.enumerate() {
                    let number = ((cell - output * first.stride) * last.window) as i32;
                    mine.rows.add(k).write(Tap { offset: (output - begin) as usize * spread, number });
                }
                let rows_of_taps = std::slice::from_raw_parts(mine.rows, count);
                let turns = (rows - phase).div_ceil(first.stride as usize);
                let step = (first.stride as usize).wrapping_mul(row);
                let sums = sums.add(phase * row);
                let repeat = Repeat { count: turns, to: step, from: spread };
                let columns = (last.window as usize).div_ceil(last.stride as usize);
                let is_average = self.by.is_some();
                if is_average && count > 1 && count * columns > DIRECT_TAPS {
                    let lead = self.phases.lead();
                    let (lines, numbers, n) =
                        (mine.lines.add(lead), mine.numbers.add(lead), last.outputs as usize);
                    let once = Repeat { count: turns, to: spread, from: spread };
                    (self.kernels.total)(lines, numbers, rows_of_taps, count, n, once);
                    self.phases.each_phase(|to, from, columns, n| {
                        let taps = columns.of_rows(&[Tap { offset: from, number: 0 }], true, mine.taps);
                        (self.kernels.total)(sums.add(to), mine.lines, taps, 1, n, repeat);
                    });
                    continue;
                }
                self.phases.each_phase(|to, from, columns, n| {
                    let taps = columns.of_rows(rows_of_taps, is_average, mine.taps);
                    let (to, numbers) = (sums.add(to), mine.numbers.add(from));
                    if is_average {
                        (self.kernels.total)(to, numbers, taps, count.max(1), n, repeat);
                    } else {
                        (self.kernels.give)(to, mine.winners.add(from), numbers, taps, n, repeat);
                    }
                });
            }
        }
        let n = last.inputs as usize;
        // SAFETY: all sums are made.
        unsafe { self.phases.join(&self.kernels, sums, to, Repeat { count: rows, to: n, from: row }) };
    }
}
