//! An attention that is ready to run, as both directions have it.

use super::matrix::{Matrix, Types};
use super::packed::Level;
use crate::backend::Address;
use crate::backend::cpu::Machine;
use crate::backend::cpu::row::between;
use crate::dtype::Scalar;
use crate::ops::Scaling;
use crate::ops::attend::Attend;

/// The attention, its operands, and what computes it.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    pub step: &'a Attend,
    pub at: &'a [Address],
    pub machine: Machine,
    pub level: Level,
    pub types: Types,
}

impl<'a> Problem<'a> {
    pub fn new(step: &'a Attend, at: &'a [Address], machine: Machine) -> Self {
        let (level, types) = (Level::of(machine.isa), Types::of(step.scalar, machine.isa));
        Problem { step, at, machine, level, types }
    }

    /// o, q, k and v.
    pub fn matrices(&self) -> [Matrix; 4] {
        let [width, columns] = self.step.widths;
        let matrix = |k: usize, operand: usize, columns: i64| {
            Matrix::new(self.at[operand], self.step.strides[k], columns, self.types)
        };
        [
            matrix(0, 0, columns),
            matrix(1, Attend::Q, width),
            matrix(2, Attend::Q + 1, width),
            matrix(3, Attend::Q + 2, columns),
        ]
    }

    /// A number of an operand, `offset` elements from its first one; `without`, if the step does
    /// not touch the operand.
    ///
    /// # Safety
    /// The operands are those of the step.
    pub unsafe fn number(&self, operand: usize, offset: i64, without: f64) -> f64 {
        if !self.step.touches()[operand] {
            return without;
        }
        // SAFETY: the step touches the number.
        unsafe { self.read(operand, self.step.scalars()[operand], offset) }
    }

    /// A number of an operand of this type.
    ///
    /// # Safety
    /// It is there.
    pub unsafe fn read(&self, operand: usize, scalar: Scalar, offset: i64) -> f64 {
        let mut x = 0.0_f64;
        let from = self.at[operand].pointer().wrapping_offset(offset as isize * scalar.size() as isize);
        let read = between(scalar, Scalar::F64, Scaling::MOVE, self.machine.isa);
        // SAFETY: the number is there.
        unsafe { read((&raw mut x).cast(), from, 1, Scaling::MOVE) };
        x
    }
}
