//! Response normalisation and its gradient, plane by plane: sums over windows first, then what is
//! made of them.

use cudnn_shim_macros::vectorized;

use super::fold::{Fold, Folds, Squares, Sum, Times, folds};
use super::plane::{Gather, write_plane};
use super::problem::Problem;
use super::shape::{Index, Shape, odometer};
use super::sink::Way;
use super::unpool::lanes_together;
use crate::backend::Address;
use crate::backend::choice::Launch;
use crate::backend::cpu::scratch::{Parts, bytes_of};
use crate::backend::cpu::stream::LINE;
use crate::backend::cpu::{Isa, Machine, threads};
use crate::backend::function::{Real, with_real};
use crate::backend::inverse_power::{InversePower, with_inverse_power};
use crate::error::Result;
use crate::ops::window::{MAX_AXES, Power, WindowAxis, WindowFunction};

/// Response normalisation and its gradient.
pub(super) fn accept<'a>(problem: &Problem<'a>) -> Option<Launch<'a>> {
    let (shape, at, machine) = (problem.shape, problem.at, problem.machine);
    let terms = match shape.window.function {
        WindowFunction::NormaliseGradient { power, centred, means } => (power, centred, true, means),
        WindowFunction::Normalise { power, centred } => (power, centred, false, false),
        _ => return None,
    };
    with_real!(shape.window.compute, T => {
        // SAFETY: a launch runs while the operands are what the window needs.
        Some(Launch::new(move || unsafe { Call::<T>::new(shape, at, machine, terms).run(machine) }))
    })
}

/// What threads share.
struct Call<'a, T: Real> {
    shape: &'a Shape<'a>,
    at: &'a [Address],
    /// `k`, `scale`, `beta` and `2 * beta * scale`.
    numbers: [T; 4],
    centred: bool,
    gradient: bool,
    means: bool,
    cells: usize,
    /// Zeros on either side of a line, which complete the windows at its ends; 0: windows are cut.
    margin: usize,
    gather: [Gather; 2],
    way: Way,
    squares: Folds<Squares<T>>,
    sums: Folds<Sum<T>>,
    kernels: Kernels<T>,
}

// SAFETY: addresses without meaning of their own; what is written through them is apart for every
// plane.
unsafe impl<T: Real> Sync for Call<'_, T> {}

/// Planes of numbers in scratch: x, means, dy, sums, terms, results.
const PLANES: usize = 6;

impl<'a, T: Real> Call<'a, T> {
    fn new(
        shape: &'a Shape<'a>, at: &'a [Address], machine: Machine,
        (power, centred, gradient, means): (Power, bool, bool, bool),
    ) -> Self {
        let Power { k, scale, beta } = power;
        let (window, last) = (shape.window, shape.last());
        let bytes = window.len() as usize * shape.size(0);
        Call {
            shape,
            at,
            numbers: [k, scale, beta, 2.0 * beta * scale].map(T::from_f64),
            centred,
            gradient,
            means,
            cells: shape.row_cells(false) * shape.axes[0].inputs as usize,
            margin: match last.window <= last.inputs {
                true => (last.window as usize - 1).next_multiple_of(LINE / size_of::<T>()),
                false => 0,
            },
            gather: [1, 2].map(|layout| Gather::new(shape, layout, false, T::SCALAR, machine.isa)),
            way: Way::new(T::SCALAR, window.scalars[0], window.scaling, bytes, machine),
            squares: folds::<Squares<T>>(machine.isa),
            sums: folds::<Sum<T>>(machine.isa),
            kernels: with_inverse_power!(beta, P => kernels::<T, P>(machine.isa)),
        }
    }

    fn planes(&self) -> usize {
        if self.gradient || self.centred { PLANES } else { 3 }
    }

    /// # Safety
    /// As for [`super::run`].
    unsafe fn run(&self, machine: Machine) -> Result<()> {
        let shape = self.shape;
        let bytes = shape.window.len() as usize * shape.size(0);
        let threads = machine.threads_for(bytes);
        let lanes = lanes_together(shape, self.planes() * self.cells * size_of::<T>(), threads);
        let chunks = shape.lanes.div_ceil(lanes);
        let items = shape.outer * chunks;
        let taps: usize = shape.axes.iter().map(|axis| axis.window.min(axis.inputs) as usize).product();
        let gathered = self.gather[0].bytes(shape).max(self.gather[1].bytes(shape));
        let scratch_bytes = PLANES * bytes_of::<T>(self.cells * lanes)
            + bytes_of::<T>(shape.last().inputs as usize * lanes + 2 * self.margin)
            + bytes_of::<*const T>(taps)
            + bytes_of::<u8>(gathered);
        threads::in_ranges(threads, items, scratch_bytes, &|block, range| {
            for item in range {
                let first = item % chunks * lanes;
                let mut parts = Parts::new(block);
                let plane = Plane {
                    call: self,
                    place: shape.place(item / chunks),
                    lane: first,
                    lanes: lanes.min(shape.lanes - first),
                    buffers: std::array::from_fn(|_| parts.take(self.cells * lanes)),
                    columns: parts
                        .take::<T>(shape.last().inputs as usize * lanes + 2 * self.margin)
                        .wrapping_add(self.margin),
                    taps: parts.take(taps),
                    gather: parts.take(gathered),
                };
                // SAFETY: the parts have room, and planes are apart.
                unsafe { plane.run() };
            }
            crate::backend::cpu::stream::fence();
        })
    }
}

/// One plane in work, with its scratch.
struct Plane<'a, T: Real> {
    call: &'a Call<'a, T>,
    place: [isize; 3],
    lane: usize,
    lanes: usize,
    buffers: [*mut T; PLANES],
    columns: *mut T,
    taps: *mut *const T,
    gather: *mut u8,
}

impl<T: Real> Plane<'_, T> {
    fn base(&self, operand: usize, layout: usize) -> *mut u8 {
        let skipped = (self.lane * self.call.shape.size(layout)) as isize;
        self.call.at[operand].pointer().wrapping_offset(self.place[layout] + skipped)
    }

    /// # Safety
    /// As for [`super::run`]; the buffers have room for the plane.
    unsafe fn run(&self) {
        let (call, n) = (self.call, self.call.cells * self.lanes);
        let [x, means, dy, sums, terms, results] = self.buffers;
        // Of a plain forward call there are three.
        let (sums, results) = if call.planes() == PLANES { (sums, results) } else { (means, dy) };
        let Kernels { base, normalise, terms: term, gradient, product } = call.kernels;
        // SAFETY: the buffers have room for the plane.
        unsafe {
            for i in 0..call.margin {
                self.columns.sub(1 + i).write(T::ZERO);
                self.columns.add(call.shape.last().inputs as usize + i).write(T::ZERO);
            }
            let x = self.cells(2, 1, x);
            let means = if call.centred { self.cells(4, 1, means) } else { x };
            if call.centred {
                self.centred(x, means, sums, |x, mean| {
                    let difference = x - mean;
                    difference * difference
                });
            } else if call.gradient {
                self.windows(&call.squares, x, sums, false, |_, _| {});
            } else {
                // Run by run, while the sums are near.
                self.windows(&call.squares, x, sums, false, |first, n| {
                    normalise(results.add(first), x.add(first), sums.add(first), n, call.numbers);
                });
            }
            if call.gradient {
                base(sums, n, call.numbers);
                self.fetch(3, 2, dy);
                // dy becomes what it contributes directly.
                term(terms, dy, x, sums, n, call.numbers);
                if call.centred {
                    self.spread(terms, x, means, sums);
                } else {
                    self.windows(&call.sums, terms, sums, true, |_, _| {});
                    product(sums, x, n);
                }
                gradient(results, dy, sums, n, call.numbers);
            } else if call.centred {
                normalise(results, x, sums, n, call.numbers);
            }
            self.write(0, results);
            if call.means {
                if call.centred {
                    self.centred(x, means, sums, |x, mean| x - mean);
                } else {
                    self.windows(&call.sums, x, sums, false, |_, _| {});
                }
                for i in 0..n {
                    let scaled = call.numbers[3] * terms.add(i).read();
                    results.add(i).write((scaled * sums.add(i).read()).canonical());
                }
                self.write(1, results);
            }
        }
    }

    /// # Safety
    /// The results are those of the plane.
    unsafe fn write(&self, operand: usize, results: *mut T) {
        let call = self.call;
        let way = call.way.within(call.shape.held(call.at[operand], 0, false));
        // SAFETY: there is a result for every cell of the plane.
        unsafe { write_plane(call.shape, &way, self.base(operand, 0), false, self.lanes, results) }
    }

    /// Brings the cells of an operand to a buffer.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn fetch(&self, operand: usize, layout: usize, to: *mut T) {
        let Call { shape, gather, .. } = self.call;
        let from = self.base(operand, layout);
        let gather = gather[layout - 1].within(shape.held(self.call.at[operand], layout, false));
        // SAFETY: the buffer has room for the plane.
        unsafe { gather.plane(shape, from, self.lanes, to.cast(), self.gather) };
    }

    /// The cells of an operand: where they are, if they may be used there, else in a buffer.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn cells(&self, operand: usize, layout: usize, buffer: *mut T) -> *const T {
        let Call { shape, gather, means, .. } = self.call;
        // A second destination is written after the first one, which may lie where the cells do.
        if !means && gather[layout - 1].is_packed(shape, 0, self.lanes) {
            return self.base(operand, layout).cast_const().cast();
        }
        // SAFETY: the buffer has room for the plane.
        unsafe { self.fetch(operand, layout, buffer) };
        buffer
    }

    fn bounds(&self, axis: &WindowAxis, i: i64, mirrored: bool) -> (i64, i64) {
        if mirrored { axis.outputs_of(i) } else { axis.cells(i) }
    }

    fn at(&self, index: &Index, inner: usize) -> usize {
        let axes = &self.call.shape.axes;
        let at = (0..axes.len()).fold(0, |at, k| at * axes[k].inputs + if k < inner { index[k] } else { 0 });
        at as usize * self.lanes
    }

    /// The fold of every window over a plane, or of the outputs whose windows hold a cell. Calls
    /// `then` with the first place and the length of every run of them.
    ///
    /// # Safety
    /// The planes have all cells.
    unsafe fn windows<F: Fold<Cell = T, Lane = T>>(
        &self, folds: &Folds<F>, from: *const T, to: *mut T, mirrored: bool,
        mut then: impl FnMut(usize, usize),
    ) {
        let axes = &self.call.shape.axes;
        let last = axes.len() - 1;
        let is_line = self.call.shape.lanes == 1;
        let inner = if is_line { last } else { last + 1 };
        let cells = self.call.shape.bounds(|axis| axis.inputs);
        let mut done = 0;
        odometer(&cells, 0, inner, &mut Index::default(), &mut |cell| {
            let mut bounds = [(0, 1); MAX_AXES];
            (0..inner).for_each(|k| bounds[k] = self.bounds(&axes[k], cell[k], mirrored));
            let mut count = 0;
            let mut push = |index: &Index| {
                // SAFETY: there is room for every tap.
                unsafe { self.taps.add(count).write(from.wrapping_add(self.at(index, inner))) };
                count += 1;
            };
            let mut index = Index::default();
            let outer = if is_line { (0, 1) } else { bounds[last] };
            for column in outer.0..outer.1 {
                index[last] = column;
                odometer(&bounds, 0, last, &mut index, &mut push);
            }
            // SAFETY: taps are cells of the plane, or lines of it.
            unsafe {
                let rows = std::slice::from_raw_parts(self.taps, count);
                let n = if is_line { axes[last].inputs as usize } else { self.lanes };
                let to = to.add(done);
                if is_line {
                    (folds.rows)(self.columns, rows, count.max(1), n, Times::ONCE);
                    self.along(folds, to, mirrored);
                } else {
                    (folds.rows)(to, rows, count / (outer.1 - outer.0).max(1) as usize, n, Times::ONCE);
                }
                then(done, n);
                done += n;
            }
        });
    }

    /// The fold of columns along a line.
    ///
    /// # Safety
    /// `to` has room for the line.
    unsafe fn along<F: Fold<Cell = T, Lane = T>>(&self, folds: &Folds<F>, to: *mut T, mirrored: bool) {
        let axis = self.call.shape.last();
        let pad = if mirrored { axis.window - 1 - axis.pad } else { axis.pad };
        let (low, high) = match self.call.margin {
            0 => {
                let low = pad.clamp(0, axis.inputs);
                (low, (axis.inputs + pad - axis.window + 1).clamp(low, axis.inputs))
            }
            _ => (0, axis.inputs),
        };
        // SAFETY: cells of the line and of its margins, where zeros add nothing; whole windows have
        // no more cells than there is room for.
        unsafe {
            if low < high {
                // As rows that start one lane after the other.
                let window = axis.window as usize;
                for k in 0..window {
                    self.taps.add(k).write(self.columns.wrapping_offset((low - pad) as isize + k as isize));
                }
                let rows = std::slice::from_raw_parts(self.taps, window);
                (folds.again)(to.add(low as usize), rows, window, (high - low) as usize, Times::ONCE);
            }
            for i in (0..low).chain(high..axis.inputs) {
                let (begin, end) = self.bounds(axis, i, mirrored);
                let columns = (begin..end).map(|c| self.columns.add(c as usize).read());
                to.add(i as usize).write(columns.fold(F::start(), F::join));
            }
        }
    }

    /// The sum over every window of a function of its cells and the mean at the output.
    ///
    /// # Safety
    /// The planes have all cells.
    unsafe fn centred(&self, x: *const T, means: *const T, to: *mut T, of: impl Fn(T, T) -> T) {
        // SAFETY: the planes have a number for every cell.
        unsafe {
            self.each(to, false, |output, cell| of(x.add(cell).read(), means.add(output).read()));
        }
    }

    /// The sum of `t * (x - m)` over the outputs whose windows hold a cell.
    ///
    /// # Safety
    /// The planes have all cells.
    unsafe fn spread(&self, terms: *const T, x: *const T, means: *const T, to: *mut T) {
        // SAFETY: the planes have a number for every cell.
        unsafe {
            self.each(to, true, |cell, output| {
                terms.add(output).read() * (x.add(cell).read() - means.add(output).read())
            });
        }
    }

    /// The sum over a window of what `term` makes of two places in a plane.
    ///
    /// # Safety
    /// The plane has all cells.
    unsafe fn each(&self, to: *mut T, mirrored: bool, term: impl Fn(usize, usize) -> T) {
        let axes = &self.call.shape.axes;
        let last = axes.len() - 1;
        let cells = self.call.shape.bounds(|axis| axis.inputs);
        odometer(&cells, 0, last + 1, &mut Index::default(), &mut |cell| {
            let mut bounds = [(0, 1); MAX_AXES];
            (0..=last).for_each(|k| bounds[k] = self.bounds(&axes[k], cell[k], mirrored));
            let here = self.at(cell, last + 1);
            for lane in 0..self.lanes {
                let mut total = T::ZERO;
                let mut index = Index::default();
                for column in bounds[last].0..bounds[last].1 {
                    index[last] = column;
                    let mut sum = T::ZERO;
                    odometer(&bounds, 0, last, &mut index, &mut |index| {
                        sum = sum + term(here + lane, self.at(index, last + 1) + lane);
                    });
                    total = total + sum;
                }
                // SAFETY: a cell of the plane.
                unsafe { to.add(here + lane).write(total) };
            }
        });
    }
}

/// The loops over numbers, compiled for an instruction set level.
#[derive(Clone, Copy)]
struct Kernels<T> {
    /// `sum = k + scale * sum`
    base: unsafe fn(*mut T, usize, [T; 4]),
    /// `y = x * (k + scale * sum)^-beta`, with every NaN the one of the type
    normalise: unsafe fn(*mut T, *const T, *const T, usize, [T; 4]),
    /// `t = dy * x * s^(-beta - 1)`, and `dy = dy * s^-beta`
    terms: unsafe fn(*mut T, *mut T, *const T, *const T, usize, [T; 4]),
    /// `dx = direct - factor * sum`, with every NaN the one of the type
    gradient: unsafe fn(*mut T, *const T, *const T, usize, [T; 4]),
    /// `sum = x * sum`
    product: unsafe fn(*mut T, *const T, usize),
}

fn kernels<T: Real, P: InversePower>(isa: Isa) -> Kernels<T> {
    Kernels {
        base: base::of::<T, P>(isa),
        normalise: normalise::of::<T, P>(isa),
        terms: terms::of::<T, P>(isa),
        gradient: gradient::of::<T, P>(isa),
        product: product::of::<T, P>(isa),
    }
}

/// # Safety
/// `n` numbers are there.
#[vectorized]
unsafe fn base<T: Real, P: InversePower>(sums: *mut T, n: usize, numbers: [T; 4]) {
    // SAFETY: there are `n` numbers.
    unsafe {
        let [k, scale, _, _] = numbers;
        for i in 0..n {
            let sum = sums.add(i);
            sum.write(k + scale * sum.read());
        }
    }
}

/// # Safety
/// `n` numbers are there at each place, apart from the results.
#[vectorized]
unsafe fn normalise<T: Real, P: InversePower>(
    y: *mut T, x: *const T, sums: *const T, n: usize, numbers: [T; 4],
) {
    // SAFETY: there are `n` numbers at each place.
    unsafe {
        let [k, scale, beta, _] = numbers;
        for i in 0..n {
            let power = P::of(k + scale * sums.add(i).read(), beta);
            y.add(i).write((x.add(i).read() * power).canonical());
        }
    }
}

/// # Safety
/// `n` numbers are there at each place, apart from one another.
#[vectorized]
unsafe fn terms<T: Real, P: InversePower>(
    terms: *mut T, dy: *mut T, x: *const T, base: *const T, n: usize, numbers: [T; 4],
) {
    // SAFETY: there are `n` numbers at each place.
    unsafe {
        for i in 0..n {
            let (base, gradient) = (base.add(i).read(), dy.add(i).read());
            let power = P::of(base, numbers[2]);
            terms.add(i).write(gradient * x.add(i).read() * (power / base));
            dy.add(i).write(gradient * power);
        }
    }
}

/// # Safety
/// `n` numbers are there at each place, apart from the results.
#[vectorized]
unsafe fn gradient<T: Real, P: InversePower>(
    dx: *mut T, direct: *const T, sums: *const T, n: usize, numbers: [T; 4],
) {
    // SAFETY: there are `n` numbers at each place.
    unsafe {
        for i in 0..n {
            dx.add(i).write((direct.add(i).read() - numbers[3] * sums.add(i).read()).canonical());
        }
    }
}

/// # Safety
/// `n` numbers are there at each place, apart from one another.
#[vectorized]
unsafe fn product<T: Real, P: InversePower>(sums: *mut T, x: *const T, n: usize) {
    // SAFETY: there are `n` numbers at each place.
    unsafe {
        for i in 0..n {
            let sum = sums.add(i);
            sum.write(x.add(i).read() * sum.read());
        }
    }
}
