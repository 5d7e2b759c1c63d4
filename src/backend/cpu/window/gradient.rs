//! Gradients of maxima and averages, plane by plane: all cells that share the coordinates of the loops around.
//!
//! One thread has a plane, so that what outputs give to a cell comes in their order. Results are put together in the type
//! that is computed in and converted once.

use super::fold::{Folds, Sum, folds};
use super::plane::{Gather, write_plane};
use super::scratch::{Parts, bytes_of};
use super::shape::{Index, Shape, odometer};
use super::sink::Way;
use crate::backend::Address;
use crate::backend::cpu::{Isa, Machine, grid, threads};
use crate::backend::function::{Real, with_real};
use crate::error::Result;
use crate::ops::NanRule;
use crate::ops::window::{Divisor, MAX_AXES, WindowAxis, WindowFunction};

/// Bytes of a plane in work that should stay in a second-level cache.
const PLANE_BYTES: usize = 192 << 10;

/// Lanes that are worth a plane of their own.
const LEAST_LANES: usize = 16;

/// The lanes of one plane in work, where each takes `bytes`: whole groups, and planes enough for every thread.
pub(super) fn lanes_together(shape: &Shape<'_>, bytes: usize, threads: usize) -> usize {
    let wanted = (2 * threads).div_ceil(shape.outer);
    let most = (PLANE_BYTES / bytes.max(1)).min(shape.lanes.div_ceil(wanted));
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
    lanes: usize,
    cells: usize,
    outputs: usize,
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
    if i32::try_from(shape.row_cells(false) as i64 * shape.axes[0].inputs).is_err() {
        // SAFETY: handed on.
        unsafe { crate::backend::reference::window(window, at) };
        return Ok(());
    }
    let bytes = window.len() as usize * shape.size(0);
    let threads = grid::threads_for(machine, bytes);
    let first = &shape.axes[0];
    let cells = shape.row_cells(false) * first.inputs as usize;
    let outputs = shape.row_cells(true) * first.outputs as usize;
    let lanes = lanes_together(shape, (2 * cells + outputs) * size_of::<T>(), threads);
    let job = Job::<T> {
        shape,
        at,
        lanes,
        cells,
        outputs,
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
        for item in range {
            let chunk = item % chunks;
            let lanes = job.lanes.min(shape.lanes - chunk * job.lanes);
            // SAFETY: the block is as large as it says, and planes are apart.
            unsafe { job.plane(item / chunks, chunk * job.lanes, lanes, block) };
        }
        crate::backend::cpu::stream::fence();
    })
}

impl<T: Real> Job<'_, T> {
    fn scratch_bytes(&self) -> usize {
        let longest = self.shape.last().outputs.max(self.shape.last().inputs) as usize;
        2 * bytes_of::<T>(self.cells * self.lanes)
            + bytes_of::<T>(self.outputs * self.lanes)
            + bytes_of::<u8>(self.source.bytes(self.shape).max(self.gradient.bytes(self.shape)))
            + bytes_of::<T>(longest * self.lanes)
            + bytes_of::<i32>(longest * self.lanes)
            + bytes_of::<*const T>(self.outputs)
    }

    /// # Safety
    /// As for [`run`]; the block has the bytes that are needed, and is aligned to a cache line.
    unsafe fn plane(&self, outer: usize, lane: usize, lanes: usize, block: *mut u8) {
        let shape = self.shape;
        let place = shape.place(outer);
        let mut parts = Parts::of(block);
        let base = |operand: usize, layout: usize| {
            let skipped = (lane * shape.size(layout)) as isize;
            self.at[operand].pointer().wrapping_offset(place[layout] + skipped)
        };
        let longest = shape.last().outputs.max(shape.last().inputs) as usize;
        let sums = parts.take::<T>(self.cells * self.lanes);
        let source = parts.take::<T>(self.cells * self.lanes);
        let gradient = parts.take::<T>(self.outputs * self.lanes);
        let gather = parts.take::<u8>(self.source.bytes(shape).max(self.gradient.bytes(shape)));
        let best = parts.take::<T>(longest * self.lanes);
        let index = parts.take::<i32>(longest * self.lanes);
        let taps = parts.take::<*const T>(self.outputs);
        let first = &shape.axes[0];
        // SAFETY: the parts have room for all cells and outputs of the plane.
        unsafe {
            let row = shape.row_cells(true) * lanes;
            for o in 0..first.outputs {
                let to = gradient.add(o as usize * row).cast();
                self.gradient.row(shape, base(3, 2), o, lanes, to, gather);
            }
            match shape.window.function {
                WindowFunction::AverageGradient(by) => {
                    self.divide(by, gradient, lanes);
                    self.average(gradient, sums, lanes, best, taps);
                }
                _ => {
                    let row = shape.row_cells(false) * lanes;
                    for i in 0..first.inputs {
                        let to = source.add(i as usize * row).cast();
                        self.source.row(shape, base(2, 1), i, lanes, to, gather);
                    }
                    sums.write_bytes(0, self.cells * lanes);
                    self.maxima(source, gradient, sums, lanes, (best, index));
                }
            }
            (self.kernels.canonical)(sums, self.cells * lanes);
            write_plane(shape, &self.way, base(0, 0), false, lanes, sums);
        }
    }

    /// Divides the gradient of each output.
    ///
    /// # Safety
    /// The gradient has all outputs of the plane.
    unsafe fn divide(&self, by: Divisor, gradient: *mut T, lanes: usize) {
        let axes = &self.shape.axes;
        let mut outputs = [(0, 1); MAX_AXES];
        outputs.iter_mut().zip(axes.iter()).for_each(|(to, axis)| to.1 = axis.outputs);
        let (mut to, last) = (gradient, axes.len() - 1);
        odometer(&outputs, 0, last, &mut Index::default(), &mut |index| {
            let count: i64 = (0..last).map(|k| axes[k].count(index[k], by)).product();
            for o in 0..axes[last].outputs {
                let divisor = count * axes[last].count(o, by);
                if divisor != 0 {
                    // SAFETY: an output of the plane.
                    unsafe { (self.kernels.divide)(to, T::from_i64(divisor), lanes) };
                }
                to = to.wrapping_add(lanes);
            }
        });
    }

    /// Sums the gradients of the outputs whose windows hold each cell.
    ///
    /// # Safety
    /// `gradient` has all outputs of the plane, `sums` room for all cells, `columns` and `taps` for a row of outputs.
    unsafe fn average(
        &self,
        gradient: *const T,
        sums: *mut T,
        lanes: usize,
        columns: *mut T,
        taps: *mut *const T,
    ) {
        let axes = &self.shape.axes;
        let last = axes.len() - 1;
        let is_line = self.shape.lanes == 1;
        let inner = if is_line { last } else { last + 1 };
        let mut cells = [(0, 1); MAX_AXES];
        cells.iter_mut().zip(axes.iter()).for_each(|(to, axis)| to.1 = axis.inputs);
        let tap = |index: &Index| {
            let at = (0..=last).fold(0, |at, k| at * axes[k].outputs + if k < inner { index[k] } else { 0 });
            gradient.wrapping_add(at as usize * lanes)
        };
        let mut to = sums;
        odometer(&cells, 0, inner, &mut Index::default(), &mut |cell| {
            let mut outputs = [(0, 1); MAX_AXES];
            (0..inner).for_each(|k| outputs[k] = axes[k].outputs_of(cell[k]));
            let mut count = 0;
            let mut push = |index: &Index| {
                // SAFETY: there is room for every output of the plane.
                unsafe { taps.add(count).write(tap(index)) };
                count += 1;
            };
            let mut index = Index::default();
            if is_line {
                odometer(&outputs, 0, last, &mut index, &mut push);
            } else {
                for column in outputs[last].0..outputs[last].1 {
                    index[last] = column;
                    odometer(&outputs, 0, last, &mut index, &mut push);
                }
            }
            // SAFETY: the taps are rows of outputs, and there is room for the cells.
            unsafe {
                let n = if is_line { axes[last].inputs as usize } else { lanes };
                if count == 0 {
                    to.write_bytes(0, n);
                } else if is_line {
                    let rows = std::slice::from_raw_parts(taps, count);
                    (self.folds.rows)(columns, rows, count, axes[last].outputs as usize);
                    self.spread(columns, to);
                } else {
                    let rows = std::slice::from_raw_parts(taps, count);
                    let per_column = count / (outputs[last].1 - outputs[last].0) as usize;
                    (self.folds.rows)(to, rows, per_column, lanes);
                }
                to = to.add(n);
            }
        });
    }

    /// Gives every output of a row to the cells of its window, to each cell in the order of the outputs.
    ///
    /// # Safety
    /// `columns` has a row of outputs, `to` room for a row of cells.
    unsafe fn spread(&self, columns: *const T, to: *mut T) {
        let axis = self.shape.last();
        // SAFETY: outputs and cells of the row.
        unsafe {
            to.write_bytes(0, axis.inputs as usize);
            // The last tap of one output is a cell that the next one may hold: so the last tap comes first.
            for tap in (0..axis.window).rev() {
                let (low, high) = outputs_at(axis, tap);
                if low < high {
                    let cell = to.offset((low * axis.stride + tap - axis.pad) as isize);
                    let n = (high - low) as usize;
                    (self.kernels.add)(cell, columns.add(low as usize), axis.stride as usize, n);
                }
            }
        }
    }

    /// Gives the gradient of every output to the first largest cell of its window.
    ///
    /// # Safety
    /// `source` has all cells of the plane, as have `sums`, `gradient` all outputs, and there is room for a row of
    /// numbers and indices.
    unsafe fn maxima(
        &self,
        source: *const T,
        gradient: *const T,
        sums: *mut T,
        lanes: usize,
        (best, winner): (*mut T, *mut i32),
    ) {
        let axes = &self.shape.axes;
        let last = axes.len() - 1;
        let is_line = self.shape.lanes == 1;
        let inner = if is_line { last } else { last + 1 };
        let mut outputs = [(0, 1); MAX_AXES];
        outputs.iter_mut().zip(axes.iter()).for_each(|(to, axis)| to.1 = axis.outputs);
        let at = |index: &Index| {
            (0..=last).fold(0, |at, k| at * axes[k].inputs + if k < inner { index[k] } else { 0 }) as usize
        };
        let mut dy = gradient;
        odometer(&outputs, 0, inner, &mut Index::default(), &mut |output| {
            let mut cells = [(0, 1); MAX_AXES];
            (0..inner).for_each(|k| cells[k] = axes[k].cells(output[k]));
            let n = if is_line { axes[last].outputs as usize } else { lanes };
            // SAFETY: cells and outputs of the plane; a winner is a tap of its output.
            unsafe {
                for i in 0..n {
                    winner.add(i).write(-1);
                }
                if is_line {
                    odometer(&cells, 0, last, &mut Index::default(), &mut |index| {
                        let row = at(index);
                        for tap in 0..axes[last].window {
                            let (low, high) = outputs_at(&axes[last], tap);
                            if low >= high {
                                continue;
                            }
                            let cell = row.wrapping_add_signed(
                                (low * axes[last].stride + tap - axes[last].pad) as isize,
                            );
                            let (some, stride) = ((high - low) as usize, axes[last].stride as usize);
                            let (best, winner) = (best.add(low as usize), winner.add(low as usize));
                            (self.kernels.consider)(
                                best,
                                winner,
                                source.add(cell),
                                cell as i32,
                                stride,
                                some,
                            );
                        }
                    });
                    for i in 0..n {
                        if let Ok(cell) = usize::try_from(winner.add(i).read()) {
                            let sum = sums.add(cell);
                            sum.write(sum.read() + dy.add(i).read());
                        }
                    }
                } else {
                    let mut tap = 0;
                    odometer(&cells, 0, last + 1, &mut Index::default(), &mut |index| {
                        let cell = source.add(at(index) * lanes);
                        (self.kernels.compare)(best, winner, cell, tap, lanes);
                        tap += 1;
                    });
                    let mut tap = 0;
                    odometer(&cells, 0, last + 1, &mut Index::default(), &mut |index| {
                        (self.kernels.give)(sums.add(at(index) * lanes), dy, winner, tap, lanes);
                        tap += 1;
                    });
                }
                dy = dy.add(n);
            }
        });
    }
}

/// The outputs of which a tap is a cell, as a range.
fn outputs_at(axis: &WindowAxis, tap: i64) -> (i64, i64) {
    let WindowAxis { inputs, outputs, stride, pad, .. } = *axis;
    let low = if pad > tap { (pad - tap + stride - 1) / stride } else { 0 };
    let room = inputs - 1 + pad - tap;
    let high = if room < 0 { 0 } else { (room / stride + 1).min(outputs) };
    (low.min(high), high)
}

/// The loops over lanes, compiled for an instruction set level.
struct Kernels<T> {
    /// Divides `n` numbers in place.
    divide: unsafe fn(*mut T, T, usize),
    /// NaNs become the one of the type.
    canonical: unsafe fn(*mut T, usize),
    /// Adds `n` numbers to cells that are a stride apart.
    add: unsafe fn(*mut T, *const T, usize, usize),
    /// Takes cells a stride apart, of which the first has this index, where they beat the best so far.
    consider: unsafe fn(*mut T, *mut i32, *const T, i32, usize, usize),
    /// Takes cells side by side, all of this index, where they beat the best so far.
    compare: unsafe fn(*mut T, *mut i32, *const T, i32, usize),
    /// Adds numbers where this index won.
    give: unsafe fn(*mut T, *const T, *const i32, i32, usize),
}

fn kernels<T: Real>(propagates: bool, isa: Isa) -> Kernels<T> {
    macro_rules! of {
        ($($level:ident)?) => {{
            let (consider, compare): (unsafe fn(*mut T, *mut i32, *const T, i32, usize, usize), unsafe fn(*mut T, *mut i32, *const T, i32, usize)) = if propagates {
                ($($level::)? consider::<T, true>, $($level::)? compare::<T, true>)
            } else {
                ($($level::)? consider::<T, false>, $($level::)? compare::<T, false>)
            };
            Kernels {
                divide: $($level::)? divide::<T>,
                canonical: $($level::)? canonical::<T>,
                add: $($level::)? add::<T>,
                consider,
                compare,
                give: $($level::)? give::<T>,
            }
        }};
    }
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx512() {
        return of!(avx512);
    } else if isa.has_avx2() {
        return of!(avx2);
    }
    let _ = isa;
    of!()
}

macro_rules! lane_loops {
    ($($(#[$doc:meta])* fn $name:ident<T $(, const $flag:ident)?>($($argument:ident: $type:ty),*) $body:block)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            unsafe fn $name<T: Real $(, const $flag: bool)?>($($argument: $type),*) {
                // SAFETY: the caller's promise.
                unsafe { $body }
            }
        )*
        #[cfg(target_arch = "x86_64")]
        lane_loops!(@level avx2 "avx2" $($name<$($flag)?>($($argument: $type),*))*);
        #[cfg(target_arch = "x86_64")]
        lane_loops!(@level avx512 "avx512f,avx512bw,avx512dq,avx512vl" $($name<$($flag)?>($($argument: $type),*))*);
    };
    (@level $level:ident $features:literal $($name:ident<$($flag:ident)?>($($argument:ident: $type:ty),*))*) => {
        mod $level {
            use super::Real;
            $(
                /// # Safety
                /// As for the portable one; the processor has the instructions.
                #[target_feature(enable = $features)]
                pub unsafe fn $name<T: Real $(, const $flag: bool)?>($($argument: $type),*) {
                    // SAFETY: handed on.
                    unsafe { super::$name::<T $(, $flag)?>($($argument),*) }
                }
            )*
        }
    };
}

lane_loops! {
    /// # Safety
    /// `n` numbers are there.
    fn divide<T>(numbers: *mut T, by: T, n: usize) {
        for i in 0..n {
            let number = numbers.add(i);
            number.write(number.read() / by);
        }
    }

    /// # Safety
    /// `n` numbers are there.
    fn canonical<T>(numbers: *mut T, n: usize) {
        for i in 0..n {
            let number = numbers.add(i);
            number.write(number.read().canonical());
        }
    }

    /// # Safety
    /// `n` numbers are readable, and as many cells a stride apart writable, apart from them.
    fn add<T>(to: *mut T, from: *const T, stride: usize, n: usize) {
        if stride == 1 {
            for i in 0..n {
                let cell = to.add(i);
                cell.write(cell.read() + from.add(i).read());
            }
        } else {
            for i in 0..n {
                let cell = to.add(i * stride);
                cell.write(cell.read() + from.add(i).read());
            }
        }
    }

    /// # Safety
    /// `n` cells a stride apart are readable, and `n` numbers and indices writable, apart from them.
    fn consider<T, const PROPAGATES>(
        best: *mut T,
        winner: *mut i32,
        cells: *const T,
        index: i32,
        stride: usize,
        n: usize
    ) {
        match stride {
            1 => step::<T, PROPAGATES>(best, winner, cells, (index, 1), 1, n),
            2 => step::<T, PROPAGATES>(best, winner, cells, (index, 2), 2, n),
            _ => step::<T, PROPAGATES>(best, winner, cells, (index, stride as i32), stride, n),
        }
    }

    /// # Safety
    /// `n` cells are readable, and `n` numbers and indices writable, apart from them.
    fn compare<T, const PROPAGATES>(best: *mut T, winner: *mut i32, cells: *const T, index: i32, n: usize) {
        step::<T, PROPAGATES>(best, winner, cells, (index, 0), 1, n);
    }

    /// # Safety
    /// `n` numbers and indices are readable, and cells writable, apart from them.
    fn give<T>(to: *mut T, from: *const T, winner: *const i32, index: i32, n: usize) {
        for i in 0..n {
            let cell = to.add(i);
            let given = if winner.add(i).read() == index { from.add(i).read() } else { T::ZERO };
            cell.write(cell.read() + given);
        }
    }
}

/// # Safety
/// As for [`consider`].
#[inline(always)]
unsafe fn step<T: Real, const PROPAGATES: bool>(
    best: *mut T,
    winner: *mut i32,
    cells: *const T,
    (first, next): (i32, i32),
    stride: usize,
    n: usize,
) {
    for i in 0..n {
        // SAFETY: the caller's promise.
        unsafe {
            let (x, old) = (cells.add(i * stride).read(), best.add(i).read());
            let of_nans = if PROPAGATES { x.is_nan() & !old.is_nan() } else { old.is_nan() & !x.is_nan() };
            let wins = (x > old) | of_nans | (winner.add(i).read() < 0);
            best.add(i).write(if wins { x } else { old });
            let index = first.wrapping_add((i as i32).wrapping_mul(next));
            let before = winner.add(i).read();
            winner.add(i).write(if wins { index } else { before });
        }
    }
}
