//! Gradients of maxima and averages, plane by plane: all cells that share the coordinates of the loops around.
//!
//! One thread has a plane, so that what outputs give to a cell comes in their order. Results are put together in the type
//! that is computed in and converted once.

use super::fold::{Folds, Sum, folds};
use super::lanes::{Kernels, kernels};
use super::phases::{GROUP, Phases};
use super::plane::{Gather, write_plane};
use super::shape::{Index, Shape, odometer};
use super::sink::Way;
use super::tables::{Ask, Tables};
use crate::backend::Address;
use crate::backend::cpu::scratch::{Parts, bytes_of};
use crate::backend::cpu::{Machine, grid, threads};
use crate::backend::real::{Real, with_real};
use crate::error::Result;
use crate::ops::NanRule;
use crate::ops::window::{Divisor, MAX_AXES, WindowAxis, WindowFunction};

/// Bytes of a plane in work that should stay in a second-level cache.
const PLANE_BYTES: usize = 192 << 10;

/// Bytes of a plane that is taken with all its lanes, so that it is read and written in one run: it stays in a third-level
/// cache, and rows of it in the nearer ones.
const WHOLE_BYTES: usize = 4 << 20;

/// Lanes that are worth a plane of their own.
const LEAST_LANES: usize = 16;

/// The lanes of one plane in work, where each takes `bytes`: whole groups, and planes enough for every thread.
pub(super) fn lanes_together(shape: &Shape<'_>, bytes: usize, threads: usize) -> usize {
    let wanted = (2 * threads).div_ceil(shape.outer);
    let room = if bytes.saturating_mul(shape.lanes) <= WHOLE_BYTES { WHOLE_BYTES } else { PLANE_BYTES };
    let most = (room / bytes.max(1)).min(shape.lanes.div_ceil(wanted));
    (most / LEAST_LANES * LEAST_LANES).max(LEAST_LANES).min(shape.lanes)
}

/// # Safety
/// As for [`super::run`], with the gradient of a maximum or an average.
pub(super) unsafe fn run(shape: &Shape<'_>, at: &[Address], machine: Machine) -> Result<()> {
    with_real!(shape.window.compute, T => {
        // SAFETY: handed on.
        unsafe { planes::<T>(shape, at, machine) }
    })
}

/// What threads share.
struct Job<'a, T: Real> {
    shape: &'a Shape<'a>,
    at: &'a [Address],
    /// Lanes of a plane; 1: the lanes are the outputs of a row of the last axis.
    lanes: usize,
    cells: usize,
    outputs: usize,
    /// Taps of an output at most, as far as they are cells.
    taps: usize,
    /// Rows of the last axis: cells.
    rows: usize,
    phases: Phases,
    source: Gather,
    gradient: Gather,
    way: Way,
    folds: Folds<Sum<T>>,
    kernels: Kernels<T>,
}

// SAFETY: addresses without meaning of their own; what is written through them is apart for every plane.
unsafe impl<T: Real> Sync for Job<'_, T> {}

/// # Safety
/// As for [`run`].
unsafe fn planes<T: Real>(shape: &Shape<'_>, at: &[Address], machine: Machine) -> Result<()> {
    let window = shape.window;
    let fits = i32::try_from(shape.row_cells(false) as i64 * shape.axes[0].inputs).is_ok();
    let Some(phases) = Phases::new(shape.last()).filter(|_| fits) else {
        // SAFETY: handed on.
        unsafe { crate::backend::reference::window(window, at) };
        return Ok(());
    };
    let bytes = window.len() as usize * shape.size(0);
    let threads = grid::threads_for(machine, bytes);
    let (first, last) = (&shape.axes[0], shape.last());
    let cells = shape.row_cells(false) * first.inputs as usize;
    let outputs = shape.row_cells(true) * first.outputs as usize;
    let lanes = lanes_together(shape, (2 * cells + outputs) * size_of::<T>(), threads);
    let reach = |axis: &WindowAxis| axis.window.min(axis.inputs) as usize;
    let job = Job::<T> {
        shape,
        at,
        lanes,
        cells,
        outputs,
        taps: shape.axes[..shape.axes.len() - 1].iter().map(reach).product::<usize>() * last.window as usize,
        rows: cells / last.inputs as usize,
        phases,
        source: Gather::new(shape, 1, false, T::SCALAR, machine.isa),
        gradient: Gather::new(shape, 2, true, T::SCALAR, machine.isa),
        way: Way::new(T::SCALAR, window.scalars[0], window.scaling, bytes, machine),
        folds: folds::<Sum<T>>(machine.isa),
        kernels: kernels::<T>(
            matches!(window.function, WindowFunction::MaxGradient(NanRule::Propagate)),
            machine.isa,
        ),
    };
    let chunks = shape.lanes.div_ceil(lanes);
    let items = shape.outer * chunks;
    threads::in_ranges(threads, items, job.scratch_bytes(), |block, range| {
        // SAFETY: the block is as large as it says, and planes are apart.
        unsafe {
            let mut mine = job.block(block);
            for item in range {
                let chunk = item % chunks;
                let lanes = job.lanes.min(shape.lanes - chunk * job.lanes);
                job.plane(item / chunks, chunk * job.lanes, lanes, &mut mine);
            }
        }
        crate::backend::cpu::stream::fence();
    })
}

/// The memory of a thread.
struct Block<T: Real> {
    /// The cells of a plane, side by side: of the source, then of the result.
    cells: *mut T,
    /// Keys in [phases](Phases), where a maximum has outputs for lanes; others have them where the cells are.
    keys: *mut T,
    /// Sums of the cells of a maximum, in phases where outputs are the lanes; a row in phases for an average.
    sums: *mut T,
    gradient: *mut T,
    gather: *mut u8,
    /// A row of outputs, with zeros on both sides, and which taps they chose, with none on both sides.
    line: *mut T,
    winners: *mut T::Key,
    taps: *mut usize,
    pointers: *mut *const T,
    /// The divisors of a row of outputs, where those are the lanes.
    divisors: *mut T,
    tables: Tables,
}

impl<T: Real> Job<'_, T> {
    fn is_line(&self) -> bool {
        self.shape.lanes == 1
    }

    fn is_average(&self) -> bool {
        matches!(self.shape.window.function, WindowFunction::AverageGradient(_))
    }

    /// Places of keys in phases, and of sums.
    fn places(&self) -> (usize, usize) {
        let phases = self.rows * self.phases.len();
        match (self.is_average(), self.is_line()) {
            (true, _) => (0, self.phases.len()),
            (false, true) => (phases, phases),
            (false, false) => (0, self.cells * self.lanes),
        }
    }

    fn row_divisors(&self) -> usize {
        if self.is_average() && self.is_line() { self.shape.last().outputs as usize } else { 0 }
    }

    /// What belongs to an output of a maximum, or to a cell of an average.
    fn ask(&self) -> Ask {
        if self.is_average() { Ask::Outputs } else { Ask::Cells }
    }

    fn scratch_bytes(&self) -> usize {
        let (keys, sums) = self.places();
        bytes_of::<T>(self.cells * self.lanes)
            + bytes_of::<T>(keys)
            + bytes_of::<T>(sums)
            + bytes_of::<T>(self.outputs * self.lanes)
            + bytes_of::<u8>(self.source.bytes(self.shape).max(self.gradient.bytes(self.shape)))
            + 2 * bytes_of::<T>(self.phases.spread_len())
            + bytes_of::<usize>(self.taps)
            + bytes_of::<*const T>(self.outputs)
            + bytes_of::<T>(self.row_divisors())
            + Tables::bytes(self.shape, self.ask())
    }

    /// # Safety
    /// The block has the bytes that are needed, and is aligned to a cache line.
    unsafe fn block(&self, block: *mut u8) -> Block<T> {
        let shape = self.shape;
        let mut parts = Parts::new(block);
        let by = match shape.window.function {
            WindowFunction::AverageGradient(by) => by,
            _ => Divisor::Inside,
        };
        let (keys, sums) = self.places();
        let mine = Block::<T> {
            cells: parts.take(self.cells * self.lanes),
            keys: parts.take(keys),
            sums: parts.take(sums),
            gradient: parts.take(self.outputs * self.lanes),
            gather: parts.take(self.source.bytes(shape).max(self.gradient.bytes(shape))),
            line: parts.take(self.phases.spread_len()),
            winners: parts.take(self.phases.spread_len()),
            taps: parts.take(self.taps),
            pointers: parts.take(self.outputs),
            divisors: parts.take(self.row_divisors()),
            // SAFETY: the block has the bytes that are needed.
            tables: unsafe { Tables::new(shape, self.ask(), by, &mut parts) },
        };
        // SAFETY: the parts have room for it.
        unsafe {
            (0..keys).for_each(|i| mine.keys.cast::<T::Key>().add(i).write(T::LEAST));
            mine.line.write_bytes(0, self.phases.spread_len());
            (0..self.phases.spread_len()).for_each(|i| mine.winners.add(i).write(T::Key::from(-1)));
        }
        mine
    }

    /// # Safety
    /// As for [`run`]; the memory is that of [`block`](Self::block).
    unsafe fn plane(&self, outer: usize, lane: usize, lanes: usize, mine: &mut Block<T>) {
        let shape = self.shape;
        let place = shape.place(outer);
        let base = |operand: usize, layout: usize| {
            let skipped = (lane * shape.size(layout)) as isize;
            self.at[operand].pointer().wrapping_offset(place[layout] + skipped)
        };
        let first = &shape.axes[0];
        // SAFETY: the parts have room for all cells and outputs of the plane.
        unsafe {
            let row = shape.row_cells(true) * lanes;
            for o in 0..first.outputs {
                let to = mine.gradient.add(o as usize * row).cast();
                self.gradient.row(shape, base(3, 2), o, lanes, to, mine.gather);
            }
            let result = if self.is_average() {
                self.divide(lanes, mine);
                self.average(lanes, mine);
                mine.cells
            } else {
                let row = shape.row_cells(false) * lanes;
                for i in 0..first.inputs {
                    let to = mine.cells.add(i as usize * row).cast();
                    self.source.row(shape, base(2, 1), i, lanes, to, mine.gather);
                }
                self.maxima(lanes, mine)
            };
            write_plane(shape, &self.way, base(0, 0), false, lanes, result);
        }
    }

    /// Divides the gradient of each output.
    ///
    /// # Safety
    /// The gradient has all outputs of the plane.
    unsafe fn divide(&self, lanes: usize, mine: &mut Block<T>) {
        let axes = &self.shape.axes;
        let last = axes.len() - 1;
        let outputs = axes[last].outputs;
        let mut to = mine.gradient;
        // Rows have the same divisors but for those at the edges.
        let mut rows = None;
        odometer(&self.shape.bounds(|axis| axis.outputs), 0, last, &mut Index::default(), &mut |index| {
            // SAFETY: outputs of the plane.
            unsafe {
                let of_rows: i64 = (0..last).map(|k| mine.tables.count(k, index[k])).product();
                // An output without a cell has nothing to give.
                let divisor = |o: i64| T::from_i64((of_rows * mine.tables.count(last, o)).max(1));
                if self.is_line() {
                    if rows.replace(of_rows) != Some(of_rows) {
                        (0..outputs).for_each(|o| mine.divisors.add(o as usize).write(divisor(o)));
                    }
                    (self.kernels.divide_each)(to, mine.divisors, outputs as usize);
                    to = to.add(outputs as usize);
                    return;
                }
                for o in 0..outputs {
                    (self.kernels.divide)(to, divisor(o), lanes);
                    to = to.add(lanes);
                }
            }
        });
    }

    /// Axes that are walked one coordinate at a time.
    fn inner(&self) -> usize {
        self.shape.axes.len() - usize::from(self.is_line())
    }

    /// The number of a cell or output of the plane, or of the first one of a row.
    fn number(&self, index: &Index, extent: impl Fn(&WindowAxis) -> i64) -> usize {
        let inner = self.inner();
        let axes = self.shape.axes.iter().enumerate();
        axes.fold(0, |at, (k, axis)| at * extent(axis) + if k < inner { index[k] } else { 0 }) as usize
    }

    /// Sums the gradients of the outputs whose windows hold each cell.
    ///
    /// # Safety
    /// `gradient` has all outputs of the plane, divided.
    unsafe fn average(&self, lanes: usize, mine: &mut Block<T>) {
        let axes = &self.shape.axes;
        let (last, inner) = (axes.len() - 1, self.inner());
        let mut to = mine.cells;
        odometer(&self.shape.bounds(|axis| axis.inputs), 0, inner, &mut Index::default(), &mut |cell| {
            let mut outputs = [(0, 1); MAX_AXES];
            // SAFETY: coordinates of the axes.
            (0..inner).for_each(|k| outputs[k] = unsafe { mine.tables.range(k, cell[k]) });
            let mut count = 0;
            let mut push = |index: &Index| {
                let tap = mine.gradient.wrapping_add(self.number(index, |axis| axis.outputs) * lanes);
                // SAFETY: there is room for every output of the plane.
                unsafe { mine.pointers.add(count).write(tap) };
                count += 1;
            };
            let mut index = Index::default();
            if self.is_line() {
                odometer(&outputs, 0, last, &mut index, &mut push);
            } else {
                for column in outputs[last].0..outputs[last].1 {
                    index[last] = column;
                    odometer(&outputs, 0, last, &mut index, &mut push);
                }
            }
            // SAFETY: the taps are rows of outputs, and there is room for the cells.
            unsafe {
                let n = if self.is_line() { axes[last].inputs as usize } else { lanes };
                let rows = std::slice::from_raw_parts(mine.pointers, count);
                if count == 0 {
                    to.write_bytes(0, n);
                } else if self.is_line() {
                    let line = mine.line.add(self.phases.lead());
                    (self.folds.rows)(line, rows, count, axes[last].outputs as usize);
                    self.phases.spread(&self.kernels, self.folds.slide, mine.line, mine.sums, to);
                } else {
                    let per_column = count / (outputs[last].1 - outputs[last].0) as usize;
                    (self.folds.rows)(to, rows, per_column, lanes);
                }
                // Here, while they are in the first-level cache.
                (self.kernels.canonical)(to, n);
                to = to.add(n);
            }
        });
    }

    /// Gives the gradient of every output to the first largest cell of its window; where the sums of the cells are.
    ///
    /// # Safety
    /// `cells` has all cells of the plane, `gradient` all outputs.
    unsafe fn maxima(&self, lanes: usize, mine: &mut Block<T>) -> *mut T {
        let axes = &self.shape.axes;
        let (last, inner) = (axes.len() - 1, self.inner());
        let inputs = axes[last].inputs as usize;
        let n = if self.is_line() { axes[last].outputs as usize } else { lanes };
        // SAFETY: cells and outputs of the plane; taps are cells, or the room around them.
        unsafe {
            (self.kernels.keys)(mine.cells, self.cells * lanes);
            let mut keys = mine.cells;
            if self.is_line() {
                keys = mine.keys;
                for row in 0..self.rows {
                    let to = keys.add(row * self.phases.len());
                    self.phases.split(&self.kernels, mine.cells.add(row * inputs), to);
                }
            }
            mine.sums.write_bytes(0, if self.is_line() { self.places().1 } else { self.cells * lanes });
            let mut dy = mine.gradient;
            odometer(
                &self.shape.bounds(|axis| axis.outputs),
                0,
                inner,
                &mut Index::default(),
                &mut |output| {
                    let mut cells = [(0, 1); MAX_AXES];
                    (0..inner).for_each(|k| cells[k] = mine.tables.range(k, output[k]));
                    let mut count = 0;
                    odometer(&cells, 0, inner, &mut Index::default(), &mut |index| {
                        let cell = self.number(index, |axis| axis.inputs);
                        if self.is_line() {
                            let row = cell / inputs * self.phases.len();
                            for tap in 0..axes[last].window as usize {
                                mine.taps.add(count).write(row + self.phases.tap(tap));
                                count += 1;
                            }
                        } else {
                            mine.taps.add(count).write(cell * lanes);
                            count += 1;
                        }
                    });
                    let taps = std::slice::from_raw_parts(mine.taps, count);
                    if self.is_line() {
                        self.line(keys.cast(), dy, taps, mine);
                    } else {
                        (self.kernels.select)(keys.cast(), mine.sums, dy, taps, n);
                    }
                    dy = dy.add(n);
                },
            );
            if !self.is_line() {
                (self.kernels.canonical)(mine.sums, self.cells * lanes);
                return mine.sums;
            }
            for row in 0..self.rows {
                let (from, to) = (mine.sums.add(row * self.phases.len()), mine.cells.add(row * inputs));
                self.phases.join(&self.kernels, from, to);
                (self.kernels.canonical)(to, inputs);
            }
            mine.cells
        }
    }

    /// Gives the gradient of a row of outputs to the first largest cells of their windows.
    ///
    /// # Safety
    /// As for [`maxima`](Self::maxima), with the taps of output 0 row by row.
    unsafe fn line(&self, keys: *const T::Key, dy: *const T, taps: &[usize], mine: &Block<T>) {
        let last = self.shape.last();
        let (n, lead) = (last.outputs as usize, self.phases.lead());
        // SAFETY: the caller's promise; winners have room for whole groups, of which those behind the last output meet zeros.
        unsafe {
            mine.line.add(lead).copy_from_nonoverlapping(dy, n);
            (self.kernels.choose)(mine.winners.add(lead), keys, taps, n.next_multiple_of(GROUP));
            for (row, of_row) in taps.chunks(last.window as usize).enumerate() {
                let sums = mine.sums.add(of_row[0] - self.phases.tap(0));
                let tap = row * last.window as usize;
                self.phases.give(&self.kernels, mine.line, mine.winners, tap, sums);
            }
        }
    }
}
