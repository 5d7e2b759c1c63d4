//! The destination scaled in place, or zeros.

use super::kind::{self, Call, Kind, Table};
use super::shape::Shape;
use super::{Machine, grid::Grid, row, strided};
use crate::backend::Operands;
use crate::backend::choice::{self, Kernel};
use crate::error::Result;
use crate::layout::{Axis, LoopNest};
use crate::ops::{Scale, Scaling, Set, Transform};

/// Cells per tile at most, so that one long run can be divided among threads.
const TILE_CELLS: usize = 16 << 10;

/// How a kernel runs a step that it has accepted. Unsafe as [`Kind::run`] is.
type Run = unsafe fn(&Scale, *mut u8, Machine) -> Result<()>;

/// How a kernel runs a step, if it accepts it.
type Accept = fn(&Scale) -> Option<Run>;

/// The kernels; the first one that accepts a step runs it.
const KERNELS: &[Kernel<Accept>] = &[
    Kernel {
        name: "scale_by_zero",
        when: "a factor of 0: zeros are written, as those of a `Set`",
        accept: |scale| (scale.beta == 0.0).then_some(zeros),
    },
    Kernel {
        name: "scale_rows",
        when: "other factors, neighbours in memory",
        accept: |scale| (scale.beta != 0.0 && is_run(scale)).then_some(rows),
    },
    Kernel {
        name: "scale_strided",
        when: "other factors, all nests: one loop at a time, with whatever stride it has",
        accept: |scale| (scale.beta != 0.0).then_some(strided),
    },
];

/// Whether the cells of the innermost loop are neighbours.
fn is_run(scale: &Scale) -> bool {
    scale.nest.axes().last().is_none_or(|axis| axis.strides[0] == 1)
}

impl Kind for Scale {
    fn table() -> Table {
        kind::rows(KERNELS)
    }

    fn kernels(&self, _machine: Machine) -> Vec<&'static str> {
        choice::names(KERNELS, |accept| accept(self))
    }

    fn is_modest(&self, _machine: Machine) -> bool {
        true
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        let [dst] = call.pointers();
        if self.beta == 1.0 || self.nest.is_empty() {
            return Ok(());
        }
        let (_, run) = call.choice.of(KERNELS, |accept| accept(self))?;
        // SAFETY: the nest's cells are readable and writable, and the kernel accepts the step.
        unsafe { run(self, dst, call.machine) }
    }
}

/// # Safety
/// As for [`Kind::run`].
unsafe fn zeros(scale: &Scale, dst: *mut u8, machine: Machine) -> Result<()> {
    let set = Set { nest: scale.nest, dst: scale.dst, cell: 0 };
    // SAFETY: every cell of the destination is writable.
    unsafe { set.run(&Call::new(&[dst.into()], machine)) }
}

/// `beta * dst` in place: a transform whose source is its destination.
fn in_place(scale: &Scale) -> Transform {
    let scaling = Scaling { alpha: scale.beta, beta: 0.0 };
    let nest = LoopNest::new(&[], [scale.nest.offsets[0]; 2]);
    let mut transform = Transform { nest, dst: scale.dst, src: scale.dst, scaling };
    for axis in scale.nest.axes() {
        transform.nest.push(Axis { extent: axis.extent, strides: [axis.strides[0]; 2] });
    }
    transform
}

/// # Safety
/// As for [`Kind::run`].
unsafe fn strided(scale: &Scale, dst: *mut u8, machine: Machine) -> Result<()> {
    // SAFETY: the nest's cells are readable and writable, and each is its own source.
    Shape::with(&in_place(scale), |shape| unsafe { strided::run(shape, Operands { dst, src: dst }, machine) })
}

/// # Safety
/// As for [`Kind::run`]; the cells of the innermost loop are neighbours.
unsafe fn rows(scale: &Scale, dst: *mut u8, machine: Machine) -> Result<()> {
    let transform = in_place(scale);
    Shape::with(&transform, |shape| {
        // Never past the caches: the lines are there, as they were just read.
        let row = row::row(&transform, machine.isa);
        let grid = Grid::new(shape.loops(), shape.start, [(shape.loops().len() - 1, TILE_CELLS)]);
        grid.run(machine, shape.bytes(), Operands { dst, src: dst }, |tile| {
            // SAFETY: a run of the nest, each cell of which is its own source.
            unsafe { row(tile.dst, tile.src, tile.extents[0], transform.scaling) }
        })
    })
}
