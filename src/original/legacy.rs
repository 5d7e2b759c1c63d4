//! Legacy calls as operations of the original's graph interface: how they outlive the calls.
//!
//! Everything comes from this library's plain data, so that the original needs to know no legacy
//! descriptor. What a graph does not express is `None`, and this library serves it.

use std::ffi::c_void;

use super::objects::execute;
use super::operations::Builder;
use super::{Failed, Library, Twin};
use crate::desc::{ActivationDescriptor, ConvolutionDescriptor, PoolingDescriptor, TensorDescriptor};
use crate::dtype::DataType;

/// What data of a plan are aligned to, in bytes.
pub const ALIGNMENT: usize = 16;

/// The factors of a result and of what it is added to.
pub type Factors = [f64; 2];

/// What a legacy call computes. Tensors are numbered by their places in the list of the call.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "fields are named as the arguments of the calls")]
pub enum Legacy {
    /// x, w as a tensor, y.
    Convolution { pass: Pass, desc: ConvolutionDescriptor, tensors: [TensorDescriptor; 3], factors: Factors },
    /// x, y.
    Pooling { desc: PoolingDescriptor, tensors: [TensorDescriptor; 2], factors: Factors },
    /// x, y, dy, dx; of averages x and y are those of dx and dy.
    PoolingGradient { desc: PoolingDescriptor, tensors: [TensorDescriptor; 4], factors: Factors },
    /// x, y.
    Activation { desc: ActivationDescriptor, tensors: [TensorDescriptor; 2], factors: Factors },
    /// x, dy, dx.
    ActivationGradient { desc: ActivationDescriptor, tensors: [TensorDescriptor; 3], factors: Factors },
    /// x, y, parameters: x, y, scale, bias, mean, variance.
    Inference { tensors: [TensorDescriptor; 3], epsilon: f64, factors: Factors },
    /// x, y, parameters: x, y, scale, bias, mean, inverse deviation, running mean and variance,
    /// if there are any.
    Training { tensors: [TensorDescriptor; 3], epsilon: f64, factor: Option<f64>, factors: Factors },
    /// x, dy, dx, parameters: x, dy, dx, scale, the gradients of scale and bias, mean, inverse
    /// deviation.
    TrainingGradient { tensors: [TensorDescriptor; 4], epsilon: f64, factors: [Factors; 2] },
}

/// Which operand a convolution computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the operands are named as everywhere")]
pub enum Pass {
    Y,
    Dx,
    Dw,
}

/// What a plan is made for.
#[derive(Clone, Copy)]
pub enum Device<'a> {
    /// The device of a handle.
    Handle(&'a Twin),
    /// One that properties describe: there its plans are made, with their sizes, and do not run.
    Described(&'a Twin),
}

/// A plan of the original for a legacy call.
#[derive(Debug)]
pub struct LegacyPlan {
    library: &'static Library,
    plan: Twin,
    workspace: usize,
    /// Numbers that the plan reads from host memory, by the numbers of their tensors.
    scalars: Vec<(i64, Box<f64>)>,
    /// The bytes of each are those of a `float` unless the call computes in `double`.
    is_double: bool,
    _objects: Vec<Twin>,
}

impl LegacyPlan {
    /// A plan for a device, with a workspace of at most `most` bytes.
    ///
    /// # Errors
    /// As the original answers; `None` for what no graph expresses.
    pub fn new(
        library: &'static Library, device: Device<'_>, of: &Legacy, most: usize,
    ) -> Result<LegacyPlan, Option<Failed>> {
        let mut graph = Builder::new(library, of.is_double());
        let operations = of.operations(&mut graph)?;
        let (plan, workspace) = graph.objects.plan(device, &operations, most)?;
        let Builder { objects, scalars, is_double } = graph;
        Ok(LegacyPlan { library, plan, workspace, scalars, is_double, _objects: objects.into_made() })
    }

    /// Bytes of workspace that it takes.
    pub fn workspace(&self) -> usize {
        self.workspace
    }

    /// Runs it on the tensors of the call, in the order of its list.
    ///
    /// # Errors
    /// As the original answers.
    ///
    /// # Safety
    /// The handle is that of the plan. The pointers are valid for the spans of their tensors, the
    /// workspace for what the plan takes, until the work is done.
    pub unsafe fn run(
        &self, handle: &Twin, data: &[*mut c_void], workspace: *mut c_void,
    ) -> Result<(), Failed> {
        // Of each scalar as many bytes as its type has.
        let narrow: Vec<f32> = self.scalars.iter().map(|(_, value)| **value as f32).collect();
        let mut all: Vec<(i64, *mut c_void)> = (1..).zip(data.iter().copied()).collect();
        for ((number, value), narrow) in self.scalars.iter().zip(&narrow) {
            let at: *const c_void =
                if self.is_double { (&raw const **value).cast() } else { std::ptr::from_ref(narrow).cast() };
            all.push((*number, at.cast_mut()));
        }
        let objects = [handle.pointer(), self.plan.pointer()];
        // SAFETY: as the caller says; scalars are read before the call returns.
        unsafe { execute(self.library, objects, &all, workspace) }
    }
}

impl Legacy {
    /// Whether it is computed in binary64.
    fn is_double(&self) -> bool {
        let first = match self {
            Legacy::Convolution { desc, .. } => return desc.geometry.compute_type() == DataType::Double,
            Legacy::Pooling { tensors, .. } | Legacy::Activation { tensors, .. } => &tensors[0],
            Legacy::PoolingGradient { tensors, .. } | Legacy::TrainingGradient { tensors, .. } => &tensors[0],
            Legacy::ActivationGradient { tensors, .. }
            | Legacy::Inference { tensors, .. }
            | Legacy::Training { tensors, .. } => &tensors[0],
        };
        first.data_type() == DataType::Double
    }
}
