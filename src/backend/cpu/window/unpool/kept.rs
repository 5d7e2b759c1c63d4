//! What a gradient keeps of a plane that goes row by row: the memory of a thread, and how rows lie
//! in it.

use super::lanes::{Kernels, Tap};
use super::phases::Phases;
use crate::backend::Address;
use crate::backend::cpu::scratch::{Parts, fill};
use crate::backend::cpu::window::plane::Gather;
use crate::backend::cpu::window::shape::Shape;
use crate::backend::cpu::window::sink::Way;
use crate::backend::cpu::window::tables::{Ask, Tables};
use crate::backend::real::Real;
use crate::ops::window::{Divisor, MAX_AXES, WindowAxis, WindowFunction};

/// What threads share.
pub struct Job<'a, T: Real> {
    pub shape: &'a Shape<'a>,
    pub at: &'a [Address],
    /// Lanes of a plane; 1: the lanes are the outputs of a row of the last axis.
    pub lanes: usize,
    pub sides: Sides<Side>,
    /// Rows of the last axis that a window has at most, or the outputs of a cell.
    pub taps: usize,
    pub phases: Phases,
    pub source: Gather,
    pub gradient: Gather,
    pub way: Way,
    pub kernels: Kernels<T>,
}

// SAFETY: addresses without meaning of their own; what is written through them is apart for every
// plane.
unsafe impl<T: Real> Sync for Job<'_, T> {}

/// Something of the cells, and of the outputs.
#[derive(Clone, Copy)]
pub struct Sides<N> {
    pub cells: N,
    pub outputs: N,
}

/// The rows of a side.
pub struct Side {
    /// Rows of the first axis that are kept, a power of two, and rows of the last axis in each of
    /// them.
    pub kept: i64,
    pub lines: usize,
    /// All coordinates.
    pub bounds: [(i64, i64); MAX_AXES],
}

impl Side {
    pub fn new(shape: &Shape<'_>, kept: i64, extent: impl Fn(&WindowAxis) -> i64) -> Self {
        let between = &shape.axes[1..shape.axes.len() - 1];
        Side {
            kept: (kept as u64).next_power_of_two() as i64,
            lines: between.iter().map(|axis| extent(axis) as usize).product(),
            bounds: shape.bounds(extent),
        }
    }
}

/// Coordinates of an axis that meet one of the other side: cells of an output, outputs of a cell.
pub fn reach(axis: &WindowAxis) -> Sides<i64> {
    Sides {
        cells: axis.window.min(axis.inputs),
        outputs: ceil_div(axis.window, axis.stride).min(axis.outputs),
    }
}

/// Pre: neither is negative, the divisor is at least 1.
pub fn ceil_div(a: i64, b: i64) -> i64 {
    a / b + i64::from(a % b != 0)
}

/// The room of a thread.
pub struct Scratch<T: Real> {
    /// The [keys](crate::backend::function::Real::key) of the rows of cells that are kept; in
    /// [phases](Phases) where outputs are the lanes.
    pub keys: *mut T::Key,
    /// The rows of outputs that are kept, and which taps they chose. Where outputs are the lanes,
    /// zeros and no taps are on both sides of them.
    pub numbers: *mut T,
    pub winners: *mut T::Key,
    /// A row as it comes, and what it takes to bring it.
    pub fresh: *mut T,
    pub gather: *mut u8,
    /// A row of cells in phases.
    pub row: *mut T,
    /// A sum of rows of outputs, with zeros on both sides.
    pub line: *mut T,
    /// Rows of taps, and all of them.
    pub rows: *mut Tap,
    pub taps: *mut Tap,
    pub divisors: *mut T,
}

/// The memory of a thread.
pub struct Block<T: Real> {
    pub room: Scratch<T>,
    /// The cells of outputs, and the outputs of cells.
    pub cells: Tables,
    pub outputs: Tables,
    /// What the divisors of a row have in common, if they are there.
    pub of_rows: i64,
}

impl<T: Real> std::ops::Deref for Block<T> {
    type Target = Scratch<T>;
    fn deref(&self) -> &Scratch<T> {
        &self.room
    }
}

impl<T: Real> Job<'_, T> {
    pub fn is_line(&self) -> bool {
        self.shape.lanes == 1
    }

    pub fn is_average(&self) -> bool {
        matches!(self.shape.window.function, WindowFunction::AverageGradient(_))
    }

    /// The longest run of results.
    pub fn longest(&self) -> usize {
        self.lanes * self.shape.last().inputs as usize
    }

    /// Places of a row of the last axis when `lanes` lanes are computed at once.
    pub fn places(&self, lanes: usize) -> Sides<usize> {
        let last = self.shape.last();
        if self.is_line() {
            return Sides { cells: self.phases.len(), outputs: self.phases.spread_len() };
        }
        Sides { cells: last.inputs as usize * lanes, outputs: last.outputs as usize * lanes }
    }

    /// Places of all rows that are kept.
    pub fn ring(&self) -> Sides<usize> {
        let places = self.places(self.lanes);
        let rows = |side: &Side| side.kept as usize * side.lines;
        Sides {
            cells: if self.is_average() { 0 } else { rows(&self.sides.cells) * places.cells },
            outputs: rows(&self.sides.outputs) * places.outputs,
        }
    }

    pub fn room(&self, parts: &mut Parts) -> Scratch<T> {
        let (shape, last, ring) = (self.shape, self.shape.last(), self.ring());
        let phases = if self.is_line() { self.phases.len() } else { 0 };
        Scratch {
            keys: parts.take(ring.cells),
            numbers: parts.take(ring.outputs),
            winners: parts.take(if self.is_average() { 0 } else { ring.outputs }),
            fresh: parts.take(shape.row_cells(false).max(shape.row_cells(true)) * self.lanes),
            gather: parts.take(self.source.bytes(shape).max(self.gradient.bytes(shape))),
            row: parts.take(phases.max(if self.is_line() { last.inputs as usize } else { 0 })),
            line: parts.take(if self.is_line() { self.phases.spread_len() } else { 0 }),
            rows: parts.take(self.taps),
            taps: parts.take(self.taps * last.window as usize),
            divisors: parts.take(if self.is_line() { last.outputs as usize } else { 0 }),
        }
    }

    pub fn scratch_bytes(&self) -> usize {
        let mut parts = Parts::new(std::ptr::null_mut());
        self.room(&mut parts);
        let tables = [Ask::Cells, Ask::Outputs].map(|ask| Tables::bytes(self.shape, ask));
        parts.bytes + tables[0] + tables[1] + self.way.bytes(self.longest())
    }

    /// # Safety
    /// There are [as many bytes](Self::scratch_bytes), and the first of them is aligned to a cache
    /// line.
    pub unsafe fn block(&self, parts: &mut Parts) -> Block<T> {
        let (room, ring) = (self.room(parts), self.ring());
        let by = match self.shape.window.function {
            WindowFunction::AverageGradient(by) => by,
            _ => Divisor::Inside,
        };
        // SAFETY: the parts have room for it.
        unsafe {
            fill(room.keys, T::LEAST, ring.cells);
            room.numbers.write_bytes(0, ring.outputs);
            if !self.is_average() {
                fill(room.winners, T::Key::from(-1), ring.outputs);
            }
            if self.is_line() {
                room.line.write_bytes(0, self.phases.spread_len());
            }
            Block {
                room,
                cells: Tables::new(self.shape, Ask::Cells, by, parts),
                outputs: Tables::new(self.shape, Ask::Outputs, by, parts),
                of_rows: -1,
            }
        }
    }
}
