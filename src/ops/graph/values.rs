//! Tensors that are passed by value: written to the workspace before the operations of a graph run.

use std::fmt;

use super::program::Value;
use crate::dtype::Scalar;
use crate::dtype::convert::{Element, with_element};
use crate::error::Result;
use crate::layout::LoopNest;
use crate::ops::Set;
use crate::ops::plan::{self, Operand, Plan, Role, Step, StepSink};

/// Writes what was passed by value.
pub struct ValuesPlan {
    operand: [Operand; 1],
    sets: Vec<Set>,
}

impl ValuesPlan {
    /// No values yet, and a workspace of `workspace` bytes.
    pub fn new(workspace: usize) -> Self {
        let operand = Operand {
            name: "workspace",
            role: Role::Write,
            scalar: Scalar::F64,
            span: (0, i64::try_from(workspace).unwrap_or(i64::MAX)),
        };
        ValuesPlan { operand: [operand], sets: Vec::new() }
    }

    /// Element `index` of a tensor, as the low bits. Pre: it has that element.
    pub fn set(&mut self, value: &Value, index: usize, cell: u64) {
        let offset = (value.offset / value.scalar.size() + index) as i64;
        self.sets.push(Set { nest: LoopNest::new(&[], [offset]), dst: value.scalar, cell });
    }

    /// The number that lies this many bytes from the workspace on, if it is one of these.
    pub fn number(&self, bytes: i64) -> Option<f64> {
        let lies = |set: &&Set| set.nest.offsets[0] * set.dst.size() as i64 == bytes;
        let set = self.sets.iter().find(lies)?;
        Some(with_element!(set.dst, D => <D as Element>::from_bits(set.cell).to_f64()))
    }
}

impl Plan for ValuesPlan {
    fn operands(&self) -> &[Operand] {
        &self.operand
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        self.sets.iter().try_for_each(|set| sink(Step::Set(set), &[0]))
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for ValuesPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
