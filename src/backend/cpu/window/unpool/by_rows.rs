//! A plane of a gradient row by row along the first axis.
//!
//! A row of outputs is kept while its windows hold the row of cells in work; for a maximum, so are
//! the keys of the cells that these windows hold, and which cell each output chose. So every sum is
//! made at once, in the order of the outputs, in registers.

use super::kept::{Block, Job, Side, ceil_div};
use super::lanes::{Columns, DIRECT_TAPS, Repeat, Tap};
use super::phases::GROUP;
use crate::backend::cpu::window::shape::{Index, odometer};
use crate::backend::cpu::window::sink::Sink;
use crate::backend::cpu::window::tables::Tables;
use crate::backend::real::Real;
use crate::ops::window::{MAX_AXES, WindowAxis};

impl<T: Real> Job<'_, T> {
    /// # Safety
    /// As for [`super::super::run`]; the memory is that of [`block`](Self::block).
    pub unsafe fn plane(
        &self, outer: usize, lane: usize, lanes: usize, mine: &mut Block<T>, sink: &mut Sink<'_>,
    ) {
        let shape = self.shape;
        let place = shape.place(outer);
        let base = |operand: usize, layout: usize| {
            let skipped = (lane * shape.size(layout)) as isize;
            self.at[operand].pointer().wrapping_offset(place[layout] + skipped)
        };
        let (mut given, mut keyed) = (0, 0);
        // Where the sums of the row before lie, and the outputs that they are made of.
        let mut before = None;
        let repeats = self.is_line() && self.is_average() && shape.axes.len() == 2;
        for cell in 0..shape.axes[0].inputs {
            // SAFETY: coordinates of the axes, each of whose rows is brought before it is asked
            // for.
            unsafe {
                let outputs = mine.outputs.range(0, cell);
                for output in outputs.0.max(given)..outputs.1 {
                    self.bring(base(3, 2), output, lanes, mine);
                    if self.is_average() {
                        continue;
                    }
                    let cells = mine.cells.range(0, output);
                    (cells.0.max(keyed)..cells.1).for_each(|key| self.keys(base(2, 1), key, lanes, mine));
                    keyed = keyed.max(cells.1);
                    self.choose(output, lanes, mine);
                }
                given = given.max(outputs.1);
                let dst = base(0, 0).wrapping_offset(shape.along(0, 0, cell));
                let made = match before {
                    Some((same, sums)) if repeats && same == outputs => {
                        let n = shape.last().inputs as usize;
                        let line = sink.run::<T>(dst, n);
                        line.copy_from(sums, n);
                        self.line_is_made(n, sink);
                        line.cast_const()
                    }
                    _ => self.results(dst, cell, lanes, mine, sink),
                };
                before = Some((outputs, made));
            }
        }
    }

    /// Calls `f` for the rows of the last axis that a row of the first axis has: with their
    /// coordinates, and where they lie among those that are kept.
    #[inline(always)]
    fn each_line(&self, side: &Side, first: i64, mut f: impl FnMut(&Index, usize)) {
        let mut index = Index::default();
        index[0] = first;
        let mut at = (first & (side.kept - 1)) as usize * side.lines;
        // Most windows have two axes.
        let last = self.shape.axes.len() - 1;
        if last == 1 {
            return f(&index, at);
        }
        odometer(&side.bounds, 1, last, &mut index, &mut |index| {
            f(index, at);
            at += 1;
        });
    }

    /// Lists the rows of the other side that meet this one, with the numbers of the taps by which
    /// they do. A tap is named by its axis and the coordinate on the other side.
    ///
    /// # Safety
    /// The tables are those of this side, whose row this is.
    #[inline(always)]
    unsafe fn list(
        &self, other: &Side, places: usize, tables: &Tables, index: &Index,
        tap: impl Fn(&WindowAxis, i64, i64) -> i64, mine: &Block<T>,
    ) -> &[Tap] {
        let axes = &self.shape.axes;
        let last = axes.len() - 1;
        // SAFETY: the index is one of the plane that the tables are of.
        let range = |k: usize| unsafe { tables.range(k, index[k]) };
        let mut count = 0;
        let mut push = |line: usize, number: i64| {
            let number = (number * axes[last].window) as i32;
            // SAFETY: there is room for all of them.
            unsafe { mine.rows.add(count).write(Tap { offset: line * places, number }) };
            count += 1;
        };
        let mut inner = [(0, 1); MAX_AXES];
        (1..last).for_each(|k| inner[k] = range(k));
        for first in range(0).0..range(0).1 {
            let line = (first & (other.kept - 1)) as usize * other.lines;
            let number = tap(&axes[0], index[0], first);
            if last == 1 {
                push(line, number);
                continue;
            }
            odometer(&inner, 1, last, &mut Index::default(), &mut |at| {
                let (mut line_between, mut number) = (0, number);
                for k in 1..last {
                    line_between = line_between * other.bounds[k].1 + at[k];
                    number = number * axes[k].window + tap(&axes[k], index[k], at[k]);
                }
                push(line + line_between as usize, number);
            });
        }
        // SAFETY: these have been written.
        unsafe { std::slice::from_raw_parts(mine.rows, count) }
    }

    /// Brings a row of outputs: for an average, over their divisors.
    ///
    /// # Safety
    /// As for [`plane`](Self::plane), whose gradient this is.
    unsafe fn bring(&self, gradient: *const u8, output: i64, lanes: usize, mine: &mut Block<T>) {
        let (shape, last) = (self.shape, self.shape.axes.len() - 1);
        let n = shape.last().outputs;
        let places = self.places(lanes).outputs;
        let lead = if self.is_line() { self.phases.lead() } else { 0 };
        // SAFETY: the row exists, and there is room for it.
        unsafe {
            let mut from = self.gradient.cells::<T>(shape, gradient, output, lanes, mine.fresh, mine.gather);
            let mut of_rows = mine.of_rows;
            self.each_line(&self.sides.outputs, output, |index, line| {
                let to = mine.numbers.add(line * places + lead);
                let of_row: i64 = (0..last).map(|k| mine.cells.count(k, index[k])).product();
                // An output without a cell has nothing to give.
                let divisor = |o: i64| T::from_i64((of_row * mine.cells.count(last, o)).max(1));
                if !self.is_average() {
                    to.copy_from_nonoverlapping(from, n as usize * lanes);
                } else if self.is_line() {
                    // Rows have the same divisors but for those at the edges.
                    if of_rows != of_row {
                        (0..n).for_each(|o| mine.divisors.add(o as usize).write(divisor(o)));
                        of_rows = of_row;
                    }
                    (self.kernels.divide_each)(to, from, mine.divisors, n as usize, Repeat::ONCE);
                } else {
                    let mut begin = 0;
                    while begin < n {
                        let count = mine.cells.count(last, begin);
                        let same = (begin..n).take_while(|&o| mine.cells.count(last, o) == count).count();
                        let at = begin as usize * lanes;
                        (self.kernels.divide)(to.add(at), from.add(at), divisor(begin), same * lanes);
                        begin += same as i64;
                    }
                }
                from = from.add(n as usize * lanes);
            });
            mine.of_rows = of_rows;
        }
    }

    /// Brings a row of cells, as keys.
    ///
    /// # Safety
    /// As for [`plane`](Self::plane), whose source this is.
    unsafe fn keys(&self, source: *const u8, cell: i64, lanes: usize, mine: &Block<T>) {
        let (shape, places) = (self.shape, self.places(lanes).cells);
        let n = shape.last().inputs as usize * lanes;
        // SAFETY: the row exists, and there is room for it.
        unsafe {
            let mut from = self.source.cells::<T>(shape, source, cell, lanes, mine.fresh, mine.gather);
            self.each_line(&self.sides.cells, cell, |_, line| {
                let to = mine.keys.add(line * places);
                if self.is_line() {
                    self.phases.split(&self.kernels, from, mine.row.cast(), to, Repeat::ONCE);
                } else {
                    (self.kernels.keys)(to, from, n, Repeat::ONCE);
                }
                from = from.add(n);
            });
        }
    }

    /// Finds the first largest cells of a row of outputs.
    ///
    /// # Safety
    /// The keys of their windows are there.
    unsafe fn choose(&self, output: i64, lanes: usize, mine: &Block<T>) {
        let (shape, last) = (self.shape, self.shape.axes.len() - 1);
        let axis = shape.last();
        let places = self.places(lanes);
        let tap = |axis: &WindowAxis, output: i64, cell: i64| cell + axis.pad - output * axis.stride;
        self.each_line(&self.sides.outputs, output, |index, line| {
            // SAFETY: coordinates of the axes; keys and winners have all places, and lines room for
            // whole groups.
            unsafe {
                let rows = self.list(&self.sides.cells, places.cells, &mine.cells, index, tap, mine);
                let line = line * places.outputs;
                if self.is_line() {
                    let winners = mine.winners.add(line + self.phases.lead());
                    let mut taken = 0;
                    for row in rows {
                        for tap in 0..axis.window as usize {
                            let offset = row.offset + self.phases.tap(tap);
                            mine.taps.add(taken).write(Tap { offset, number: row.number + tap as i32 });
                            taken += 1;
                        }
                    }
                    let taps = std::slice::from_raw_parts(mine.taps, taken);
                    let n = (axis.outputs as usize).next_multiple_of(GROUP);
                    return (self.kernels.choose)(winners, mine.keys, taps, n, Repeat::ONCE);
                }
                let windows = |output: i64| {
                    let (begin, end) = mine.cells.range(last, output);
                    (tap(axis, output, begin), end - begin)
                };
                let mut output = 0;
                while output < axis.outputs {
                    let window = windows(output);
                    let count =
                        (output..axis.outputs).take_while(|&output| windows(output) == window).count();
                    let columns =
                        Columns { count: window.1 as usize, first: window.0 as i32, step: 1, pitch: lanes };
                    let taps = columns.of_rows(rows, false, mine.taps);
                    let winners = mine.winners.add(line + output as usize * lanes);
                    // A window beside all cells has no taps, and begins anywhere.
                    let begin = mine.cells.range(last, output).0 as usize;
                    let keys = mine.keys.wrapping_add(begin.wrapping_mul(lanes));
                    // A stride of any size may be there where one output is.
                    let from = (axis.stride as usize).wrapping_mul(lanes);
                    let repeat = Repeat { count, to: lanes, from };
                    (self.kernels.choose)(winners, keys, taps, lanes, repeat);
                    output += count as i64;
                }
            }
        });
    }

    /// The sums of a row of cells; where the last of its rows lies.
    ///
    /// # Safety
    /// The outputs whose windows hold these cells are there.
    unsafe fn results(
        &self, dst: *mut u8, cell: i64, lanes: usize, mine: &Block<T>, sink: &mut Sink<'_>,
    ) -> *const T {
        let (shape, last) = (self.shape, self.shape.axes.len() - 1);
        let axis = shape.last();
        let n = axis.inputs as usize;
        let places = self.places(lanes).outputs;
        let mut made = std::ptr::null();
        let tap = |axis: &WindowAxis, cell: i64, output: i64| cell + axis.pad - output * axis.stride;
        self.each_line(&self.sides.cells, cell, |index, _| {
            let to = (1..last).fold(dst, |to, k| to.wrapping_offset(shape.along(k, 0, index[k])));
            // SAFETY: coordinates of the axes.
            unsafe {
                let rows = self.list(&self.sides.outputs, places, &mine.outputs, index, tap, mine);
                if self.is_line() {
                    let line = sink.run::<T>(to, n);
                    self.line(line, rows, mine);
                    self.line_is_made(n, sink);
                    made = line.cast_const();
                    return;
                }
                let step = shape.last_step(0);
                let is_run = step == Some((lanes * shape.size(0)) as isize);
                let sums = if is_run { sink.run::<T>(to, n * lanes) } else { mine.fresh };
                self.pixels(sums, rows, lanes, mine);
                for cell in 0..if is_run { 0 } else { n } {
                    let to = to.wrapping_offset(shape.along(last, 0, cell as i64));
                    sink.run::<T>(to, lanes).copy_from_nonoverlapping(sums.add(cell * lanes), lanes);
                }
            }
        });
        made
    }

    /// `n` sums of what outputs from this place on give.
    ///
    /// # Safety
    /// The outputs are there, and there is room for the sums.
    #[allow(clippy::too_many_arguments, reason = "as the loops that are called")]
    unsafe fn sum(
        &self, to: *mut T, from: usize, rows: &[Tap], columns: Columns, n: usize, repeat: Repeat,
        mine: &Block<T>,
    ) {
        // SAFETY: the rows of outputs are in place, and there is room for the sums.
        unsafe {
            let numbers = mine.numbers.wrapping_add(from);
            let taps = columns.of_rows(rows, self.is_average(), mine.taps);
            if self.is_average() {
                (self.kernels.total)(to, numbers, taps, rows.len().max(1), n, repeat);
            } else {
                (self.kernels.give)(to, mine.winners.wrapping_add(from), numbers, taps, n, repeat);
            }
        }
    }

    /// The sums of the cells along the last axis, of every lane.
    ///
    /// # Safety
    /// The rows of outputs are there, and there is room for the sums.
    unsafe fn pixels(&self, to: *mut T, rows: &[Tap], lanes: usize, mine: &Block<T>) {
        let (axis, last) = (self.shape.last(), self.shape.axes.len() - 1);
        let stride = axis.stride as usize;
        // SAFETY: coordinates of the axis.
        let outputs = |cell: i64| unsafe {
            let (begin, end) = mine.outputs.range(last, cell);
            (cell + axis.pad - begin * axis.stride, end - begin)
        };
        for phase in 0..axis.stride.min(axis.inputs) {
            let mut cell = phase;
            while cell < axis.inputs {
                let (first, count) = outputs(cell);
                let cells = (cell..axis.inputs).step_by(stride);
                let alike = cells.take_while(|&cell| outputs(cell) == (first, count)).count();
                let columns = Columns {
                    count: count as usize,
                    first: first as i32,
                    step: (axis.stride as i32).wrapping_neg(),
                    pitch: lanes,
                };
                let repeat = Repeat { count: alike, to: stride.wrapping_mul(lanes), from: lanes };
                // SAFETY: the rows of outputs are in place, and there is room for the sums.
                unsafe {
                    let from = (mine.outputs.range(last, cell).0 as usize).wrapping_mul(lanes);
                    self.sum(to.add(cell as usize * lanes), from, rows, columns, lanes, repeat, mine);
                }
                cell = (alike as i64).saturating_mul(axis.stride).saturating_add(cell);
            }
        }
    }

    /// The sums of the cells of a row of the last axis.
    ///
    /// # Safety
    /// The rows of outputs are there, and there is room for the sums.
    unsafe fn line(&self, line: *mut T, rows: &[Tap], mine: &Block<T>) {
        let axis = self.shape.last();
        // SAFETY: as many numbers before and behind an output as taps of a phase reach.
        unsafe {
            let columns = ceil_div(axis.window, axis.stride) as usize;
            let row = if self.phases.is_straight() { line } else { mine.row };
            if !self.is_average() || axis.outputs > 1 && rows.len() * columns <= DIRECT_TAPS {
                self.phases.each_phase(|to, from, columns, n| {
                    self.sum(row.add(to), from, rows, columns, n, Repeat::ONCE, mine);
                });
                return self.phases.join(&self.kernels, row, line, Repeat::ONCE);
            }
            let lead = self.phases.lead();
            let (sums, n) = (mine.line.add(lead), axis.outputs as usize);
            (self.kernels.total)(sums, mine.numbers.add(lead), rows, rows.len().max(1), n, Repeat::ONCE);
            if axis.outputs == 1 {
                return self.phases.spread_one(sums.read(), line);
            }
            self.phases.each_phase(|to, from, columns, n| {
                let taps = columns.of_rows(&[Tap { offset: from, number: 0 }], true, mine.taps);
                (self.kernels.total)(row.add(to), mine.line, taps, 1, n, Repeat::ONCE);
            });
            self.phases.join(&self.kernels, row, line, Repeat::ONCE);
        }
    }

    /// Moves the cells of a run apart, where the destination has them so.
    ///
    /// # Safety
    /// The last run of the sink has `n` results, which are in place.
    unsafe fn line_is_made(&self, n: usize, sink: &mut Sink<'_>) {
        let step = self.shape.last_step(0).unwrap_or(0);
        if step != self.shape.size(0) as isize {
            // SAFETY: the last run of the sink has `n` results, in place.
            unsafe { sink.strided(step, n) };
        }
    }
}
