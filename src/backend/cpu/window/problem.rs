//! A window as its kernels see it.

use super::phases::Phases;
use super::plane::Gather;
use super::shape::Shape;
use crate::backend::Address;
use crate::backend::cpu::Machine;
use crate::ops::window::{WindowAxis, WindowFunction};

/// A window, and what it runs on.
pub(in crate::backend) struct Problem<'a> {
    pub(super) shape: &'a Shape<'a>,
    pub(super) at: &'a [Address],
    pub(super) machine: Machine,
    /// What all kernels of a gradient need; `None` for another function, and where taps are too many for their numbers.
    pub(super) gradient: Option<Gradient>,
}

/// How the cells of a gradient are brought together, and sorted by the stride.
#[derive(Clone, Copy)]
pub(super) struct Gradient {
    pub phases: Phases,
    pub source: Gather,
    pub gradient: Gather,
}

impl Gradient {
    fn new(shape: &Shape<'_>, at: &[Address], machine: Machine) -> Option<Self> {
        use WindowFunction::{AverageGradient, MaxGradient};
        if !matches!(shape.window.function, MaxGradient(_) | AverageGradient(_)) {
            return None;
        }
        // Taps have numbers.
        let taps = |taps: i32, axis: &WindowAxis| taps.checked_mul(axis.window.try_into().ok()?);
        shape.axes.iter().try_fold(1, taps)?;
        let number = shape.window.compute.scalar();
        Some(Gradient {
            phases: Phases::new(shape.last())?,
            source: Gather::new(shape, 1, false, number, machine.isa).within(shape.held(at[2], 1, false)),
            gradient: Gather::new(shape, 2, true, number, machine.isa).within(shape.held(at[3], 2, true)),
        })
    }
}

impl<'a> Problem<'a> {
    pub(super) fn new(shape: &'a Shape<'a>, at: &'a [Address], machine: Machine) -> Self {
        Problem { shape, at, machine, gradient: Gradient::new(shape, at, machine) }
    }
}
