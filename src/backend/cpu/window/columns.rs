//! The columns of a convolution: every tap of every output has a cell of its own.

use super::problem::Problem;
use super::shape::Shape;
use crate::backend::Address;
use crate::backend::choice::Launch;
use crate::backend::cpu::held::Held;
use crate::backend::cpu::strided::copy_strided;
use crate::backend::cpu::{Machine, threads};
use crate::error::Result;
use crate::ops::window::{WindowAxis, WindowFunction};

/// Columns of windows in one or two dimensions, the last of which is in no blocks.
pub(super) fn accept<'a>(problem: &Problem<'a>) -> Option<Launch<'a>> {
    let (shape, at, machine) = (problem.shape, problem.at, problem.machine);
    let window = shape.window;
    let axes = &window.axes;
    if window.function != WindowFunction::Columns || axes.len() > 2 {
        return None;
    }
    let last = axes.last().filter(|axis| axis.cuts[1].block == 1)?;
    // SAFETY: a launch runs while the operands are what the window needs.
    Some(Launch::new(move || unsafe { run(shape, last, at, machine) }))
}

/// # Safety
/// As for [`super::run`], with [`Columns`](WindowFunction::Columns) along `last` and at most one
/// other axis.
unsafe fn run(shape: &Shape<'_>, last: &WindowAxis, at: &[Address], machine: Machine) -> Result<()> {
    let window = shape.window;
    let axes = &window.axes;
    let size = window.scalars[0].size();
    let bytes = window.len() as usize * size;
    let threads = machine.threads_for(bytes);
    // Rows of the matrix: a place of the loops around and a tap; of each, all outputs.
    let outer = window.outer.len() as usize;
    let taps: usize = axes.iter().map(|axis| axis.window as usize).product();
    let (to, from) = (at[0], at[2]);
    // Each tap of an output has a cell of the destination.
    let tap_reach =
        |axis: &WindowAxis| [0, ((axis.window - 1) * axis.cuts[2].stride) as isize * size as isize];
    let reaches = shape.reaches(0, true).chain(axes.iter().map(tap_reach));
    let written = Held::of(to.pointer(), size, shape.start(0), reaches);
    let read = shape.held(from, 1, false);
    threads::in_ranges(threads, outer * taps, 0, &|_, range| {
        for item in range {
            let (mut place, tap) = (item / taps, (item % taps) as i64);
            let (high, low) = (tap / last.window, tap % last.window);
            let mut dst = window.outer.offsets[0];
            let mut src = window.outer.offsets[1];
            for axis in window.outer.axes().iter().rev() {
                let turn = (place as i64) % axis.extent;
                place /= axis.extent as usize;
                dst += turn * axis.strides[0];
                src += turn * axis.strides[1];
            }
            let first = axes.first().filter(|_| axes.len() == 2);
            dst += low * last.cuts[2].stride + first.map_or(0, |axis| high * axis.cuts[2].stride);
            for o in 0..first.map_or(1, |axis| axis.outputs) {
                let cell = first.map_or(0, |axis| axis.coordinate(o, high));
                let is_inside = first.is_none_or(|axis| (0..axis.inputs).contains(&cell));
                let (mut line, mut row) = (dst, src);
                if let Some(axis) = first {
                    line += axis.cuts[0].offset(o);
                    row += if is_inside { axis.cuts[1].offset(cell) } else { 0 };
                }
                // The outputs whose tap is a cell.
                let begin = (last.pad - low * last.dilation).max(0).div_euclid(last.stride)
                    + i64::from((last.pad - low * last.dilation).max(0) % last.stride != 0);
                let room = last.inputs - 1 + last.pad - low * last.dilation;
                let end = if room < 0 { 0 } else { (room / last.stride + 1).min(last.outputs) };
                let (begin, end) =
                    if is_inside { (begin.min(end), end) } else { (last.outputs, last.outputs) };
                let (begin, end) = if begin >= end { (last.outputs, last.outputs) } else { (begin, end) };
                let place = |o: i64| {
                    let offset = (line + o * last.cuts[0].stride) * size as i64;
                    to.pointer().wrapping_offset(offset as isize)
                };
                let steps = (last.cuts[0].stride as isize) * size as isize;
                let zeros = |from: i64, until: i64| {
                    for o in from..until {
                        written.assert_holds(place(o), size);
                        // SAFETY: a cell of the destination.
                        unsafe { place(o).write_bytes(0, size) };
                    }
                };
                zeros(0, begin);
                if begin < end {
                    let first_cell = begin * last.stride + low * last.dilation - last.pad;
                    let offset = (row + first_cell * last.cuts[1].stride) * size as i64;
                    let cells = from.pointer().wrapping_offset(offset as isize);
                    let step = (last.stride * last.cuts[1].stride) as isize * size as isize;
                    read.assert_holds_all(cells, step, (end - begin) as usize, size);
                    written.assert_holds_all(place(begin), steps, (end - begin) as usize, size);
                    // SAFETY: cells between the bounds; source and destination are apart.
                    unsafe { copy_strided(size, place(begin), steps, cells, step, (end - begin) as usize) };
                }
                zeros(end, last.outputs);
            }
        }
    })
}
