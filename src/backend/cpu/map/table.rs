//! The kernels of functions of elements, in the order in which they are asked whether they accept a
//! step.

use super::{bytes, halves};
use crate::backend::choice::{self, Kernel};
use crate::backend::cpu::Isa;
use crate::dtype::Scalar;
use crate::layout::Axis;
use crate::ops::function::Function;
use crate::ops::{Compute, Map};

/// How cells become operands of the function, and its results cells.
#[derive(Clone, Copy)]
pub(super) enum Cells {
    /// By a table of results.
    Bytes,
    /// In registers.
    Halves(halves::Kernel),
    /// As they are.
    Direct,
    /// By buffers of the computation type.
    Buffers,
}

/// What of a step decides that.
pub(super) struct Shape<'a> {
    function: Function,
    compute: Compute,
    /// Types of the destination and of the operands that are read.
    scalars: &'a [Scalar],
    /// Whether their cells lie side by side along the loop that tiles cut.
    are_runs: bool,
    /// Whether the old destination is read.
    blends: bool,
    cells: usize,
    isa: Isa,
}

/// How cells come and go by a kernel, if it accepts the step.
pub(super) type Accept = fn(&Shape<'_>) -> Option<Cells>;

/// The kernels; the first one that accepts a step runs it.
pub(super) const KERNELS: &[Kernel<Accept>] = &[
    Kernel {
        name: "map_byte_table",
        when: "functions of one byte with a byte as its result, from 8192 on: they are looked up in a table of all 256",
        accept: looked_up,
    },
    Kernel {
        name: "map_halves",
        when: "short formulas of up to two operands, all in one type of 16 bits: they are converted in registers",
        accept: in_registers,
    },
    Kernel {
        name: "map_contiguous",
        when: "operands side by side, all in the computation type",
        accept: |shape| (shape.are_runs && shape.are_all(shape.compute.scalar())).then_some(Cells::Direct),
    },
    Kernel {
        name: "map_buffered",
        when: "all functions, types and strides: cells are gathered and converted in buffers",
        accept: |_| Some(Cells::Buffers),
    },
];

fn looked_up(shape: &Shape<'_>) -> Option<Cells> {
    let are_bytes = shape.scalars.len() == 2 && shape.scalars.iter().all(|scalar| scalar.size() == 1);
    (are_bytes && shape.are_plain_runs() && shape.cells >= bytes::LEAST_CELLS).then_some(Cells::Bytes)
}

fn in_registers(shape: &Shape<'_>) -> Option<Cells> {
    let fits = shape.compute == Compute::Single && shape.are_all(shape.scalars[0]) && shape.are_plain_runs();
    if fits { halves::kernel(shape.function, shape.scalars[0], shape.isa).map(Cells::Halves) } else { None }
}

impl<'a> Shape<'a> {
    pub fn new<const N: usize>(map: &'a Map<N>, tiled: &Axis<N>, isa: Isa) -> Self {
        let operands = ..=map.function.arity();
        Shape {
            function: map.function,
            compute: map.compute,
            scalars: &map.scalars[operands],
            are_runs: tiled.strides[operands].iter().all(|&stride| stride == 1),
            blends: map.factors.beta != 0.0,
            cells: map.nest.len() as usize,
            isa,
        }
    }

    fn are_plain_runs(&self) -> bool {
        self.are_runs && !self.blends
    }

    fn are_all(&self, scalar: Scalar) -> bool {
        self.scalars.iter().all(|other| *other == scalar)
    }
}

/// The names of all kernels that accept a step, in the order of the table.
pub(super) fn kernels<const N: usize>(map: &Map<N>, isa: Isa) -> Vec<&'static str> {
    let axes = super::axes(map);
    let shape = Shape::new(map, &axes[super::tiled(axes)], isa);
    choice::names(KERNELS, |accept| accept(&shape))
}
