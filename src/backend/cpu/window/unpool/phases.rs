//! A row of the last axis, sorted by the stride: the cells that one tap of neighbouring outputs
//! meets lie side by side.

use super::lanes::{Columns, Kernels, Repeat};
use crate::backend::real::Real;
use crate::ops::window::WindowAxis;

/// Outputs that are treated together: rows have room for whole groups of them.
pub const GROUP: usize = 8;

/// How a row of cells is sorted: those of one remainder modulo the stride are a phase, and lie side
/// by side. In front of the cells and behind them is room for taps that lie outside.
#[derive(Clone, Copy)]
pub struct Phases {
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
        // A stride far above the cells would make them few among many places.
        let near = stride.min(inputs);
        let is_small = width.checked_mul(stride)? <= 64 * near + 4 * (inputs + near * outputs);
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

    /// Places in front of a row of outputs that [`Phases::each_phase`] reads.
    pub fn lead(&self) -> usize {
        self.front + self.window.div_ceil(self.stride)
    }

    /// Places of such a row.
    pub fn spread_len(&self) -> usize {
        self.lead() + self.width.max(self.outputs.next_multiple_of(GROUP))
    }

    /// Taps of a phase, and where in a row of outputs the one lies that meets the phase's first
    /// place by the last of them.
    fn taps(&self, phase: usize) -> (usize, usize) {
        let taps = self.window.saturating_sub(phase).div_ceil(self.stride);
        // Place j is met by tap k of the phase from output j - front - k.
        (taps, self.lead() - self.front - taps.saturating_sub(1))
    }

    /// Whether sums go where cells lie, without sorting: a single phase, of whole groups.
    pub fn is_straight(&self) -> bool {
        self.stride == 1 && self.inputs >= GROUP
    }

    /// Calls `f` for every phase with the place of its first sum in a row, where in a row of
    /// outputs the first of those lies that meet this place, which these are, and how many places
    /// there are. A [straight](Self::is_straight) row has only cells.
    pub fn each_phase(&self, mut f: impl FnMut(usize, usize, Columns, usize)) {
        for phase in 0..self.stride {
            let (count, from) = self.taps(phase);
            let last = (phase + count * self.stride).saturating_sub(self.stride);
            let columns = Columns { count, first: last as i32, step: -(self.stride as i32), pitch: 1 };
            if self.is_straight() {
                return f(0, from + self.pad, columns, self.inputs);
            }
            f(phase * self.width, from, columns, self.width);
        }
    }

    /// Sorts the keys of rows.
    ///
    /// # Safety
    /// `line` has all cells, `scratch` room for as many keys, and `row` all places, and so in every
    /// repetition.
    pub unsafe fn split<T: Real>(
        &self, kernels: &Kernels<T>, line: *const T, scratch: *mut T::Key, row: *mut T::Key, repeat: Repeat,
    ) {
        let n = self.inputs;
        // SAFETY: places of cells, and cells.
        unsafe {
            match self.stride {
                1 => return (kernels.keys)(row.add(self.pad), line, n, repeat),
                2 => return (kernels.unzip)(row.add(self.cell(0)), row.add(self.cell(1)), line, n, repeat),
                _ => {}
            }
            for turn in 0..repeat.count {
                let (line, row) = (line.wrapping_add(turn * repeat.from), row.add(turn * repeat.to));
                (kernels.keys)(scratch, line, n, Repeat::ONCE);
                for first in 0..self.stride.min(n) {
                    let (to, count) = (row.add(self.cell(first)), (n - first).div_ceil(self.stride));
                    (0..count).for_each(|k| to.add(k).write(scratch.add(first + k * self.stride).read()));
                }
            }
        }
    }

    /// Brings the cells of rows back to their order, unless they are [straight](Self::is_straight).
    ///
    /// # Safety
    /// `row` has all places, and `line` room for all cells, and so in every repetition.
    pub unsafe fn join<T: Real>(&self, kernels: &Kernels<T>, row: *const T, line: *mut T, repeat: Repeat) {
        let n = self.inputs;
        // SAFETY: places of cells, and cells.
        unsafe {
            if self.stride == 2 {
                return (kernels.zip)(line, row.add(self.cell(0)), row.add(self.cell(1)), n, repeat);
            }
            if self.is_straight() {
                return;
            }
            for turn in 0..repeat.count {
                let (row, line) = (row.add(turn * repeat.from), line.add(turn * repeat.to));
                for first in 0..self.stride.min(n) {
                    let (from, count) = (row.add(self.cell(first)), (n - first).div_ceil(self.stride));
                    (0..count).for_each(|k| line.add(first + k * self.stride).write(from.add(k).read()));
                }
            }
        }
    }

    /// A single output gives all cells of its window the same.
    ///
    /// # Safety
    /// `line` has room for all cells.
    pub unsafe fn spread_one<T: Real>(&self, number: T, line: *mut T) {
        // Tap t meets place t + front * stride, cell c lies at c + pad.
        let begin = self.front * self.stride;
        let low = begin.saturating_sub(self.pad).min(self.inputs);
        let high = (begin + self.window).saturating_sub(self.pad).clamp(low, self.inputs);
        // SAFETY: cells of the line.
        let line = unsafe { std::slice::from_raw_parts_mut(line, self.inputs) };
        line[..low].fill(T::ZERO);
        line[low..high].fill(number);
        line[high..].fill(T::ZERO);
    }
}
