//! Gradients of a single window that holds all cells: global pooling, where the cells of a plane are the lanes.
//!
//! All cells get the same of an average. Of a maximum one cell gets all there is, and the others get 0.

use super::lanes::{Kernels, Repeat};
use super::plane::Gather;
use super::shape::Shape;
use super::sink::{Sink, Way};
use crate::backend::Address;
use crate::backend::cpu::scratch::{Parts, fill};
use crate::backend::cpu::threads;
use crate::backend::real::Real;
use crate::error::Result;
use crate::ops::window::WindowFunction;

/// What threads share.
pub(super) struct Whole<'a, T: Real> {
    shape: &'a Shape<'a>,
    at: &'a [Address],
    source: &'a Gather,
    gradient: &'a Gather,
    way: &'a Way,
    kernels: &'a Kernels<T>,
    /// What the gradient of an average is divided by; `None` for a maximum.
    divisor: Option<T>,
    cells: usize,
}

// SAFETY: addresses without meaning of their own; what is written through them is apart for every plane.
unsafe impl<T: Real> Sync for Whole<'_, T> {}

/// The room of a thread.
struct Room<T: Real> {
    keys: *mut T::Key,
    /// Cells as they come, and what it takes to bring them.
    fresh: *mut T,
    gather: *mut u8,
}

impl<'a, T: Real> Whole<'a, T> {
    /// `None` where there is more than a window, or less than a plane in it, or where results do not lie side by side.
    pub fn new(
        shape: &'a Shape<'a>,
        at: &'a [Address],
        [source, gradient]: [&'a Gather; 2],
        way: &'a Way,
        kernels: &'a Kernels<T>,
    ) -> Option<Self> {
        let is_whole = shape.lanes == 1
            && shape.is_packed(0, 0, 1, |axis| axis.inputs)
            && shape.axes.iter().all(|axis| axis.outputs == 1 && axis.cells(0) == (0, axis.inputs));
        let divisor = match shape.window.function {
            WindowFunction::AverageGradient(by) => {
                Some(T::from_i64(shape.axes.iter().map(|axis| axis.count(0, by)).product()))
            }
            _ => None,
        };
        let cells = shape.axes.iter().map(|axis| axis.inputs as usize).product();
        is_whole.then_some(Whole { shape, at, source, gradient, way, kernels, divisor, cells })
    }

    /// # Safety
    /// As for [`super::run`], with the gradient of a maximum or an average.
    pub unsafe fn run(&self, threads: usize) -> Result<()> {
        let mut parts = Parts::new(std::ptr::null_mut());
        self.room(&mut parts);
        let scratch = parts.bytes + self.way.bytes(self.cells);
        threads::in_ranges(threads, self.shape.outer, scratch, &|block, range| {
            let mut parts = Parts::new(block);
            let mine = self.room(&mut parts);
            let mut sink = Sink::new(self.way, parts.take(self.way.bytes(self.cells)), self.cells);
            // SAFETY: the block is as large as it says, and planes are apart.
            unsafe {
                range.for_each(|outer| self.plane(outer, &mine, &mut sink));
                sink.flush();
            }
            crate::backend::cpu::stream::fence();
        })
    }

    fn room(&self, parts: &mut Parts) -> Room<T> {
        let keyed = if self.divisor.is_none() { self.cells } else { 0 };
        Room {
            keys: parts.take(keyed),
            fresh: parts.take(keyed.max(1)),
            gather: parts.take(self.source.bytes(self.shape).max(self.gradient.bytes(self.shape))),
        }
    }

    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn plane(&self, outer: usize, mine: &Room<T>, sink: &mut Sink<'_>) {
        let (shape, n) = (self.shape, self.cells);
        let place = shape.place(outer);
        let base = |operand: usize, layout: usize| self.at[operand].pointer().wrapping_offset(place[layout]);
        // SAFETY: the caller's promise; there is room for all cells. One of them is the largest.
        unsafe {
            // Sums start at 0, of columns first where they are those of averages.
            let given = self.gradient.cells::<T>(shape, base(3, 2), 0, 1, mine.fresh, mine.gather).read();
            let sum = (T::ZERO + self.divisor.map_or(given, |divisor| given / divisor)).canonical();
            let results = sink.run::<T>(base(0, 0), n);
            if self.divisor.is_some() {
                return fill(results, sum, n);
            }
            let cells = self.source.all::<T>(shape, base(2, 1), mine.fresh, mine.gather);
            (self.kernels.keys)(mine.keys, cells, n, Repeat::ONCE);
            let mut largest = 0;
            (self.kernels.first_largest)(&raw mut largest, mine.keys, n);
            results.write_bytes(0, n);
            results.add(largest).write(sum);
        }
    }
}
