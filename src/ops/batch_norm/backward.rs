//! The backward pass: gradients of x, of what was added, of scale and of bias.

use std::fmt;

use super::agree::{self, Fused, Parameters};
use super::{inside, kept, nowhere, optional, parameter_type, reduced, reserve_layout, workspace};
use crate::desc::TensorDescriptor;
use crate::desc::normalization::BatchNormMode;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{self, Layout, MAX_RANK};
use crate::mode::Mode;
use crate::ops::activation::Activation;
use crate::ops::agree::{self as tensors, Named};
use crate::ops::normalise::{NormaliseBackward, Slope};
use crate::ops::plan::{self, Operand, Plan, Role, Step, StepSink};
use crate::ops::{Compute, Scaling, fill};

/// The arguments of a backward pass.
#[derive(Clone, Copy)]
pub struct Backward<'a> {
    /// The groups.
    pub mode: BatchNormMode,
    /// What was normalised.
    pub x: &'a TensorDescriptor,
    /// The gradient that comes in.
    pub dy: &'a TensorDescriptor,
    /// The gradient of x.
    pub dx: &'a TensorDescriptor,
    /// The gradient of what was added, if anything was.
    pub dz: Option<&'a TensorDescriptor>,
    /// Scale and bias, their gradients, and statistics.
    pub parameters: Parameters<'a>,
    /// Whether mean and inverse deviation were saved.
    pub saved: [bool; 2],
    /// Whether there is a bias.
    pub bias: bool,
    /// What is added to a variance.
    pub epsilon: f64,
    /// Alpha and beta of dx.
    pub scaling: Scaling,
    /// Alpha and beta of the gradients of scale and bias.
    pub parameter_scaling: Scaling,
    /// What followed.
    pub fused: Option<Fused>,
    /// Bytes of the reserve space.
    pub reserve_size: usize,
    /// Bytes of workspace, at a multiple of 16; none is needed.
    pub workspace_size: usize,
    /// The C parameters of the gradients of scale and bias, of scale, bias, saved mean and saved
    /// inverse.
    pub names: [&'static str; 6],
}

/// A backward pass, checked and ready to run on any core. Operands: dx, the gradients of scale and
/// bias, dz, x, dy, scale, bias, saved mean, saved inverse deviation, reserve space, workspace.
#[derive(Clone, Debug)]
pub struct BackwardPlan {
    /// dx, x, dy, dz, reserve space, parameters.
    layouts: [Layout; 6],
    reduced: [bool; MAX_RANK],
    operands: [Operand; 12],
    compute: Compute,
    saved: bool,
    epsilon: f64,
    scaling: Scaling,
    parameter_scaling: Scaling,
    slope: Slope,
    splits: bool,
    ordered: bool,
}

const DX: usize = 0;
const DZ: usize = 3;
const X: usize = 4;
const DY: usize = 5;
const WORKSPACE: usize = 11;

impl BackwardPlan {
    /// Plans `cudnnBatchNormalizationBackward` and `-BackwardEx`.
    ///
    /// # Errors
    /// In this order. In strict mode, what the original does not fuse: not supported. Not
    /// supported: the type of x. Bad parameter: one of the saved pair alone. Not supported:
    /// BFLOAT16 with parameters that are not FLOAT. Bad parameter: x, dx, dy and parameters that do
    /// not agree; a negative epsilon; a dz that does not agree. Not supported in strict mode: other
    /// types and activations in fused passes. Bad parameter: a destination that repeats an address
    /// through stride 0; an activation whose slope needs the bias that is not there; a reserve
    /// space that is too small.
    pub fn new(call: Backward<'_>, mode: Mode) -> Result<Self> {
        let Backward { x, dy, dx, dz, parameters, fused, names, .. } = call;
        let named = |name, tensor| Named { name, tensor };
        let (named_dx, named_dy) = (named("dxDesc", dx), named("dyDesc", dy));
        agree::check_set(x)?;
        let read = agree::as_read(call.mode, x, parameters.tensor, mode)?;
        let parameters = Parameters { tensor: &read, ..parameters };
        if fused.is_some() && mode.is_strict() {
            agree::strict_fused(call.mode, &[named("xDesc", x), named_dx, named_dy])?;
        }
        agree::check_type(x, true, mode)?;
        agree::check_pair([names[4], names[5]], call.saved)?;
        agree::check_bfloat16(x, parameters)?;
        agree::check(call.mode, x, named_dx, parameters, mode)?;
        agree::check(call.mode, x, named_dy, parameters, mode)?;
        if mode.is_strict() {
            agree::strict_parameters(call.mode, parameters)?;
        }
        agree::check_epsilon(call.epsilon)?;
        if let Some(dz) = dz {
            agree::check(call.mode, x, named("dzDesc", dz), parameters, mode)?;
        }
        if let (Some(fused), true) = (&fused, mode.is_strict()) {
            agree::strict_kernel(x, fused, false, true)?;
            if let Some(dz) = dz {
                agree::strict_layout(named("dzDesc", dz))?;
            }
            if !call.saved[0] {
                return Err(Error::unsupported(
                    "strict mode: fused passes take saved mean and inverse variance",
                ));
            }
        }
        let to = *tensors::destination(named_dx)?;
        let (from, gradient) = (*x.layout()?, *dy.layout()?);
        let split = match dz {
            Some(dz) => *tensors::destination(named("dzDesc", dz))?,
            None => nowhere(&from.dims),
        };
        let slope = match fused.map(|fused| (fused.slopes(x.data_type()), Activation::of(&fused.activation)))
        {
            None | Some((_, None)) => Slope::One,
            Some((Some(scalar), _)) => Slope::Kept(scalar),
            Some((None, Some(_))) if !call.bias => {
                return Err(Error::Null { argument: names[3] });
            }
            Some((None, Some(activation))) => Slope::Of(activation),
        };
        let data = x.data_type().scalar();
        let number = parameter_type(x.data_type()).scalar();
        let group = tensors::byte_span(parameters.tensor.layout()?, parameters.tensor.data_type())?;
        let (mut kept_slopes, mut slope_bytes) = (nowhere(&from.dims), None);
        if let Slope::Kept(scalar) = slope {
            let needed = super::reserve_size(x, fused.as_ref())?;
            if call.reserve_size < needed {
                let rule = format!("the slopes of {} in {} take {needed} bytes", x.dims(), scalar.name());
                return Err(Error::argument("reserveSpaceSizeInBytes", call.reserve_size as i64, rule));
            }
            (kept_slopes, slope_bytes) = (reserve_layout(&from), Some((0, needed as i64)));
        }
        let span = |layout: &Layout| tensors::byte_span(layout, x.data_type());
        let at = |there: bool| there.then_some(group);
        let blended = Role::blended(call.parameter_scaling.beta);
        let scalar = match slope {
            Slope::Kept(scalar) => scalar,
            _ => Scalar::U8,
        };
        Ok(BackwardPlan {
            operands: [
                optional("dx", Role::blended(call.scaling.beta), data, Some(span(&to)?)),
                optional(names[0], blended, number, Some(group)),
                optional(names[1], blended, number, Some(group)),
                optional("dz", Role::Write, data, if dz.is_some() { Some(span(&split)?) } else { None }),
                optional("x", Role::Read, data, Some(span(&from)?)),
                optional("dy", Role::Read, data, Some(span(&gradient)?)),
                optional(names[2], Role::Read, number, Some(group)),
                optional(names[3], Role::Read, number, at(matches!(slope, Slope::Of(_)))),
                optional(names[4], Role::Read, number, at(call.saved[0])),
                optional(names[5], Role::Read, number, at(call.saved[0])),
                optional("reserveSpace", Role::Read, scalar, slope_bytes),
                workspace(call.mode, x, call.workspace_size),
            ],
            layouts: [to, from, gradient, split, kept_slopes, *parameters.tensor.layout()?],
            reduced: reduced(call.mode, x.rank()),
            compute: if number == Scalar::F64 { Compute::Double } else { Compute::Single },
            saved: call.saved[0],
            epsilon: call.epsilon,
            scaling: call.scaling,
            parameter_scaling: call.parameter_scaling,
            slope,
            splits: dz.is_some(),
            ordered: tensors::repeats(dx, &to) || dz.is_some_and(|dz| tensors::repeats(dz, &split)),
        })
    }
}

impl Plan for BackwardPlan {
    fn operands(&self) -> &[Operand] {
        // The workspace is the last, if there is one.
        let count = WORKSPACE + usize::from(self.operands[WORKSPACE].is_touched());
        &self.operands[..count]
    }

    fn works_in_place(&self, read: usize, write: usize) -> bool {
        let place = |operand: usize| match operand {
            DX => Some(0),
            X => Some(1),
            DY => Some(2),
            DZ if self.splits => Some(3),
            _ => None,
        };
        let reads = read == X || read == DY;
        match (place(read), place(write)) {
            (Some(from), Some(to)) => {
                reads && !self.ordered && tensors::same_place(&self.layouts[from], &self.layouts[to])
            }
            _ => false,
        }
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        match operand {
            DX => Some(&self.layouts[0]),
            X => Some(&self.layouts[1]),
            DY => Some(&self.layouts[2]),
            DZ if self.splits => Some(&self.layouts[3]),
            _ => None,
        }
    }

    fn is_ordered(&self) -> bool {
        self.ordered
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        const SLOTS: [usize; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
        let groups = self.layouts.map(|layout| kept(&layout, &self.reduced));
        let members = self.layouts.map(|layout| inside(&layout, &self.reduced));
        let mut outcome = Ok(());
        let [to, from, gradient, split, slopes, _] = &members;
        layout::nests([to, from, gradient, split, slopes], &mut |members| {
            let [to, from, gradient, split, slopes, parameters] = &groups;
            members.canonicalise();
            layout::nests([to, from, gradient, split, slopes, parameters], &mut |groups| {
                groups.canonicalise();
                let step = NormaliseBackward {
                    groups: *groups,
                    members: *members,
                    data: self.operands[DX].scalar,
                    compute: self.compute,
                    saved: self.saved,
                    epsilon: self.epsilon,
                    scaling: self.scaling,
                    parameter_scaling: self.parameter_scaling,
                    slope: self.slope,
                    splits: self.splits,
                    workspace: self.operands[WORKSPACE].span.1 as usize,
                };
                if outcome.is_ok() {
                    outcome = sink(Step::NormaliseBackward(&step), &SLOTS[..self.operands().len()]);
                }
            });
        });
        outcome?;
        for (operand, layout) in [(DX, &self.layouts[0]), (DZ, &self.layouts[3])] {
            let tail = fill::zero_tail(layout, self.operands[operand].scalar, self.ordered);
            if let Some(tail) = tail.filter(|_| self.operands[operand].is_touched()) {
                sink(Step::Scale(&tail), &[operand])?;
            }
        }
        Ok(())
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for BackwardPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
