//! SetTensor and ScaleTensor: calls with a destination and no source.

use std::fmt;

use super::agree::{self, Named};
use super::plan::{self, Operand, Plan, Role, Step, StepSink};
use super::{Number, Scale, strict};
use crate::desc::TensorDescriptor;
use crate::dtype::Scalar;
use crate::dtype::convert::{Element, with_element};
use crate::error::{Error, Result};
use crate::layout::{Layout, LoopNest};
use crate::mode::Mode;

/// What becomes of every element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// This cell, as the low bits.
    Cell(u64),
    /// The old value times this factor, as every scaling computes it; 0 writes zeros without
    /// reading.
    Times(f64),
}

/// `dst = cell` for every offset of the nest.
#[derive(Clone, Copy)]
pub struct Set {
    /// Offsets in scalars of the destination; canonical.
    pub nest: LoopNest<1>,
    /// Scalar type of the destination.
    pub dst: Scalar,
    /// The bits to store, zero-extended.
    pub cell: u64,
}

/// `y = value` or `y = factor * y`, checked and ready to run on any core. Padding of a blocked
/// layout becomes zero.
#[derive(Clone, Copy, Debug)]
pub struct FillPlan {
    dst: Layout,
    operand: Operand,
    value: Value,
    ordered: bool,
}

impl FillPlan {
    /// Plans `cudnnSetTensor`: every element becomes `value`, rounded once to the tensor's type.
    ///
    /// # Errors
    /// Not supported: the tensor was never set; in strict mode other ranks than 4 and 5,
    /// NCHW_VECT_C, integer types but INT8. Bad parameter: it repeats an address through stride 0.
    pub fn set(y: &TensorDescriptor, value: Number, mode: Mode) -> Result<Self> {
        let named = Named { name: "yDesc", tensor: y };
        if mode.is_strict() {
            agree::strict_form(named)?;
            strict::SET.check(&[named], mode)?;
        }
        if !y.is_set() {
            return Err(Error::unsupported("yDesc was never set"));
        }
        let cell = with_element!(y.data_type().scalar(), D => match value {
            Number::Real(x) => Element::to_bits(<D as Element>::from_f64(x)),
            Number::Integer(x) => Element::to_bits(<D as Element>::from_i64(x)),
        });
        FillPlan::of(agree::destination(named)?, y, "y", Value::Cell(cell))
    }

    /// Plans `cudnnScaleTensor`; products are computed as every scaling is, in `double` for INT32
    /// and INT64.
    ///
    /// # Errors
    /// Not supported, in strict mode: integer types but INT8. Bad parameter: the tensor was never
    /// set or repeats an address through stride 0.
    pub fn scale(y: &TensorDescriptor, factor: f64, mode: Mode) -> Result<Self> {
        let named = Named { name: "yDesc", tensor: y };
        if y.is_set() {
            strict::SCALE.check(&[named], mode)?;
        }
        let layout = agree::destination(named)?;
        FillPlan::of(layout, y, "y", Value::Times(factor))
    }

    /// A plan for the layout of a destination that was checked; `name` is that of its C parameter.
    pub(super) fn of(dst: &Layout, y: &TensorDescriptor, name: &'static str, value: Value) -> Result<Self> {
        let span = agree::byte_span(dst, y.data_type())?;
        let role = match value {
            Value::Cell(_) => Role::Write,
            Value::Times(factor) => Role::blended(factor),
        };
        let operand = Operand { name, role, scalar: y.data_type().scalar(), span };
        Ok(FillPlan { dst: *dst, operand, value, ordered: agree::repeats(y, dst) })
    }
}

impl Plan for FillPlan {
    fn operands(&self) -> &[Operand] {
        std::slice::from_ref(&self.operand)
    }

    fn is_ordered(&self) -> bool {
        self.ordered && matches!(self.value, Value::Times(_))
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        let mut outcome = Ok(());
        let scalar = self.operand.scalar;
        crate::layout::nests([&self.dst], &mut |nest| {
            if outcome.is_err() {
                return;
            }
            if !self.is_ordered() {
                nest.canonicalise();
            }
            outcome = match self.value {
                Value::Cell(cell) => sink(Step::Set(&Set { nest: *nest, dst: scalar, cell }), &[0]),
                Value::Times(beta) => sink(Step::Scale(&Scale { nest: *nest, dst: scalar, beta }), &[0]),
            };
        });
        outcome?;
        zero_tail(&self.dst, scalar, self.ordered).map_or(Ok(()), |fill| sink(Step::Scale(&fill), &[0]))
    }

    fn is_one_step(&self) -> bool {
        self.dst.split.is_none()
    }
}

/// The padding of a blocked destination, which every operation writes as zero.
pub(super) fn zero_tail(dst: &Layout, scalar: Scalar, ordered: bool) -> Option<Scale> {
    let mut nest = dst.tail()?;
    if !ordered {
        nest.canonicalise();
    }
    Some(Scale { nest, dst: scalar, beta: 0.0 })
}

/// One line per step, as the log shows it.
impl fmt::Display for FillPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}

/// Type, value and loops in one line.
impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "set {} to bits {:#x} {}", self.dst.name(), self.cell, self.nest)
    }
}
