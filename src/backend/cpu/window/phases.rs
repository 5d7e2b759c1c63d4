//! A row of the last axis, sorted by the stride: the cells that one tap of neighbouring outputs meets lie side by side.

use super::lanes::Kernels;
use crate::backend::real::Real;
use crate::ops::window::WindowAxis;

/// Outputs that are treated together: rows have room for whole groups of them.
pub(super) const GROUP: usize = 8;

/// How a row of cells is sorted: those of one remainder modulo the stride are a phase, and lie side by side. In front of
/// the cells and behind them is room for taps that lie outside.
#[derive(Clone, Copy)]
pub(super) struct Phases {
    stride: usize,
    /// Places of the unsorted row in front of cell 0.
    pad: usize,
    /// Places of a phase in front of that of the first tap of output 0.
    front: usize,
    width: usize,
    /// Taps of an output, cells and outputs.
    window: usize,
    inputs: usize,
    outputs: usize,
}

impl Phases {
    /// `None` where most of a row would be room for taps outside.
    pub fn new(axis: &WindowAxis) -> Option<Self> {
        let [stride, window, inputs, outputs] =
            [axis.stride, axis.window, axis.inputs, axis.outputs].map(|extent| usize::try_from(extent).ok());
        let (stride, window, inputs, outputs) = (stride?, window?, inputs?, outputs?);
        let front = usize::try_from(-axis.pad.min(0)).ok()?.div_ceil(stride);
        let pad =
            usize::try_from(axis.pad.checked_add(i64::try_from(front.checked_mul(stride)?).ok()?)?).ok()?;
        let of_taps = front + (window - 1) / stride + outputs.next_multiple_of(GROUP);
        let width = of_taps.max((inputs + pad).div_ceil(stride)).next_multiple_of(GROUP);
        let is_small = width.checked_mul(stride)? <= 64 * stride + 4 * (inputs + stride * outputs);
        is_small.then_some(Phases { stride, pad, front, width, window, inputs, outputs })
    }

    /// Places of a row.
    pub fn len(&self) -> usize {
        self.stride * self.width
    }

    /// Where the cell lies that this tap of output 0 meets; that of output `o` is `o` places on.
    pub fn tap(&self, tap: usize) -> usize {
        tap % self.stride * self.width + tap / self.stride + self.front
    }

    /// Where a cell lies.
    fn cell(&self, cell: usize) -> usize {
        let at = cell + self.pad;
        at % self.stride * self.width + at / self.stride
    }

    /// Places in front of a row of outputs that [`Phases::spread`] and [`Phases::give`] read.
    pub fn lead(&self) -> usize {
        self.front + self.window.div_ceil(self.stride)
    }

    /// Places of such a row.
    pub fn spread_len(&self) -> usize {
        self.lead() + self.width.max(self.outputs.next_multiple_of(GROUP))
    }

    /// Taps of a phase, and where in a row of outputs the one lies that meets the phase's first place by the last of them.
    fn taps(&self, phase: usize) -> (usize, usize) {
        let taps = self.window.saturating_sub(phase).div_ceil(self.stride);
        // Place j is met by tap k of the phase from output j - front - k.
        (taps, self.lead() - self.front - taps.saturating_sub(1))
    }

    /// Adds the numbers of a row of outputs to the cells of this row that were chosen, whose taps have numbers from `tap`
    /// on: to each cell in the order of the outputs.
    ///
    /// # Safety
    /// `numbers` and `winners` have a row of outputs behind [`lead`](Self::lead) places, and what is around them is 0 and
    /// no tap; `row` has all places.
    pub unsafe fn give<T: Real>(
        &self,
        kernels: &Kernels<T>,
        numbers: *const T,
        winners: *const T::Key,
        tap: usize,
        row: *mut T,
    ) {
        for phase in 0..self.stride.min(self.window) {
            let (taps, first) = self.taps(phase);
            let last = (tap + phase + (taps - 1) * self.stride) as i32;
            // SAFETY: as many numbers before and behind an output as taps of a phase reach.
            unsafe {
                let (numbers, winners) = (numbers.add(first), winners.add(first));
                let sums = row.add(phase * self.width);
                (kernels.give)(sums, numbers, winners, (last, self.stride as i32), taps, self.width);
            }
        }
    }

    /// Sorts a row.
    ///
    /// # Safety
    /// `line` has all cells, and `row` all places.
    pub unsafe fn split<T: Real>(&self, kernels: &Kernels<T>, line: *const T, row: *mut T) {
        let n = self.inputs;
        // SAFETY: places of cells, and cells.
        unsafe {
            match self.stride {
                1 => row.add(self.pad).copy_from_nonoverlapping(line, n),
                2 => (kernels.unzip)(row.add(self.cell(0)), row.add(self.cell(1)), line, n),
                stride => {
                    for first in 0..stride.min(n) {
                        let (to, count) = (row.add(self.cell(first)), (n - first).div_ceil(stride));
                        (0..count).for_each(|k| to.add(k).write(line.add(first + k * stride).read()));
                    }
                }
            }
        }
    }

    /// The opposite of [`Phases::split`].
    ///
    /// # Safety
    /// `row` has all places, and `line` room for all cells.
    pub unsafe fn join<T: Real>(&self, kernels: &Kernels<T>, row: *const T, line: *mut T) {
        let n = self.inputs;
        // SAFETY: places of cells, and cells.
        unsafe {
            match self.stride {
                1 => line.copy_from_nonoverlapping(row.add(self.pad), n),
                2 => (kernels.zip)(line, row.add(self.cell(0)), row.add(self.cell(1)), n),
                stride => {
                    for first in 0..stride.min(n) {
                        let (from, count) = (row.add(self.cell(first)), (n - first).div_ceil(stride));
                        (0..count).for_each(|k| line.add(first + k * stride).write(from.add(k).read()));
                    }
                }
            }
        }
    }

    /// Gives the numbers of a row of outputs to the cells of their windows: `line[c] =` the sum over the outputs that
    /// hold c, in their order, starting at 0. `slide` sums neighbours.
    ///
    /// # Safety
    /// `numbers` has a row of outputs behind [`lead`](Self::lead) zeros, and zeros behind it; `row` has all places, and
    /// `line` room for all cells.
    pub unsafe fn spread<T: Real>(
        &self,
        kernels: &Kernels<T>,
        slide: unsafe fn(*mut T, *const T, usize, usize, usize),
        numbers: *const T,
        row: *mut T,
        line: *mut T,
    ) {
        // SAFETY: as many numbers before and behind an output as taps of a phase reach.
        unsafe {
            if self.outputs == 1 {
                return self.spread_one(numbers.add(self.lead()).read(), line);
            }
            for phase in 0..self.stride {
                let to = row.add(phase * self.width);
                let (taps, first) = self.taps(phase);
                if taps == 0 {
                    to.write_bytes(0, self.width);
                    continue;
                }
                if self.stride == 1 {
                    return slide(line, numbers.add(first + self.pad), taps, 1, self.inputs);
                }
                slide(to, numbers.add(first), taps, 1, self.width);
            }
            self.join(kernels, row, line);
        }
    }

    /// A single output gives all cells of its window the same.
    ///
    /// # Safety
    /// `line` has room for all cells.
    unsafe fn spread_one<T: Real>(&self, number: T, line: *mut T) {
        // Tap t meets place t + front * stride, cell c lies at c + pad.
        let begin = self.front * self.stride;
        let low = begin.saturating_sub(self.pad).min(self.inputs);
        let high = (begin + self.window).saturating_sub(self.pad).clamp(low, self.inputs);
        // SAFETY: cells of the line.
        let line = unsafe { std::slice::from_raw_parts_mut(line, self.inputs) };
        line[..low].fill(T::ZERO);
        line[low..high].fill(T::ZERO + number);
        line[high..].fill(T::ZERO);
    }
}
