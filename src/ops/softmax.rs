//! Softmax and its gradient: one step over the groups of a tensor.

use std::fmt;

use super::agree::{self, Named};
use super::plan::{self, Operand, Plan, Role, Step, StepSink};
use super::rows::{RowFunction, Rows};
use super::{Compute, Scaling, strict};
use crate::desc::{SoftmaxAlgorithm, SoftmaxMode, TensorDescriptor};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{Axis, Layout, LoopNest};
use crate::mode::Mode;

/// The choices of a call, which are judged after its tensors: they may be numbers that mean
/// nothing.
#[derive(Debug)]
pub struct Choices {
    /// How.
    pub algorithm: Result<SoftmaxAlgorithm>,
    /// Over what.
    pub mode: Result<SoftmaxMode>,
}

/// `dst = alpha * function(x, dy) + beta * dst` over groups, checked and ready to run on any core.
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxPlan {
    /// The destination, x, and dy or, if there is none, x again, which is not read.
    layouts: [Layout; 3],
    function: RowFunction,
    mode: SoftmaxMode,
    compute: Compute,
    scaling: Scaling,
    operands: [Operand; 3],
    ordered: bool,
}

impl SoftmaxPlan {
    /// Plans `cudnnSoftmaxForward`.
    ///
    /// # Errors
    /// In this order. Bad parameter: ranks differ, in strict mode fewer than 3 dimensions. Not
    /// supported, in strict mode: strides of 0 and below. Bad parameter: dims or types differ,
    /// choices that there are none of. Not supported, in strict mode: other types than FLOAT,
    /// DOUBLE, HALF, BFLOAT16 and INT8, layouts of 3 and 6 to 8 dimensions that do not fold. Not
    /// supported: NCHW_VECT_C. Bad parameter: y repeats an address through stride 0.
    pub fn forward(
        choices: Choices, [x, y]: [&TensorDescriptor; 2], scaling: Scaling, mode: Mode,
    ) -> Result<Self> {
        let [x, y] = [("xDesc", x), ("yDesc", y)].map(|(name, tensor)| Named { name, tensor });
        agree::check_layer_rank(&[x, y], mode)?;
        if mode.is_strict() {
            agree::strict_strides(&[x, y])?;
        }
        agree::check_alike(x, y)?;
        let (algorithm, groups) = (choices.algorithm?, choices.mode?);
        strict::SOFTMAX.check(&[y], mode)?;
        if mode.is_strict() {
            agree::strict_folding(&[x, y])?;
        }
        let function = match algorithm {
            SoftmaxAlgorithm::Fast | SoftmaxAlgorithm::Accurate => RowFunction::Softmax,
            SoftmaxAlgorithm::Log => RowFunction::LogSoftmax,
        };
        Self::new([("y", y), ("x", x), ("x", x)], function, groups, scaling)
    }

    /// Plans `cudnnSoftmaxBackward`.
    ///
    /// # Errors
    /// In this order. Bad parameter: ranks differ, in strict mode fewer than 3 dimensions. Not
    /// supported, in strict mode: strides of 0 and below. Bad parameter: dims or types differ, in
    /// strict mode strides of y and dy, choices that there are none of. Not supported, in strict
    /// mode: other types than FLOAT, DOUBLE, HALF and BFLOAT16, layouts of 3 and 6 to 8 dimensions
    /// that do not fold. Not supported: NCHW_VECT_C. Bad parameter: dx repeats an address through
    /// stride 0.
    pub fn backward(
        choices: Choices, [y, dy, dx]: [&TensorDescriptor; 3], scaling: Scaling, mode: Mode,
    ) -> Result<Self> {
        let [y, dy, dx] =
            [("yDesc", y), ("dyDesc", dy), ("dxDesc", dx)].map(|(name, tensor)| Named { name, tensor });
        agree::check_layer_rank(&[y, dy, dx], mode)?;
        if mode.is_strict() {
            agree::strict_strides(&[y, dy, dx])?;
        }
        agree::check_alike(dy, y)?;
        if mode.is_strict() && dy.tensor.strides() != y.tensor.strides() {
            return Err(Error::mismatch("strict mode: yDesc and dyDesc must have the same strides"));
        }
        agree::check_alike(dx, y)?;
        let (algorithm, groups) = (choices.algorithm?, choices.mode?);
        strict::SOFTMAX_GRADIENT.check(&[dx], mode)?;
        if mode.is_strict() {
            agree::strict_folding(&[y, dy, dx])?;
        }
        let function = match algorithm {
            SoftmaxAlgorithm::Fast | SoftmaxAlgorithm::Accurate => RowFunction::SoftmaxGradient,
            SoftmaxAlgorithm::Log => RowFunction::LogSoftmaxGradient,
        };
        Self::new([("dx", dx), ("y", y), ("dy", dy)], function, groups, scaling)
    }

    fn new(
        named: [(&'static str, Named<'_>); 3], function: RowFunction, mode: SoftmaxMode, scaling: Scaling,
    ) -> Result<Self> {
        let dst = agree::destination(named[0].1)?;
        let mut layouts = [*dst; 3];
        let mut operands = [Operand::untouched("", Scalar::F32); 3];
        for (k, (name, tensor)) in named.into_iter().enumerate() {
            layouts[k] = *tensor.tensor.layout()?;
            if layouts[k].split.is_some() {
                let text =
                    format!("{} holds channels in blocks, over which no softmax is built", tensor.name);
                return Err(Error::unsupported(text));
            }
            let role = if k == 0 { Role::blended(scaling.beta) } else { Role::Read };
            let span = agree::byte_span(&layouts[k], tensor.tensor.data_type())?;
            operands[k] = Operand { name, role, scalar: tensor.tensor.data_type().scalar(), span };
        }
        let compute = Compute::of(&[operands[0].scalar]);
        let ordered = agree::repeats(named[0].1.tensor, dst);
        Ok(SoftmaxPlan { layouts, function, mode, compute, scaling, operands, ordered })
    }

    /// The loops over these dimensions, in canonical form unless the order is to be kept.
    fn loops(&self, mut of: impl FnMut(usize) -> bool) -> LoopNest<3> {
        let mut nest = LoopNest::new(&[], [0; 3]);
        let dims = &self.layouts[0].dims;
        for k in (0..dims.rank()).filter(|&k| of(k)) {
            let read = |place: usize| place <= self.function.arity();
            let strides =
                std::array::from_fn(|place| if read(place) { self.layouts[place].strides[k] } else { 0 });
            nest.push(Axis { extent: dims[k], strides });
        }
        if !self.ordered {
            nest.canonicalise();
        }
        nest
    }
}

impl Plan for SoftmaxPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands[..=self.function.arity()]
    }

    fn works_in_place(&self, read: usize, _: usize) -> bool {
        self.operands[read].scalar.size() == self.operands[0].scalar.size()
            && agree::same_place(&self.layouts[read], &self.layouts[0])
            && !self.ordered
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        Some(&self.layouts[operand])
    }

    fn is_ordered(&self) -> bool {
        self.ordered
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        let is_element = |k: usize| match self.mode {
            SoftmaxMode::Instance => k > 0,
            SoftmaxMode::Channel => k == 1,
        };
        let rows = Rows {
            groups: self.loops(|k| !is_element(k)),
            elements: self.loops(is_element),
            scalars: self.operands.map(|operand| operand.scalar),
            compute: self.compute,
            function: self.function,
            scaling: self.scaling,
        };
        // The last slot is not read unless there is a third operand.
        let slots = [0, 1, self.function.arity()];
        sink(Step::Rows(&rows), &slots)
    }

    fn is_one_step(&self) -> bool {
        true
    }
}

/// One line, as the log shows it.
impl fmt::Display for SoftmaxPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
