//! The forward pass: with statistics that are given, or with those of the batch.

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
use crate::ops::normalise::{Normalise, Statistics};
use crate::ops::plan::{self, Operand, Plan, Role, Step, StepSink};
use crate::ops::{Compute, Scale, Scaling, fill};

/// Where the statistics of a forward pass come from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Statistics that are given.
    Given,
    /// The statistics of the batch.
    Batch {
        /// The weight of new statistics in running averages.
        factor: f64,
        /// Whether there is a running mean and a running variance.
        running: [bool; 2],
        /// Whether there is room for mean and inverse deviation.
        saved: [bool; 2],
    },
}

/// The arguments of a forward pass.
#[derive(Clone, Copy)]
pub struct Forward<'a> {
    /// The groups.
    pub mode: BatchNormMode,
    /// What is normalised.
    pub x: &'a TensorDescriptor,
    /// What is written.
    pub y: &'a TensorDescriptor,
    /// What is added, if anything.
    pub z: Option<&'a TensorDescriptor>,
    /// Scale, bias and statistics.
    pub parameters: Parameters<'a>,
    /// Mean and deviation.
    pub source: Source,
    /// What is added to a variance.
    pub epsilon: f64,
    /// Alpha and beta.
    pub scaling: Scaling,
    /// What follows.
    pub fused: Option<Fused>,
    /// Bytes of the reserve space.
    pub reserve_size: usize,
    /// Bytes of workspace, at a multiple of 16; none is needed.
    pub workspace_size: usize,
    /// The C parameters of saved mean, saved inverse, running or given mean and variance, scale,
    /// bias.
    pub names: [&'static str; 6],
}

/// A forward pass, checked and ready to run on any core. Operands: y, saved mean, saved inverse
/// deviation, mean, variance, reserve space, x, z, scale, bias, workspace.
#[derive(Clone, Debug)]
pub struct ForwardPlan {
    /// y, x, z, reserve space, parameters.
    layouts: [Layout; 5],
    reduced: [bool; MAX_RANK],
    operands: [Operand; 11],
    compute: Compute,
    statistics: Statistics,
    epsilon: f64,
    scaling: Scaling,
    adds: bool,
    activation: Option<Activation>,
    slopes: Option<Scalar>,
    ordered: bool,
}

/// The operand that is y, and those that are read in its place.
const Y: usize = 0;
const RESERVE: usize = 5;
const X: usize = 6;
const Z: usize = 7;
const WORKSPACE: usize = 10;

impl ForwardPlan {
    /// Plans `cudnnBatchNormalizationForwardInference`, `-ForwardTraining` and
    /// `-ForwardTrainingEx`.
    ///
    /// # Errors
    /// In this order. In strict mode, what the original does not fuse: not supported. Not
    /// supported: the type of x, or BFLOAT16 with parameters that are not FLOAT. Bad parameter: one
    /// of the saved pair alone; x, y and parameters that do not agree; a negative epsilon; a z that
    /// does not agree. Not supported in strict mode: other types and activations in fused passes,
    /// statistics that are not saved then, more than 65535 images at inference. Bad parameter: a
    /// destination that repeats an address through stride 0; a reserve space that is too small.
    pub fn new(call: Forward<'_>, mode: Mode) -> Result<Self> {
        let Forward { x, y, z, parameters, source, fused, names, .. } = call;
        let (named_y, named_z) =
            (Named { name: "yDesc", tensor: y }, z.map(|tensor| Named { name: "zDesc", tensor }));
        agree::check_set(x)?;
        let read = agree::as_read(call.mode, x, parameters.tensor, mode)?;
        let parameters = Parameters { tensor: &read, ..parameters };
        if fused.is_some() && mode.is_strict() {
            agree::strict_fused(call.mode, &[Named { name: "xDesc", tensor: x }, named_y])?;
        }
        let training = matches!(source, Source::Batch { .. });
        agree::check_type(x, training, mode)?;
        if !training {
            agree::check_bfloat16(x, parameters)?;
        }
        if let Source::Batch { saved, .. } = source {
            agree::check_pair([names[0], names[1]], saved)?;
        }
        agree::check(call.mode, x, named_y, parameters, mode)?;
        if training && mode.is_strict() {
            agree::strict_parameters(call.mode, parameters)?;
        }
        agree::check_epsilon(call.epsilon)?;
        if let Some(z) = named_z {
            agree::check(call.mode, x, z, parameters, mode)?;
        }
        if mode.is_strict() {
            strict(&call)?;
        }
        let activation = fused.and_then(|fused| Activation::of(&fused.activation));
        let slopes = fused.filter(|_| training).and_then(|fused| fused.slopes(x.data_type()));
        let (to, from) = (*tensors::destination(named_y)?, *x.layout()?);
        let added = z.map_or(Ok(nowhere(&from.dims)), |z| z.layout().copied())?;
        let kept_slopes = slopes.map_or(nowhere(&from.dims), |_| reserve_layout(&from));
        let data = x.data_type().scalar();
        let number = parameter_type(x.data_type()).scalar();
        let group = tensors::byte_span(parameters.tensor.layout()?, parameters.tensor.data_type())?;
        let mut slope_bytes = None;
        if let Some(scalar) = slopes {
            let needed = super::reserve_size(x, fused.as_ref())?;
            if call.reserve_size < needed {
                let rule = format!("the slopes of {} in {} take {needed} bytes", x.dims(), scalar.name());
                return Err(Error::argument("reserveSpaceSizeInBytes", call.reserve_size as i64, rule));
            }
            slope_bytes = Some((0, needed as i64));
        }
        let (statistics, running, saves) = match source {
            Source::Given => (Statistics::Given, [true; 2], false),
            Source::Batch { factor, running, saved } => {
                (Statistics::Batch { factor, running, saves: saved[0] }, running, saved[0])
            }
        };
        let average = match source {
            Source::Given => Role::Read,
            Source::Batch { factor: 1.0, .. } => Role::Write,
            Source::Batch { .. } => Role::Update,
        };
        let span = |layout: &Layout| tensors::byte_span(layout, x.data_type());
        let at = |there: bool| there.then_some(group);
        let role = Role::blended(call.scaling.beta);
        Ok(ForwardPlan {
            operands: [
                optional("y", role, data, Some(span(&to)?)),
                optional(names[0], Role::Write, number, at(saves)),
                optional(names[1], Role::Write, number, at(saves)),
                optional(names[2], average, number, at(running[0])),
                optional(names[3], average, number, at(running[1])),
                optional("reserveSpace", Role::Write, slopes.unwrap_or(Scalar::U8), slope_bytes),
                optional("x", Role::Read, data, Some(span(&from)?)),
                optional("z", Role::Read, data, if z.is_some() { Some(span(&added)?) } else { None }),
                optional(names[4], Role::Read, number, Some(group)),
                optional(names[5], Role::Read, number, Some(group)),
                workspace(call.mode, x, call.workspace_size),
            ],
            layouts: [to, from, added, kept_slopes, *parameters.tensor.layout()?],
            reduced: reduced(call.mode, x.rank()),
            compute: if number == Scalar::F64 { Compute::Double } else { Compute::Single },
            statistics,
            epsilon: call.epsilon,
            scaling: call.scaling,
            adds: z.is_some(),
            activation,
            slopes,
            ordered: tensors::repeats(y, &to),
        })
    }

    fn tail(&self) -> Option<Scale> {
        fill::zero_tail(&self.layouts[0], self.operands[Y].scalar, self.ordered)
    }
}

/// What the original does not do (observed on 9.27.0).
fn strict(call: &Forward<'_>) -> Result<()> {
    if let Some(fused) = &call.fused {
        agree::strict_kernel(call.x, fused, true, true)?;
        if let Some(tensor) = call.z {
            agree::strict_layout(Named { name: "zDesc", tensor })?;
        }
        if let Source::Batch { saved: [false, _], .. } = call.source {
            return Err(Error::unsupported("strict mode: fused passes save mean and inverse variance"));
        }
    }
    let images = call.x.dims()[0];
    if matches!(call.source, Source::Given) && images > 65535 {
        return Err(Error::unsupported(format!("strict mode: {images} images, more than 65535")));
    }
    Ok(())
}

impl Plan for ForwardPlan {
    fn operands(&self) -> &[Operand] {
        // The workspace is the last, if there is one.
        let count = WORKSPACE + usize::from(self.operands[WORKSPACE].is_touched());
        &self.operands[..count]
    }

    fn works_in_place(&self, read: usize, write: usize) -> bool {
        let at = match read {
            X => 1,
            Z => 2,
            _ => return false,
        };
        write == Y && !self.ordered && tensors::same_place(&self.layouts[at], &self.layouts[0])
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        match operand {
            Y => Some(&self.layouts[0]),
            X => Some(&self.layouts[1]),
            Z if self.adds => Some(&self.layouts[2]),
            RESERVE if self.slopes.is_some() => Some(&self.layouts[3]),
            _ => None,
        }
    }

    fn is_ordered(&self) -> bool {
        self.ordered
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        const SLOTS: [usize; 11] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        let groups = self.layouts.map(|layout| kept(&layout, &self.reduced));
        let members = self.layouts.map(|layout| inside(&layout, &self.reduced));
        let mut outcome = Ok(());
        let [to, from, added, slopes, _] = &members;
        layout::nests([to, from, added, slopes], &mut |members| {
            let [to, from, added, slopes, parameters] = &groups;
            members.canonicalise();
            layout::nests([to, from, added, slopes, parameters], &mut |groups| {
                groups.canonicalise();
                let step = Normalise {
                    groups: *groups,
                    members: *members,
                    data: self.operands[Y].scalar,
                    compute: self.compute,
                    statistics: self.statistics,
                    epsilon: self.epsilon,
                    scaling: self.scaling,
                    adds: self.adds,
                    activation: self.activation,
                    slopes: self.slopes,
                    workspace: self.operands[WORKSPACE].span.1 as usize,
                };
                if outcome.is_ok() {
                    outcome = sink(Step::Normalise(&step), &SLOTS[..self.operands().len()]);
                }
            });
        });
        outcome?;
        self.tail().map_or(Ok(()), |tail| sink(Step::Scale(&tail), &[Y]))
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for ForwardPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
