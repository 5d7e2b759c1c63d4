//! Cells of a plane brought together: side by side, in the type that is computed in.

use super::shape::{Index, Shape, odometer};
use super::sink::Way;
use crate::backend::cpu::Isa;
use crate::backend::cpu::held::Held;
use crate::backend::cpu::row::{self, Row};
use crate::backend::cpu::stream::Distance;
use crate::backend::cpu::strided::copy_strided;
use crate::dtype::Scalar;
use crate::ops::Scaling;
use crate::ops::window::WindowAxis;
use std::ops::Range;

/// How the cells of a layout become numbers side by side, in row-major order of the axes, lanes
/// inside.
#[derive(Clone, Copy)]
pub(super) struct Gather {
    layout: usize,
    /// Whether coordinates are those of outputs.
    outputs: bool,
    size: usize,
    to: usize,
    /// Whether cells are numbers of the type already.
    is_same: bool,
    row: Row,
    /// Bytes from cell to cell of the last axis, if they are even.
    step: Option<isize>,
    /// What the operand holds that they are read of.
    pub held: Held,
}

impl Gather {
    pub fn new(shape: &Shape<'_>, layout: usize, outputs: bool, to: Scalar, isa: Isa) -> Self {
        let from = shape.window.scalars[layout];
        Gather {
            layout,
            outputs,
            size: from.size(),
            to: to.size(),
            is_same: from == to,
            row: row::between(from, to, Scaling::MOVE, isa),
            step: shape.last_step(layout),
            held: Held::UNKNOWN,
        }
    }

    /// The same, of an operand that holds this.
    pub fn within(self, held: Held) -> Self {
        Gather { held, ..self }
    }

    fn extent(&self, axis: &WindowAxis) -> i64 {
        if self.outputs { axis.outputs } else { axis.inputs }
    }

    /// Bytes of scratch besides the result.
    pub fn bytes(&self, shape: &Shape<'_>) -> usize {
        self.extent(shape.last()) as usize * self.size.max(self.to)
    }

    /// Brings the cells of a plane to `to`, `lanes` of those that lie side by side.
    ///
    /// # Safety
    /// As for [`row`](Self::row), for every coordinate.
    pub unsafe fn plane(
        &self, shape: &Shape<'_>, plane: *const u8, lanes: usize, to: *mut u8, scratch: *mut u8,
    ) {
        let rows = 0..self.extent(&shape.axes[0]);
        // SAFETY: the plane has these rows, and there is room for them.
        unsafe { self.rows(shape, plane, rows, lanes, to, scratch) };
    }

    /// Brings the cells of these coordinates of the first axis to `to`, at once if they follow one
    /// another; `lanes` of those that lie side by side.
    ///
    /// # Safety
    /// As for [`row`](Self::row), for each of them.
    pub unsafe fn rows(
        &self, shape: &Shape<'_>, plane: *const u8, rows: Range<i64>, lanes: usize, to: *mut u8,
        scratch: *mut u8,
    ) {
        let row = shape.row_cells(self.outputs) * lanes;
        if shape.is_packed(self.layout, 0, lanes, |axis| self.extent(axis)) {
            let from = plane.wrapping_offset(shape.along(0, self.layout, rows.start));
            let n = rows.count() * row;
            self.held.assert_holds(from, n * self.size);
            Distance::Read.fetch(from, n * self.size);
            // SAFETY: the plane has these rows, whose cells follow one another, and `to` has room
            // for them.
            return unsafe { (self.row)(to, from, n, Scaling::MOVE) };
        }
        for (i, coordinate) in rows.enumerate() {
            let to = to.wrapping_add(i * row * self.to);
            // SAFETY: the plane has this row, and `to` room for it.
            unsafe { self.row(shape, plane, coordinate, lanes, to, scratch) };
        }
    }

    /// Whether the cells of the axes from `first` on are as [`plane`](Self::plane) would bring
    /// them.
    pub fn is_packed(&self, shape: &Shape<'_>, first: usize, lanes: usize) -> bool {
        self.is_same && shape.is_packed(self.layout, first, lanes, |axis| self.extent(axis))
    }

    /// All cells of a plane, side by side: where they lie, or else brought to `to`.
    ///
    /// # Safety
    /// As for [`plane`](Self::plane), with one lane; `T` is the type that cells are brought to.
    pub unsafe fn all<T>(
        &self, shape: &Shape<'_>, plane: *const u8, to: *mut T, scratch: *mut u8,
    ) -> *const T {
        if !shape.is_packed(self.layout, 0, 1, |axis| self.extent(axis)) {
            // SAFETY: `to` has room for the plane.
            unsafe { self.plane(shape, plane, 1, to.cast(), scratch) };
            return to;
        }
        let n = shape.axes.iter().map(|axis| self.extent(axis) as usize).product::<usize>();
        self.held.assert_holds(plane, n * self.size);
        Distance::Read.fetch(plane, n * self.size);
        if self.is_same {
            return plane.cast();
        }
        // SAFETY: the plane's cells follow one another, and `to` has room for them.
        unsafe { (self.row)(to.cast(), plane, n, Scaling::MOVE) };
        to
    }

    /// The cells of one coordinate of the first axis, side by side: where they lie, or else brought
    /// to `to`; `lanes` of those that lie side by side.
    ///
    /// # Safety
    /// As for [`row`](Self::row); `T` is the type that cells are brought to.
    pub unsafe fn cells<T>(
        &self, shape: &Shape<'_>, plane: *const u8, coordinate: i64, lanes: usize, to: *mut T,
        scratch: *mut u8,
    ) -> *const T {
        if !self.is_packed(shape, 1, lanes) {
            // SAFETY: `to` has room for the row.
            unsafe { self.row(shape, plane, coordinate, lanes, to.cast(), scratch) };
            return to;
        }
        let from = plane.wrapping_offset(shape.along(0, self.layout, coordinate));
        let bytes = shape.row_cells(self.outputs) * lanes * self.size;
        self.held.assert_holds(from, bytes);
        Distance::Read.fetch(from, bytes);
        from.cast()
    }

    /// Brings the cells of one coordinate of the first axis to `to`; `lanes` of those that lie side
    /// by side.
    ///
    /// # Safety
    /// `plane` is where the cells of coordinates 0 lie, and they are readable; `to` has room for
    /// them, `scratch` the [bytes](Self::bytes).
    pub unsafe fn row(
        &self, shape: &Shape<'_>, plane: *const u8, coordinate: i64, lanes: usize, to: *mut u8,
        scratch: *mut u8,
    ) {
        let from = plane.wrapping_offset(shape.along(0, self.layout, coordinate));
        let end = shape.axes.len();
        let n = self.extent(shape.last()) as usize;
        let mut to = to;
        let size = self.size as isize;
        let mut line = |at: *const u8| {
            // SAFETY: the cells of the row are readable, and `to` has room for them.
            unsafe {
                match self.step {
                    Some(step) if step == size * lanes as isize => {
                        self.held.assert_holds(at, n * lanes * self.size);
                        Distance::Read.fetch(at, n * lanes * self.size);
                        (self.row)(to, at, n * lanes, Scaling::MOVE);
                    }
                    Some(step) if lanes == 1 => {
                        self.held.assert_holds_all(at, step, n, self.size);
                        copy_strided(self.size, scratch, size, at, step, n);
                        (self.row)(to, scratch, n, Scaling::MOVE);
                    }
                    _ => {
                        for i in 0..n {
                            let cell = at.wrapping_offset(shape.along(end - 1, self.layout, i as i64));
                            self.held.assert_holds(cell, lanes * self.size);
                            (self.row)(to.wrapping_add(i * lanes * self.to), cell, lanes, Scaling::MOVE);
                        }
                    }
                }
            }
            to = to.wrapping_add(n * lanes * self.to);
        };
        // Most windows have two axes.
        if end == 2 {
            return line(from);
        }
        let bounds = shape.bounds(|axis| self.extent(axis));
        odometer(&bounds, 1, end - 1, &mut Index::default(), &mut |index| {
            let along = |k: usize| shape.along(k, self.layout, index[k]);
            line(from.wrapping_offset((1..end - 1).map(along).sum()));
        });
    }
}

/// Writes the cells of a plane, `lanes` of those that lie side by side: `from` holds them as
/// [`Gather`] brings them.
///
/// # Safety
/// `plane` is where the cells of coordinates 0 lie in layout 0, and they are writable, and readable
/// if they are blended; `from` has all of them.
pub(super) unsafe fn write_plane<T>(
    shape: &Shape<'_>, way: &Way, plane: *mut u8, outputs: bool, lanes: usize, from: *const T,
) {
    let extent = |axis: &WindowAxis| if outputs { axis.outputs } else { axis.inputs };
    let end = shape.axes.len();
    let size = shape.size(0) as isize;
    let step = shape.last_step(0);
    let is_run = step == Some(size * lanes as isize);
    let bounds = shape.bounds(extent);
    let n = extent(shape.last()) as usize * lanes;
    // Lines that follow one another are written together.
    let (mut dst, mut first, mut filled) = (plane, from, 0);
    let mut next = from;
    // SAFETY: the cells of the plane are writable, and `from` has all of them.
    odometer(&bounds, 0, end - 1, &mut Index::default(), &mut |index| unsafe {
        let mut line = plane;
        (0..end - 1).for_each(|k| line = line.wrapping_offset(shape.along(k, 0, index[k])));
        if !is_run {
            for i in 0..n / lanes {
                let to = line.wrapping_offset(shape.along(end - 1, 0, i as i64));
                way.write(to, next.add(i * lanes).cast(), lanes);
            }
        } else {
            if line != dst.wrapping_add(filled * size as usize) {
                way.write(dst, first.cast(), filled);
                (dst, first, filled) = (line, next, 0);
            }
            filled += n;
        }
        next = next.add(n);
    });
    // SAFETY: what is left.
    unsafe { way.write(dst, first.cast(), filled) };
}
