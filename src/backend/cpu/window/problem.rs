//! A window as its kernels see it.

use super::plane::Gather;
use super::shape::Shape;
use crate::backend::Address;
use crate::backend::cpu::Machine;
use crate::ops::window::{WindowAxis, WindowFunction};

/// A window, and what it runs on.
pub(super) struct Problem<'a> {
    pub(super) shape: &'a Shape<'a>,
    pub(super) at: &'a [Address],
    pub(super) machine: Machine,
    /// Of a gradient, how cells and outputs are brought together; `None` for another function, and
    /// where taps are too many for their numbers.
    pub(super) gathers: Option<[Gather; 2]>,
}

impl<'a> Problem<'a> {
    pub(super) fn new(shape: &'a Shape<'a>, at: &'a [Address], machine: Machine) -> Self {
        Problem { shape, at, machine, gathers: gathers(shape, at, machine) }
    }
}

fn gathers(shape: &Shape<'_>, at: &[Address], machine: Machine) -> Option<[Gather; 2]> {
    use WindowFunction::{AverageGradient, MaxGradient};
    if !matches!(shape.window.function, MaxGradient(_) | AverageGradient(_)) {
        return None;
    }
    // Taps have numbers.
    let taps = |taps: i32, axis: &WindowAxis| taps.checked_mul(axis.window.try_into().ok()?);
    shape.axes.iter().try_fold(1, taps)?;
    let number = shape.window.compute.scalar();
    Some([(1, 2, false), (2, 3, true)].map(|(layout, operand, is_output)| {
        let held = shape.held(at[operand], layout, is_output);
        Gather::new(shape, layout, is_output, number, machine.isa).within(held)
    }))
}
