//! Maxima and averages over windows.
//!
//! Where cells lie side by side that are treated alike (the channels of NHWC), they are the lanes:
//! an output is the fold of the runs at its taps. Else the lanes are a row of the last axis: first
//! each column of the window is folded, for the whole row at a time, then columns are folded along
//! the row. With stride 1 [columns are shared](self::shared) in both cases.

mod end;
mod job;
mod shared;

use self::end::{Counts, Divide, End, Select};
use self::job::{Block, Job, Shared, is_ended, is_gathered, strip, way};
use super::fold::{Fold, Largest, Ordered, Sum, SumOfBytes, Times, folds};
use super::plane::Gather;
use super::problem::Problem;
use super::shape::{Index, Shape, odometer};
use super::sink::{Sink, Way};
use super::tables::{Ask, Tables};
use crate::backend::Address;
use crate::backend::choice::Launch;
use crate::backend::cpu::scratch::{Parts, fill};
use crate::backend::cpu::stream::Distance;
use crate::backend::cpu::{Machine, threads};
use crate::backend::function::with_real;
use crate::backend::reference::lowest;
use crate::dtype::Scalar;
use crate::dtype::convert::Element;
use crate::error::Result;
use crate::ops::window::{MAX_AXES, WindowAxis, WindowFunction};
use crate::ops::{Compute, NanRule};

/// Bytes of the numbers of a plane that is brought at once: they stay in the first-level cache.
const PLANE_BYTES: usize = 24 << 10;

/// Lanes from which on few columns are folded anew for every output.
const MANY_LANES: usize = 32;

/// Maxima and averages, with [shared columns](self::shared) or without.
pub(super) fn accept<'a>(problem: &Problem<'a>, shares: bool) -> Option<Launch<'a>> {
    let (window, isa) = (problem.shape.window, problem.machine.isa);
    let source = window.scalars[1];
    match window.function {
        WindowFunction::Average(by) if source == Scalar::I8 && window.compute == Compute::Single => {
            pool::<SumOfBytes, _>(problem, shares, move || Divide::<f32>::new(by, isa))
        }
        WindowFunction::Average(by) => with_real!(window.compute, T => {
            pool::<Sum<T>, _>(problem, shares, move || Divide::<T>::new(by, isa))
        }),
        WindowFunction::Max(rule) => match source {
            Scalar::F32 => max::<f32>(problem, shares, rule),
            Scalar::F64 => max::<f64>(problem, shares, rule),
            Scalar::F16 => max::<half::f16>(problem, shares, rule),
            Scalar::Bf16 => max::<half::bf16>(problem, shares, rule),
            Scalar::I8 => largest::<i8, false>(problem, shares),
            Scalar::U8 => largest::<u8, false>(problem, shares),
            Scalar::I32 => largest::<i32, false>(problem, shares),
            Scalar::I64 => max::<f64>(problem, shares, rule),
            Scalar::Bool | Scalar::E4m3 | Scalar::E5m2 => max::<f32>(problem, shares, rule),
        },
        _ => None,
    }
}

fn max<'a, S: Ordered>(problem: &Problem<'a>, shares: bool, rule: NanRule) -> Option<Launch<'a>> {
    match rule {
        NanRule::Ignore => largest::<S, false>(problem, shares),
        NanRule::Propagate => largest::<S, true>(problem, shares),
    }
}

fn largest<'a, S: Ordered, const NANS_ABOVE: bool>(
    problem: &Problem<'a>, shares: bool,
) -> Option<Launch<'a>> {
    let none = S::from_f64(lowest(problem.shape.window.scalars[1]));
    let isa = problem.machine.isa;
    pool::<Largest<S, NANS_ABOVE>, _>(problem, shares, move || Select::<S, NANS_ABOVE>::new(none, isa))
}

fn pool<'a, F: Fold, E: End<F>>(
    problem: &Problem<'a>, shares: bool, end: impl FnOnce() -> E + 'a,
) -> Option<Launch<'a>>
where
    F::Cell: Element,
    F::Result: Element,
{
    let (shape, at, machine) = (problem.shape, problem.at, problem.machine);
    let way = way::<F>(shape, at, machine);
    let is_ended = E::IS_ENDED && is_ended::<F>(shape, &way);
    let shared = if shares {
        let leaves = is_ended && shape.lanes >= MANY_LANES && shape.last().window <= E::FEW_COLUMNS;
        Some(Shared::new(shape, is_gathered::<F>(shape)).filter(|_| !leaves)?)
    } else {
        None
    };
    // SAFETY: a launch runs while the operands are what the window needs.
    Some(Launch::new(move || unsafe { run::<F, E>(shape, at, machine, shared, (way, is_ended), &end()) }))
}

/// # Safety
/// As for [`super::run`], with a maximum or an average.
unsafe fn run<F: Fold, E: End<F>>(
    shape: &Shape<'_>, at: &[Address], machine: Machine, shared: Option<Shared>,
    (way, is_ended): (Way, bool), end: &E,
) -> Result<()>
where
    F::Cell: Element,
    F::Result: Element,
{
    let window = shape.window;
    let cell = <F::Cell as Element>::SCALAR;
    let lanes = shape.lanes;
    let bytes = window.len() as usize * window.scalars[0].size();
    let reach = |axis: &WindowAxis| axis.window.min(axis.inputs) as usize;
    let (last, axes) = (shape.last(), &shape.axes[..shape.axes.len() - 1]);
    let rows: usize = axes.iter().map(reach).product();
    let held = shape.held(at[2], 1, false);
    let gather =
        is_gathered::<F>(shape).then(|| Gather::new(shape, 1, false, cell, machine.isa).within(held));
    let row_cells = shape.row_cells(false) * lanes;
    // Bringing short rows one by one takes longer than what is done with them.
    let plane = row_cells.saturating_mul(shape.axes[0].inputs as usize * cell.size());
    let is_small = lanes == 1 && plane <= PLANE_BYTES;
    let strip = strip(shape, gather.is_some());
    let job = Job {
        shape,
        source: at[2].pointer(),
        held,
        dst: at[0].pointer(),
        end,
        folds: folds::<F>(machine.isa),
        ended: if is_ended { end.ended() } else { None },
        gather,
        shared,
        way,
        ring: if is_small { shape.axes[0].inputs } else { reach(&shape.axes[0]) as i64 },
        taps: match shared {
            Some(_) => last.window as usize,
            None if lanes > 1 => rows * reach(last),
            None => 0,
        },
        rows,
        strip,
        longest: match shared {
            Some(shared) => shared.strip * lanes,
            None if lanes > 1 => strip * lanes,
            None => last.outputs as usize,
        },
        columns: shared.map_or(last.inputs as usize + 1, |shared| shared.all_columns() * lanes),
        row_cells,
    };
    let threads = machine.threads_for(bytes.max(bytes_read(shape)));
    let items = shape.outer * shape.axes[0].outputs as usize;
    threads::in_ranges(threads, items, job.scratch_bytes(), &|block, range| {
        // SAFETY: the block is as large as it says, and items are apart.
        unsafe { job.items(range, block) }
        crate::backend::cpu::stream::fence();
    })
}

/// Bytes of the source.
fn bytes_read(shape: &Shape<'_>) -> usize {
    shape.outer * shape.lanes * shape.row_cells(false) * shape.axes[0].inputs as usize * shape.size(1)
}

impl<F: Fold, E: End<F>> Job<'_, F, E>
where
    F::Cell: Element,
    F::Result: Element,
{
    /// # Safety
    /// As for [`run`]; the block has the bytes that are needed, and is aligned to a cache line.
    unsafe fn items(&self, range: std::ops::Range<usize>, block: *mut u8) {
        let shape = self.shape;
        let last = shape.last();
        let outputs = last.outputs as usize;
        let mut parts = Parts::new(block);
        // SAFETY: the block has the bytes that are needed.
        let tables = unsafe { Tables::new(shape, Ask::Cells, self.end.divisor(), &mut parts) };
        let mut mine = Block::<F> {
            ring: std::ptr::null_mut(),
            gather: std::ptr::null_mut(),
            taps: parts.take(self.taps),
            rows: parts.take(self.rows),
            columns: parts.take(self.columns),
            out: parts.take(self.out_lanes()),
            // SAFETY: there are that many, in the block.
            along: unsafe { tables.counts(shape.axes.len() - 1, outputs) },
            alike: &[],
            waiting: std::ptr::null_mut(),
            waits: 0,
            tables,
            interior: interior(last),
            held: (usize::MAX, 0, 0),
        };
        if let Some(gather) = self.gather {
            mine.ring = parts.take(self.ring as usize * self.row_cells);
            mine.gather = parts.take(gather.bytes(shape));
        }
        if let Some(shared) = self.shared {
            // What lies around the cells stays as it is.
            // SAFETY: there is room for them.
            unsafe {
                fill(mine.columns, F::start(), self.columns);
                mine.alike = self.alike(mine.along, &mut parts);
            }
            mine.waiting = parts.take(shared.rows);
        }
        let mut sink = Sink::new(&self.way, parts.take(self.way.bytes(self.longest)), self.longest);
        let rows = shape.axes[0].outputs as usize;
        let mut item = range.start;
        while item < range.end {
            let (outer, first) = (item / rows, item % rows);
            let some = (rows - first).min(range.end - item);
            let place = shape.place(outer);
            for first in first..first + some {
                // SAFETY: the item is one of the plane, and its rooms are this thread's.
                unsafe { self.item(outer, &place, first as i64, &mut mine, &mut sink) };
            }
            item += some;
        }
        // SAFETY: the runs are in place, once no row waits any more.
        unsafe {
            if let Some(shared) = self.shared.filter(|_| mine.waits > 0) {
                self.finish(shared, 0, outputs, &mut mine, &mut sink);
            }
            sink.flush();
        }
    }

    /// The outputs of one coordinate of the first axis, in a place of the loops around.
    ///
    /// # Safety
    /// As for [`items`](Self::items).
    unsafe fn item(
        &self, outer: usize, place: &[isize; 3], first: i64, mine: &mut Block<'_, F>, sink: &mut Sink<'_>,
    ) {
        let shape = self.shape;
        let source = self.source.wrapping_offset(place[1]);
        let dst = self.dst.wrapping_offset(place[0] + shape.along(0, 0, first));
        // SAFETY: an output of the axis.
        let (begin, end) = unsafe { mine.tables.range(0, first) };
        if let Some(gather) = &self.gather {
            if mine.held.0 != outer {
                mine.held = (outer, begin, begin);
            }
            let mut fresh = begin.max(mine.held.2)..end;
            mine.held.2 = end.max(mine.held.2);
            let at = |row: i64| mine.ring.wrapping_add((row % self.ring) as usize * self.row_cells).cast();
            if self.ring == shape.axes[0].inputs && !fresh.is_empty() {
                // There is room for all that are left.
                fresh.end = self.ring;
                mine.held.2 = self.ring;
                let to = at(fresh.start);
                // SAFETY: the rows exist, and the ring has room for them.
                unsafe { gather.rows(shape, source, fresh, shape.lanes, to, mine.gather) };
            } else {
                for row in fresh {
                    // SAFETY: the row exists, and the ring has room for as many rows as windows
                    // hold.
                    unsafe { gather.row(shape, source, row, shape.lanes, at(row), mine.gather) };
                }
            }
        }
        let inner = shape.axes.len() - 1;
        if inner == 1 {
            // Most windows have two axes.
            // SAFETY: the source has these rows, and the block room for all of them.
            unsafe {
                for row in begin..end {
                    let at = match self.gather {
                        None => source.wrapping_offset(shape.along(0, 1, row)).cast(),
                        Some(_) => mine.ring.wrapping_add((row % self.ring) as usize * self.row_cells),
                    };
                    mine.rows.add((row - begin) as usize).write(at);
                }
                let (rows, count) = ((end - begin) as usize, mine.tables.count(0, first));
                return self.outputs(dst, rows, count, mine, sink);
            }
        }
        let outputs = shape.bounds(|axis| axis.outputs);
        let mut index = Index::default();
        index[0] = first;
        let mut cells = [(0, 1); MAX_AXES];
        odometer(&outputs, 1, inner, &mut index, &mut |index| {
            let mut to = dst;
            // SAFETY: the source has these rows, the block room for all of them, and the
            // destination is that of these outputs.
            unsafe {
                let mut count = 1;
                for k in 0..inner {
                    cells[k] = mine.tables.range(k, index[k]);
                    count *= mine.tables.count(k, index[k]);
                    to = to.wrapping_offset(if k > 0 { shape.along(k, 0, index[k]) } else { 0 });
                }
                let mut rows = 0;
                odometer(&cells, 0, inner, &mut Index::default(), &mut |index| {
                    mine.rows.add(rows).write(self.row(source, index, mine));
                    rows += 1;
                });
                self.outputs(to, rows, count, mine, sink);
            }
        });
    }

    /// The outputs along the last axis, from the rows that their windows reach.
    ///
    /// # Safety
    /// As for [`items`](Self::items).
    unsafe fn outputs(
        &self, to: *mut u8, rows: usize, count: i64, mine: &mut Block<'_, F>, sink: &mut Sink<'_>,
    ) {
        // SAFETY: the outputs are those of a row, and there is room for them.
        unsafe {
            if let Some(shared) = self.shared {
                self.share(shared, to, rows, count, mine, sink);
            } else if self.shape.lanes > 1 {
                self.pixels(to, rows, count, mine, sink);
            } else {
                self.line(to, rows, count, mine, sink);
            }
        }
    }

    /// Where the row of the last axis of these coordinates lies.
    fn row(&self, source: *const u8, index: &Index, mine: &Block<'_, F>) -> *const F::Cell {
        let shape = self.shape;
        let inner = shape.axes.len() - 1;
        if self.gather.is_none() {
            let offset = (0..inner).map(|k| shape.along(k, 1, index[k])).sum();
            return source.wrapping_offset(offset).cast();
        }
        let row = (1..inner).fold(index[0] % self.ring, |at, k| at * shape.axes[k].inputs + index[k]);
        mine.ring.wrapping_add((row * shape.last().inputs) as usize * shape.lanes)
    }

    /// The outputs along the last axis, of every lane, from the rows that their windows reach.
    ///
    /// # Safety
    /// As for [`items`](Self::items).
    unsafe fn pixels(
        &self, line: *mut u8, rows: usize, count: i64, mine: &mut Block<'_, F>, sink: &mut Sink<'_>,
    ) {
        let shape = self.shape;
        let (last, lanes) = (shape.axes.len() - 1, shape.lanes);
        let (cell, outputs) = (size_of::<F::Cell>(), shape.last().outputs);
        let (low, high) = mine.interior;
        // Bytes from a pixel to the next one; where those are not even, outputs are made one by
        // one.
        let pixel = match self.gather {
            None => shape.last_step(1).unwrap_or(0),
            Some(_) => (lanes * cell) as isize,
        };
        let is_run = pixel == (lanes * cell) as isize;
        // Of a single output it may be anything.
        let apart = (shape.last().stride as isize).wrapping_mul(pixel) / cell as isize;
        // The same of results, where they leave from registers.
        let step = shape.last_step(0).unwrap_or(0);
        let (mut output, mut seen) = (0, 0);
        while output < outputs {
            // Windows that lie inside have the same taps, each so far from those of the last one.
            let is_inside = low <= output && output < high;
            let some = if is_inside { (high - output).min(self.strip as i64) } else { 1 };
            let times = Times { count: some as usize, apart };
            // SAFETY: there is room for all taps, whose cells exist, and for the lanes.
            unsafe {
                let to = line.wrapping_offset(shape.along(last, 0, output));
                let ((begin, end), count) =
                    (mine.tables.range(last, output), count * mine.tables.count(last, output));
                if count == 0 {
                    let results = sink.run::<F::Result>(to, times.count * lanes);
                    self.end.run(results, mine.out, times.count * lanes, Counts::Same(0));
                    output += some;
                    continue;
                }
                let behind = mine.tables.range(last, output + some - 1).1;
                let mut taps = 0;
                let skipped = |column: i64| match self.gather {
                    None => shape.along(last, 1, column),
                    Some(_) => column as isize * pixel,
                };
                for column in begin..end {
                    for row in 0..rows {
                        mine.taps
                            .add(taps)
                            .write(mine.rows.add(row).read().wrapping_byte_offset(skipped(column)));
                        taps += 1;
                    }
                }
                if self.gather.is_none() {
                    // Pixels that follow one another are asked for together.
                    let joint = if is_run { behind - begin } else { 1 };
                    for column in (begin..behind).step_by(joint as usize) {
                        for row in 0..rows {
                            let row = mine.rows.add(row).read().cast::<u8>();
                            self.held.assert_holds(
                                row.wrapping_offset(skipped(column)),
                                joint as usize * lanes * cell,
                            );
                            let fresh = column.max(seen);
                            if fresh < column + joint {
                                let fresh_bytes = (column + joint - fresh) as usize * lanes * cell;
                                Distance::Read.fetch(row.wrapping_offset(skipped(fresh)), fresh_bytes);
                            }
                        }
                    }
                }
                seen = seen.max(behind);
                let taps = std::slice::from_raw_parts(mine.taps, taps);
                if let Some(ended) = self.ended {
                    self.way.assert_holds(to, step, times.count, lanes);
                    ended(
                        to.cast(),
                        step / size_of::<F::Result>() as isize,
                        taps,
                        rows,
                        lanes,
                        times,
                        self.end.by(count),
                    );
                } else {
                    let results = sink.run::<F::Result>(to, times.count * lanes);
                    (self.folds.rows)(mine.out, taps, rows, lanes, times);
                    self.end.run(results, mine.out, times.count * lanes, Counts::Same(count));
                }
            }
            output += some;
        }
    }

    /// The outputs along the last axis.
    ///
    /// # Safety
    /// As for [`items`](Self::items).
    unsafe fn line(
        &self, to: *mut u8, rows: usize, count: i64, mine: &mut Block<'_, F>, sink: &mut Sink<'_>,
    ) {
        let shape = self.shape;
        let last = shape.last();
        let n = last.outputs as usize;
        // SAFETY: the rows exist, and there is room for a row of columns, and for the outputs.
        unsafe {
            let results = sink.run::<F::Result>(to, n);
            if count == 0 {
                self.end.run(results, mine.out, n, Counts::Same(0));
            } else {
                let taps = std::slice::from_raw_parts(mine.rows, rows);
                if self.gather.is_none() {
                    // Those before were asked for as the last ones of other windows.
                    let fresh = shape.axes.iter().rev().nth(1).map_or(1, |axis| axis.stride as usize);
                    let bytes = last.inputs as usize * size_of::<F::Cell>();
                    taps.iter().for_each(|row| self.held.assert_holds(row.cast(), bytes));
                    taps.iter().rev().take(fresh).for_each(|row| Distance::Read.fetch(row.cast(), bytes));
                }
                (self.folds.rows)(mine.columns, taps, rows, last.inputs as usize, Times::ONCE);
                let (low, high) = mine.interior;
                if low < high {
                    let from = mine.columns.offset((low * last.stride - last.pad) as isize);
                    let (window, stride) = (last.window as usize, last.stride as usize);
                    (self.folds.slide)(
                        mine.out.add(low as usize),
                        from,
                        window,
                        stride,
                        (high - low) as usize,
                    );
                }
                for output in (0..low).chain(high..last.outputs) {
                    let (begin, end) = mine.tables.range(shape.axes.len() - 1, output);
                    let columns = (begin..end).map(|c| mine.columns.add(c as usize).read());
                    mine.out.add(output as usize).write(columns.fold(F::start(), F::join));
                }
                // Windows that lie inside have as many cells as each other.
                let (low, high) = (low as usize, high as usize);
                let [before, behind] =
                    [&mine.along[..low], &mine.along[high..]].map(|along| Counts::Each(count, along));
                for (part, counts) in
                    [(0..low, before), (low..high, Counts::Same(count * mine.along[low])), (high..n, behind)]
                {
                    if !part.is_empty() {
                        self.end.run(results.add(part.start), mine.out.add(part.start), part.len(), counts);
                    }
                }
            }
            match shape.last_step(0) {
                Some(step) if step == shape.size(0) as isize => {}
                step => sink.strided(step.unwrap_or(0), n),
            }
        }
    }
}

/// The outputs whose windows lie inside, as a range.
fn interior(axis: &WindowAxis) -> (i64, i64) {
    let WindowAxis { inputs, outputs, window, stride, pad, .. } = *axis;
    let low = if pad > 0 { (pad + stride - 1) / stride } else { 0 }.min(outputs);
    let room = inputs + pad - window;
    let high = if room < 0 { 0 } else { (room / stride + 1).min(outputs) };
    if low < high { (low, high) } else { (0, 0) }
}
