//! Padding: zeros, or the destination scaled in place.

use super::shape::Shape;
use super::{Machine, rows, set, strided};
use crate::backend::Operands;
use crate::error::Result;
use crate::layout::{Axis, LoopNest};
use crate::ops::{Fill, Scaling, Set, Transform};

/// # Safety
/// As for [`crate::backend::run`].
pub(in crate::backend) unsafe fn run(fill: &Fill, dst: *mut u8, machine: Machine) -> Result<()> {
    if fill.beta == 1.0 || fill.nest.is_empty() {
        return Ok(());
    }
    if fill.beta == 0.0 {
        // SAFETY: handed on.
        return unsafe { set::run(&Set { nest: fill.nest, dst: fill.dst, cell: 0 }, dst, machine) };
    }
    // beta * dst in place is a transform whose source is its destination.
    let mut nest = LoopNest::new(&[], [fill.nest.offsets[0]; 2]);
    for axis in fill.nest.axes() {
        nest.push(Axis { extent: axis.extent, strides: [axis.strides[0]; 2] });
    }
    let scaling = Scaling { alpha: fill.beta, beta: 0.0 };
    let transform = Transform { nest, dst: fill.dst, src: fill.dst, scaling };
    let operands = Operands { dst, src: dst };
    // SAFETY: handed on; each cell is its own source.
    Shape::with(&transform, |shape| unsafe {
        if rows::accepts(shape) {
            rows::run(shape, operands, machine)
        } else {
            strided::run(shape, operands, machine)
        }
    })
}
