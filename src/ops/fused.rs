//! Fused operations as sequences of plans, whose intermediate results lie in the workspace.

mod affine;
mod convolved;
mod finalise;
mod mask;
mod split;
mod sum;

use self::convolved::Convolved;
use self::finalise::Finalise;
use self::split::Split;
use self::sum::Sum;
use super::part::{Part, Place};
use crate::desc::fused::{ConstantPack, PackedDescriptor};
use crate::desc::tensor::CHANNEL;
use crate::desc::{ActivationDescriptor, ActivationMode, ConvolutionDescriptor, TensorDescriptor};
use crate::error::{Error, Result};
use crate::mode::Mode;

/// Labels of constant parameters.
mod constant {
    pub const X: i32 = 0;
    pub const X_POINTER: i32 = 1;
    pub const MODE: i32 = 2;
    pub const EQ_SCALE_BIAS: i32 = 3;
    pub const EQ_SCALE_POINTER: i32 = 4;
    pub const EQ_BIAS_POINTER: i32 = 5;
    pub const ACTIVATION: i32 = 6;
    pub const CONVOLUTION: i32 = 7;
    pub const W: i32 = 8;
    pub const W_POINTER: i32 = 9;
    pub const DW: i32 = 10;
    pub const DW_POINTER: i32 = 11;
    pub const Y: i32 = 12;
    pub const Y_POINTER: i32 = 13;
    pub const DY: i32 = 14;
    pub const DY_POINTER: i32 = 15;
    pub const SUMS: i32 = 16;
    pub const SUM_POINTER: i32 = 17;
    pub const SQUARES_POINTER: i32 = 18;
    pub const NUMBERS: i32 = 19;
    pub const SCALE_POINTER: i32 = 20;
    pub const BIAS_POINTER: i32 = 21;
    pub const SAVED_MEAN_POINTER: i32 = 22;
    pub const SAVED_INVERSE_POINTER: i32 = 23;
    pub const RUNNING_MEAN_POINTER: i32 = 24;
    pub const RUNNING_VARIANCE_POINTER: i32 = 25;
    pub const Z: i32 = 26;
    pub const Z_POINTER: i32 = 27;
    pub const Z_SCALE_BIAS: i32 = 28;
    pub const Z_SCALE_POINTER: i32 = 29;
    pub const Z_BIAS_POINTER: i32 = 30;
    pub const MASK: i32 = 31;
    pub const MASK_POINTER: i32 = 32;
    pub const DX: i32 = 33;
    pub const DZ: i32 = 35;
    pub const DZ_POINTER: i32 = 36;
    pub const DSCALE_POINTER: i32 = 37;
    pub const DBIAS_POINTER: i32 = 38;
}

/// Labels of variant parameters.
mod variant {
    pub const X: i32 = 0;
    pub const EQ_SCALE: i32 = 1;
    pub const EQ_BIAS: i32 = 2;
    pub const W: i32 = 3;
    pub const DW: i32 = 4;
    pub const Y: i32 = 5;
    pub const DY: i32 = 6;
    pub const SUM: i32 = 7;
    pub const SQUARES: i32 = 8;
    pub const SCALE: i32 = 10;
    pub const BIAS: i32 = 11;
    pub const SAVED_MEAN: i32 = 12;
    pub const SAVED_INVERSE: i32 = 13;
    pub const RUNNING_MEAN: i32 = 14;
    pub const RUNNING_VARIANCE: i32 = 15;
    pub const Z: i32 = 16;
    pub const Z_SCALE: i32 = 17;
    pub const Z_BIAS: i32 = 18;
    pub const MASK: i32 = 19;
    pub const DX: i32 = 20;
    pub const DZ: i32 = 21;
    pub const DSCALE: i32 = 22;
    pub const DBIAS: i32 = 23;
}

/// Where a variant parameter points.
const fn place_of(label: i32) -> Place {
    Place::of(label as i64)
}

/// Numbers that a run brings along.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// Elements behind each sum.
    pub count: i64,
    /// Weight of the new statistics in the running ones.
    pub factor: f64,
    /// Added to a variance.
    pub epsilon: f64,
}

impl Numbers {
    /// The numbers that a plan is made with, before it runs.
    pub const SAMPLE: Numbers = Numbers { count: 1, factor: 1.0, epsilon: 1.0 };
}

/// A fused operation whose parameters fit each other.
pub enum FusedProblem {
    /// Operations 0 and 1.
    Convolved(Convolved),
    /// Operations 2 and 3.
    Finalise(Finalise),
    /// Operations 4 and 5.
    Sum(Sum),
    /// Operation 6.
    Split(Split),
}

impl FusedProblem {
    /// Checks the parameters of an operation.
    ///
    /// # Errors
    /// Bad parameter: a missing descriptor, shapes that do not fit, mode 0 of batch normalisation.
    /// Not supported: the mask of another activation than RELU; in strict mode what the original
    /// does not compute.
    pub fn new(pack: &ConstantPack, mode: Mode) -> Result<Self> {
        let number = pack.operation.number();
        if pack.is_empty() {
            return Err(Error::mismatch("the descriptors of the operation were never set"));
        }
        match number {
            0 | 1 => Convolved::new(pack, mode).map(FusedProblem::Convolved),
            2 | 3 => Finalise::new(pack).map(FusedProblem::Finalise),
            4.. if mode.is_strict() => Err(Error::unsupported(format!(
                "operation {number}: strict mode computes 0 to 3; cuDNN reserves the others for later"
            ))),
            4 | 5 => Sum::new(pack).map(FusedProblem::Sum),
            _ => Split::new(pack).map(FusedProblem::Split),
        }
    }

    /// Bytes of workspace.
    pub fn workspace(&self) -> usize {
        match self {
            FusedProblem::Convolved(problem) => problem.workspace(),
            FusedProblem::Finalise(problem) => problem.workspace(),
            FusedProblem::Sum(problem) => problem.workspace(),
            FusedProblem::Split(problem) => problem.workspace(),
        }
    }

    /// The plans, in the order in which they run.
    ///
    /// # Errors
    /// Not supported for types that are not multiplied; bad parameter for numbers out of range.
    pub fn parts(&self, numbers: Numbers) -> Result<Vec<Part>> {
        match self {
            FusedProblem::Convolved(problem) => problem.parts(),
            FusedProblem::Finalise(problem) => problem.parts(numbers),
            FusedProblem::Sum(problem) => problem.parts(),
            FusedProblem::Split(problem) => problem.parts(),
        }
    }
}

fn tensor<'a>(pack: &'a ConstantPack, label: i32, name: &str) -> Result<&'a TensorDescriptor> {
    pack.tensor(label).ok_or_else(|| Error::mismatch(format!("the descriptor of {name} was never set")))
}

/// One number per channel.
fn check_vector(name: &str, vector: &TensorDescriptor, rank: usize, channels: i64) -> Result<()> {
    let dims = vector.dims();
    let fits = dims.rank() == rank
        && dims.iter().enumerate().all(|(axis, &dim)| dim == if axis == CHANNEL { channels } else { 1 });
    if fits {
        return Ok(());
    }
    Err(Error::mismatch(format!("{name} is {dims}, where one number for each of {channels} channels fits")))
}

/// The convolution of a pack.
fn convolution(pack: &ConstantPack) -> Option<&ConvolutionDescriptor> {
    match pack.descriptor(constant::CONVOLUTION) {
        Some(PackedDescriptor::Convolution(desc)) => Some(desc),
        _ => None,
    }
}

/// The activation of a pack.
fn activation(pack: &ConstantPack) -> Option<ActivationDescriptor> {
    match pack.descriptor(constant::ACTIVATION) {
        Some(PackedDescriptor::Activation(activation)) => Some(*activation),
        _ => None,
    }
}

fn identity() -> ActivationDescriptor {
    ActivationDescriptor { mode: ActivationMode::Identity, ..ActivationDescriptor::default() }
}

/// Refuses statistics that are not per channel.
fn check_mode(pack: &ConstantPack) -> Result<()> {
    if pack.number(constant::MODE) != 0 {
        return Ok(());
    }
    Err(Error::argument("CUDNN_PARAM_BN_MODE", 0, "statistics are per channel: mode 1 or 2"))
}
