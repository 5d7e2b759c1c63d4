//! CTC loss: from a batch of sequences and its labels to the forward-backward algorithm over the
//! alignments.
//!
//! Graves, Fernandez, Gomez, Schmidhuber: Connectionist temporal classification, 2006. The step is
//! [`Ctc`]; what a call is checked for, and how its workspace is divided, is here.

mod step;

use std::fmt;

use super::agree;
use super::plan::{self, Operand, Plan, Role, Step, StepSink};
use super::{Compute, Words};
use crate::desc::{CtcLossDescriptor, TensorDescriptor};
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::mode::Mode;

pub use step::{Ctc, Gradients, LANES, Space};

/// The longest label that the original's deterministic algorithm takes.
const LONGEST_DETERMINISTIC: i64 = 255;

/// What the calls of a CTC loss say about its tensors.
#[derive(Clone, Copy)]
pub struct Tensors<'a> {
    /// The descriptor of the loss.
    pub loss: &'a CtcLossDescriptor,
    /// `probsDesc`.
    pub probs: &'a TensorDescriptor,
    /// `gradientsDesc`, where there is one.
    pub gradients: Option<&'a TensorDescriptor>,
    /// Whether gradients are wanted, and not only costs.
    pub has_gradients: bool,
    /// `algo`, any number; 0 is the deterministic one.
    pub algorithm: i32,
}

/// Lengths of labels and inputs in arrays of the host, an entry for each sample.
#[derive(Clone, Copy)]
pub struct Lengths<'a> {
    /// `labelLengths`.
    pub labels: &'a [i32],
    /// `inputLengths`.
    pub inputs: &'a [i32],
}

impl Tensors<'_> {
    /// Samples of the batch, for who has to read their lengths.
    ///
    /// # Errors
    /// Bad parameter: `probs` is not `[T, N, A]`, or the gradients have other dims.
    pub fn samples(&self) -> Result<usize> {
        Ok(self.dims()?[1] as usize)
    }

    fn dims(&self) -> Result<[i64; 3]> {
        let dims = self.probs.dims();
        if !self.probs.is_set() || self.probs.rank() != 3 {
            let text = format!("probsDesc has dims {dims}: [time, batch, alphabet] are expected");
            return Err(Error::mismatch(text));
        }
        if let Some(gradients) = self.gradients
            && (!gradients.is_set() || gradients.dims() != dims)
        {
            return Err(Error::mismatch(format!(
                "gradientsDesc has dims {} and probsDesc {dims}: they must be equal",
                gradients.dims()
            )));
        }
        Ok([dims[0], dims[1], dims[2]])
    }

    /// The step of labels of at most `longest` classes and inputs of at most `frames` rows.
    ///
    /// # Errors
    /// In this order. Bad parameter: dims. Not supported: types; a label that is too long for the
    /// algorithm, in strict mode; a length below 0, unless on the host; more elements than 64 bits
    /// count bytes of.
    fn step(&self, longest: i64, frames: Option<i64>, mode: Mode) -> Result<Ctc> {
        let [rows, samples, classes] = self.dims()?;
        let (data, compute) = (self.probs.data_type(), self.loss.compute_type);
        if !matches!(data, DataType::Float | DataType::Double) || data != compute {
            return Err(Error::unsupported(format!(
                "probsDesc is {data:?} and the loss is computed in {compute:?}: both must be FLOAT, or both DOUBLE"
            )));
        }
        if longest < 0 {
            let rule = format!("maxLabelLength of ctcLossDesc is {longest}: a length from 0 on is expected");
            return Err(Error::unsupported(rule));
        }
        if mode.is_strict() && self.algorithm == 0 && longest > LONGEST_DETERMINISTIC {
            return Err(Error::unsupported(format!(
                "strict mode: the deterministic algorithm takes labels of {LONGEST_DETERMINISTIC} classes at most, \
                 not {longest}"
            )));
        }
        let strides = |tensor: &TensorDescriptor| {
            let strides = tensor.strides();
            [strides[0], strides[1], strides[2]]
        };
        let step = Ctc {
            compute: if data == DataType::Double { Compute::Double } else { Compute::Single },
            rows,
            frames: frames.unwrap_or(rows),
            samples,
            classes,
            longest,
            softmax: self.loss.normalization == 1,
            skips: self.loss.gradient == 1,
            on_host: frames.is_some(),
            probs: strides(self.probs),
            gradients: self.wanted().map(|gradients| Gradients {
                scalar: gradients.data_type().scalar(),
                strides: strides(gradients),
            }),
        };
        step.space().ok_or_else(|| {
            Error::unsupported(format!(
                "labels of {longest} classes at {rows}x{samples} rows: the workspace is larger than 64 bits count"
            ))
        })?;
        Ok(step)
    }

    /// The descriptor of gradients that are to be computed.
    fn wanted(&self) -> Option<&TensorDescriptor> {
        self.gradients.filter(|_| self.has_gradients)
    }

    fn with_lengths(&self, lengths: Lengths<'_>, mode: Mode) -> Result<Ctc> {
        let longest =
            |lengths: &[i32]| lengths.iter().copied().max().map_or(0, |most| i64::from(most.max(0)));
        self.step(longest(lengths.labels), Some(longest(lengths.inputs)), mode)
    }

    fn with_longest(&self, mode: Mode) -> Result<Ctc> {
        self.step(i64::from(self.loss.max_label_length), None, mode)
    }

    /// What `cudnnGetCTCLossWorkspaceSize` answers.
    ///
    /// # Errors
    /// Bad parameter for dims; else not supported.
    pub fn size(&self, lengths: Lengths<'_>, mode: Mode) -> Result<usize> {
        Ok(self.with_lengths(lengths, mode)?.workspace_size())
    }

    /// What `cudnnGetCTCLossWorkspaceSize_v8` answers.
    ///
    /// # Errors
    /// As [`size`](Self::size).
    pub fn size_of_longest(&self, mode: Mode) -> Result<usize> {
        Ok(self.with_longest(mode)?.workspace_size())
    }
}

/// A CTC loss, checked and ready to run on any core.
#[derive(Clone, Debug)]
pub struct CtcPlan {
    step: Ctc,
    /// Lengths of labels and inputs, and labels, where the call brings them along.
    words: Words,
    operands: Vec<Operand>,
    /// Gradients and probs; the same where there are no gradients.
    layouts: [Layout; 2],
}

impl CtcPlan {
    /// Whether descriptors and lengths of the host fit each other, so that the lengths tell how
    /// many labels there are.
    ///
    /// # Errors
    /// Bad parameter, in this order: whatever the size query refuses; an input longer than the
    /// tensors; a label length below 0; a workspace that is too small for them.
    pub fn check(
        tensors: Tensors<'_>, lengths: Lengths<'_>, workspace_size: usize, mode: Mode,
    ) -> Result<()> {
        Self::host_step(tensors, lengths, workspace_size, mode).map(|_| ())
    }

    fn host_step(
        tensors: Tensors<'_>, lengths: Lengths<'_>, workspace_size: usize, mode: Mode,
    ) -> Result<Ctc> {
        let step = tensors.with_lengths(lengths, mode).map_err(as_bad_parameter)?;
        for (n, &length) in lengths.inputs.iter().enumerate() {
            if i64::from(length) > step.rows {
                let rule = format!("probs has {} rows of time", step.rows);
                return Err(Error::element("hostInputLengths", n, length.into(), rule));
            }
        }
        for (n, &length) in lengths.labels.iter().enumerate() {
            if length < 0 {
                let rule = "a length from 0 on is expected";
                return Err(Error::element("hostLabelLengths", n, length.into(), rule));
            }
        }
        check_workspace(&step, workspace_size)?;
        Ok(step)
    }

    /// Plans `cudnnCTCLoss`, with labels and lengths of the host. Operands: costs, gradients,
    /// workspace, probs. With `gradients` of the tensors left out, the operand is not touched.
    ///
    /// # Errors
    /// Bad parameter, in this order: whatever [`check`](CtcPlan::check) refuses; a class outside
    /// 1..A-1; gradients that repeat an address. Host allocation.
    pub fn with_host_labels(
        tensors: Tensors<'_>, labels: &[i32], lengths: Lengths<'_>, workspace_size: usize, mode: Mode,
    ) -> Result<Self> {
        let step = Self::host_step(tensors, lengths, workspace_size, mode)?;
        let classes = step.classes;
        for (k, &class) in labels.iter().enumerate() {
            if !(1..classes).contains(&i64::from(class)) {
                let rule = format!("classes are 1 to {}, and 0 is the blank", classes - 1);
                return Err(Error::element("hostLabels", k, class.into(), rule));
            }
        }
        let mut plan = CtcPlan::new(tensors, step, workspace_size)?;
        let count = labels.len() + lengths.labels.len() + lengths.inputs.len();
        plan.words.0.try_reserve_exact(count).map_err(|_| Error::HostAllocation { bytes: 4 * count })?;
        for part in [lengths.labels, lengths.inputs, labels] {
            plan.words.0.extend(part.iter().map(|&word| word as u32));
        }
        Ok(plan)
    }

    /// Plans `cudnnCTCLoss_v8`, with labels and lengths in the core's memory. Operands: costs,
    /// gradients, workspace, probs, labels, labelLengths, inputLengths.
    ///
    /// # Errors
    /// Bad parameter, in this order: whatever the size query refuses; a workspace that is too
    /// small; gradients that repeat an address.
    pub fn with_device_labels(tensors: Tensors<'_>, workspace_size: usize, mode: Mode) -> Result<Self> {
        let step = tensors.with_longest(mode).map_err(as_bad_parameter)?;
        let mut plan = CtcPlan::new(tensors, step, workspace_size)?;
        let integers =
            |name, count: i64| Operand { name, role: Role::Read, scalar: Scalar::I32, span: (0, 4 * count) };
        // How many labels there are is known to the device alone: the longest ones that may be are
        // not the ones that are.
        plan.operands.extend([
            integers("labels", step.longest.min(1)),
            integers("labelLengths", step.samples),
            integers("inputLengths", step.samples),
        ]);
        Ok(plan)
    }

    fn new(tensors: Tensors<'_>, step: Ctc, workspace_size: usize) -> Result<Self> {
        let needed = check_workspace(&step, workspace_size)?;
        let scalar = step.compute.scalar();
        let gradients = match tensors.wanted() {
            None => Operand { role: Role::Write, ..Operand::untouched("gradients", scalar) },
            Some(tensor) => {
                let layout = tensor.layout()?;
                if layout.split.is_some() {
                    return Err(Error::unsupported("gradientsDesc has its channels in blocks"));
                }
                agree::check_destination(layout, "gradientsDesc")?;
                if agree::repeats(tensor, layout) {
                    return Err(Error::mismatch("gradientsDesc: elements of a destination share an address"));
                }
                let (name, scalar) = ("gradients", tensor.data_type().scalar());
                Operand { name, role: Role::Write, scalar, span: agree::span(tensor)? }
            }
        };
        let costs = (0, step.samples * scalar.size() as i64);
        let probs = agree::span(tensors.probs)?;
        let workspace = (0, needed as i64);
        let operand = |name, role, span| Operand { name, role, scalar, span };
        Ok(CtcPlan {
            step,
            words: Words::default(),
            operands: vec![
                operand("costs", Role::Write, costs),
                gradients,
                operand("workspace", Role::Scratch, workspace),
                operand("probs", Role::Read, probs),
            ],
            layouts: [*tensors.wanted().unwrap_or(tensors.probs).layout()?, *tensors.probs.layout()?],
        })
    }
}

/// The bytes of workspace of a step; refuses fewer.
fn check_workspace(step: &Ctc, given: usize) -> Result<usize> {
    let needed = step.workspace_size();
    if given < needed {
        let rule = format!("the loss needs {needed} bytes of workspace");
        return Err(Error::argument("workSpaceSizeInBytes", given as i64, rule));
    }
    Ok(needed)
}

/// Every refusal of a size query is a bad parameter of the call that computes (observed on 9.27.0).
fn as_bad_parameter(error: Error) -> Error {
    match error {
        Error::Unsupported(text) => Error::Mismatch(text),
        other => other,
    }
}

impl Plan for CtcPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    /// A gradient is computed from the row of its own place, which nothing reads after it.
    fn works_in_place(&self, read: usize, write: usize) -> bool {
        let [gradients, probs] = &self.layouts;
        (read, write) == (3, 1)
            && self.operands[1].scalar == self.operands[3].scalar
            && agree::same_place(probs, gradients)
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        match operand {
            1 if self.step.gradients.is_some() => Some(&self.layouts[0]),
            3 => Some(&self.layouts[1]),
            _ => None,
        }
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        if self.step.on_host {
            sink(Step::Words(&self.words), &[2])?;
            return sink(Step::Ctc(&self.step), &[0, 1, 2, 3, 2, 2, 2]);
        }
        sink(Step::Ctc(&self.step), &[0, 1, 2, 3, 4, 5, 6])
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for CtcPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
