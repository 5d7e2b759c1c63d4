//! OpTensor: two broadcast operands, one destination, computed in a type of its own.

use std::fmt;

use super::agree::{self, Named};
use super::function::Function;
pub use super::map::Factors;
use super::map::Map;
use super::plan::{self, Operand, Plan, Role, Step, StepSink};
use super::{Compute, NanRule};
use crate::desc::{OpTensorDescriptor, OpTensorOp, TensorDescriptor};
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};
use crate::layout::{self, Layout};
use crate::mode::Mode;

/// `C = op(alpha1 * A, alpha2 * B) + beta * C`, checked and ready to run on any core.
#[derive(Clone, Copy, Debug)]
pub struct OpPlan {
    /// C, A, B; the latter two with the dims of C, repeating what they have one of.
    layouts: [Layout; 3],
    src: Scalar,
    dst: Scalar,
    compute: Compute,
    function: Function,
    factors: Factors,
    /// C, A, B as the call names them.
    operands: [Operand; 3],
    ordered: bool,
    /// Whether B takes the place of A, which is not read.
    swapped: bool,
}

impl OpPlan {
    /// Plans `cudnnOpTensor`: each dim of A and of B is that of C or 1, channels counted one by
    /// one. `b_is_c` tells whether B and C are one pointer, which strict mode refuses.
    ///
    /// # Errors
    /// In this order. Bad parameter: the types of A and B differ; a pair of types that the original
    /// refuses so; ranks differ; in strict mode fewer than 4 dimensions or a dim of A that is not
    /// that of C; a dim that is neither that of C nor 1; in strict mode B in the place of C. Not
    /// supported, in strict mode: more than 5 dimensions, NCHW_VECT_C, other types. Bad parameter:
    /// C repeats an address through stride 0. Not supported: dims that are equal in elements but
    /// not in channels, or one element of several channels for many of another number.
    pub fn new(
        rule: &OpTensorDescriptor, [a, b, c]: [&TensorDescriptor; 3], factors: Factors, b_is_c: bool,
        mode: Mode,
    ) -> Result<Self> {
        let named = |name, tensor| Named { name, tensor };
        let (a, b, c) = (named("aDesc", a), named("bDesc", b), named("cDesc", c));
        if a.tensor.data_type() != b.tensor.data_type() {
            return Err(Error::mismatch(format!(
                "aDesc is {:?} and bDesc {:?}: the types must be equal",
                a.tensor.data_type(),
                b.tensor.data_type()
            )));
        }
        let answer = recorded_types(rule.compute_type, a.tensor.data_type(), c.tensor.data_type());
        let types = || {
            format!(
                "types {:?} -> {:?}, computed in {:?}",
                a.tensor.data_type(),
                c.tensor.data_type(),
                rule.compute_type
            )
        };
        if answer == Answer::BadParam {
            return Err(Error::mismatch(types()));
        }
        agree::check_rank(a, c)?;
        agree::check_rank(b, c)?;
        if mode.is_strict() {
            agree::strict_low_rank(c)?;
            if a.tensor.dims() != c.tensor.dims() {
                return Err(Error::mismatch("strict mode: aDesc must have the dims of cDesc"));
            }
        }
        agree::check_broadcast(a, c, mode)?;
        agree::check_broadcast(b, c, mode)?;
        if mode.is_strict() {
            if b_is_c {
                return Err(Error::mismatch("strict mode: B must not be C"));
            }
            for tensor in [a, b, c] {
                agree::strict_form(tensor)?;
            }
            if answer != Answer::Done {
                return Err(Error::unsupported(types()));
            }
        }
        let dst = agree::destination(c)?;
        let mut layouts = [*dst, agree::broadcast(a, c, &dst.dims)?, agree::broadcast(b, c, &dst.dims)?];
        let mut spans = [(0, 0); 3];
        for (span, (layout, tensor)) in spans.iter_mut().zip(layouts.iter().zip([c, a, b])) {
            *span = agree::byte_span(layout, tensor.tensor.data_type())?;
        }
        let swapped = rule.op == OpTensorOp::Add && factors.alpha[0] == 0.0 && factors.alpha[1] != 0.0;
        if swapped {
            layouts.swap(1, 2);
            spans.swap(1, 2);
        }
        let (function, factors) = simplified(rule, factors);
        for unread in 1 + function.arity()..3 {
            layouts[unread].strides.fill(0);
            layouts[unread].split = None;
            spans[unread] = (0, 0);
        }
        let compute = match rule.compute_type {
            DataType::Double => Compute::Double,
            _ => Compute::Single,
        };
        let (src, dst) = (a.tensor.data_type().scalar(), c.tensor.data_type().scalar());
        if swapped {
            spans.swap(1, 2);
        }
        let operand = |name, role, scalar, span| Operand { name, role, scalar, span };
        let operands = [
            operand("C", Role::blended(factors.beta), dst, spans[0]),
            operand("A", Role::Read, src, spans[1]),
            operand("B", Role::Read, src, spans[2]),
        ];
        let ordered = agree::repeats(c.tensor, &layouts[0]);
        Ok(OpPlan { layouts, src, dst, compute, function, factors, operands, ordered, swapped })
    }

    /// Which operand of the call stands at each place of a step.
    fn slots(&self) -> [usize; 3] {
        if self.swapped { [0, 2, 1] } else { [0, 1, 2] }
    }
}

impl Plan for OpPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn works_in_place(&self, read: usize, _: usize) -> bool {
        self.src.size() == self.dst.size()
            && agree::same_place(&self.layouts[self.slots()[read]], &self.layouts[0])
            && !self.ordered
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        Some(&self.layouts[self.slots()[operand]])
    }

    fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Nests are canonical unless the plan is ordered, in which case elements are computed in the
    /// order of the dimensions, the last one turning fastest, or channels if they lie in blocks.
    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        let mut outcome = Ok(());
        let [c, a, b] = &self.layouts;
        layout::nests([c, a, b], &mut |nest| {
            if !self.ordered {
                nest.canonicalise();
            }
            let OpPlan { dst, src, compute, function, factors, .. } = *self;
            if outcome.is_ok() {
                let map =
                    Map { nest: *nest, scalars: [dst, src, src], compute, function, parameter: 0.0, factors };
                outcome = sink(Step::Map(&map), &self.slots());
            }
        });
        outcome?;
        let tail = super::fill::zero_tail(c, self.dst, self.ordered);
        tail.map_or(Ok(()), |tail| sink(Step::Scale(&tail), &[0]))
    }

    fn is_one_step(&self) -> bool {
        self.layouts.iter().all(|layout| layout.split.is_none())
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for OpPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}

/// Drops terms of a sum whose factor is 0, so that their operands are not read. If only B is left
/// it takes the place of A.
fn simplified(rule: &OpTensorDescriptor, factors: Factors) -> (Function, Factors) {
    let function = match rule.op {
        OpTensorOp::Add => match factors.alpha.map(|alpha| alpha != 0.0) {
            [true, true] => Function::Add,
            [true, false] => Function::First,
            [false, true] => {
                let alpha = [factors.alpha[1], 0.0];
                return (Function::First, Factors { alpha, ..factors });
            }
            [false, false] => Function::Nothing,
        },
        OpTensorOp::Mul => Function::Mul,
        OpTensorOp::Min => match rule.nan.into() {
            NanRule::Ignore => Function::MinNumber,
            NanRule::Propagate => Function::MinOrNan,
        },
        OpTensorOp::Max => match rule.nan.into() {
            NanRule::Ignore => Function::MaxNumber,
            NanRule::Propagate => Function::MaxOrNan,
        },
        OpTensorOp::Sqrt => Function::Sqrt,
        OpTensorOp::Not => Function::Not,
    };
    (function, factors)
}

/// What the original makes of a combination of types.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Done,
    BadParam,
    NotSupported,
}

/// The original's answers (observed on 9.27.0): per type of A and B a row, per type of C a letter,
/// in the order of the types' numbers, of which it knows ten. Types it does not know are not
/// supported.
fn recorded_types(computation: DataType, src: DataType, dst: DataType) -> Answer {
    let number = |t: DataType| DataType::ALL.iter().position(|&other| other == t).filter(|&n| n < 10);
    let (Some(from), Some(to)) = (number(src), number(dst)) else { return Answer::NotSupported };
    const OTHERS: &[u8; 10] = b"BNBBNNNNNB";
    let row = match (computation, from) {
        (DataType::Float, 0) => b"0B00NNNNN0",
        (DataType::Float, 2) => b"0B0BNNNNNN",
        (DataType::Float, 3) => b"0NB0NNNNNB",
        (DataType::Float, 9) => b"0NNBNNNNN0",
        (DataType::Float, _) => OTHERS,
        (DataType::Double, 1) => b"B0BBNNNNNB",
        (_, 1) => OTHERS,
        (_, 0 | 2) => b"NBNNNNNNNN",
        _ => b"NNNNNNNNNN",
    };
    match row[to] {
        b'0' => Answer::Done,
        b'B' => Answer::BadParam,
        _ => Answer::NotSupported,
    }
}
