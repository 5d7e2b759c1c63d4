//! Maxima and averages over windows.
//!
//! Where cells lie side by side that are treated alike (the channels of NHWC), they are the lanes: an output is the fold
//! of the runs at its taps. Else the lanes are a row of the last axis: first each column of the window is folded, for
//! the whole row at a time, then columns are folded along the row.

use super::end::{Counts, Divide, End, Select};
use super::fold::{Fold, Folds, Largest, Ordered, Sum, folds};
use super::plane::Gather;
use super::scratch::{Parts, bytes_of};
use super::shape::{Index, Shape, odometer};
use super::sink::{Sink, Way};
use crate::backend::Address;
use crate::backend::cpu::{Machine, grid, threads};
use crate::backend::function::with_real;
use crate::backend::reference::lowest;
use crate::dtype::Scalar;
use crate::dtype::convert::Element;
use crate::error::Result;
use crate::ops::NanRule;
use crate::ops::window::{MAX_AXES, WindowAxis, WindowFunction};

/// # Safety
/// As for [`super::run`], with a maximum or an average.
pub(super) unsafe fn run(shape: &Shape<'_>, at: &[Address], machine: Machine) -> Result<()> {
    let source = shape.window.scalars[1];
    // SAFETY: handed on, in every arm.
    unsafe {
        match shape.window.function {
            WindowFunction::Average(by) => with_real!(shape.window.compute, T => {
                pool::<Sum<T>, _>(shape, at, machine, &Divide::<T>::new(by, machine.isa))
            }),
            WindowFunction::Max(rule) => match source {
                Scalar::F32 => max::<f32>(shape, at, machine, rule),
                Scalar::F64 => max::<f64>(shape, at, machine, rule),
                Scalar::F16 => max::<half::f16>(shape, at, machine, rule),
                Scalar::Bf16 => max::<half::bf16>(shape, at, machine, rule),
                Scalar::I8 => max::<i8>(shape, at, machine, rule),
                Scalar::U8 => max::<u8>(shape, at, machine, rule),
                Scalar::I32 => max::<i32>(shape, at, machine, rule),
                Scalar::I64 => max::<f64>(shape, at, machine, rule),
                Scalar::Bool | Scalar::E4m3 | Scalar::E5m2 => max::<f32>(shape, at, machine, rule),
            },
            _ => unreachable!("the function is a maximum or an average"),
        }
    }
}

/// # Safety
/// As for [`run`].
unsafe fn max<S: Ordered>(shape: &Shape<'_>, at: &[Address], machine: Machine, rule: NanRule) -> Result<()> {
    let none = S::from_f64(lowest(shape.window.scalars[1]));
    // SAFETY: handed on.
    unsafe {
        match rule {
            NanRule::Ignore => {
                pool::<Largest<S, false>, _>(shape, at, machine, &Select::<S, false>::new(none, machine.isa))
            }
            NanRule::Propagate => {
                pool::<Largest<S, true>, _>(shape, at, machine, &Select::<S, true>::new(none, machine.isa))
            }
        }
    }
}

/// What threads share.
struct Job<'a, F: Fold, E> {
    shape: &'a Shape<'a>,
    source: *const u8,
    dst: *mut u8,
    end: &'a E,
    folds: Folds<F>,
    /// How cells are brought together; `None` where they can be used where they lie.
    gather: Option<Gather>,
    way: Way,
    /// Rows of the plane that are kept.
    ring: i64,
    /// Pointers to taps at most.
    taps: usize,
    /// Results of a run at most.
    longest: usize,
    /// Cells of a row of the plane.
    row_cells: usize,
}

// SAFETY: addresses without meaning of their own; what is written through them is apart for every item.
unsafe impl<F: Fold, E: Sync> Sync for Job<'_, F, E> {}

/// # Safety
/// As for [`run`].
unsafe fn pool<F: Fold, E: End<F>>(shape: &Shape<'_>, at: &[Address], machine: Machine, end: &E) -> Result<()>
where
    F::Cell: Element,
{
    let window = shape.window;
    let cell = <F::Cell as Element>::SCALAR;
    let lanes = shape.lanes;
    let is_run = lanes > 1 || shape.last_step(1) == Some(cell.size() as isize);
    let bytes = window.len() as usize * window.scalars[0].size();
    let reach = |axis: &WindowAxis| axis.window.min(axis.inputs) as usize;
    let (last, axes) = (shape.last(), &shape.axes[..shape.axes.len() - 1]);
    let rows: usize = axes.iter().map(reach).product();
    let job = Job {
        shape,
        source: at[2].pointer(),
        dst: at[0].pointer(),
        end,
        folds: folds::<F>(machine.isa),
        gather: (!is_run || window.scalars[1] != cell)
            .then(|| Gather::new(shape, 1, false, cell, machine.isa)),
        way: Way::new(cell, window.scalars[0], window.scaling, bytes, machine),
        ring: reach(&shape.axes[0]) as i64,
        taps: if lanes > 1 { rows * reach(last) } else { rows },
        longest: if lanes > 1 { lanes } else { last.outputs as usize },
        row_cells: shape.row_cells(false) * lanes,
    };
    let threads = grid::threads_for(machine, bytes.max(bytes_read(shape)));
    let items = shape.outer * shape.axes[0].outputs as usize;
    threads::in_ranges(threads, items, job.scratch_bytes(), |block, range| {
        // SAFETY: the block is as large as it says, and items are apart.
        unsafe { job.items(range, block) }
        crate::backend::cpu::stream::fence();
    })
}

/// Bytes of the source.
fn bytes_read(shape: &Shape<'_>) -> usize {
    shape.outer * shape.lanes * shape.row_cells(false) * shape.axes[0].inputs as usize * shape.size(1)
}

/// The memory of a thread.
struct Block<'a, F: Fold> {
    ring: *mut F::Cell,
    gather: *mut u8,
    taps: *mut *const F::Cell,
    columns: *mut F::Lane,
    out: *mut F::Lane,
    along: &'a [i64],
    interior: (i64, i64),
    /// The rows that the ring holds, and of which place of the loops around.
    held: (usize, i64, i64),
}

impl<F: Fold, E: End<F>> Job<'_, F, E>
where
    F::Cell: Element,
{
    fn scratch_bytes(&self) -> usize {
        let gathered = self.gather.map_or(0, |gather| {
            bytes_of::<F::Cell>(self.ring as usize * self.row_cells)
                + bytes_of::<u8>(gather.bytes(self.shape))
        });
        gathered
            + bytes_of::<*const F::Cell>(self.taps)
            + bytes_of::<F::Lane>(self.shape.last().inputs as usize)
            + bytes_of::<F::Lane>(self.longest)
            + bytes_of::<i64>(self.shape.last().outputs as usize)
            + self.way.bytes(self.longest)
            + 64
    }

    /// # Safety
    /// As for [`run`]; the block has the bytes that are needed, and is aligned to a cache line.
    unsafe fn items(&self, range: std::ops::Range<usize>, block: *mut u8) {
        let shape = self.shape;
        let last = shape.last();
        let outputs = last.outputs as usize;
        let mut parts = Parts::of(block);
        let mut mine = Block::<F> {
            ring: std::ptr::null_mut(),
            gather: std::ptr::null_mut(),
            taps: parts.take(self.taps),
            columns: parts.take(last.inputs as usize),
            out: parts.take(self.longest),
            along: &[],
            interior: interior(last),
            held: (usize::MAX, 0, 0),
        };
        let along = parts.take::<i64>(outputs);
        // SAFETY: the part has room for them.
        mine.along = unsafe {
            (0..outputs).for_each(|o| along.add(o).write(last.count(o as i64, self.end.divisor())));
            std::slice::from_raw_parts(along, outputs)
        };
        if let Some(gather) = self.gather {
            mine.ring = parts.take(self.ring as usize * self.row_cells);
            mine.gather = parts.take(gather.bytes(shape));
        }
        let mut sink = Sink::new(&self.way, parts.take(self.way.bytes(self.longest)), self.longest);
        let rows = shape.axes[0].outputs as usize;
        for item in range {
            // SAFETY: handed on.
            unsafe { self.item(item / rows, (item % rows) as i64, &mut mine, &mut sink) };
        }
        // SAFETY: the runs are in place.
        unsafe { sink.flush() };
    }

    /// The outputs of one coordinate of the first axis.
    ///
    /// # Safety
    /// As for [`items`](Self::items).
    unsafe fn item(&self, outer: usize, first: i64, mine: &mut Block<'_, F>, sink: &mut Sink<'_>) {
        let shape = self.shape;
        let place = shape.place(outer);
        let source = self.source.wrapping_offset(place[1]);
        let dst = self.dst.wrapping_offset(place[0] + shape.along(0, 0, first));
        let (begin, end) = shape.axes[0].cells(first);
        if let Some(gather) = &self.gather {
            if mine.held.0 != outer {
                mine.held = (outer, begin, begin);
            }
            for row in begin.max(mine.held.2)..end {
                let to = mine.ring.wrapping_add((row % self.ring) as usize * self.row_cells);
                // SAFETY: the row exists, and the ring has room for as many rows as windows hold.
                unsafe { gather.row(shape, source, row, shape.lanes, to.cast(), mine.gather) };
            }
            mine.held.2 = end.max(mine.held.2);
        }
        let axes = shape.axes.len();
        let is_lanes = shape.lanes > 1;
        let mut outputs = [(0, 1); MAX_AXES];
        outputs.iter_mut().zip(shape.axes.iter()).for_each(|(to, axis)| to.1 = axis.outputs);
        let inner = if is_lanes { axes } else { axes - 1 };
        let mut index = Index::default();
        index[0] = first;
        let mut cells = [(0, 1); MAX_AXES];
        cells[0] = (begin, end);
        odometer(&outputs, 1, inner, &mut index, &mut |index| {
            let mut to = dst;
            let mut count = shape.axes[0].count(first, self.end.divisor());
            for k in 1..inner {
                to = to.wrapping_offset(shape.along(k, 0, index[k]));
                cells[k] = shape.axes[k].cells(index[k]);
                count *= shape.axes[k].count(index[k], self.end.divisor());
            }
            // SAFETY: handed on; the destination is that of these outputs.
            unsafe {
                if is_lanes {
                    self.pixel(source, to, &cells, count, mine, sink);
                } else {
                    self.line(source, to, &cells, count, mine, sink);
                }
            }
        });
    }

    /// Where the cell, or the row of the last axis, of these coordinates lies.
    fn tap(&self, source: *const u8, index: &Index, inner: usize, mine: &Block<'_, F>) -> *const F::Cell {
        let shape = self.shape;
        if self.gather.is_none() {
            let offset = (0..inner).map(|k| shape.along(k, 1, index[k])).sum();
            return source.wrapping_offset(offset).cast();
        }
        let mut at = index[0] % self.ring;
        for (k, axis) in shape.axes.iter().enumerate().skip(1) {
            at = at * axis.inputs + if k < inner { index[k] } else { 0 };
        }
        mine.ring.wrapping_add(at as usize * shape.lanes)
    }

    /// One output of every lane.
    ///
    /// # Safety
    /// As for [`items`](Self::items).
    unsafe fn pixel(
        &self,
        source: *const u8,
        to: *mut u8,
        cells: &[(i64, i64); MAX_AXES],
        count: i64,
        mine: &mut Block<'_, F>,
        sink: &mut Sink<'_>,
    ) {
        let lanes = self.shape.lanes;
        // SAFETY: there is room for all taps, whose cells exist, and for the lanes.
        unsafe {
            let results = sink.run::<F::Cell>(to, lanes);
            if count == 0 {
                return self.end.run(results, mine.out, lanes, Counts::Same(0));
            }
            let last = self.shape.axes.len() - 1;
            let mut taps = 0;
            let mut index = Index::default();
            for column in cells[last].0..cells[last].1 {
                index[last] = column;
                odometer(cells, 0, last, &mut index, &mut |index| {
                    mine.taps.add(taps).write(self.tap(source, index, last + 1, mine));
                    taps += 1;
                });
            }
            let columns = (cells[last].1 - cells[last].0) as usize;
            let rows = std::slice::from_raw_parts(mine.taps, taps);
            (self.folds.rows)(mine.out, rows, taps / columns, lanes);
            self.end.run(results, mine.out, lanes, Counts::Same(count));
        }
    }

    /// The outputs along the last axis.
    ///
    /// # Safety
    /// As for [`items`](Self::items).
    unsafe fn line(
        &self,
        source: *const u8,
        to: *mut u8,
        cells: &[(i64, i64); MAX_AXES],
        count: i64,
        mine: &mut Block<'_, F>,
        sink: &mut Sink<'_>,
    ) {
        let shape = self.shape;
        let last = shape.last();
        let n = last.outputs as usize;
        // SAFETY: there is room for all taps, whose rows exist, for a row of columns, and for the outputs.
        unsafe {
            let results = sink.run::<F::Cell>(to, n);
            if count == 0 {
                self.end.run(results, mine.out, n, Counts::Same(0));
            } else {
                let mut taps = 0;
                let inner = shape.axes.len() - 1;
                odometer(cells, 0, inner, &mut Index::default(), &mut |index| {
                    mine.taps.add(taps).write(self.tap(source, index, inner, mine));
                    taps += 1;
                });
                let rows = std::slice::from_raw_parts(mine.taps, taps);
                (self.folds.rows)(mine.columns, rows, taps, last.inputs as usize);
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
                    let (begin, end) = last.cells(output);
                    let columns = (begin..end).map(|c| mine.columns.add(c as usize).read());
                    mine.out.add(output as usize).write(columns.fold(F::start(), F::join));
                }
                self.end.run(results, mine.out, n, Counts::Each(count, mine.along));
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
