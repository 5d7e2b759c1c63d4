//! What is asked of axes for every output and cell, worked out once: each answer takes several
//! divisions.

use super::shape::Shape;
use crate::backend::cpu::scratch::{Parts, bytes_of};
use crate::ops::window::{Divisor, MAX_AXES, WindowAxis};

/// Which coordinates belong to one.
#[derive(Clone, Copy)]
pub(super) enum Ask {
    /// The cells of an output.
    Cells,
    /// The outputs of a cell.
    Outputs,
}

/// Ranges and counts by axis, in a thread's scratch.
pub(super) struct Tables {
    ranges: [*const (i64, i64); MAX_AXES],
    counts: [*const i64; MAX_AXES],
}

fn coordinates(axis: &WindowAxis, ask: Ask) -> usize {
    match ask {
        Ask::Cells => axis.outputs as usize,
        Ask::Outputs => axis.inputs as usize,
    }
}

impl Tables {
    /// Bytes of scratch.
    pub fn bytes(shape: &Shape<'_>, ask: Ask) -> usize {
        let of_axis = |axis: &WindowAxis| {
            bytes_of::<(i64, i64)>(coordinates(axis, ask)) + bytes_of::<i64>(axis.outputs as usize)
        };
        shape.axes.iter().map(of_axis).sum()
    }

    /// # Safety
    /// There are that many bytes left.
    pub unsafe fn new(shape: &Shape<'_>, ask: Ask, by: Divisor, parts: &mut Parts) -> Self {
        let mut tables =
            Tables { ranges: [std::ptr::null(); MAX_AXES], counts: [std::ptr::null(); MAX_AXES] };
        for (k, axis) in shape.axes.iter().enumerate() {
            let ranges = parts.take::<(i64, i64)>(coordinates(axis, ask));
            let counts = parts.take::<i64>(axis.outputs as usize);
            // SAFETY: the parts have room for them.
            unsafe {
                for i in 0..coordinates(axis, ask) {
                    ranges.add(i).write(match ask {
                        Ask::Cells => axis.cells(i as i64),
                        Ask::Outputs => axis.outputs_of(i as i64),
                    });
                }
                (0..axis.outputs).for_each(|o| counts.add(o as usize).write(axis.count(o, by)));
            }
            (tables.ranges[k], tables.counts[k]) = (ranges, counts);
        }
        tables
    }

    /// What belongs to a coordinate of an axis.
    ///
    /// # Safety
    /// There is such a coordinate.
    pub unsafe fn range(&self, axis: usize, coordinate: i64) -> (i64, i64) {
        // SAFETY: the table has a range for every coordinate.
        unsafe { self.ranges[axis].add(coordinate as usize).read() }
    }

    /// The factor of an axis in an output's divisor.
    ///
    /// # Safety
    /// There is such an output.
    pub unsafe fn count(&self, axis: usize, output: i64) -> i64 {
        // SAFETY: the table has a count for every output.
        unsafe { self.counts[axis].add(output as usize).read() }
    }

    /// The factors of all outputs of an axis.
    ///
    /// # Safety
    /// The axis has that many outputs, and the scratch outlives what is given.
    pub unsafe fn counts<'a>(&self, axis: usize, outputs: usize) -> &'a [i64] {
        // SAFETY: the table has a count for every output, and lives as long as the scratch.
        unsafe { std::slice::from_raw_parts(self.counts[axis], outputs) }
    }
}
