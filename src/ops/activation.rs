//! Activations and their gradients: one function of the table over one or two tensors.

use std::fmt;

pub use super::activation_function::Activation;
use super::activation_function::functions;
use super::agree::{self, Named};
use super::function::Function;
use super::map::{Factors, Map};
use super::plan::{self, Operand, Plan, Role, Step, StepSink};
use super::{Compute, Scaling, strict};
use crate::desc::{ActivationDescriptor, ActivationMode, TensorDescriptor};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{self, Dims, Layout};
use crate::mode::Mode;

/// Whether the gradient of a function is computed from its argument x, or from its result y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// From x.
    Argument,
    /// From y.
    Result,
}

/// What the gradient of an activation reads besides dy.
pub const fn saved(mode: ActivationMode) -> Saved {
    match mode {
        ActivationMode::Sigmoid | ActivationMode::Tanh | ActivationMode::Elu => Saved::Result,
        ActivationMode::Relu
        | ActivationMode::ClippedRelu
        | ActivationMode::Identity
        | ActivationMode::Swish => Saved::Argument,
    }
}

/// `dst = alpha * function(a, b) + beta * dst`, checked and ready to run on any core.
#[derive(Clone, Copy, Debug)]
pub struct ActivationPlan<'a> {
    /// The destination and what the function reads; of what it does not read, that of the
    /// destination.
    layouts: [&'a Layout; 3],
    scalars: [Scalar; 3],
    compute: Compute,
    function: Function,
    parameter: f64,
    factors: Factors,
    /// The data pointers of the call.
    operands: [Operand; 4],
    count: usize,
    /// Which operand of the call stands at each place of a step.
    slots: [usize; 3],
    ordered: bool,
}

impl<'a> ActivationPlan<'a> {
    /// Plans `cudnnActivationForward`. `in_place` tells whether x and y are one pointer.
    ///
    /// # Errors
    /// In this order. Bad parameter: ranks differ, in strict mode fewer than 3 dimensions; one
    /// pointer with different strides; dims or types differ; in strict mode IDENTITY. Not
    /// supported, in strict mode: strides of 0 and below, other types than FLOAT, DOUBLE, HALF,
    /// BFLOAT16 and INT8, layouts of 3 and 6 to 8 dimensions that do not fold. Bad parameter: y
    /// repeats an address through stride 0. Not supported: vectors of a type that has none.
    pub fn forward(
        activation: &ActivationDescriptor, [x, y]: [&'a TensorDescriptor; 2], scaling: Scaling,
        in_place: bool, mode: Mode,
    ) -> Result<Self> {
        let [x, y] = [("xDesc", x), ("yDesc", y)].map(|(name, tensor)| Named { name, tensor });
        agree::check_layer_rank(&[x, y], mode)?;
        if in_place {
            check_in_place(x, y)?;
        }
        agree::check_alike(x, y)?;
        if mode.is_strict() {
            strict_activation(activation.mode)?;
            agree::strict_strides(&[x, y])?;
            strict::ACTIVATION.check(&[y], mode)?;
            agree::strict_folding(&[x, y])?;
        }
        let (function, _, parameter) = functions(activation);
        Self::new(&[("y", y), ("x", x)], [0, 1, 1], function, parameter, scaling)
    }

    /// Plans `cudnnActivationBackward`; `saved` is the descriptor of x or of y, whichever the
    /// gradient [is computed from](saved), and `other` the other one, if it is a descriptor: strict
    /// mode looks at it where it folds dimensions. `in_place` tells whether dy and dx are one
    /// pointer.
    ///
    /// # Errors
    /// In this order. Bad parameter: ranks differ, in strict mode fewer than 3 dimensions; one
    /// pointer with different strides; in strict mode IDENTITY. Not supported: dims differ; in
    /// strict mode types that differ or are not FLOAT, DOUBLE, HALF or BFLOAT16, strides that
    /// differ or are 0 or below, layouts of 3 and 6 to 8 dimensions that do not fold. Bad
    /// parameter: dx repeats an address through stride 0. Not supported: vectors of a type that has
    /// none.
    pub fn backward(
        activation: &ActivationDescriptor, [saved, dy, dx]: [&'a TensorDescriptor; 3],
        other: Option<&TensorDescriptor>, scaling: Scaling, in_place: bool, mode: Mode,
    ) -> Result<Self> {
        let from = self::saved(activation.mode);
        let (name, descriptor, unused) = match from {
            Saved::Argument => ("x", "xDesc", "y"),
            Saved::Result => ("y", "yDesc", "x"),
        };
        let [saved, dy, dx] = [(descriptor, saved), ("dyDesc", dy), ("dxDesc", dx)]
            .map(|(name, tensor)| Named { name, tensor });
        agree::check_layer_rank(&[dx, dy, saved], mode)?;
        if in_place {
            check_in_place(dy, dx)?;
        }
        if mode.is_strict() {
            strict_activation(activation.mode)?;
        }
        for tensor in [dy, saved] {
            agree::check_same_dims(tensor, dx).map_err(|error| Error::unsupported(error.to_string()))?;
            if mode.is_strict() {
                agree::check_alike(tensor, dx).map_err(|error| Error::unsupported(error.to_string()))?;
                if tensor.tensor.strides() != dx.tensor.strides() {
                    return Err(Error::unsupported("strict mode: the strides of all tensors must be equal"));
                }
            }
        }
        if mode.is_strict() {
            strict::ACTIVATION_GRADIENT.check(&[dx], mode)?;
            agree::strict_strides(&[dx])?;
            agree::strict_folding(&[dx, dy, saved])?;
            if !(4..=5).contains(&dx.tensor.rank()) {
                let tensor = other.ok_or_else(|| Error::mismatch("strict mode looks at xDesc and yDesc"))?;
                agree::strict_folding(&[dx, Named { name: "the other descriptor", tensor }])?;
            }
        }
        let (_, function, parameter) = functions(activation);
        let order = match function {
            // The gradient of the identity reads dy alone.
            Function::First => [0, 1, 1],
            _ => [0, 2, 1],
        };
        let mut plan =
            Self::new(&[("dx", dx), ("dy", dy), (name, saved)], order, function, parameter, scaling)?;
        plan.operands[3] = Operand::untouched(unused, plan.scalars[0]);
        plan.count = 4;
        Ok(plan)
    }

    /// The operands of the call, destination first, and which of them stand at the places of a
    /// step.
    fn new(
        named: &[(&'static str, Named<'a>)], slots: [usize; 3], function: Function, parameter: f64,
        scaling: Scaling,
    ) -> Result<Self> {
        let dst = agree::destination(named[0].1)?;
        let mut operands = [Operand::untouched(named[0].0, Scalar::F32); 4];
        let (mut layouts, mut scalars) = ([dst; 3], [Scalar::F32; 3]);
        for (&(name, tensor), operand) in named.iter().zip(&mut operands) {
            *operand = Operand::untouched(name, tensor.tensor.data_type().scalar());
        }
        for (place, &slot) in slots.iter().enumerate() {
            let (_, tensor) = named[slot];
            scalars[place] = operands[slot].scalar;
            if place <= function.arity() {
                layouts[place] = agree::of_equal_dims(tensor, named[0].1, &dst.dims)?;
                operands[slot].span = agree::span(tensor.tensor)?;
            }
        }
        operands[0].role = Role::blended(scaling.beta);
        let compute = Compute::of(&scalars[..=function.arity()]);
        let factors = Factors { alpha: [scaling.alpha, 0.0], beta: scaling.beta };
        let ordered = agree::repeats(named[0].1.tensor, dst);
        let count = named.len();
        Ok(ActivationPlan {
            layouts,
            scalars,
            compute,
            function,
            parameter,
            factors,
            operands,
            count,
            slots,
            ordered,
        })
    }

    /// The place of an operand in a step, if it is read there.
    fn place(&self, operand: usize) -> Option<usize> {
        (0..=self.function.arity()).find(|&place| self.slots[place] == operand)
    }
}

impl Plan for ActivationPlan<'_> {
    fn operands(&self) -> &[Operand] {
        &self.operands[..self.count]
    }

    fn works_in_place(&self, read: usize, _: usize) -> bool {
        let Some(place) = self.place(read) else { return false };
        self.scalars[place].size() == self.scalars[0].size()
            && agree::same_place(self.layouts[place], self.layouts[0])
            && !self.ordered
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        self.place(operand).map(|place| self.layouts[place])
    }

    fn is_ordered(&self) -> bool {
        self.ordered
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        let mut outcome = Ok(());
        let mut layouts = self.layouts;
        let dst = layouts[0];
        let still = Layout { dims: dst.dims, strides: Dims::filled(dst.dims.rank(), 0), split: None };
        layouts[1 + self.function.arity()..].fill(&still);
        layout::nests(layouts, &mut |nest| {
            let ActivationPlan { scalars, compute, function, parameter, factors, .. } = *self;
            if !self.ordered {
                nest.canonicalise();
            }
            let map = Map { nest: *nest, scalars, compute, function, parameter, factors };
            if outcome.is_ok() {
                outcome = sink(Step::Map(&map), &self.slots);
            }
        });
        outcome?;
        let tail = super::fill::zero_tail(dst, self.scalars[0], self.ordered);
        tail.map_or(Ok(()), |tail| sink(Step::Scale(&tail), &[0]))
    }

    fn is_one_step(&self) -> bool {
        self.layouts.iter().all(|layout| layout.split.is_none())
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for ActivationPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}

/// Refuses one pointer with two sets of strides.
fn check_in_place(x: Named<'_>, y: Named<'_>) -> Result<()> {
    if x.tensor.strides() == y.tensor.strides() {
        return Ok(());
    }
    Err(Error::mismatch(format!("{} and {} are of one pointer, and have different strides", x.name, y.name)))
}

fn strict_activation(activation: ActivationMode) -> Result<()> {
    match activation {
        ActivationMode::Identity => Err(Error::mismatch("strict mode: CUDNN_ACTIVATION_IDENTITY")),
        _ => Ok(()),
    }
}
