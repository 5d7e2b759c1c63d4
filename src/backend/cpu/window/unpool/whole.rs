//! Gradients of a single window that holds all cells: global pooling.
//!
//! An average gives the same to all cells; a maximum gives everything to one cell and 0 to the
//! others. Cells are compared as they lie in memory, and what a cell gets is converted once instead
//! of cell by cell, unless results are blended.

use super::largest::{Kernels, kernels};
use crate::backend::Address;
use crate::backend::cpu::row::{self, Row};
use crate::backend::cpu::scratch::{Parts, fill};
use crate::backend::cpu::stream::Distance;
use crate::backend::cpu::window::plane::Gather;
use crate::backend::cpu::window::shape::{Index, Shape, odometer};
use crate::backend::cpu::window::sink::{Sink, Way};
use crate::backend::cpu::{Machine, threads};
use crate::backend::real::Real;
use crate::error::Result;
use crate::ops::window::WindowFunction;
use crate::ops::{NanRule, Scaling};

/// What threads share.
pub struct Whole<'a, T: Real> {
    shape: &'a Shape<'a>,
    at: &'a [Address],
    source: Gather,
    gradient: Gather,
    /// From numbers to results, which are scaled ones if nothing is blended, unless that is the
    /// same; their scaling and bytes.
    convert: Option<Row>,
    scaling: Scaling,
    size: usize,
    way: Way,
    kernels: Kernels,
    /// Whether cells are compared where they lie.
    is_direct: bool,
    /// What the gradient of an average is divided by; `None` for a maximum.
    divisor: Option<T>,
    cells: usize,
    /// Lanes of a plane in work.
    lanes: usize,
}

// SAFETY: addresses without meaning of their own; what is written through them is apart for every
// plane.
unsafe impl<T: Real> Sync for Whole<'_, T> {}

/// The room of a thread.
struct Scratch<T: Real> {
    /// Cells as they come, and what it takes to bring them; sums.
    fresh: *mut T,
    gather: *mut u8,
    sums: *mut T,
    /// Results that are given, the other ones, and of every lane the largest key and where it was.
    given: *mut u8,
    nothing: *mut u8,
    best: *mut u8,
    winner: *mut u8,
}

impl<'a, T: Real> Whole<'a, T> {
    /// `None` where there is more than a window, or less than a plane in it, or where results do
    /// not lie side by side.
    pub fn new(
        shape: &'a Shape<'a>, at: &'a [Address], [source, gradient]: [Gather; 2], bytes: usize, lanes: usize,
        machine: Machine,
    ) -> Option<Self> {
        let (window, is_line) = (shape.window, shape.lanes == 1);
        if !shape.axes.iter().all(|axis| axis.outputs == 1 && axis.cells(0) == (0, axis.inputs)) {
            return None;
        }
        let [dst, cell] = [window.scalars[0], window.scalars[1]];
        let is_packed = |layout: usize| shape.is_packed(layout, 0, 1, |axis| axis.inputs);
        let is_blended = window.scaling.beta != 0.0;
        let result = if is_blended { T::SCALAR } else { dst };
        let nans_above = matches!(window.function, WindowFunction::MaxGradient(NanRule::Propagate));
        let of = |cell| kernels(cell, nans_above, machine.isa);
        let direct = of(cell).filter(|_| cell.size() <= T::SCALAR.size() && (!is_line || is_packed(1)));
        let (is_direct, kernels) = (direct.is_some(), direct.or_else(|| of(T::SCALAR))?);
        let cells = shape.axes.iter().map(|axis| axis.inputs as usize).product();
        let divisor = match window.function {
            WindowFunction::AverageGradient(by) => {
                Some(T::from_i64(shape.axes.iter().map(|axis| axis.count(0, by)).product()))
            }
            _ => None,
        };
        let fits = match (is_line, divisor) {
            (true, _) => is_packed(0) && matches!(result.size(), 2 | 4 | 8),
            (false, Some(_)) => true,
            (false, None) => is_direct && kernels.size == result.size() && cells <= kernels.most,
        };
        let scaling = if is_blended { Scaling::MOVE } else { window.scaling };
        let rest = if is_blended { window.scaling } else { Scaling::MOVE };
        let is_same = result == T::SCALAR && scaling.is_move();
        fits.then(|| Whole {
            shape,
            at,
            source,
            gradient,
            convert: (!is_same).then(|| row::between(T::SCALAR, result, scaling, machine.isa)),
            scaling,
            size: result.size(),
            way: Way::new(result, dst, rest, bytes, machine).within(shape.held(at[0], 0, false)),
            kernels,
            is_direct,
            divisor,
            cells,
            lanes,
        })
    }

    /// # Safety
    /// As for [`super::super::run`], with the gradient of a maximum or an average.
    pub unsafe fn run(&self, threads: usize) -> Result<()> {
        let mut parts = Parts::new(std::ptr::null_mut());
        self.room(&mut parts);
        let longest = if self.shape.lanes == 1 { self.cells } else { self.lanes };
        let scratch = parts.bytes + self.way.bytes(longest);
        let chunks = self.shape.lanes.div_ceil(self.lanes);
        threads::in_ranges(threads, self.shape.outer * chunks, scratch, &|block, range| {
            let mut parts = Parts::new(block);
            let mine = self.room(&mut parts);
            let mut sink = Sink::new(&self.way, parts.take(self.way.bytes(longest)), longest);
            // SAFETY: the block is as large as it says, and planes are apart.
            unsafe {
                mine.nothing.cast::<T>().write(T::ZERO);
                if let Some(convert) = self.convert {
                    mine.sums.write(T::ZERO);
                    convert(mine.nothing, mine.sums.cast(), 1, self.scaling);
                }
                for item in range {
                    let place = self.shape.place(item / chunks);
                    if self.shape.lanes == 1 {
                        self.line(place, &mine, &mut sink);
                        continue;
                    }
                    let lane = item % chunks * self.lanes;
                    self.pixels(place, lane, self.lanes.min(self.shape.lanes - lane), &mine, &mut sink);
                }
                sink.flush();
            }
            crate::backend::cpu::stream::fence();
        })
    }

    fn room(&self, parts: &mut Parts) -> Scratch<T> {
        let converted = if self.divisor.is_some() || self.is_direct { 0 } else { self.cells };
        Scratch {
            fresh: parts.take(converted.max(self.lanes)),
            gather: parts.take(self.source.bytes(self.shape).max(self.gradient.bytes(self.shape))),
            sums: parts.take(self.lanes),
            given: parts.take(self.lanes * self.size),
            nothing: parts.take(size_of::<T>()),
            best: parts.take(self.lanes * self.kernels.size),
            winner: parts.take(self.lanes * self.kernels.size),
        }
    }

    /// What the output of every lane gives, as results.
    ///
    /// # Safety
    /// As for [`run`](Self::run); `gradient` is where the output lies.
    unsafe fn give(&self, gradient: *const u8, lanes: usize, mine: &Scratch<T>) {
        // SAFETY: the gradient has all lanes of the output, and there is room for them.
        unsafe {
            let from = self.gradient.cells::<T>(self.shape, gradient, 0, lanes, mine.fresh, mine.gather);
            let sums = if self.convert.is_some() { mine.sums } else { mine.given.cast() };
            for i in 0..lanes {
                // Sums start at 0, of columns first where they are those of averages.
                let given = from.add(i).read();
                let sum = T::ZERO + self.divisor.map_or(given, |divisor| given / divisor);
                sums.add(i).write(sum.canonical());
            }
            if let Some(convert) = self.convert {
                convert(mine.given, sums.cast(), lanes, self.scaling);
            }
        }
    }

    /// A plane whose cells lie side by side.
    ///
    /// # Safety
    /// As for [`run`](Self::run), with the place of the plane.
    unsafe fn line(&self, place: [isize; 3], mine: &Scratch<T>, sink: &mut Sink<'_>) {
        let (shape, n) = (self.shape, self.cells);
        let base = |operand: usize, layout: usize| self.at[operand].pointer().wrapping_offset(place[layout]);
        // SAFETY: the operands have this plane, and there is room for all cells, of which one is
        // the largest.
        unsafe {
            self.give(base(3, 2), 1, mine);
            let results = sink.run::<u8>(base(0, 0), n);
            let all = if self.divisor.is_some() { mine.given } else { mine.nothing };
            match self.size {
                2 => fill(results.cast::<u16>(), all.cast::<u16>().read(), n),
                4 => fill(results.cast::<u32>(), all.cast::<u32>().read(), n),
                _ => fill(results.cast::<u64>(), all.cast::<u64>().read(), n),
            }
            if self.divisor.is_some() {
                return;
            }
            let plane = base(2, 1);
            let cells = if self.is_direct {
                self.source.held.assert_holds(plane, n * shape.size(1));
                Distance::Read.fetch(plane, n * shape.size(1));
                plane
            } else {
                self.source.all::<T>(shape, plane, mine.fresh, mine.gather).cast()
            };
            let at = (self.kernels.first)(cells, n, self.kernels.order);
            results.add(at * self.size).copy_from_nonoverlapping(mine.given, self.size);
        }
    }

    /// `lanes` lanes of a plane, contiguous in each pixel, from `lane` on.
    ///
    /// # Safety
    /// As for [`run`](Self::run), with the place of the plane.
    unsafe fn pixels(
        &self, place: [isize; 3], lane: usize, lanes: usize, mine: &Scratch<T>, sink: &mut Sink<'_>,
    ) {
        let shape = self.shape;
        let base = |operand: usize, layout: usize| {
            let skipped = (lane * shape.size(layout)) as isize;
            self.at[operand].pointer().wrapping_offset(place[layout] + skipped)
        };
        let bounds = shape.bounds(|axis| axis.inputs);
        let each = |layout: usize, f: &mut dyn FnMut(usize, isize)| {
            let mut number = 0;
            odometer(&bounds, 0, shape.axes.len(), &mut Index::default(), &mut |index| {
                f(number, (0..shape.axes.len()).map(|k| shape.along(k, layout, index[k])).sum());
                number += 1;
            });
        };
        // SAFETY: the operands have this plane, and there is room for all lanes.
        unsafe {
            self.give(base(3, 2), lanes, mine);
            if self.divisor.is_none() {
                let (source, bytes) = (base(2, 1), lanes * shape.size(1));
                each(1, &mut |number, offset| {
                    let cells = source.wrapping_offset(offset);
                    self.source.held.assert_holds(cells, bytes);
                    Distance::Read.fetch(cells, bytes);
                    (self.kernels.better)(mine.best, mine.winner, cells, number, lanes, self.kernels.order);
                });
            }
            let dst = base(0, 0);
            each(0, &mut |number, offset| {
                let dst = dst.wrapping_offset(offset);
                if self.divisor.is_some() {
                    return self.way.write(dst, mine.given, lanes);
                }
                let results = sink.run::<u8>(dst, lanes);
                (self.kernels.give)(results, mine.winner, number, [mine.given, mine.nothing], lanes);
            });
        }
    }
}
